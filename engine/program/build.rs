//! Authoring programs in Rust: for tests, and for embedders who make models without Python.
//!
//! ```
//! use lowtide::dtype::DType;
//! use lowtide::op::fields;
//! use lowtide::program::DimBound;
//! use lowtide::program::build::ProgramBuilder;
//!
//! let mut b = ProgramBuilder::new();
//! let rows = DimBound { min: 1, max: Some(64) };
//! let x = b.input(DType::F32, &[rows, 8.into()]);
//! let w = b.constant("w", DType::F32, &[8], vec![0; 32]);
//! let out = b.output(DType::F32, &[rows, 8.into()]);
//! let t = b.temp();
//! use fields::{add, exp};
//! b.push(b.main(), "Exp", [(exp::x, x.into()), (exp::out, t.into())]);
//! b.push(b.main(), "Add", [(add::a, t.into()), (add::b, w.into()), (add::out, out.into())]);
//! let bytes = b.build()?;
//! # assert!(bytes.len() > 100);
//! # Ok::<(), lowtide::error::Error>(())
//! ```

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::pte::{BACKEND, Container, Delegate, Method, MethodCall, PlanValue, TensorSpec};
use super::{DimBound, Graph, Home, Operand, Port, Use, write};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Field, FieldKind, FieldRow, Need, Op};
use crate::table::{Chain, Id, Inst, Slot, Vid};

/// A tensor of a program that is being built. Slots get their numbers when the program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorRef {
    home: Home,
    at: u32,
}

/// What a field of an instruction is given.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// A tensor.
    Tensor(TensorRef),
    /// Tensors.
    Tensors(Vec<TensorRef>),
    /// A host scalar.
    Value(Vid),
    /// An integer or bool.
    Int(i64),
    /// A float.
    Float(f64),
    /// Integers and host scalars, such as a shape.
    Ints(Vec<Int>),
    /// A string.
    Text(String),
    /// Strings.
    Texts(Vec<String>),
    /// A chain.
    Chain(Chain),
}

/// An integer of a list: a literal or a host scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Int {
    /// A literal.
    Literal(i64),
    /// A host scalar.
    Value(Vid),
}

macro_rules! conversions {
    ($($from:ty => $to:ident: |$v:ident| $make:expr;)*) => {$(
        impl From<$from> for $to {
            fn from($v: $from) -> Self {
                $make
            }
        }
    )*};
}
conversions! {
    i64 => Int: |v| Self::Literal(v);
    Vid => Int: |v| Self::Value(v);
    TensorRef => Arg: |v| Self::Tensor(v);
    Vec<TensorRef> => Arg: |v| Self::Tensors(v);
    Vid => Arg: |v| Self::Value(v);
    i64 => Arg: |v| Self::Int(v);
    bool => Arg: |v| Self::Int(v.into());
    f64 => Arg: |v| Self::Float(v);
    Vec<Int> => Arg: |v| Self::Ints(v);
    &str => Arg: |v| Self::Text(v.to_owned());
    Vec<String> => Arg: |v| Self::Texts(v);
    Chain => Arg: |v| Self::Chain(v);
    DType => Arg: |v| Self::Int(v.scalar_type().into());
}
impl<const N: usize> From<[TensorRef; N]> for Arg {
    fn from(v: [TensorRef; N]) -> Self {
        Self::Tensors(v.to_vec())
    }
}
impl<const N: usize> From<[i64; N]> for Arg {
    fn from(v: [i64; N]) -> Self {
        Self::Ints(v.map(Int::Literal).to_vec())
    }
}
impl<const N: usize> From<[Int; N]> for Arg {
    fn from(v: [Int; N]) -> Self {
        Self::Ints(v.to_vec())
    }
}

/// A slot that is being declared.
#[derive(Debug, Clone, Default)]
struct Declared {
    dtype: Option<DType>,
    dims: Vec<DimBound>,
    name: String,
    data: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
struct Pushed {
    op: String,
    args: Vec<(Field, Arg)>,
}

/// An argument or result in declaration order.
#[derive(Debug, Clone, Copy)]
enum Declare {
    Tensor(TensorRef),
    Int(Vid),
}

/// A method that returns a stored value.
#[derive(Debug, Clone)]
enum Stored {
    Value(PlanValue),
    Tensor(DType, Vec<u32>, Vec<u8>),
}

/// Builds a program: one delegate that the method `forward` calls, and constant methods.
///
/// Nothing fails before [`ProgramBuilder::graph`] or [`ProgramBuilder::build`], which name what is wrong.
#[derive(Debug, Clone)]
pub struct ProgramBuilder {
    slots: [Vec<Declared>; 5],
    values: u32,
    chains: Vec<Vec<Pushed>>,
    init: Option<Chain>,
    inputs: Vec<Declare>,
    outputs: Vec<Declare>,
    stored: Vec<(String, Stored)>,
}

impl Default for ProgramBuilder {
    fn default() -> Self {
        Self {
            slots: Default::default(),
            values: 0,
            chains: vec![Vec::new()],
            init: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            stored: Vec::new(),
        }
    }
}

fn fixed(dims: &[u32]) -> Vec<DimBound> {
    dims.iter().copied().map(DimBound::fixed).collect()
}

/// Dimensions as a plan states them: all fixed, or upper bounds only.
fn planned(dims: &[DimBound]) -> Vec<DimBound> {
    match dims.iter().all(DimBound::is_fixed) {
        true => dims.into(),
        false => {
            let bounded = dims.iter().all(|d| d.max.is_some());
            dims.iter().map(|d| DimBound { min: 0, max: d.max.filter(|_| bounded) }).collect()
        }
    }
}

impl ProgramBuilder {
    /// A program without instructions.
    pub fn new() -> Self {
        Self::default()
    }

    fn declare(&mut self, home: Home, slot: Declared) -> TensorRef {
        let slots = &mut self.slots[home as usize];
        slots.push(slot);
        TensorRef { home, at: slots.len() as u32 - 1 }
    }

    /// A constant with its bytes, little endian and row-major, under the key `name`.
    pub fn constant(&mut self, name: &str, dtype: DType, dims: &[u32], data: impl Into<Vec<u8>>) -> TensorRef {
        let slot = Declared { dtype: Some(dtype), dims: fixed(dims), name: name.into(), data: Some(data.into()) };
        self.declare(Home::Constant, slot)
    }

    /// A constant that the file has no bytes for: the init chain writes it.
    pub fn computed_constant(&mut self, name: &str, dtype: DType, dims: &[u32]) -> TensorRef {
        let slot = Declared { dtype: Some(dtype), dims: fixed(dims), name: name.into(), data: None };
        self.declare(Home::Constant, slot)
    }

    /// The next argument, a tensor.
    pub fn input(&mut self, dtype: DType, dims: &[DimBound]) -> TensorRef {
        let name = format!("input_{}", self.inputs.len());
        let t = self.declare(Home::Input, Declared { dtype: Some(dtype), dims: dims.into(), name, data: None });
        self.inputs.push(Declare::Tensor(t));
        t
    }

    /// The next argument, an integer.
    pub fn int_input(&mut self) -> Vid {
        let v = self.value();
        self.inputs.push(Declare::Int(v));
        v
    }

    /// The next result, a tensor that the program must write.
    pub fn output(&mut self, dtype: DType, dims: &[DimBound]) -> TensorRef {
        let name = format!("output_{}", self.outputs.len());
        let t = self.declare(Home::Output, Declared { dtype: Some(dtype), dims: dims.into(), name, data: None });
        self.outputs.push(Declare::Tensor(t));
        t
    }

    /// The next result: a tensor that exists already, such as state or an input.
    pub fn returns(&mut self, tensor: TensorRef) {
        self.outputs.push(Declare::Tensor(tensor));
    }

    /// The next result: an integer.
    pub fn returns_int(&mut self, value: Vid) {
        self.outputs.push(Declare::Int(value));
    }

    /// State: zeros at first, kept between calls.
    pub fn mutable(&mut self, name: &str, dtype: DType, dims: &[u32]) -> TensorRef {
        let slot = Declared { dtype: Some(dtype), dims: fixed(dims), name: name.into(), data: None };
        self.declare(Home::Mutable, slot)
    }

    /// An intermediate. It may be written again, with another shape and element type.
    pub fn temp(&mut self) -> TensorRef {
        self.declare(Home::Temp, Declared::default())
    }

    /// A host scalar.
    pub fn value(&mut self) -> Vid {
        self.values += 1;
        Vid(self.values - 1)
    }

    /// The chain that a call runs.
    pub fn main(&self) -> Chain {
        Chain(0)
    }

    /// A new chain, for an IF or a SCAN to name.
    pub fn chain(&mut self) -> Chain {
        self.chains.push(Vec::new());
        Chain::new(self.chains.len() - 1)
    }

    /// The chain that runs once before the first call; made at the first use.
    pub fn init(&mut self) -> Chain {
        match self.init {
            Some(c) => c,
            None => {
                let c = self.chain();
                self.init = Some(c);
                c
            }
        }
    }

    /// Appends an instruction to a chain of this builder. `op` is a wire name such as `"Slice"`; fields that are not given take
    /// their default or are absent.
    pub fn push(&mut self, chain: Chain, op: &str, args: impl IntoIterator<Item = (Field, Arg)>) {
        if let Some(chain) = self.chains.get_mut(chain.index()) {
            chain.push(Pushed { op: op.into(), args: args.into_iter().collect() });
        }
    }

    /// A method that returns a stored value.
    pub fn constant_method(&mut self, name: &str, value: PlanValue) {
        self.stored.push((name.into(), Stored::Value(value)));
    }

    /// A method that returns a stored tensor.
    pub fn constant_tensor_method(&mut self, name: &str, dtype: DType, dims: &[u32], data: impl Into<Vec<u8>>) {
        self.stored.push((name.into(), Stored::Tensor(dtype, dims.into(), data.into())));
    }

    fn first(&self) -> [u32; 6] {
        let mut first = [0; 6];
        for (home, slots) in self.slots.iter().enumerate() {
            first[home + 1] = first[home] + slots.len() as u32;
        }
        first
    }

    fn slot(&self, t: TensorRef) -> Result<Slot> {
        let home = t.home as usize;
        match (t.at as usize) < self.slots[home].len() {
            true => Ok(Slot(self.first()[home] + t.at)),
            false => Err(Error::malformed(format!("{t:?} is of another builder"))),
        }
    }

    /// The delegate's graph.
    ///
    /// # Errors
    /// When an instruction's op is unknown, or its fields do not fit the op's row.
    pub fn graph(&self) -> Result<Graph> {
        let mut g = Graph { values: self.values, main: self.main(), init: self.init, ..Graph::default() };
        g.tensors.first = self.first();
        for slot in self.slots.iter().flatten() {
            g.tensors.dtype.push(slot.dtype);
            g.tensors.name.push(slot.name.clone());
            slot.dims.iter().for_each(|&d| g.tensors.dims.push(d));
            let _: Slot = g.tensors.dims.end_row();
        }
        let port = |d: &Declare| {
            Ok(match *d {
                Declare::Tensor(t) => Port::Tensor(self.slot(t)?),
                Declare::Int(v) => Port::Int(v),
            })
        };
        g.inputs = self.inputs.iter().map(port).collect::<Result<_>>()?;
        g.outputs = self.outputs.iter().map(port).collect::<Result<_>>()?;
        g.mutable = g.tensors.of(Home::Mutable).map(Slot).collect();
        let mut texts = HashMap::new();
        for (c, chain) in self.chains.iter().enumerate() {
            for pushed in chain {
                let inst = Inst::new(g.insts.op.len());
                self.instruction(&mut g, &mut texts, pushed)
                    .map_err(|e| e.at(format!("{inst} {}", pushed.op)).at(format!("chain {}", Chain::new(c))))?;
                g.chains.push(inst);
            }
            let _: Chain = g.chains.end_row();
        }
        Ok(g)
    }

    fn instruction(&self, g: &mut Graph, texts: &mut HashMap<String, u32>, pushed: &Pushed) -> Result<()> {
        let op = Op::from_name(&pushed.op).ok_or_else(|| Error::malformed("there is no such op"))?;
        let rows = op.row().fields;
        let mut given = HashSet::new();
        for (field, _) in &pushed.args {
            if field.0 as usize >= rows.len() || !given.insert(*field) {
                return Err(Error::malformed(format!("field {} is not of this op or given twice", field.0)));
            }
        }
        g.insts.op.push(op);
        g.insts.args.push(g.args.start.len() as u32);
        let mut uses = 0;
        for (i, row) in rows.iter().enumerate() {
            let field = Field(i as u8);
            let arg = pushed.args.iter().find(|(f, _)| *f == field).map(|(_, arg)| arg);
            let operands = self.operands(g, texts, row, arg).map_err(|e| e.at(format!("field {}", row.name)))?;
            g.args.start.push(g.scalars.len() as u32);
            g.args.count.push(operands.len() as u32);
            g.args.first_use.push(uses);
            for operand in operands {
                if let Operand::Tensor(slot) = operand {
                    g.uses.push(Use { slot, access: row.access, field });
                    uses += 1;
                }
                g.scalars.push(operand);
            }
        }
        let _: Inst = g.uses.end_row();
        Ok(())
    }

    fn operands(
        &self,
        g: &mut Graph,
        texts: &mut HashMap<String, u32>,
        row: &FieldRow,
        arg: Option<&Arg>,
    ) -> Result<Vec<Operand>> {
        use FieldKind as K;
        let mut text = |s: &String| {
            let strings = &mut g.strings;
            let known = texts.entry(s.clone());
            Operand::Text(*known.or_insert_with(|| {
                strings.push(s.clone());
                strings.len() as u32 - 1
            }))
        };
        let Some(arg) = arg else {
            return match row.need {
                Need::Required => Err(Error::malformed("the field must be given")),
                Need::Optional => Ok(Vec::new()),
                Need::Default(v) if row.kind == K::F32 => Ok(vec![Operand::Float(v)]),
                Need::Default(v) => Ok(vec![Operand::Int(v as i64)]),
            };
        };
        let ints = |list: &[Int]| {
            list.iter()
                .map(|i| match *i {
                    Int::Literal(v) => Operand::Int(v),
                    Int::Value(v) => Operand::Value(v),
                })
                .collect()
        };
        Ok(match (row.kind, arg) {
            (K::Tid | K::VidOrTid | K::IntOrVidOrTid, Arg::Tensor(t)) => vec![Operand::Tensor(self.slot(*t)?)],
            (K::Tids, Arg::Tensors(list)) => {
                list.iter().map(|&t| Ok(Operand::Tensor(self.slot(t)?))).collect::<Result<_>>()?
            }
            (K::Vid | K::IntOrVid | K::FloatOrVid | K::VidOrTid | K::IntOrVidOrTid, Arg::Value(v)) => {
                vec![Operand::Value(*v)]
            }
            (K::I8 | K::I32 | K::U32 | K::U64 | K::Bool | K::IntOrVid | K::IntOrVidOrTid, Arg::Int(v)) => {
                vec![Operand::Int(*v)]
            }
            // The wire has 32 bits.
            (K::F32, Arg::Float(v)) => vec![Operand::Float(f64::from(*v as f32))],
            (K::FloatOrVid, Arg::Float(v)) => vec![Operand::Float(*v)],
            (K::IntsOrVids, Arg::Ints(list)) => ints(list),
            (K::I32s | K::I8s, Arg::Ints(list)) if list.iter().all(|i| matches!(i, Int::Literal(_))) => ints(list),
            (K::Str, Arg::Text(s)) => vec![text(s)],
            (K::Strs, Arg::Texts(list)) => list.iter().map(text).collect(),
            (K::I32 | K::U32, Arg::Chain(c)) => vec![Operand::Int(c.0.into())],
            (kind, arg) => return Err(Error::malformed(format!("{arg:?} does not fit a field of kind {kind:?}"))),
        })
    }

    /// The program as a container whose bytes hold the payload and the constants, ready for
    /// [`write::container`] or for changes by hand.
    ///
    /// # Errors
    /// Those of [`ProgramBuilder::graph`].
    pub fn container(&self) -> Result<Container> {
        let graph = self.graph()?;
        let mut bytes = write::payload(&graph)?;
        let payload = 0..bytes.len();
        let mut append = |data: &[u8]| -> Range<usize> {
            let start = bytes.len();
            bytes.extend(data);
            start..bytes.len()
        };
        let mut named = HashMap::new();
        for slot in self.slots.iter().flatten() {
            if let Some(data) = &slot.data
                && named.insert(slot.name.clone(), append(data)).is_some()
            {
                return Err(Error::malformed(format!("two constants are named {:?}", slot.name)));
            }
        }
        let mut methods = vec![self.forward(payload)];
        for (name, stored) in &self.stored {
            let value = match stored {
                Stored::Value(v) => v.clone(),
                Stored::Tensor(dtype, dims, data) => {
                    PlanValue::Tensor(TensorSpec { dtype: *dtype, dims: fixed(dims), data: Some(append(data)) })
                }
            };
            methods.push(Method {
                name: name.clone(),
                values: vec![value],
                inputs: Vec::new(),
                outputs: vec![0],
                calls: Vec::new(),
                delegates: Vec::new(),
            });
        }
        Ok(Container { bytes: Arc::new(bytes), methods, named })
    }

    fn forward(&self, payload: Range<usize>) -> Method {
        let value = |d: &Declare| match *d {
            Declare::Int(_) => PlanValue::Int(0),
            Declare::Tensor(t) => match self.slots[t.home as usize].get(t.at as usize) {
                Some(slot) => PlanValue::Tensor(TensorSpec {
                    dtype: slot.dtype.unwrap_or(DType::F32),
                    dims: planned(&slot.dims),
                    data: None,
                }),
                None => PlanValue::None,
            },
        };
        let values: Vec<PlanValue> = self.inputs.iter().chain(&self.outputs).map(value).collect();
        let (inputs, all) = (self.inputs.len(), values.len());
        Method {
            name: "forward".into(),
            values,
            inputs: (0..inputs).collect(),
            outputs: (inputs..all).collect(),
            calls: vec![MethodCall::Delegate { delegate: 0, args: (0..all).collect() }],
            delegates: vec![Delegate { id: BACKEND.into(), payload }],
        }
    }

    /// The program as the bytes of a `.pte` file.
    ///
    /// # Errors
    /// Those of [`ProgramBuilder::graph`], and numbers that do not fit their wire type.
    pub fn build(&self) -> Result<Vec<u8>> {
        write::container(&self.container()?)
    }
}
