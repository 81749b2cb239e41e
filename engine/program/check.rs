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

use super::{Graph, Home, Operand, Port};
use crate::error::{Error, Result};
use crate::limits::{MAX_DEPTH, MAX_RANK, MAX_STEPS, MAX_TENSOR_BYTES};
use crate::op::{Access, Field, Op, OpRow, fields};
use crate::table::{Chain, Col, Csr, Id, Inst, Slot, Vid};

/// A graph that [`check`] found sound.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    graph: Graph,
    /// For each constant slot, where its bytes are in the file. `None` where the file has none: the init chain
    /// writes it, or nothing reads it.
    pub constants: Vec<Option<Range<usize>>>,
    /// The constant slots that the init chain writes, ascending. Those with bytes in the file start from them.
    pub written_by_init: Vec<Slot>,
    /// The chains that a call or the init chain can reach, each once, nested chains before those that name them.
    pub reached: Vec<Chain>,
    /// Steps of the main chain with nested chains in place.
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
    let mut walk = Walk::new(&graph, &constants, &order)?;
    walk.run()?;
    let written_by_init = walk.written_by_init();
    let reached: Vec<Chain> = order.inner_first.iter().copied().filter(|&c| walk.reached[c.index()]).collect();
    kernels(&graph, &reached)?;
    let steps = order.steps[graph.main] as usize;
    Ok(Checked { graph, constants, written_by_init, reached, steps })
}

/// Names an operand for messages.
fn place(graph: &Graph, inst: Inst, field: Field) -> impl Fn(Error) -> Error {
    let name = graph.insts.op[inst].row().fields[field.0 as usize].name;
    let whole = graph.describe(inst);
    move |e| e.at(format!("field {name}")).at(&whole)
}

/// The chains that an instruction names: the field, and the chain's number as the file gives it.
fn names(op: Op) -> &'static [Field] {
    const IF: [Field; 2] = [fields::if_::then_chain_idx, fields::if_::else_chain_idx];
    const SCAN: [Field; 1] = [fields::scan::body_chain_idx];
    match op.row().func {
        "if_" => &IF,
        "scan" => &SCAN,
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
            if op.row().func == "scan" {
                scan_lists(graph, inst)?;
            }
        }
        let _: Chain = nested.end_row();
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

fn scan_lists(graph: &Graph, inst: Inst) -> Result<()> {
    use fields::scan as f;
    let slots = |field| graph.operands(inst, field).map(|i| graph.scalars.at(i));
    let bad = |field, text: String| Err(place(graph, inst, field)(Error::malformed(text)));
    let (originals, sliced) = (graph.operands(inst, f::originals).len(), graph.operands(inst, f::sliced).len());
    if originals == 0 {
        return bad(f::originals, "the list is empty, so nothing says how many steps there are".into());
    }
    if originals != sliced {
        return bad(f::sliced, format!("the list has {sliced} tensors for {originals} originals"));
    }
    for (a, b) in
        [(f::sliced, f::originals), (f::sliced, f::carry), (f::outputs, f::originals), (f::outputs, f::sliced)]
    {
        if let Some(Operand::Tensor(t)) = slots(a).find(|x| slots(b).any(|y| y == *x)) {
            let other = graph.insts.op[inst].row().fields[b.0 as usize].name;
            return bad(a, format!("slot {t} is also in {other}"));
        }
    }
    for field in [f::sliced, f::outputs] {
        if let Some(Operand::Tensor(t)) =
            slots(field).enumerate().find(|(i, x)| slots(field).take(*i).any(|y| y == *x)).map(|p| p.1)
        {
            return bad(field, format!("slot {t} is listed twice"));
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
                    // A nested chain stands between two brackets.
                    let inside = nested[c].iter().fold(0u64, |n, &i| n.saturating_add(steps[i]).saturating_add(2));
                    steps[c] = inside.saturating_add(graph.chains[c].len() as u64);
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
        let init = graph.init.map_or(0, |c| steps[c]);
        let total = steps[graph.main].saturating_add(init);
        if total > MAX_STEPS as u64 {
            return Err(Error::limit(format!("the chains unfold to {total} steps; the limit is {MAX_STEPS}")));
        }
        Ok(Self { inner_first, steps })
    }
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

/// Every op that can run has a kernel.
fn kernels(graph: &Graph, reached: &[Chain]) -> Result<()> {
    for &c in reached {
        if let Some(&inst) = graph.chains[c].iter().find(|&&i| !graph.insts.op[i].row().kernel.written) {
            let text = format!("no kernel is written for {}", graph.insts.op[inst]);
            return Err(Error::unsupported(text).at(graph.describe(inst)));
        }
    }
    Ok(())
}

/// Follows the timeline with nested chains in place and keeps what is written on every path so far.
struct Walk<'a> {
    graph: &'a Graph,
    /// Whether a slot is written; values follow the slots.
    written: BitVec,
    /// The bits set since the start, so that a branch can be undone.
    log: Vec<u32>,
    /// Constants that the init chain writes on some path.
    init_writes: BitVec,
    reached: BitVec,
    in_init: bool,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, constants: &[Option<Range<usize>>], order: &Order) -> Result<Self> {
        let slots = graph.tensors.len();
        let mut written = BitVec::repeat(false, slots + graph.values as usize);
        for (i, data) in constants.iter().enumerate() {
            written.set(i, data.is_some());
        }
        for i in graph.tensors.of(Home::Mutable) {
            written.set(i as usize, true);
        }
        Ok(Self {
            graph,
            written,
            log: Vec::new(),
            init_writes: BitVec::repeat(false, graph.tensors.of(Home::Constant).len()),
            reached: BitVec::repeat(false, order.steps.len()),
            in_init: false,
        })
    }

    /// The init chain and then the main chain. Of what init writes, constants and state stay.
    fn run(&mut self) -> Result<()> {
        if let Some(init) = self.graph.init {
            self.in_init = true;
            self.chain(init)?;
            self.in_init = false;
            for i in self.graph.tensors.of(Home::Input).start..self.written.len() as u32 {
                if i >= self.graph.tensors.len() as u32 || self.graph.tensors.home(Slot(i)) != Home::Mutable {
                    self.written.set(i as usize, false);
                }
            }
            self.log.clear();
        }
        for &port in &self.graph.inputs {
            let bit = self.port_bit(port);
            self.written.set(bit, true);
        }
        self.chain(self.graph.main)?;
        for (i, &port) in self.graph.outputs.iter().enumerate() {
            if !self.written[self.port_bit(port)] {
                let what = match port {
                    Port::Tensor(t) => self.unwritten(t),
                    Port::Int(v) | Port::Float(v) | Port::Bool(v) => format!("value {v} is not written"),
                };
                return Err(Error::malformed(what).at(format!("output {i}")));
            }
        }
        Ok(())
    }

    fn written_by_init(&self) -> Vec<Slot> {
        self.init_writes.iter_ones().map(Slot::new).collect()
    }

    fn port_bit(&self, port: Port) -> usize {
        match port {
            Port::Tensor(t) => t.index(),
            Port::Int(v) | Port::Float(v) | Port::Bool(v) => self.value_bit(v),
        }
    }

    fn value_bit(&self, v: Vid) -> usize {
        self.graph.tensors.len() + v.index()
    }

    fn unwritten(&self, slot: Slot) -> String {
        match self.graph.tensors.home(slot) {
            Home::Constant => {
                format!("constant {slot} {:?} has no data and nothing wrote it before", self.graph.tensors.name[slot])
            }
            Home::Input => format!("input slot {slot} is not among the inputs"),
            Home::Output | Home::Mutable | Home::Temp => {
                format!("slot {slot} is read, and nothing wrote it before on every path")
            }
        }
    }

    fn mark(&mut self, bit: usize) {
        if !self.written.replace(bit, true) {
            self.log.push(bit as u32);
        }
    }

    /// Undoes what was written since `from`, and returns it.
    fn undo(&mut self, from: usize) -> Vec<u32> {
        let since = self.log.split_off(from);
        for &bit in &since {
            self.written.set(bit as usize, false);
        }
        since
    }

    /// Recursion is bounded by `MAX_DEPTH`, and the number of visits by `MAX_STEPS`.
    fn chain(&mut self, chain: Chain) -> Result<()> {
        self.reached.set(chain.index(), true);
        let graph = self.graph;
        for &inst in &graph.chains[chain] {
            match graph.insts.op[inst].row().func {
                "if_" => self.branch(inst)?,
                "scan" => self.scan(inst)?,
                _ => {
                    self.reads(inst)?;
                    self.writes(inst)?;
                }
            }
        }
        Ok(())
    }

    fn reads(&self, inst: Inst) -> Result<()> {
        for i in 0..self.graph.insts.op[inst].row().fields.len() {
            self.read(inst, Field(i as u8))?;
        }
        Ok(())
    }

    fn writes(&mut self, inst: Inst) -> Result<()> {
        for i in 0..self.graph.insts.op[inst].row().fields.len() {
            let field = Field(i as u8);
            if self.access(inst, field).writes() {
                self.write(inst, field)?;
            }
        }
        Ok(())
    }

    fn access(&self, inst: Inst, field: Field) -> Access {
        self.graph.insts.op[inst].row().fields[field.0 as usize].access
    }

    /// What `field` reads has been written.
    fn read(&self, inst: Inst, field: Field) -> Result<()> {
        if !self.access(inst, field).reads() {
            return Ok(());
        }
        for at in self.graph.operands(inst, field) {
            let text = match self.graph.scalars.at(at) {
                Operand::Tensor(t) if !self.written[t.index()] => self.unwritten(t),
                Operand::Value(v) if !self.written[self.value_bit(v)] => {
                    format!("value {v} is read, and nothing wrote it before on every path")
                }
                _ => continue,
            };
            return Err(place(self.graph, inst, field)(Error::malformed(text)));
        }
        Ok(())
    }

    /// Everything that `field` names is written now, and may be.
    fn write(&mut self, inst: Inst, field: Field) -> Result<()> {
        for at in self.graph.operands(inst, field) {
            match self.graph.scalars.at(at) {
                Operand::Tensor(t) => {
                    let refuse = match self.graph.tensors.home(t) {
                        Home::Constant if self.in_init => {
                            self.init_writes.set(t.index(), true);
                            None
                        }
                        Home::Constant => Some("a constant, which only the init chain may write"),
                        Home::Input => Some("an input, which nothing may write"),
                        Home::Output | Home::Mutable | Home::Temp => None,
                    };
                    if let Some(what) = refuse {
                        let e = Error::malformed(format!("slot {t} is written and is {what}"));
                        return Err(place(self.graph, inst, field)(e));
                    }
                    self.mark(t.index());
                }
                Operand::Value(v) => self.mark(self.value_bit(v)),
                Operand::Int(_) | Operand::Float(_) | Operand::Text(_) => {}
            }
        }
        Ok(())
    }

    fn nested(&self, inst: Inst, field: Field) -> Chain {
        match self.graph.operands(inst, field).next().map(|i| self.graph.scalars.at(i)) {
            Some(Operand::Int(i)) => Chain(i as u32),
            _ => self.graph.main,
        }
    }

    /// After an IF, what both branches wrote is written.
    fn branch(&mut self, inst: Inst) -> Result<()> {
        use fields::if_ as f;
        self.reads(inst)?;
        let before = self.log.len();
        self.chain(self.nested(inst, f::then_chain_idx))?;
        let then = self.undo(before);
        self.chain(self.nested(inst, f::else_chain_idx))?;
        let other = self.undo(before);
        // Let the written bits stand for one list while the other is sifted.
        for &bit in &other {
            self.written.set(bit as usize, true);
        }
        let both: Vec<u32> = then.into_iter().filter(|&bit| self.written[bit as usize]).collect();
        for &bit in &other {
            self.written.set(bit as usize, false);
        }
        both.into_iter().for_each(|bit| self.mark(bit as usize));
        Ok(())
    }

    /// The body runs at least once: a SCAN over no steps has nothing to stack. It sees its slices, reads and writes the
    /// carry, and must write the outputs.
    fn scan(&mut self, inst: Inst) -> Result<()> {
        use fields::scan as f;
        self.read(inst, f::originals)?;
        self.read(inst, f::carry)?;
        self.write(inst, f::sliced)?;
        self.chain(self.nested(inst, f::body_chain_idx))?;
        for at in self.graph.operands(inst, f::outputs) {
            if let Operand::Tensor(t) = self.graph.scalars.at(at) {
                if !self.written[t.index()] {
                    let e = Error::malformed(format!("slot {t} is an output of the body, which does not write it"));
                    return Err(place(self.graph, inst, f::outputs)(e));
                }
            }
        }
        self.write(inst, f::outputs)?;
        self.write(inst, f::carry)
    }
}
