//! Convolutions over one, two or three axes, and their transposes.

use bytemuck::{Pod, Zeroable};

use super::emit::{Head, Tensor, fold};
use super::matmul::{check_size, need_float, per_word};
use super::{Alias, Call, Dims, Emit, Kernel, Outs, Shader, Variant, View};
use crate::dtype::Calc;
use crate::error::{Error, Result};
use crate::op::Field;

/// `Conv1D`, `Conv2D`, `Conv3D`.
pub static CONV: Kernel = Kernel::new(Alias::Fresh, shape, conv);
/// `ConvTranspose1D`, `ConvTranspose2D`, `ConvTranspose3D`.
pub static CONV_TRANSPOSE: Kernel = Kernel::new(Alias::Fresh, shape, conv);

const BASE: &str = include_str!("../../shaders/conv.wgsl");
static PULL: Shader = Shader { name: "conv_pull", text: include_str!("../../shaders/conv_pull.wgsl"), uses: &[BASE] };
static TILE: Shader = Shader {
    name: "conv_tile",
    text: include_str!("../../shaders/mm_tile.wgsl"),
    uses: &[BASE, include_str!("../../shaders/conv_loads.wgsl")],
};

/// Every row begins with `x`, `w`, `out`; then come per axis the stride, padding, dilation and, of
/// transposes, the output padding; the groups are last.
const X: Field = Field(0);
const W: Field = Field(1);
const OUT: Field = Field(2);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    head: Head,
    x: [i32; 4],
    w: [i32; 4],
    x_col: i32,
    w_col: i32,
    x_offset: u32,
    w_offset: u32,
    size: [i32; 4],
    kernel: [i32; 4],
    stride: [i32; 4],
    pad: [i32; 4],
    dilation: [i32; 4],
    out: [i32; 4],
    m: u32,
    n: u32,
    k: u32,
    unused: u32,
}

/// Settings along one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    stride: usize,
    pad: usize,
    dilation: usize,
    output_pad: usize,
}

impl Axis {
    /// The output's size, or `None` where the kernel does not fit.
    fn out(&self, size: usize, kernel: usize, transposed: bool) -> Option<usize> {
        let reach = kernel.checked_sub(1)?.checked_mul(self.dilation)?;
        let pads = self.pad.checked_mul(2)?;
        if transposed {
            let spread = size.checked_sub(1)?.checked_mul(self.stride)?;
            return spread.checked_add(reach)?.checked_add(self.output_pad)?.checked_add(1)?.checked_sub(pads);
        }
        Some(size.checked_add(pads)?.checked_sub(reach.checked_add(1)?)? / self.stride + 1)
    }
}

/// A convolution's settings.
struct Settings {
    axes: [Axis; 3],
    count: usize,
    groups: usize,
    transposed: bool,
}

fn settings(c: &Call<'_>) -> Result<Settings> {
    let func = c.func();
    let transposed = func.starts_with("conv_transpose");
    let count = if func.ends_with("1d") { 1 } else { 2 + usize::from(func.ends_with("3d")) };
    let field = |kind: usize, at: usize| Field((3 + kind * count + at) as u8);
    let number = |f: Field, least: i64| -> Result<usize> {
        let v = c.int(f)?;
        if v < least || v > i64::from(i32::MAX) {
            let name = c.row().fields[f.0 as usize].name;
            return Err(Error::malformed(format!("{v}, needs {least} or more")).at(format!("field {name}")));
        }
        Ok(v as usize)
    };
    let plain = Axis { stride: 1, pad: 0, dilation: 1, output_pad: 0 };
    let mut axes = [plain; 3];
    for at in 0..count {
        axes[3 - count + at] = Axis {
            stride: number(field(0, at), 1)?,
            pad: number(field(1, at), 0)?,
            dilation: number(field(2, at), 1)?,
            output_pad: if transposed { number(field(3, at), 0)? } else { 0 },
        };
    }
    let groups = number(field(3 + usize::from(transposed), 0), 1)?;
    Ok(Settings { axes, count, groups, transposed })
}

/// The view with axes of size 1 put in after the first until there are five.
fn five(v: &View) -> View {
    let mut v = v.clone();
    while v.rank() < 5 {
        v.dims.insert(1, 1);
        v.strides.insert(1, 0);
    }
    v
}

/// Dims of the output with all three axes.
fn output(s: &Settings, x: &View, w: &View) -> Result<[usize; 5]> {
    for (v, name) in [(x, "x"), (w, "w")] {
        if v.rank() != s.count + 2 {
            return Err(Error::malformed(format!("shape {:?}, needs {} dims", &v.dims[..], s.count + 2))
                .at(format!("field {name}")));
        }
    }
    let (x, w) = (five(x), five(w));
    let (channels, outs) = (x.dims[4], w.dims[0]);
    if channels % s.groups != 0 || outs % s.groups != 0 || w.dims[4] != channels / s.groups {
        return Err(Error::malformed(format!(
            "{channels} channels, weights {:?} and {} groups do not fit",
            &w.dims[..],
            s.groups
        )));
    }
    let mut dims = [x.dims[0], 0, 0, 0, outs];
    for (i, axis) in s.axes.iter().enumerate() {
        dims[i + 1] = axis.out(x.dims[i + 1], w.dims[i + 1], s.transposed).ok_or_else(|| {
            Error::malformed(format!(
                "a kernel of {} with {axis:?} does not fit {} places",
                w.dims[i + 1],
                x.dims[i + 1]
            ))
        })?;
    }
    Ok(dims)
}

fn shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let s = settings(c)?;
    let (x, w) = (c.tensor(X)?, c.tensor(W)?);
    let five = output(&s, x, w)?;
    let dims: Dims = [five[0]].iter().chain(&five[4 - s.count..]).copied().collect();
    check_size(&dims)?;
    if dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).is_none_or(|n| n > i32::MAX as usize) {
        return Err(Error::limit(format!("an output of shape {:?} has 2^31 or more elements", &dims[..])));
    }
    out.fresh(c, OUT, need_float(x.dtype.promote(w.dtype))?, &dims);
    Ok(())
}

fn conv(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let s = settings(c)?;
    let (mut x, mut w, out) = (e.tensor(c, X)?, e.tensor(c, W)?, e.tensor(c, OUT)?);
    let dims = output(&s, &x.view, &w.view)?;
    (x.view, w.view) = (five(&x.view), five(&w.view));
    let four = |v: &[isize]| -> [i32; 4] { std::array::from_fn(|i| v[i] as i32) };
    let three = |f: fn(&Axis) -> usize| -> [i32; 4] {
        let a = s.axes.map(|a| f(&a) as i32);
        [a[0], a[1], a[2], 0]
    };
    let sizes = |v: &View, last: usize| [v.dims[1] as i32, v.dims[2] as i32, v.dims[3] as i32, last as i32];
    let places = dims[..4].iter().product::<usize>();
    let params = Params {
        head: Head::new(&out, &[places * dims[4]]),
        x: four(&x.view.strides),
        w: four(&w.view.strides),
        x_col: x.view.strides[4] as i32,
        w_col: w.view.strides[4] as i32,
        x_offset: x.offset,
        w_offset: w.offset,
        size: sizes(&x.view, w.view.dims[4]),
        kernel: sizes(&w.view, dims[4] / s.groups),
        stride: three(|a| a.stride),
        pad: three(|a| a.pad),
        dilation: three(|a| a.dilation),
        out: [dims[1] as i32, dims[2] as i32, dims[3] as i32, dims[4] as i32],
        m: places as u32,
        n: dims[4] as u32,
        k: w.view.dims[1..].iter().product::<usize>() as u32,
        unused: 0,
    };
    emit(e, &s, &params, [&x, &w, &out]);
    Ok(())
}

fn emit(e: &mut Emit<'_>, s: &Settings, p: &Params, [x, w, out]: [&Tensor; 3]) {
    let t = out.view.dtype;
    let tiled = !e.caps.software
        && s.groups == 1
        && p.m > 4
        && p.n >= 8
        && p.k > 0
        && p.n % per_word(t) == 0
        && s.axes.iter().all(|a| !s.transposed || a.stride == 1);
    let (shader, groups) =
        if tiled { (&TILE, p.m.div_ceil(32) * p.n.div_ceil(64)) } else { (&PULL, p.head.threads(t).div_ceil(64)) };
    let mut v = Variant::new(shader, Calc::F32, t)
        .inputs(&[x.view.dtype, w.view.dtype])
        .option("A_SPACE", x.space as u32)
        .option("B_SPACE", w.space as u32)
        .option("TRANSPOSED", u32::from(s.transposed));
    if tiled {
        v = v
            .option("A_ALONG", u32::from(p.x_col == 1))
            .option("B_ALONG", u32::from(p.w_col == 1))
            .option("PER_WORD", per_word(t));
    }
    e.dispatch_2d(&v, p, fold(groups));
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;
    use crate::dtype::DType;
    use crate::op::fields;

    #[test]
    fn variants_validate() {
        assert_eq!(size_of::<Params>(), 208);
        for t in [DType::F32, DType::F16, DType::BF16] {
            for shader in [&PULL, &TILE] {
                validate(&Variant::new(shader, Calc::F32, t).inputs(&[t, DType::F32]));
            }
        }
    }

    #[test]
    fn rows_list_their_settings_axis_by_axis() {
        assert_eq!([fields::conv1d::groups, fields::conv2d::groups, fields::conv3d::groups], [6, 9, 12].map(Field));
        let last =
            [fields::conv_transpose1d::groups, fields::conv_transpose2d::groups, fields::conv_transpose3d::groups];
        assert_eq!(last, [7, 11, 15].map(Field));
        assert_eq!((fields::conv2d::padding_h, fields::conv_transpose2d::output_padding_h), (Field(5), Field(9)));
    }

    #[test]
    fn output_sizes() {
        let a = Axis { stride: 2, pad: 1, dilation: 1, output_pad: 1 };
        assert_eq!((a.out(64, 3, false), a.out(32, 3, true)), (Some(32), Some(64)));
        assert_eq!((a.out(0, 3, false), a.out(5, 0, false), a.out(0, 3, true)), (None, None, None));
        let s = |groups| Settings { axes: [a; 3], count: 2, groups, transposed: false };
        let v = |d: &[usize]| View::contiguous(DType::F32, d);
        assert_eq!(output(&s(2), &v(&[1, 8, 8, 4]), &v(&[6, 3, 3, 2])).unwrap()[2..], [4, 4, 6]);
        let e = output(&s(3), &v(&[1, 8, 8, 4]), &v(&[6, 3, 3, 2])).unwrap_err().to_string();
        assert!(e.contains("4 channels, weights [6, 1, 3, 3, 2] and 3 groups"), "{e}");
    }
}
