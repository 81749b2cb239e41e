//! Instructions that bracket chains, and foreign kernels.

use super::Kernel;

/// Not written yet.
pub static SCAN: Kernel = Kernel::unwritten();
/// Not written yet.
pub static IF: Kernel = Kernel::unwritten();
/// Not written yet.
pub static METAL_KERNEL: Kernel = Kernel::unwritten();
