//! Elementwise ops: each output element depends on the same element of each input.

use bytemuck::{Pod, Zeroable};

use super::call::Known;
use super::emit::{Arg, Head, Tensor, collapse};
use super::{Alias, Call, Dims, Emit, Kernel, Outs, Shader, Variant, broadcast_dims};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Field, fields};

/// Ops of one input.
pub static UNARY: Kernel = Kernel::new(Alias::Elementwise, unary_shape, unary);
/// Ops of two inputs that broadcast and promote.
pub static BINARY: Kernel = Kernel::new(Alias::Elementwise, binary_shape, binary);
/// `AsType`.
pub static CAST: Kernel = Kernel::new(Alias::Elementwise, cast_shape, cast);
/// `Where`.
pub static WHERE: Kernel = Kernel::new(Alias::Elementwise, where_shape, where_);
/// `Clip`.
pub static CLIP: Kernel = Kernel::new(Alias::Elementwise, clip_shape, clip);

/// Threads of a workgroup of the pull-style shaders.
const THREADS: u32 = 64;

/// The result's element type, from the promoted type of the inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gives {
    /// The same.
    Same,
    /// The same if it is a float, else `f32`.
    Float,
    /// `bool`.
    Bool,
}

/// The inputs that an op takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Takes {
    /// Every type.
    All,
    /// Every type but `bool`.
    Numbers,
    /// Integers and `bool`.
    Ints,
    /// Floats.
    Floats,
}

impl Takes {
    fn takes(self, t: DType) -> bool {
        match self {
            Self::All => true,
            Self::Numbers => t != DType::Bool,
            Self::Ints => !t.is_float(),
            Self::Floats => t.is_float(),
        }
    }
}

/// How an op treats element types, and whether its function needs `math_f32.wgsl`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rule {
    takes: Takes,
    gives: Gives,
    math: bool,
    /// Integers are their own result: nothing is computed.
    whole: bool,
}

const fn rule(takes: Takes, gives: Gives) -> Rule {
    Rule { takes, gives, math: false, whole: false }
}
const fn math(takes: Takes, gives: Gives) -> Rule {
    Rule { takes, gives, math: true, whole: false }
}

/// The rule of an op, by its function's name. Source: `mlx/ops.cpp`; checked against the `mlx` package.
fn rule_of(func: &str) -> Rule {
    use Gives::{Bool, Float, Same};
    use Takes::{All, Floats, Ints, Numbers};
    match func {
        "abs" | "sign" | "square" | "add" | "subtract" | "multiply" | "maximum" | "minimum" => rule(All, Same),
        "neg" => rule(Numbers, Same),
        "floor" | "ceil" | "trunc" | "round" => Rule { whole: true, ..rule(All, Same) },
        "bitwise_invert" | "bitwise_and" | "bitwise_or" | "bitwise_xor" => rule(Ints, Same),
        "less" | "less_equal" | "greater" | "greater_equal" | "equal" | "not_equal" | "logical_not" | "logical_and"
        | "logical_or" => rule(All, Bool),
        "floor_divide" | "remainder" | "power" => math(All, Same),
        "gelu" => math(Floats, Same),
        // Elementary functions, `divide`, `atan2`, `log_add_exp`.
        _ => math(All, Float),
    }
}

impl Rule {
    fn output(self, func: &str, input: DType) -> Result<DType> {
        if !self.takes.takes(input) {
            return Err(Error::malformed(format!("{func} does not take {input}")));
        }
        Ok(match self.gives {
            Gives::Same => input,
            Gives::Float if input.is_float() => input,
            Gives::Float => DType::F32,
            Gives::Bool => DType::Bool,
        })
    }
    /// The type whose arithmetic the function uses: that of the output, or of the inputs for a `bool` made of them.
    fn computes(self, input: DType, output: DType) -> DType {
        if self.gives == Gives::Bool { input } else { output }
    }
}

const OPS_UNARY: &str = include_str!("../../shaders/ops_unary.wgsl");
const OPS_BINARY: &str = include_str!("../../shaders/ops_binary.wgsl");
const MATH: &str = include_str!("../../shaders/math_f32.wgsl");
const MAP_UNARY: &str = include_str!("../../shaders/map_unary.wgsl");
const MAP_BINARY: &str = include_str!("../../shaders/map_binary.wgsl");

static UNARY_SHADER: Shader = Shader { name: "map_unary", text: MAP_UNARY, uses: &[OPS_UNARY] };
static UNARY_MATH_SHADER: Shader =
    Shader { name: "map_unary_math", text: MAP_UNARY, uses: &[MATH, include_str!("../../shaders/ops_math.wgsl")] };
static BINARY_SHADER: Shader = Shader { name: "map_binary", text: MAP_BINARY, uses: &[OPS_BINARY] };
static BINARY_MATH_SHADER: Shader = Shader {
    name: "map_binary_math",
    text: MAP_BINARY,
    uses: &[MATH, include_str!("../../shaders/pow_f32.wgsl"), include_str!("../../shaders/ops_binary_math.wgsl")],
};
static TERNARY_SHADER: Shader = Shader {
    name: "map_ternary",
    text: include_str!("../../shaders/map_ternary.wgsl"),
    uses: &[OPS_BINARY, include_str!("../../shaders/ops_ternary.wgsl")],
};
static WHERE_SHADER: Shader =
    Shader { name: "map_where", text: include_str!("../../shaders/map_where.wgsl"), uses: &[] };

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct UnaryParams {
    head: Head,
    a: Arg,
    scalar: [f32; 4],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct BinaryParams {
    head: Head,
    a: Arg,
    b: Arg,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct TernaryParams {
    head: Head,
    a: Arg,
    b: Arg,
    c: Arg,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct WhereParams {
    head: Head,
    a: Arg,
    b: Arg,
    condition: Arg,
    bytes: u32,
    mask: u32,
    pad: [u32; 2],
}

/// The dims of `out` and each input's strides over them, merged where all allow.
fn walk<const N: usize>(out: &Tensor, inputs: [&Tensor; N]) -> Result<(Dims, [Arg; N])> {
    let mut views = [const { None }; N];
    for (v, t) in views.iter_mut().zip(inputs) {
        *v = Some(t.view.broadcast(&out.view.dims)?);
    }
    let views = views.each_ref().map(|v| v.as_ref().expect("every input was broadcast"));
    let (dims, strides) = collapse(&out.view.dims, views.map(|v| &v.strides[..]));
    let args =
        std::array::from_fn(|i| Arg::new(inputs[i].space, inputs[i].offset, &strides[i], views[i].is_contiguous()));
    Ok((dims, args))
}

/// Dispatches a shader that stores `head.count` elements of `out`, one word a thread.
pub(super) fn pull<P: bytemuck::NoUninit>(e: &mut Emit<'_>, variant: &Variant, params: &P, head: &Head, out: DType) {
    e.dispatch(variant, params, head.threads(out).div_ceil(THREADS));
}

/// The type that holds the same bits as `t` and moves them unchanged.
pub(super) fn raw(t: DType) -> DType {
    match t.size() {
        8 => DType::I64,
        4 => DType::U32,
        2 => DType::I16,
        _ => DType::U8,
    }
}

fn emit_unary(
    e: &mut Emit<'_>,
    shader: &'static Shader,
    func: &'static str,
    types: (DType, DType, DType),
    scalar: [f32; 4],
    x: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let (from, computes, to) = types;
    let (dims, [a]) = walk(out, [x])?;
    let params = UnaryParams { head: Head::new(out, &dims), a, scalar };
    let variant = Variant::new(shader, computes.calc(), to).func(func).inputs(&[from]);
    pull(e, &variant, &params, &params.head, to);
    Ok(())
}

/// Copies a tensor of any layout into a row-major one of the same dtype and count, bit by bit.
///
/// # Errors
/// None today; the signature is that of every encode function.
pub fn copy(e: &mut Emit<'_>, from: &Tensor, to: &Tensor) -> Result<()> {
    if from.view.count() == 0 {
        return Ok(());
    }
    let (dims, [s]) = collapse(&from.view.dims, [&from.view.strides]);
    let a = Arg::new(from.space, from.offset, &s, from.view.is_contiguous());
    let params = UnaryParams { head: Head::new(to, &dims), a, scalar: [0.0; 4] };
    let t = raw(from.view.dtype);
    let variant = Variant::new(&UNARY_SHADER, t.calc(), t).func("cast").inputs(&[t]);
    pull(e, &variant, &params, &params.head, t);
    Ok(())
}

/// Every unary row has its fields in this order.
use fields::exp as unary_fields;

fn unary_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let x = c.tensor(unary_fields::x)?;
    out.fresh(c, unary_fields::out, rule_of(c.func()).output(c.func(), x.dtype)?, &x.dims);
    Ok(())
}

fn unary(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let (x, out) = (e.tensor(c, unary_fields::x)?, e.tensor(c, unary_fields::out)?);
    let rule = rule_of(c.func());
    let (from, to) = (x.view.dtype, out.view.dtype);
    if rule.whole && !from.is_float() {
        return copy(e, &x, &out);
    }
    let mut func = c.func();
    let mut scalar = [0.0; 4];
    match func {
        // The other bit of a bool is no bit of it.
        "bitwise_invert" if from == DType::Bool => func = "logical_not",
        "gelu" if c.text(fields::gelu::approximate) == "tanh" => func = "gelu_tanh",
        "round" => {
            let decimals = c.maybe_int(fields::round::decimals).unwrap_or(0).clamp(-38, 38) as i32;
            if decimals != 0 {
                func = "round_decimals";
                scalar = [10f64.powi(decimals) as f32, 10f64.powi(-decimals) as f32, 0.0, 0.0];
            }
        }
        _ => {}
    }
    let shader = if rule.math { &UNARY_MATH_SHADER } else { &UNARY_SHADER };
    emit_unary(e, shader, func, (from, rule.computes(from, to), to), scalar, &x, &out)
}

use fields::add as binary_fields;

fn binary_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let (a, b) = (c.tensor(binary_fields::a)?, c.tensor(binary_fields::b)?);
    let dims = broadcast_dims(&a.dims, &b.dims)?;
    let dtype = rule_of(c.func()).output(c.func(), a.dtype.promote(b.dtype))?;
    out.fresh(c, binary_fields::out, dtype, &dims);
    Ok(())
}

fn binary(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let (a, b, out) =
        (e.tensor(c, binary_fields::a)?, e.tensor(c, binary_fields::b)?, e.tensor(c, binary_fields::out)?);
    let rule = rule_of(c.func());
    let computes = rule.computes(a.view.dtype.promote(b.view.dtype), out.view.dtype);
    let shader = if rule.math { &BINARY_MATH_SHADER } else { &BINARY_SHADER };
    emit_binary(e, shader, c.func(), computes, [&a, &b], &out)
}

fn emit_binary(
    e: &mut Emit<'_>,
    shader: &'static Shader,
    func: &'static str,
    computes: DType,
    [x, y]: [&Tensor; 2],
    out: &Tensor,
) -> Result<()> {
    let (dims, [a, b]) = walk(out, [x, y])?;
    let params = BinaryParams { head: Head::new(out, &dims), a, b };
    let variant =
        Variant::new(shader, computes.calc(), out.view.dtype).func(func).inputs(&[x.view.dtype, y.view.dtype]);
    pull(e, &variant, &params, &params.head, out.view.dtype);
    Ok(())
}

fn cast_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::as_type as f;
    let x = c.tensor(f::x)?;
    let to = c.dtype(f::scalar_type)?.unwrap_or(x.dtype);
    out.fresh(c, f::out, to, &x.dims);
    if let Some(known) = cast_known(c.known(f::x), x.dtype, to) {
        out.know(c, f::out, known);
    }
    Ok(())
}

/// What the host knows of integers cast to `to`: the same, where `to` holds every value of `from`.
fn cast_known(known: &Known, from: DType, to: DType) -> Option<Known> {
    match known {
        Known::Fill(v) if !to.is_float() => Some(Known::Fill(wrap(*v, to))),
        Known::Input { view, .. } if holds(to, from) && holds(to, view.dtype) => Some(known.clone()),
        _ => None,
    }
}

/// Whether every value of the integer type `from` is one of `to`.
fn holds(to: DType, from: DType) -> bool {
    !from.is_float() && from.promote(to) == to
}

/// An integer as the integer type `t` stores it.
pub(super) fn wrap(v: i64, t: DType) -> i64 {
    match t {
        DType::I32 => i64::from(v as i32),
        DType::I16 => i64::from(v as i16),
        DType::I8 => i64::from(v as i8),
        DType::U32 => i64::from(v as u32),
        DType::U8 => i64::from(v as u8),
        DType::Bool => i64::from(v != 0),
        _ => v,
    }
}

fn cast(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::as_type as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let (from, to) = (x.view.dtype, out.view.dtype);
    if from == to {
        return copy(e, &x, &out);
    }
    let func = if to == DType::Bool { "truth" } else { "cast" };
    emit_unary(e, &UNARY_SHADER, func, (from, from, to), [0.0; 4], &x, &out)
}

fn where_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::where_ as f;
    let (condition, x, y) = (c.tensor(f::condition)?, c.tensor(f::x)?, c.tensor(f::y)?);
    let dims = broadcast_dims(&broadcast_dims(&condition.dims, &x.dims)?, &y.dims)?;
    out.fresh(c, f::out, x.dtype.promote(y.dtype), &dims);
    Ok(())
}

fn where_(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::where_ as f;
    let (condition, x, y, out) =
        (e.tensor(c, f::condition)?, e.tensor(c, f::x)?, e.tensor(c, f::y)?, e.tensor(c, f::out)?);
    let (dims, [a, b, at]) = walk(&out, [&x, &y, &condition])?;
    let t = condition.view.dtype;
    let all = u32::MAX >> (32 - 8 * t.size().min(4));
    let mask = if t.is_float() { all >> 1 } else { all };
    let params =
        WhereParams { head: Head::new(&out, &dims), a, b, condition: at, bytes: t.size() as u32, mask, pad: [0; 2] };
    let (tx, ty, to) = (x.view.dtype, y.view.dtype, out.view.dtype);
    let variant = if tx == ty {
        Variant::new(&WHERE_SHADER, raw(to).calc(), raw(to)).inputs(&[raw(to); 2])
    } else {
        Variant::new(&WHERE_SHADER, to.calc(), to).inputs(&[tx, ty])
    };
    pull(e, &variant, &params, &params.head, to);
    Ok(())
}

fn clip_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::clip as f;
    let x = c.tensor(f::x)?;
    let (mut dims, mut dtype) = (x.dims.clone(), x.dtype);
    if !c.has(f::a_min) && !c.has(f::a_max) {
        return Err(Error::malformed("neither a_min nor a_max is given"));
    }
    for bound in [f::a_min, f::a_max] {
        if let Some(b) = c.optional(bound) {
            dims = broadcast_dims(&dims, &b.dims)?;
            dtype = dtype.promote(b.dtype);
        }
    }
    out.fresh(c, f::out, dtype, &dims);
    Ok(())
}

fn clip(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::clip as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let to = out.view.dtype;
    let bound = |e: &Emit<'_>, field: Field| e.optional(c, field);
    match (bound(e, f::a_min)?, bound(e, f::a_max)?) {
        (Some(low), Some(high)) => {
            let (dims, [a, b, c]) = walk(&out, [&x, &low, &high])?;
            let params = TernaryParams { head: Head::new(&out, &dims), a, b, c };
            let variant = Variant::new(&TERNARY_SHADER, to.calc(), to).func("clip").inputs(&[
                x.view.dtype,
                low.view.dtype,
                high.view.dtype,
            ]);
            pull(e, &variant, &params, &params.head, to);
            Ok(())
        }
        (Some(low), None) => emit_binary(e, &BINARY_SHADER, "maximum", to, [&x, &low], &out),
        (None, Some(high)) => emit_binary(e, &BINARY_SHADER, "minimum", to, [&x, &high], &out),
        (None, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;
    use crate::op::Op;

    fn rows(kernel: &'static Kernel) -> impl Iterator<Item = &'static str> {
        Op::all().map(Op::row).filter(move |r| std::ptr::eq(r.kernel, kernel)).map(|r| r.func)
    }

    #[test]
    fn every_unary_variant_is_valid() {
        let mut seen = 0;
        for func in rows(&UNARY).chain(["gelu_tanh", "round_decimals", "cast", "truth"]) {
            for from in DType::ALL {
                let rule = rule_of(if func == "gelu_tanh" { "gelu" } else { func });
                let Ok(to) = rule.output(func, from) else { continue };
                if func == "round_decimals" && !from.is_float() || rule.whole && !from.is_float() {
                    continue;
                }
                let shader = if rule.math { &UNARY_MATH_SHADER } else { &UNARY_SHADER };
                let (shader, to, computes) = match func {
                    "cast" => (&UNARY_SHADER, from, from),
                    "truth" => (&UNARY_SHADER, DType::Bool, from),
                    "round_decimals" => (&UNARY_SHADER, from, from),
                    _ => (shader, to, rule.computes(from, to)),
                };
                validate(&Variant::new(shader, computes.calc(), to).func(func).inputs(&[from]));
                seen += 1;
            }
        }
        assert!(seen > 300, "{seen}");
    }

    #[test]
    fn every_cast_is_valid() {
        for from in DType::ALL {
            for to in DType::ALL.into_iter().filter(|&t| t != DType::Bool) {
                validate(&Variant::new(&UNARY_SHADER, from.calc(), to).func("cast").inputs(&[from]));
            }
        }
    }

    #[test]
    fn every_binary_variant_is_valid() {
        for func in rows(&BINARY) {
            for a in DType::ALL {
                // Loads convert independently of the function: one mixed partner per type is enough.
                for b in [a, DType::F32, DType::U32, DType::I64] {
                    let rule = rule_of(func);
                    let Ok(to) = rule.output(func, a.promote(b)) else { continue };
                    let shader = if rule.math { &BINARY_MATH_SHADER } else { &BINARY_SHADER };
                    let computes = rule.computes(a.promote(b), to);
                    validate(&Variant::new(shader, computes.calc(), to).func(func).inputs(&[a, b]));
                }
            }
        }
    }

    #[test]
    fn every_ternary_variant_is_valid() {
        for a in DType::ALL {
            for b in [a, DType::F32, DType::I64] {
                let to = a.promote(b);
                validate(&Variant::new(&TERNARY_SHADER, to.calc(), to).func("clip").inputs(&[a, b, a]));
                validate(&Variant::new(&WHERE_SHADER, to.calc(), to).inputs(&[a, b]));
            }
            let r = raw(a);
            validate(&Variant::new(&WHERE_SHADER, r.calc(), r).inputs(&[r, r]));
        }
    }

    #[test]
    fn known_integers_survive_casts_that_keep_them() {
        let fill = Known::Fill(300);
        assert_eq!(cast_known(&fill, DType::I64, DType::U8), Some(Known::Fill(44)));
        assert_eq!(cast_known(&fill, DType::I64, DType::F32), None);
        let input = Known::Input { port: 0, view: super::super::View::contiguous(DType::I32, &[1]) };
        assert_eq!(cast_known(&input, DType::I32, DType::I64), Some(input.clone()));
        assert_eq!(cast_known(&input, DType::I32, DType::I16), None);
    }
}
