//! What every tensor is: the walk that evaluates shape rules and host scalars along the timeline.
//!
//! The same walk plans (at given argument shapes, with scalars that depend on data unknown, so that
//! sizes are upper bounds) and runs (with everything known). A [`Sink`] decides what a step does.

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::kernel::call::{Facts, HostData, Known};
use crate::kernel::{Alias, Call, Dims, Outs, Strides, Value, View, axis};
use crate::op::{Access, fields};
use crate::plan::lives::Lives;
use crate::plan::steps::{StepKind, Steps};
use crate::plan::tail::{Tail, last_row};
use crate::program::{DimBound, Graph, Home, Operand};
use crate::table::{Col, Inst, Life, Slot, Step, Vid};

/// Tensors and scalars during a walk.
#[derive(Default, Clone, Debug)]
pub struct Sizes {
    /// The tensor of each life, as its last writer left it.
    pub views: Col<Life, View>,
    /// What the host knows of its contents.
    pub known: Col<Life, Known>,
    /// Whether its sizes are upper bounds.
    pub inexact: Col<Life, bool>,
    /// Host scalars.
    pub values: Col<Vid, Value>,
}

/// What a walk does at its steps.
pub trait Sink {
    /// A life's tensor is known.
    fn sized(&mut self, life: Life, view: &View, inexact: bool) -> Result<()>;
    /// An instruction with work to do.
    fn op(&mut self, step: Step, call: &Call<'_>) -> Result<()>;
    /// A row-major copy from one tensor to another of the same count and dtype.
    fn copy(&mut self, step: Step, from: (Life, &View), to: (Life, &View)) -> Result<()>;
    /// The element of a one-element tensor that only the device knows; `None` when planning.
    fn read(&mut self, step: Step, life: Life, view: &View) -> Result<Option<i64>>;
    /// Whether this walk plans.
    fn plans(&self) -> bool;
}

/// An argument of the graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A tensor of these sizes.
    Tensor(Dims),
    /// A host scalar.
    Scalar(Value),
}

struct Loop {
    open: Step,
    turn: usize,
    turns: usize,
}

/// A walk along the timeline.
pub struct Walk<'a, S> {
    g: &'a Graph,
    steps: &'a Steps,
    lives: &'a Lives,
    sizes: &'a mut Sizes,
    host: &'a dyn HostData,
    /// Where steps go.
    pub sink: S,
    /// Where rows that nobody wants are left out.
    pub tail: Option<Tail>,
    outs: Outs,
    loops: SmallVec<[Loop; 4]>,
    /// Open IFs whose both branches are walked.
    both: SmallVec<[Step; 4]>,
    /// Inside a SCAN without iterations: sizes only.
    dry: usize,
}

impl Sizes {
    /// Readies the tables for a walk: what exists before it. `made` are constants as the init chain left them,
    /// which may be other than the file declares.
    ///
    /// # Errors
    /// When an argument does not fit the file's bounds.
    pub fn begin(&mut self, g: &Graph, lives: &Lives, made: &[(Slot, View)], args: &[Argument]) -> Result<()> {
        let empty = View::contiguous(crate::dtype::DType::U8, &[0]);
        if self.views.len() != lives.len() {
            self.views = Col::filled(empty, lives.len());
        }
        self.known = Col::filled(Known::No, lives.len());
        self.inexact = Col::filled(false, lives.len());
        self.values = Col::filled(Value::Unknown, g.values as usize);
        for slot in (0..g.tensors.first[4]).map(Slot) {
            let home = g.tensors.home(slot);
            if home == Home::Input {
                continue;
            }
            let dims: Dims = g.tensors.dims[slot].iter().map(|d| d.max.unwrap_or(d.min) as usize).collect();
            if let Some(dtype) = g.tensors.dtype[slot] {
                self.views[Lives::of_slot(slot)] = View::contiguous(dtype, &dims);
            }
        }
        for (slot, view) in made {
            self.views[Lives::of_slot(*slot)] = view.clone();
        }
        if args.len() != g.inputs.len() {
            return Err(Error::input(format!("{} arguments for {} inputs", args.len(), g.inputs.len())));
        }
        for (i, (port, arg)) in g.inputs.iter().zip(args).enumerate() {
            self.argument(g, i, *port, arg).map_err(|e| e.at(format!("input {i}")))?;
        }
        Ok(())
    }

    fn argument(&mut self, g: &Graph, i: usize, port: crate::program::Port, arg: &Argument) -> Result<()> {
        use crate::program::Port;
        match (port, arg) {
            (Port::Tensor(slot), Argument::Tensor(dims)) => {
                check_dims(&g.tensors.dims[slot], dims)?;
                let dtype = g.tensors.dtype[slot].ok_or_else(|| Error::malformed("the file gives no element type"))?;
                let view = View::contiguous(dtype, dims);
                if !dtype.is_float() {
                    self.known[Lives::of_slot(slot)] = Known::Input { port: i as u32, view: view.clone() };
                }
                self.views[Lives::of_slot(slot)] = view;
                Ok(())
            }
            (Port::Int(v) | Port::Bool(v) | Port::Float(v), Argument::Scalar(value)) => {
                self.values[v] = *value;
                Ok(())
            }
            (Port::Tensor(_), _) => Err(Error::input("a tensor is wanted, a scalar was given")),
            (_, Argument::Tensor(_)) => Err(Error::input("a scalar is wanted, a tensor was given")),
        }
    }
}

/// Checks sizes against the file's bounds, naming the dimension that does not fit. A lower bound of 2 is how
/// PyTorch's exporter writes "any size", because it treats 0 and 1 apart: it allows 1, which every decode step is.
///
/// # Errors
/// When the rank differs or a size is out of bounds.
pub fn check_dims(bounds: &[DimBound], dims: &[usize]) -> Result<()> {
    if bounds.len() != dims.len() {
        return Err(Error::input(format!(
            "rank {} (shape {dims:?}); the file wants rank {}",
            dims.len(),
            bounds.len()
        )));
    }
    for (i, (b, &d)) in bounds.iter().zip(dims).enumerate() {
        let too_big = b.max.is_some_and(|m| d > m as usize);
        let least = if b.min == 2 { 1 } else { b.min as usize };
        if d < least || too_big {
            let range = match b.max {
                Some(m) if m == b.min => format!("{m}"),
                Some(m) => format!("{}..={m}", b.min),
                None => format!("{} or more", b.min),
            };
            return Err(Error::input(format!("dimension {i} is {d}; the file allows {range}")));
        }
    }
    Ok(())
}

impl<'a, S: Sink> Walk<'a, S> {
    /// A walk over tables that [`Sizes::begin`] has readied.
    pub fn new(
        g: &'a Graph,
        steps: &'a Steps,
        lives: &'a Lives,
        sizes: &'a mut Sizes,
        host: &'a dyn HostData,
        sink: S,
    ) -> Self {
        Self {
            g,
            steps,
            lives,
            sizes,
            host,
            sink,
            tail: None,
            outs: Outs::default(),
            loops: SmallVec::new(),
            both: SmallVec::new(),
            dry: 0,
        }
    }

    /// Walks the whole timeline.
    ///
    /// # Errors
    /// What shape rules and the sink reject, with the instruction named.
    pub fn run(mut self) -> Result<S> {
        let mut at = 0u32;
        while (at as usize) < self.steps.len() {
            let step = Step(at);
            let inst = self.steps.inst[step];
            at = self.step(step, inst).map_err(|e| e.at(self.g.describe(inst)))?;
        }
        Ok(self.sink)
    }

    /// Does one step and says which is next.
    fn step(&mut self, step: Step, inst: Inst) -> Result<u32> {
        let next = step.0 + 1;
        Ok(match self.steps.kind[step] {
            StepKind::Op => {
                match self.tail.filter(|t| t.step == step) {
                    None => self.op(step, inst)?,
                    Some(Tail { input, .. }) => {
                        let row = last_row(&self.sizes.views[input]);
                        let whole = std::mem::replace(&mut self.sizes.views[input], row);
                        self.op(step, inst)?;
                        self.sizes.views[input] = whole;
                    }
                }
                next
            }
            StepKind::If => match self.condition(step, inst) {
                Some(c) if c != 0 => next,
                Some(_) => self.steps.twin[step].0 + 1,
                None if self.sink.plans() || self.dry > 0 => {
                    self.both.push(step);
                    next
                }
                None => return Err(Error::unsupported("the condition is not known on the host")),
            },
            StepKind::Else => {
                let end = self.steps.twin[step];
                if self.both.last() == Some(&self.steps.twin[end]) { next } else { end.0 }
            }
            StepKind::EndIf => {
                if self.both.last() == Some(&self.steps.twin[step]) {
                    self.both.pop();
                }
                next
            }
            StepKind::Scan => {
                self.open_scan(step, inst)?;
                next
            }
            StepKind::EndScan => {
                if self.end_turn(step, inst)? {
                    self.steps.twin[step].0 + 1
                } else {
                    next
                }
            }
        })
    }

    fn call<'c>(&'c self, step: Step, inst: Inst) -> Call<'c> {
        Call {
            graph: self.g,
            inst,
            lives: &self.lives.of_use[step],
            scratch: &self.lives.scratch[step],
            facts: Facts {
                views: &self.sizes.views,
                known: &self.sizes.known,
                base: &self.lives.base,
                values: &self.sizes.values,
                host: self.host,
            },
        }
    }

    fn condition(&self, step: Step, inst: Inst) -> Option<i64> {
        self.call(step, inst).maybe_int(fields::if_::cond)
    }

    fn op(&mut self, step: Step, inst: Inst) -> Result<()> {
        let kernel = self.g.insts.op[inst].row().kernel;
        let mut outs = std::mem::take(&mut self.outs);
        outs.clear();
        (kernel.shape)(&self.call(step, inst), &mut outs)?;
        let work = self.commit(step, inst, &mut outs)?;
        self.outs = outs;
        if self.dry > 0 || kernel.alias == Alias::Host {
            return Ok(());
        }
        if work {
            if let Alias::Update(dst) = kernel.alias {
                self.fill_update(step, inst, dst)?;
            }
            let call = call(self.g, self.lives, self.sizes, self.host, step, inst);
            self.sink.op(step, &call)?;
        }
        for &(stage, last) in &self.lives.stages[step] {
            let view = View::contiguous(self.sizes.views[stage].dtype, &self.sizes.views[stage].dims);
            self.sizes.views[last] = view;
            self.sink.sized(last, &self.sizes.views[last], self.sizes.inexact[stage])?;
            self.sink.copy(step, (stage, &self.sizes.views[stage]), (last, &self.sizes.views[last]))?;
        }
        Ok(())
    }

    /// Writes what a shape rule found into the tables. Whether an output with memory of its own has elements.
    fn commit(&mut self, step: Step, inst: Inst, outs: &mut Outs) -> Result<bool> {
        let row = &self.lives.of_use[step];
        let inexact =
            outs.inexact || self.g.uses[inst].iter().zip(row).any(|(u, &l)| u.access.reads() && self.sizes.inexact[l]);
        let mut work = false;
        for (index, view) in outs.tensors.drain(..) {
            let life = row[index];
            let same = self.g.insts.op[inst].row().kernel.alias
                == Alias::View(crate::op::Field(0), crate::kernel::Contiguity::Same)
                && row[0] == life;
            self.sizes.known[life] = Known::No;
            self.sizes.inexact[life] = inexact;
            let view = if self.lives.base[life].is_some() || same {
                view
            } else {
                work |= view.count() > 0;
                View::contiguous(view.dtype, &view.dims)
            };
            self.sink.sized(life, &view, inexact)?;
            self.sizes.views[life] = view;
        }
        for (index, known) in outs.known.drain(..) {
            self.sizes.known[row[index]] = known;
        }
        for (i, view) in outs.scratch.drain(..).enumerate() {
            let life = self.lives.scratch[step][i];
            self.sink.sized(life, &view, inexact)?;
            self.sizes.views[life] = view;
        }
        for (vid, value) in outs.values.drain(..) {
            self.sizes.values[vid] = value;
        }
        if let Some((index, vid)) = outs.wait
            && self.dry == 0
        {
            let life = row[index];
            self.sizes.values[vid] = match self.sink.read(step, life, &self.sizes.views[life])? {
                Some(v) => Value::Int(v),
                None => Value::Later { of: step.0, plus: 0 },
            };
        }
        Ok(work)
    }

    /// Makes the output of an updating op hold the tensor that it updates, unless it already does.
    fn fill_update(&mut self, step: Step, inst: Inst, dst: crate::op::Field) -> Result<()> {
        let uses = &self.g.uses[inst];
        let row = &self.lives.of_use[step];
        let from = uses.iter().position(|u| u.field == dst);
        let to = uses.iter().position(|u| u.access == Access::Out);
        let (Some(from), Some(to)) = (from, to) else { return Ok(()) };
        let (from, to) = (row[from], row[to]);
        if from != to && !self.lives.inherits[to] {
            self.sink.copy(step, (from, &self.sizes.views[from]), (to, &self.sizes.views[to]))?;
        }
        Ok(())
    }

    fn scan_axis(&self, step: Step, inst: Inst, rank: usize) -> Result<usize> {
        axis(self.call(step, inst).int(fields::scan::scan_axis)?, rank)
    }

    fn open_scan(&mut self, step: Step, inst: Inst) -> Result<()> {
        let call = self.call(step, inst);
        if call.len_of(fields::scan::originals) == 0 {
            return Err(Error::malformed("a SCAN over no tensors has no iterations to count"));
        }
        let first = call.tensor_at(fields::scan::originals, 0);
        let at = self.scan_axis(step, inst, first.rank())?;
        let turns = first.dims[at];
        if turns == 0 {
            self.dry += 1;
        }
        self.loops.push(Loop { open: step, turn: 0, turns });
        self.begin_turn(step, inst, 0)
    }

    /// Sets the sliced tensors of iteration `turn`.
    fn begin_turn(&mut self, step: Step, inst: Inst, turn: usize) -> Result<()> {
        let call = self.call(step, inst);
        let count = call.len_of(fields::scan::originals);
        let uses = (call.use_of(fields::scan::originals, 0), call.use_of(fields::scan::sliced, 0));
        for i in 0..count {
            let row = &self.lives.of_use[step];
            let (from, to) = (row[uses.0 + i], row[uses.1 + i]);
            let x = &self.sizes.views[from];
            let at = self.scan_axis(step, inst, x.rank())?;
            if turn >= x.dims[at] && self.dry == 0 {
                return Err(Error::malformed(format!(
                    "original {i} has {} slices, iteration {turn} wants one",
                    x.dims[at]
                )));
            }
            let mut slice = x.clone();
            slice.dims.remove(at);
            let stride = slice.strides.remove(at);
            slice.offset = (x.offset as isize + turn as isize * stride) as usize;
            let inexact = self.sizes.inexact[from];
            self.sizes.inexact[to] = inexact;
            if self.lives.base[to].is_some() {
                self.sink.sized(to, &slice, inexact)?;
                self.sizes.views[to] = slice;
            } else {
                self.sizes.views[to] = View::contiguous(slice.dtype, &slice.dims);
                self.sink.sized(to, &self.sizes.views[to], inexact)?;
                if self.dry == 0 {
                    self.sink.copy(step, (from, &slice), (to, &self.sizes.views[to]))?;
                }
            }
        }
        Ok(())
    }

    /// Ends an iteration: collects its outputs. Whether another follows.
    fn end_turn(&mut self, step: Step, inst: Inst) -> Result<bool> {
        let Some(&Loop { open, turn, turns }) = self.loops.last() else { return Ok(false) };
        let first = self.call(step, inst).use_of(fields::scan::outputs, 0);
        for i in 0..self.call(step, inst).len_of(fields::scan::outputs) {
            let (one, all) = (self.lives.of_use[step][first + i], self.lives.of_use[open][first + i]);
            let view = self.sizes.views[one].clone();
            let at = self.scan_axis(step, inst, view.rank() + 1)?;
            let padded = padded_count(&view);
            if turn == 0 {
                let stacked = stacked(&view, at, turns, padded);
                self.sizes.inexact[all] = self.sizes.inexact[one];
                self.sizes.known[all] = Known::No;
                self.sink.sized(all, &stacked, self.sizes.inexact[one])?;
                self.sizes.views[all] = stacked;
            }
            if self.dry == 0 {
                let mut to = View::contiguous(view.dtype, &view.dims);
                to.offset = turn * padded;
                self.sink.copy(step, (one, &view), (all, &to))?;
            }
        }
        if turn + 1 < turns && !self.sink.plans() && self.dry == 0 {
            if let Some(l) = self.loops.last_mut() {
                l.turn += 1;
            }
            self.begin_turn(open, inst, turn + 1)?;
            return Ok(true);
        }
        self.loops.pop();
        if turns == 0 {
            self.dry -= 1;
        }
        Ok(false)
    }
}

/// As [`Walk::call`], borrowing only what a call needs so that the sink stays free.
fn call<'c>(
    graph: &'c Graph,
    lives: &'c Lives,
    sizes: &'c Sizes,
    host: &'c dyn HostData,
    step: Step,
    inst: Inst,
) -> Call<'c> {
    Call {
        graph,
        inst,
        lives: &lives.of_use[step],
        scratch: &lives.scratch[step],
        facts: Facts { views: &sizes.views, known: &sizes.known, base: &lives.base, values: &sizes.values, host },
    }
}

/// Elements between the slices of a stacked tensor: slices begin on words, so that no two share one.
fn padded_count(view: &View) -> usize {
    let per_word = (4 / view.dtype.size()).max(1);
    view.count().next_multiple_of(per_word)
}

/// The stack of `turns` tensors along `at`: iterations lie one after the other in memory.
fn stacked(view: &View, at: usize, turns: usize, padded: usize) -> View {
    let mut dims = view.dims.clone();
    let mut strides: Strides = crate::kernel::row_major(&view.dims);
    dims.insert(at, turns);
    strides.insert(at, padded as isize);
    View { dtype: view.dtype, dims, strides, offset: 0 }
}

/// Bytes from the start of a base's memory to the end of what a view reaches.
pub fn extent_bytes(view: &View) -> u64 {
    if view.count() == 0 {
        return 0;
    }
    let reach: isize = view.dims.iter().zip(&view.strides).map(|(&d, &s)| (d as isize - 1) * s.max(0)).sum();
    (view.offset as u64 + reach as u64 + 1) * view.dtype.size() as u64
}

/// The dims that a file's bounds allow at most.
///
/// # Errors
/// When a dimension has no upper bound.
pub fn upper_dims(bounds: &[DimBound]) -> Result<Dims> {
    bounds
        .iter()
        .enumerate()
        .map(|(i, b)| {
            b.max.map(|m| m as usize).ok_or_else(|| Error::input(format!("dimension {i} has no upper bound")))
        })
        .collect()
}

/// Whether an instruction's operand list names host scalars only: used by reports.
pub fn is_literal(g: &Graph, index: usize) -> bool {
    matches!(g.scalars.at(index), Operand::Int(_) | Operand::Float(_))
}
