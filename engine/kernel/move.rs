//! Copies that rearrange.

use super::scatter::write_part;
use super::{Alias, Call, Emit, Kernel, Outs, axis};
use crate::error::{Error, Result};
use crate::op::fields;

/// `Noop`.
pub static NOOP: Kernel = Kernel::new(Alias::Host, no_shape, nothing);
/// Not written yet.
pub static TILE: Kernel = Kernel::unwritten();
/// Not written yet.
pub static PAD: Kernel = Kernel::unwritten();
/// `Concatenate`.
pub static CONCATENATE: Kernel = Kernel::new(Alias::Fresh, concatenate_shape, concatenate);
/// Not written yet.
pub static STACK: Kernel = Kernel::unwritten();
/// Not written yet.
pub static REPEAT: Kernel = Kernel::unwritten();
/// Not written yet.
pub static ROLL: Kernel = Kernel::unwritten();
/// Not written yet.
pub static FLIP: Kernel = Kernel::unwritten();

fn no_shape(_: &Call<'_>, _: &mut Outs) -> Result<()> {
    Ok(())
}

fn nothing(_: &Call<'_>, _: &mut Emit<'_>) -> Result<()> {
    Ok(())
}

fn concatenate_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::concatenate as f;
    let n = c.len_of(f::tensors);
    if n == 0 {
        return Err(Error::malformed("nothing is concatenated"));
    }
    let first = c.tensor_at(f::tensors, 0);
    let at = axis(c.int(f::axis)?, first.rank())?;
    let mut dims = first.dims.clone();
    let mut dtype = first.dtype;
    for i in 1..n {
        let x = c.tensor_at(f::tensors, i);
        let fits = x.rank() == dims.len() && (0..dims.len()).all(|k| k == at || x.dims[k] == dims[k]);
        if !fits {
            return Err(Error::malformed(format!(
                "tensor {i} of shape {:?} does not line up with {:?} along axis {at}",
                &x.dims[..],
                &first.dims[..]
            )));
        }
        dtype = dtype.promote(x.dtype);
        dims[at] += x.dims[at];
    }
    if (0..n).any(|i| c.tensor_at(f::tensors, i).dtype != dtype) {
        return Err(Error::unsupported("tensors of several element types are concatenated"));
    }
    out.fresh(c, f::out, dtype, &dims);
    Ok(())
}

fn concatenate(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::concatenate as f;
    let out = e.tensor(c, f::out)?;
    let at = axis(c.int(f::axis)?, out.view.rank())?;
    let mut start = 0;
    for i in 0..c.len_of(f::tensors) {
        let x = e.tensor_at(c, f::tensors, i)?;
        write_part(e, &x, &out, at, start, 1);
        start += x.view.dims[at];
    }
    Ok(())
}
