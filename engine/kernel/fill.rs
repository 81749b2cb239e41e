//! Tensors made from numbers.

use bytemuck::{Pod, Zeroable};

use super::emit::{Head, fold};
use super::{Alias, Call, Emit, Kernel, Outs, Shader, Value, Variant, View, call::Known};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::op::{Field, fields};

/// `Full`.
pub static FULL: Kernel = Kernel::new(Alias::Fresh, full_shape, full);
/// `FullLike`.
pub static FULL_LIKE: Kernel = Kernel::new(Alias::Fresh, full_like_shape, full_like);
/// `ARange`.
pub static ARANGE: Kernel = Kernel::new(Alias::Fresh, arange_shape, arange);
/// Not written yet.
pub static TRI: Kernel = Kernel::unwritten();
/// Not written yet.
pub static TRIL: Kernel = Kernel::unwritten();
/// Not written yet.
pub static TRIU: Kernel = Kernel::unwritten();

static FILL_SHADER: Shader = Shader { name: "fill", text: include_str!("../../shaders/fill.wgsl"), uses: &[] };

macro_rules! arange_shader {
    ($file:literal) => {
        Shader {
            name: "arange",
            text: include_str!("../../shaders/arange.wgsl"),
            uses: &[include_str!(concat!("../../shaders/", $file))],
        }
    };
}
static ARANGE_F32: Shader = arange_shader!("arange_f32.wgsl");
static ARANGE_I32: Shader = arange_shader!("arange_i32.wgsl");
static ARANGE_U32: Shader = arange_shader!("arange_u32.wgsl");
static ARANGE_I64: Shader = arange_shader!("arange_i64.wgsl");

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct FillParams {
    head: Head,
    bits: [u32; 4],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ArangeParams {
    head: Head,
    start: [f32; 4],
    whole: [u32; 4],
}

/// Sizes from a list field; the product must fit memory.
///
/// # Errors
/// When a size is negative, unknown or the product passes the limit on tensors.
pub(crate) fn dims_of(c: &Call<'_>, field: Field, dtype: DType) -> Result<super::Dims> {
    let mut total = dtype.size() as u64;
    c.ints(field)
        .iter()
        .map(|d| {
            let d = d.ok_or_else(|| Error::unsupported("a size depends on tensor data"))?;
            let d = u32::try_from(d).map_err(|_| Error::malformed(format!("size {d} is not a size")))?;
            total = total.saturating_mul(u64::from(d));
            if total > crate::limits::MAX_TENSOR_BYTES {
                return Err(Error::limit(format!(
                    "the sizes make more than {} bytes",
                    crate::limits::MAX_TENSOR_BYTES
                )));
            }
            Ok(d as usize)
        })
        .collect()
}

/// The bits of a number as an element: one word, or two for 64 bits; narrow elements repeat.
fn bits_of(dtype: DType, value: Value) -> [u32; 2] {
    let (int, float) = match value {
        Value::Int(v) => (v, v as f64),
        Value::Float(v) => (v as i64, v),
        Value::Unknown => (0, 0.0),
    };
    let narrow16 = |b: u16| u32::from(b) * 0x0001_0001;
    let narrow8 = |b: u8| u32::from(b) * 0x0101_0101;
    let one = match dtype {
        DType::F32 => (float as f32).to_bits(),
        DType::F16 => narrow16(half::f16::from_f64(float).to_bits()),
        DType::BF16 => narrow16(half::bf16::from_f32(float as f32).to_bits()),
        DType::I64 => return [int as u32, (int >> 32) as u32],
        DType::I32 | DType::U32 => int as u32,
        DType::I16 => narrow16(int as u16),
        DType::I8 | DType::U8 => narrow8(int as u8),
        DType::Bool => narrow8(u8::from(float != 0.0)),
    };
    [one, one]
}

fn fill(c: &Call<'_>, e: &mut Emit<'_>, out: Field, value: Value) -> Result<()> {
    if value == Value::Unknown {
        return Err(Error::unsupported("the fill value is not known on the host"));
    }
    let out = e.tensor(c, out)?;
    let [low, high] = bits_of(out.view.dtype, value);
    let words = out.view.bytes().div_ceil(4);
    let mut head = Head::new(&out, &[words]);
    head.count = words as u32;
    let params = FillParams { head, bits: [low, high, 0, 0] };
    e.dispatch_2d(&Variant::new(&FILL_SHADER, Calc::U32, DType::U32), &params, fold((words as u32).div_ceil(64)));
    Ok(())
}

fn know(c: &Call<'_>, out: &mut Outs, field: Field, dtype: DType, value: Value) {
    if let (Value::Int(v), false) = (value, dtype.is_float()) {
        out.know(c, field, Known::Fill(v));
    }
}

fn full_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::full as f;
    let dtype = c.dtype(f::scalar_type)?.unwrap_or(DType::F32);
    let dims = dims_of(c, f::shape, dtype)?;
    out.fresh(c, f::out, dtype, &dims);
    know(c, out, f::out, dtype, c.value(f::v));
    Ok(())
}

fn full(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    fill(c, e, fields::full::out, c.value(fields::full::v))
}

fn full_like_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::full_like as f;
    let x: &View = c.tensor(f::x)?;
    let dtype = c.dtype(f::scalar_type)?.unwrap_or(x.dtype);
    out.fresh(c, f::out, dtype, &x.dims);
    know(c, out, f::out, dtype, c.value(f::v));
    Ok(())
}

fn full_like(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    fill(c, e, fields::full_like::out, c.value(fields::full_like::v))
}

/// Elements of `start..stop` in steps. Source: `arange` of NumPy.
fn arange_count(start: i64, stop: i64, step: i64) -> Result<usize> {
    let span = stop.checked_sub(start).ok_or_else(|| Error::limit(format!("the range {start}..{stop} is too long")))?;
    if step == 0 {
        return Err(Error::malformed("a range with step 0"));
    }
    if (span > 0) != (step > 0) || span == 0 {
        return Ok(0);
    }
    let count = span.unsigned_abs().div_ceil(step.unsigned_abs());
    u32::try_from(count).map(|c| c as usize).map_err(|_| Error::limit(format!("a range of {count} elements")))
}

fn arange_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::arange as f;
    let dtype = c.dtype(f::scalar_type)?.unwrap_or(DType::I32);
    let count = arange_count(c.int(f::start)?, c.int(f::stop)?, c.int(f::step)?)?;
    out.fresh(c, f::out, dtype, &[count]);
    Ok(())
}

fn arange(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::arange as f;
    let out = e.tensor(c, f::out)?;
    let (start, step) = (c.int(f::start)?, c.int(f::step)?);
    let words = |v: i64| [v as u32, (v >> 32) as u32];
    let params = ArangeParams {
        head: Head::new(&out, &out.view.dims),
        start: [start as f32, step as f32, 0.0, 0.0],
        whole: [words(start)[0], words(start)[1], words(step)[0], words(step)[1]],
    };
    let t = out.view.dtype;
    let shader = match t.calc() {
        Calc::F32 => &ARANGE_F32,
        Calc::I32 => &ARANGE_I32,
        Calc::U32 => &ARANGE_U32,
        Calc::I64 => &ARANGE_I64,
    };
    e.dispatch_2d(&Variant::new(shader, t.calc(), t), &params, fold(params.head.threads(t).div_ceil(64)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    #[test]
    fn ranges_count_like_numpy() {
        let n = |a, b, s| arange_count(a, b, s).unwrap();
        assert_eq!([n(0, 10, 3), n(10, 0, -3), n(0, 0, 1), n(5, 0, 1), n(-2, 3, 1)], [4, 4, 0, 0, 5]);
        assert!(arange_count(0, 1, 0).is_err());
        assert!(arange_count(i64::MIN, i64::MAX, 1).is_err());
    }

    #[test]
    fn numbers_become_elements() {
        assert_eq!(bits_of(DType::BF16, Value::Float(1.0)), [0x3f80_3f80; 2]);
        assert_eq!(bits_of(DType::I64, Value::Int(-2)), [0xffff_fffe, 0xffff_ffff]);
        assert_eq!(bits_of(DType::Bool, Value::Float(0.5)), [0x0101_0101; 2]);
    }

    #[test]
    fn variants_validate() {
        validate(&Variant::new(&FILL_SHADER, Calc::U32, DType::U32));
        for t in DType::ALL {
            let shader = match t.calc() {
                Calc::F32 => &ARANGE_F32,
                Calc::I32 => &ARANGE_I32,
                Calc::U32 => &ARANGE_U32,
                Calc::I64 => &ARANGE_I64,
            };
            validate(&Variant::new(shader, t.calc(), t));
        }
    }
}
