//! Copies that rearrange.

use bytemuck::{Pod, Zeroable};

use super::call::restride;
use super::emit::{Arg, Head, Tensor};
use super::fill::{bits_of, check_rank, check_size, size};
use super::map::{pull, raw};
use super::scatter::{Region, put_region};
use super::view::{emit_view, view};
use super::{Alias, Call, Contiguity, Dims, Emit, Kernel, Outs, Shader, Value, Variant, axis};
use crate::error::{Error, Result};
use crate::op::{Field, fields};

/// `Noop`.
pub static NOOP: Kernel = Kernel::new(Alias::Host, |_, _| Ok(()), |_, _| Ok(()));
/// `Tile`.
pub static TILE: Kernel = Kernel::new(Alias::Fresh, tile_shape, tile);
/// `Pad`.
pub static PAD: Kernel = Kernel::new(Alias::Fresh, pad_shape, pad);
/// `Concatenate`.
pub static CONCATENATE: Kernel = Kernel::new(Alias::Fresh, concatenate_shape, concatenate);
/// `Stack`.
pub static STACK: Kernel = Kernel::new(Alias::Fresh, stack_shape, stack);
/// `Repeat`.
pub static REPEAT: Kernel = Kernel::new(Alias::Fresh, repeat_shape, repeat);
/// `Roll`.
pub static ROLL: Kernel = Kernel::new(Alias::Fresh, roll_shape, roll);
/// `Flip`: a view with negative strides.
pub static FLIP: Kernel = view(Contiguity::Breaks, flip);

static MAP_SHADER: Shader = Shader { name: "move_map", text: include_str!("../../shaders/move_map.wgsl"), uses: &[] };

/// What a coordinate outside the input reads.
#[derive(Clone, Copy)]
enum Edge {
    Wrap = 0,
    Clamp = 1,
    Constant = 2,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct MapParams {
    head: Head,
    a: Arg,
    size: [u32; 8],
    add: [i32; 8],
    repeat_dim: u32,
    repeats: u32,
    edge: u32,
    constant: [u32; 2],
    pad: [u32; 3],
}

impl MapParams {
    /// Output coordinate `o` of every dim reads input coordinate `o`, modulo its size.
    fn new(x: &Tensor, out: &Tensor, edge: Edge) -> Self {
        let lead = out.view.rank() - x.view.rank();
        let mut p = Self {
            head: Head::new(out, &out.view.dims),
            a: Arg::new(x.space, x.offset, &[], false),
            size: [1; 8],
            add: [0; 8],
            repeat_dim: u32::MAX,
            repeats: 1,
            edge: edge as u32,
            constant: [0; 2],
            pad: [0; 3],
        };
        for i in 0..x.view.rank() {
            p.size[lead + i] = x.view.dims[i] as u32;
            p.a.strides[lead + i] = x.view.strides[i] as i32;
        }
        p
    }
    fn emit(&self, e: &mut Emit<'_>, out: &Tensor) -> Result<()> {
        let t = raw(out.view.dtype);
        // Constants come as two words.
        let variant = Variant::new(&MAP_SHADER, crate::dtype::Calc::I64, t).inputs(&[t]);
        pull(e, &variant, self, &self.head, t);
        Ok(())
    }
}

fn tile_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::tile as f;
    let x = c.tensor(f::x)?;
    let reps = c.ints(f::reps);
    let rank = x.rank().max(reps.len());
    check_rank(rank)?;
    let dims = (0..rank)
        .map(|i| {
            let d = (i + x.rank()).checked_sub(rank).map_or(1, |i| x.dims[i]);
            let r = (i + reps.len()).checked_sub(rank).map_or(Ok(1), |i| size(reps[i], "a repetition"))?;
            d.checked_mul(r).ok_or_else(|| Error::limit(format!("{d} elements {r} times")))
        })
        .collect::<Result<Dims>>()?;
    check_size(x.dtype, &dims)?;
    out.fresh(c, f::out, x.dtype, &dims);
    Ok(())
}

fn tile(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::tile as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    MapParams::new(&x, &out, Edge::Wrap).emit(e, &out)
}

fn pad_edge(c: &Call<'_>) -> Result<Edge> {
    match c.text(fields::pad::mode) {
        "constant" => Ok(Edge::Constant),
        "edge" => Ok(Edge::Clamp),
        other => Err(Error::unsupported(format!("mode {other:?}; constant and edge are known")).at("field mode")),
    }
}

fn pad_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::pad as f;
    let x = c.tensor(f::x)?;
    let widths = c.ints(f::pad_width);
    if widths.len() != 2 * x.rank() {
        return Err(Error::malformed(format!("{} widths for rank {}", widths.len(), x.rank())));
    }
    let edge = pad_edge(c)?;
    let mut dims = x.dims.clone();
    for (d, pair) in dims.iter_mut().zip(widths.chunks(2)) {
        let (before, after) = (size(pair[0], "a width")?, size(pair[1], "a width")?);
        if *d == 0 && before + after > 0 && matches!(edge, Edge::Clamp) {
            return Err(Error::malformed("an empty axis has no edge to repeat"));
        }
        let sum = d.checked_add(before).and_then(|d| d.checked_add(after));
        *d = sum.ok_or_else(|| Error::limit(format!("{d} elements padded by {before} and {after}")))?;
    }
    check_size(x.dtype, &dims)?;
    out.fresh(c, f::out, x.dtype, &dims);
    Ok(())
}

fn pad(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::pad as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let mut p = MapParams::new(&x, &out, pad_edge(c)?);
    for (add, pair) in p.add.iter_mut().zip(c.ints(f::pad_width).chunks(2)) {
        *add = -(pair[0].unwrap_or(0) as i32);
    }
    let constant = bits_of(Value::Float(c.float(f::constant_value)?), x.view.dtype)?;
    p.constant = [constant as u32, (constant >> 32) as u32];
    p.emit(e, &out)
}

fn list(c: &Call<'_>, field: Field) -> Result<usize> {
    match c.len_of(field) {
        0 => Err(Error::malformed("no tensors are given")),
        n => Ok(n),
    }
}

fn concatenate_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::concatenate as f;
    let count = list(c, f::tensors)?;
    let first = c.tensor_at(f::tensors, 0);
    let at = axis(c.int(f::axis)?, first.rank())?;
    let (mut dims, mut dtype, mut sum) = (first.dims.clone(), first.dtype, 0usize);
    for i in 0..count {
        let x = c.tensor_at(f::tensors, i);
        let same = x.rank() == dims.len() && (0..dims.len()).all(|k| k == at || x.dims[k] == dims[k]);
        if !same {
            return Err(Error::malformed(format!(
                "tensor {i} has shape {:?}, which does not follow {:?} along axis {at}",
                &x.dims[..],
                &first.dims[..]
            )));
        }
        dtype = dtype.promote(x.dtype);
        sum = sum.checked_add(x.dims[at]).ok_or_else(|| Error::limit("the sizes overflow"))?;
    }
    dims[at] = sum;
    check_size(dtype, &dims)?;
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
        let count = x.view.dims[at];
        put_region(e, &x, &out, Region { axis: at, start, step: 1, count })?;
        start += count;
    }
    Ok(())
}

fn stack_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::stack as f;
    let count = list(c, f::tensors)?;
    let first = c.tensor_at(f::tensors, 0);
    check_rank(first.rank() + 1)?;
    let at = axis(c.int(f::axis)?, first.rank() + 1)?;
    let mut dtype = first.dtype;
    for i in 0..count {
        let x = c.tensor_at(f::tensors, i);
        if x.dims != first.dims {
            return Err(Error::malformed(format!(
                "tensor {i} has shape {:?}, the first {:?}",
                &x.dims[..],
                &first.dims[..]
            )));
        }
        dtype = dtype.promote(x.dtype);
    }
    let mut dims = first.dims.clone();
    dims.insert(at, count);
    check_size(dtype, &dims)?;
    out.fresh(c, f::out, dtype, &dims);
    Ok(())
}

fn stack(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::stack as f;
    let out = e.tensor(c, f::out)?;
    let at = axis(c.int(f::axis)?, out.view.rank())?;
    for i in 0..c.len_of(f::tensors) {
        let mut x = e.tensor_at(c, f::tensors, i)?;
        x.view.dims.insert(at, 1);
        x.view.strides.insert(at, 0);
        put_region(e, &x, &out, Region { axis: at, start: i, step: 1, count: 1 })?;
    }
    Ok(())
}

fn repeat_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::repeat as f;
    let x = c.tensor(f::x)?;
    let at = axis(c.int(f::axis)?, x.rank())?;
    let times = size(c.maybe_int(f::repeats), "repeats")?;
    let mut dims = x.dims.clone();
    dims[at] =
        dims[at].checked_mul(times).ok_or_else(|| Error::limit(format!("{} elements {times} times", x.dims[at])))?;
    check_size(x.dtype, &dims)?;
    out.fresh(c, f::out, x.dtype, &dims);
    Ok(())
}

fn repeat(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::repeat as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let mut p = MapParams::new(&x, &out, Edge::Wrap);
    p.repeat_dim = axis(c.int(f::axis)?, x.view.rank())? as u32;
    p.repeats = c.int(f::repeats)? as u32;
    p.emit(e, &out)
}

fn roll_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::roll as f;
    let x = c.tensor(f::x)?;
    let axes = c.ints(f::axes);
    if c.len_of(f::shift) < axes.len() {
        return Err(Error::malformed(format!("{} shifts for {} axes", c.len_of(f::shift), axes.len())));
    }
    axes.iter().try_for_each(|a| axis(a.unwrap_or(0), x.rank()).map(drop))?;
    out.fresh(c, f::out, x.dtype, &x.dims);
    Ok(())
}

fn roll(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::roll as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let mut p = MapParams::new(&x, &out, Edge::Wrap);
    for (i, a) in c.ints(f::axes).iter().enumerate() {
        let a = axis(a.unwrap_or(0), x.view.rank())?;
        let Some(shift) = c.ints(f::shift)[i] else {
            return Err(Error::unsupported("a shift depends on tensor data and is not known here"));
        };
        let n = x.view.dims[a].max(1) as i128;
        p.add[a] = (i128::from(p.add[a]) - i128::from(shift)).rem_euclid(n) as i32;
    }
    p.emit(e, &out)
}

fn flip(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::flip as f;
    let rank = c.tensor(f::x)?.rank();
    let axes = c.ints(f::axes).iter().map(|a| axis(a.unwrap_or(0), rank)).collect::<Result<Dims>>()?;
    emit_view(c, out, f::out, |x| {
        let (mut strides, mut offset) = (x.strides.clone(), x.offset as isize);
        for (i, s) in strides.iter_mut().enumerate() {
            if axes.contains(&i) && x.dims[i] > 0 {
                offset += (x.dims[i] as isize - 1) * *s;
                *s = -*s;
            }
        }
        Ok(restride(x, x.dims.clone(), strides, offset as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;
    use crate::dtype::{Calc, DType};

    #[test]
    fn every_variant_is_valid() {
        for t in [DType::I64, DType::U32, DType::I16, DType::U8] {
            validate(&Variant::new(&MAP_SHADER, Calc::I64, t).inputs(&[t]));
        }
    }
}
