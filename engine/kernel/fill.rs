//! Tensors made from numbers.

use super::Kernel;

/// Not written yet.
pub static FULL: Kernel = Kernel::unwritten();
/// Not written yet.
pub static FULL_LIKE: Kernel = Kernel::unwritten();
/// Not written yet.
pub static ARANGE: Kernel = Kernel::unwritten();
/// Not written yet.
pub static TRI: Kernel = Kernel::unwritten();
/// Not written yet.
pub static TRIL: Kernel = Kernel::unwritten();
/// Not written yet.
pub static TRIU: Kernel = Kernel::unwritten();
