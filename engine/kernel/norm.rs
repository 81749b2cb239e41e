//! Normalisations over an axis.

use super::Kernel;

/// Not written yet.
pub static RMS_NORM: Kernel = Kernel::unwritten();
/// Not written yet.
pub static LAYER_NORM: Kernel = Kernel::unwritten();
/// Not written yet.
pub static SOFTMAX: Kernel = Kernel::unwritten();
