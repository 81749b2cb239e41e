//! From a call to dispatches: addresses, parameter blocks, variants and their shader text.

use std::collections::HashMap;

use bytemuck::{NoUninit, Pod, Zeroable};
use smallvec::SmallVec;

use super::{Call, Shader, Variant, View};
use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::op::Field;
use crate::table::{Col, Life, Pipe, Step};

/// Bytes of one dispatch's parameter block: the dynamic offset alignment that every adapter grants.
pub const PARAM_BYTES: usize = 256;
/// Largest workgroup count per dimension that every adapter grants; larger grids fold into two.
pub const MAX_GROUPS: u32 = 65_535;

/// A buffer as shaders number them (`space` in `common.wgsl`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Space {
    /// Temps, arguments and results of a session.
    Arena = 0,
    /// The first of the two weight shards that are bound.
    WeightsLow = 1,
    /// The second.
    WeightsHigh = 2,
    /// Mutable buffers of a session.
    State = 3,
}

/// Where a life's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    /// In the arena, at this byte.
    Arena(u64),
    /// In a weight shard, at this byte.
    Weights {
        /// Shard number.
        shard: u32,
        /// Byte in it.
        at: u64,
    },
    /// In the session's state, at this byte.
    State(u64),
}

impl Address {
    /// So many bytes further on.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Self {
        match self {
            Self::Arena(at) => Self::Arena(at + bytes),
            Self::Weights { shard, at } => Self::Weights { shard, at: at + bytes },
            Self::State(at) => Self::State(at + bytes),
        }
    }
}

/// A tensor with its address, ready for a parameter block.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Type, sizes and strides.
    pub view: View,
    /// The buffer, as the shader numbers it.
    pub space: Space,
    /// First element, in elements of the tensor's type from the start of the buffer.
    pub offset: u32,
}

impl Tensor {
    /// The first 32-bit word; meaningful for word-aligned tensors, which all outputs are.
    pub fn word(&self) -> u32 {
        (u64::from(self.offset) * self.view.dtype.size() as u64 / 4) as u32
    }
    /// The parameter block of this tensor read along its own dims.
    pub fn arg(&self) -> Arg {
        Arg::new(self.space, self.offset, &self.view.strides, self.view.is_contiguous())
    }
    /// The same memory under another description.
    #[must_use]
    pub fn with_view(&self, view: View) -> Self {
        let base = i64::from(self.offset) - self.view.offset as i64;
        let offset = (base + view.offset as i64) as u32;
        Self { view, space: self.space, offset }
    }
}

/// An input in a parameter block (`Arg` in `common.wgsl`).
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Arg {
    /// [`Space`].
    pub space: u32,
    /// First element.
    pub offset: u32,
    /// 1 when the elements lie in row-major order of the dims.
    pub flat: u32,
    /// Padding.
    pub pad: u32,
    /// Strides in elements, aligned at the block's dims.
    pub strides: [i32; 8],
}

impl Arg {
    /// A block from its parts.
    pub fn new(space: Space, offset: u32, strides: &[isize], flat: bool) -> Self {
        let mut out = [0i32; 8];
        for (o, &s) in out.iter_mut().zip(strides) {
            *o = s as i32;
        }
        Self { space: space as u32, offset, flat: u32::from(flat), pad: 0, strides: out }
    }
}

/// The head of every parameter block of a pull-style kernel (`Head` in `common.wgsl`).
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Head {
    /// Output elements.
    pub count: u32,
    /// [`Space`] of the output.
    pub space: u32,
    /// First 32-bit word of the output.
    pub word: u32,
    /// Dimensions used of `dims`.
    pub rank: u32,
    /// Sizes that element numbers are split by, outermost first.
    pub dims: [u32; 8],
}

impl Head {
    /// The head for an output whose elements are numbered over `dims`.
    pub fn new(out: &Tensor, dims: &[usize]) -> Self {
        let mut d = [1u32; 8];
        for (o, &s) in d.iter_mut().zip(dims) {
            *o = s as u32;
        }
        Self {
            count: dims.iter().product::<usize>() as u32,
            space: out.space as u32,
            word: out.word(),
            rank: dims.len() as u32,
            dims: d,
        }
    }
    /// Number of 32-bit words that hold `count` elements of `dtype`, or the elements of an `i64`: the
    /// number of threads of a pull-style kernel.
    pub fn threads(&self, dtype: DType) -> u32 {
        threads_for(self.count as usize, dtype)
    }
}

/// Threads that store `count` elements of `dtype`, one output word each (one element of an `i64`).
pub fn threads_for(count: usize, dtype: DType) -> u32 {
    let per = (4 / dtype.size()).max(1);
    count.div_ceil(per) as u32
}

/// Merges neighbouring dims that every operand walks without a gap, so that kernels split fewer indices.
/// `strides[k][i]` is operand `k`'s stride of dim `i`. Dims of size 1 vanish; at least one dim remains.
pub fn collapse<const N: usize>(dims: &[usize], strides: [&[isize]; N]) -> (super::Dims, [super::Strides; N]) {
    let mut d = super::Dims::new();
    let mut s: [super::Strides; N] = std::array::from_fn(|_| super::Strides::new());
    for i in 0..dims.len() {
        if dims[i] == 1 {
            continue;
        }
        let merge = !d.is_empty() && (0..N).all(|k| *s[k].last().unwrap() == strides[k][i] * dims[i] as isize);
        if merge {
            *d.last_mut().unwrap() *= dims[i];
            for k in 0..N {
                *s[k].last_mut().unwrap() = strides[k][i];
            }
        } else {
            d.push(dims[i]);
            for k in 0..N {
                s[k].push(strides[k][i]);
            }
        }
    }
    if d.is_empty() {
        d.push(1);
        for k in &mut s {
            k.push(0);
        }
    }
    (d, s)
}

/// The variants a program uses, each once.
#[derive(Default, Debug)]
pub struct Variants {
    list: Col<Pipe, Variant>,
    index: HashMap<Variant, Pipe>,
}

impl Variants {
    /// The id of a variant, new or known.
    pub fn intern(&mut self, v: &Variant) -> Pipe {
        if let Some(&p) = self.index.get(v) {
            return p;
        }
        let p = self.list.push(v.clone());
        self.index.insert(v.clone(), p);
        p
    }
    /// All variants.
    pub fn list(&self) -> &Col<Pipe, Variant> {
        &self.list
    }
}

/// What the GPU is asked to do, in order: the only table that submission reads.
#[derive(Default, Debug, Clone)]
pub struct Dispatches {
    /// Compiled variant.
    pub pipe: Vec<Pipe>,
    /// The two weight shards to bind.
    pub shards: Vec<[u32; 2]>,
    /// Workgroups in x and y.
    pub groups: Vec<[u32; 2]>,
    /// The step that caused it.
    pub step: Vec<Step>,
    /// Parameter blocks, [`PARAM_BYTES`] each.
    pub params: Vec<u8>,
}

impl Dispatches {
    /// Number of dispatches.
    pub fn len(&self) -> usize {
        self.pipe.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pipe.is_empty()
    }
    /// Forgets all dispatches, keeping their memory.
    pub fn clear(&mut self) {
        self.pipe.clear();
        self.shards.clear();
        self.groups.clear();
        self.step.clear();
        self.params.clear();
    }
}

/// Limits of the adapter that kernels choose by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caps {
    /// Smallest and largest subgroup width; 0 when subgroup operations are not available.
    pub subgroup: [u32; 2],
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Threads per workgroup.
    pub workgroup_threads: u32,
    /// Whether the adapter is a CPU.
    pub software: bool,
}

/// Where an encode function puts its dispatches.
pub struct Emit<'a> {
    /// Addresses of all lives.
    pub addresses: &'a Col<Life, Address>,
    /// Variants seen so far.
    pub variants: &'a mut Variants,
    /// The table being made.
    pub out: &'a mut Dispatches,
    /// The adapter.
    pub caps: Caps,
    /// The step being encoded.
    pub step: Step,
    /// The two weight shards bound for this instruction.
    pub shards: [u32; 2],
    /// Variants of an earlier run's dispatches: a guess that spares the lookup.
    pub guess: &'a [Pipe],
}

impl Emit<'_> {
    /// A life's tensor with its address.
    ///
    /// # Errors
    /// When the element offset passes 32 bits.
    pub fn locate(&self, life: Life, view: &View) -> Result<Tensor> {
        let (space, byte) = match self.addresses[life] {
            Address::Arena(at) => (Space::Arena, at),
            Address::State(at) => (Space::State, at),
            Address::Weights { shard, at } if shard == self.shards[0] => (Space::WeightsLow, at),
            Address::Weights { at, .. } => (Space::WeightsHigh, at),
        };
        let offset = byte / view.dtype.size() as u64 + view.offset as u64;
        let offset = u32::try_from(offset).map_err(|_| {
            Error::limit(format!("element offset {offset} of {life} does not fit the 32 bits of a kernel"))
        })?;
        Ok(Tensor { view: view.clone(), space, offset })
    }
    /// The tensor in a field.
    ///
    /// # Errors
    /// When the field is absent.
    pub fn tensor(&self, c: &Call<'_>, field: Field) -> Result<Tensor> {
        let view = c.tensor(field)?;
        self.locate(c.lives[c.use_of(field, 0)], view)
    }
    /// The tensor in an optional field.
    ///
    /// # Errors
    /// When its offset passes 32 bits.
    pub fn optional(&self, c: &Call<'_>, field: Field) -> Result<Option<Tensor>> {
        if c.life(field).is_some() { self.tensor(c, field).map(Some) } else { Ok(None) }
    }
    /// Tensor number `nth` of a list field.
    ///
    /// # Errors
    /// When its offset passes 32 bits.
    pub fn tensor_at(&self, c: &Call<'_>, field: Field, nth: usize) -> Result<Tensor> {
        self.locate(c.lives[c.use_of(field, nth)], c.tensor_at(field, nth))
    }
    /// Scratch tensor number `nth`, as the shape rule asked for it.
    ///
    /// # Errors
    /// When its offset passes 32 bits.
    pub fn scratch(&self, c: &Call<'_>, nth: usize) -> Result<Tensor> {
        let life = c.scratch[nth];
        self.locate(life, &c.facts.views[life])
    }
    /// Adds a dispatch of `groups` workgroups, folded into two dimensions by [`fold`]. Nothing is added for zero.
    pub fn dispatch<P: NoUninit>(&mut self, variant: &Variant, params: &P, groups: u32) {
        self.dispatch_2d(variant, params, fold(groups));
    }
    /// Adds a dispatch with a grid of the caller's own.
    pub fn dispatch_2d<P: NoUninit>(&mut self, variant: &Variant, params: &P, groups: [u32; 2]) {
        const { assert!(size_of::<P>() <= PARAM_BYTES && size_of::<P>() % 16 == 0) };
        if groups[0] == 0 || groups[1] == 0 {
            return;
        }
        let pipe = match self.guess.get(self.out.len()) {
            Some(&p) if self.variants.list.get(p) == Some(variant) => p,
            _ => self.variants.intern(variant),
        };
        self.out.pipe.push(pipe);
        self.out.shards.push(self.shards);
        self.out.groups.push(groups);
        self.out.step.push(self.step);
        let at = self.out.params.len();
        self.out.params.resize(at + PARAM_BYTES, 0);
        self.out.params[at..at + size_of::<P>()].copy_from_slice(bytemuck::bytes_of(params));
    }
}

/// A workgroup count as two dimensions, each within [`MAX_GROUPS`]. Shaders number workgroups `y * num_workgroups.x + x`
/// and must ignore those past the end.
pub fn fold(groups: u32) -> [u32; 2] {
    if groups <= MAX_GROUPS {
        [groups, 1.min(groups)]
    } else {
        let y = groups.div_ceil(MAX_GROUPS);
        [groups.div_ceil(y), y]
    }
}

fn calc_name(c: Calc) -> &'static str {
    match c {
        Calc::F32 => "f32",
        Calc::I32 => "i32",
        Calc::U32 => "u32",
        Calc::I64 => "i64",
    }
}

fn calc_type(c: Calc) -> &'static str {
    match c {
        Calc::F32 => "f32",
        Calc::I32 => "i32",
        Calc::U32 => "u32",
        Calc::I64 => "vec2<u32>",
    }
}

fn convert(from: Calc, to: Calc, expr: &str) -> String {
    if from == to { expr.to_string() } else { format!("{}_to_{}({expr})", calc_name(from), calc_name(to)) }
}

/// Files that every shader begins with.
pub const COMMON: &[&str] = &[include_str!("../../shaders/common.wgsl"), include_str!("../../shaders/i64.wgsl")];

/// The whole WGSL text of a variant: the common files, what the shader uses, the shader, the store for
/// the output's width, and a few lines that name the types.
pub fn source(v: &Variant) -> String {
    let shader: &Shader = v.shader;
    let mut text = String::new();
    for part in COMMON.iter().chain(shader.uses).chain([&shader.text]) {
        text.push_str(part);
        text.push('\n');
    }
    let out = v.types[0].expect("a variant stores something");
    if shader.text.contains("fn value(") {
        text.push_str(match out.size() {
            8 => include_str!("../../shaders/store_64.wgsl"),
            4 => include_str!("../../shaders/store_32.wgsl"),
            2 => include_str!("../../shaders/store_16.wgsl"),
            _ => include_str!("../../shaders/store_8.wgsl"),
        });
    }
    let line = |text: &mut String, s: String| {
        text.push_str(&s);
        text.push('\n');
    };
    line(&mut text, format!("alias Calc = {};", calc_type(v.calc)));
    line(&mut text, format!("alias Out = {};", calc_type(out.calc())));
    line(&mut text, format!("fn to_out(v: Calc) -> Out {{ return {}; }}", convert(v.calc, out.calc(), "v")));
    if out.size() < 8 {
        line(&mut text, format!("fn encode(v: Out) -> u32 {{ return enc_{}(v); }}", out.name()));
    }
    line(&mut text, format!("fn load_out(space: u32, i: u32) -> Out {{ return ld_{}(space, i); }}", out.name()));
    for (role, t) in ["a", "b", "c"].iter().zip(&v.types[1..]) {
        if let Some(t) = t {
            if !t.is_float() {
                let whole = convert(t.calc(), Calc::I64, &format!("ld_{}(space, i)", t.name()));
                line(&mut text, format!("fn int_{role}(space: u32, i: u32) -> vec2<u32> {{ return {whole}; }}"));
            }
            let load = format!("ld_{}(space, i)", t.name());
            line(
                &mut text,
                format!(
                    "fn load_{role}(space: u32, i: u32) -> Calc {{ return {}; }}",
                    convert(t.calc(), v.calc, &load)
                ),
            );
        }
    }
    if !v.func.is_empty() {
        let glue: SmallVec<[String; 1]> = shader_glue(v);
        for g in glue {
            line(&mut text, g);
        }
    }
    text
}

/// Binds the shader's `op` to the variant's function. `cast` is the conversion to the output's type itself.
fn shader_glue(v: &Variant) -> SmallVec<[String; 1]> {
    let inputs = v.types[1..].iter().flatten().count();
    let func = if v.func == "cast" { "to_out".into() } else { format!("op_{}_{}", v.func, calc_name(v.calc)) };
    let text = match inputs {
        0 | 1 => format!("fn op(a: Calc) -> Out {{ return {func}(a); }}"),
        2 => format!("fn op(a: Calc, b: Calc) -> Out {{ return {func}(a, b); }}"),
        _ => format!("fn op(a: Calc, b: Calc, c: Calc) -> Out {{ return {func}(a, b, c); }}"),
    };
    SmallVec::from_elem(text, 1)
}

/// Parses and validates a variant's text, as the adapters will.
///
/// # Panics
/// With naga's message and the text when it is not valid.
#[cfg(test)]
pub(crate) fn validate(v: &Variant) {
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    let text = source(v);
    let module =
        naga::front::wgsl::parse_str(&text).unwrap_or_else(|e| panic!("{}:\n{}", v.label(), e.emit_to_string(&text)));
    Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .unwrap_or_else(|e| panic!("{}:\n{}", v.label(), e.emit_to_string(&text)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_fold_within_the_limit() {
        for n in [0, 1, 65_535, 65_536, 1_000_003, u32::MAX / 64] {
            let [x, y] = fold(n);
            assert!(x <= MAX_GROUPS && y <= MAX_GROUPS && u64::from(x) * u64::from(y) >= u64::from(n), "{n}: {x} {y}");
        }
        assert_eq!(fold(0), [0, 0]);
    }

    #[test]
    fn collapse_merges_only_what_all_walk_together() {
        let (d, [a, b]) = collapse(&[2, 1, 3, 4], [&[12, 12, 4, 1], &[12, 7, 4, 1]]);
        assert_eq!((&d[..], &a[..], &b[..]), (&[24][..], &[1][..], &[1][..]));
        let (d, [a, b]) = collapse(&[2, 3, 4], [&[12, 4, 1], &[0, 4, 1]]);
        assert_eq!((&d[..], &a[..], &b[..]), (&[2, 12][..], &[12, 1][..], &[0, 1][..]));
        let (d, [a]) = collapse(&[], [&[]]);
        assert_eq!((&d[..], &a[..]), (&[1][..], &[0][..]));
    }
}
