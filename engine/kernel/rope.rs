//! Rotary position embedding.

use bytemuck::{Pod, Zeroable};

use super::emit::{Arg, Head, Tensor, collapse, fold};
use super::matmul::need_float;
use super::{Alias, Call, Emit, Kernel, Outs, Shader, Variant, View};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::op::fields;

/// `Rope`.
pub static ROPE: Kernel = Kernel::new(Alias::Fresh, shape, rope);

static SHADER: Shader = Shader {
    name: "rope",
    text: include_str!("../../shaders/rope.wgsl"),
    uses: &[include_str!("../../shaders/math_f32.wgsl"), include_str!("../../shaders/expo.wgsl")],
};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    head: Head,
    a: Arg,
    entry: u32,
    len: u32,
    width: u32,
    dims: u32,
    col: i32,
    scale: f32,
    step: f32,
    step_rest: f32,
    offset_space: u32,
    offset: i32,
    offset_col: i32,
    freq_space: u32,
    freq: u32,
    freq_col: i32,
    pad: [u32; 2],
}

/// Elements of a row that turn.
fn turned(c: &Call<'_>, x: &View) -> Result<usize> {
    if x.rank() < 3 {
        return Err(Error::malformed(format!("shape {:?}, needs 3 or more dims", &x.dims[..])).at("field x"));
    }
    need_float(x.dtype)?;
    let (dims, width) = (c.int(fields::rope::dims)?, x.dims[x.rank() - 1]);
    usize::try_from(dims)
        .ok()
        .filter(|&d| d > 0 && d % 2 == 0 && d <= width)
        .ok_or_else(|| Error::malformed(format!("{dims} of {width} elements turn; needs an even number of them")))
}

fn shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::rope as f;
    let x = c.tensor(f::x)?;
    let dims = turned(c, x)?;
    if let Some(v) = c.optional(f::freqs)
        && (v.rank() != 1 || v.dims[0] != dims / 2 || !v.dtype.is_float())
    {
        return Err(Error::malformed(format!("{} {:?} for {} pairs", v.dtype, &v.dims[..], dims / 2)).at("field freqs"));
    }
    if let Some(o) = c.optional(f::offset) {
        let fits = o.rank() <= 1 && (o.count() == 1 || o.count() == x.dims[0]);
        if !fits || !matches!(o.dtype, DType::I32 | DType::I64 | DType::U32) {
            return Err(
                Error::malformed(format!("{} {:?} for {} entries", o.dtype, &o.dims[..], x.dims[0])).at("field offset")
            );
        }
    }
    out.fresh(c, f::out, x.dtype, &x.dims);
    Ok(())
}

/// The binary logarithm of `base` over the number of pairs: the part whose multiples by up to 2^10 are exact
/// in binary32, and the rest.
fn split_step(base: f64, pairs: usize) -> (f32, f32) {
    let step = base.log2() / pairs as f64;
    let short = f32::from_bits((step as f32).to_bits() & !0x7ff);
    (short, (step - f64::from(short)) as f32)
}

/// Place of the offset: buffer, first word or the number itself, and words between batch entries.
fn offset_of(c: &Call<'_>, t: Option<&Tensor>) -> Result<(u32, i32, i32)> {
    let Some(t) = t else {
        let v = c.int(fields::rope::offset)?;
        let v = i32::try_from(v).map_err(|_| Error::malformed(format!("offset {v} passes 32 bits")))?;
        return Ok((0, v, 0));
    };
    let words = (t.view.dtype.size() / 4) as i32;
    let col = if t.view.count() == 1 { 0 } else { t.view.strides[0] as i32 };
    Ok((t.space as u32, (t.offset as i32) * words, col * words))
}

fn rope(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::rope as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let (freqs, offset) = (e.optional(c, f::freqs)?, e.optional(c, f::offset)?);
    let dims = turned(c, &x.view)?;
    let r = x.view.rank();
    let (split, [s]) = collapse(&x.view.dims, [&x.view.strides]);
    let (step, step_rest) = if freqs.is_some() { (0.0, 0.0) } else { split_step(c.float(f::base)?, dims / 2) };
    let (offset_space, place, offset_col) = offset_of(c, offset.as_ref())?;
    let params = Params {
        head: Head::new(&out, &split),
        a: Arg::new(x.space, x.offset, &s, x.view.is_contiguous()),
        entry: x.view.dims[1..].iter().product::<usize>() as u32,
        len: x.view.dims[r - 2] as u32,
        width: x.view.dims[r - 1] as u32,
        dims: dims as u32,
        col: x.view.strides[r - 1] as i32,
        scale: c.float(f::scale)? as f32,
        step,
        step_rest,
        offset_space,
        offset: place,
        offset_col,
        freq_space: freqs.as_ref().map_or(0, |t| t.space as u32),
        freq: freqs.as_ref().map_or(0, |t| t.offset),
        freq_col: freqs.as_ref().map_or(0, |t| t.view.strides[0] as i32),
        pad: [0; 2],
    };
    let v = Variant::new(&SHADER, Calc::F32, out.view.dtype)
        .inputs(&[x.view.dtype, freqs.as_ref().map_or(DType::F32, |t| t.view.dtype)])
        .option("X_SPACE", x.space as u32)
        .option("PAIRS", u32::from(c.flag(f::traditional)))
        .option("HAS_FREQS", u32::from(freqs.is_some()))
        .option("HAS_OFFSET", u32::from(offset.is_some()));
    e.dispatch_2d(&v, &params, fold(params.head.threads(out.view.dtype).div_ceil(64)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    #[test]
    fn variants_validate() {
        for t in [DType::F32, DType::F16, DType::BF16] {
            validate(&Variant::new(&SHADER, Calc::F32, t).inputs(&[t, DType::F32]));
        }
    }

    #[test]
    fn steps_split_without_loss() {
        for (base, pairs) in [(10_000.0, 32), (500_000.0, 64), (1_000_000.0, 128), (1.0, 4)] {
            let (short, rest) = split_step(base, pairs);
            let exact = f64::from(base as f32).log2() / pairs as f64;
            for i in 0..pairs {
                assert_eq!(f64::from(i as f32 * short), i as f64 * f64::from(short), "{base} {i}");
                let got = f64::from(i as f32 * short) + f64::from(i as f32 * rest);
                assert!((got - i as f64 * exact).abs() < 1e-9, "{base} {i}: {got}");
            }
        }
    }
}
