//! Reductions over axes, and running sums.

use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;

use super::emit::{Arg, Caps, Head, Tensor, collapse, fold, threads_for};
use super::matmul::per_word;
use super::{Alias, Call, Dims, Emit, Kernel, Outs, Shader, Strides, Variant, View, axis};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::op::fields;

/// Reductions over a list of axes.
pub static REDUCE: Kernel = Kernel::new(Alias::Fresh, reduce_shape, reduce);
/// `Argmax` and `Argmin`.
pub static ARG: Kernel = Kernel::new(Alias::Fresh, arg_shape, arg);
/// `Cumsum`.
pub static CUMSUM: Kernel = Kernel::new(Alias::Fresh, cumsum_shape, cumsum).with_scratch(1);

const PARAMS: &str = include_str!("../../shaders/reduce_params.wgsl");

/// What folds need of a type, in the order of [`Calc`].
const FOLDS: [&str; 4] = [
    include_str!("../../shaders/fold_f32.wgsl"),
    include_str!("../../shaders/fold_i32.wgsl"),
    include_str!("../../shaders/fold_u32.wgsl"),
    include_str!("../../shaders/fold_i64.wgsl"),
];

/// The same shader over each [`Calc`].
macro_rules! by_calc {
    ($name:literal, $file:literal $(, $use:expr)*) => {
        [
            Shader { name: $name, text: include_str!($file), uses: &[FOLDS[0] $(, $use)*] },
            Shader { name: $name, text: include_str!($file), uses: &[FOLDS[1] $(, $use)*] },
            Shader { name: $name, text: include_str!($file), uses: &[FOLDS[2] $(, $use)*] },
            Shader { name: $name, text: include_str!($file), uses: &[FOLDS[3] $(, $use)*] },
        ]
    };
}

static ONE_PASS: [Shader; 4] = by_calc!("reduce", "../../shaders/reduce.wgsl", PARAMS);
static BEST: [Shader; 4] = by_calc!("reduce_arg", "../../shaders/reduce_arg.wgsl", PARAMS);
static SCAN_32: [Shader; 4] =
    by_calc!("cumsum", "../../shaders/cumsum.wgsl", include_str!("../../shaders/write_32.wgsl"));
static SCAN_64: [Shader; 4] =
    by_calc!("cumsum", "../../shaders/cumsum.wgsl", include_str!("../../shaders/write_64.wgsl"));
static TWO_PASS: Shader = Shader {
    name: "reduce_spread",
    text: include_str!("../../shaders/reduce_spread.wgsl"),
    uses: &[
        include_str!("../../shaders/math_f32.wgsl"),
        include_str!("../../shaders/expo.wgsl"),
        include_str!("../../shaders/lanes.wgsl"),
        PARAMS,
    ],
};
static CAST: Shader = Shader {
    name: "map_unary",
    text: include_str!("../../shaders/map_unary.wgsl"),
    uses: &[include_str!("../../shaders/ops_unary.wgsl")],
};

fn of(table: &'static [Shader; 4], calc: Calc) -> &'static Shader {
    &table[match calc {
        Calc::F32 => 0,
        Calc::I32 => 1,
        Calc::U32 => 2,
        Calc::I64 => 3,
    }]
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    head: Head,
    a: Arg,
    count: u32,
    rank: u32,
    ddof: i32,
    pad: u32,
    dims: [u32; 8],
    strides: [i32; 8],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ScanParams {
    head: Head,
    a: Arg,
    n: u32,
    col: i32,
    inner: u32,
    rows: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct CastParams {
    head: Head,
    a: Arg,
}

/// Converts the elements of a tensor of any layout into a row-major one of the same sizes.
pub(super) fn cast(e: &mut Emit<'_>, from: &Tensor, to: &Tensor) {
    let (dims, [s]) = collapse(&from.view.dims, [&from.view.strides]);
    let params =
        CastParams { head: Head::new(to, &dims), a: Arg::new(from.space, from.offset, &s, from.view.is_contiguous()) };
    let variant = Variant::new(&CAST, from.view.dtype.calc(), to.view.dtype).func("cast").inputs(&[from.view.dtype]);
    e.dispatch_2d(&variant, &params, fold(params.head.threads(to.view.dtype).div_ceil(64)));
}

/// Lanes of a workgroup that folds rows of `n` elements, and their square root (`lanes.wgsl`).
pub(super) fn row_lanes(n: usize, caps: Caps) -> [u32; 2] {
    if n >= 1024 && !caps.software && caps.workgroup_threads >= 256 { [256, 16] } else { [64, 8] }
}

/// A reduction: which shader, and what its output is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kind {
    /// `OP` of `reduce.wgsl`, or of `reduce_spread.wgsl`.
    op: u32,
    /// Whether it is one of `reduce_spread.wgsl`.
    spread: bool,
    calc: Calc,
    out: DType,
    /// Whether it has a value over no elements.
    empty: bool,
}

/// Source: MLX `sum`, `mean`, `max`, `all` (mlx/ops.cpp) for the types; sums of integers widen to 32 bits.
fn kind(func: &str, x: DType) -> Kind {
    let float = if x.is_float() { x } else { DType::F32 };
    let wide = match x {
        DType::Bool | DType::I8 | DType::I16 | DType::I32 => DType::I32,
        DType::U8 | DType::U32 => DType::U32,
        _ => x,
    };
    let one = |op, out: DType, calc| Kind { op, spread: false, calc, out, empty: true };
    let two = |op, empty| Kind { op, spread: true, calc: Calc::F32, out: float, empty };
    match func {
        "sum" => one(0, wide, wide.calc()),
        "prod" => one(1, wide, wide.calc()),
        "max" => Kind { empty: false, ..one(2, x, x.calc()) },
        "min" => Kind { empty: false, ..one(3, x, x.calc()) },
        "any" => one(4, DType::Bool, x.calc()),
        "all" => one(5, DType::Bool, x.calc()),
        "mean" => one(6, float, Calc::F32),
        "var" => two(0, true),
        "std" => two(1, true),
        "log_sum_exp" => two(2, false),
        _ => two(3, false),
    }
}

/// Dims of the output: reduced ones are 1 or vanish.
fn reduced_dims(dims: &[usize], axes: &[usize], keep: bool) -> Dims {
    dims.iter().enumerate().filter_map(|(i, &d)| if !axes.contains(&i) { Some(d) } else { keep.then_some(1) }).collect()
}

/// A scalar has one axis to name, of size 1, and none to reduce.
fn axes_of(c: &Call<'_>, x: &View) -> Result<SmallVec<[usize; 8]>> {
    let axes = c.axes(fields::sum::axes, x.rank().max(1))?;
    Ok(if x.rank() == 0 { SmallVec::new() } else { axes })
}

fn refuse_empty(x: &View, axes: &[usize], out: &[usize]) -> Result<()> {
    let none = axes.iter().any(|&a| x.dims[a] == 0) && out.iter().all(|&d| d != 0);
    if none {
        return Err(Error::malformed(format!("no elements along axes {axes:?} of shape {:?}", &x.dims[..])));
    }
    Ok(())
}

fn reduce_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::sum as f;
    let x = c.tensor(f::x)?;
    let axes = axes_of(c, x)?;
    let k = kind(c.func(), x.dtype);
    let dims = reduced_dims(&x.dims, &axes, c.flag(f::keepdims));
    if !k.empty {
        refuse_empty(x, &axes, &dims)?;
    }
    out.fresh(c, f::out, k.out, &dims);
    Ok(())
}

/// The parameter block of a reduction of `x` over `axes`.
fn params(x: &Tensor, axes: &[usize], out: &Tensor, ddof: i32) -> Params {
    let pick = |reduced: bool| -> (Dims, Strides) {
        let which = (0..x.view.rank()).filter(|i| axes.contains(i) == reduced);
        which.map(|i| (x.view.dims[i], x.view.strides[i])).unzip()
    };
    let ((kept, ks), (rest, rs)) = (pick(false), pick(true));
    let (kept, [ks]) = collapse(&kept, [&ks]);
    let count = rest.iter().product::<usize>() as u32;
    let (rest, [rs]) = collapse(&rest, [&rs]);
    let mut dims = [1; 8];
    let mut strides = [0; 8];
    for (i, (&d, &s)) in rest.iter().zip(&rs).enumerate() {
        dims[i] = d as u32;
        strides[i] = s as i32;
    }
    Params {
        head: Head::new(out, &kept),
        a: Arg::new(x.space, x.offset, &ks, false),
        count,
        rank: rest.len() as u32,
        ddof,
        pad: 0,
        dims,
        strides,
    }
}

/// Whether workgroups share the fold of one output: long folds, unless so many outputs keep all threads busy.
fn grouped(count: u32, outputs: u32, software: bool) -> bool {
    let busy = if software { 64 } else { 16_384 };
    count > 64 && !(outputs >= busy && count <= 4096)
}

fn reduce(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::var as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let axes = axes_of(c, &x.view)?;
    let k = kind(c.func(), x.view.dtype);
    let ddof = if matches!(c.func(), "var" | "std") { c.int(f::ddof)? as i32 } else { 0 };
    let p = params(&x, &axes, &out, ddof);
    let shader = if k.spread { &TWO_PASS } else { of(&ONE_PASS, k.calc) };
    emit(e, &x, &out, &p, Variant::new(shader, k.calc, out.view.dtype).option("OP", k.op));
    Ok(())
}

fn emit(e: &mut Emit<'_>, x: &Tensor, out: &Tensor, p: &Params, v: Variant) {
    let group = grouped(p.count, p.head.count, e.caps.software);
    let v = v
        .inputs(&[x.view.dtype])
        .option("X_SPACE", x.space as u32)
        .option("GROUP", u32::from(group))
        .option("PER_WORD", per_word(out.view.dtype));
    let words = threads_for(p.head.count as usize, out.view.dtype);
    e.dispatch_2d(&v, p, fold(if group { words } else { words.div_ceil(64) }));
}

fn arg_axis(c: &Call<'_>, x: &View) -> Result<SmallVec<[usize; 8]>> {
    let at = axis(c.int(fields::argmax::axis)?, x.rank().max(1))?;
    Ok(if x.rank() == 0 { SmallVec::new() } else { SmallVec::from_elem(at, 1) })
}

fn arg_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::argmax as f;
    let x = c.tensor(f::x)?;
    let axes = arg_axis(c, x)?;
    let dims = reduced_dims(&x.dims, &axes, c.flag(f::keepdims));
    refuse_empty(x, &axes, &dims)?;
    out.fresh(c, f::out, DType::U32, &dims);
    Ok(())
}

fn arg(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::argmax as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let p = params(&x, &arg_axis(c, &x.view)?, &out, 0);
    let calc = x.view.dtype.calc();
    let shader = of(&BEST, calc);
    let v = Variant::new(shader, calc, DType::U32).option("LEAST", u32::from(c.func() == "argmin"));
    emit(e, &x, &out, &p, v);
    Ok(())
}

/// The type that running sums are written in before they are narrowed.
fn scan_type(out: DType) -> DType {
    match out.calc() {
        Calc::F32 => DType::F32,
        Calc::I32 => DType::I32,
        Calc::U32 => DType::U32,
        Calc::I64 => DType::I64,
    }
}

fn cumsum_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::cumsum as f;
    let x = c.tensor(f::x)?;
    axis(c.int(f::axis)?, x.rank().max(1))?;
    let t = if x.dtype == DType::Bool { DType::I32 } else { x.dtype };
    if scan_type(t) != t {
        out.scratch.push(View::contiguous(scan_type(t), &x.dims));
    }
    out.fresh(c, f::out, t, &x.dims);
    Ok(())
}

fn cumsum(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::cumsum as f;
    let (mut x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    if x.view.rank() == 0 {
        x.view.dims.push(1);
        x.view.strides.push(0);
    }
    let at = axis(c.int(f::axis)?, x.view.rank())?;
    let wide = scan_type(out.view.dtype);
    let target = if wide == out.view.dtype { out.clone() } else { e.scratch(c, 0)? };
    let n = x.view.dims[at];
    let (mut kept, mut strides) = (x.view.dims.clone(), x.view.strides.clone());
    kept.remove(at);
    let col = strides.remove(at);
    let (dims, [s]) = collapse(&kept, [&strides]);
    let rows = dims.iter().product::<usize>();
    let p = ScanParams {
        head: Head::new(&target, &dims),
        a: Arg::new(x.space, x.offset, &s, false),
        n: n as u32,
        col: col as i32,
        inner: x.view.dims[at + 1..].iter().product::<usize>() as u32,
        rows: rows as u32,
    };
    let group = grouped(n as u32, rows as u32, e.caps.software);
    let table = if wide.size() == 8 { &SCAN_64 } else { &SCAN_32 };
    let v = Variant::new(of(table, wide.calc()), wide.calc(), wide)
        .inputs(&[x.view.dtype])
        .option("X_SPACE", x.space as u32)
        .option("REVERSE", u32::from(c.flag(f::reverse)))
        .option("EXCLUSIVE", u32::from(!c.flag(f::inclusive)))
        .option("GROUP", u32::from(group));
    e.dispatch_2d(&v, &p, fold(if group { rows } else { rows.div_ceil(64) } as u32));
    if wide != out.view.dtype {
        cast(e, &target, &out);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    #[test]
    fn variants_validate() {
        for x in DType::ALL {
            for func in ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "log_sum_exp", "median"] {
                let k = kind(func, x);
                let shader = if k.spread { &TWO_PASS } else { of(&ONE_PASS, k.calc) };
                validate(&Variant::new(shader, k.calc, k.out).inputs(&[x]));
            }
            validate(&Variant::new(of(&BEST, x.calc()), x.calc(), DType::U32).inputs(&[x]));
            let w = scan_type(x);
            let table = if w.size() == 8 { &SCAN_64 } else { &SCAN_32 };
            validate(&Variant::new(of(table, w.calc()), w.calc(), w).inputs(&[x]));
        }
    }

    #[test]
    fn types_widen_like_the_delegate() {
        assert_eq!(kind("sum", DType::Bool).out, DType::I32);
        assert_eq!(kind("prod", DType::U8).out, DType::U32);
        assert_eq!(kind("sum", DType::I64).out, DType::I64);
        assert_eq!(kind("mean", DType::I64).out, DType::F32);
        assert_eq!(kind("median", DType::BF16).out, DType::BF16);
        assert_eq!(kind("max", DType::I8).out, DType::I8);
        assert_eq!(kind("any", DType::F32).out, DType::Bool);
    }

    #[test]
    fn reduced_dims_vanish_or_stay_as_one() {
        assert_eq!(&reduced_dims(&[2, 3, 4], &[0, 2], false)[..], [3]);
        assert_eq!(&reduced_dims(&[2, 3, 4], &[0, 2], true)[..], [1, 3, 1]);
        let x = View::contiguous(DType::F32, &[0, 3]);
        assert!(refuse_empty(&x, &[0], &[3]).is_err() && refuse_empty(&x, &[1], &[0]).is_ok());
    }
}
