//! Copies that rearrange.

use super::Kernel;

/// Not written yet.
pub static NOOP: Kernel = Kernel::unwritten();
/// Not written yet.
pub static TILE: Kernel = Kernel::unwritten();
/// Not written yet.
pub static PAD: Kernel = Kernel::unwritten();
/// Not written yet.
pub static CONCATENATE: Kernel = Kernel::unwritten();
/// Not written yet.
pub static STACK: Kernel = Kernel::unwritten();
/// Not written yet.
pub static REPEAT: Kernel = Kernel::unwritten();
/// Not written yet.
pub static ROLL: Kernel = Kernel::unwritten();
/// Not written yet.
pub static FLIP: Kernel = Kernel::unwritten();
