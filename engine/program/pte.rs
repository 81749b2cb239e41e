//! The container: a `.pte` file to its methods, delegates and named data.
//!
//! # Mapped files
//!
//! [`Container::open`] maps the file. The weights are most of a file; mapped, they are clean pages that the
//! system drops at need, and uploading them reads each once, so that loading never needs twice their size.
//! The price is what every mapping costs: while the file is mapped, nobody may shrink it. Reading a page past
//! a new end raises `SIGBUS` on Unix and cannot be reported as an error (Windows refuses to shrink a mapped
//! file). Replacing the file by rename, as package managers and downloads do, is safe. If bytes change in place, results
//! may be wrong, but reads stay in bounds: every read of the program part is checked where it is made, and what
//! [`load`](super::load::load) returns is a copy. Where a file cannot be trusted to stay, [`Container::read`]
//! copies it into memory first.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::facts::{self, PROGRAM, program as f};
use super::wire::{Node, verify};
use super::{Bytes, DimBound, Source};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{
    MAX_LIST, MAX_METHODS, MAX_NAMED_DATA, MAX_PAYLOAD_RATIO, MAX_PLAN_VALUES, MAX_RANK, MAX_STRING, MAX_TENSOR_BYTES,
};

/// The delegate that lowtide runs.
pub const BACKEND: &str = "MLXBackend";

/// A parsed `.pte` file.
#[derive(Clone)]
pub struct Container {
    /// The whole file.
    pub bytes: Bytes,
    /// Its methods, in file order.
    pub methods: Vec<Method>,
    /// Named data: where the bytes of each key are. Several keys may share bytes.
    pub named: HashMap<String, Range<usize>>,
}

/// A method: an execution plan over a table of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Method {
    /// Its name, such as `forward`.
    pub name: String,
    /// The values that calls pass around.
    pub values: Vec<PlanValue>,
    /// Indices of the arguments among the values.
    pub inputs: Vec<usize>,
    /// Indices of the results among the values.
    pub outputs: Vec<usize>,
    /// What it does, in order. A method without calls returns stored values.
    pub calls: Vec<MethodCall>,
    /// The delegates that calls name.
    pub delegates: Vec<Delegate>,
}

/// A value of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanValue {
    /// Nothing.
    None,
    /// An integer.
    Int(i64),
    /// A bool.
    Bool(bool),
    /// A float.
    Double(f64),
    /// A string.
    Text(String),
    /// A list of integers, as the file stores it (for some operators these are indices of values).
    Ints(Vec<i64>),
    /// A list of floats.
    Doubles(Vec<f64>),
    /// A list of bools.
    Bools(Vec<bool>),
    /// A list of tensors, by index of the value; an optional one may be missing.
    Tensors(Vec<Option<usize>>),
    /// A tensor.
    Tensor(TensorSpec),
}

/// What a plan says of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSpec {
    /// Element type.
    pub dtype: DType,
    /// Dimensions; those of a tensor with bounded dynamic shape range from 0 to the file's sizes.
    pub dims: Vec<DimBound>,
    /// Where the bytes of a constant are in the file.
    pub data: Option<Range<usize>>,
}

/// One instruction of a method. Indices are in range of the method's values, delegates and calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MethodCall {
    /// Runs a delegate with arguments and results, by index of the value.
    Delegate {
        /// Index of the delegate.
        delegate: usize,
        /// Its arguments, then its results.
        args: Vec<usize>,
    },
    /// Runs an operator outside the delegate.
    Kernel {
        /// Which.
        op: KernelOp,
        /// Its arguments, then its result.
        args: Vec<usize>,
    },
    /// Copies a value.
    Move {
        /// From.
        from: usize,
        /// To.
        to: usize,
    },
    /// Goes to a later call when a bool is false.
    Jump {
        /// The bool.
        if_false: usize,
        /// The call, or the number of calls to end the method.
        to: usize,
    },
    /// Says that a value is no longer needed.
    Free(usize),
}

/// The operators outside the delegate that lowtide runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KernelOp {
    /// `aten::copy_`: arguments self, source, non-blocking.
    Copy,
    /// `aten::gather.out`: arguments self, dimension, index, sparse-grad, out.
    Gather,
}

/// A delegate of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegate {
    /// Its backend, always [`BACKEND`].
    pub id: String,
    /// Where its payload is in the file.
    pub payload: Range<usize>,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.data().len();
        f.debug_struct("Container")
            .field("bytes", &bytes)
            .field("methods", &self.methods)
            .field("named", &self.named)
            .finish()
    }
}

/// A mapped file.
struct Mapped(memmap2::Mmap);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Source for Mapped {
    #[cfg(unix)]
    fn forget(&self, range: Range<usize>) {
        // The map is read-only and backed by the file, so pages that are dropped are read from it again: no byte that
        // anybody sees changes.
        #[allow(unsafe_code)]
        let _ = unsafe { self.0.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len()) };
    }
}

impl Container {
    /// Maps a file and parses it. The file must not shrink while the container or anything made from it is alive; see
    /// the [module](self).
    ///
    /// # Errors
    /// `Io` when the file cannot be opened or mapped, and those of [`Container::parse`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |e: std::io::Error| Error::new(ErrorKind::Io, e.to_string()).at(path.display());
        let file = std::fs::File::open(path).map_err(failed)?;
        // Sound as long as nobody writes to the file, which `open` documents. Reads are bounds-checked, so a
        // write costs right results and not memory safety of this process; see the module's text on shrinking.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(failed)?;
        Self::parse(Arc::new(Mapped(map))).map_err(|e| e.at(path.display()))
    }

    /// Reads a whole file into memory and parses it.
    ///
    /// # Errors
    /// `Io` when the file cannot be read, and those of [`Container::parse`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|e| Error::new(ErrorKind::Io, e.to_string()).at(path.display()))?;
        Self::parse(Arc::new(bytes)).map_err(|e| e.at(path.display()))
    }

    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed) for bytes that are no such file, `Unsupported` for a
    /// file that wants another backend, operator, element type or data outside the file, `Limit` for
    /// one past [`crate::limits`].
    pub fn parse(bytes: Bytes) -> Result<Self> {
        let file: &[u8] = (*bytes).as_ref();
        let header = Header::read(file)?;
        let root = verify(file.get(..header.program).unwrap_or(file), &PROGRAM)?;
        match root.get::<u32>(f::version).unwrap_or(0) {
            0 => {}
            v => return Err(Error::unsupported(format!("the file has version {v}; this lowtide reads version 0"))),
        }
        let tables = Tables { file: file.len(), root, segments: segments(root, &header, file.len())? };
        let named = tables.named()?;
        within(root.len(f::execution_plan), MAX_METHODS, "methods")?;
        let mut methods: Vec<Method> = Vec::new();
        for plan in root.nodes(f::execution_plan) {
            let name = plan.text(facts::execution_plan::name).unwrap_or_default().to_owned();
            if methods.iter().any(|m| m.name == name) {
                return Err(Error::malformed(format!("two methods are named {name:?}")));
            }
            let place = format!("method {name:?}");
            methods.push(tables.method(plan, name).map_err(|e| e.at(place))?);
        }
        let payloads = methods.iter().flat_map(|m| &m.delegates).fold(0usize, |n, d| n.saturating_add(d.payload.len()));
        if payloads > file.len().saturating_mul(MAX_PAYLOAD_RATIO) {
            return Err(Error::limit("the methods refer to the same payloads too often"));
        }
        Ok(Self { bytes, methods, named })
    }

    /// The file's bytes.
    pub fn data(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    /// The method called `name`.
    ///
    /// # Errors
    /// `Input` when there is none; the message lists those that exist.
    pub fn method(&self, name: &str) -> Result<&Method> {
        self.methods.iter().find(|m| m.name == name).ok_or_else(|| {
            let all: Vec<&str> = self.methods.iter().map(|m| m.name.as_str()).collect();
            Error::new(ErrorKind::Input, format!("there is no method {name:?}; the file has {all:?}"))
        })
    }
}

fn within(count: usize, most: usize, what: &str) -> Result<()> {
    if count > most {
        return Err(Error::limit(format!("{count} {what}; the limit is {most}")));
    }
    Ok(())
}

/// The bytes before the root table.
struct Header {
    /// Bytes of the flatbuffer.
    program: usize,
    /// Where segments start, and how far they may reach. `None` in a file without segments.
    segments: Option<Range<usize>>,
}

impl Header {
    fn read(file: &[u8]) -> Result<Self> {
        let word = |at: usize| file.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        let magic = file.get(4..8).ok_or_else(|| Error::malformed(format!("{} bytes are no program", file.len())))?;
        if magic != b"ET12" {
            return Err(Error::malformed("the file does not start as an ExecuTorch program (ET12)"));
        }
        if file.get(8..12) != Some(b"eh00") {
            return Ok(Self { program: file.len(), segments: None });
        }
        let short = || Error::malformed(format!("the header ends at byte {} of the file", file.len()));
        let length = file.get(12..16).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes).ok_or_else(short)?;
        if length < 24 {
            return Err(Error::malformed(format!("the extended header has {length} bytes; 24 is the least")));
        }
        let (program, base) = (word(16).ok_or_else(short)?, word(24).ok_or_else(short)?);
        let within = |n: u64, what: &str| {
            usize::try_from(n)
                .ok()
                .filter(|&n| n <= file.len())
                .ok_or_else(|| Error::malformed(format!("{what} at byte {n}, but the file has {} bytes", file.len())))
        };
        let program = within(program, "the program ends")?;
        if base == 0 {
            return Ok(Self { program, segments: None });
        }
        let start = within(base, "the segments start")?;
        // The longer header also says how long the segments are in all.
        let end = match length {
            32.. => match word(32).ok_or_else(short)? {
                0 => file.len(),
                size => within(base.saturating_add(size), "the segments end")?,
            },
            _ => file.len(),
        };
        Ok(Self { program, segments: Some(start..end) })
    }
}

/// Where each segment is in the file.
fn segments(root: Node<'_>, header: &Header, file: usize) -> Result<Vec<Range<usize>>> {
    use facts::data_segment as d;
    within(root.len(f::segments), MAX_NAMED_DATA, "segments")?;
    let area = header.segments.clone().unwrap_or(file..file);
    let one = |(i, node): (usize, Node<'_>)| {
        let (offset, size): (u64, u64) = (node.get(d::offset).unwrap_or(0), node.get(d::size).unwrap_or(0));
        let range = (|| {
            let start = area.start.checked_add(usize::try_from(offset).ok()?)?;
            Some(start..start.checked_add(usize::try_from(size).ok()?)?)
        })();
        range.filter(|r| r.end <= area.end).ok_or_else(|| {
            Error::malformed(format!(
                "segment {i} has {size} bytes at offset {offset}; the file has {} bytes for segments",
                area.len()
            ))
        })
    };
    root.nodes(f::segments).enumerate().map(one).collect()
}

/// The program's root and what methods refer to.
struct Tables<'a> {
    file: usize,
    root: Node<'a>,
    segments: Vec<Range<usize>>,
}

impl<'a> Tables<'a> {
    fn segment(&self, index: usize) -> Result<Range<usize>> {
        self.segments.get(index).cloned().ok_or_else(|| {
            Error::malformed(format!("segment {index} is out of range ({} segments)", self.segments.len()))
        })
    }

    fn named(&self) -> Result<HashMap<String, Range<usize>>> {
        use facts::named_data as n;
        within(self.root.len(f::named_data), MAX_NAMED_DATA, "entries of named data")?;
        let mut named = HashMap::new();
        for node in self.root.nodes(f::named_data) {
            let key = node.text(n::key).ok_or_else(|| Error::malformed("an entry of named data has no key"))?;
            within(key.len(), MAX_STRING, "bytes in a key")?;
            let index: u32 = node.get(n::segment_index).unwrap_or(0);
            let range = self.segment(index as usize).map_err(|e| e.at(format!("named data {key:?}")))?;
            if named.insert(key.to_owned(), range).is_some() {
                return Err(Error::malformed(format!("two entries of named data have the key {key:?}")));
            }
        }
        Ok(named)
    }

    fn method(&self, plan: Node<'a>, name: String) -> Result<Method> {
        use facts::execution_plan as p;
        within(plan.len(p::values), MAX_PLAN_VALUES, "values")?;
        let values = plan
            .nodes(p::values)
            .enumerate()
            .map(|(i, v)| self.value(v).map_err(|e| e.at(format!("value {i}"))))
            .collect::<Result<Vec<_>>>()?;
        for (i, value) in values.iter().enumerate() {
            if let PlanValue::Tensors(list) = value
                && let Some(bad) =
                    list.iter().flatten().find(|&&v| !matches!(values.get(v), Some(PlanValue::Tensor(_))))
            {
                return Err(Error::malformed(format!("value {bad} is not a tensor")).at(format!("value {i}")));
            }
        }
        let mut delegates = Vec::new();
        for (i, node) in plan.nodes(p::delegates).enumerate() {
            delegates.push(self.delegate(node).map_err(|e| e.at(format!("delegate {i}")))?);
        }
        let inputs = indices(plan, p::inputs, values.len()).map_err(|e| e.at("inputs"))?;
        let outputs = indices(plan, p::outputs, values.len()).map_err(|e| e.at("outputs"))?;
        let mut chains = plan.nodes(p::chains).filter(|c| c.len(facts::plan_chain::instructions) > 0);
        let mut calls = Vec::new();
        if let Some(chain) = chains.next() {
            let count = chain.len(facts::plan_chain::instructions);
            within(count, MAX_PLAN_VALUES, "calls")?;
            let scope = Scope { plan, values: &values, delegates: delegates.len(), calls: count };
            for (i, node) in chain.nodes(facts::plan_chain::instructions).enumerate() {
                calls.push(scope.call(node, i).map_err(|e| e.at(format!("call {i}")))?);
            }
        }
        if chains.next().is_some() {
            return Err(Error::unsupported("the method has more than one chain of calls"));
        }
        Ok(Method { name, values, inputs, outputs, calls, delegates })
    }

    fn delegate(&self, node: Node<'a>) -> Result<Delegate> {
        use facts::{backend_delegate as b, data_reference as d, inline_data};
        let id = node.text(b::id).unwrap_or_default();
        if id != BACKEND {
            return Err(Error::unsupported(format!("the program is lowered for {id:?}; lowtide runs {BACKEND:?}")));
        }
        let data = node.node(b::processed).ok_or_else(|| Error::malformed("the delegate has no payload"))?;
        let index = data.get::<u32>(d::index).unwrap_or(0) as usize;
        let payload = match data.get::<u8>(d::location).unwrap_or(0) {
            0 => {
                let inline = self.root.node_at(f::backend_delegate_data, index);
                inline.and_then(|n| n.bytes(inline_data::data)).ok_or_else(|| {
                    let count = self.root.len(f::backend_delegate_data);
                    Error::malformed(format!("inline payload {index} is out of range ({count} payloads)"))
                })?
            }
            1 => self.segment(index)?,
            other => return Err(Error::malformed(format!("unknown payload location {other}"))),
        };
        Ok(Delegate { id: id.to_owned(), payload })
    }

    fn value(&self, node: Node<'a>) -> Result<PlanValue> {
        use facts::{evalue, int, int_list};
        let tag = node.get::<u8>(evalue::val_type).unwrap_or(0);
        if tag <= 1 {
            return Ok(PlanValue::None);
        }
        // The table of a union follows its tag. Tables of lists and of single values have one field each.
        let table =
            node.node(evalue::val_type + 1).ok_or_else(|| Error::malformed("the value has a tag and no table"))?;
        let (one, items) = (int::int_val, int_list::items);
        within(table.len(if tag >= 7 { items } else { u8::MAX }), MAX_LIST, "elements")?;
        Ok(match tag {
            2 => PlanValue::Int(table.get(one).unwrap_or(0)),
            3 => PlanValue::Bool(table.flag(one)),
            4 => PlanValue::Double(table.get(one).unwrap_or(0.0)),
            5 => PlanValue::Tensor(self.tensor(table)?),
            6 => PlanValue::Text(table.text(one).unwrap_or_default().to_owned()),
            7 => PlanValue::Ints(table.list(items).collect()),
            8 => PlanValue::Doubles(table.list(items).collect()),
            9 => PlanValue::Bools(table.list::<u8>(items).map(|b| b != 0).collect()),
            10 | 11 => PlanValue::Tensors(
                table
                    .list::<i32>(items)
                    .map(|i| match i {
                        -1 if tag == 11 => Ok(None),
                        i => usize::try_from(i)
                            .map(Some)
                            .map_err(|_| Error::malformed(format!("value {i} is out of range"))),
                    })
                    .collect::<Result<_>>()?,
            ),
            other => return Err(Error::malformed(format!("unknown kind of value {other}"))),
        })
    }

    fn tensor(&self, node: Node<'a>) -> Result<TensorSpec> {
        use facts::{extra, tensor as t};
        let dtype = super::load::dtype(node.get(t::scalar_type).unwrap_or(0))?;
        let rank = node.len(t::sizes);
        within(rank, MAX_RANK, "dimensions")?;
        if !node.list::<u8>(t::dim_order).enumerate().all(|(i, d)| i == usize::from(d)) {
            return Err(Error::unsupported("the tensor's dimensions are not stored in row-major order"));
        }
        let dynamism = node.get::<u8>(t::shape_dynamism).unwrap_or(0);
        let dim = |size: i32| {
            let size = u32::try_from(size).map_err(|_| Error::malformed(format!("a dimension of size {size}")))?;
            match dynamism {
                0 => Ok(DimBound::fixed(size)),
                1 => Ok(DimBound { min: 0, max: Some(size) }),
                2 => Ok(DimBound { min: 0, max: None }),
                other => Err(Error::malformed(format!("unknown shape dynamism {other}"))),
            }
        };
        let dims = node.list::<i32>(t::sizes).map(dim).collect::<Result<Vec<_>>>()?;
        let bytes = largest(dtype, &dims)?;
        if let Some(info) = node.node(t::extra_tensor_info) {
            if info.get::<u8>(extra::location).unwrap_or(0) != 0 {
                return Err(Error::unsupported("the tensor's data is in another file"));
            }
            if info.get::<u64>(extra::mutable_data_segments_idx).unwrap_or(0) != 0 {
                return Err(Error::unsupported("the tensor is state with initial values in a mutable segment"));
            }
            if info.get::<u8>(extra::device_type).unwrap_or(0) != 0 {
                return Err(Error::unsupported("the tensor lives on another device"));
            }
        }
        let index = node.get::<u32>(t::data_buffer_idx).unwrap_or(0) as usize;
        let data = match index {
            0 => None,
            _ if node.has(t::allocation_info) => {
                return Err(Error::unsupported("the tensor is state with initial values"));
            }
            _ => Some(self.constant(index, dynamism, bytes).map_err(|e| e.at("its data"))?),
        };
        if data.is_some() && node.get::<i32>(t::storage_offset).unwrap_or(0) != 0 {
            return Err(Error::unsupported("the tensor starts inside its storage"));
        }
        Ok(TensorSpec { dtype, dims, data })
    }

    /// The bytes of constant number `index`, of which a tensor needs `bytes`.
    fn constant(&self, index: usize, dynamism: u8, bytes: u64) -> Result<Range<usize>> {
        use facts::{buffer, subsegment_offsets as s};
        if dynamism != 0 {
            return Err(Error::unsupported("a constant has a dynamic shape"));
        }
        let missing = || Error::malformed(format!("constant {index} is out of range"));
        let table = self.root.node(f::constant_segment).filter(|n| n.len(s::offsets) > 0);
        let stored = match table {
            Some(table) => {
                let segment = self.segment(table.get::<u32>(s::segment_index).unwrap_or(0) as usize)?;
                let offset = table.number_at::<u64>(s::offsets, index).ok_or_else(missing)?;
                let start = usize::try_from(offset).ok().and_then(|o| segment.start.checked_add(o));
                start.filter(|&s| s <= segment.end).ok_or_else(missing)?..segment.end
            }
            None => {
                let node = self.root.node_at(f::constant_buffer, index).ok_or_else(missing)?;
                node.bytes(buffer::storage).unwrap_or(0..0)
            }
        };
        let end = usize::try_from(bytes).ok().and_then(|n| stored.start.checked_add(n));
        let end = end.filter(|&end| end <= stored.end && end <= self.file).ok_or_else(|| {
            Error::malformed(format!("the tensor needs {bytes} bytes and {} are stored", stored.len()))
        })?;
        Ok(stored.start..end)
    }
}

/// Bytes of a tensor at its upper bounds; unbounded dimensions count as one.
fn largest(dtype: DType, dims: &[DimBound]) -> Result<u64> {
    let mut sizes = dims.iter().map(|d| u64::from(d.max.unwrap_or(1)));
    sizes.try_fold(dtype.size() as u64, |n, d| n.checked_mul(d)).filter(|&n| n <= MAX_TENSOR_BYTES).ok_or_else(|| {
        let dims: Vec<_> = dims.iter().map(|d| d.max).collect();
        Error::limit(format!("a tensor of {dims:?} elements of {dtype} has more than {MAX_TENSOR_BYTES} bytes"))
    })
}

fn index(i: i32, count: usize, what: &str) -> Result<usize> {
    usize::try_from(i)
        .ok()
        .filter(|&i| i < count)
        .ok_or_else(|| Error::malformed(format!("{what} {i} is out of range ({count} {what}s)")))
}

fn indices(node: Node<'_>, slot: u8, values: usize) -> Result<Vec<usize>> {
    within(node.len(slot), MAX_LIST, "values")?;
    node.list(slot).map(|i| index(i, values, "value")).collect()
}

/// What the calls of a method may refer to.
struct Scope<'a, 'm> {
    plan: Node<'a>,
    values: &'m [PlanValue],
    delegates: usize,
    calls: usize,
}

impl Scope<'_, '_> {
    fn call(&self, node: Node<'_>, at: usize) -> Result<MethodCall> {
        use facts::{call, delegate_call as d, free_call, jump_false_call as j, kernel_call as k, move_call as m};
        let tag = node.get::<u8>(call::instr_args_type).unwrap_or(0);
        let table = node.node(call::instr_args_type + 1).ok_or_else(|| Error::malformed("the call has no fields"))?;
        let number = |slot: u8| table.get::<i32>(slot).unwrap_or(0);
        let value = |slot: u8| index(number(slot), self.values.len(), "value");
        Ok(match tag {
            1 => {
                let args = indices(table, k::args, self.values.len())?;
                MethodCall::Kernel { op: self.operator(number(k::op_index), &args)?, args }
            }
            2 => MethodCall::Delegate {
                delegate: index(number(d::delegate_index), self.delegates, "delegate")?,
                args: indices(table, d::args, self.values.len())?,
            },
            3 => MethodCall::Move { from: value(m::move_from)?, to: value(m::move_to)? },
            4 => {
                let if_false = value(j::cond_value_index)?;
                if !matches!(self.values[if_false], PlanValue::Bool(_)) {
                    return Err(Error::malformed(format!("value {if_false} is not a bool")));
                }
                let to = index(number(j::destination_instruction), self.calls + 1, "call")?;
                if to <= at {
                    return Err(Error::unsupported(format!("call {at} jumps back to call {to}")));
                }
                MethodCall::Jump { if_false, to }
            }
            5 => MethodCall::Free(value(free_call::value_index)?),
            other => return Err(Error::malformed(format!("unknown kind of call {other}"))),
        })
    }

    /// The operator of a call, whose arguments must be of the kinds that it takes.
    fn operator(&self, number: i32, args: &[usize]) -> Result<KernelOp> {
        use facts::{execution_plan as p, operator as o};
        let count = self.plan.len(p::operators);
        let node = self.plan.node_at(p::operators, index(number, count, "operator")?);
        let node = node.ok_or_else(|| Error::malformed("the operator cannot be read"))?;
        let (name, overload) = (node.text(o::name).unwrap_or_default(), node.text(o::overload).unwrap_or_default());
        let (op, tensors, least) = match (name, overload) {
            ("aten::copy_", "") => (KernelOp::Copy, &[0, 1][..], 2),
            ("aten::gather", "out") => (KernelOp::Gather, &[0, 2, 4][..], 5),
            _ => {
                let dot = if overload.is_empty() { "" } else { "." };
                return Err(Error::unsupported(format!("operator {name}{dot}{overload} outside the delegate")));
            }
        };
        let tensor = |i: &usize| matches!(self.values[args[*i]], PlanValue::Tensor(_));
        let dim = op != KernelOp::Gather || args.len() < least || matches!(self.values[args[1]], PlanValue::Int(_));
        if args.len() < least || !tensors.iter().all(tensor) || !dim {
            return Err(Error::malformed(format!("{name} is called with the wrong arguments")));
        }
        Ok(op)
    }
}
