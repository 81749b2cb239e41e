//! Writes of a part of a tensor.

use bytemuck::{Pod, Zeroable};

use super::call::slice_range;
use super::emit::{Arg, Head, Tensor, fold};
use super::{Alias, Call, Emit, Kernel, Outs, Shader, Variant, axis};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::fields;

/// `SliceUpdate`.
pub static SLICE_UPDATE: Kernel =
    Kernel::new(Alias::Update(fields::slice_update::dst), slice_update_shape, slice_update);
/// Not written yet.
pub static INDEX_COPY: Kernel = Kernel::unwritten();
/// Not written yet.
pub static SCATTER_ADD: Kernel = Kernel::unwritten();

static PART_SHADER: Shader = Shader { name: "part", text: include_str!("../../shaders/part.wgsl"), uses: &[] };

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct PartParams {
    head: Head,
    a: Arg,
    extent: u32,
    start: u32,
    step: u32,
    rows: u32,
    inner: u32,
    total: u32,
    pad: [u32; 2],
}

/// Writes `from` into rows `start`, `start + step`, ... of the row-major tensor `to` along `axis`.
/// Elements are copied as they are: both have the same dtype.
pub(crate) fn write_part(e: &mut Emit<'_>, from: &Tensor, to: &Tensor, axis: usize, start: usize, step: usize) {
    let count = from.view.count();
    if count == 0 {
        return;
    }
    let t = from.view.dtype;
    let (per, words) = ((4 / t.size()).max(1), t.size().div_ceil(4));
    let inner: usize = to.view.dims[axis + 1..].iter().product();
    let (extent, rows) = (to.view.dims[axis], from.view.dims[axis]);
    let mut head = Head::new(to, &from.view.dims);
    head.count = count as u32;
    let params = PartParams {
        head,
        a: from.arg(),
        extent: extent as u32,
        start: start as u32,
        step: step as u32,
        rows: rows as u32,
        inner: inner as u32,
        total: to.view.count() as u32,
        pad: [0; 2],
    };
    let whole = |n: usize| n % per == 0;
    let outer: usize = to.view.dims[..axis].iter().product();
    let aligned = whole(inner)
        || (step == 1 && whole(rows * inner) && whole(start * inner) && (outer == 1 || whole(extent * inner)));
    let threads = if aligned { count.div_ceil(per) } else { to.view.count().div_ceil(per) };
    let variant = Variant::new(&PART_SHADER, DType::U32.calc(), DType::U32)
        .option("PER", per as u32)
        .option("WORDS", words as u32)
        .option("ALIGNED", u32::from(aligned));
    e.dispatch_2d(&variant, &params, fold((threads as u32).div_ceil(64)));
}

fn slice_update_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::slice_update as f;
    let (dst, update) = (c.tensor(f::dst)?, c.tensor(f::update)?);
    if dst.dtype != update.dtype {
        return Err(Error::malformed(format!("the update is {}, the tensor {}", update.dtype, dst.dtype)));
    }
    let at = axis(c.int(f::axis)?, dst.rank())?;
    let step = c.int(f::step)?;
    if step < 1 {
        return Err(Error::unsupported(format!("step {step}; only positive steps are slices")));
    }
    if let (Some(start), Some(stop)) = (c.maybe_int(f::start), c.maybe_int(f::stop)) {
        let (first, last) = slice_range(start, stop, dst.dims[at]);
        let mut wanted = dst.dims.clone();
        wanted[at] = (last - first).div_ceil(step as usize);
        if update.broadcast(&wanted).is_err() {
            return Err(Error::input(format!(
                "rows {start}..{stop} of axis {at} of {:?} take an update of shape {:?}, not {:?}",
                &dst.dims[..],
                &wanted[..],
                &update.dims[..]
            )));
        }
    }
    let (dtype, dims) = (dst.dtype, dst.dims.clone());
    out.fresh(c, f::out, dtype, &dims);
    Ok(())
}

fn slice_update(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::slice_update as f;
    let (mut update, out) = (e.tensor(c, f::update)?, e.tensor(c, f::out)?);
    let at = axis(c.int(f::axis)?, out.view.rank())?;
    let step = c.int(f::step)? as usize;
    let (first, last) = slice_range(c.int(f::start)?, c.int(f::stop)?, out.view.dims[at]);
    let mut dims = out.view.dims.clone();
    dims[at] = (last - first).div_ceil(step);
    update.view = update.view.broadcast(&dims)?;
    write_part(e, &update, &out, at, first, step);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    #[test]
    fn variants_validate() {
        validate(&Variant::new(&PART_SHADER, DType::U32.calc(), DType::U32));
    }
}
