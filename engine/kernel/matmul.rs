//! Products of dense matrices, and what products of packed weights share with them.

use bytemuck::{Pod, Zeroable};

use super::emit::{Head, Tensor, collapse, fold};
use super::{Alias, Call, Dims, Emit, Kernel, Outs, Shader, Strides, Variant, View, broadcast_dims};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::op::{Field, fields};

/// `Addmm`: a product of the last two axes, with batches that broadcast, plus a scaled third tensor.
pub static ADDMM: Kernel = Kernel::new(Alias::Fresh, addmm_shape, addmm);
/// `GatherMm`: a product of matrices that index tensors pick.
pub static GATHER_MM: Kernel = Kernel::new(Alias::Fresh, gather_mm_shape, gather_mm).with_scratch(4);

const WORDS: &str = include_str!("../../shaders/words.wgsl");
const DENSE: &str = include_str!("../../shaders/mm_dense.wgsl");

/// The kernels of one way to store the right side.
pub(super) struct Shaders {
    /// A thread per output word.
    pub(super) pull: Shader,
    /// Few rows.
    pub(super) vec: Shader,
    /// Many rows.
    pub(super) tile: Shader,
}

/// The kernels of a right side that `uses` describes.
pub(super) const fn shaders(uses: &'static [&'static str], names: [&'static str; 3]) -> Shaders {
    Shaders {
        pull: Shader { name: names[0], text: include_str!("../../shaders/mm_pull.wgsl"), uses },
        vec: Shader { name: names[1], text: include_str!("../../shaders/mm_vec.wgsl"), uses },
        tile: Shader { name: names[2], text: include_str!("../../shaders/mm_tile.wgsl"), uses },
    }
}

static SHADERS: Shaders = shaders(&[WORDS, DENSE], ["matmul_pull", "matmul_vec", "matmul_tile"]);

/// Where one operand lies (`Mat` in the shaders).
#[derive(Clone, Copy, Pod, Zeroable, Default)]
#[repr(C)]
pub(super) struct Mat {
    /// Matrices that an index may pick from.
    pub(super) count: u32,
    /// First element.
    pub(super) offset: u32,
    /// Distance between rows.
    pub(super) row: i32,
    /// Distance between columns.
    pub(super) col: i32,
}

/// An index tensor that picks matrices (`Pick` in the shaders). Offsets count words.
#[derive(Clone, Copy, Pod, Zeroable, Default)]
#[repr(C)]
pub(super) struct Pick {
    /// Buffer.
    pub(super) space: u32,
    /// First word.
    pub(super) offset: u32,
    /// Elements from one matrix to the next.
    pub(super) stride: u32,
    /// The same for the scales.
    pub(super) second: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    head: Head,
    m: u32,
    n: u32,
    k: u32,
    pad: u32,
    a: Mat,
    b: Mat,
    c: Mat,
    batch: [[i32; 8]; 3],
    alpha: f32,
    beta: f32,
    pad2: [u32; 2],
    lhs: Pick,
    rhs: Pick,
}

/// Sizes of a product: `[batch.., m, n]` from sums over `k`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sizes {
    pub(super) batch: Dims,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

impl Sizes {
    /// Output elements.
    pub(super) fn count(&self) -> usize {
        self.batch.iter().product::<usize>() * self.m * self.n
    }
    /// Number of matrices.
    pub(super) fn batches(&self) -> usize {
        self.batch.iter().product()
    }
    /// The output's dims.
    pub(super) fn dims(&self) -> Dims {
        let mut d = self.batch.clone();
        d.extend([self.m, self.n]);
        d
    }
}

/// A view with at least two dims: `at` places the size 1 that a vector lacks.
pub(super) fn as_matrix(view: &View, at: usize) -> View {
    let mut v = view.clone();
    if v.rank() == 1 {
        v.dims.insert(at, 1);
        v.strides.insert(at, 0);
    }
    v
}

/// Strides of the leading dims of `view` for batch entries of `batch`.
pub(super) fn batch_strides(view: &View, batch: &[usize]) -> Result<Strides> {
    let lead = view.rank() - 2;
    let outer =
        View { dtype: view.dtype, dims: view.dims[..lead].into(), strides: view.strides[..lead].into(), offset: 0 };
    Ok(outer.broadcast(batch)?.strides)
}

/// Sizes of the product of `a` and `b`, both with at least two dims.
fn sizes(a: &View, b: &View) -> Result<Sizes> {
    let (ra, rb) = (a.rank(), b.rank());
    if a.dims[ra - 1] != b.dims[rb - 2] {
        return Err(Error::malformed(format!(
            "the sum runs over {} elements of {:?} and {} of {:?}",
            a.dims[ra - 1],
            &a.dims[..],
            b.dims[rb - 2],
            &b.dims[..]
        )));
    }
    let batch = broadcast_dims(&a.dims[..ra - 2], &b.dims[..rb - 2])?;
    Ok(Sizes { batch, m: a.dims[ra - 2], n: b.dims[rb - 1], k: a.dims[ra - 1] })
}

/// Refuses a scalar where a matrix or a vector is needed.
pub(super) fn need_rank(view: &View, least: usize, what: &str) -> Result<()> {
    if view.rank() < least {
        return Err(Error::malformed(format!("{what} has shape {:?}, needs {least} or more dims", &view.dims[..])));
    }
    Ok(())
}

/// Refuses an output whose elements kernels cannot number in 32 bits.
pub(super) fn check_size(dims: &[usize]) -> Result<()> {
    let count = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    if count.is_none_or(|n| n > u32::MAX as usize) {
        return Err(Error::limit(format!("an output of shape {dims:?} has more than 2^32 - 1 elements")));
    }
    Ok(())
}

/// Refuses a result type that is not a float.
pub(super) fn need_float(t: DType) -> Result<DType> {
    if t.is_float() { Ok(t) } else { Err(Error::unsupported(format!("the operands promote to {t}, not to a float"))) }
}

/// The output's dims once the size 1 that vectors were given is taken away.
fn squeeze_vectors(s: &Sizes, a: &View, b: &View) -> Dims {
    let mut d = s.batch.clone();
    if a.rank() > 1 {
        d.push(s.m);
    }
    if b.rank() > 1 {
        d.push(s.n);
    }
    d
}

fn addmm_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::addmm as f;
    let (a, b) = (c.tensor(f::mat1)?, c.tensor(f::mat2)?);
    need_rank(a, 1, "mat1")?;
    need_rank(b, 1, "mat2")?;
    let s = sizes(&as_matrix(a, 0), &as_matrix(b, 1))?;
    let dims = squeeze_vectors(&s, a, b);
    let mut t = a.dtype.promote(b.dtype);
    if let Some(bias) = c.optional(f::bias) {
        bias.broadcast(&dims).map_err(|e| e.at("field bias"))?;
        t = t.promote(bias.dtype);
    }
    check_size(&dims)?;
    out.fresh(c, f::out, need_float(t)?, &dims);
    Ok(())
}

/// The added tensor as a matrix per batch entry.
fn bias_view(bias: &View, a: &View, b: &View, s: &Sizes) -> Result<View> {
    let mut v = bias.broadcast(&squeeze_vectors(s, a, b))?;
    let lead = s.batch.len();
    if a.rank() == 1 {
        v.dims.insert(lead, 1);
        v.strides.insert(lead, 0);
    }
    if b.rank() == 1 {
        v.dims.push(1);
        v.strides.push(0);
    }
    Ok(v)
}

fn addmm(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::addmm as f;
    let (mut a, mut b, out) = (e.tensor(c, f::mat1)?, e.tensor(c, f::mat2)?, e.tensor(c, f::out)?);
    let (wa, wb) = (as_matrix(&a.view, 0), as_matrix(&b.view, 1));
    let s = sizes(&wa, &wb)?;
    let bias = match e.optional(c, f::bias)? {
        Some(mut t) => {
            t.view = bias_view(&t.view, &a.view, &b.view, &s)?;
            Some(t)
        }
        None => None,
    };
    (a.view, b.view) = (wa, wb);
    let batch = [batch_strides(&a.view, &s.batch)?, batch_strides(&b.view, &s.batch)?];
    let scale = if bias.is_some() { [c.float(f::alpha)? as f32, c.float(f::beta)? as f32] } else { [1.0, 0.0] };
    emit_dense(e, &Dense { s, a, b, bias, batch, scale, picks: [None, None] }, &out)
}

/// A product of dense matrices, ready to be emitted.
struct Dense {
    s: Sizes,
    a: Tensor,
    b: Tensor,
    bias: Option<Tensor>,
    /// Strides over the batch dims: of the matrices, or of the index tensor that picks them.
    batch: [Strides; 2],
    scale: [f32; 2],
    picks: [Option<Pick>; 2],
}

/// The last two strides of a tensor, and its place.
pub(super) fn mat(t: &Tensor, count: usize) -> Mat {
    let r = t.view.rank();
    Mat { count: count as u32, offset: t.offset, row: t.view.strides[r - 2] as i32, col: t.view.strides[r - 1] as i32 }
}

/// How `quad` in `words.wgsl` reads `t`: 0 where its type or an odd start forbids it. `strides` are all that
/// a start is made of.
pub(super) fn load_kind(t: &Tensor, strides: &[isize]) -> u32 {
    let even = t.offset % 2 == 0 && strides.iter().all(|s| s % 2 == 0);
    match t.view.dtype {
        DType::F32 => 1,
        DType::BF16 if even => 2,
        DType::F16 if even => 3,
        _ => 0,
    }
}

/// Elements per output word.
pub(super) fn per_word(t: DType) -> u32 {
    (4 / t.size()).max(1) as u32
}

/// Which kernel makes a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Pull,
    Vec,
    Tile,
}

/// Chooses a kernel. `eights`: both sides can be read in runs of eight along the sum.
pub(super) fn form(s: &Sizes, out: DType, eights: bool, software: bool) -> Form {
    let whole = s.n % per_word(out) as usize == 0;
    if software || s.k == 0 {
        Form::Pull
    } else if s.m <= 4 && eights && (whole || s.m * s.batches() == 1) {
        Form::Vec
    } else if s.m > 4 && s.n >= 8 && whole {
        Form::Tile
    } else {
        Form::Pull
    }
}

/// Workgroups of a form.
pub(super) fn groups(form: Form, s: &Sizes, out: DType) -> u32 {
    let n = match form {
        Form::Pull => super::emit::threads_for(s.count(), out).div_ceil(64) as usize,
        Form::Vec => s.batches() * s.n.div_ceil(8),
        Form::Tile => s.batches() * s.m.div_ceil(32) * s.n.div_ceil(64),
    };
    n as u32
}

/// The variant of a form with its own options.
pub(super) fn variant(shaders: &'static Shaders, form: Form, s: &Sizes, out: DType) -> Variant {
    match form {
        Form::Pull => Variant::new(&shaders.pull, Calc::F32, out),
        Form::Vec => {
            Variant::new(&shaders.vec, Calc::F32, out).option("ROWS", s.m as u32).option("PER_WORD", per_word(out))
        }
        Form::Tile => Variant::new(&shaders.tile, Calc::F32, out).option("PER_WORD", per_word(out)),
    }
}

/// A head over the batch dims of a product; its count is that of all elements.
pub(super) fn batch_head(out: &Tensor, s: &Sizes, dims: &[usize]) -> Head {
    let mut head = Head::new(out, dims);
    head.count = s.count() as u32;
    head
}

/// Strides as a parameter block holds them.
pub(super) fn lanes(strides: &[isize]) -> [i32; 8] {
    let mut out = [0; 8];
    for (o, &s) in out.iter_mut().zip(strides) {
        *o = s as i32;
    }
    out
}

fn emit_dense(e: &mut Emit<'_>, d: &Dense, out: &Tensor) -> Result<()> {
    let (s, a, b) = (&d.s, mat(&d.a, matrices(&d.a.view)), mat(&d.b, matrices(&d.b.view)));
    let bias = d.bias.as_ref();
    let third = match bias {
        Some(t) => batch_strides(&t.view, &s.batch)?,
        None => Strides::from_elem(0, s.batch.len()),
    };
    let (dims, [sa, sb, sc]) = collapse(&s.batch, [&d.batch[0], &d.batch[1], &third]);
    let params = Params {
        head: batch_head(out, s, &dims),
        m: s.m as u32,
        n: s.n as u32,
        k: s.k as u32,
        pad: 0,
        a,
        b,
        c: bias.map_or(Mat::default(), |t| mat(t, 1)),
        batch: [lanes(&sa), lanes(&sb), lanes(&sc)],
        alpha: d.scale[0],
        beta: d.scale[1],
        pad2: [0; 2],
        lhs: d.picks[0].unwrap_or_default(),
        rhs: d.picks[1].unwrap_or_default(),
    };
    let eights = s.k % 8 == 0 && a.col == 1 && b.row == 1;
    let form = form(s, out.view.dtype, eights, e.caps.software);
    let types = [d.a.view.dtype, d.b.view.dtype, bias.map_or(DType::F32, |t| t.view.dtype)];
    let mut v = variant(&SHADERS, form, s, out.view.dtype)
        .inputs(&types)
        .option("A_SPACE", d.a.space as u32)
        .option("B_SPACE", d.b.space as u32)
        .option("C_SPACE", bias.map_or(0, |t| t.space as u32))
        .option("HAS_C", u32::from(bias.is_some()))
        .option("LHS", u32::from(d.picks[0].is_some()))
        .option("RHS", u32::from(d.picks[1].is_some()));
    if form == Form::Tile {
        v = v.option("A_ALONG", u32::from(a.col == 1)).option("B_ALONG", u32::from(b.row == 1));
    } else if eights {
        v = v
            .option("EIGHTS", 1)
            .option("A_LOAD", load_kind(&d.a, &starts(d.picks[0], a.row, &sa)))
            .option("B_LOAD", load_kind(&d.b, &starts(d.picks[1], b.col, &sb)));
    }
    e.dispatch_2d(&v, &params, fold(groups(form, s, out.view.dtype)));
    Ok(())
}

/// The strides that the start of a row or column is made of.
pub(super) fn starts(pick: Option<Pick>, inner: i32, batch: &[isize]) -> Strides {
    let mut s: Strides = match pick {
        Some(p) => Strides::from_elem(p.stride as isize, 1),
        None => batch.into(),
    };
    s.push(inner as isize);
    s
}

/// Number of matrices that a tensor holds.
pub(super) fn matrices(view: &View) -> usize {
    view.dims[..view.rank() - 2].iter().product()
}

/// Batch dims of a gathered product: the shapes of both index tensors broadcast. A missing one counts the
/// operand's own matrices.
pub(super) fn gather_dims(c: &Call<'_>, picks: [Field; 2], operands: [&View; 2]) -> Result<Dims> {
    let shape = |i: usize| -> Dims {
        c.optional(picks[i]).map_or_else(|| operands[i].dims[..operands[i].rank() - 2].into(), |v| v.dims.clone())
    };
    for p in picks {
        if let Some(v) = c.optional(p)
            && v.dtype.is_float()
        {
            return Err(Error::malformed(format!("indices are {}, not integers", v.dtype)));
        }
    }
    broadcast_dims(&shape(0), &shape(1))
}

/// Whether the leading dims of `view` can be walked by one stride, and that stride.
pub(super) fn single_stride(view: &View) -> Option<isize> {
    let lead = view.rank() - 2;
    let (dims, [s]) = collapse(&view.dims[..lead], [&view.strides[..lead]]);
    (dims.len() == 1).then(|| s[0])
}

/// The scratch tensors that picking from `operand` by `index` needs: an operand with gaps between its
/// matrices, and indices of narrow types.
pub(super) fn gather_scratch(out: &mut Outs, operand: &View, index: Option<&View>) {
    let Some(index) = index else { return };
    if single_stride(operand).is_none() {
        out.scratch.push(View::contiguous(operand.dtype, &operand.dims));
    }
    if index.dtype.size() < 4 {
        out.scratch.push(View::contiguous(DType::I32, &index.dims));
    }
}

/// One side of a gathered product: the operand (copied where [`gather_scratch`] asked for it), the strides
/// over the batch dims and what picks.
pub(super) fn gather_side(
    c: &Call<'_>,
    e: &mut Emit<'_>,
    operand: Tensor,
    index: Option<Tensor>,
    batch: &[usize],
    next: &mut usize,
) -> Result<(Tensor, Strides, Option<Pick>)> {
    let Some(mut index) = index else {
        let strides = batch_strides(&operand.view, batch)?;
        return Ok((operand, strides, None));
    };
    let mut operand = operand;
    if single_stride(&operand.view).is_none() {
        let dense = e.scratch(c, *next)?;
        *next += 1;
        super::view::copy(e, &operand, &dense)?;
        operand = dense;
    }
    if index.view.dtype.size() < 4 {
        let wide = e.scratch(c, *next)?;
        *next += 1;
        super::reduce::cast(e, &index, &wide);
        index = wide;
    }
    let words = (index.view.dtype.size() / 4) as isize;
    let strides = index.view.broadcast(batch)?.strides.iter().map(|s| s * words).collect();
    let pick = Pick {
        space: index.space as u32,
        offset: index.offset * words as u32,
        stride: single_stride(&operand.view).unwrap_or(0) as u32,
        second: 0,
    };
    Ok((operand, strides, Some(pick)))
}

fn gather_mm_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::gather_mm as f;
    let (a, b) = (c.tensor(f::a)?, c.tensor(f::b)?);
    need_rank(a, 2, "a")?;
    need_rank(b, 2, "b")?;
    let mut s = sizes(&matrix_only(a), &matrix_only(b))?;
    s.batch = gather_dims(c, [f::lhs_indices, f::rhs_indices], [a, b])?;
    let t = need_float(a.dtype.promote(b.dtype))?;
    gather_scratch(out, a, c.optional(f::lhs_indices));
    gather_scratch(out, b, c.optional(f::rhs_indices));
    check_size(&s.dims())?;
    out.fresh(c, f::out, t, &s.dims());
    Ok(())
}

/// The first matrix of a tensor.
pub(super) fn matrix_only(v: &View) -> View {
    let lead = v.rank() - 2;
    View { dtype: v.dtype, dims: v.dims[lead..].into(), strides: v.strides[lead..].into(), offset: v.offset }
}

fn gather_mm(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::gather_mm as f;
    let (a, b, out) = (e.tensor(c, f::a)?, e.tensor(c, f::b)?, e.tensor(c, f::out)?);
    let mut s = sizes(&matrix_only(&a.view), &matrix_only(&b.view))?;
    s.batch = gather_dims(c, [f::lhs_indices, f::rhs_indices], [&a.view, &b.view])?;
    let (lhs, rhs) = (e.optional(c, f::lhs_indices)?, e.optional(c, f::rhs_indices)?);
    let mut next = 0;
    let (a, sa, pa) = gather_side(c, e, a, lhs, &s.batch, &mut next)?;
    let (b, sb, pb) = gather_side(c, e, b, rhs, &s.batch, &mut next)?;
    let dense = Dense { s, a, b, bias: None, batch: [sa, sb], scale: [1.0, 0.0], picks: [pa, pb] };
    emit_dense(e, &dense, &out)
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
            for form in [Form::Pull, Form::Vec, Form::Tile] {
                validate(&variant(&SHADERS, form, &s, t).inputs(&[t, DType::BF16, DType::F32]));
            }
        }
    }

    #[test]
    fn sizes_follow_the_last_two_axes() {
        let v = |d: &[usize]| View::contiguous(DType::F32, d);
        let s = sizes(&v(&[5, 1, 2, 3]), &v(&[4, 3, 7])).unwrap();
        assert_eq!((&s.dims()[..], s.k), (&[5, 4, 2, 7][..], 3));
        let e = sizes(&v(&[2, 3]), &v(&[4, 7])).unwrap_err().to_string();
        assert!(e.contains("3 elements of [2, 3] and 4 of [4, 7]"), "{e}");
        assert!(sizes(&v(&[2, 2, 3]), &v(&[5, 3, 7])).is_err());
    }

    #[test]
    fn odd_columns_of_narrow_types_are_pulled() {
        let s = |m, n| Sizes { batch: Dims::new(), m, n, k: 64 };
        assert_eq!(form(&s(1, 97), DType::BF16, true, false), Form::Vec);
        assert_eq!(form(&s(2, 97), DType::BF16, true, false), Form::Pull);
        assert_eq!(form(&s(8, 97), DType::F16, true, false), Form::Pull);
        assert_eq!(form(&s(8, 97), DType::F32, true, false), Form::Tile);
        assert_eq!(form(&s(4, 96), DType::BF16, true, false), Form::Vec);
    }
}
