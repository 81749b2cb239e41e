//! An independent checker of plans: it replays a program with tagged bytes.
//!
//! By the semantics of slots every value is immutable and a read must see the value that the slot was
//! last given. The checker keeps that in its own table, walks the chains itself, and takes from the
//! plan only addresses: of each use's life, and of what is released when. Memory is a map from bytes to
//! the tag of the value that was written there. Every read demands its value's tag on all its bytes.

use std::collections::HashMap;

use lowtide::kernel::{Alias, Contiguity};
use lowtide::op::{Access, Field, Op, fields};
use lowtide::plan::{Placed, Timeline};
use lowtide::program::{Graph, Home, Operand};
use lowtide::table::{Chain, Id, Inst, Life, Slot, Step};

/// A value of a slot: the tag that its bytes carry, and the tensor whose memory they are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Value {
    tag: u64,
    /// The life that the plan says the value is in.
    life: Life,
}

const FREED: u64 = u64::MAX;

/// Which branch each IF takes and how often each SCAN turns.
pub struct Path<'a> {
    pub branch: &'a mut dyn FnMut() -> bool,
    pub turns: usize,
}

pub struct Checker<'a> {
    g: &'a Graph,
    t: &'a Timeline,
    placed: &'a Placed,
    values: HashMap<Slot, Value>,
    /// Arena bytes in units of 4.
    arena: Vec<u64>,
    /// Whole tensors that live elsewhere.
    outside: HashMap<Life, u64>,
    next_tag: u64,
    pub reads: usize,
    pub releases: usize,
}

impl<'a> Checker<'a> {
    /// Replays `g`'s main chain along a path.
    pub fn run(g: &'a Graph, t: &'a Timeline, placed: &'a Placed, path: &mut Path<'_>) -> Result<Self, String> {
        let mut c = Self {
            g,
            t,
            placed,
            values: HashMap::new(),
            arena: vec![FREED; placed.places.arena_bytes as usize / 4 + 4],
            outside: HashMap::new(),
            next_tag: 1,
            reads: 0,
            releases: 0,
        };
        for slot in (0..g.tensors.first[4]).map(Slot) {
            let life = Life(slot.0);
            let tag = c.tag();
            if g.tensors.home(slot) != Home::Output {
                c.write(life, tag);
            }
            c.values.insert(slot, Value { tag, life });
        }
        let mut at = 0;
        c.chain(g.main, &mut at, path)?;
        if at != t.steps.len() {
            return Err(format!("the timeline has {} steps, the chains unfold to {at}", t.steps.len()));
        }
        for slot in g.tensors.of(Home::Output).map(Slot) {
            // An output that no step of the plan writes has no memory.
            if placed.bytes[Life(slot.0)] > 0 && c.values[&slot].life == Life(slot.0) {
                c.demand(c.values[&slot], Life(slot.0), "the result", slot).or_else(|e| {
                    // An output that no step of this path wrote has no value to demand.
                    if c.outside.contains_key(&Life(slot.0)) { Err(e) } else { Ok(()) }
                })?;
            }
        }
        Ok(c)
    }

    fn tag(&mut self) -> u64 {
        self.next_tag += 1;
        self.next_tag
    }

    fn root(&self, life: Life) -> Life {
        self.t.lives.base[life].unwrap_or(life)
    }

    fn range(&self, life: Life) -> Option<std::ops::Range<usize>> {
        let root = self.root(life);
        if matches!(self.t.lives.home[root], Home::Constant | Home::Mutable) {
            return None;
        }
        let bytes = lowtide::plan::sizes::extent_bytes(&self.placed.sizes.views[root]) as usize;
        let at = self.placed.places.offset[root] as usize / 4;
        Some(at..at + bytes.div_ceil(4))
    }

    fn write(&mut self, life: Life, tag: u64) {
        match self.range(life) {
            Some(r) => self.arena[r].fill(tag),
            None => {
                let root = self.root(life);
                self.outside.insert(root, tag);
            }
        }
    }

    fn demand(&self, v: Value, life: Life, what: &str, slot: Slot) -> Result<(), String> {
        if v.life != life {
            return Err(format!("{what}: slot {slot} is in {} by its last write, the plan reads {life}", v.life));
        }
        let bad = match self.range(life) {
            Some(r) => {
                self.arena[r.clone()].iter().position(|&t| t != v.tag).map(|i| (r.start + i, self.arena[r.start + i]))
            }
            None => self.outside.get(&self.root(life)).filter(|&&t| t != v.tag).map(|&t| (0, t)),
        };
        match bad {
            None => Ok(()),
            Some((_, FREED)) => Err(format!("{what} reads slot {slot} ({life}) after its memory was released")),
            Some((at, tag)) => {
                Err(format!("{what} reads slot {slot} ({life}): word {at} holds value {tag}, not value {}", v.tag))
            }
        }
    }

    fn chain(&mut self, chain: Chain, at: &mut usize, path: &mut Path<'_>) -> Result<(), String> {
        let insts = self.g.chains[chain].to_vec();
        for inst in insts {
            let step = Step::new(*at);
            *at += 1;
            let op = self.g.insts.op[inst];
            if op == Op::IF {
                self.branch(inst, step, at, path)?;
            } else if op == Op::SCAN {
                self.scan(inst, step, at, path)?;
            } else {
                self.op(inst, step)?;
                self.release(step);
            }
        }
        Ok(())
    }

    fn literal(&self, inst: Inst, field: Field) -> usize {
        match self.g.operands(inst, field).next().map(|i| self.g.scalars.at(i)) {
            Some(Operand::Int(v)) => v as usize,
            _ => 0,
        }
    }

    /// Steps that a chain unfolds to.
    fn length(&self, chain: Chain) -> usize {
        self.g.chains[chain]
            .iter()
            .map(|&i| match self.g.insts.op[i] {
                op if op == Op::IF => {
                    3 + self.length(Chain::new(self.literal(i, fields::if_::then_chain_idx)))
                        + self.length(Chain::new(self.literal(i, fields::if_::else_chain_idx)))
                }
                op if op == Op::SCAN => 2 + self.length(Chain::new(self.literal(i, fields::scan::body_chain_idx))),
                _ => 1,
            })
            .sum()
    }

    fn branch(&mut self, inst: Inst, step: Step, at: &mut usize, path: &mut Path<'_>) -> Result<(), String> {
        self.release(step);
        let yes = Chain::new(self.literal(inst, fields::if_::then_chain_idx));
        let no = Chain::new(self.literal(inst, fields::if_::else_chain_idx));
        let take = (path.branch)();
        if take {
            self.chain(yes, at, path)?;
        } else {
            *at += self.length(yes);
        }
        *at += 1;
        if take {
            *at += self.length(no);
        } else {
            self.chain(no, at, path)?;
        }
        let end = Step::new(*at);
        *at += 1;
        self.release(end);
        Ok(())
    }

    fn scan(&mut self, inst: Inst, step: Step, at: &mut usize, path: &mut Path<'_>) -> Result<(), String> {
        use fields::scan as f;
        let uses = self.g.uses[inst].to_vec();
        let row = self.t.lives.of_use[step].to_vec();
        let of = |field: Field| (0..uses.len()).filter(|&i| uses[i].field == field).collect::<Vec<_>>();
        let body = Chain::new(self.literal(inst, f::body_chain_idx));
        let stacked: Vec<u64> = of(f::outputs).iter().map(|_| self.tag()).collect();
        for i in of(f::originals).into_iter().chain(of(f::carry)) {
            let v = self.read_slot(uses[i].slot)?;
            self.demand(v, row[i], "SCAN", uses[i].slot)?;
            self.reads += 1;
        }
        let originals: Vec<Value> = of(f::originals).iter().map(|&i| self.values[&uses[i].slot]).collect();
        self.release(step);
        let start = *at;
        let end = Step::new(start + self.length(body));
        let end_row = self.t.lives.of_use[end].to_vec();
        for turn in 0..path.turns {
            *at = start;
            for (original, &i) in originals.iter().zip(&of(f::sliced)) {
                // Each turn reads the originals as they were before the loop.
                self.demand(*original, original.life, "a slice", uses[i].slot)?;
                let tag = if self.t.lives.base[row[i]].is_some() {
                    original.tag
                } else {
                    let tag = self.tag();
                    self.write(row[i], tag);
                    tag
                };
                self.values.insert(uses[i].slot, Value { tag, life: row[i] });
            }
            self.chain(body, at, path)?;
            for (k, &i) in of(f::outputs).iter().enumerate() {
                let v = self.read_slot(uses[i].slot)?;
                self.demand(v, end_row[i], "the end of a SCAN's turn", uses[i].slot)?;
                if turn == 0 {
                    self.write(row[i], stacked[k]);
                } else {
                    self.demand(Value { tag: stacked[k], life: row[i] }, row[i], "a SCAN's results", uses[i].slot)?;
                }
            }
        }
        *at = end.index() + 1;
        for (k, &i) in of(f::outputs).iter().enumerate() {
            if path.turns == 0 {
                self.write(row[i], stacked[k]);
            }
            self.values.insert(uses[i].slot, Value { tag: stacked[k], life: row[i] });
        }
        self.release(end);
        Ok(())
    }

    fn read_slot(&self, slot: Slot) -> Result<Value, String> {
        self.values.get(&slot).copied().ok_or_else(|| format!("slot {slot} has no value"))
    }

    fn op(&mut self, inst: Inst, step: Step) -> Result<(), String> {
        let uses = self.g.uses[inst].to_vec();
        let row = self.t.lives.of_use[step].to_vec();
        let what = self.g.describe(inst);
        for (u, &life) in uses.iter().zip(&row).filter(|(u, _)| u.access.reads()) {
            let v = self.read_slot(u.slot)?;
            self.demand(v, life, &what, u.slot)?;
            self.reads += 1;
        }
        let kernel = self.g.insts.op[inst].row().kernel;
        // Scratch is written before the outputs are.
        for &life in self.t.lives.scratch[step].to_vec().iter() {
            let tag = self.tag();
            self.write(life, tag);
        }
        for (u, &life) in uses.iter().zip(&row).filter(|(u, _)| u.access.reads()) {
            if !self.t.lives.scratch[step].is_empty() {
                self.demand(self.values[&u.slot], life, &format!("{what}, beside its scratch"), u.slot)?;
            }
        }
        let stages = self.t.lives.stages[step].to_vec();
        let outs: Vec<(Slot, Life)> =
            uses.iter().zip(&row).filter(|(u, _)| u.access == Access::Out).map(|(u, &l)| (u.slot, l)).collect();
        let x = self.viewed(kernel.alias, &uses, inst);
        for &(slot, life) in &outs {
            let last = stages.iter().find(|&&(stage, _)| stage == life).map_or(life, |&(_, l)| l);
            let same = matches!(kernel.alias, Alias::View(_, Contiguity::Same));
            let value = match x {
                Some(v) if self.t.lives.base[life].is_some() || (same && v.life == life) => Value { tag: v.tag, life },
                _ => {
                    let tag = self.tag();
                    self.write(life, tag);
                    if last != life {
                        self.write(last, tag);
                    }
                    Value { tag, life: last }
                }
            };
            self.values.insert(slot, value);
        }
        Ok(())
    }

    /// The value that a view op looks at.
    fn viewed(&self, alias: Alias, uses: &[lowtide::program::Use], _: Inst) -> Option<Value> {
        let field = match alias {
            Alias::View(x, _) => x,
            Alias::ViewUnlessTensor { of, index, .. } if !uses.iter().any(|u| u.field == index) => of,
            _ => return None,
        };
        uses.iter().find(|u| u.field == field).map(|u| self.values[&u.slot])
    }

    /// Frees what the plan releases here: bytes that still carry the value's tag.
    fn release(&mut self, step: Step) {
        for &life in &self.t.lives.release[step] {
            self.releases += 1;
            if self.t.lives.base[life].is_some() {
                continue;
            }
            let heir_lives = self.t.lives.share.iter().any(|(heir, &from)| {
                from == Some(life)
                    && self.t.lives.born[heir] == step
                    && self.placed.places.offset[heir] == self.placed.places.offset[life]
                    && self.t.lives.dies[heir] > step
            });
            if let (Some(r), false) = (self.range(life), heir_lives) {
                self.arena[r].fill(FREED);
            }
        }
    }
}
