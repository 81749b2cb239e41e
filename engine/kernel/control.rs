//! Instructions that bracket chains. The walk over the timeline
//! ([`crate::plan::sizes::Walk`]) runs the brackets; no kernel of theirs does any work.

use super::{Alias, Call, Emit, Kernel, Outs};
use crate::error::Result;

/// `Scan`.
pub static SCAN: Kernel = Kernel::new(Alias::Control, nothing_to_shape, nothing_to_do);
/// `If`.
pub static IF: Kernel = Kernel::new(Alias::Control, nothing_to_shape, nothing_to_do);

fn nothing_to_shape(_: &Call<'_>, _: &mut Outs) -> Result<()> {
    Ok(())
}

fn nothing_to_do(_: &Call<'_>, _: &mut Emit<'_>) -> Result<()> {
    Ok(())
}
