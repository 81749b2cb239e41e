//! Attention.

use super::Kernel;

/// Not written yet.
pub static SDPA: Kernel = Kernel::unwritten();
/// Not written yet.
pub static UPDATE_AND_ATTEND: Kernel = Kernel::unwritten();
