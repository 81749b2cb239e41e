//! Writes of a part of a tensor.
//!
//! The output holds the old contents before `encode` runs. Narrow elements are packed in words, and one
//! thread owns each word that is written: rows that are whole words are written row by row, others by
//! walking the words of the output and merging.

use bytemuck::{Pod, Zeroable};

use super::call::slice_range;
use super::emit::{Arg, Head, Tensor, collapse};
use super::map::{pull, raw};
use super::{Alias, Call, Dims, Emit, Kernel, Outs, Shader, Variant, View, axis};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::fields;

/// `SliceUpdate`.
pub static SLICE_UPDATE: Kernel = Kernel::new(Alias::Update(fields::slice_update::dst), slice_shape, slice_update);
/// `IndexCopy`.
pub static INDEX_COPY: Kernel =
    Kernel::new(Alias::Update(fields::index_copy::dst), index_shape, index_copy).with_scratch(1);
/// `ScatterAdd`.
pub static SCATTER_ADD: Kernel = Kernel::new(Alias::Update(fields::scatter_add::x), scatter_shape, scatter_add);

pub(super) const INDEX: &str = include_str!("../../shaders/index.wgsl");

static REGION_SHADER: Shader =
    Shader { name: "put_region", text: include_str!("../../shaders/put_region.wgsl"), uses: &[] };
static INDEXED_SHADER: Shader =
    Shader { name: "put_indexed", text: include_str!("../../shaders/put_indexed.wgsl"), uses: &[INDEX] };
static REPEATS_SHADER: Shader =
    Shader { name: "index_repeats", text: include_str!("../../shaders/index_repeats.wgsl"), uses: &[INDEX] };
static SCATTER_SHADER: Shader = Shader {
    name: "scatter_add",
    text: include_str!("../../shaders/scatter_add.wgsl"),
    uses: &[include_str!("../../shaders/ops_binary.wgsl"), INDEX],
};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RegionParams {
    head: Head,
    a: Arg,
    run: u32,
    turns: u32,
    outer_pitch: u32,
    turn_pitch: u32,
    base: u32,
    merge: u32,
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct IndexedParams {
    head: Head,
    a: Arg,
    b: Arg,
    run: u32,
    rows: u32,
    size: u32,
    merge: u32,
    space: u32,
    word: u32,
    flags: u32,
    words: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RepeatsParams {
    head: Head,
    b: Arg,
    size: u32,
    pad: [u32; 3],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ScatterParams {
    head: Head,
    a: Arg,
    b: Arg,
    a_stride: i32,
    b_stride: i32,
    rows: u32,
    size: u32,
    inner: u32,
    own: u32,
    pad: [u32; 2],
}

/// The part of a row-major tensor with indices `start, start + step, ..` along one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Region {
    /// The axis.
    pub(super) axis: usize,
    /// First index.
    pub(super) start: usize,
    /// Distance of indices.
    pub(super) step: usize,
    /// Number of indices.
    pub(super) count: usize,
}

impl Region {
    /// Its sizes in a tensor of `dims`.
    pub(super) fn dims(&self, dims: &[usize]) -> Dims {
        let mut d: Dims = dims.into();
        d[self.axis] = self.count;
        d
    }
}

/// Elements per word of a packed type; 1 for wide ones.
fn lanes(t: DType) -> usize {
    (4 / t.size()).max(1)
}

/// The types to move `from` into `to` with: bits where they are the same type.
fn moved(from: DType, to: DType) -> (DType, DType) {
    if from == to { (raw(from), raw(to)) } else { (from, to) }
}

/// Writes `src`, broadcast to the region's sizes, over a region of `out`.
///
/// # Errors
/// When it does not broadcast.
pub(super) fn put_region(e: &mut Emit<'_>, src: &Tensor, out: &Tensor, region: Region) -> Result<()> {
    let dims = region.dims(&out.view.dims);
    let src_view = src.view.broadcast(&dims)?;
    if src_view.count() == 0 {
        return Ok(());
    }
    let (walk, [strides]) = collapse(&dims, [&src_view.strides]);
    let inner: usize = out.view.dims[region.axis + 1..].iter().product();
    let pitch = out.view.dims[region.axis] * inner;
    let outer: usize = out.view.dims[..region.axis].iter().product();
    let (run, turns, turn_pitch) =
        if region.step == 1 { (region.count * inner, 1, pitch) } else { (inner, region.count, region.step * inner) };
    let base = region.start * inner;
    let (from, to) = moved(src.view.dtype, out.view.dtype);
    let per_word = lanes(to);
    let whole = [run, pitch, turn_pitch, base].iter().all(|n| n.is_multiple_of(per_word))
        || outer * turns == 1 && {
            // A single row: the words at its ends may still be shared with what lies beside it.
            run.is_multiple_of(per_word) && base.is_multiple_of(per_word)
        };
    let end = base + (outer - 1) * pitch + (turns - 1) * turn_pitch + run;
    let params = RegionParams {
        head: Head::new(out, &walk),
        a: Arg::new(src.space, src.offset, &strides, src_view.is_contiguous()),
        run: run as u32,
        turns: turns as u32,
        outer_pitch: pitch as u32,
        turn_pitch: turn_pitch as u32,
        base: base as u32,
        merge: u32::from(!whole),
        first: (base / per_word) as u32,
        last: ((end - 1) / per_word) as u32,
    };
    let threads = if whole { params.head.threads(to) } else { params.last - params.first + 1 };
    let variant = Variant::new(&REGION_SHADER, to.calc(), to).inputs(&[from]);
    let variant = if from == to { variant } else { Variant { calc: from.calc(), ..variant } };
    e.dispatch(&variant, &params, threads.div_ceil(64));
    Ok(())
}

/// The region that a `SliceUpdate` writes; `None` while its bounds are not known.
fn slice_region(c: &Call<'_>, dims: &[usize]) -> Result<Option<Region>> {
    use fields::slice_update as f;
    let at = axis(c.int(f::axis)?, dims.len())?;
    let step = c.int(f::step)?;
    if step < 1 {
        return Err(Error::malformed(format!("step {step}; it must be positive")));
    }
    let (Some(start), Some(stop)) = (c.maybe_int(f::start), c.maybe_int(f::stop)) else { return Ok(None) };
    let (start, stop) = slice_range(start, stop, dims[at]);
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    Ok(Some(Region { axis: at, start, step, count: (stop - start).div_ceil(step) }))
}

fn slice_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::slice_update as f;
    let (dst, update) = (c.tensor(f::dst)?, c.tensor(f::update)?);
    if let Some(region) = slice_region(c, &dst.dims)?
        && region.count > 0
    {
        update.broadcast(&region.dims(&dst.dims))?;
    }
    out.fresh(c, f::out, dst.dtype, &dst.dims);
    Ok(())
}

fn slice_update(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::slice_update as f;
    let (update, out) = (e.tensor(c, f::update)?, e.tensor(c, f::out)?);
    match slice_region(c, &out.view.dims)? {
        Some(region) if region.count > 0 => put_region(e, &update, &out, region),
        Some(_) => Ok(()),
        None => Err(Error::unsupported("the bounds depend on tensor data and are not known here")),
    }
}

fn whole_numbers(indices: &View) -> Result<()> {
    if indices.dtype.is_float() || indices.dtype == DType::Bool {
        return Err(Error::malformed(format!("indices of type {}", indices.dtype)));
    }
    Ok(())
}

/// Checks that a tensor can hold indices.
///
/// # Errors
/// When its type is not an integer.
pub(super) fn check_indices(indices: &View) -> Result<()> {
    whole_numbers(indices)
}

fn index_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::index_copy as f;
    let (dst, update, indices) = (c.tensor(f::dst)?, c.tensor(f::update)?, c.tensor(f::indices)?);
    let at = axis(c.int(f::axis)?, dst.rank())?;
    check_indices(indices)?;
    if indices.rank() != 1 {
        return Err(Error::malformed(format!("indices of shape {:?}; one dimension is wanted", &indices.dims[..])));
    }
    let rows = indices.dims[0];
    let mut dims = dst.dims.clone();
    dims[at] = rows;
    update.broadcast(&dims)?;
    if rows > 1 {
        out.scratch_words(rows);
    }
    out.fresh(c, f::out, dst.dtype, &dst.dims);
    Ok(())
}

fn index_copy(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::index_copy as f;
    let (update, indices, out) = (e.tensor(c, f::update)?, e.tensor(c, f::indices)?, e.tensor(c, f::out)?);
    let at = axis(c.int(f::axis)?, out.view.rank())?;
    let rows = indices.view.dims[0];
    let mut dims = out.view.dims.clone();
    dims[at] = rows;
    let src = update.view.broadcast(&dims)?;
    if src.count() == 0 {
        return Ok(());
    }
    let size = out.view.dims[at] as u32;
    let (from, to) = moved(update.view.dtype, out.view.dtype);
    let run: usize = dims[at + 1..].iter().product();
    let merge = !run.is_multiple_of(lanes(to));
    let b = Arg::new(indices.space, indices.offset, &indices.view.strides, false);
    let mut flags = None;
    if rows > 1 && !merge {
        let out = e.scratch(c, 0)?;
        let params = RepeatsParams { head: Head::new(&out, &[rows]), b, size, pad: [0; 3] };
        let variant = Variant::new(&REPEATS_SHADER, DType::U32.calc(), DType::U32).inputs(&[indices.view.dtype]);
        pull(e, &variant, &params, &params.head, DType::U32);
        flags = Some(out);
    }
    let (walk, [strides]) = collapse(&dims, [&src.strides]);
    let words = out.view.count().div_ceil(lanes(to)) as u32;
    let params = IndexedParams {
        head: Head::new(&out, &walk),
        a: Arg::new(update.space, update.offset, &strides, src.is_contiguous()),
        b,
        run: run as u32,
        rows: rows as u32,
        size,
        merge: u32::from(merge),
        space: flags.as_ref().map_or(0, |t| t.space as u32),
        word: flags.as_ref().map_or(0, Tensor::word),
        flags: u32::from(flags.is_some()),
        words,
    };
    let threads = if merge { words } else { params.head.threads(to) };
    let calc = if from == to { to } else { from };
    let variant = Variant::new(&INDEXED_SHADER, calc.calc(), to).inputs(&[from, indices.view.dtype]);
    e.dispatch(&variant, &params, threads.div_ceil(64));
    Ok(())
}

fn scatter_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::scatter_add as f;
    let (x, indices, updates) = (c.tensor(f::x)?, c.tensor(f::indices)?, c.tensor(f::updates)?);
    let at = axis(c.int(f::axis)?, x.rank())?;
    check_indices(indices)?;
    let dims = scatter_dims(x, indices, at)?;
    updates.broadcast(&dims)?;
    out.fresh(c, f::out, x.dtype, &x.dims);
    Ok(())
}

/// The sizes that indices and updates stretch to: those of `x`, but for the axis.
fn scatter_dims(x: &View, indices: &View, at: usize) -> Result<Dims> {
    if indices.rank() != x.rank() {
        return Err(Error::malformed(format!("indices of rank {} into rank {}", indices.rank(), x.rank())));
    }
    let mut dims = x.dims.clone();
    dims[at] = indices.dims[at];
    indices.broadcast(&dims)?;
    Ok(dims)
}

fn scatter_add(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::scatter_add as f;
    let (indices, updates, out) = (e.tensor(c, f::indices)?, e.tensor(c, f::updates)?, e.tensor(c, f::out)?);
    let at = axis(c.int(f::axis)?, out.view.rank())?;
    let dims = scatter_dims(&out.view, &indices.view, at)?;
    if dims[at] == 0 {
        return Ok(());
    }
    let (mut a, mut b) = (updates.view.broadcast(&dims)?, indices.view.broadcast(&dims)?);
    let (a_stride, b_stride) = (a.strides[at] as i32, b.strides[at] as i32);
    (a.strides[at], b.strides[at]) = (0, 0);
    let (walk, [sa, sb]) = collapse(&out.view.dims, [&a.strides, &b.strides]);
    let to = out.view.dtype;
    let params = ScatterParams {
        head: Head::new(&out, &walk),
        a: Arg::new(updates.space, updates.offset, &sa, false),
        b: Arg::new(indices.space, indices.offset, &sb, false),
        a_stride,
        b_stride,
        rows: dims[at] as u32,
        size: out.view.dims[at] as u32,
        inner: out.view.dims[at + 1..].iter().product::<usize>() as u32,
        own: out.offset,
        pad: [0; 2],
    };
    let variant =
        Variant::new(&SCATTER_SHADER, to.calc(), to).func("add").inputs(&[updates.view.dtype, indices.view.dtype]);
    pull(e, &variant, &params, &params.head, to);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;
    use crate::dtype::Calc;

    #[test]
    fn every_variant_is_valid() {
        for to in DType::ALL {
            for from in [raw(to), DType::F32, DType::I64, DType::U32, DType::I8] {
                validate(&Variant::new(&REGION_SHADER, from.calc(), to).inputs(&[from]));
                for index in [DType::I64, DType::I32, DType::U8] {
                    validate(&Variant::new(&INDEXED_SHADER, from.calc(), to).inputs(&[from, index]));
                    validate(&Variant::new(&SCATTER_SHADER, to.calc(), to).func("add").inputs(&[from, index]));
                }
            }
            if !to.is_float() {
                validate(&Variant::new(&REPEATS_SHADER, Calc::U32, DType::U32).inputs(&[to]));
            }
        }
    }
}
