//! Reads at indices that tensors hold.

use bytemuck::{Pod, Zeroable};

use super::call::Known;
use super::emit::{Arg, Head, fold};
use super::view::{copy, narrow};
use super::{Alias, Call, Contiguity, Dims, Emit, Kernel, Outs, Shader, Variant, View, axis};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::fields;

/// `Take`: a view for an index that is a number, a gather for a tensor of indices.
pub static TAKE: Kernel = Kernel::new(
    Alias::ViewUnlessTensor { of: fields::take::x, contiguity: Contiguity::Breaks, index: fields::take::index },
    take_shape,
    take,
);
/// Not written yet.
pub static TAKE_ALONG_AXIS: Kernel = Kernel::unwritten();
/// Not written yet.
pub static GATHER: Kernel = Kernel::unwritten();

static TAKE_SHADER: Shader = Shader { name: "take", text: include_str!("../../shaders/take.wgsl"), uses: &[] };

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct TakeParams {
    head: Head,
    a: Arg,
    index: Arg,
    indices: Head,
    extent: u32,
    rows: u32,
    inner: u32,
    pad: u32,
}

/// Words of an index, for the dtypes that indices have.
///
/// # Errors
/// When the dtype is not a 32- or 64-bit integer.
pub(crate) fn index_words(dtype: DType) -> Result<u32> {
    match dtype {
        DType::I32 | DType::U32 => Ok(1),
        DType::I64 => Ok(2),
        other => Err(Error::unsupported(format!("indices are {other}; i32, u32 and i64 can be indices"))),
    }
}

/// Row `index` of one axis, the axis dropped. An index that is not known yet stands for any row.
fn row(x: &View, at: usize, index: Option<i64>) -> Result<View> {
    let n = x.dims[at] as i64;
    let i = index.unwrap_or(0);
    let i = if i < 0 { i + n } else { i };
    if i < 0 || i >= n {
        let index = index.unwrap_or(0);
        return Err(Error::input(format!("index {index} is out of range for the {n} rows of axis {at}")));
    }
    let mut v = narrow(x, at, i as usize, i as usize + 1, 1);
    v.dims.remove(at);
    v.strides.remove(at);
    Ok(v)
}

fn take_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::take as f;
    let x = c.tensor(f::x)?;
    let at = axis(c.int(f::axis)?, x.rank())?;
    if let Some(index) = c.optional(f::index) {
        index_words(index.dtype)?;
        let dims: Dims = x.dims[..at].iter().chain(&index.dims).chain(&x.dims[at + 1..]).copied().collect();
        if dims.len() > crate::limits::MAX_RANK {
            return Err(Error::limit(format!("rank {} passes {}", dims.len(), crate::limits::MAX_RANK)));
        }
        if x.dims[at] == 0 && dims.iter().all(|&d| d > 0) {
            return Err(Error::input(format!("rows are taken from axis {at}, which has none")));
        }
        out.fresh(c, f::out, x.dtype, &dims);
        return Ok(());
    }
    let index = c.maybe_int(f::index);
    out.view(c, f::out, row(x, at, index)?);
    match c.known(f::x) {
        Known::No => {}
        Known::Fill(v) => out.know(c, f::out, Known::Fill(*v)),
        Known::Input { port, view } if index.is_some() => {
            out.know(c, f::out, Known::Input { port: *port, view: row(view, at, index)? });
        }
        Known::Input { .. } => {}
    }
    Ok(())
}

fn take(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::take as f;
    let (x, out) = (e.tensor(c, f::x)?, e.tensor(c, f::out)?);
    let at = axis(c.int(f::axis)?, x.view.rank())?;
    let Some(index) = e.optional(c, f::index)? else {
        // The output could not be a view.
        let view = row(&x.view, at, c.maybe_int(f::index))?;
        return copy(e, &x.with_view(view), &out);
    };
    let mut head = Head::new(&out, &x.view.dims);
    head.count = out.view.count() as u32;
    let params = TakeParams {
        head,
        a: x.arg(),
        index: index.arg(),
        indices: Head::new(&index, &index.view.dims),
        extent: x.view.dims[at] as u32,
        rows: index.view.count() as u32,
        inner: x.view.dims[at + 1..].iter().product::<usize>() as u32,
        pad: 0,
    };
    let t = x.view.dtype;
    let variant = Variant::new(&TAKE_SHADER, t.calc(), t)
        .func("cast")
        .inputs(&[t])
        .option("INDEX_WORDS", index_words(index.view.dtype)?);
    e.dispatch_2d(&variant, &params, fold(head.threads(t).div_ceil(64)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    #[test]
    fn variants_validate() {
        for t in [DType::F32, DType::F16, DType::BF16] {
            validate(&Variant::new(&TAKE_SHADER, t.calc(), t).func("cast").inputs(&[t]));
        }
    }

    #[test]
    fn rows_count_from_the_end() {
        let x = View::contiguous(DType::F32, &[4, 3]);
        assert_eq!(row(&x, 0, Some(-1)).unwrap().offset, 9);
        assert_eq!(row(&x, 1, Some(2)).unwrap().strides[..], [3]);
        assert!(row(&x, 0, Some(4)).unwrap_err().to_string().contains("index 4"));
    }
}
