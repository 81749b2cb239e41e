//! The gated delta rule: `gated_delta_step`.

use bytemuck::{Pod, Zeroable};

use super::{Foreign, Node, fresh, need};
use crate::dtype::Calc;
use crate::error::{Error, Result};
use crate::kernel::emit::{Head, Tensor};
use crate::kernel::{Call, Emit, Outs, Shader, Variant, View};
use crate::op::fields::metal_kernel as f;

pub(super) static KERNELS: [Foreign; 1] = [Foreign {
    name: "gated_delta_step",
    inputs: &["q", "k", "v", "g", "beta", "state_in", "T"],
    last_optional: false,
    outputs: &["y", "state_out"],
    arguments: &["Dk", "Dv", "Hk", "Hv"],
    check,
    shape,
    encode,
}];

static DELTA: Shader =
    Shader { name: "gated_delta", text: include_str!("../../../shaders/foreign_delta.wgsl"), uses: &[] };

/// Rows of the state that a workgroup takes (`ROWS` in the shader), and lanes that share one.
const ROWS: usize = 4;
const LANES: usize = 16;
/// Columns that a lane can hold.
const HELD: usize = 32;

fn check(n: &Node<'_>) -> Result<()> {
    let size = |name| n.argument(name);
    let (dk, dv, hk, hv) = (size("Dk")?, size("Dv")?, size("Hk")?, size("Hv")?);
    if dk == 0 || dk % (2 * LANES) != 0 || dk > HELD * LANES {
        return Err(Error::unsupported(format!("Dk is {dk}; multiples of 32 up to {} are run", HELD * LANES)));
    }
    if hk == 0 || hv % hk != 0 {
        return Err(Error::malformed(format!("{hv} heads of values for {hk} heads of keys")));
    }
    let t = n.float_type(0)?;
    if n.float_type(1)? != t {
        return Err(Error::unsupported("the state is of another type than the output"));
    }
    if t.size() < 4 && dv % 2 != 0 {
        return Err(Error::unsupported(format!("Dv is {dv}; of {t} it must be even")));
    }
    Ok(())
}

fn shape(c: &Call<'_>, n: &Node<'_>, out: &mut Outs) -> Result<()> {
    let (dk, dv, hk, hv) = (n.argument("Dk")?, n.argument("Dv")?, n.argument("Hk")?, n.argument("Hv")?);
    let x = |nth| c.tensor_at(f::inputs, nth);
    let q = x(0);
    if q.rank() != 4 {
        return Err(Error::malformed(format!("q has shape {:?}, not four dims", &q.dims[..])));
    }
    let (b, t) = (q.dims[0], q.dims[1]);
    let (keys, values, gates, state) = ([b, t, hk, dk], [b, t, hv, dv], [b, t, hv], [b, hv, dv, dk]);
    let wanted: [&[usize]; 6] = [&keys, &keys, &values, &gates, &gates, &state];
    for (i, dims) in wanted.into_iter().enumerate() {
        need(c, i, |v| v.dtype.is_float() && v.dims[..] == *dims)?;
    }
    if x(1).dtype != q.dtype || x(2).dtype != q.dtype || x(3).dtype != x(4).dtype {
        return Err(Error::unsupported("q, k and v, or the two gates, are of different types"));
    }
    fresh(c, out, 0, n.float_type(0)?, &values)?;
    fresh(c, out, 1, n.float_type(1)?, &state)
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    head: Head,
    offsets: [u32; 8],
    strides: [[i32; 4]; 6],
    steps: u32,
    keys: u32,
    values: u32,
    heads: u32,
    repeat: u32,
    state_word: u32,
    count: u32,
    pad: u32,
}

fn strides(v: &View) -> [i32; 4] {
    let mut out = [0; 4];
    for (o, &s) in out.iter_mut().zip(&v.strides) {
        *o = s as i32;
    }
    out
}

fn encode(c: &Call<'_>, _: &Node<'_>, e: &mut Emit<'_>) -> Result<()> {
    let x = |nth| e.tensor_at(c, f::inputs, nth);
    let inputs: [Tensor; 6] = [x(0)?, x(1)?, x(2)?, x(3)?, x(4)?, x(5)?];
    let (y, next) = (e.tensor_at(c, f::outputs, 0)?, e.tensor_at(c, f::outputs, 1)?);
    let [b, heads, values, keys] = next.view.dims[..] else { return Err(Error::malformed("the state has four dims")) };
    let mut offsets = [0; 8];
    for (o, t) in offsets.iter_mut().zip(&inputs) {
        *o = t.offset;
    }
    let params = Params {
        head: Head::new(&y, &y.view.dims),
        offsets,
        strides: inputs.each_ref().map(|t| strides(&t.view)),
        steps: y.view.dims[1] as u32,
        keys: keys as u32,
        values: values as u32,
        heads: heads as u32,
        repeat: (heads / inputs[0].view.dims[2]) as u32,
        state_word: next.word(),
        count: (b * heads) as u32,
        pad: 0,
    };
    let mut v = Variant::new(&DELTA, Calc::F32, y.view.dtype).inputs(&[
        inputs[0].view.dtype,
        inputs[3].view.dtype,
        inputs[5].view.dtype,
    ]);
    let names = ["Q_SPACE", "K_SPACE", "V_SPACE", "G_SPACE", "BETA_SPACE", "STATE_SPACE"];
    for (name, t) in names.into_iter().zip(&inputs) {
        v = v.option(name, t.space as u32);
    }
    v = v.option("NEXT_SPACE", next.space as u32);
    e.dispatch(&v, &params, (b * heads * values.div_ceil(ROWS)) as u32);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::kernel::emit::validate;

    #[test]
    fn variants_validate() {
        for t in [DType::F32, DType::F16, DType::BF16] {
            validate(&Variant::new(&DELTA, Calc::F32, t).inputs(&[t, DType::F32, t]));
        }
    }
}
