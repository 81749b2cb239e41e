//! Tables to bytes: the inverse of [`load`](super::load) and [`pte`](super::pte). A graph or container that was
//! written and read again equals itself.

use std::collections::HashMap;
use std::ops::Range;

use flatbuffers::{FlatBufferBuilder, Push, UnionWIPOffset, WIPOffset};

use super::pte::{BACKEND, Container, KernelOp, Method, MethodCall, PlanValue, TensorSpec};
use super::{DimBound, Graph, Operand, Port, facts};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Field, FieldKind, Need};
use crate::table::{Chain, Id, Inst, Slot};

type Offset = WIPOffset<UnionWIPOffset>;

/// A field of a table that is being written.
#[derive(Clone, Copy)]
enum Put {
    U8(u8),
    U32(u32),
    U64(u64),
    At(Offset),
}

impl Put {
    fn i32(v: i32) -> Self {
        Self::U32(v as u32)
    }
    fn index(i: usize) -> Result<Self> {
        Ok(Self::U32(u32::try_from(i).map_err(|_| Error::limit(format!("{i} does not fit 32 bits")))?))
    }
}

/// Writes tables by slot.
#[derive(Default)]
struct Writer {
    to: FlatBufferBuilder<'static>,
}

impl Writer {
    fn table(&mut self, fields: &[(u8, Put)]) -> Offset {
        let start = self.to.start_table();
        for &(slot, put) in fields {
            let at = 4 + 2 * u16::from(slot);
            match put {
                Put::U8(v) => self.to.push_slot_always(at, v),
                Put::U32(v) => self.to.push_slot_always(at, v),
                Put::U64(v) => self.to.push_slot_always(at, v),
                Put::At(v) => self.to.push_slot_always(at, v),
            }
        }
        erase(self.to.end_table(start))
    }
    fn text(&mut self, text: &str) -> Put {
        Put::At(erase(self.to.create_string(text)))
    }
    fn list<T: Push<Output: 'static>>(&mut self, items: &[T]) -> Put {
        Put::At(erase(self.to.create_vector(items)))
    }
    fn tables(&mut self, items: &[Offset]) -> Put {
        self.list(items)
    }
    /// The flatbuffer with `root` at its root.
    fn finish(mut self, root: Offset, identifier: Option<&str>) -> Vec<u8> {
        self.to.finish(root, identifier);
        self.to.finished_data().to_vec()
    }
}

/// The offset of anything as that of a union's table; flatbuffers keep no types.
fn erase<T>(offset: WIPOffset<T>) -> Offset {
    WIPOffset::new(offset.value())
}

/// Writes a delegate payload. Ids are written as they are, sound or not.
///
/// # Errors
/// When an operand does not fit its field's wire type, or a described slot follows one that is not.
pub fn payload(graph: &Graph) -> Result<Vec<u8>> {
    use facts::graph as f;
    let mut w = Writer::default();
    let mut fields = vec![(f::version, w.text("1")), (f::num_values, Put::U32(graph.values))];
    let counts = [
        f::num_constant_tensors,
        f::num_input_tensors,
        f::num_output_tensors,
        f::num_mutable_buffer_tensors,
        f::num_temp_tensors,
    ];
    for (home, slot) in counts.into_iter().enumerate() {
        let first = &graph.tensors.first;
        fields.push((slot, Put::U32(first[home + 1].wrapping_sub(first[home]))));
    }
    let mut chains = Vec::with_capacity(graph.chains.rows());
    for c in (0..graph.chains.rows()).map(Chain::new) {
        let insts = graph.chains[c].iter().map(|&i| instruction(&mut w, graph, i)).collect::<Result<Vec<_>>>()?;
        let insts = w.tables(&insts);
        chains.push(w.table(&[(facts::instruction_chain::instructions, insts)]));
    }
    fields.push((f::instruction_chains, w.tables(&chains)));
    fields.push((f::main_chain_idx, Put::U32(graph.main.0)));
    fields.push((f::init_chain_idx, Put::U32(graph.init.map_or(u32::MAX, |c| c.0))));
    for (slot, ports) in [(f::input_map, &graph.inputs), (f::output_map, &graph.outputs)] {
        let ports: Vec<Offset> = ports.iter().map(|&p| port(&mut w, p)).collect();
        fields.push((slot, w.tables(&ports)));
    }
    let mutable: Vec<Offset> = graph.mutable.iter().map(|&t| port(&mut w, Port::Tensor(t))).collect();
    fields.push((f::mutable_buffer_map, w.tables(&mutable)));
    let mut named = Vec::new();
    for (slot, name) in graph.tensors.name.iter().filter(|(_, name)| !name.is_empty()) {
        use facts::named_slot as n;
        let variant = port(&mut w, Port::Tensor(slot));
        let name = w.text(name);
        named.push(w.table(&[(n::name, name), (n::slot, Put::At(variant))]));
    }
    fields.push((f::named_slots, w.tables(&named)));
    let metas = metas(&mut w, graph)?;
    fields.push((f::tensor_meta, w.tables(&metas)));
    let root = w.table(&fields);
    let body = w.finish(root, None);

    let mut out = vec![0; 4];
    out.extend(b"MLX0");
    out.extend((24 + body.len() as u64).to_le_bytes());
    out.extend(0u64.to_le_bytes());
    out.extend(body);
    Ok(out)
}

fn port(w: &mut Writer, port: Port) -> Offset {
    use facts::slot_variant as f;
    let (index, kind) = match port {
        Port::Tensor(t) => (t.0, 0),
        Port::Int(v) => (v.0, 1),
        Port::Float(v) => (v.0, 2),
        Port::Bool(v) => (v.0, 3),
    };
    w.table(&[(f::idx, Put::U32(index)), (f::slot_type, Put::U8(kind))])
}

/// The descriptions of slots, up to the last that has one.
fn metas(w: &mut Writer, graph: &Graph) -> Result<Vec<Offset>> {
    use facts::{shape_dim as d, tensor_meta as m};
    let tensors = &graph.tensors;
    let described = tensors.dtype.as_slice().iter().rposition(Option::is_some).map_or(0, |i| i + 1);
    let mut metas = Vec::with_capacity(described);
    for slot in (0..described).map(Slot::new) {
        let here = |e: Error| e.at(format!("meta of {slot}"));
        let dtype = tensors.dtype[slot]
            .ok_or_else(|| here(Error::malformed("it has no element type, and later slots have")))?;
        let size =
            |n: u32| i32::try_from(n).map(Put::i32).map_err(|_| here(Error::limit(format!("a dimension of size {n}"))));
        let mut dims = Vec::new();
        for dim in &tensors.dims[slot] {
            let fields = match dim.max {
                Some(max) if max == dim.min => vec![(d::value, size(max)?)],
                max => vec![
                    (d::value, Put::i32(-1)),
                    (d::min_value, size(dim.min)?),
                    (d::max_value, max.map_or(Ok(Put::i32(-1)), size)?),
                ],
            };
            dims.push(w.table(&fields));
        }
        let order: Vec<u8> = (0..dims.len()).map(|i| i as u8).collect();
        let (dims, order) = (w.tables(&dims), w.list(&order));
        let dtype = Put::U8(dtype.scalar_type() as u8);
        metas.push(w.table(&[(m::shape, dims), (m::scalar_type, dtype), (m::dim_order, order)]));
    }
    Ok(metas)
}

fn instruction(w: &mut Writer, graph: &Graph, inst: Inst) -> Result<Offset> {
    use facts::instruction as f;
    let op = graph.insts.op[inst];
    let mut fields = Vec::new();
    for (i, row) in op.row().fields.iter().enumerate() {
        let here = |e: Error| e.at(format!("field {}", row.name)).at(format!("{inst} {op}"));
        let operands: Vec<Operand> = graph.operands(inst, Field(i as u8)).map(|at| graph.scalars.at(at)).collect();
        // A list that is required and empty is there; a field without operands is not.
        let list = matches!(
            row.kind,
            FieldKind::Tids | FieldKind::I32s | FieldKind::I8s | FieldKind::Strs | FieldKind::IntsOrVids
        );
        if operands.is_empty() && !(list && row.need == Need::Required) {
            continue;
        }
        let put = field(w, graph, row.kind, &operands).map_err(here)?;
        fields.push((i as u8, put));
    }
    let node = w.table(&fields);
    Ok(w.table(&[(f::op_type, Put::U8(op.tag())), (f::op_type + 1, Put::At(node))]))
}

fn field(w: &mut Writer, graph: &Graph, kind: FieldKind, operands: &[Operand]) -> Result<Put> {
    let wrong = |o: Operand| Error::malformed(format!("{o:?} does not fit a field of kind {kind:?}"));
    let slot = |o: Operand| if let Operand::Tensor(t) = o { Ok(t.0) } else { Err(wrong(o)) };
    let int = |o: Operand| if let Operand::Int(v) = o { Ok(v) } else { Err(wrong(o)) };
    let text = |o: Operand| match o {
        Operand::Text(i) => graph.strings.get(i as usize).map(String::as_str).ok_or_else(|| wrong(o)),
        _ => Err(wrong(o)),
    };
    let i32 = |o: Operand| i32::try_from(int(o)?).map_err(|_| wrong(o));
    let i8 = |o: Operand| i8::try_from(int(o)?).map_err(|_| wrong(o));
    let one = || operands.first().copied().ok_or_else(|| Error::malformed("the field has no operand"));
    Ok(match kind {
        FieldKind::Tids => w.list(&operands.iter().map(|&o| slot(o)).collect::<Result<Vec<u32>>>()?),
        FieldKind::I32s => w.list(&operands.iter().map(|&o| i32(o)).collect::<Result<Vec<_>>>()?),
        FieldKind::I8s => w.list(&operands.iter().map(|&o| i8(o)).collect::<Result<Vec<_>>>()?),
        FieldKind::Strs => {
            let mut items = Vec::new();
            for &o in operands {
                items.push(erase(w.to.create_string(text(o)?)));
            }
            w.tables(&items)
        }
        FieldKind::IntsOrVids => {
            let items = operands.iter().map(|&o| tagged(w, FieldKind::IntOrVid, o)).collect::<Result<Vec<_>>>()?;
            w.tables(&items)
        }
        FieldKind::Tid => Put::U32(slot(one()?)?),
        FieldKind::Vid => match one()? {
            Operand::Value(v) => Put::U32(v.0),
            o => return Err(wrong(o)),
        },
        FieldKind::I8 => Put::U8(i8(one()?)? as u8),
        FieldKind::Bool => Put::U8(u8::from(int(one()?)? != 0)),
        FieldKind::I32 => Put::i32(i32(one()?)?),
        FieldKind::U32 => Put::U32(u32::try_from(int(one()?)?).map_err(|_| Error::malformed("not 32 bits"))?),
        FieldKind::U64 => Put::U64(u64::try_from(int(one()?)?).map_err(|_| Error::malformed("negative"))?),
        FieldKind::F32 => match one()? {
            Operand::Float(v) => Put::U32((v as f32).to_bits()),
            o => return Err(wrong(o)),
        },
        FieldKind::Str => w.text(text(one()?)?),
        FieldKind::IntOrVid | FieldKind::FloatOrVid | FieldKind::VidOrTid | FieldKind::IntOrVidOrTid => {
            Put::At(tagged(w, kind, one()?)?)
        }
    })
}

/// A table that holds a literal, a value or a tensor.
fn tagged(w: &mut Writer, kind: FieldKind, operand: Operand) -> Result<Offset> {
    use facts::{int_or_vid as i, int_or_vid_or_tid as t, vid_or_tid as v};
    let fields: &[(u8, Put)] = match (kind, operand) {
        (FieldKind::IntOrVid, Operand::Int(n)) => &[(i::literal, Put::U64(n as u64))],
        (FieldKind::FloatOrVid, Operand::Float(n)) => &[(i::literal, Put::U64(n.to_bits()))],
        (FieldKind::IntOrVid | FieldKind::FloatOrVid, Operand::Value(n)) => {
            &[(i::vid, Put::U32(n.0)), (i::is_vid, Put::U8(1))]
        }
        (FieldKind::VidOrTid, Operand::Value(n)) => &[(v::vid, Put::U32(n.0)), (v::is_vid, Put::U8(1))],
        (FieldKind::VidOrTid, Operand::Tensor(n)) => &[(v::tid, Put::U32(n.0))],
        (FieldKind::IntOrVidOrTid, Operand::Int(n)) => &[(t::literal, Put::U64(n as u64))],
        (FieldKind::IntOrVidOrTid, Operand::Value(n)) => &[(t::vid, Put::U32(n.0)), (t::kind, Put::U8(1))],
        (FieldKind::IntOrVidOrTid, Operand::Tensor(n)) => &[(t::tid, Put::U32(n.0)), (t::kind, Put::U8(2))],
        (kind, o) => return Err(Error::malformed(format!("{o:?} does not fit a field of kind {kind:?}"))),
    };
    Ok(w.table(fields))
}

/// Segments start on multiples of this, as ExecuTorch writes them.
const SEGMENT: usize = 128;
/// Constants inside their segment start on multiples of this.
const CONSTANT: usize = 16;
/// Bytes of the extended header.
const HEADER: usize = 32;

/// The segments of a file that is being written.
#[derive(Default)]
struct Segments<'a> {
    parts: Vec<std::borrow::Cow<'a, [u8]>>,
    /// Segments of ranges already written; equal ranges share one.
    known: HashMap<Range<usize>, usize>,
}

impl<'a> Segments<'a> {
    fn of(&mut self, file: &'a [u8], range: &Range<usize>) -> Result<usize> {
        if let Some(&i) = self.known.get(range) {
            return Ok(i);
        }
        let bytes = file.get(range.clone()).ok_or_else(|| Error::malformed(format!("no bytes {range:?}")))?;
        self.known.insert(range.clone(), self.parts.len());
        self.parts.push(bytes.into());
        Ok(self.parts.len() - 1)
    }
}

/// Writes a `.pte` file. Ranges of the container refer to its bytes, as after [`Container::parse`]. A tensor with any
/// dimension that is not fixed is written as bounded, and so are all its dimensions.
///
/// # Errors
/// When a range lies outside the bytes, or a number does not fit its wire type.
pub fn container(container: &Container) -> Result<Vec<u8>> {
    use facts::{named_data as n, program as f, subsegment_offsets as s};
    let file = container.data();
    let mut w = Writer::default();
    let mut segments = Segments::default();
    let mut constants = Constants { file, bytes: Vec::new(), offsets: vec![0], known: HashMap::new() };
    let mut plans = Vec::new();
    for method in &container.methods {
        let plan = plan(&mut w, &mut segments, &mut constants, method);
        plans.push(plan.map_err(|e| e.at(format!("method {:?}", method.name)))?);
    }
    let mut keys: Vec<_> = container.named.iter().collect();
    keys.sort_unstable_by_key(|(key, range)| (range.start, key.as_str()));
    let mut named = Vec::new();
    for (key, range) in keys {
        let index = Put::index(segments.of(file, range)?)?;
        let key = w.text(key);
        named.push(w.table(&[(n::key, key), (n::segment_index, index)]));
    }
    let mut fields =
        vec![(f::version, Put::U32(0)), (f::execution_plan, w.tables(&plans)), (f::named_data, w.tables(&named))];
    if constants.offsets.len() > 1 {
        let offsets = w.list(&constants.offsets);
        let index = Put::index(segments.parts.len())?;
        segments.parts.push(constants.bytes.into());
        fields.push((f::constant_segment, Put::At(w.table(&[(s::segment_index, index), (s::offsets, offsets)]))));
    }
    let mut end = 0usize;
    let mut rows = Vec::new();
    for part in &segments.parts {
        use facts::data_segment as d;
        let start = end.next_multiple_of(SEGMENT);
        rows.push(w.table(&[(d::offset, Put::U64(start as u64)), (d::size, Put::U64(part.len() as u64))]));
        end = start + part.len();
    }
    fields.push((f::segments, w.tables(&rows)));
    let root = w.table(&fields);
    let program = w.finish(root, Some("ET12"));
    Ok(assemble(&program, &segments, end))
}

/// Puts the extended header and the segments around the flatbuffer.
fn assemble(program: &[u8], segments: &Segments<'_>, end: usize) -> Vec<u8> {
    // The header goes between the identifier and the tables, whose offsets are relative: only the root moves.
    let (root, rest) = program.split_at(4);
    let root = root.try_into().map_or(0, u32::from_le_bytes) + HEADER as u32;
    let length = program.len() + HEADER;
    let base = length.next_multiple_of(SEGMENT);
    let mut out = Vec::with_capacity(base + end);
    out.extend(root.to_le_bytes());
    out.extend(&rest[..4]);
    out.extend(b"eh00");
    out.extend((HEADER as u32).to_le_bytes());
    for word in [length, base, end] {
        out.extend((word as u64).to_le_bytes());
    }
    out.extend(&rest[4..]);
    for part in &segments.parts {
        out.resize(out.len().max(base).next_multiple_of(SEGMENT), 0);
        out.extend(&**part);
    }
    out
}

/// The constants of plans, which share one segment.
struct Constants<'a> {
    file: &'a [u8],
    bytes: Vec<u8>,
    offsets: Vec<u64>,
    known: HashMap<Range<usize>, usize>,
}

impl Constants<'_> {
    fn of(&mut self, range: &Range<usize>) -> Result<usize> {
        if let Some(&i) = self.known.get(range) {
            return Ok(i);
        }
        let bytes = self.file.get(range.clone()).ok_or_else(|| Error::malformed(format!("no bytes {range:?}")))?;
        self.bytes.resize(self.bytes.len().next_multiple_of(CONSTANT), 0);
        self.known.insert(range.clone(), self.offsets.len());
        self.offsets.push(self.bytes.len() as u64);
        self.bytes.extend(bytes);
        Ok(self.offsets.len() - 1)
    }
}

fn plan<'a>(
    w: &mut Writer,
    segments: &mut Segments<'a>,
    constants: &mut Constants<'a>,
    method: &Method,
) -> Result<Offset> {
    use facts::{backend_delegate as b, data_reference as d, execution_plan as p, operator as o};
    let mut arena = 0u64;
    let mut values = Vec::new();
    for v in &method.values {
        values.push(value(w, constants, v, &mut arena)?);
    }
    let ops: Vec<KernelOp> = {
        let mut ops = Vec::new();
        for call in &method.calls {
            if let MethodCall::Kernel { op, .. } = call
                && !ops.contains(op)
            {
                ops.push(*op);
            }
        }
        ops
    };
    let calls = method.calls.iter().map(|c| call(w, c, &ops)).collect::<Result<Vec<_>>>()?;
    let mut operators = Vec::new();
    for op in ops {
        let (name, overload) = match op {
            KernelOp::Copy => ("aten::copy_", ""),
            KernelOp::Gather => ("aten::gather", "out"),
        };
        let (name, overload) = (w.text(name), w.text(overload));
        operators.push(w.table(&[(o::name, name), (o::overload, overload)]));
    }
    let mut delegates = Vec::new();
    for delegate in &method.delegates {
        debug_assert_eq!(delegate.id, BACKEND);
        let index = Put::index(segments.of(constants.file, &delegate.payload)?)?;
        let (id, data) = (w.text(&delegate.id), w.table(&[(d::location, Put::U8(1)), (d::index, index)]));
        delegates.push(w.table(&[(b::id, id), (b::processed, Put::At(data))]));
    }
    let (inputs, outputs) = (indices(w, &method.inputs)?, indices(w, &method.outputs)?);
    let calls = w.tables(&calls);
    let chain = w.table(&[(0, inputs), (1, outputs), (facts::plan_chain::instructions, calls)]);
    let name = w.text(&method.name);
    let fields = [
        (p::name, name),
        (p::values, w.tables(&values)),
        (p::inputs, inputs),
        (p::outputs, outputs),
        (p::chains, w.tables(&[chain])),
        (p::operators, w.tables(&operators)),
        (p::delegates, w.tables(&delegates)),
        // Sizes of planned buffers; the first is reserved.
        (8, w.list(&[0, arena])),
    ];
    Ok(w.table(&fields))
}

fn indices(w: &mut Writer, items: &[usize]) -> Result<Put> {
    let index = |&i: &usize| i32::try_from(i).map_err(|_| Error::limit(format!("index {i}")));
    let items = items.iter().map(index).collect::<Result<Vec<i32>>>()?;
    Ok(w.list(&items))
}

fn call(w: &mut Writer, call: &MethodCall, ops: &[KernelOp]) -> Result<Offset> {
    use facts::{delegate_call as d, free_call, jump_false_call as j, kernel_call as k, move_call as m};
    let (tag, fields) = match call {
        MethodCall::Kernel { op, args } => {
            let index = Put::index(ops.iter().position(|o| o == op).unwrap_or(0))?;
            (1, vec![(k::op_index, index), (k::args, indices(w, args)?)])
        }
        MethodCall::Delegate { delegate, args } => {
            (2, vec![(d::delegate_index, Put::index(*delegate)?), (d::args, indices(w, args)?)])
        }
        MethodCall::Move { from, to } => (3, vec![(m::move_from, Put::index(*from)?), (m::move_to, Put::index(*to)?)]),
        MethodCall::Jump { if_false, to } => {
            (4, vec![(j::cond_value_index, Put::index(*if_false)?), (j::destination_instruction, Put::index(*to)?)])
        }
        MethodCall::Free(v) => (5, vec![(free_call::value_index, Put::index(*v)?)]),
    };
    let args = w.table(&fields);
    Ok(w.table(&[(facts::call::instr_args_type, Put::U8(tag)), (facts::call::instr_args_type + 1, Put::At(args))]))
}

fn value(w: &mut Writer, constants: &mut Constants<'_>, value: &PlanValue, arena: &mut u64) -> Result<Offset> {
    let one = |put| vec![(0, put)];
    let (tag, fields) = match value {
        PlanValue::None => (1, Vec::new()),
        PlanValue::Int(v) => (2, one(Put::U64(*v as u64))),
        PlanValue::Bool(v) => (3, one(Put::U8((*v).into()))),
        PlanValue::Double(v) => (4, one(Put::U64(v.to_bits()))),
        PlanValue::Tensor(t) => (5, tensor(w, constants, t, arena)?),
        PlanValue::Text(v) => (6, one(w.text(v))),
        PlanValue::Ints(v) => (7, one(w.list(v))),
        PlanValue::Doubles(v) => (8, one(w.list(v))),
        PlanValue::Bools(v) => (9, one(w.list(v))),
        PlanValue::Tensors(v) => {
            let items = v.iter().map(|i| i.map_or(Ok(-1), i32::try_from)).collect::<Result<Vec<i32>, _>>();
            let items = items.map_err(|_| Error::limit("the index of a value does not fit 32 bits"))?;
            (if v.contains(&None) { 11 } else { 10 }, one(w.list(&items)))
        }
    };
    let table = w.table(&fields);
    Ok(w.table(&[(facts::evalue::val_type, Put::U8(tag)), (facts::evalue::val_type + 1, Put::At(table))]))
}

fn tensor(w: &mut Writer, constants: &mut Constants<'_>, t: &TensorSpec, arena: &mut u64) -> Result<Vec<(u8, Put)>> {
    use facts::tensor as f;
    let size =
        |d: &DimBound| i32::try_from(d.max.unwrap_or(d.min)).map_err(|_| Error::limit(format!("dimension {d:?}")));
    let sizes = t.dims.iter().map(size).collect::<Result<Vec<i32>>>()?;
    let dynamism = match t.dims.iter().find(|d| !d.is_fixed()) {
        None => 0,
        Some(_) => 1 + u8::from(t.dims.iter().any(|d| d.max.is_none())),
    };
    let order: Vec<u8> = (0..sizes.len()).map(|i| i as u8).collect();
    let dtype: DType = t.dtype;
    let mut fields = vec![
        (f::scalar_type, Put::U8(dtype.scalar_type() as u8)),
        (f::sizes, w.list(&sizes)),
        (f::dim_order, w.list(&order)),
        (f::shape_dynamism, Put::U8(dynamism)),
    ];
    match &t.data {
        Some(range) => fields.push((f::data_buffer_idx, Put::index(constants.of(range)?)?)),
        None => {
            // Each tensor has a place of its own in one planned buffer.
            let at = *arena;
            let bytes = sizes.iter().try_fold(dtype.size() as u64, |n, &s| n.checked_mul(s as u64));
            let end = bytes.and_then(|b| at.checked_add(b)).and_then(|e| e.checked_next_multiple_of(16));
            *arena = end.ok_or_else(|| Error::limit("the plan's tensors do not fit 64 bits"))?;
            let place = [(0, Put::U32(1)), (1, Put::U32(at as u32)), (2, Put::U32((at >> 32) as u32))];
            fields.push((f::allocation_info, Put::At(w.table(&place))));
        }
    }
    Ok(fields)
}
