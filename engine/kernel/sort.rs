//! Orderings along an axis: stable, NaN last.
//!
//! Blocks of a row are sorted in workgroup memory, then runs are merged pairwise. Only indices move; the
//! elements are picked at the end. A partition is a whole sort.

use bytemuck::{Pod, Zeroable};

use super::emit::{Arg, Head, Tensor, collapse};
use super::fill::check_size;
use super::gather::pick;
use super::map::copy;
use super::{Alias, Call, Dims, Emit, Kernel, Outs, Shader, Strides, Variant, View, axis};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::op::{Field, fields};

/// `Sort`, `Argsort`, `Partition`, `ArgPartition`.
pub static SORT: Kernel = Kernel::new(Alias::Fresh, sort_shape, sort).with_scratch(2);

/// Elements that one workgroup sorts.
const BLOCK: usize = 1024;

const COMMON: &str = include_str!("../../shaders/sort_common.wgsl");
const FLOAT_KEYS: &str = include_str!("../../shaders/sort_key_float.wgsl");
const INT_KEYS: &str = include_str!("../../shaders/sort_key_int.wgsl");
const BLOCKS: &str = include_str!("../../shaders/sort_block.wgsl");
const MERGE: &str = include_str!("../../shaders/sort_merge.wgsl");

static BLOCK_FLOAT: Shader = Shader { name: "sort_block", text: BLOCKS, uses: &[COMMON, FLOAT_KEYS] };
static BLOCK_INT: Shader = Shader { name: "sort_block", text: BLOCKS, uses: &[COMMON, INT_KEYS] };
static MERGE_FLOAT: Shader = Shader { name: "sort_merge", text: MERGE, uses: &[COMMON, FLOAT_KEYS] };
static MERGE_INT: Shader = Shader { name: "sort_merge", text: MERGE, uses: &[COMMON, INT_KEYS] };

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct SortParams {
    head: Head,
    a: Arg,
    stride: i32,
    n: u32,
    inner: u32,
    width: u32,
    space: u32,
    word: u32,
    pad: [u32; 2],
}

/// Whether an op gives indices, and its fields. Every row begins with `x` and `out`.
fn gives_indices(c: &Call<'_>) -> bool {
    c.func().starts_with("arg")
}

fn axis_field(c: &Call<'_>) -> Field {
    match c.func() {
        "partition" => fields::partition::axis,
        "arg_partition" => fields::arg_partition::axis,
        _ => fields::sort::axis,
    }
}

/// The input with a scalar as one element, and the axis.
fn input(c: &Call<'_>, x: &View) -> Result<(View, usize)> {
    let mut x = x.clone();
    if x.rank() == 0 {
        x.dims.push(1);
        x.strides.push(1);
    }
    let at = axis(c.int(axis_field(c))?, x.rank())?;
    Ok((x, at))
}

fn sort_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::sort as f;
    let given = c.tensor(f::x)?;
    let (x, at) = input(c, given)?;
    let n = x.dims[at];
    if matches!(c.func(), "partition" | "arg_partition")
        && let Some(kth) = c.maybe_int(fields::partition::kth)
        && n > 0
        && (kth < -(n as i64) || kth >= n as i64)
    {
        return Err(Error::malformed(format!("kth {kth} is out of range for an axis of {n}")));
    }
    check_size(DType::U32, &x.dims)?;
    let spare = usize::from(n > BLOCK) + usize::from(!gives_indices(c));
    for _ in 0..spare {
        out.scratch_words(x.count());
    }
    out.fresh(c, f::out, if gives_indices(c) { DType::U32 } else { given.dtype }, &given.dims);
    Ok(())
}

fn sort(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::sort as f;
    let (mut x, mut out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let (view, at) = input(c, &x.view)?;
    x.view = view;
    out.view = View::contiguous(out.view.dtype, &x.view.dims);
    let n = x.view.dims[at];
    if n == 1 && !gives_indices(c) {
        return copy(e, &x, &out);
    }
    let indices = |e: &Emit<'_>, nth: usize| -> Result<Tensor> {
        let mut t = e.scratch(c, nth)?;
        t.view = View::contiguous(DType::U32, &x.view.dims);
        Ok(t)
    };
    let to = if gives_indices(c) { out.clone() } else { indices(e, 0)? };
    let spare = if n > BLOCK { Some(indices(e, usize::from(!gives_indices(c)))?) } else { None };
    order(e, &x, at, &to, spare.as_ref());
    if !gives_indices(c) {
        let mut bases: Strides = x.view.strides.clone();
        bases[at] = 0;
        pick(e, &x, &to, &out, [&bases, &to.view.strides], [n as isize, x.view.strides[at]]);
    }
    Ok(())
}

/// Writes the indices that sort `x` along an axis into `to`, by way of `spare` where one block is not enough.
fn order(e: &mut Emit<'_>, x: &Tensor, at: usize, to: &Tensor, spare: Option<&Tensor>) {
    let n = x.view.dims[at];
    let (mut rows, mut strides): (Dims, Strides) = (x.view.dims.clone(), x.view.strides.clone());
    (rows[at], strides[at]) = (1, 0);
    let count: usize = rows.iter().product();
    let (walk, [strides]) = collapse(&rows, [&strides]);
    let params = |out: &Tensor, from: Option<&Tensor>, width: usize| SortParams {
        head: Head::new(out, &walk),
        a: Arg::new(x.space, x.offset, &strides, false),
        stride: x.view.strides[at] as i32,
        n: n as u32,
        inner: x.view.dims[at + 1..].iter().product::<usize>() as u32,
        width: width as u32,
        space: from.map_or(0, |t| t.space as u32),
        word: from.map_or(0, Tensor::word),
        pad: [0; 2],
    };
    let t = x.view.dtype;
    let variant = |float, int| {
        let (shader, calc) = if t.is_float() { (float, Calc::F32) } else { (int, Calc::U32) };
        Variant::new(shader, calc, DType::U32).inputs(&[t])
    };
    let passes = n.div_ceil(BLOCK).next_power_of_two().trailing_zeros();
    let spare = spare.unwrap_or(to);
    let (mut from, mut into) = if passes.is_multiple_of(2) { (spare, to) } else { (to, spare) };
    let blocks = n.div_ceil(BLOCK) * count;
    e.dispatch(&variant(&BLOCK_FLOAT, &BLOCK_INT), &params(into, None, BLOCK), blocks as u32);
    for pass in 0..passes {
        (from, into) = (into, from);
        let threads = (n * count) as u32;
        e.dispatch(&variant(&MERGE_FLOAT, &MERGE_INT), &params(into, Some(from), BLOCK << pass), threads.div_ceil(64));
    }
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    #[test]
    fn every_variant_is_valid() {
        for t in DType::ALL {
            let (shaders, calc) = if t.is_float() {
                ([&BLOCK_FLOAT, &MERGE_FLOAT], Calc::F32)
            } else {
                ([&BLOCK_INT, &MERGE_INT], Calc::U32)
            };
            for shader in shaders {
                validate(&Variant::new(shader, calc, DType::U32).inputs(&[t]));
            }
        }
    }
}
