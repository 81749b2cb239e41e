//! Writes of a part of a tensor.

use super::Kernel;

/// Not written yet.
pub static SLICE_UPDATE: Kernel = Kernel::unwritten();
/// Not written yet.
pub static INDEX_COPY: Kernel = Kernel::unwritten();
/// Not written yet.
pub static SCATTER_ADD: Kernel = Kernel::unwritten();
