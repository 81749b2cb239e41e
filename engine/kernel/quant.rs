//! Packed weights: products with them, and unpacking.

use bytemuck::{Pod, Zeroable};

use super::emit::{Arg, Head, Tensor, collapse, fold};
use super::matmul::{
    Form, Mat, Pick, Shaders, Sizes, as_matrix, batch_head, batch_strides, check_size, form, gather_dims,
    gather_scratch, gather_side, groups, lanes, load_kind, mat, matrices, need_float, need_rank, shaders,
    single_stride, starts, variant,
};
use super::{Alias, Call, Dims, Emit, Kernel, Outs, Shader, Strides, Variant, View, broadcast_dims};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::op::{Field, fields};

/// `QuantizedMatmul`.
pub static QUANTIZED_MATMUL: Kernel = Kernel::new(Alias::Fresh, matmul_shape, matmul).with_scratch(3);
/// `Dequantize`.
pub static DEQUANTIZE: Kernel = Kernel::new(Alias::Fresh, dequantize_shape, dequantize).with_scratch(1);
/// `GatherQmm`.
pub static GATHER_QMM: Kernel = Kernel::new(Alias::Fresh, gather_shape, gather).with_scratch(7);

const CODES: &str = include_str!("../../shaders/quant_codes.wgsl");

static SHADERS: Shaders = shaders(
    &[include_str!("../../shaders/words.wgsl"), CODES, include_str!("../../shaders/mm_quant.wgsl")],
    ["qmm_pull", "qmm_vec", "qmm_tile"],
);
static UNPACK: Shader = Shader { name: "unpack", text: include_str!("../../shaders/unpack.wgsl"), uses: &[CODES] };

/// How weights are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Packing {
    /// The shaders' `MODE`.
    mode: u32,
    bits: usize,
    /// Values that share a scale.
    group: usize,
}

/// Reads the packing of an op. Source: MLX `quantization_params_from_mode` (mlx/ops.cpp) for what 0 means.
fn packing(c: &Call<'_>, mode: Field, bits: Field, group: Field) -> Result<Packing> {
    let name = c.text(mode);
    let (mode, default_bits, default_group) = match name {
        "affine" => (0, 4, 64),
        "mxfp4" => (1, 4, 32),
        "mxfp8" => (2, 8, 32),
        "nvfp4" => (3, 4, 16),
        _ => return Err(Error::unsupported(format!("quantization mode {name:?}"))),
    };
    let pick = |f: Field, default: i64| match c.int(f) {
        Ok(0) | Err(_) => default,
        Ok(v) => v,
    };
    let (bits, group) = (pick(bits, default_bits), pick(group, default_group));
    if mode == 0 {
        if !matches!(bits, 2 | 3 | 4 | 5 | 6 | 8) {
            return Err(Error::unsupported(format!("{bits} bits; affine weights have 2, 3, 4, 5, 6 or 8")));
        }
        if group < 1 {
            return Err(Error::malformed(format!("group size {group}")));
        }
    } else if bits != default_bits || group != default_group {
        return Err(Error::malformed(format!(
            "{name} has {default_bits} bits in groups of {default_group}, not {bits} in groups of {group}"
        )));
    }
    Ok(Packing { mode, bits: bits as usize, group: group as usize })
}

/// Values of a packed row, once weights, scales and biases are found to fit each other.
fn check_packed(p: Packing, w: &View, scales: &View, biases: Option<&View>) -> Result<usize> {
    need_rank(w, 2, "w")?;
    if w.dtype != DType::U32 {
        return Err(Error::malformed(format!("packed weights are {}, not u32 words", w.dtype)));
    }
    let scale_fits = if p.mode == 0 { scales.dtype.is_float() } else { scales.dtype == DType::U8 };
    if !scale_fits {
        return Err(Error::malformed(format!("scales are {}", scales.dtype)));
    }
    if let Some(z) = biases {
        if p.mode != 0 {
            return Err(Error::malformed("only affine weights have biases"));
        }
        if z.dims != scales.dims || !z.dtype.is_float() {
            return Err(Error::malformed(format!(
                "biases are {} {:?}, scales {} {:?}",
                z.dtype,
                &z.dims[..],
                scales.dtype,
                &scales.dims[..]
            )));
        }
    }
    let r = w.rank();
    let bits = w.dims[r - 1].checked_mul(32).filter(|b| b % p.bits == 0);
    let values = bits.map(|b| b / p.bits);
    let groups = scales.dims.last().and_then(|g| g.checked_mul(p.group));
    if values.is_none() || values != groups || scales.rank() != r || scales.dims[..r - 1] != w.dims[..r - 1] {
        return Err(Error::malformed(format!(
            "weights {:?} of {} bits and scales {:?} for groups of {} do not fit",
            &w.dims[..],
            p.bits,
            &scales.dims[..],
            p.group
        )));
    }
    Ok(values.unwrap_or(0))
}

/// The operands of a product.
struct Operands<'a> {
    x: &'a View,
    w: &'a View,
    scales: &'a View,
    biases: Option<&'a View>,
}

/// Sizes without the batch, which is left empty.
fn sizes(o: &Operands<'_>, p: Packing, transposed: bool) -> Result<Sizes> {
    need_rank(o.x, 1, "x")?;
    let values = check_packed(p, o.w, o.scales, o.biases)?;
    let x = as_matrix(o.x, 0);
    let (r, rows) = (x.rank(), o.w.dims[o.w.rank() - 2]);
    let (k, n) = if transposed { (values, rows) } else { (rows, values) };
    if x.dims[r - 1] != k {
        return Err(Error::malformed(format!(
            "x has shape {:?}, the weights sum over {k} (transpose {transposed})",
            &o.x.dims[..]
        )));
    }
    Ok(Sizes { batch: Dims::new(), m: x.dims[r - 2], n, k })
}

fn out_type(o: &Operands<'_>, p: Packing) -> Result<DType> {
    if p.mode != 0 {
        return need_float(o.x.dtype);
    }
    let t = o.x.dtype.promote(o.scales.dtype);
    need_float(o.biases.map_or(t, |z| t.promote(z.dtype)))
}

/// Scratch for operands whose layout the kernels cannot walk: words or groups apart, and biases laid out
/// unlike the scales.
fn packed_scratch(out: &mut Outs, w: &View, scales: &View, biases: Option<&View>) {
    for t in packed_copies(w, scales, biases).into_iter().flatten() {
        out.scratch.push(View::contiguous(t.dtype, &t.dims));
    }
}

fn packed_copies<'a>(w: &'a View, scales: &'a View, biases: Option<&'a View>) -> [Option<&'a View>; 3] {
    let packed = |v: &View| v.strides.last() == Some(&1) && v.strides[..v.rank() - 1].iter().all(|&s| s >= 0);
    let unlike = biases.is_some_and(|z| z.strides != scales.strides);
    [(!packed(w)).then_some(w), unlike.then_some(scales), biases.filter(|_| unlike)]
}

/// Copies what [`packed_scratch`] asked for.
fn copy_packed(
    c: &Call<'_>,
    e: &mut Emit<'_>,
    [w, s, z]: [&mut Tensor; 3],
    has_z: bool,
    next: &mut usize,
) -> Result<()> {
    let copies = packed_copies(&w.view, &s.view, has_z.then_some(&z.view)).map(|v| v.is_some());
    for (t, copied) in [w, s, z].into_iter().zip(copies) {
        if copied {
            let dense = e.scratch(c, *next)?;
            *next += 1;
            super::view::copy(e, t, &dense)?;
            *t = dense;
        }
    }
    Ok(())
}

fn matmul_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::quantized_matmul as f;
    let p = packing(c, f::mode, f::bits, f::group_size)?;
    let o = Operands {
        x: c.tensor(f::x)?,
        w: c.tensor(f::w)?,
        scales: c.tensor(f::scales)?,
        biases: c.optional(f::biases),
    };
    let mut s = sizes(&o, p, c.flag(f::transpose))?;
    let x = as_matrix(o.x, 0);
    s.batch = broadcast_dims(&x.dims[..x.rank() - 2], &o.w.dims[..o.w.rank() - 2])?;
    let mut dims = s.dims();
    if o.x.rank() == 1 {
        dims.remove(s.batch.len());
    }
    packed_scratch(out, o.w, o.scales, o.biases);
    check_size(&dims)?;
    out.fresh(c, f::out, out_type(&o, p)?, &dims);
    Ok(())
}

fn matmul(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::quantized_matmul as f;
    let p = packing(c, f::mode, f::bits, f::group_size)?;
    let transposed = c.flag(f::transpose);
    let (mut x, mut w, mut scales, out) =
        (e.tensor(c, f::x)?, e.tensor(c, f::w)?, e.tensor(c, f::scales)?, e.tensor(c, f::out)?);
    let biases = e.optional(c, f::biases)?;
    let o = Operands { x: &x.view, w: &w.view, scales: &scales.view, biases: biases.as_ref().map(|t| &t.view) };
    let mut s = sizes(&o, p, transposed)?;
    x.view = as_matrix(&x.view, 0);
    fold_rows(&mut x.view, w.view.rank(), &mut s);
    s.batch = broadcast_dims(&x.view.dims[..x.view.rank() - 2], &w.view.dims[..w.view.rank() - 2])?;
    let has_z = biases.is_some();
    let mut z = biases.unwrap_or_else(|| scales.clone());
    copy_packed(c, e, [&mut w, &mut scales, &mut z], has_z, &mut 0)?;
    let batch =
        [batch_strides(&x.view, &s.batch)?, batch_strides(&w.view, &s.batch)?, batch_strides(&scales.view, &s.batch)?];
    emit(e, &Packed { p, transposed, s, x, w, scales, z, has_z, batch, picks: [None, None] }, &out)
}

/// Turns leading dims of `x` that lie in one run into rows of one matrix, where the weights have no batch.
fn fold_rows(x: &mut View, w_rank: usize, s: &mut Sizes) {
    let r = x.rank();
    if w_rank != 2 || r == 2 {
        return;
    }
    let (dims, [strides]) = collapse(&x.dims[..r - 1], [&x.strides[..r - 1]]);
    if dims.len() == 1 {
        s.m = dims[0];
        let (k, col) = (x.dims[r - 1], x.strides[r - 1]);
        x.dims = [dims[0], k].into_iter().collect();
        x.strides = [strides[0], col].into_iter().collect();
    }
}

/// A product ready to be emitted.
struct Packed {
    p: Packing,
    transposed: bool,
    s: Sizes,
    x: Tensor,
    w: Tensor,
    scales: Tensor,
    z: Tensor,
    has_z: bool,
    /// Strides over the batch dims: of the matrices, or of the index tensor that picks them.
    batch: [Strides; 3],
    picks: [Option<Pick>; 2],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    head: Head,
    m: u32,
    n: u32,
    k: u32,
    group: u32,
    a: Mat,
    b: Mat,
    s: Mat,
    z: Mat,
    batch: [[i32; 8]; 3],
    lhs: Pick,
    rhs: Pick,
}

fn emit(e: &mut Emit<'_>, d: &Packed, out: &Tensor) -> Result<()> {
    let s = &d.s;
    let (dims, [sa, sb, sc]) = collapse(&s.batch, [&d.batch[0], &d.batch[1], &d.batch[2]]);
    let (a, b) = (mat(&d.x, matrices(&d.x.view)), mat(&d.w, matrices(&d.w.view)));
    let params = Params {
        head: batch_head(out, s, &dims),
        m: s.m as u32,
        n: s.n as u32,
        k: s.k as u32,
        group: d.p.group as u32,
        a,
        b,
        s: mat(&d.scales, 1),
        z: mat(&d.z, 1),
        batch: [lanes(&sa), lanes(&sb), lanes(&sc)],
        lhs: d.picks[0].unwrap_or_default(),
        rhs: d.picks[1].unwrap_or_default(),
    };
    let eights = d.transposed && d.p.group % 8 == 0 && s.k % 8 == 0 && a.col == 1;
    let form = form(s, out.view.dtype, eights, e.caps.software);
    let mut v = variant(&SHADERS, form, s, out.view.dtype)
        .inputs(&[d.x.view.dtype, d.scales.view.dtype, d.z.view.dtype])
        .option("BITS", d.p.bits as u32)
        .option("MODE", d.p.mode)
        .option("A_SPACE", d.x.space as u32)
        .option("B_SPACE", d.w.space as u32)
        .option("S_SPACE", d.scales.space as u32)
        .option("Z_SPACE", d.z.space as u32)
        .option("HAS_Z", u32::from(d.has_z))
        .option("TRANSPOSED", u32::from(d.transposed))
        .option("LHS", u32::from(d.picks[0].is_some()))
        .option("RHS", u32::from(d.picks[1].is_some()));
    if form == Form::Tile {
        v = v.option("A_ALONG", u32::from(a.col == 1)).option("B_ALONG", u32::from(d.transposed));
    } else if eights {
        v = v.option("EIGHTS", 1).option("A_LOAD", load_kind(&d.x, &starts(d.picks[0], a.row, &sa)));
    }
    e.dispatch_2d(&v, &params, fold(groups(form, s, out.view.dtype)));
    Ok(())
}

fn gather_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::gather_qmm as f;
    let p = packing(c, f::mode, f::bits, f::group_size)?;
    let o = Operands {
        x: c.tensor(f::x)?,
        w: c.tensor(f::w)?,
        scales: c.tensor(f::scales)?,
        biases: c.optional(f::biases),
    };
    need_rank(o.x, 2, "x")?;
    let mut s = sizes(&o, p, c.flag(f::transpose))?;
    s.batch = gather_dims(c, [f::lhs_indices, f::rhs_indices], [o.x, o.w])?;
    packed_scratch(out, o.w, o.scales, o.biases);
    let rhs = c.optional(f::rhs_indices);
    let copies = packed_copies(o.w, o.scales, o.biases);
    if rhs.is_some() && copies[1].is_none() && single_stride(o.scales).is_none() {
        return Err(Error::unsupported(format!("scales with strides {:?} under indices", &o.scales.strides[..])));
    }
    gather_scratch(out, o.x, c.optional(f::lhs_indices));
    match copies[0] {
        Some(w) => gather_scratch(out, &View::contiguous(w.dtype, &w.dims), rhs),
        None => gather_scratch(out, o.w, rhs),
    }
    check_size(&s.dims())?;
    out.fresh(c, f::out, out_type(&o, p)?, &s.dims());
    Ok(())
}

fn gather(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::gather_qmm as f;
    let p = packing(c, f::mode, f::bits, f::group_size)?;
    let transposed = c.flag(f::transpose);
    let (x, mut w, mut scales, out) =
        (e.tensor(c, f::x)?, e.tensor(c, f::w)?, e.tensor(c, f::scales)?, e.tensor(c, f::out)?);
    let biases = e.optional(c, f::biases)?;
    let o = Operands { x: &x.view, w: &w.view, scales: &scales.view, biases: biases.as_ref().map(|t| &t.view) };
    let mut s = sizes(&o, p, transposed)?;
    s.batch = gather_dims(c, [f::lhs_indices, f::rhs_indices], [&x.view, &w.view])?;
    let (lhs, rhs) = (e.optional(c, f::lhs_indices)?, e.optional(c, f::rhs_indices)?);
    let has_z = biases.is_some();
    let mut z = biases.unwrap_or_else(|| scales.clone());
    let mut next = 0;
    copy_packed(c, e, [&mut w, &mut scales, &mut z], has_z, &mut next)?;
    let (x, sa, pa) = gather_side(c, e, x, lhs, &s.batch, &mut next)?;
    let (w, sb, mut pb) = gather_side(c, e, w, rhs, &s.batch, &mut next)?;
    let sc = match &mut pb {
        Some(pick) => {
            pick.second = single_stride(&scales.view).unwrap_or(0) as u32;
            Strides::from_elem(0, s.batch.len())
        }
        None => batch_strides(&scales.view, &s.batch)?,
    };
    emit(e, &Packed { p, transposed, s, x, w, scales, z, has_z, batch: [sa, sb, sc], picks: [pa, pb] }, &out)
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct UnpackParams {
    head: Head,
    w: Arg,
    s: Arg,
    z: Arg,
    columns: u32,
    group: u32,
    scale_col: i32,
    global: u32,
}

fn dequantize_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::dequantize as f;
    let p = packing(c, f::mode, f::bits, f::group_size)?;
    let (w, s, z) = (c.tensor(f::w)?, c.tensor(f::scales)?, c.optional(f::biases));
    let values = check_packed(p, w, s, z)?;
    if let Some(g) = c.optional(f::global_scale)
        && (p.mode != 3 || g.count() != 1 || g.dtype != DType::F32)
    {
        return Err(Error::malformed(format!("a global scale {} {:?}; nvfp4 takes one f32", g.dtype, &g.dims[..])));
    }
    let t = match c.dtype(f::dtype)? {
        Some(t) => need_float(t)?,
        None if p.mode != 0 => DType::BF16,
        None => z.map_or(s.dtype, |z| s.dtype.promote(z.dtype)),
    };
    let mut dims = w.dims.clone();
    *dims.last_mut().expect("rank is at least 2") = values;
    if w.strides.last() != Some(&1) {
        out.scratch.push(View::contiguous(w.dtype, &w.dims));
    }
    out.fresh(c, f::out, t, &dims);
    Ok(())
}

fn dequantize(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::dequantize as f;
    let p = packing(c, f::mode, f::bits, f::group_size)?;
    let (mut w, s, out) = (e.tensor(c, f::w)?, e.tensor(c, f::scales)?, e.tensor(c, f::out)?);
    let (biases, global) = (e.optional(c, f::biases)?, e.optional(c, f::global_scale)?);
    if w.view.strides.last() != Some(&1) {
        let dense = e.scratch(c, 0)?;
        super::view::copy(e, &w, &dense)?;
        w = dense;
    }
    let has_z = biases.is_some();
    let z = biases.unwrap_or_else(|| s.clone());
    let r = w.view.rank() - 1;
    let (dims, [sw, ss, sz]) =
        collapse(&w.view.dims[..r], [&w.view.strides[..r], &s.view.strides[..r], &z.view.strides[..r]]);
    let mut head = Head::new(&out, &dims);
    head.count = out.view.count() as u32;
    let mut z_arg = Arg::new(z.space, z.offset, &sz, false);
    z_arg.pad = z.view.strides[r] as u32;
    let mut w_arg = Arg::new(w.space, w.offset, &sw, false);
    // The place of the global scale rides in the padding of the weights' block.
    w_arg.pad = global.as_ref().map_or(0, |g| g.offset);
    let params = UnpackParams {
        head,
        w: w_arg,
        s: Arg::new(s.space, s.offset, &ss, false),
        z: z_arg,
        columns: out.view.dims[r] as u32,
        group: p.group as u32,
        scale_col: s.view.strides[r] as i32,
        global: global.as_ref().map_or(0, |g| g.space as u32),
    };
    let v = Variant::new(&UNPACK, Calc::F32, out.view.dtype)
        .inputs(&[DType::F32, s.view.dtype, z.view.dtype])
        .option("BITS", p.bits as u32)
        .option("MODE", p.mode)
        .option("B_SPACE", w.space as u32)
        .option("S_SPACE", s.space as u32)
        .option("Z_SPACE", z.space as u32)
        .option("HAS_Z", u32::from(has_z))
        .option("HAS_G", u32::from(global.is_some()));
    e.dispatch_2d(&v, &params, fold(params.head.threads(out.view.dtype).div_ceil(64)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    #[test]
    fn variants_validate() {
        assert_eq!(size_of::<Params>(), 256);
        let s = Sizes { batch: Dims::new(), m: 3, n: 8, k: 8 };
        for t in [DType::F32, DType::F16, DType::BF16] {
            for scale in [DType::F32, DType::BF16, DType::U8] {
                for form in [Form::Pull, Form::Vec, Form::Tile] {
                    validate(&variant(&SHADERS, form, &s, t).inputs(&[t, scale, scale]));
                }
                validate(&Variant::new(&UNPACK, Calc::F32, t).inputs(&[DType::F32, scale, scale]));
            }
        }
    }

    #[test]
    fn packed_rows_must_fit_their_scales() {
        let w = |d: &[usize]| View::contiguous(DType::U32, d);
        let f = |d: &[usize]| View::contiguous(DType::BF16, d);
        let p = |bits, group| Packing { mode: 0, bits, group };
        assert_eq!(check_packed(p(4, 32), &w(&[97, 8]), &f(&[97, 2]), None).unwrap(), 64);
        assert_eq!(check_packed(p(3, 32), &w(&[5, 6]), &f(&[5, 2]), Some(&f(&[5, 2]))).unwrap(), 64);
        assert_eq!(check_packed(p(6, 16), &w(&[5, 3]), &f(&[5, 1]), None).unwrap(), 16);
        let e = check_packed(p(4, 64), &w(&[97, 8]), &f(&[97, 2]), None).unwrap_err().to_string();
        assert!(e.contains("[97, 8] of 4 bits and scales [97, 2] for groups of 64"), "{e}");
        assert!(check_packed(p(4, 32), &w(&[97, 8]), &f(&[96, 2]), None).is_err());
        assert!(check_packed(p(4, 32), &f(&[97, 8]), &f(&[97, 2]), None).is_err());
    }
}
