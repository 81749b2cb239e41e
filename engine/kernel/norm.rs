//! Normalisations over an axis.

use bytemuck::{Pod, Zeroable};

use super::emit::{Arg, Head, Tensor, collapse, fold};
use super::matmul::{need_float, need_rank, per_word};
use super::reduce::row_lanes;
use super::{Alias, Call, Emit, Kernel, Outs, Shader, Variant, View, axis};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::op::fields;

/// `RMSNorm`: over the last axis.
pub static RMS_NORM: Kernel = Kernel::new(Alias::Fresh, rms_shape, rms);
/// `LayerNorm`: over the last axis.
pub static LAYER_NORM: Kernel = Kernel::new(Alias::Fresh, layer_shape, layer);
/// `Softmax`: over any one axis.
pub static SOFTMAX: Kernel = Kernel::new(Alias::Fresh, softmax_shape, softmax).with_scratch(1);

const EXPO: &str = include_str!("../../shaders/expo.wgsl");
static ROWS: Shader = Shader {
    name: "norm",
    text: include_str!("../../shaders/norm.wgsl"),
    uses: &[EXPO, include_str!("../../shaders/lanes.wgsl")],
};
static PULL: Shader =
    Shader { name: "softmax_pull", text: include_str!("../../shaders/softmax_pull.wgsl"), uses: &[EXPO] };

/// Axes up to this long are summed by each thread that needs the sum.
const SHORT: usize = 16;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    head: Head,
    a: Arg,
    n: u32,
    col: i32,
    rows: u32,
    eps: f32,
    w_offset: u32,
    w_col: i32,
    z_offset: u32,
    z_col: i32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct PullParams {
    head: Head,
    a: Arg,
    n: u32,
    col: i32,
    inner: u32,
    stats: u32,
}

/// Which rows kernel (`KIND` in `norm.wgsl`).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Rms = 0,
    Layer = 1,
    Softmax = 2,
    Stats = 3,
}

/// Checks `x` and the vectors that scale and shift its last axis; gives the output's type.
fn norm_type(x: &View, vectors: [(Option<&View>, &str); 2]) -> Result<DType> {
    need_rank(x, 1, "x")?;
    let n = x.dims[x.rank() - 1];
    let mut t = x.dtype;
    for (v, name) in vectors {
        let Some(v) = v else { continue };
        if v.rank() != 1 || v.dims[0] != n {
            return Err(Error::malformed(format!("shape {:?} for rows of {n} elements", &v.dims[..]))
                .at(format!("field {name}")));
        }
        t = t.promote(v.dtype);
    }
    need_float(t)
}

fn rms_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::rms_norm as f;
    let x = c.tensor(f::x)?;
    let t = norm_type(x, [(c.optional(f::weight), "weight"), (None, "")])?;
    out.fresh(c, f::out, t, &x.dims);
    Ok(())
}

fn rms(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::rms_norm as f;
    let (x, w, out) = (e.tensor(c, f::x)?, e.optional(c, f::weight)?, e.tensor(c, f::out)?);
    let last = x.view.rank() - 1;
    emit_rows(e, Kind::Rms, &x, last, [w.as_ref(), None], c.float(f::eps)? as f32, &out);
    Ok(())
}

fn layer_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::layer_norm as f;
    let x = c.tensor(f::x)?;
    let t = norm_type(x, [(c.optional(f::weight), "weight"), (c.optional(f::bias), "bias")])?;
    out.fresh(c, f::out, t, &x.dims);
    Ok(())
}

fn layer(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::layer_norm as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let (w, z) = (e.optional(c, f::weight)?, e.optional(c, f::bias)?);
    let last = x.view.rank() - 1;
    emit_rows(e, Kind::Layer, &x, last, [w.as_ref(), z.as_ref()], c.float(f::eps)? as f32, &out);
    Ok(())
}

/// Emits the row kernel over axis `at` of `x`: into `out`, or of [`Kind::Stats`] two words per row.
fn emit_rows(
    e: &mut Emit<'_>,
    kind: Kind,
    x: &Tensor,
    at: usize,
    [w, z]: [Option<&Tensor>; 2],
    eps: f32,
    out: &Tensor,
) {
    let n = x.view.dims[at];
    let (mut kept, mut strides) = (x.view.dims.clone(), x.view.strides.clone());
    kept.remove(at);
    let col = strides.remove(at);
    let (dims, [s]) = collapse(&kept, [&strides]);
    let mut head = Head::new(out, &dims);
    let total = head.count as usize;
    head.count = x.view.count() as u32;
    let per = if kind == Kind::Stats { 1 } else { per_word(out.view.dtype) as usize };
    let rows = if n % per == 0 { 1 } else { per };
    let place = |t: Option<&Tensor>| t.map_or((0, 0), |t| (t.offset, t.view.strides[0] as i32));
    let ((w_offset, w_col), (z_offset, z_col)) = (place(w), place(z));
    let params = Params {
        head,
        a: Arg::new(x.space, x.offset, &s, false),
        n: n as u32,
        col: col as i32,
        rows: rows as u32,
        eps,
        w_offset,
        w_col,
        z_offset,
        z_col,
    };
    let [lanes, side] = row_lanes(n, e.caps);
    let t = |o: Option<&Tensor>| o.map_or(DType::F32, |t| t.view.dtype);
    let v = Variant::new(&ROWS, Calc::F32, out.view.dtype)
        .inputs(&[x.view.dtype, t(w), t(z)])
        .option("KIND", kind as u32)
        .option("X_SPACE", x.space as u32)
        .option("W_SPACE", w.map_or(0, |t| t.space as u32))
        .option("Z_SPACE", z.map_or(0, |t| t.space as u32))
        .option("HAS_W", u32::from(w.is_some()))
        .option("HAS_Z", u32::from(z.is_some()))
        .option("PER_WORD", per as u32)
        .option("THREADS", lanes)
        .option("SIDE", side);
    e.dispatch_2d(&v, &params, fold(total.div_ceil(rows) as u32));
}

/// The axis; that of a scalar is a made-up one of size 1.
fn softmax_axis(c: &Call<'_>, x: &View) -> Result<usize> {
    axis(c.int(fields::softmax::axis)?, x.rank().max(1))
}

/// Whether the row pass writes statistics that a second pass applies: a long axis with others inside it.
fn needs_stats(x: &View, at: usize) -> bool {
    x.dims.get(at).is_some_and(|&n| n > SHORT) && x.dims[at + 1..].iter().any(|&d| d != 1)
}

fn softmax_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::softmax as f;
    let x = c.tensor(f::x)?;
    let at = softmax_axis(c, x)?;
    let t = if x.dtype.is_float() { x.dtype } else { DType::F32 };
    if needs_stats(x, at) {
        out.scratch_words(x.count() / x.dims[at] * 2);
    }
    out.fresh(c, f::out, t, &x.dims);
    Ok(())
}

fn softmax(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::softmax as f;
    let (mut x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let at = softmax_axis(c, &x.view)?;
    if x.view.rank() == 0 {
        x.view.dims.push(1);
        x.view.strides.push(0);
    }
    let stats = if needs_stats(&x.view, at) {
        let mut stats = e.scratch(c, 0)?;
        stats.view.dtype = DType::F32;
        emit_rows(e, Kind::Stats, &x, at, [None, None], 0.0, &stats);
        Some(stats)
    } else {
        None
    };
    let n = x.view.dims[at];
    if stats.is_none() && n > SHORT {
        emit_rows(e, Kind::Softmax, &x, at, [None, None], 0.0, &out);
        return Ok(());
    }
    let (dims, [s]) = collapse(&x.view.dims, [&x.view.strides]);
    let params = PullParams {
        head: Head::new(&out, &dims),
        a: Arg::new(x.space, x.offset, &s, x.view.is_contiguous()),
        n: n as u32,
        col: x.view.strides[at] as i32,
        inner: x.view.dims[at + 1..].iter().product::<usize>() as u32,
        stats: stats.as_ref().map_or(0, Tensor::word),
    };
    let v = Variant::new(&PULL, Calc::F32, out.view.dtype)
        .inputs(&[x.view.dtype])
        .option("X_SPACE", x.space as u32)
        .option("READ_STATS", u32::from(stats.is_some()));
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
            validate(&Variant::new(&ROWS, Calc::F32, t).inputs(&[t, DType::BF16, DType::F32]));
            validate(&Variant::new(&PULL, Calc::F32, t).inputs(&[t]));
        }
    }

    #[test]
    fn vectors_fit_the_last_axis() {
        let x = View::contiguous(DType::F16, &[2, 3]);
        let w = |n| View::contiguous(DType::F32, &[n]);
        assert_eq!(norm_type(&x, [(Some(&w(3)), "weight"), (None, "bias")]).unwrap(), DType::F32);
        let e = norm_type(&x, [(None, "weight"), (Some(&w(4)), "bias")]).unwrap_err().to_string();
        assert_eq!(e, "field bias: shape [4] for rows of 3 elements");
        assert!(norm_type(&View::contiguous(DType::I32, &[2]), [(None, ""), (None, "")]).is_err());
    }

    #[test]
    fn long_inner_axes_take_two_passes() {
        let v = |d: &[usize]| View::contiguous(DType::F32, d);
        assert!(!needs_stats(&v(&[4, 100]), 1) && needs_stats(&v(&[100, 4]), 0));
        assert!(!needs_stats(&v(&[100, 1]), 0) && !needs_stats(&v(&[8, 4]), 0) && !needs_stats(&v(&[]), 0));
    }
}
