//! Reads at indices that tensors hold.

use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;

use super::call::Known;
use super::emit::{Arg, Head, Tensor, collapse};
use super::fill::{check_rank, check_size};
use super::map::{copy, pull, raw};
use super::scatter::{INDEX, check_indices};
use super::view::narrow;
use super::{Alias, Call, Contiguity, Dims, Emit, Kernel, Outs, Shader, Strides, Variant, View, axis, broadcast_dims};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::fields;

/// `Take`: with one index a view, with a tensor of indices a gather.
pub static TAKE: Kernel = Kernel::new(
    Alias::ViewUnlessTensor { of: fields::take::x, contiguity: Contiguity::Breaks, index: fields::take::index },
    take_shape,
    take,
);
/// `TakeAlongAxis`.
pub static TAKE_ALONG_AXIS: Kernel = Kernel::new(Alias::Fresh, along_shape, along);
/// `Gather`.
pub static GATHER: Kernel = Kernel::new(Alias::Fresh, gather_shape, gather).with_scratch(1);

static GATHER_SHADER: Shader =
    Shader { name: "gather", text: include_str!("../../shaders/gather.wgsl"), uses: &[INDEX] };
static OFFSETS_SHADER: Shader =
    Shader { name: "gather_offsets", text: include_str!("../../shaders/gather_offsets.wgsl"), uses: &[INDEX] };

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct GatherParams {
    head: Head,
    a: Arg,
    b: Arg,
    size: u32,
    stride: i32,
    pad: [u32; 2],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct OffsetsParams {
    head: Head,
    b: Arg,
    size: u32,
    stride: i32,
    add: u32,
    pad: u32,
}

/// Emits `out[i] = x[base(i) + index(i) * stride]`; `bases` and `places` are strides of `x` and of the
/// indices over the output's dims.
pub(super) fn pick(
    e: &mut Emit<'_>,
    x: &Tensor,
    indices: &Tensor,
    out: &Tensor,
    [bases, places]: [&Strides; 2],
    [size, stride]: [isize; 2],
) {
    let (dims, [sa, sb]) = collapse(&out.view.dims, [bases, places]);
    let params = GatherParams {
        head: Head::new(out, &dims),
        a: Arg::new(x.space, x.offset, &sa, false),
        b: Arg::new(indices.space, indices.offset, &sb, false),
        size: size as u32,
        stride: stride as i32,
        pad: [0; 2],
    };
    let t = raw(out.view.dtype);
    pull(e, &Variant::new(&GATHER_SHADER, t.calc(), t).inputs(&[t, indices.view.dtype]), &params, &params.head, t);
}

fn not_empty(size: usize, axis: usize, picks: usize) -> Result<()> {
    if size == 0 && picks > 0 {
        return Err(Error::malformed(format!("{picks} indices into axis {axis}, which is empty")));
    }
    Ok(())
}

/// Element `index` of one axis, which vanishes.
fn select(x: &View, at: usize, index: usize) -> View {
    let mut v = narrow(x, at, index, index + 1, 1);
    v.dims.remove(at);
    v.strides.remove(at);
    v
}

/// The literal index of a `Take`, once it is known.
fn take_index(c: &Call<'_>, size: usize) -> Result<Option<usize>> {
    let Some(index) = c.maybe_int(fields::take::index) else { return Ok(None) };
    let n = size as i64;
    if index < -n || index >= n {
        return Err(Error::malformed(format!("index {index} is out of range for an axis of {size}")));
    }
    Ok(Some(if index < 0 { index + n } else { index } as usize))
}

fn take_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::take as f;
    let x = c.tensor(f::x)?;
    let at = axis(c.int(f::axis)?, x.rank())?;
    let Some(indices) = c.optional(f::index) else {
        // Of an index not known yet only the place is open, not the shape.
        let index = take_index(c, x.dims[at])?.unwrap_or(0);
        not_empty(x.dims[at], at, 1)?;
        out.view(c, f::out, select(x, at, index));
        match c.known(f::x) {
            Known::Fill(v) => out.know(c, f::out, Known::Fill(*v)),
            Known::Input { port, view } if c.maybe_int(f::index).is_some() => {
                out.know(c, f::out, Known::Input { port: *port, view: select(view, at, index) });
            }
            _ => {}
        }
        return Ok(());
    };
    check_indices(indices)?;
    not_empty(x.dims[at], at, indices.count())?;
    let dims: Dims = x.dims[..at].iter().chain(&indices.dims).chain(&x.dims[at + 1..]).copied().collect();
    check_rank(dims.len())?;
    check_size(x.dtype, &dims)?;
    out.fresh(c, f::out, x.dtype, &dims);
    Ok(())
}

fn take(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::take as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let at = axis(c.int(f::axis)?, x.view.rank())?;
    let size = x.view.dims[at];
    let Some(indices) = e.optional(c, f::index)? else {
        let index = take_index(c, size)?
            .ok_or_else(|| Error::unsupported("the index depends on tensor data and is not known here"))?;
        return copy(e, &x.with_view(select(&x.view, at, index)), &out);
    };
    let (before, after) = (at, x.view.rank() - at - 1);
    let zeros = |n: usize| std::iter::repeat_n(0isize, n);
    let bases = x.view.strides[..at]
        .iter()
        .copied()
        .chain(zeros(indices.view.rank()))
        .chain(x.view.strides[at + 1..].iter().copied())
        .collect();
    let places = zeros(before).chain(indices.view.strides.iter().copied()).chain(zeros(after)).collect();
    pick(e, &x, &indices, &out, [&bases, &places], [size as isize, x.view.strides[at]]);
    Ok(())
}

/// The sizes of `TakeAlongAxis`: those of the indices along the axis, else what both broadcast to.
fn along_dims(x: &View, indices: &View, at: usize) -> Result<Dims> {
    if x.rank() != indices.rank() {
        return Err(Error::malformed(format!("indices of rank {} into rank {}", indices.rank(), x.rank())));
    }
    let mut base = x.dims.clone();
    base[at] = indices.dims[at];
    broadcast_dims(&base, &indices.dims)
}

fn along_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::take_along_axis as f;
    let (x, indices) = (c.tensor(f::x)?, c.tensor(f::indices)?);
    let at = axis(c.int(f::axis)?, x.rank())?;
    check_indices(indices)?;
    let dims = along_dims(x, indices, at)?;
    not_empty(x.dims[at], at, dims.iter().product())?;
    check_size(x.dtype, &dims)?;
    out.fresh(c, f::out, x.dtype, &dims);
    Ok(())
}

fn along(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::take_along_axis as f;
    let (x, indices, out) = (e.tensor(c, f::x)?, e.tensor(c, f::indices)?, e.tensor(c, f::out)?);
    let at = axis(c.int(f::axis)?, x.view.rank())?;
    let mut base = x.view.clone();
    (base.dims[at], base.strides[at]) = (1, 0);
    let bases = base.broadcast(&out.view.dims)?.strides;
    let places = indices.view.broadcast(&out.view.dims)?.strides;
    pick(e, &x, &indices, &out, [&bases, &places], [x.view.dims[at] as isize, x.view.strides[at]]);
    Ok(())
}

/// The axes that a `Gather` indexes, the sizes of its index tensors together and of the slices it reads.
struct GatherDims {
    axes: SmallVec<[usize; 8]>,
    indices: Dims,
    slices: Dims,
}

fn gather_dims(c: &Call<'_>, x: &View) -> Result<GatherDims> {
    use fields::gather as f;
    let given = c.ints(f::axes);
    let axes = given.iter().map(|a| axis(a.unwrap_or(0), x.rank())).collect::<Result<SmallVec<[usize; 8]>>>()?;
    let count = c.len_of(f::indices);
    if axes.len() != count || (1..count).any(|i| axes[..i].contains(&axes[i])) {
        return Err(Error::malformed(format!("{count} index tensors for axes {:?}", &axes[..])));
    }
    let wanted = c.ints(f::slice_sizes);
    let fits = |(s, &d): (&Option<i64>, &usize)| s.is_some_and(|s| s >= 0 && s as u64 <= d as u64);
    if wanted.len() != x.rank() || !wanted.iter().zip(&x.dims).all(fits) {
        return Err(Error::malformed(format!("slices of {wanted:?} from {:?}", &x.dims[..])));
    }
    let slices = wanted.iter().map(|s| s.unwrap_or(0) as usize).collect();
    let mut indices = Dims::new();
    for i in 0..count {
        check_indices(c.tensor_at(f::indices, i))?;
        indices = broadcast_dims(&indices, &c.tensor_at(f::indices, i).dims)?;
    }
    Ok(GatherDims { axes, indices, slices })
}

fn gather_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::gather as f;
    let x = c.tensor(f::x)?;
    let d = gather_dims(c, x)?;
    let dims: Dims = d.indices.iter().chain(&d.slices).copied().collect();
    check_rank(dims.len())?;
    check_size(x.dtype, &dims)?;
    let picks = d.indices.iter().product();
    check_size(DType::U32, &d.indices)?;
    d.axes.iter().try_for_each(|&a| not_empty(x.dims[a], a, picks))?;
    out.scratch_words(picks);
    out.fresh(c, f::out, x.dtype, &dims);
    Ok(())
}

fn gather(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::gather as f;
    let (x, out, offsets) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?, e.scratch(c, 0)?);
    let d = gather_dims(c, &x.view)?;
    for (i, &a) in d.axes.iter().enumerate() {
        let indices = e.tensor_at(c, f::indices, i)?;
        let view = indices.view.broadcast(&d.indices)?;
        let (walk, [s]) = collapse(&d.indices, [&view.strides]);
        // A slice may begin no later than where it still fits.
        let params = OffsetsParams {
            head: Head::new(&offsets, &walk),
            b: Arg::new(indices.space, indices.offset, &s, false),
            size: (x.view.dims[a] - d.slices[a] + 1).min(x.view.dims[a]) as u32,
            stride: x.view.strides[a] as i32,
            add: u32::from(i > 0),
            pad: 0,
        };
        let t = DType::U32;
        pull(e, &Variant::new(&OFFSETS_SHADER, t.calc(), t).inputs(&[indices.view.dtype]), &params, &params.head, t);
    }
    let rows = View::contiguous(DType::U32, &d.indices);
    let bases = std::iter::repeat_n(0, rows.rank()).chain(x.view.strides.iter().copied()).collect();
    let places = rows.strides.iter().copied().chain(std::iter::repeat_n(0, x.view.rank())).collect();
    if d.axes.is_empty() {
        return copy(e, &x.with_view(whole_slices(&x.view, &d.slices)), &out);
    }
    pick(e, &x, &offsets, &out, [&bases, &places], [0, 1]);
    Ok(())
}

/// The first slice of `x`.
fn whole_slices(x: &View, slices: &[usize]) -> View {
    View { dims: slices.into(), ..x.clone() }
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    #[test]
    fn every_variant_is_valid() {
        for index in DType::ALL.into_iter().filter(|t| !t.is_float()) {
            for t in [DType::I64, DType::U32, DType::I16, DType::U8] {
                validate(&Variant::new(&GATHER_SHADER, t.calc(), t).inputs(&[t, index]));
            }
            validate(&Variant::new(&OFFSETS_SHADER, DType::U32.calc(), DType::U32).inputs(&[index]));
        }
    }

    #[test]
    fn a_select_drops_its_axis() {
        let v = select(&View::contiguous(DType::F32, &[2, 3, 4]), 1, 2);
        assert_eq!((&v.dims[..], &v.strides[..], v.offset), (&[2, 4][..], &[12, 1][..], 8));
    }

    #[test]
    fn indices_along_an_axis_stretch_the_others() {
        let x = View::contiguous(DType::F32, &[2, 5, 1]);
        let i = View::contiguous(DType::I64, &[1, 3, 4]);
        assert_eq!(&along_dims(&x, &i, 1).unwrap()[..], &[2, 3, 4]);
        assert!(along_dims(&x, &View::contiguous(DType::I64, &[3]), 1).is_err());
    }
}
