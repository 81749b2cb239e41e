//! Reads at indices that tensors hold.

use super::Kernel;

/// Not written yet.
pub static TAKE: Kernel = Kernel::unwritten();
/// Not written yet.
pub static TAKE_ALONG_AXIS: Kernel = Kernel::unwritten();
/// Not written yet.
pub static GATHER: Kernel = Kernel::unwritten();
