//! From slots to lives: for each value that a slot takes, when it is made, when it is last needed,
//! what it may look into and whose memory it may take over. After this nobody says slot.
//!
//! The walk goes over the timeline once. A write to a temp begins a life unless the slot is *pinned*:
//! an enclosing IF or SCAN shares the slot with the world outside, so every write inside must land in
//! the one life that both sides know. Which slots those are is read off [`Effects`].

use crate::error::{Error, Result};
use crate::kernel::{Alias, Contiguity};
use crate::op::{Access, Field, fields};
use crate::plan::effects::Effects;
use crate::plan::steps::{StepKind, Steps};
use crate::program::{Graph, Home};
use crate::table::{Chain, Col, Csr, Id, Inst, Life, Slot, Step};

/// Lives of a timeline. The first lives are those of the slots that are no temps, in slot order.
#[derive(Debug, Default)]
pub struct Lives {
    /// The slot whose value this is; `None` for kernel scratch.
    pub slot: Col<Life, Option<Slot>>,
    /// Where its memory is.
    pub home: Col<Life, Home>,
    /// The step from which it has memory: the one that makes it, or the first for what exists before the run.
    pub born: Col<Life, Step>,
    /// The last step at which its memory is needed, views of it included.
    pub dies: Col<Life, Step>,
    /// The life whose memory a view looks into.
    pub base: Col<Life, Option<Life>>,
    /// A life that ends where this one begins and whose memory this one may take over.
    pub share: Col<Life, Option<Life>>,
    /// It takes over that memory with its contents: the op updates a part only.
    pub inherits: Col<Life, bool>,
    /// More than one step may write it.
    pub merged: Col<Life, bool>,
    /// Lives behind the uses of each step's instruction, in the order of its uses.
    pub of_use: Csr<Step, Life>,
    /// Scratch of each step's kernel.
    pub scratch: Csr<Step, Life>,
    /// Per step: a life that the kernel writes in place of one that it also reads, and that one.
    pub stages: Csr<Step, (Life, Life)>,
    /// Per step: temps that nothing needs any more once the step is over.
    pub release: Csr<Step, Life>,
}

/// An IF or SCAN that the walk is inside of.
struct Frame {
    end: Step,
    pinned: Vec<Slot>,
    /// SCAN outputs: the slot and the life that holds the stacked result.
    stacked: Vec<(Slot, Life)>,
}

struct Builder<'a> {
    g: &'a Graph,
    steps: &'a Steps,
    effects: &'a Effects,
    out: Lives,
    /// Last direct use.
    last: Col<Life, Step>,
    depth: Col<Life, u32>,
    parent: Col<Life, Option<Life>>,
    row_major: Col<Life, bool>,
    current: Col<Slot, Option<Life>>,
    pinned: Col<Slot, bool>,
    frames: Vec<Frame>,
    writes: Vec<(Life, Step)>,
    /// Outputs that may take over an input's memory.
    heirs: Vec<(Life, Life, bool)>,
    row: Vec<Life>,
}

impl Lives {
    /// The lives of a timeline.
    ///
    /// # Errors
    /// When a temp is read that nothing wrote.
    pub fn of(g: &Graph, steps: &Steps, effects: &Effects) -> Result<Self> {
        let mut b = Builder {
            g,
            steps,
            effects,
            out: Self::default(),
            last: Col::default(),
            depth: Col::default(),
            parent: Col::default(),
            row_major: Col::default(),
            current: Col::filled(None, g.tensors.len()),
            pinned: Col::filled(false, g.tensors.len()),
            frames: Vec::new(),
            writes: Vec::new(),
            heirs: Vec::new(),
            row: Vec::new(),
        };
        for s in (0..g.tensors.first[4]).map(Slot) {
            let life = b.life(Some(s), g.tensors.home(s), Step(0));
            b.current[s] = Some(life);
        }
        for step in steps.kind.ids() {
            b.step(step)?;
        }
        Ok(b.finish())
    }

    /// Number of lives.
    pub fn len(&self) -> usize {
        self.slot.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slot.is_empty()
    }
    /// The life of a slot that is no temp.
    pub fn of_slot(slot: Slot) -> Life {
        Life(slot.0)
    }
    /// Bytes of the liveness and release tables.
    pub fn table_bytes(&self) -> usize {
        self.len() * (8 + 1 + 4 + 4 + 8 + 8 + 1)
            + self.of_use.bytes()
            + self.scratch.bytes()
            + self.stages.bytes()
            + self.release.bytes()
    }
}

impl Builder<'_> {
    fn life(&mut self, slot: Option<Slot>, home: Home, born: Step) -> Life {
        self.out.slot.push(slot);
        self.out.home.push(home);
        self.out.born.push(born);
        self.out.base.push(None);
        self.out.share.push(None);
        self.out.merged.push(false);
        self.out.inherits.push(false);
        self.depth.push(self.frames.len() as u32);
        self.parent.push(None);
        self.row_major.push(true);
        self.last.push(born)
    }

    /// The life is needed at `step`; one made outside of a construct is needed until its end.
    fn touch(&mut self, life: Life, step: Step) {
        let until = self.frames.get(self.depth[life] as usize).map_or(step, |f| f.end);
        self.last[life] = self.last[life].max(until);
    }

    fn step(&mut self, step: Step) -> Result<()> {
        let inst = self.steps.inst[step];
        self.row.clear();
        match self.steps.kind[step] {
            StepKind::Op => self.op(step, inst)?,
            StepKind::If => self.open_if(step, inst)?,
            StepKind::Scan => self.open_scan(step, inst)?,
            StepKind::Else => {}
            StepKind::EndIf => self.close(),
            StepKind::EndScan => self.close_scan(step, inst),
        }
        for &life in &self.row {
            self.out.of_use.push(life);
        }
        self.out.of_use.end_row();
        self.out.scratch.end_row();
        self.out.stages.end_row();
        Ok(())
    }

    fn value(&self, inst: Inst, slot: Slot) -> Result<Life> {
        self.current[slot].ok_or_else(|| {
            Error::malformed(format!("slot {slot} is read, and nothing wrote it before")).at(self.g.describe(inst))
        })
    }

    fn op(&mut self, step: Step, inst: Inst) -> Result<()> {
        let g = self.g;
        let uses = &g.uses[inst];
        let kernel = g.insts.op[inst].row().kernel;
        self.row.resize(uses.len(), Life(0));
        for (i, u) in uses.iter().enumerate().filter(|(_, u)| u.access.reads()) {
            let life = self.value(inst, u.slot)?;
            self.row[i] = life;
            self.touch(life, step);
            if u.access.writes() {
                self.writes.push((life, step));
            }
        }
        for (i, u) in uses.iter().enumerate().filter(|(_, u)| u.access == Access::Out) {
            self.row[i] = self.written(step, kernel.alias, uses, i, u.slot);
        }
        if !uses.is_empty() {
            self.alias(kernel.alias, inst);
        }
        for _ in 0..kernel.scratch {
            let life = self.life(None, Home::Temp, step);
            self.out.scratch.push(life);
        }
        Ok(())
    }

    /// The life that output number `i` is written to.
    fn written(&mut self, step: Step, alias: Alias, uses: &[crate::program::Use], i: usize, slot: Slot) -> Life {
        let known =
            if self.g.tensors.home(slot) == Home::Temp && !self.pinned[slot] { None } else { self.current[slot] };
        let Some(life) = known else {
            let life = self.life(Some(slot), Home::Temp, step);
            self.current[slot] = Some(life);
            return life;
        };
        let (reads, free): (Vec<usize>, Option<Field>) = (
            (0..uses.len()).filter(|&k| uses[k].access.reads() && self.row[k] == life).collect(),
            match alias {
                Alias::Update(dst) => Some(dst),
                Alias::View(x, Contiguity::Same) => Some(x),
                _ => None,
            },
        );
        if reads.iter().any(|&k| Some(uses[k].field) == free) && matches!(alias, Alias::View(..)) {
            return life;
        }
        self.touch(life, step);
        self.writes.push((life, step));
        if reads.iter().any(|&k| Some(uses[k].field) != free) {
            let stage = self.life(Some(slot), Home::Temp, step);
            self.out.stages.push((stage, life));
            let _ = i;
            return stage;
        }
        life
    }

    /// Notes what the outputs of the step in `row` may share with its inputs.
    fn alias(&mut self, alias: Alias, inst: Inst) {
        let uses = &self.g.uses[inst];
        let of = |field: Field| uses.iter().position(|u| u.field == field);
        let outs: Vec<usize> = (0..uses.len()).filter(|&i| uses[i].access == Access::Out).collect();
        let fresh = |b: &Self, o: Life| b.out.home[o] == Home::Temp && !b.out.merged[o] && b.last[o] == b.out.born[o];
        match alias {
            Alias::View(x, contiguity) => {
                let Some(x) = of(x).map(|i| self.row[i]) else { return };
                self.view(x, contiguity, &outs);
            }
            Alias::ViewUnlessTensor { of: x, contiguity, index } => {
                let Some(x) = of(x).map(|i| self.row[i]) else { return };
                if of(index).is_none() {
                    self.view(x, contiguity, &outs);
                }
            }
            Alias::Elementwise => {
                for &o in &outs {
                    for k in (0..uses.len()).filter(|&k| uses[k].access.reads()) {
                        if fresh(self, self.row[o]) {
                            self.heirs.push((self.row[o], self.row[k], false));
                        }
                    }
                }
            }
            Alias::Update(dst) => {
                if let (Some(d), Some(&o)) = (of(dst), outs.first())
                    && fresh(self, self.row[o])
                {
                    self.heirs.push((self.row[o], self.row[d], true));
                }
            }
            Alias::Fresh | Alias::Host | Alias::Control => {}
        }
    }

    fn view(&mut self, x: Life, contiguity: Contiguity, outs: &[usize]) {
        let dense = self.row_major[x];
        let possible = dense || !matches!(contiguity, Contiguity::Needs | Contiguity::NeedsThenBreaks);
        for &o in outs {
            let out = self.row[o];
            let slot = self.out.slot[out];
            let plain = self.out.home[out] == Home::Temp
                && slot.is_some_and(|s| !self.pinned[s] && self.current[s] == Some(out));
            if possible && plain {
                self.parent[out] = Some(x);
                self.row_major[out] = match contiguity {
                    Contiguity::Keeps | Contiguity::Same => dense,
                    Contiguity::Needs => true,
                    Contiguity::Breaks | Contiguity::NeedsThenBreaks => false,
                };
            }
        }
    }

    fn pin(&mut self, slot: Slot, life: Life, merged: bool, pinned: &mut Vec<Slot>) {
        self.current[slot] = Some(life);
        if merged {
            // Several steps write it, so it needs memory of its own: no view of another's.
            self.out.merged[life] = true;
            self.parent[life] = None;
        }
        if !std::mem::replace(&mut self.pinned[slot], true) {
            pinned.push(slot);
        }
    }

    /// Pins what the nested chains of `inst` share with their surroundings.
    fn pin_shared(&mut self, step: Step, inst: Inst, end: Step, pinned: &mut Vec<Slot>) -> Result<()> {
        let e = self.effects;
        for column in e.named(self.g, inst) {
            let slot = e.shared[column.index()];
            let exposed = e.construct_exposes(self.g, inst, column);
            let written = e.construct_may_write(self.g, inst, column);
            if self.pinned[slot] {
                if let Some(l) = self.current[slot] {
                    self.last[l] = self.last[l].max(end);
                }
                continue;
            }
            let set_here = self.g.uses[inst].iter().any(|u| u.slot == slot && u.access == Access::Out);
            if set_here {
                continue;
            }
            let later = e.live_after.get(e.construct[inst].unwrap_or(Chain(0)), column);
            if exposed
                || (written && later && !e.construct_must_write(self.g, inst, column) && self.current[slot].is_some())
            {
                let life = self.value(inst, slot)?;
                self.last[life] = self.last[life].max(end);
                self.pin(slot, life, written, pinned);
            } else if written && later {
                let life = self.life(Some(slot), Home::Temp, step);
                self.last[life] = end;
                self.pin(slot, life, true, pinned);
            }
        }
        Ok(())
    }

    fn open_if(&mut self, step: Step, inst: Inst) -> Result<()> {
        let end = self.steps.twin[self.steps.twin[step]];
        let mut pinned = Vec::new();
        self.pin_shared(step, inst, end, &mut pinned)?;
        for u in &self.g.uses[inst] {
            let life = self.value(inst, u.slot)?;
            self.touch(life, step);
            self.row.push(life);
        }
        self.frames.push(Frame { end, pinned, stacked: Vec::new() });
        Ok(())
    }

    fn open_scan(&mut self, step: Step, inst: Inst) -> Result<()> {
        let g = self.g;
        let end = self.steps.twin[step];
        let mut pinned = Vec::new();
        self.pin_shared(step, inst, end, &mut pinned)?;
        let uses = &g.uses[inst];
        let named = |field: Field| uses.iter().enumerate().filter(move |(_, u)| u.field == field);
        self.row.resize(uses.len(), Life(0));
        for (i, u) in uses.iter().enumerate().filter(|(_, u)| u.access.reads()) {
            let life = self.value(inst, u.slot)?;
            self.last[life] = self.last[life].max(end);
            self.row[i] = life;
        }
        // Stacked results are made here; iterations write lives of their own.
        let mut stacked = Vec::new();
        for (i, u) in named(fields::scan::outputs) {
            let outer =
                if g.tensors.home(u.slot) == Home::Temp && !self.pinned[u.slot] { None } else { self.current[u.slot] };
            let life = outer.unwrap_or_else(|| self.life(Some(u.slot), Home::Temp, step));
            self.writes.push((life, end));
            self.row_major[life] = false;
            self.out.merged[life] = true;
            self.last[life] = self.last[life].max(end);
            self.row[i] = life;
            stacked.push((u.slot, life));
        }
        for (_, u) in named(fields::scan::carry) {
            let life = self.value(inst, u.slot)?;
            self.pin(u.slot, life, true, &mut pinned);
        }
        let carried = |slot: Slot| uses.iter().any(|u| u.field == fields::scan::carry && u.slot == slot);
        self.frames.push(Frame { end, pinned, stacked });
        let mut inner = Vec::new();
        for (i, u) in named(fields::scan::sliced) {
            let life = self.life(Some(u.slot), Home::Temp, step);
            self.row_major[life] = false;
            self.parent[life] = uses.iter().position(|o| o.field == fields::scan::originals).and_then(|first| {
                let nth = i - uses.iter().position(|o| o.field == fields::scan::sliced)?;
                self.row.get(first + nth).copied()
            });
            self.pin(u.slot, life, false, &mut inner);
            self.row[i] = life;
        }
        for (_, u) in named(fields::scan::outputs).filter(|(_, u)| !carried(u.slot)) {
            let life = self.life(Some(u.slot), Home::Temp, step);
            self.pin(u.slot, life, true, &mut inner);
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.pinned.extend(inner);
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some(frame) = self.frames.pop() {
            for slot in frame.pinned {
                self.pinned[slot] = false;
            }
            for (slot, life) in frame.stacked {
                self.current[slot] = Some(life);
            }
        }
    }

    fn close_scan(&mut self, step: Step, inst: Inst) {
        for (i, u) in self.g.uses[inst].iter().enumerate() {
            let opened = self.out.of_use[self.steps.twin[step]][i];
            let life = if u.field == fields::scan::outputs { self.current[u.slot].unwrap_or(opened) } else { opened };
            self.last[life] = self.last[life].max(step);
            self.row.push(life);
        }
        self.close();
    }

    /// An output takes memory from its first write on; from the beginning of the outermost SCAN around that, because
    /// every turn passes its steps again.
    fn outputs_begin(&mut self) {
        let mut outermost: Vec<Step> = Vec::with_capacity(self.steps.len());
        let mut open: Option<(Step, Step)> = None;
        for (step, &kind) in self.steps.kind.iter() {
            if open.is_none() && kind == StepKind::Scan {
                open = Some((step, self.steps.twin[step]));
            }
            outermost.push(open.map_or(step, |o| o.0));
            open = open.filter(|o| o.1 != step);
        }
        let mut seen = None;
        for &(life, step) in &self.writes {
            if self.out.home[life] == Home::Output && seen != Some(life) {
                self.out.born[life] = outermost[step.index()];
                seen = Some(life);
            }
        }
    }

    fn finish(mut self) -> Lives {
        self.writes.sort_unstable();
        self.outputs_begin();
        let ends = |parent: &Col<Life, Option<Life>>, last: &Col<Life, Step>| {
            let mut dies = last.clone();
            for v in last.ids().rev() {
                if let Some(p) = parent[v] {
                    dies[p] = dies[p].max(dies[v]);
                }
            }
            dies
        };
        // A view of memory that is overwritten while the view is needed is a copy instead.
        let dies = ends(&self.parent, &self.last);
        for v in self.last.ids() {
            let Some(p) = self.parent[v] else { continue };
            let root = self.out.base[p].unwrap_or(p);
            let from = self.writes.partition_point(|&w| w <= (root, self.out.born[v]));
            if self.writes.get(from).is_some_and(|&(l, s)| l == root && s <= dies[v]) {
                self.parent[v] = None;
            } else {
                self.out.base[v] = Some(root);
            }
        }
        self.out.dies = ends(&self.parent, &self.last);
        let mut taken = vec![false; self.out.len()];
        for &(heir, from, contents) in &self.heirs {
            let temp = self.out.home[from] == Home::Temp && !self.out.merged[from] && self.out.base[from].is_none();
            let ends_here = self.out.dies[from] == self.out.born[heir] && self.out.born[from] < self.out.born[heir];
            let same_depth = self.depth[from] == self.depth[heir];
            if temp && ends_here && same_depth && !taken[from.index()] && self.out.share[heir].is_none() {
                self.out.share[heir] = Some(from);
                self.out.inherits[heir] = contents;
                taken[from.index()] = true;
            }
        }
        let mut pairs: Vec<(Step, Life)> =
            self.out.dies.iter().filter(|(l, _)| self.out.home[*l] == Home::Temp).map(|(l, &s)| (s, l)).collect();
        pairs.sort_unstable();
        self.out.release = Csr::from_pairs(self.steps.len(), &pairs);
        self.out
    }
}
