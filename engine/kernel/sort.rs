//! Orderings along an axis.

use super::Kernel;

/// Not written yet.
pub static SORT: Kernel = Kernel::unwritten();
