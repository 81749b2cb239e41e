//! Elementwise ops: each output element depends on the same element of each input.

use bytemuck::{Pod, Zeroable};

use super::emit::{Arg, Head, collapse, fold};
use super::{Alias, Call, Emit, Kernel, Outs, Shader, Variant, View, broadcast_dims};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::fields;

/// Ops of one input.
pub static UNARY: Kernel = Kernel::new(Alias::Elementwise, unary_shape, unary);
/// Ops of two inputs that broadcast and promote.
pub static BINARY: Kernel = Kernel::new(Alias::Elementwise, binary_shape, binary);
/// `AsType`.
pub static CAST: Kernel = Kernel::unwritten();
/// `Where`.
pub static WHERE: Kernel = Kernel::unwritten();
/// `Clip`.
pub static CLIP: Kernel = Kernel::unwritten();

static UNARY_SHADER: Shader = Shader {
    name: "map_unary",
    text: include_str!("../../shaders/map_unary.wgsl"),
    uses: &[include_str!("../../shaders/ops_unary.wgsl")],
};
static BINARY_SHADER: Shader = Shader {
    name: "map_binary",
    text: include_str!("../../shaders/map_binary.wgsl"),
    uses: &[include_str!("../../shaders/ops_binary.wgsl")],
};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct UnaryParams {
    head: Head,
    a: Arg,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct BinaryParams {
    head: Head,
    a: Arg,
    b: Arg,
}

/// Every unary row has its fields in this order.
use fields::exp as unary_fields;

fn unary_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let x = c.tensor(unary_fields::x)?;
    out.fresh(c, unary_fields::out, x.dtype, &x.dims);
    Ok(())
}

fn unary(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let (x, out) = (e.tensor(c, unary_fields::x)?, e.tensor(c, unary_fields::out)?);
    let (dims, [sx]) = collapse(&x.view.dims, [&x.view.strides]);
    let params =
        UnaryParams { head: Head::new(&out, &dims), a: Arg::new(x.space, x.offset, &sx, x.view.is_contiguous()) };
    let variant =
        Variant::new(&UNARY_SHADER, x.view.dtype.calc(), out.view.dtype).func(c.func()).inputs(&[x.view.dtype]);
    let threads = params.head.threads(out.view.dtype);
    e.dispatch_2d(&variant, &params, fold(threads.div_ceil(64)));
    Ok(())
}

use fields::add as binary_fields;

fn binary_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let (a, b) = (c.tensor(binary_fields::a)?, c.tensor(binary_fields::b)?);
    let dims = broadcast_dims(&a.dims, &b.dims)?;
    let dtype = match c.func() {
        "less" | "less_equal" | "greater" | "greater_equal" | "equal" | "not_equal" | "logical_and" | "logical_or" => {
            DType::Bool
        }
        _ => a.dtype.promote(b.dtype),
    };
    out.fresh(c, binary_fields::out, dtype, &dims);
    Ok(())
}

fn binary(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let (a, b, out) =
        (e.tensor(c, binary_fields::a)?, e.tensor(c, binary_fields::b)?, e.tensor(c, binary_fields::out)?);
    let calc = a.view.dtype.promote(b.view.dtype).calc();
    let va: View = a.view.broadcast(&out.view.dims)?;
    let vb: View = b.view.broadcast(&out.view.dims)?;
    let (dims, [sa, sb]) = collapse(&out.view.dims, [&va.strides, &vb.strides]);
    let params = BinaryParams {
        head: Head::new(&out, &dims),
        a: Arg::new(a.space, a.offset, &sa, va.is_contiguous()),
        b: Arg::new(b.space, b.offset, &sb, vb.is_contiguous()),
    };
    let variant =
        Variant::new(&BINARY_SHADER, calc, out.view.dtype).func(c.func()).inputs(&[a.view.dtype, b.view.dtype]);
    let threads = params.head.threads(out.view.dtype);
    e.dispatch_2d(&variant, &params, fold(threads.div_ceil(64)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;
    use crate::dtype::Calc;

    #[test]
    fn variants_validate() {
        for t in [DType::F32, DType::F16, DType::BF16] {
            validate(&Variant::new(&UNARY_SHADER, Calc::F32, t).func("neg").inputs(&[t]));
            validate(&Variant::new(&BINARY_SHADER, Calc::F32, t).func("add").inputs(&[t, DType::F32]));
        }
    }
}
