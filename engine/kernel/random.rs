//! Random bits.

use super::Kernel;

/// Not written yet.
pub static RANDOM_BITS: Kernel = Kernel::unwritten();
