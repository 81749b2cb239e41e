//! What a file says, as tables: the container ([`pte`]), the delegate payload ([`load`]), the proof
//! that its ids and references are sound ([`check`]), and their inverses: the writer ([`write`](mod@write)) and the
//! builder of programs in Rust ([`build`]).

pub mod build;
pub mod cache;
pub mod check;
mod facts;
pub mod load;
pub mod model;
pub mod pte;
mod walk;
mod wire;
pub mod write;

use std::ops::Range;
use std::sync::Arc;

use crate::dtype::DType;
use crate::op::{Access, Field, Op};
use crate::table::{Chain, Col, Csr, Inst, Slot, Vid};

/// The instructions of a graph, over all its chains.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Insts {
    /// The op.
    pub op: Col<Inst, Op>,
    /// The first of the instruction's rows in [`Args`]: one per field of the op's row, in that order.
    pub args: Col<Inst, u32>,
}

/// One row per field of each instruction: a run of operands in [`Scalars`]. An absent field has none.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Args {
    /// First operand.
    pub start: Vec<u32>,
    /// Number of operands.
    pub count: Vec<u32>,
    /// The first of the field's rows in [`Graph::uses`], counted from the instruction's first.
    pub first_use: Vec<u32>,
}

/// What an operand's bits mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// An `i64` (narrower integers and bools are widened).
    Int,
    /// An `f64`.
    Float,
    /// A [`Vid`].
    Value,
    /// A [`Slot`].
    Tensor,
    /// An index into [`Graph::strings`].
    Text,
}

/// Operands of all instructions.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Scalars {
    /// How to read `bits`.
    pub tag: Vec<Tag>,
    /// The operand.
    pub bits: Vec<u64>,
}

/// One operand, decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operand {
    /// A literal integer.
    Int(i64),
    /// A literal float.
    Float(f64),
    /// A host scalar.
    Value(Vid),
    /// A tensor slot.
    Tensor(Slot),
    /// An index into [`Graph::strings`].
    Text(u32),
}

impl Scalars {
    /// Number of operands.
    pub fn len(&self) -> usize {
        self.tag.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tag.is_empty()
    }
    /// Appends an operand.
    pub fn push(&mut self, operand: Operand) {
        let (tag, bits) = match operand {
            Operand::Int(v) => (Tag::Int, v as u64),
            Operand::Float(v) => (Tag::Float, v.to_bits()),
            Operand::Value(v) => (Tag::Value, u64::from(v.0)),
            Operand::Tensor(t) => (Tag::Tensor, u64::from(t.0)),
            Operand::Text(i) => (Tag::Text, u64::from(i)),
        };
        self.tag.push(tag);
        self.bits.push(bits);
    }
    /// The operand at `index`.
    pub fn at(&self, index: usize) -> Operand {
        let bits = self.bits[index];
        match self.tag[index] {
            Tag::Int => Operand::Int(bits as i64),
            Tag::Float => Operand::Float(f64::from_bits(bits)),
            Tag::Value => Operand::Value(Vid(bits as u32)),
            Tag::Tensor => Operand::Tensor(Slot(bits as u32)),
            Tag::Text => Operand::Text(bits as u32),
        }
    }
}

/// One naming of a slot by an instruction. Liveness reads nothing else of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Use {
    /// The slot.
    pub slot: Slot,
    /// What happens to it.
    pub access: Access,
    /// The field that names it.
    pub field: Field,
}

/// Where a slot's tensor lives. Slots are ordered by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Home {
    /// Read-only data of the file.
    Constant,
    /// An argument of the delegate.
    Input,
    /// A result of the delegate.
    Output,
    /// State that outlives a run; zeros at first.
    Mutable,
    /// An intermediate.
    Temp,
}

/// A dimension as the file bounds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DimBound {
    /// Smallest size.
    pub min: u32,
    /// Largest size; `None` when the file gives none.
    pub max: Option<u32>,
}

impl DimBound {
    /// A dimension of one size.
    pub fn fixed(size: u32) -> Self {
        Self { min: size, max: Some(size) }
    }
    /// Whether only one size is allowed.
    pub fn is_fixed(&self) -> bool {
        self.max == Some(self.min)
    }
}

impl From<u32> for DimBound {
    fn from(size: u32) -> Self {
        Self::fixed(size)
    }
}

/// What the file says of each slot. Temps have no dtype and no dims: rules derive them.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Tensors {
    /// The first slot of each home, in [`Home`]'s order, and the slot count at the end.
    pub first: [u32; 6],
    /// Declared element type.
    pub dtype: Col<Slot, Option<DType>>,
    /// Declared dimensions; empty for a scalar and for a slot without metadata.
    pub dims: Csr<Slot, DimBound>,
    /// The key in the container's named data (constants) or the name of a buffer; empty when unnamed.
    pub name: Col<Slot, String>,
}

impl Default for DimBound {
    fn default() -> Self {
        Self::fixed(0)
    }
}

impl Tensors {
    /// Number of slots.
    pub fn len(&self) -> usize {
        self.first[5] as usize
    }
    /// Whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Where a slot lives.
    pub fn home(&self, slot: Slot) -> Home {
        const HOMES: [Home; 5] = [Home::Constant, Home::Input, Home::Output, Home::Mutable, Home::Temp];
        let at = self.first[1..5].iter().filter(|&&first| slot.0 >= first).count();
        HOMES[at]
    }
    /// The slots of a home.
    pub fn of(&self, home: Home) -> Range<u32> {
        let at = home as usize;
        self.first[at]..self.first[at + 1]
    }
}

/// The tables of one delegate payload, as the file gives them. Its ids are not to be trusted before
/// [`check::check`] has turned it into a [`check::Checked`] value.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Graph {
    /// Instructions.
    pub insts: Insts,
    /// Fields of instructions.
    pub args: Args,
    /// Operands of fields.
    pub scalars: Scalars,
    /// Slots named by each instruction, in field order.
    pub uses: Csr<Inst, Use>,
    /// Strings of the instructions.
    pub strings: Vec<String>,
    /// Instructions of each chain: a run of consecutive ids.
    pub chains: Csr<Chain, Inst>,
    /// Slots.
    pub tensors: Tensors,
    /// Number of host scalars.
    pub values: u32,
    /// The chain that a call runs.
    pub main: Chain,
    /// The chain that runs once before the first call.
    pub init: Option<Chain>,
    /// The delegate's arguments, in order. A scalar argument is a host value.
    pub inputs: Vec<Port>,
    /// The delegate's results, in order.
    pub outputs: Vec<Port>,
    /// The mutable buffers, in the order of the file's map.
    pub mutable: Vec<Slot>,
    /// Windows and capacity of the cache that the runtime keeps; empty for other programs.
    pub cache: CacheLimits,
}

/// What attention through the runtime's cache is bound by.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct CacheLimits {
    /// Positions that a sequence can have.
    pub capacity: usize,
    /// Window of each layer; one stands for all.
    pub windows: Vec<Option<usize>>,
}

/// An argument or result of a delegate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// A tensor.
    Tensor(Slot),
    /// A host integer.
    Int(Vid),
    /// A host float.
    Float(Vid),
    /// A host bool.
    Bool(Vid),
}

impl Graph {
    /// The operands of a field of an instruction; empty when the field is absent.
    pub fn operands(&self, inst: Inst, field: Field) -> Range<usize> {
        let row = self.insts.args[inst] as usize + field.0 as usize;
        let start = self.args.start[row] as usize;
        start..start + self.args.count[row] as usize
    }
    /// The window of the layer that an `UpdateAndAttend` names, and the capacity of the cache.
    pub fn cache_limits(&self, inst: Inst) -> (Option<usize>, usize) {
        let layer = self.operands(inst, crate::op::fields::update_and_attend::layer_id).next();
        let layer = match layer.map(|i| self.scalars.at(i)) {
            Some(Operand::Int(v)) => v as usize,
            _ => 0,
        };
        let windows = &self.cache.windows;
        let window = if windows.len() == 1 { windows[0] } else { windows.get(layer).copied().flatten() };
        (window, self.cache.capacity)
    }
    /// Names an instruction for messages: `chain c0, i12 Slice`.
    pub fn describe(&self, inst: Inst) -> String {
        let chain = (0..self.chains.rows()).map(|c| Chain(c as u32)).find(|&c| self.chains[c].contains(&inst));
        match chain {
            Some(c) => format!("chain {c}, {inst} {}", self.insts.op[inst]),
            None => format!("{inst} {}", self.insts.op[inst]),
        }
    }
}

/// Where the bytes of a file are: mapped or owned, shared by everything that points into them.
pub type Bytes = Arc<dyn Source>;

/// Bytes of a file.
pub trait Source: AsRef<[u8]> + Send + Sync {
    /// Says that a range will not be read again soon: memory that only caches the file may go. Reading it later gives
    /// the same bytes.
    fn forget(&self, _: Range<usize>) {}
}

impl Source for Vec<u8> {}
