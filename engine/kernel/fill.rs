//! Tensors made from numbers.

use bytemuck::{Pod, Zeroable};

use super::call::Known;
use super::emit::{Arg, Head, Space, Tensor};
use super::map::{pull, raw, wrap};
use super::{Alias, Call, Dims, Emit, Kernel, Outs, Shader, Value, Variant};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::limits::MAX_TENSOR_BYTES;
use crate::op::{Field, fields};

/// `Full`.
pub static FULL: Kernel = Kernel::new(Alias::Fresh, full_shape, full);
/// `FullLike`.
pub static FULL_LIKE: Kernel = Kernel::new(Alias::Fresh, full_like_shape, full_like);
/// `ARange`.
pub static ARANGE: Kernel = Kernel::new(Alias::Fresh, arange_shape, arange);
/// `Tri`.
pub static TRI: Kernel = Kernel::new(Alias::Fresh, tri_shape, tri);
/// `Tril`.
pub static TRIL: Kernel = Kernel::new(Alias::Elementwise, triangle_shape, tril);
/// `Triu`.
pub static TRIU: Kernel = Kernel::new(Alias::Elementwise, triangle_shape, triu);

static RAMP_SHADER: Shader =
    Shader { name: "fill_ramp", text: include_str!("../../shaders/fill_ramp.wgsl"), uses: &[] };
static TRIANGLE_SHADER: Shader =
    Shader { name: "fill_triangle", text: include_str!("../../shaders/fill_triangle.wgsl"), uses: &[] };

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RampParams {
    head: Head,
    start: i64,
    step: i64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct TriangleParams {
    head: Head,
    a: Arg,
    low: i32,
    high: i32,
    rows: u32,
    columns: u32,
    one: u64,
    ones: u32,
    pad: u32,
}

/// Checks that a new tensor's size is one that kernels can address.
///
/// # Errors
/// When it has too many elements or bytes.
pub(super) fn check_size(dtype: DType, dims: &[usize]) -> Result<()> {
    let count = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let bytes = count.and_then(|n| n.checked_mul(dtype.size()));
    let fits = |b: usize| b as u64 <= MAX_TENSOR_BYTES && count.is_some_and(|n| u32::try_from(n).is_ok());
    if bytes.is_some_and(fits) {
        return Ok(());
    }
    Err(Error::limit(format!("a tensor of {dims:?} {dtype} passes {MAX_TENSOR_BYTES} bytes or 2^32 elements")))
}

/// A size from the program.
///
/// # Errors
/// When it is negative or not known.
pub(super) fn size(value: Option<i64>, what: &str) -> Result<usize> {
    match value {
        Some(v) => usize::try_from(v).map_err(|_| Error::malformed(format!("{what} {v} is not a size"))),
        None => Err(Error::unsupported(format!("{what} depends on tensor data"))),
    }
}

/// The sizes in a list field.
///
/// # Errors
/// When one is negative or not known, or there are too many.
pub(super) fn sizes(c: &Call<'_>, field: Field, dtype: DType) -> Result<Dims> {
    let dims = c.ints(field).into_iter().map(|d| size(d, "a size")).collect::<Result<Dims>>()?;
    check_rank(dims.len())?;
    check_size(dtype, &dims)?;
    Ok(dims)
}

/// Checks a new tensor's rank.
///
/// # Errors
/// When it passes what parameter blocks hold.
pub(super) fn check_rank(rank: usize) -> Result<()> {
    if rank > crate::limits::MAX_RANK {
        return Err(Error::limit(format!("rank {rank} passes {}", crate::limits::MAX_RANK)));
    }
    Ok(())
}

/// The bits that store `value` as `t`, rounded as a store rounds.
///
/// # Errors
/// When the value is not known.
pub(super) fn bits_of(value: Value, t: DType) -> Result<i64> {
    let (int, float) = match value {
        Value::Int(v) => (v, v as f64),
        Value::Float(v) => (v as i64, v),
        Value::Unknown | Value::Later { .. } => {
            return Err(Error::unsupported("the value depends on tensor data and is not known here"));
        }
    };
    Ok(match t {
        DType::F32 => i64::from((float as f32).to_bits()),
        DType::F16 => i64::from(half::f16::from_f64(float).to_bits()),
        DType::BF16 => i64::from(half::bf16::from_f64(float).to_bits()),
        DType::Bool => i64::from(float != 0.0),
        _ => wrap(int, t),
    })
}

/// Fills `out` with one value.
///
/// # Errors
/// When the value is not known.
pub(super) fn fill(e: &mut Emit<'_>, out: &Tensor, value: Value) -> Result<()> {
    let start = bits_of(value, out.view.dtype)?;
    ramp(e, out, raw(out.view.dtype), start, 0);
    Ok(())
}

fn ramp(e: &mut Emit<'_>, out: &Tensor, stored: DType, start: i64, step: i64) {
    let params = RampParams { head: Head::new(out, &[out.view.count()]), start, step };
    pull(e, &Variant::new(&RAMP_SHADER, Calc::I64, stored), &params, &params.head, stored);
}

fn know_fill(c: &Call<'_>, out: &mut Outs, field: Field, value: Value, dtype: DType) {
    if let Value::Int(v) = value
        && !dtype.is_float()
    {
        out.know(c, field, Known::Fill(wrap(v, dtype)));
    } else if let Value::Float(v) = value
        && !dtype.is_float()
        && let Ok(bits) = bits_of(Value::Float(v), dtype)
    {
        out.know(c, field, Known::Fill(bits));
    }
}

fn full_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::full as f;
    let dtype = c.dtype(f::scalar_type)?.ok_or_else(|| Error::malformed("no element type is given"))?;
    let dims = sizes(c, f::shape, dtype)?;
    out.fresh(c, f::out, dtype, &dims);
    know_fill(c, out, f::out, c.value(f::v), dtype);
    Ok(())
}

fn full(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::full as f;
    let out = e.tensor(c, f::out)?;
    fill(e, &out, c.value(f::v))
}

fn full_like_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::full_like as f;
    let x = c.tensor(f::x)?;
    let dtype = c.dtype(f::scalar_type)?.unwrap_or(x.dtype);
    check_size(dtype, &x.dims)?;
    out.fresh(c, f::out, dtype, &x.dims);
    know_fill(c, out, f::out, c.value(f::v), dtype);
    Ok(())
}

fn full_like(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::full_like as f;
    let out = e.tensor(c, f::out)?;
    fill(e, &out, c.value(f::v))
}

/// Elements of a range that spans `span` in steps of `step`.
fn range_count(span: i128, step: i64) -> Result<usize> {
    if step == 0 {
        return Err(Error::malformed("step is zero"));
    }
    let step = i128::from(step);
    let count = if (span > 0) == (step > 0) { (span.abs() + step.abs() - 1) / step.abs() } else { 0 };
    usize::try_from(count).map_err(|_| Error::limit(format!("{count} elements")))
}

fn arange_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::arange as f;
    let dtype = c.dtype(f::scalar_type)?.unwrap_or(DType::I32);
    if dtype == DType::Bool {
        return Err(Error::malformed("a range of bool"));
    }
    let step = c.int(f::step)?;
    let span = match (c.maybe_int(f::start), c.maybe_int(f::stop)) {
        (Some(start), Some(stop)) => i128::from(stop) - i128::from(start),
        _ => {
            let unknown = || Error::unsupported("the number of elements depends on tensor data");
            i128::from(c.difference(f::start, f::stop).ok_or_else(unknown)?)
        }
    };
    let count = range_count(span, step)?;
    check_size(dtype, &[count])?;
    out.fresh(c, f::out, dtype, &[count]);
    Ok(())
}

fn arange(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::arange as f;
    let out = e.tensor(c, f::out)?;
    ramp(e, &out, out.view.dtype, c.int(f::start)?, c.int(f::step)?);
    Ok(())
}

fn tri_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::tri as f;
    let dtype = c.dtype(f::scalar_type)?.ok_or_else(|| Error::malformed("no element type is given"))?;
    let dims = [size(c.maybe_int(f::n), "n")?, size(c.maybe_int(f::m), "m")?];
    check_size(dtype, &dims)?;
    out.fresh(c, f::out, dtype, &dims);
    Ok(())
}

fn diagonal(c: &Call<'_>, field: Field) -> i32 {
    c.maybe_int(field).unwrap_or(0).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

fn tri(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::tri as f;
    let out = e.tensor(c, f::out)?;
    triangle(e, None, &out, i32::MIN, diagonal(c, f::k))
}

use fields::tril as triangle_fields;

fn triangle_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let x = c.tensor(triangle_fields::x)?;
    if x.rank() < 2 {
        return Err(Error::malformed(format!("shape {:?} has no rows and columns", &x.dims[..])));
    }
    out.fresh(c, triangle_fields::out, x.dtype, &x.dims);
    Ok(())
}

fn tril(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let (x, out) = (e.tensor(c, triangle_fields::x)?, e.tensor(c, triangle_fields::out)?);
    triangle(e, Some(&x), &out, i32::MIN, diagonal(c, triangle_fields::k))
}

fn triu(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let (x, out) = (e.tensor(c, triangle_fields::x)?, e.tensor(c, triangle_fields::out)?);
    triangle(e, Some(&x), &out, diagonal(c, triangle_fields::k), i32::MAX)
}

/// Keeps `x` (or ones) where `low <= column - row <= high`.
fn triangle(e: &mut Emit<'_>, x: Option<&Tensor>, out: &Tensor, low: i32, high: i32) -> Result<()> {
    let rank = out.view.rank();
    let params = TriangleParams {
        head: Head::new(out, &out.view.dims),
        a: x.map_or(Arg::new(Space::Arena, 0, &[], true), Tensor::arg),
        low,
        high,
        rows: out.view.dims[rank - 2] as u32,
        columns: out.view.dims[rank - 1] as u32,
        one: bits_of(Value::Int(1), out.view.dtype)? as u64,
        ones: u32::from(x.is_none()),
        pad: 0,
    };
    let t = raw(out.view.dtype);
    pull(e, &Variant::new(&TRIANGLE_SHADER, Calc::I64, t).inputs(&[t]), &params, &params.head, t);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    #[test]
    fn every_variant_is_valid() {
        for t in DType::ALL {
            validate(&Variant::new(&RAMP_SHADER, Calc::I64, t));
            validate(&Variant::new(&TRIANGLE_SHADER, Calc::I64, raw(t)).inputs(&[raw(t)]));
        }
    }

    #[test]
    fn values_are_stored_as_their_type_rounds_them() {
        let bits = |v, t| bits_of(v, t).unwrap();
        assert_eq!(bits(Value::Float(1.0 + 1.0 / 256.0), DType::BF16), 0x3f80);
        assert_eq!(bits(Value::Float(65520.0), DType::F16), 0x7c00);
        assert_eq!(bits(Value::Float(-1.5), DType::I32), -1);
        assert_eq!(bits(Value::Float(0.5), DType::Bool), 1);
        assert_eq!(bits(Value::Int(3_000_000_000), DType::I64), 3_000_000_000);
        assert_eq!(bits(Value::Int(300), DType::U8), 44);
        assert!(bits_of(Value::Unknown, DType::F32).is_err());
    }

    #[test]
    fn ranges_count_like_numpy() {
        let n = |span, step| range_count(span, step).unwrap();
        assert_eq!([n(10, 3), n(-10, -3), n(0, 1), n(-5, 1), n(5, 1)], [4, 4, 0, 0, 5]);
        assert!(range_count(1, 0).is_err());
    }

    #[test]
    fn sizes_are_bounded() {
        assert!(check_size(DType::F32, &[usize::MAX, 2]).is_err());
        assert!(check_size(DType::U8, &[1 << 32]).is_err());
        assert!(check_size(DType::F32, &[4, 0, 3]).is_ok());
    }
}
