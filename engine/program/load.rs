//! The delegate payload: bytes to the tables of a [`Graph`].
//!
//! The op table's rows drive the decoding of instructions; there is no code per op. Ids are taken as
//! the file gives them: [`check`](super::check) is what makes them trustworthy.

use std::collections::HashMap;

use super::facts::{self, GRAPH, graph as f};
use super::wire::{Node, verify};
use super::{DimBound, Graph, Operand, Port, Use};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::limits::{MAX_CHAINS, MAX_INSTRUCTIONS, MAX_LIST, MAX_RANK, MAX_SLOTS, MAX_STRING, MAX_VALUES};
use crate::op::{Field, FieldKind, FieldRow, Need, Op};
use crate::table::{Chain, Id, Inst, Slot, Vid};

/// Where the flatbuffer starts in a payload: after four zero bytes, the magic, and two sizes.
const HEADER: usize = 24;
const MAGIC: &[u8] = b"MLX0";
/// The graph version lowtide knows. ExecuTorch 1.3.1 to 1.5.1 write it.
const VERSION: &str = "1";

/// Reads a delegate payload.
///
/// # Errors
/// [`Malformed`](crate::error::ErrorKind::Malformed) for bytes that are no such payload, `Unsupported` for a
/// graph version or op that lowtide does not know, `Limit` for one past [`crate::limits`].
pub fn load(payload: &[u8]) -> Result<Graph> {
    let body = body(payload)?;
    let root = verify(body, &GRAPH)?;
    match root.text(f::version) {
        // Upstream takes an absent version for 1.
        None | Some("" | VERSION) => {}
        Some(v) => {
            return Err(Error::unsupported(format!(
                "the delegate's graph has version {v:?}; this lowtide reads version {VERSION:?}"
            )));
        }
    }
    let mut graph = Graph::default();
    slots(&mut graph, root, body.len())?;
    ports(&mut graph, root)?;
    metadata(&mut graph, root)?;
    Decoder { graph: &mut graph, known: HashMap::new() }.chains(root)?;
    graph.main = Chain(root.get(f::main_chain_idx).unwrap_or(0));
    graph.init = match root.get::<i32>(f::init_chain_idx).unwrap_or(-1) {
        -1 => None,
        i => Some(Chain(u32::try_from(i).map_err(|_| Error::malformed(format!("the init chain is number {i}")))?)),
    };
    Ok(graph)
}

/// The flatbuffer inside a payload.
fn body(payload: &[u8]) -> Result<&[u8]> {
    let short = || Error::malformed(format!("the delegate payload has {} bytes, too few for a graph", payload.len()));
    let word = |at: usize| -> Result<u64> {
        let bytes = payload.get(at..at + 8).ok_or_else(short)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| short())?))
    };
    if payload.get(4..8).ok_or_else(short)? != MAGIC {
        return Err(Error::malformed("the delegate payload does not start with MLX0"));
    }
    let (offset, size) = (word(8)?, word(16)?);
    if size != 0 {
        return Err(Error::unsupported(format!(
            "the delegate payload holds {size} bytes of constants of its own; lowtide reads them from named data"
        )));
    }
    usize::try_from(offset)
        .ok()
        .and_then(|end| payload.get(HEADER..end))
        .ok_or_else(|| Error::malformed(format!("the graph ends at byte {offset} of {}", payload.len())))
}

/// The counts of slots by home, and of values.
fn slots(graph: &mut Graph, root: Node<'_>, body: usize) -> Result<()> {
    let homes = [
        f::num_constant_tensors,
        f::num_input_tensors,
        f::num_output_tensors,
        f::num_mutable_buffer_tensors,
        f::num_temp_tensors,
    ];
    // A slot that matters is named by at least four bytes of the file, so a count beyond that is a
    // lie that would only make tables large.
    let most = (body / 4).min(MAX_SLOTS) as u64;
    let mut total = 0u64;
    for (home, slot) in homes.into_iter().enumerate() {
        total += u64::from(root.get::<u32>(slot).unwrap_or(0));
        if total > most {
            return Err(Error::limit(format!(
                "the graph has {total} or more tensor slots; at most {most} fit a file this long"
            )));
        }
        graph.tensors.first[home + 1] = total as u32;
    }
    graph.values = root.get(f::num_values).unwrap_or(0);
    let most = (body / 4).min(MAX_VALUES);
    if graph.values as usize > most {
        return Err(Error::limit(format!(
            "the graph has {} values; at most {most} fit a file this long",
            graph.values
        )));
    }
    Ok(())
}

fn slot_of(node: Node<'_>) -> (u32, u8) {
    use facts::slot_variant as f;
    (node.get(f::idx).unwrap_or(0), node.get(f::slot_type).unwrap_or(0))
}

/// The maps of arguments, results and mutable buffers.
fn ports(graph: &mut Graph, root: Node<'_>) -> Result<()> {
    let port = |node| {
        Ok(match slot_of(node) {
            (i, 0) => Port::Tensor(Slot(i)),
            (i, 1) => Port::Int(Vid(i)),
            (i, 2) => Port::Float(Vid(i)),
            (i, 3) => Port::Bool(Vid(i)),
            (_, t) => return Err(Error::malformed(format!("unknown slot type {t}"))),
        })
    };
    let all = |slot: u8, what: &str| {
        let named = |(i, node)| port(node).map_err(|e| e.at(format!("{what} {i}")));
        root.nodes(slot).enumerate().map(named).collect::<Result<Vec<_>>>()
    };
    graph.inputs = all(f::input_map, "input")?;
    graph.outputs = all(f::output_map, "output")?;
    for (i, port) in all(f::mutable_buffer_map, "mutable buffer")?.into_iter().enumerate() {
        let Port::Tensor(slot) = port else {
            return Err(Error::malformed("a host scalar cannot be a mutable buffer").at(format!("mutable buffer {i}")));
        };
        graph.mutable.push(slot);
    }
    Ok(())
}

/// Declared dtypes, dimensions and names of slots.
fn metadata(graph: &mut Graph, root: Node<'_>) -> Result<()> {
    let count = graph.tensors.len();
    let metas = root.len(f::tensor_meta);
    if metas > count {
        return Err(Error::malformed(format!("{metas} tensors are described, but there are {count} slots")));
    }
    let tensors = &mut graph.tensors;
    for (i, meta) in root.nodes(f::tensor_meta).enumerate() {
        use facts::tensor_meta as f;
        let here = |e: Error| e.at(format!("meta of {}", Slot::new(i)));
        let code = meta.get(f::scalar_type).unwrap_or(0);
        tensors.dtype.push(Some(dtype(code).map_err(here)?));
        within(meta.len(f::shape), MAX_RANK, "dimensions").map_err(here)?;
        if !meta.list::<u8>(f::dim_order).enumerate().all(|(i, d)| i == usize::from(d)) {
            return Err(here(Error::unsupported("its dimensions are not stored in row-major order")));
        }
        for dim in meta.nodes(f::shape) {
            tensors.dims.push(bound(dim).map_err(here)?);
        }
        let _: Slot = tensors.dims.end_row();
    }
    for _ in metas..count {
        tensors.dtype.push(None);
        let _: Slot = tensors.dims.end_row();
    }
    tensors.name = vec![String::new(); count].into();
    for named in root.nodes(f::named_slots) {
        use facts::named_slot as f;
        let name = named.text(f::name).ok_or_else(|| Error::malformed("a named slot has no name"))?;
        within(name.len(), MAX_STRING, "bytes in a name")?;
        let (i, kind) =
            named.node(f::slot).map(slot_of).ok_or_else(|| Error::malformed(format!("{name:?} names no slot")))?;
        if kind != 0 {
            continue;
        }
        if i as usize >= count {
            return Err(Error::malformed(format!("{name:?} names {}, but there are {count} slots", Slot(i))));
        }
        // The same name may be listed twice; the first name of a slot counts.
        let entry = &mut tensors.name[Slot(i)];
        if entry.is_empty() {
            *entry = name.to_owned();
        }
    }
    Ok(())
}

/// A dimension: one size, or bounds when `value` is -1.
fn bound(dim: Node<'_>) -> Result<DimBound> {
    use facts::shape_dim as f;
    let value: i32 = dim.get(f::value).unwrap_or(-1);
    if value >= 0 {
        return Ok(DimBound::fixed(value as u32));
    }
    let (min, max): (i32, i32) = (dim.get(f::min_value).unwrap_or(0), dim.get(f::max_value).unwrap_or(-1));
    let bad = || Error::malformed(format!("a dimension of size {value} between {min} and {max}"));
    let max = match max {
        -1 => None,
        m if m >= min => Some(u32::try_from(m).map_err(|_| bad())?),
        _ => return Err(bad()),
    };
    if value != -1 {
        return Err(bad());
    }
    Ok(DimBound { min: u32::try_from(min).map_err(|_| bad())?, max })
}

fn within(count: usize, most: usize, what: &str) -> Result<()> {
    if count > most {
        return Err(Error::limit(format!("{count} {what}; the limit is {most}")));
    }
    Ok(())
}

/// Decodes instructions by the op table's rows.
struct Decoder<'g, 'a> {
    graph: &'g mut Graph,
    /// Indices of the strings seen; op modes repeat in every instruction.
    known: HashMap<&'a str, u32>,
}

impl<'a> Decoder<'_, 'a> {
    fn chains(&mut self, root: Node<'a>) -> Result<()> {
        within(root.len(f::instruction_chains), MAX_CHAINS, "chains")?;
        for (c, chain) in root.nodes(f::instruction_chains).enumerate() {
            use facts::instruction_chain as f;
            let here = |e: Error| e.at(format!("chain {}", Chain::new(c)));
            let total = self.graph.insts.op.len() + chain.len(f::instructions);
            within(total, MAX_INSTRUCTIONS, "instructions").map_err(here)?;
            for instruction in chain.nodes(f::instructions) {
                let inst = self.instruction(instruction).map_err(here)?;
                self.graph.chains.push(inst);
            }
            let _: Chain = self.graph.chains.end_row();
        }
        Ok(())
    }

    fn instruction(&mut self, instruction: Node<'a>) -> Result<Inst> {
        use facts::instruction as f;
        let id = Inst::new(self.graph.insts.op.len());
        let tag: u8 = instruction.get(f::op_type).unwrap_or(0);
        let op = Op::from_tag(tag).ok_or_else(|| {
            Error::unsupported(format!("the op with tag {tag} is not known; lowtide knows {}", Op::all().len())).at(id)
        })?;
        // The table of a union follows its tag.
        let node = instruction
            .node(f::op_type + 1)
            .ok_or_else(|| Error::malformed("the instruction has a tag and no fields").at(format!("{id} {op}")))?;
        let graph = &mut *self.graph;
        graph.insts.op.push(op);
        graph.insts.args.push(graph.args.start.len() as u32);
        let mut uses = 0;
        for (i, row) in op.row().fields.iter().enumerate() {
            let start = self.graph.scalars.len();
            self.field(node, i as u8, row).map_err(|e| e.at(format!("field {}", row.name)).at(format!("{id} {op}")))?;
            let graph = &mut *self.graph;
            let count = graph.scalars.len() - start;
            graph.args.start.push(start as u32);
            graph.args.count.push(count as u32);
            graph.args.first_use.push(uses);
            for operand in start..start + count {
                if let Operand::Tensor(slot) = graph.scalars.at(operand) {
                    graph.uses.push(Use { slot, access: row.access, field: Field(i as u8) });
                    uses += 1;
                }
            }
        }
        let _: Inst = self.graph.uses.end_row();
        Ok(id)
    }

    fn push(&mut self, operand: Operand) {
        self.graph.scalars.push(operand);
    }

    fn text(&mut self, text: &'a str) -> Result<()> {
        within(text.len(), MAX_STRING, "bytes in a string")?;
        let strings = &mut self.graph.strings;
        let index = *self.known.entry(text).or_insert_with(|| {
            strings.push(text.to_owned());
            strings.len() as u32 - 1
        });
        self.push(Operand::Text(index));
        Ok(())
    }

    /// Appends the operands of a field: what the file gives, or the row's default.
    fn field(&mut self, node: Node<'a>, slot: u8, row: &FieldRow) -> Result<()> {
        use Operand::{Float, Int, Tensor, Value};
        if !node.has(slot) {
            match row.need {
                Need::Required => return Err(Error::malformed("the field is absent")),
                Need::Optional => {}
                Need::Default(v) if row.kind == FieldKind::F32 => self.push(Float(v)),
                Need::Default(v) => self.push(Int(v as i64)),
            }
            return Ok(());
        }
        within(node_len(node, slot, row.kind), MAX_LIST, "elements")?;
        let absent = || Error::malformed("the field cannot be read");
        let number = |n: Option<i64>| n.map(Int).ok_or_else(absent);
        match row.kind {
            FieldKind::Tid => self.push(Tensor(Slot(node.get(slot).ok_or_else(absent)?))),
            FieldKind::Vid => self.push(Value(Vid(node.get(slot).ok_or_else(absent)?))),
            FieldKind::Tids => node.list(slot).for_each(|t| self.push(Tensor(Slot(t)))),
            FieldKind::I8 => self.push(number(node.get::<i8>(slot).map(i64::from))?),
            FieldKind::I32 => self.push(number(node.get::<i32>(slot).map(i64::from))?),
            FieldKind::U32 => self.push(number(node.get::<u32>(slot).map(i64::from))?),
            FieldKind::U64 => {
                let v: u64 = node.get(slot).ok_or_else(absent)?;
                self.push(Int(i64::try_from(v).map_err(|_| Error::limit(format!("{v} does not fit 63 bits")))?));
            }
            FieldKind::F32 => self.push(Float(node.get::<f32>(slot).ok_or_else(absent)?.into())),
            FieldKind::Bool => self.push(Int(node.flag(slot).into())),
            FieldKind::I32s => node.list::<i32>(slot).for_each(|v| self.push(Int(v.into()))),
            FieldKind::I8s => node.list::<i8>(slot).for_each(|v| self.push(Int(v.into()))),
            FieldKind::Str => self.text(node.text(slot).ok_or_else(absent)?)?,
            FieldKind::Strs => node.texts(slot).try_for_each(|s| self.text(s))?,
            FieldKind::IntOrVid => self.push(int_or_vid(node.node(slot).ok_or_else(absent)?)?),
            FieldKind::IntsOrVids => {
                for (i, item) in node.nodes(slot).enumerate() {
                    self.push(int_or_vid(item).map_err(|e| e.at(format!("[{i}]")))?);
                }
            }
            FieldKind::FloatOrVid => {
                use facts::float_or_vid as f;
                let node = node.node(slot).ok_or_else(absent)?;
                self.push(match node.flag(f::is_vid) {
                    true => Value(vid(node, f::vid)?),
                    false => Float(node.get(f::literal).unwrap_or(0.0)),
                });
            }
            FieldKind::VidOrTid => {
                use facts::vid_or_tid as f;
                let node = node.node(slot).ok_or_else(absent)?;
                self.push(match node.flag(f::is_vid) {
                    true => Value(vid(node, f::vid)?),
                    false => Tensor(tid(node, f::tid)?),
                });
            }
            FieldKind::IntOrVidOrTid => {
                use facts::int_or_vid_or_tid as f;
                let node = node.node(slot).ok_or_else(absent)?;
                self.push(match node.get::<u8>(f::kind).unwrap_or(0) {
                    0 => Int(node.get(f::literal).unwrap_or(0)),
                    1 => Value(vid(node, f::vid)?),
                    2 => Tensor(tid(node, f::tid)?),
                    k => return Err(Error::malformed(format!("unknown kind {k}"))),
                });
            }
        }
        Ok(())
    }
}

fn node_len(node: Node<'_>, slot: u8, kind: FieldKind) -> usize {
    match kind {
        FieldKind::Tids | FieldKind::I32s | FieldKind::I8s | FieldKind::Strs | FieldKind::IntsOrVids => node.len(slot),
        _ => 1,
    }
}

fn vid(node: Node<'_>, slot: u8) -> Result<Vid> {
    node.get(slot).map(Vid).ok_or_else(|| Error::malformed("the tag says host scalar, and none is named"))
}

fn tid(node: Node<'_>, slot: u8) -> Result<Slot> {
    node.get(slot).map(Slot).ok_or_else(|| Error::malformed("the tag says tensor, and none is named"))
}

fn int_or_vid(node: Node<'_>) -> Result<Operand> {
    use facts::int_or_vid as f;
    Ok(match node.flag(f::is_vid) {
        true => Operand::Value(vid(node, f::vid)?),
        false => Operand::Int(node.get(f::literal).unwrap_or(0)),
    })
}

/// The element type of a wire code.
pub(super) fn dtype(code: i8) -> Result<DType> {
    const NAMES: [(i8, &str); 13] = [
        (7, "float64"),
        (8, "complex32"),
        (9, "complex64"),
        (10, "complex128"),
        (12, "qint8"),
        (13, "quint8"),
        (14, "qint32"),
        (23, "float8_e5m2"),
        (24, "float8_e4m3fn"),
        (25, "float8_e5m2fnuz"),
        (26, "float8_e4m3fnuz"),
        (27, "uint16"),
        (29, "uint64"),
    ];
    DType::from_scalar_type(code).ok_or_else(|| {
        let name = NAMES.iter().find(|(c, _)| *c == code).map_or("an unknown type", |(_, name)| name);
        Error::unsupported(format!("the element type is {name} (code {code}), which lowtide does not compute with"))
    })
}
