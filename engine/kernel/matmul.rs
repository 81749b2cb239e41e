//! Matrix products of floats.

use super::Kernel;

/// Not written yet.
pub static ADDMM: Kernel = Kernel::unwritten();
/// Not written yet.
pub static GATHER_MM: Kernel = Kernel::unwritten();
