//! Rotary position embedding.

use super::Kernel;

/// Not written yet.
pub static ROPE: Kernel = Kernel::unwritten();
