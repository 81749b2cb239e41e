//! Kernels: for each family, the shape rule and the dispatch of its ops.
//!
//! A family is a file with one or more [`Kernel`] rows. The op table names them; nothing else does.
//! A kernel sees one instruction through a [`Call`]. Its *shape rule* computes what the outputs are
//! from what the inputs are, on the host; its *encode* function turns the same call, once every life
//! has an address, into dispatches of [`Variant`]s with their parameters.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::dtype::{Calc, DType};
use crate::error::{Error, Result};
use crate::limits::MAX_RANK;
use crate::op::Field;
use crate::program::Graph;
use crate::table::Inst;

pub mod attend;
pub mod cache;
pub mod call;
pub mod control;
pub mod conv;
pub mod emit;
pub mod fill;
pub mod foreign;
pub mod gather;
pub mod host;
pub mod map;
pub mod matmul;
#[path = "move.rs"]
pub mod move_;
pub mod norm;
pub mod quant;
pub mod random;
pub mod reduce;
pub mod rope;
pub mod scatter;
pub mod sort;
pub mod view;

pub use call::{Call, Outs, Value};
pub use emit::{Emit, Tensor};

/// Sizes of a tensor, outermost first.
pub type Dims = SmallVec<[usize; MAX_RANK]>;
/// Distances in elements between neighbours of each dimension; zero where broadcast, negative where flipped.
pub type Strides = SmallVec<[isize; MAX_RANK]>;

/// A tensor's element type and where its elements lie, relative to the start of the memory it looks into.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub dims: Dims,
    /// Strides in elements.
    pub strides: Strides,
    /// First element, in elements from the start of the base's memory.
    pub offset: usize,
}

impl View {
    /// A row-major tensor at offset 0.
    pub fn contiguous(dtype: DType, dims: &[usize]) -> Self {
        Self { dtype, dims: dims.into(), strides: row_major(dims), offset: 0 }
    }
    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }
    /// Number of elements; 1 for a scalar.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }
    /// Bytes of the elements when stored without gaps.
    pub fn bytes(&self) -> usize {
        self.count() * self.dtype.size()
    }
    /// Whether the elements lie in row-major order without gaps (whatever the offset).
    pub fn is_contiguous(&self) -> bool {
        if self.count() <= 1 {
            return true;
        }
        let mut expect = 1isize;
        for (&d, &s) in self.dims.iter().zip(&self.strides).rev() {
            if d != 1 {
                if s != expect {
                    return false;
                }
                expect *= d as isize;
            }
        }
        true
    }
    /// This view stretched to `dims` by the rules of broadcasting: aligned at the last dimension, size 1 repeats.
    pub fn broadcast(&self, dims: &[usize]) -> Result<Self> {
        let lead = dims.len().checked_sub(self.rank()).ok_or_else(|| cannot_broadcast(&self.dims, dims))?;
        let mut strides: Strides = SmallVec::from_elem(0, lead);
        for (i, (&d, &s)) in self.dims.iter().zip(&self.strides).enumerate() {
            match (d, dims[lead + i]) {
                (a, b) if a == b => strides.push(s),
                (1, _) => strides.push(0),
                _ => return Err(cannot_broadcast(&self.dims, dims)),
            }
        }
        Ok(Self { dtype: self.dtype, dims: dims.into(), strides, offset: self.offset })
    }
}

fn cannot_broadcast(from: &[usize], to: &[usize]) -> Error {
    Error::malformed(format!("shape {from:?} does not broadcast to {to:?}"))
}

/// Row-major strides of `dims`.
pub fn row_major(dims: &[usize]) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(1, dims.len());
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i].max(1) as isize;
    }
    strides
}

/// The shape that two shapes broadcast to.
pub fn broadcast_dims(a: &[usize], b: &[usize]) -> Result<Dims> {
    let rank = a.len().max(b.len());
    (0..rank)
        .map(|i| {
            let da = (i + a.len()).checked_sub(rank).map_or(1, |i| a[i]);
            let db = (i + b.len()).checked_sub(rank).map_or(1, |i| b[i]);
            match (da, db) {
                (x, y) if x == y => Ok(x),
                (1, y) => Ok(y),
                (x, 1) => Ok(x),
                _ => Err(Error::malformed(format!("shapes {a:?} and {b:?} do not broadcast"))),
            }
        })
        .collect()
}

/// A possibly negative axis as an index below `rank`. Source: Python indexing, `-1` is the last.
pub fn axis(axis: i64, rank: usize) -> Result<usize> {
    let r = rank as i64;
    if axis < -r || axis >= r {
        return Err(Error::malformed(format!("axis {axis} is out of range for rank {rank}")));
    }
    Ok(if axis < 0 { axis + r } else { axis } as usize)
}

/// How an op's output may share memory with an input. The passes read this, never the op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alias {
    /// Outputs are new row-major tensors that share nothing.
    Fresh,
    /// Each element of the output depends on no other element than the same one of each input, so the
    /// output may overwrite an input of the same shape and dtype that dies here.
    Elementwise,
    /// Outputs are views into the tensor of `Field`, described by the shape rule. Where an output cannot be
    /// one it is a new row-major tensor of the same dims, and `encode` copies.
    View(Field, Contiguity),
    /// As `View` of the tensor of `of`, unless the field `index` holds a tensor: then as `Fresh`.
    ViewUnlessTensor {
        /// The tensor that is viewed.
        of: Field,
        /// What the view does to row-major order.
        contiguity: Contiguity,
        /// The field that decides.
        index: Field,
    },
    /// The output is the tensor of `Field` with a part overwritten: in place when that tensor dies
    /// here or is the output itself, after a copy otherwise. `encode` writes the part only.
    Update(Field),
    /// No tensors are made: host scalars only.
    Host,
    /// The instruction brackets other chains.
    Control,
}

/// What a view op does to row-major order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contiguity {
    /// The output is the input, under another name.
    Same,
    /// A row-major input gives a row-major output.
    Keeps,
    /// The output may have any strides.
    Breaks,
    /// Only a row-major input can be viewed; another is copied. The output is row-major.
    Needs,
    /// Only a row-major input can be viewed; another is copied. The output may have any strides.
    NeedsThenBreaks,
}

/// A row of a family.
pub struct Kernel {
    /// How outputs may share memory.
    pub alias: Alias,
    /// Computes outputs from inputs.
    pub shape: fn(&Call<'_>, &mut Outs) -> Result<()>,
    /// Emits dispatches. Of a view op: the copy that stands in where an output cannot be a view. Not
    /// called where no output has elements.
    pub encode: fn(&Call<'_>, &mut Emit<'_>) -> Result<()>,
    /// Most scratch tensors that `shape` asks for by [`Outs::scratch`].
    pub scratch: usize,
    /// False refuses the program at load, naming the op.
    pub written: bool,
    /// Refuses at load what the file alone shows that the kernel cannot run.
    pub check: fn(&Graph, Inst) -> Result<()>,
}

fn admit(_: &Graph, _: Inst) -> Result<()> {
    Ok(())
}

impl Kernel {
    /// The row of an op that has no kernel yet: a program that uses it is refused at load.
    pub const fn unwritten() -> Self {
        fn no_shape(_: &Call<'_>, _: &mut Outs) -> Result<()> {
            Err(Error::unsupported("no kernel is written for this op"))
        }
        fn no_encode(_: &Call<'_>, _: &mut Emit<'_>) -> Result<()> {
            Err(Error::unsupported("no kernel is written for this op"))
        }
        Self { alias: Alias::Fresh, shape: no_shape, encode: no_encode, scratch: 0, written: false, check: admit }
    }
    /// A family row without scratch.
    pub const fn new(
        alias: Alias,
        shape: fn(&Call<'_>, &mut Outs) -> Result<()>,
        encode: fn(&Call<'_>, &mut Emit<'_>) -> Result<()>,
    ) -> Self {
        Self { alias, shape, encode, scratch: 0, written: true, check: admit }
    }
    /// The same row with up to `count` scratch tensors.
    pub const fn with_scratch(mut self, count: usize) -> Self {
        self.scratch = count;
        self
    }
    /// The same row with a check at load.
    pub const fn with_check(mut self, check: fn(&Graph, Inst) -> Result<()>) -> Self {
        self.check = check;
        self
    }
}

/// A whole `.wgsl` file and what it is specialised by.
#[derive(Debug)]
pub struct Shader {
    /// The file's name, for labels and messages.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
    /// Other files it needs, before it.
    pub uses: &'static [&'static str],
}

/// One specialisation of a shader: everything that decides its compiled code.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The file.
    pub shader: &'static Shader,
    /// The op function `op_<func>` that the shader's `op` stands for; empty when it has none.
    pub func: &'static str,
    /// The type that kernels compute in (`Calc` in the shader).
    pub calc: Calc,
    /// Element types: output first, then inputs. Each role gets `load_a`, `load_b`, `load_c` and the store of the output.
    pub types: [Option<DType>; 4],
    /// Values of the shader's `override` constants, by name.
    pub options: SmallVec<[(&'static str, u32); 4]>,
}

impl Variant {
    /// A variant computing in `calc` and storing `out`.
    pub fn new(shader: &'static Shader, calc: Calc, out: DType) -> Self {
        Self { shader, func: "", calc, types: [Some(out), None, None, None], options: SmallVec::new() }
    }
    /// Names the op function.
    #[must_use]
    pub fn func(mut self, func: &'static str) -> Self {
        self.func = func;
        self
    }
    /// Sets the element types of inputs `a`, `b`, `c`.
    #[must_use]
    pub fn inputs(mut self, types: &[DType]) -> Self {
        for (role, &t) in self.types[1..].iter_mut().zip(types) {
            *role = Some(t);
        }
        self
    }
    /// Sets an `override` constant.
    #[must_use]
    pub fn option(mut self, name: &'static str, value: u32) -> Self {
        self.options.push((name, value));
        self
    }
    /// A name for labels, reports and `inspect --plan`.
    pub fn label(&self) -> Cow<'static, str> {
        use std::fmt::Write;
        let mut s = self.shader.name.to_string();
        if !self.func.is_empty() {
            s += ":";
            s += self.func;
        }
        for t in self.types.iter().flatten() {
            s += " ";
            s += t.name();
        }
        for (name, value) in &self.options {
            let _ = write!(s, " {name}={value}");
        }
        s.into()
    }
}

impl PartialEq for Variant {
    fn eq(&self, o: &Self) -> bool {
        std::ptr::eq(self.shader, o.shader)
            && self.calc == o.calc
            && self.types == o.types
            && self.options == o.options
            && (std::ptr::eq(self.func, o.func) || self.func == o.func)
    }
}
impl Eq for Variant {}
impl Hash for Variant {
    fn hash<H: Hasher>(&self, h: &mut H) {
        (self.shader as *const Shader as usize).hash(h);
        self.func.hash(h);
        self.calc.hash(h);
        self.types.hash(h);
        self.options.hash(h);
    }
}
