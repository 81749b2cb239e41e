//! Convolutions.

use super::Kernel;

/// Not written yet.
pub static CONV: Kernel = Kernel::unwritten();
/// Not written yet.
pub static CONV_TRANSPOSE: Kernel = Kernel::unwritten();
