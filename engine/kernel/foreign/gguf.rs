//! Products with GGUF blocks of 4, 5 and 6 bits, and rows of them: `gguf_q4k_matmul` and its like.

use bytemuck::{Pod, Zeroable};
use smallvec::SmallVec;

use super::{Foreign, Node, dense, dense_scratch, fresh, leading, need};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::kernel::emit::{Arg, Head, collapse, fold};
use crate::kernel::matmul::{Form, Shaders, Sizes, form, groups, load_kind, need_rank, shaders, variant};
use crate::kernel::{Call, Dims, Emit, Outs, Shader, Variant};
use crate::op::fields::metal_kernel as f;

const BLOCKS: &str = include_str!("../../../shaders/foreign_blocks.wgsl");
static LINEAR: Shaders = shaders(
    &[include_str!("../../../shaders/words.wgsl"), BLOCKS, include_str!("../../../shaders/foreign_linear.wgsl")],
    ["gguf_pull", "gguf_vec", "gguf_tile"],
);
static EMBEDDING: Shader =
    Shader { name: "gguf_embedding", text: include_str!("../../../shaders/foreign_embedding.wgsl"), uses: &[BLOCKS] };

/// Weights in a block.
const BLOCK: usize = 256;

const fn linear(name: &'static str) -> Foreign {
    Foreign {
        name,
        inputs: &["x", "weight", "bias"],
        last_optional: true,
        outputs: &["out"],
        arguments: &["N", "K"],
        check: check_linear,
        shape: linear_shape,
        encode: encode_linear,
    }
}

const fn embedding(name: &'static str) -> Foreign {
    Foreign {
        name,
        inputs: &["weight", "indices"],
        last_optional: false,
        outputs: &["out"],
        arguments: &["K"],
        check: check_type,
        shape: embedding_shape,
        encode: encode_embedding,
    }
}

pub(super) static KERNELS: [Foreign; 9] = [
    linear("gguf_q4k_matvec"),
    linear("gguf_q4k_matmul"),
    embedding("gguf_q4k_embedding"),
    linear("gguf_q5k_matvec"),
    linear("gguf_q5k_matmul"),
    embedding("gguf_q5k_embedding"),
    linear("gguf_q6k_matvec"),
    linear("gguf_q6k_matmul"),
    embedding("gguf_q6k_embedding"),
];

/// The `KIND` of the shaders, and the bytes of a block.
fn kind(n: &Node<'_>) -> (u32, usize) {
    match n.name().as_bytes().get(6) {
        Some(b'4') => (4, 144),
        Some(b'5') => (5, 176),
        _ => (6, 210),
    }
}

fn check_type(n: &Node<'_>) -> Result<()> {
    n.float_type(0)?;
    let k = n.argument("K")?;
    if k == 0 || k % BLOCK != 0 {
        return Err(Error::malformed(format!("rows of {k} weights are not whole blocks of {BLOCK}")));
    }
    Ok(())
}

fn check_linear(n: &Node<'_>) -> Result<()> {
    check_type(n)?;
    n.argument("N").map(|_| ())
}

/// Checks the blocks of input `nth`.
fn need_blocks(c: &Call<'_>, n: &Node<'_>, nth: usize, rows: Option<usize>) -> Result<usize> {
    let k = n.argument("K")?;
    let bytes = k / BLOCK * kind(n).1;
    need(c, nth, |v| {
        v.dtype == DType::U8
            && v.rank() == 2
            && v.dims[1] == bytes
            && v.is_contiguous()
            && rows.is_none_or(|r| r == v.dims[0])
    })?;
    if c.tensor_at(f::inputs, nth).count() > u32::MAX as usize - (1 << 20) {
        return Err(Error::limit("more than 4 GiB of blocks in one tensor"));
    }
    Ok(k)
}

fn has_bias(c: &Call<'_>) -> bool {
    c.len_of(f::inputs) > 2
}

fn linear_shape(c: &Call<'_>, n: &Node<'_>, out: &mut Outs) -> Result<()> {
    let rows = n.argument("N")?;
    let k = need_blocks(c, n, 1, Some(rows))?;
    let x = c.tensor_at(f::inputs, 0);
    need_rank(x, 1, "x")?;
    need(c, 0, |v| v.dtype.is_float() && v.dims.last() == Some(&k))?;
    if has_bias(c) {
        need(c, 2, |v| v.dtype.is_float() && v.dims[..] == [rows])?;
    }
    if !rows_of(x).2 {
        dense_scratch(c, out, 1);
    }
    let mut dims = leading(x);
    dims.push(rows);
    fresh(c, out, 0, n.float_type(0)?, &dims)
}

/// Number of rows, the distance between them, and whether they lie so.
fn rows_of(x: &crate::kernel::View) -> (usize, isize, bool) {
    let lead = x.rank() - 1;
    let (dims, [strides]) = collapse(&x.dims[..lead], [&x.strides[..lead]]);
    (dims.iter().product(), strides[0], dims.len() == 1)
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    head: Head,
    m: u32,
    n: u32,
    k: u32,
    row_bytes: u32,
    a_offset: u32,
    a_row: i32,
    a_col: i32,
    b_byte: u32,
    c_offset: u32,
    c_stride: i32,
    pad: [u32; 2],
}

fn encode_linear(c: &Call<'_>, n: &Node<'_>, e: &mut Emit<'_>) -> Result<()> {
    let x = e.tensor_at(c, f::inputs, 0)?;
    let x = if rows_of(&x.view).2 { x } else { dense(c, e, 0, &mut 0)? };
    let (w, out) = (e.tensor_at(c, f::inputs, 1)?, e.tensor_at(c, f::outputs, 0)?);
    let bias = if has_bias(c) { Some(e.tensor_at(c, f::inputs, 2)?) } else { None };
    let (m, row, _) = rows_of(&x.view);
    let k = *x.view.dims.last().unwrap_or(&0);
    let s = Sizes { batch: Dims::new(), m, n: w.view.dims[0], k };
    let col = *x.view.strides.last().unwrap_or(&1);
    let mut head = Head::new(&out, &[]);
    head.count = s.count() as u32;
    let params = Params {
        head,
        m: m as u32,
        n: s.n as u32,
        k: k as u32,
        row_bytes: w.view.dims[1] as u32,
        a_offset: x.offset,
        a_row: row as i32,
        a_col: col as i32,
        b_byte: w.offset,
        c_offset: bias.as_ref().map_or(0, |t| t.offset),
        c_stride: bias.as_ref().map_or(0, |t| t.view.strides[0] as i32),
        pad: [0; 2],
    };
    let t = out.view.dtype;
    let eights = col == 1;
    let form = form(&s, t, eights, e.caps.software);
    let mut v = variant(&LINEAR, form, &s, t)
        .inputs(&[x.view.dtype, DType::U8, bias.as_ref().map_or(x.view.dtype, |t| t.view.dtype)])
        .option("KIND", kind(n).0)
        .option("A_SPACE", x.space as u32)
        .option("B_SPACE", w.space as u32)
        .option("C_SPACE", bias.as_ref().map_or(0, |t| t.space as u32))
        .option("HAS_C", u32::from(bias.is_some()));
    if form == Form::Tile {
        v = v.option("A_ALONG", u32::from(eights));
    } else if eights {
        v = v.option("EIGHTS", 1).option("A_LOAD", load_kind(&x, &[row]));
    }
    e.dispatch_2d(&v, &params, fold(groups(form, &s, t)));
    Ok(())
}

fn embedding_shape(c: &Call<'_>, n: &Node<'_>, out: &mut Outs) -> Result<()> {
    let k = need_blocks(c, n, 0, n.argument("V").ok())?;
    need(c, 1, |v| !v.dtype.is_float() && v.rank() < crate::limits::MAX_RANK)?;
    let mut dims: SmallVec<[usize; 8]> = c.tensor_at(f::inputs, 1).dims.iter().copied().collect();
    dims.push(k);
    fresh(c, out, 0, n.float_type(0)?, &dims)
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct EmbeddingParams {
    head: Head,
    a: Arg,
    row_bytes: u32,
    b_byte: u32,
    columns: u32,
    rows: u32,
}

fn encode_embedding(c: &Call<'_>, n: &Node<'_>, e: &mut Emit<'_>) -> Result<()> {
    let (w, ids) = (e.tensor_at(c, f::inputs, 0)?, e.tensor_at(c, f::inputs, 1)?);
    let out = e.tensor_at(c, f::outputs, 0)?;
    let mut head = Head::new(&out, &ids.view.dims);
    head.count = out.view.count() as u32;
    let params = EmbeddingParams {
        head,
        a: ids.arg(),
        row_bytes: w.view.dims[1] as u32,
        b_byte: w.offset,
        columns: *out.view.dims.last().unwrap_or(&1) as u32,
        rows: w.view.dims[0] as u32,
    };
    let v = Variant::new(&EMBEDDING, Calc::F32, out.view.dtype)
        .inputs(&[ids.view.dtype])
        .option("KIND", kind(n).0)
        .option("B_SPACE", w.space as u32);
    e.dispatch(&v, &params, head.threads(out.view.dtype).div_ceil(64));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::emit::validate;

    #[test]
    fn variants_validate() {
        let s = Sizes { batch: Dims::new(), m: 3, n: 8, k: 256 };
        for t in [DType::F32, DType::F16, DType::BF16] {
            for form in [Form::Pull, Form::Vec, Form::Tile] {
                validate(&variant(&LINEAR, form, &s, t).inputs(&[t, DType::U8, DType::F32]));
            }
            validate(&Variant::new(&EMBEDDING, Calc::F32, t).inputs(&[DType::I64]));
        }
    }
}
