//! TurboQuant's cache compression: `tq4_compress`, `tq_dequant` and `tq_norm`.

use bytemuck::{Pod, Zeroable};

use super::{Foreign, Node, dense, dense_scratch, fresh, leading, need};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::kernel::emit::{Head, Tensor};
use crate::kernel::{Call, Emit, Outs, Shader, Variant};
use crate::op::fields::metal_kernel as f;

pub(super) static KERNELS: [Foreign; 3] = [
    Foreign {
        name: "tq4_compress",
        inputs: &["values", "boundaries"],
        last_optional: false,
        outputs: &["out"],
        arguments: &["B"],
        check: check_compress,
        shape: compress_shape,
        encode: compress,
    },
    Foreign {
        name: "tq_dequant",
        inputs: &["packed", "norms", "centroids"],
        last_optional: false,
        outputs: &["out"],
        arguments: &["D"],
        check: check_float,
        shape: dequant_shape,
        encode: dequant,
    },
    Foreign {
        name: "tq_norm",
        inputs: &["x"],
        last_optional: false,
        outputs: &["norms"],
        arguments: &["D"],
        check: check_float,
        shape: norm_shape,
        encode: norm,
    },
];

const NIBBLES: &str = include_str!("../../../shaders/foreign_nibbles.wgsl");
static PACK: Shader =
    Shader { name: "tq4_pack", text: include_str!("../../../shaders/foreign_pack.wgsl"), uses: &[NIBBLES] };
static UNPACK: Shader =
    Shader { name: "tq4_unpack", text: include_str!("../../../shaders/foreign_unpack.wgsl"), uses: &[NIBBLES] };
static NORM: Shader = Shader {
    name: "tq_norm",
    text: include_str!("../../../shaders/foreign_norm.wgsl"),
    uses: &[include_str!("../../../shaders/math_f32.wgsl"), include_str!("../../../shaders/lanes.wgsl")],
};

/// Boundaries between sixteen levels.
const EDGES: usize = 15;

fn check_compress(n: &Node<'_>) -> Result<()> {
    let (b, t) = (n.argument("B")?, n.output_type(0)?);
    if b != EDGES || t != DType::U8 {
        return Err(Error::unsupported(format!("{b} boundaries into {t}; {EDGES} into u8 are run")));
    }
    Ok(())
}

fn check_float(n: &Node<'_>) -> Result<()> {
    n.float_type(0).map(|_| ())
}

fn compress_shape(c: &Call<'_>, _: &Node<'_>, out: &mut Outs) -> Result<()> {
    need(c, 0, |v| v.dtype.is_float() && v.dims.last().is_some_and(|d| d % 2 == 0))?;
    need(c, 1, |v| v.dtype.is_float() && v.dims[..] == [EDGES])?;
    dense_scratch(c, out, 1);
    let x = c.tensor_at(f::inputs, 0);
    let mut dims = leading(x);
    dims.push(x.dims[x.rank() - 1] / 2);
    fresh(c, out, 0, DType::U8, &dims)
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    head: Head,
    a_offset: u32,
    b_offset: u32,
    c_offset: u32,
    columns: u32,
    b_stride: i32,
    pad: [u32; 3],
}

/// Emits a shader over `a`, the table `b` and the row factors `c`.
fn emit(e: &mut Emit<'_>, shader: &'static Shader, [a, b, c]: [&Tensor; 3], out: &Tensor) {
    let head = Head::new(out, &[out.view.count()]);
    let params = Params {
        head,
        a_offset: a.offset,
        b_offset: b.offset,
        c_offset: c.offset,
        columns: *out.view.dims.last().unwrap_or(&1) as u32,
        b_stride: b.view.strides[0] as i32,
        pad: [0; 3],
    };
    let v = Variant::new(shader, Calc::F32, out.view.dtype)
        .inputs(&[a.view.dtype, b.view.dtype, c.view.dtype])
        .option("A_SPACE", a.space as u32)
        .option("B_SPACE", b.space as u32)
        .option("C_SPACE", c.space as u32);
    e.dispatch(&v, &params, head.threads(out.view.dtype).div_ceil(64));
}

fn compress(c: &Call<'_>, _: &Node<'_>, e: &mut Emit<'_>) -> Result<()> {
    let x = dense(c, e, 0, &mut 0)?;
    let (edges, out) = (e.tensor_at(c, f::inputs, 1)?, e.tensor_at(c, f::outputs, 0)?);
    emit(e, &PACK, [&x, &edges, &x], &out);
    Ok(())
}

fn dequant_shape(c: &Call<'_>, n: &Node<'_>, out: &mut Outs) -> Result<()> {
    let d = n.argument("D")?;
    need(c, 0, |v| v.dtype == DType::U8 && v.dims.last().is_some_and(|&b| b * 2 == d))?;
    let lead = leading(c.tensor_at(f::inputs, 0));
    need(c, 1, |v| v.dtype.is_float() && leading(v) == lead && v.dims.last() == Some(&1))?;
    need(c, 2, |v| v.dtype.is_float() && v.dims[..] == [EDGES + 1])?;
    dense_scratch(c, out, 2);
    let mut dims = lead;
    dims.push(d);
    fresh(c, out, 0, n.float_type(0)?, &dims)
}

fn dequant(c: &Call<'_>, _: &Node<'_>, e: &mut Emit<'_>) -> Result<()> {
    let mut next = 0;
    let (packed, norms) = (dense(c, e, 0, &mut next)?, dense(c, e, 1, &mut next)?);
    let (levels, out) = (e.tensor_at(c, f::inputs, 2)?, e.tensor_at(c, f::outputs, 0)?);
    emit(e, &UNPACK, [&packed, &levels, &norms], &out);
    Ok(())
}

fn norm_shape(c: &Call<'_>, n: &Node<'_>, out: &mut Outs) -> Result<()> {
    let d = n.argument("D")?;
    need(c, 0, |v| v.dtype.is_float() && v.dims.last() == Some(&d))?;
    dense_scratch(c, out, 1);
    let mut dims = leading(c.tensor_at(f::inputs, 0));
    dims.push(1);
    fresh(c, out, 0, n.float_type(0)?, &dims)
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct NormParams {
    head: Head,
    a_offset: u32,
    columns: u32,
    pad: [u32; 2],
}

fn norm(c: &Call<'_>, _: &Node<'_>, e: &mut Emit<'_>) -> Result<()> {
    let x = dense(c, e, 0, &mut 0)?;
    let out = e.tensor_at(c, f::outputs, 0)?;
    let head = Head::new(&out, &[out.view.count()]);
    let columns = *x.view.dims.last().unwrap_or(&0) as u32;
    let params = NormParams { head, a_offset: x.offset, columns, pad: [0; 2] };
    let v = Variant::new(&NORM, Calc::F32, out.view.dtype).inputs(&[x.view.dtype]).option("A_SPACE", x.space as u32);
    e.dispatch(&v, &params, head.threads(out.view.dtype));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::emit::validate;

    #[test]
    fn variants_validate() {
        for t in [DType::F32, DType::F16, DType::BF16] {
            validate(&Variant::new(&PACK, Calc::F32, DType::U8).inputs(&[t, t, t]));
            validate(&Variant::new(&UNPACK, Calc::F32, t).inputs(&[DType::U8, t, t]));
            validate(&Variant::new(&NORM, Calc::F32, t).inputs(&[t]));
        }
    }
}
