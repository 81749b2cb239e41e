//! What each chain does to the slots that it shares with others, nested chains included.
//!
//! Slots that only one chain names need no set: liveness settles them while it walks that chain. The
//! sets have one column per *shared* temp, so they stay small however many slots a program has.

use crate::op::Access;
use crate::plan::steps::{Bracket, bracket};
use crate::program::{Graph, Home};
use crate::table::{BitRows, Chain, Col, Id, Inst, Slot};

/// Effects of chains and of the instructions that bracket them.
pub struct Effects {
    /// The column of a slot in the sets: its rank among shared temps.
    pub column: Col<Slot, Option<Slot>>,
    /// The slot of a column.
    pub shared: Vec<Slot>,
    /// The value at entry may be read.
    pub exposed: BitRows<Chain, Slot>,
    /// Some path writes it.
    pub may_write: BitRows<Chain, Slot>,
    /// Every path writes it.
    pub must_write: BitRows<Chain, Slot>,
    /// Row of a bracketing instruction in `live_after`.
    pub construct: Col<Inst, Option<Chain>>,
    /// Per bracketing instruction: shared slots whose value its own chain reads later.
    pub live_after: BitRows<Chain, Slot>,
}

/// The effects of one instruction, on shared columns.
struct Row {
    exposed: Vec<Slot>,
    may: Vec<Slot>,
    must: Vec<Slot>,
}

impl Effects {
    /// Computes the sets of every chain that `roots` reach.
    pub fn of(g: &Graph, roots: &[Chain]) -> Self {
        let shared = shared_temps(g);
        let mut column = Col::filled(None, g.tensors.len());
        for (i, &s) in shared.iter().enumerate() {
            column[s] = Some(Slot::new(i));
        }
        let mut construct = Col::filled(None, g.insts.op.len());
        let mut constructs = 0;
        for inst in g.insts.op.ids() {
            if bracket(g, inst) != Bracket::None {
                construct[inst] = Some(Chain::new(constructs));
                constructs += 1;
            }
        }
        let rows = || BitRows::new(g.chains.rows(), shared.len());
        let mut this = Self {
            exposed: rows(),
            may_write: rows(),
            must_write: rows(),
            live_after: BitRows::new(constructs, shared.len()),
            column,
            shared,
            construct,
        };
        let mut done = vec![false; g.chains.rows()];
        for &root in roots {
            this.chain(g, root, &mut done);
        }
        this
    }

    /// Fills the rows of `chain` after those of the chains that it brackets. `check` has made sure that
    /// chains nest without cycles and not too deep.
    fn chain(&mut self, g: &Graph, chain: Chain, done: &mut [bool]) {
        if std::mem::replace(&mut done[chain.index()], true) {
            return;
        }
        for &inst in &g.chains[chain] {
            match bracket(g, inst) {
                Bracket::None => {}
                Bracket::If(yes, no) => {
                    self.chain(g, yes, done);
                    self.chain(g, no, done);
                }
                Bracket::Scan(body) => self.chain(g, body, done),
            }
        }
        for &inst in &g.chains[chain] {
            let row = self.inst(g, inst);
            for s in row.exposed {
                if !self.must_write.get(chain, s) {
                    self.exposed.set(chain, s);
                }
            }
            row.may.iter().for_each(|&s| self.may_write.set(chain, s));
            row.must.iter().for_each(|&s| self.must_write.set(chain, s));
        }
        let mut live = vec![false; self.shared.len()];
        for &inst in g.chains[chain].iter().rev() {
            if let Some(row) = self.construct[inst] {
                (0..live.len()).filter(|&i| live[i]).for_each(|i| self.live_after.set(row, Slot::new(i)));
            }
            let row = self.inst(g, inst);
            row.must.iter().for_each(|s| live[s.index()] = false);
            row.exposed.iter().for_each(|s| live[s.index()] = true);
        }
    }

    /// The effects of an instruction whose nested chains are done.
    fn inst(&self, g: &Graph, inst: Inst) -> Row {
        let mut row = Row { exposed: Vec::new(), may: Vec::new(), must: Vec::new() };
        match bracket(g, inst) {
            Bracket::None => {}
            Bracket::If(yes, no) => {
                row.exposed.extend(self.exposed.ones(yes).chain(self.exposed.ones(no)));
                row.may.extend(self.may_write.ones(yes).chain(self.may_write.ones(no)));
                row.must.extend(self.must_write.ones(yes).filter(|&s| self.must_write.get(no, s)));
            }
            Bracket::Scan(body) => {
                // No iteration may run, so nothing in the body must be written.
                let set_before =
                    |s: &Slot| g.uses[inst].iter().any(|u| u.access == Access::Out && self.column[u.slot] == Some(*s));
                row.exposed.extend(self.exposed.ones(body).filter(|s| !set_before(s)));
                row.may.extend(self.may_write.ones(body));
            }
        }
        for u in &g.uses[inst] {
            let Some(s) = self.column[u.slot] else { continue };
            if u.access.reads() {
                row.exposed.push(s);
            }
            if u.access.writes() {
                row.may.push(s);
                row.must.push(s);
            }
        }
        row
    }

    /// The shared columns that the nested chains of a bracketing instruction name, ascending.
    pub fn named(&self, g: &Graph, inst: Inst) -> Vec<Slot> {
        let chains: &[Chain] = match bracket(g, inst) {
            Bracket::None => &[],
            Bracket::If(yes, no) => &[yes, no],
            Bracket::Scan(body) => &[body],
        };
        let of = |&c: &Chain| self.exposed.ones(c).chain(self.may_write.ones(c));
        let mut named: Vec<Slot> = chains.iter().flat_map(of).collect();
        named.sort_unstable();
        named.dedup();
        named
    }

    /// Bytes of the sets.
    pub fn table_bytes(&self) -> usize {
        let rows = [&self.exposed, &self.may_write, &self.must_write, &self.live_after];
        rows.iter().map(|r| r.bytes()).sum::<usize>()
            + self.column.len() * 8
            + self.shared.len() * 4
            + self.construct.len() * 8
    }

    /// Whether the nested chains of a bracketing instruction may read the value that `column` has before it.
    pub fn construct_exposes(&self, g: &Graph, inst: Inst, column: Slot) -> bool {
        match bracket(g, inst) {
            Bracket::None => false,
            Bracket::If(yes, no) => self.exposed.get(yes, column) || self.exposed.get(no, column),
            Bracket::Scan(body) => self.exposed.get(body, column),
        }
    }
    /// Whether they may write it.
    pub fn construct_may_write(&self, g: &Graph, inst: Inst, column: Slot) -> bool {
        match bracket(g, inst) {
            Bracket::None => false,
            Bracket::If(yes, no) => self.may_write.get(yes, column) || self.may_write.get(no, column),
            Bracket::Scan(body) => self.may_write.get(body, column),
        }
    }
    /// Whether they write it on every path.
    pub fn construct_must_write(&self, g: &Graph, inst: Inst, column: Slot) -> bool {
        match bracket(g, inst) {
            Bracket::None | Bracket::Scan(_) => false,
            Bracket::If(yes, no) => self.must_write.get(yes, column) && self.must_write.get(no, column),
        }
    }
}

/// Temps that more than one chain names.
fn shared_temps(g: &Graph) -> Vec<Slot> {
    const NOBODY: u32 = u32::MAX;
    let mut owner: Col<Slot, u32> = Col::filled(NOBODY, g.tensors.len());
    let mut shared = vec![false; g.tensors.len()];
    for c in 0..g.chains.rows() {
        for &inst in &g.chains[Chain::new(c)] {
            for u in &g.uses[inst] {
                let who = &mut owner[u.slot];
                shared[u.slot.index()] |= *who != NOBODY && *who != c as u32;
                *who = c as u32;
            }
        }
    }
    (0..g.tensors.len()).map(Slot::new).filter(|&s| shared[s.index()] && g.tensors.home(s) == Home::Temp).collect()
}
