//! Reductions over axes.

use super::Kernel;

/// Not written yet.
pub static REDUCE: Kernel = Kernel::unwritten();
/// Not written yet.
pub static ARG: Kernel = Kernel::unwritten();
/// Not written yet.
pub static CUMSUM: Kernel = Kernel::unwritten();
