//! What is written when: the part of [`check`](super::check) that follows the timeline.

use std::ops::Range;

use bitvec::vec::BitVec;

use super::check::place;
use super::{Graph, Home, Operand, Port};
use crate::error::{Error, Result};
use crate::op::{Access, Field, Op, fields};
use crate::table::{Chain, Id, Inst, Slot, Vid};

/// Follows the timeline with nested chains in place and keeps what is written on every path so far.
pub(super) struct Walk<'a> {
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
    /// Before anything ran: constants with data and state are written.
    pub(super) fn new(graph: &'a Graph, constants: &[Option<Range<usize>>]) -> Self {
        let slots = graph.tensors.len();
        let mut written = BitVec::repeat(false, slots + graph.values as usize);
        for (i, data) in constants.iter().enumerate() {
            written.set(i, data.is_some());
        }
        for i in graph.tensors.of(Home::Mutable) {
            written.set(i as usize, true);
        }
        Self {
            graph,
            written,
            log: Vec::new(),
            init_writes: BitVec::repeat(false, graph.tensors.of(Home::Constant).len()),
            reached: BitVec::repeat(false, graph.chains.rows()),
            in_init: false,
        }
    }

    /// Whether a chain can run.
    pub(super) fn reaches(&self, chain: Chain) -> bool {
        self.reached[chain.index()]
    }

    /// The init chain and then the main chain. Of what init writes, constants and state stay.
    pub(super) fn run(&mut self) -> Result<()> {
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

    /// The constants that the init chain writes.
    pub(super) fn written_by_init(&self) -> Vec<Slot> {
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
            match graph.insts.op[inst] {
                Op::IF => self.branch(inst)?,
                Op::SCAN => self.scan(inst)?,
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
            if let Operand::Tensor(t) = self.graph.scalars.at(at)
                && !self.written[t.index()]
            {
                let e = Error::malformed(format!("slot {t} is an output of the body, which does not write it"));
                return Err(place(self.graph, inst, f::outputs)(e));
            }
        }
        self.write(inst, f::outputs)?;
        self.write(inst, f::carry)
    }
}
