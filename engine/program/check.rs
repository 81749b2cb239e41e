//! The proof that a graph is sound: after [`check`], later passes index freely.
//!
//! What holds of a [`Checked`] graph: every slot, value, chain and string id is in range; chains nest without
//! recursion, at most [`MAX_DEPTH`] deep, and unfold to at most [`MAX_STEPS`] steps; ranks are at most
//! [`MAX_RANK`]; constants are written by the init chain only and inputs never; constants have data of their size
//! or are written before they are read; every slot and value is written before it is read, on every
//! path; and every op that can run has a kernel.

use std::collections::HashMap;
use std::ops::{Deref, Range};

use bitvec::vec::BitVec;

use super::pte::PlanValue;
use super::walk::Walk;
use super::{Graph, Home, Operand, Port};
use crate::error::{Error, Result};
use crate::limits::{MAX_DEPTH, MAX_EFFECT_BITS, MAX_RANK, MAX_STEP_OPERANDS, MAX_STEPS, MAX_TENSOR_BYTES};
use crate::op::{Field, Op, OpRow, fields};
use crate::table::{Chain, Col, Csr, Id, Inst, Slot, Vid};

/// A graph that [`check`] found sound.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    graph: Graph,
    /// For each constant slot, where its bytes are in the file. `None` where the file has none: the init chain
    /// writes it, or nothing reads it.
    pub constants: Vec<Option<Range<usize>>>,
    /// The constant slots that the init chain writes on some path, ascending. What the file says of them is a placeholder:
    /// real programs declare `*_biases_dummy` as a scalar, with four bytes of data, and write a matrix. Their shape is the one
    /// that the init chain gives them, and only those that init reads first need their bytes.
    pub written_by_init: Vec<Slot>,
    /// The chains that a call or the init chain can reach, each once, nested chains before those that name them.
    pub reached: Vec<Chain>,
    /// Steps of the main chain's timeline: nested chains in place, and a bracket at the end of each.
    pub steps: usize,
}

impl Deref for Checked {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        &self.graph
    }
}

/// Checks a graph against the named data of its container.
///
/// # Errors
/// The first thing found wrong, with chain, instruction, op and field named where there are any.
pub fn check(graph: Graph, named: &HashMap<String, Range<usize>>) -> Result<Checked> {
    let nested = ids(&graph)?;
    let order = Order::of(&graph, &nested)?;
    let constants = constants(&graph, named)?;
    declared(&graph)?;
    let mut walk = Walk::new(&graph, &constants);
    walk.run()?;
    let written_by_init = walk.written_by_init();
    let reached: Vec<Chain> = order.inner_first.iter().copied().filter(|&c| walk.reaches(c)).collect();
    kernels(&graph, &reached)?;
    let steps = order.steps[graph.main] as usize;
    Ok(Checked { graph, constants, written_by_init, reached, steps })
}

/// Checks that a method's call of a delegate passes what the delegate's graph takes: as many arguments and results, each of the
/// same kind, element type and rank.
///
/// # Errors
/// `Malformed`, naming the argument or result.
pub fn check_call(graph: &Graph, values: &[PlanValue], args: &[usize]) -> Result<()> {
    let (ins, outs) = (graph.inputs.len(), graph.outputs.len());
    if args.len() != ins + outs {
        let got = args.len();
        return Err(Error::malformed(format!(
            "the call passes {got} values; the delegate has {ins} inputs and {outs} outputs"
        )));
    }
    for (i, (port, &at)) in graph.inputs.iter().chain(&graph.outputs).zip(args).enumerate() {
        let here = |e: Error| match i < ins {
            true => e.at(format!("input {i}")),
            false => e.at(format!("output {}", i - ins)),
        };
        let value = values.get(at).ok_or_else(|| here(Error::malformed(format!("value {at} is out of range"))))?;
        let fits = match (port, value) {
            (Port::Tensor(t), PlanValue::Tensor(spec)) => {
                let dims = &graph.tensors.dims[*t];
                graph.tensors.dtype[*t].is_none_or(|d| d == spec.dtype && dims.len() == spec.dims.len())
            }
            (Port::Int(_), PlanValue::Int(_)) => true,
            (Port::Float(_), PlanValue::Double(_)) => true,
            (Port::Bool(_), PlanValue::Bool(_)) => true,
            _ => false,
        };
        if !fits {
            let wants = match port {
                Port::Tensor(t) => match graph.tensors.dtype[*t] {
                    Some(d) => format!("a tensor of {d} with {} dimensions", graph.tensors.dims[*t].len()),
                    None => "a tensor".into(),
                },
                Port::Int(_) => "an integer".into(),
                Port::Float(_) => "a float".into(),
                Port::Bool(_) => "a bool".into(),
            };
            return Err(here(Error::malformed(format!("the delegate has {wants}, the method passes {value:?}"))));
        }
    }
    Ok(())
}

/// Names an operand for messages.
pub(super) fn place(graph: &Graph, inst: Inst, field: Field) -> impl Fn(Error) -> Error {
    let name = graph.insts.op[inst].row().fields[field.0 as usize].name;
    let whole = graph.describe(inst);
    move |e| e.at(format!("field {name}")).at(&whole)
}

/// The fields of an op that name chains.
fn names(op: Op) -> &'static [Field] {
    const IF: [Field; 2] = [fields::if_::then_chain_idx, fields::if_::else_chain_idx];
    const SCAN: [Field; 1] = [fields::scan::body_chain_idx];
    match op {
        Op::IF => &IF,
        Op::SCAN => &SCAN,
        _ => &[],
    }
}

/// Checks every id, and returns the chains that each chain names.
fn ids(graph: &Graph) -> Result<Csr<Chain, Chain>> {
    let chains = graph.chains.rows();
    let known = |chain: Chain, what: &str| match chain.index() < chains {
        true => Ok(()),
        false => Err(Error::malformed(format!("the {what} chain is {chain}, but there are {chains} chains"))),
    };
    known(graph.main, "main")?;
    graph.init.map_or(Ok(()), |c| known(c, "init"))?;
    let mut nested = Csr::default();
    for c in (0..chains).map(Chain::new) {
        for &inst in &graph.chains[c] {
            let op = graph.insts.op[inst];
            operands(graph, inst, op.row())?;
            for &field in names(op) {
                let at = graph.operands(inst, field).next().map(|i| graph.scalars.at(i));
                let number = match at {
                    Some(Operand::Int(i)) => usize::try_from(i).ok().filter(|&i| i < chains),
                    _ => None,
                };
                let number = number.ok_or_else(|| {
                    let e = match at {
                        Some(Operand::Int(i)) => format!("chain {i} is out of range ({chains} chains)"),
                        _ => "no chain is named".into(),
                    };
                    place(graph, inst, field)(Error::malformed(e))
                })?;
                nested.push(Chain::new(number));
            }
            if op == Op::SCAN {
                scan_lists(graph, inst)?;
            }
        }
        let _: Chain = nested.end_row();
    }
    let brackets = graph.insts.op.as_slice().iter().filter(|op| !names(**op).is_empty()).count();
    let bits = (chains + brackets).checked_mul(graph.tensors.len());
    if bits.is_none_or(|bits| bits > MAX_EFFECT_BITS) {
        let slots = graph.tensors.len();
        return Err(Error::limit(format!(
            "{chains} chains, {brackets} IFs and SCANs and {slots} slots are too many together"
        )));
    }
    ports(graph)?;
    Ok(nested)
}

/// The operands of one instruction name slots, values and strings that exist.
fn operands(graph: &Graph, inst: Inst, row: &OpRow) -> Result<()> {
    for i in 0..row.fields.len() {
        let field = Field(i as u8);
        for at in graph.operands(inst, field) {
            let e = match graph.scalars.at(at) {
                Operand::Tensor(t) if t.index() >= graph.tensors.len() => no_slot(graph, t),
                Operand::Value(v) if v.0 >= graph.values => no_value(graph, v),
                Operand::Text(s) if s as usize >= graph.strings.len() => Error::malformed(format!("no string {s}")),
                _ => continue,
            };
            return Err(place(graph, inst, field)(e));
        }
    }
    Ok(())
}

fn no_slot(graph: &Graph, slot: Slot) -> Error {
    Error::malformed(format!("slot {slot} is out of range ({} slots)", graph.tensors.len()))
}

fn no_value(graph: &Graph, vid: Vid) -> Error {
    Error::malformed(format!("value {vid} is out of range ({} values)", graph.values))
}

/// The lists of a SCAN: one slice per original, and no slot with two parts to play in an iteration.
fn scan_lists(graph: &Graph, inst: Inst) -> Result<()> {
    use fields::scan as f;
    let bad = |field, text: String| Err(place(graph, inst, field)(Error::malformed(text)));
    let (originals, sliced) = (graph.operands(inst, f::originals).len(), graph.operands(inst, f::sliced).len());
    if originals == 0 {
        return bad(f::originals, "the list is empty, so nothing says how many steps there are".into());
    }
    if originals != sliced {
        return bad(f::sliced, format!("the list has {sliced} tensors for {originals} originals"));
    }
    // Originals may repeat.
    let mut parts: HashMap<Slot, Field> = HashMap::new();
    for field in [f::sliced, f::outputs, f::carry, f::originals] {
        for at in graph.operands(inst, field) {
            let Operand::Tensor(t) = graph.scalars.at(at) else { continue };
            match parts.get(&t) {
                Some(&f::originals) if field == f::originals => {}
                Some(&other) => {
                    let other = graph.insts.op[inst].row().fields[other.0 as usize].name;
                    return bad(field, format!("slot {t} is in {other} too"));
                }
                None => {
                    parts.insert(t, field);
                }
            }
        }
    }
    Ok(())
}

/// Arguments, results and mutable buffers.
fn ports(graph: &Graph) -> Result<()> {
    let exists = |port: Port| match port {
        Port::Tensor(t) if t.index() >= graph.tensors.len() => Err(no_slot(graph, t)),
        Port::Int(v) | Port::Float(v) | Port::Bool(v) if v.0 >= graph.values => Err(no_value(graph, v)),
        _ => Ok(()),
    };
    let mut seen: BitVec = BitVec::repeat(false, graph.tensors.len());
    for (i, &port) in graph.inputs.iter().enumerate() {
        let here = |e: Error| e.at(format!("input {i}"));
        exists(port).map_err(here)?;
        if let Port::Tensor(t) = port {
            if graph.tensors.home(t) != Home::Input {
                return Err(here(Error::malformed(format!("slot {t} is not an input slot"))));
            }
            if graph.tensors.dtype[t].is_none() {
                return Err(here(Error::malformed(format!("the file does not describe slot {t}"))));
            }
            if seen.replace(t.index(), true) {
                return Err(here(Error::malformed(format!("slot {t} is already another input"))));
            }
        }
    }
    for (i, &port) in graph.outputs.iter().enumerate() {
        exists(port).map_err(|e| e.at(format!("output {i}")))?;
    }
    for (i, &t) in graph.mutable.iter().enumerate() {
        let here = |e: Error| e.at(format!("mutable buffer {i}"));
        exists(Port::Tensor(t)).map_err(here)?;
        if graph.tensors.home(t) != Home::Mutable {
            return Err(here(Error::malformed(format!("slot {t} is not a mutable buffer slot"))));
        }
    }
    Ok(())
}

/// How chains nest.
struct Order {
    /// All chains, each after those it names.
    inner_first: Vec<Chain>,
    /// Steps of each chain with those it names in place.
    steps: Col<Chain, u64>,
}

impl Order {
    /// Sorts chains by nesting, without recursion: the depth is not known yet.
    fn of(graph: &Graph, nested: &Csr<Chain, Chain>) -> Result<Self> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let chains = graph.chains.rows();
        let mut state: Col<Chain, State> = Col::filled(State::New, chains);
        let mut depth: Col<Chain, usize> = Col::filled(1, chains);
        let mut steps: Col<Chain, u64> = Col::filled(0, chains);
        let mut operands: Col<Chain, u64> = Col::filled(0, chains);
        let mut inner_first = Vec::with_capacity(chains);
        for root in (0..chains).map(Chain::new) {
            let mut stack = vec![(root, 0)];
            if state[root] == State::Done {
                continue;
            }
            state[root] = State::Open;
            while let Some((c, next)) = stack.last_mut() {
                let c = *c;
                let Some(&inner) = nested[c].get(*next) else {
                    depth[c] = 1 + nested[c].iter().map(|&n| depth[n]).max().unwrap_or(0);
                    // The instruction opens the brackets, and each nested chain ends in one.
                    let inside = nested[c].iter().fold(0u64, |n, &i| n.saturating_add(steps[i]).saturating_add(1));
                    steps[c] = inside.saturating_add(graph.chains[c].len() as u64);
                    let inside = nested[c].iter().fold(0u64, |n, &i| n.saturating_add(operands[i]));
                    let own = graph.chains[c].iter().map(|&i| operands_of(graph, i)).sum();
                    operands[c] = inside.saturating_add(own);
                    state[c] = State::Done;
                    inner_first.push(c);
                    stack.pop();
                    continue;
                };
                *next += 1;
                match state[inner] {
                    State::Done => {}
                    State::Open => {
                        return Err(Error::malformed(format!("chain {inner} runs itself")).at(format!("chain {c}")));
                    }
                    State::New => {
                        state[inner] = State::Open;
                        stack.push((inner, 0));
                    }
                }
            }
        }
        if let Some((c, d)) = depth.iter().find(|(_, d)| **d > MAX_DEPTH) {
            return Err(
                Error::limit(format!("chains nest {d} deep; the limit is {MAX_DEPTH}")).at(format!("chain {c}"))
            );
        }
        for (count, most, what) in [(&steps, MAX_STEPS, "steps"), (&operands, MAX_STEP_OPERANDS, "operands")] {
            let total = count[graph.main].saturating_add(graph.init.map_or(0, |c| count[c]));
            if total > most as u64 {
                return Err(Error::limit(format!("the chains unfold to {total} {what}; the limit is {most}")));
            }
        }
        Ok(Self { inner_first, steps })
    }
}

fn operands_of(graph: &Graph, inst: Inst) -> u64 {
    let fields = graph.insts.op[inst].row().fields.len();
    (0..fields).map(|i| graph.operands(inst, Field(i as u8)).len() as u64).sum()
}

/// Bytes of a slot whose dimensions are fixed.
fn fixed_bytes(graph: &Graph, slot: Slot) -> Result<u64> {
    let tensors = &graph.tensors;
    let dtype = tensors.dtype[slot].ok_or_else(|| Error::malformed("the file does not describe it"))?;
    let mut bytes = Some(dtype.size() as u64);
    for dim in &tensors.dims[slot] {
        if !dim.is_fixed() {
            return Err(Error::malformed("its dimensions are not fixed"));
        }
        bytes = bytes.and_then(|b| b.checked_mul(dim.min.into()));
    }
    bytes.filter(|&b| b <= MAX_TENSOR_BYTES).ok_or_else(|| {
        let dims: Vec<u32> = tensors.dims[slot].iter().map(|d| d.min).collect();
        Error::limit(format!("{dims:?} elements of {dtype} have more than {MAX_TENSOR_BYTES} bytes"))
    })
}

/// Finds the bytes of constants.
fn constants(graph: &Graph, named: &HashMap<String, Range<usize>>) -> Result<Vec<Option<Range<usize>>>> {
    let find = |slot: Slot| {
        let name = &graph.tensors.name[slot];
        let Some(range) = named.get(name) else { return Ok(None) };
        let here = |e: Error| e.at(format!("constant {slot} {name:?}"));
        let bytes = fixed_bytes(graph, slot).map_err(here)?;
        if bytes != range.len() as u64 {
            let dims: Vec<u32> = graph.tensors.dims[slot].iter().map(|d| d.min).collect();
            return Err(here(Error::malformed(format!(
                "shape {dims:?} needs {bytes} bytes, the file has {}",
                range.len()
            ))));
        }
        Ok(Some(range.clone()))
    };
    graph.tensors.of(Home::Constant).map(|i| find(Slot(i))).collect()
}

/// Ranks, and what the file must say of slots that live across calls.
fn declared(graph: &Graph) -> Result<()> {
    let tensors = &graph.tensors;
    for slot in tensors.dtype.ids() {
        let rank = tensors.dims[slot].len();
        if rank > MAX_RANK {
            return Err(Error::limit(format!("slot {slot} has {rank} dimensions; the limit is {MAX_RANK}")));
        }
    }
    for i in tensors.of(Home::Mutable) {
        let slot = Slot(i);
        fixed_bytes(graph, slot).map_err(|e| e.at(format!("mutable buffer {slot} {:?}", tensors.name[slot])))?;
    }
    Ok(())
}

/// Every op that can run has a kernel, which can run it as the file has it.
fn kernels(graph: &Graph, reached: &[Chain]) -> Result<()> {
    for &inst in reached.iter().flat_map(|&c| &graph.chains[c]) {
        let kernel = graph.insts.op[inst].row().kernel;
        let can_run = match kernel.written {
            true => (kernel.check)(graph, inst),
            false => Err(Error::unsupported(format!("no kernel is written for {}", graph.insts.op[inst]))),
        };
        can_run.map_err(|e| e.at(graph.describe(inst)))?;
    }
    Ok(())
}
