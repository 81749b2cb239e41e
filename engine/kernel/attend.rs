//! Attention.

use bytemuck::{Pod, Zeroable};

use super::emit::{Head, Tensor, fold, threads_for};
use super::matmul::{check_size, load_kind, need_float, per_word};
use super::{Alias, Call, Emit, Kernel, Outs, Shader, Variant, View};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::op::fields;

/// `Sdpa`.
pub static SDPA: Kernel = Kernel::new(Alias::Fresh, shape, sdpa).with_scratch(1);

const EXPO: &str = include_str!("../../shaders/expo.wgsl");
static ATTEND: Shader = Shader {
    name: "attend",
    text: include_str!("../../shaders/attend.wgsl"),
    uses: &[EXPO, include_str!("../../shaders/words.wgsl")],
};
static JOIN: Shader =
    Shader { name: "attend_join", text: include_str!("../../shaders/attend_join.wgsl"), uses: &[EXPO] };

/// Largest size of a head: what fits the shader's workgroup memory.
const MAX_DIM: usize = 2048;
/// Most parts that the keys of few queries are split into.
const MAX_PARTS: usize = 16;
/// Fewest keys of a part.
const PART_KEYS: usize = 128;
/// Workgroups below which the keys are split.
const BUSY: usize = 128;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    head: Head,
    q: [i32; 4],
    k: [i32; 4],
    v: [i32; 4],
    mask: [i32; 4],
    offset: [u32; 4],
    kv_heads: u32,
    repeats: u32,
    q_len: u32,
    k_len: u32,
    dim: u32,
    v_dim: u32,
    part: u32,
    scale: f32,
    ring: [u32; 2],
    window: u32,
    pad: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct JoinParams {
    head: Head,
    word: u32,
    parts: u32,
    v_dim: u32,
    pad: u32,
}

/// Sizes of one attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    q_len: usize,
    k_len: usize,
    dim: usize,
    v_dim: usize,
}

impl Sizes {
    pub(super) fn out(&self) -> [usize; 4] {
        [self.batch, self.heads, self.q_len, self.v_dim]
    }
    fn repeats(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }
    /// Query rows of a workgroup and value elements of a lane.
    fn block(&self) -> (usize, usize) {
        let wide = self.dim.max(self.v_dim).max(1);
        let slots = self.v_dim.div_ceil(64).max(1);
        let most = (MAX_DIM / wide).min(32 / slots).min(8);
        let rows = (self.repeats() * self.q_len).next_power_of_two();
        let floor = 1 << most.max(1).ilog2();
        (rows.min(floor), slots)
    }
    /// Workgroups when the keys are not split.
    fn groups(&self) -> usize {
        self.batch * self.kv_heads * (self.repeats() * self.q_len).div_ceil(self.block().0)
    }
    /// Parts that the keys may be split into, if there are enough.
    fn most_parts(&self) -> usize {
        (BUSY / self.groups().max(1)).clamp(1, MAX_PARTS).min(self.k_len.div_ceil(PART_KEYS)).max(1)
    }
    /// Keys of a part and number of parts.
    fn parts(&self) -> (usize, usize) {
        let want = self.most_parts();
        let part = self.k_len.div_ceil(want).max(PART_KEYS).next_multiple_of(64);
        (part, self.k_len.div_ceil(part).max(1))
    }
}

/// The sizes, once the tensors are found to fit each other.
pub(super) fn sizes(q: &View, k: &View, v: &View) -> Result<Sizes> {
    for (t, name) in [(q, "q"), (k, "k"), (v, "v")] {
        if t.rank() != 4 {
            return Err(Error::malformed(format!("shape {:?}, not of rank 4", &t.dims[..])).at(format!("field {name}")));
        }
    }
    let fits =
        k.dims[0] == q.dims[0] && v.dims[0] == q.dims[0] && k.dims[3] == q.dims[3] && v.dims[1..3] == k.dims[1..3];
    if !fits || (k.dims[1] == 0) != (q.dims[1] == 0) || (k.dims[1] != 0 && q.dims[1] % k.dims[1] != 0) {
        return Err(Error::malformed(format!(
            "queries {:?}, keys {:?} and values {:?} do not fit",
            &q.dims[..],
            &k.dims[..],
            &v.dims[..]
        )));
    }
    let s = Sizes {
        batch: q.dims[0],
        heads: q.dims[1],
        kv_heads: k.dims[1],
        q_len: q.dims[2],
        k_len: k.dims[2],
        dim: q.dims[3],
        v_dim: v.dims[3],
    };
    if s.dim > MAX_DIM || s.v_dim > MAX_DIM {
        return Err(Error::unsupported(format!("heads of {} and {} elements; at most {MAX_DIM}", s.dim, s.v_dim)));
    }
    Ok(s)
}

/// The mask stretched over all heads, queries and keys.
fn stretch_mask(m: &View, s: &Sizes) -> Result<View> {
    if m.dtype != DType::Bool && !m.dtype.is_float() {
        return Err(Error::malformed(format!("a mask of {}", m.dtype)).at("field mask"));
    }
    m.broadcast(&[s.batch, s.heads, s.q_len, s.k_len]).map_err(|e| e.at("field mask"))
}

/// Scratch words: of split keys; or elements that the output's words would split between workgroups.
///
/// At fewer keys it is never more, so that a plan made for the most keys holds for all.
pub(super) fn attend_scratch(s: &Sizes, out: DType) -> usize {
    let rows = s.batch * s.heads * s.q_len;
    let most = s.most_parts();
    if most > 1 {
        rows * most * (s.v_dim + 2)
    } else if s.v_dim % per_word(out) as usize != 0 {
        rows * s.v_dim
    } else {
        0
    }
}

fn shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::sdpa as f;
    let (q, k, v) = (c.tensor(f::q)?, c.tensor(f::k)?, c.tensor(f::v)?);
    let s = sizes(q, k, v)?;
    if let Some(m) = c.optional(f::mask) {
        stretch_mask(m, &s)?;
    }
    let t = need_float(q.dtype.promote(k.dtype).promote(v.dtype))?;
    check_size(&s.out())?;
    out.fresh(c, f::out, t, &s.out());
    let words = attend_scratch(&s, t);
    if words > 0 {
        out.scratch_words(words);
    }
    Ok(())
}

fn sdpa(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::sdpa as f;
    let (q, k, v, out) = (e.tensor(c, f::q)?, e.tensor(c, f::k)?, e.tensor(c, f::v)?, e.tensor(c, f::out)?);
    let s = sizes(&q.view, &k.view, &v.view)?;
    let mask = match e.optional(c, f::mask)? {
        Some(mut m) => {
            m.view = stretch_mask(&m.view, &s)?;
            Some(m)
        }
        None => None,
    };
    let scale = c.float(f::scale)? as f32;
    let call = Attend { s, q, k, v, mask, scale, causal: c.flag(f::causal), ring: [0; 2], window: 0 };
    attend(c, e, call, &out)
}

/// Emits an attention and what brings its result into the output's type.
pub(super) fn attend(c: &Call<'_>, e: &mut Emit<'_>, call: Attend, out: &Tensor) -> Result<()> {
    let s = &call.s;
    let (_, parts) = s.parts();
    let mut target = out.clone();
    if attend_scratch(s, out.view.dtype) > 0 {
        target = e.scratch(c, 0)?;
        target.view = View::contiguous(DType::F32, &s.out());
    }
    emit(e, &call, &target);
    if parts > 1 {
        let params = JoinParams {
            head: Head::new(out, &[out.view.count()]),
            word: target.word(),
            parts: parts as u32,
            v_dim: s.v_dim as u32,
            pad: 0,
        };
        let threads = threads_for(out.view.count(), out.view.dtype);
        e.dispatch_2d(&Variant::new(&JOIN, Calc::F32, out.view.dtype), &params, fold(threads.div_ceil(64)));
    } else if target.view.dtype != out.view.dtype {
        super::reduce::cast(e, &target, out);
    }
    Ok(())
}

/// An attention ready to be emitted.
pub(super) struct Attend {
    pub(super) s: Sizes,
    pub(super) q: Tensor,
    pub(super) k: Tensor,
    pub(super) v: Tensor,
    pub(super) mask: Option<Tensor>,
    pub(super) scale: f32,
    pub(super) causal: bool,
    /// Cells of the ring that keys and values lie in, and the oldest key's cell; zeros where they lie in order.
    pub(super) ring: [u32; 2],
    /// Keys that a query sees, itself included; 0 for all.
    pub(super) window: u32,
}

fn four(v: &View) -> [i32; 4] {
    std::array::from_fn(|i| v.strides[i] as i32)
}

fn emit(e: &mut Emit<'_>, a: &Attend, out: &Tensor) {
    let s = &a.s;
    let (rows, slots) = s.block();
    let (part, parts) = s.parts();
    let mut head = Head::new(out, &[1]);
    head.count = s.out().iter().product::<usize>() as u32;
    let params = Params {
        head,
        q: four(&a.q.view),
        k: four(&a.k.view),
        v: four(&a.v.view),
        mask: a.mask.as_ref().map_or([0; 4], |m| four(&m.view)),
        offset: [a.q.offset, a.k.offset, a.v.offset, a.mask.as_ref().map_or(0, |m| m.offset)],
        kv_heads: s.kv_heads as u32,
        repeats: s.repeats() as u32,
        q_len: s.q_len as u32,
        k_len: s.k_len as u32,
        dim: s.dim as u32,
        v_dim: s.v_dim as u32,
        part: part as u32,
        scale: a.scale,
        ring: a.ring,
        window: a.window,
        pad: 0,
    };
    let dense = s.dim % 4 == 0 && a.k.view.strides[3] == 1;
    let mask = a.mask.as_ref().map_or(0, |m| match m.view.dtype {
        DType::Bool => 1,
        DType::F32 => 2,
        DType::F16 => 3,
        _ => 4,
    });
    let v = Variant::new(&ATTEND, Calc::F32, out.view.dtype)
        .inputs(&[a.q.view.dtype, a.k.view.dtype, a.v.view.dtype])
        .option("Q_SPACE", a.q.space as u32)
        .option("K_SPACE", a.k.space as u32)
        .option("V_SPACE", a.v.space as u32)
        .option("MASK_SPACE", a.mask.as_ref().map_or(0, |m| m.space as u32))
        .option("K_LOAD", if dense { load_kind(&a.k, &a.k.view.strides[..3]) } else { 0 })
        .option("CAUSAL", u32::from(a.causal))
        .option("RING", u32::from(a.ring[0] != 0))
        .option("WINDOW", u32::from(a.window != 0))
        .option("MASK", mask)
        .option("ROWS", rows as u32)
        .option("SLOTS", slots as u32)
        .option("PER_WORD", per_word(out.view.dtype))
        .option("SPLIT", u32::from(parts > 1));
    e.dispatch_2d(&v, &params, fold((s.groups() * parts) as u32));
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    fn v(d: &[usize]) -> View {
        View::contiguous(DType::BF16, d)
    }

    #[test]
    fn variants_validate() {
        for t in [DType::F32, DType::F16, DType::BF16] {
            validate(&Variant::new(&ATTEND, Calc::F32, t).inputs(&[t, DType::BF16, DType::F32]));
            validate(&Variant::new(&JOIN, Calc::F32, t));
        }
    }

    #[test]
    fn tensors_must_fit() {
        let ok = sizes(&v(&[1, 8, 3, 64]), &v(&[1, 2, 10, 64]), &v(&[1, 2, 10, 32])).unwrap();
        assert_eq!((ok.out(), ok.repeats()), ([1, 8, 3, 32], 4));
        for (q, k, w) in [
            (v(&[8, 3, 64]), v(&[1, 2, 10, 64]), v(&[1, 2, 10, 64])),
            (v(&[1, 8, 3, 64]), v(&[1, 3, 10, 64]), v(&[1, 3, 10, 64])),
            (v(&[1, 8, 3, 64]), v(&[1, 2, 10, 32]), v(&[1, 2, 10, 64])),
            (v(&[1, 8, 3, 64]), v(&[1, 2, 10, 64]), v(&[1, 2, 11, 64])),
            (v(&[1, 8, 3, 4096]), v(&[1, 2, 10, 4096]), v(&[1, 2, 10, 4096])),
        ] {
            assert!(sizes(&q, &k, &w).is_err());
        }
    }

    #[test]
    fn blocks_fit_the_shader() {
        for dim in [4, 64, 80, 100, 128, 256, 260, 300, 512, 2048] {
            for (heads, q_len) in [(1, 1), (2, 1), (8, 1), (8, 100)] {
                let s = sizes(&v(&[1, heads, q_len, dim]), &v(&[1, 1, 5000, dim]), &v(&[1, 1, 5000, dim])).unwrap();
                let (rows, slots) = s.block();
                assert!(rows.is_power_of_two() && rows <= 8 && rows * slots <= 32 && slots * 64 >= dim, "{s:?}");
                assert!(rows * dim.next_multiple_of(4) <= 2048, "{s:?}");
                let (part, parts) = s.parts();
                assert!(parts <= MAX_PARTS && part * parts >= 5000 && part * (parts - 1) < 5000, "{s:?}");
            }
        }
    }
}
