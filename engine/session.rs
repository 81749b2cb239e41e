//! Engines, bound programs and sessions: what an embedder holds.

mod graph;
mod method;
mod planning;
mod value;

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::gpu::{AdapterFacts, Gpu, GpuOptions};
use crate::plan::sizes::Argument;
use crate::program::model::Model;
use crate::program::pte::{MethodCall, PlanValue};
use graph::{BoundGraph, GraphSession};
use method::Schedule;

pub use graph::{RunFacts, Want};
pub(crate) use graph::{arena_bytes, facts, staging_bytes};
pub use planning::PlanOptions;
pub use value::{Item, Tensor};

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// Which adapter.
    pub gpu: GpuOptions,
}

/// A device that programs are bound to.
#[derive(Clone)]
pub struct Engine {
    gpu: Arc<Gpu>,
}

/// How to bind a program.
#[derive(Default)]
pub struct BindOptions<'a> {
    /// Hears of weight bytes uploaded: done, total.
    pub progress: Option<&'a mut dyn FnMut(u64, u64)>,
    /// Never release a temp: what runtimes without liveness do. Only for comparison.
    pub keep_temps: bool,
    /// Puts made-up values in place of constants that are all zeros, for measuring programs whose weights
    /// were removed. The same seed gives the same values.
    pub synthetic_weights: Option<u64>,
}

/// A program on a device: weights uploaded, tables made. Cheap to clone; shared between threads.
#[derive(Clone)]
pub struct Bound {
    inner: Arc<BoundInner>,
}

struct BoundInner {
    gpu: Arc<Gpu>,
    model: Model,
    graphs: Vec<BoundGraph>,
}

/// How to open a session. The last four are the controls of the delegate's own runtime, with the meaning
/// its users know, but for one session instead of the whole process.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// What the session may take on the device.
    pub budget: Budget,
    /// Submits to the device whenever instructions have touched this many bytes since the last time.
    pub eval_threshold: Option<u64>,
    /// Most bytes of arena and staging that the session may hold at a time.
    pub memory_limit: Option<u64>,
    /// Arena bytes that may stay allocated between runs; more is given back when a run ends.
    pub cache_limit: Option<u64>,
    /// Gives the arena back after every so many runs.
    pub clear_cache_interval: Option<u32>,
}

/// Bytes that a session may take on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Budget {
    /// As many as the device gives.
    #[default]
    Unlimited,
    /// So many in all: weights, state, arena and staging.
    Total(u64),
    /// So many for arena and staging, on top of weights and state.
    AboveLoaded(u64),
}

impl std::str::FromStr for Budget {
    type Err = Error;
    /// `512MB` in all, `+256MB` on top of what is loaded; units B, KB, MB, GB (powers of 1024), none is bytes.
    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::input(format!("{text:?} is no amount of memory; write 512MB or +256MB"));
        let (above, rest) = match text.trim().strip_prefix('+') {
            Some(rest) => (true, rest),
            None => (false, text.trim()),
        };
        let digits = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit: u64 = match rest[digits.len()..].to_ascii_uppercase().as_str() {
            "" | "B" => 1,
            "K" | "KB" | "KIB" => 1 << 10,
            "M" | "MB" | "MIB" => 1 << 20,
            "G" | "GB" | "GIB" => 1 << 30,
            _ => return Err(bad()),
        };
        let number: f64 = digits.trim().parse().map_err(|_| bad())?;
        if !(number >= 0.0 && number * (unit as f64) < 1e18) {
            return Err(bad());
        }
        let bytes = (number * unit as f64) as u64;
        Ok(if above { Self::AboveLoaded(bytes) } else { Self::Total(bytes) })
    }
}

/// One user's state of a program: mutable buffers and scratch.
pub struct Session {
    bound: Bound,
    options: SessionOptions,
    graphs: Vec<Option<GraphSession>>,
    runs: u64,
}

impl Engine {
    /// Opens a device.
    ///
    /// # Errors
    /// When no adapter fits.
    pub fn new(options: &EngineOptions) -> Result<Self> {
        Ok(Self { gpu: Arc::new(Gpu::new(&options.gpu)?) })
    }
    /// Every adapter there is, best first.
    pub fn adapters(options: &EngineOptions) -> Vec<AdapterFacts> {
        crate::gpu::device::adapters(&options.gpu)
    }
    /// The adapter in use.
    pub fn adapter(&self) -> &AdapterFacts {
        &self.gpu.facts
    }
    /// Kernel variants compiled so far.
    pub fn pipelines(&self) -> usize {
        self.gpu.pipelines.count()
    }
    /// Time spent compiling them. A driver that compiles at first use adds that to the run instead.
    pub fn pipeline_time(&self) -> std::time::Duration {
        self.gpu.pipelines.time()
    }
    /// Uploads a program's weights and makes its tables.
    ///
    /// # Errors
    /// When the program does not fit the adapter, or the device fails.
    pub fn bind(&self, model: &Model, mut options: BindOptions<'_>) -> Result<Bound> {
        let mut quiet = |_: u64, _: u64| {};
        let mut report = options.progress.take();
        let mut graphs = Vec::new();
        for (i, g) in model.graphs().iter().enumerate() {
            let progress: &mut dyn FnMut(u64, u64) = match &mut report {
                Some(p) => *p,
                None => &mut quiet,
            };
            let bound = BoundGraph::new(&self.gpu, g, model.source(), &g.constants, &options, progress)
                .map_err(|e| e.at(format!("graph {i}")))?;
            graphs.push(bound);
        }
        Ok(Bound { inner: Arc::new(BoundInner { gpu: self.gpu.clone(), model: model.clone(), graphs }) })
    }
}

impl Bound {
    /// The program.
    pub fn model(&self) -> &Model {
        &self.inner.model
    }

    /// A new session with zeroed state.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn session(&self, options: SessionOptions) -> Result<Session> {
        let graphs = self.inner.graphs.iter().map(|_| None).collect();
        Ok(Session { bound: self.clone(), options, graphs, runs: 0 })
    }
}

impl Session {
    /// Runs a method on its inputs and returns its outputs, all read back.
    ///
    /// # Errors
    /// When inputs do not fit, memory runs out or the device fails.
    pub fn run(&mut self, method: &str, inputs: &[Item]) -> Result<Vec<Item>> {
        self.run_with(method, inputs, &[])
    }

    /// As [`Session::run`], with a choice of which outputs to read back.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_with(&mut self, method: &str, inputs: &[Item], wants: &[Want]) -> Result<Vec<Item>> {
        let bound = self.bound.inner.clone();
        let (number, m) = bound.model.method(method)?;
        let first = bound.model.first_graph(number);
        if inputs.len() != m.inputs.len() {
            return Err(Error::input(format!(
                "method {method} takes {} inputs, {} were given",
                m.inputs.len(),
                inputs.len()
            )));
        }
        let schedule = Schedule::of(m, |d| bound.model.graphs()[first + d].inputs.len());
        let mut values: Vec<Option<Item>> = m.values.iter().map(|v| method::initial(v, bound.model.bytes())).collect();
        for (i, (&slot, item)) in m.inputs.iter().zip(inputs).enumerate() {
            if let (PlanValue::Tensor(spec), Item::Tensor(t)) = (&m.values[slot], item) {
                crate::plan::sizes::check_dims(&spec.dims, &t.dims)
                    .map_err(|e| e.at(format!("method {method}, input {i}")))?;
            }
            values[slot] = Some(item.clone());
        }
        let want_of = |value: usize| planning::want_of(m, &schedule, wants, value);
        for (call, _) in m.calls.iter().zip(&schedule.runs).filter(|(_, runs)| **runs) {
            match call {
                MethodCall::Delegate { delegate, args } => {
                    let g = &bound.model.graphs()[first + delegate];
                    let (ins, outs) = args.split_at(g.inputs.len().min(args.len()));
                    if outs.len() != g.outputs.len() {
                        return Err(Error::malformed(format!(
                            "delegate {delegate} is called with {} arguments",
                            args.len()
                        )));
                    }
                    let items = ins
                        .iter()
                        .map(|&a| {
                            values[a].clone().ok_or_else(|| Error::malformed(format!("value {a} has no contents")))
                        })
                        .collect::<Result<Vec<_>>>()?;
                    let wanted: Vec<Want> = outs.iter().map(|&o| want_of(o)).collect();
                    self.afford(first + delegate, &graph::arguments(&items)?, &wanted)
                        .map_err(|e| e.at(format!("method {method}")))?;
                    let threshold = self.options.eval_threshold;
                    let session = self.graph(first + delegate)?;
                    let results = bound.graphs[first + delegate]
                        .run(&bound.gpu, g, session, &items, &wanted, threshold)
                        .map_err(|e| e.at(format!("method {method}")))?;
                    self.give_back();
                    for (&o, result) in outs.iter().zip(results) {
                        if let Some(item) = result {
                            values[o] = Some(as_declared(item, &m.values[o]));
                        }
                    }
                }
                MethodCall::Kernel { op, args } => method::kernel(*op, args, &mut values)?,
                MethodCall::Move { from, to } => values[*to] = values[*from].clone(),
                MethodCall::Free(_) => {}
                MethodCall::Jump { .. } => {
                    return Err(Error::unsupported("jumps between delegates are not run"));
                }
            }
        }
        m.outputs
            .iter()
            .map(|&o| values[o].clone().ok_or_else(|| Error::malformed(format!("output value {o} was never written"))))
            .collect()
    }

    fn graph(&mut self, index: usize) -> Result<&mut GraphSession> {
        let slot = &mut self.graphs[index];
        if slot.is_none() {
            let inner = &self.bound.inner;
            *slot = Some(inner.graphs[index].session(&inner.gpu)?);
        }
        slot.as_mut().ok_or_else(|| Error::unsupported("unreachable: the session was just made"))
    }

    /// Bytes of arena and staging that the session may take, and what weights and state take.
    fn limit(&self) -> (Option<u64>, u64) {
        let loaded: u64 = self.bound.inner.graphs.iter().map(|b| b.weights.bytes + b.state_bytes).sum();
        let limit = match self.options.budget {
            Budget::Unlimited => None,
            Budget::Total(bytes) => Some(bytes.saturating_sub(loaded)),
            Budget::AboveLoaded(bytes) => Some(bytes),
        };
        (limit.into_iter().chain(self.options.memory_limit).min(), loaded)
    }

    /// Arena and staging that other graphs than `index` hold.
    fn held_beside(&self, index: usize) -> u64 {
        let gpu = &self.bound.inner.gpu;
        let others = self.graphs.iter().enumerate().filter(|(i, _)| *i != index).filter_map(|(_, s)| s.as_ref());
        others.map(|s| s.stream.arena_bytes(gpu) + s.stream.staging_bytes()).sum()
    }

    /// Refuses a run that does not fit the session's budget, before anything is submitted.
    fn afford(&mut self, index: usize, args: &[Argument], wanted: &[Want]) -> Result<()> {
        let (Some(limit), loaded) = self.limit() else { return Ok(()) };
        let inner = self.bound.inner.clone();
        let (g, b) = (&inner.model.graphs()[index], &inner.graphs[index]);
        let others = self.held_beside(index);
        let wanted = b.needs(g, self.graph(index)?, args, wanted)? + others;
        if wanted > limit {
            return Err(Error::new(
                ErrorKind::Memory,
                format!(
                    "the run needs {wanted} bytes of arena and staging; the session's budget leaves {limit} \
                     (weights and state take {loaded}). Pass fewer rows at a time, or raise the budget"
                ),
            ));
        }
        // An arena left over from a larger run must not count against this one.
        let session = self.graph(index)?;
        if session.stream.arena_bytes(&inner.gpu) + session.stream.staging_bytes() + others > limit {
            session.stream.release_arena(&inner.gpu);
        }
        Ok(())
    }

    /// Whether a run of `method` with tensor inputs of these shapes fits the session's budget and the device's largest
    /// buffer, by planning alone: nothing runs.
    ///
    /// # Errors
    /// When there is no such method or the shapes do not fit it.
    pub fn fits(&self, method: &str, shapes: &[Vec<usize>], wants: &[Want]) -> Result<bool> {
        let inner = &self.bound.inner;
        let (number, m) = inner.model.method(method)?;
        let first = inner.model.first_graph(number);
        let (limit, _) = self.limit();
        let mut total = 0;
        for delegate in 0..m.delegates.len() {
            let (g, b) = (&inner.model.graphs()[first + delegate], &inner.graphs[first + delegate]);
            let args = planning::arguments(g, if m.delegates.len() == 1 { Some(shapes) } else { None })?;
            let wanted = planning::wanted(&inner.model, m, first, delegate, wants);
            let placed = match b.place(g, &args, &wanted) {
                Err(e) if e.kind() == ErrorKind::Limit => return Ok(false),
                other => other?,
            };
            let arena = graph::arena_bytes(&placed);
            if arena > inner.gpu.facts.binding_bytes.min(inner.gpu.facts.buffer_bytes) {
                return Ok(false);
            }
            let held = self.graphs[first + delegate].as_ref().map_or(0, |s| s.stream.staging_bytes());
            total += arena + graph::staging_bytes(g, &placed, &wanted).max(held);
        }
        let of_method = first..first + m.delegates.len();
        let gpu = &inner.gpu;
        total += (self.graphs.iter().enumerate().filter(|(i, _)| !of_method.contains(i)))
            .filter_map(|(_, s)| s.as_ref())
            .map(|s| s.stream.arena_bytes(gpu) + s.stream.staging_bytes())
            .sum::<u64>();
        Ok(limit.is_none_or(|limit| total <= limit))
    }

    /// The largest size from 1 to `most` at which a run fits, as [`Session::fits`] says of the shapes that `shapes` gives
    /// for a size; 0 where not even 1 does. Long prompts are split into parts of this size.
    ///
    /// # Errors
    /// As [`Session::fits`].
    pub fn largest_fit(
        &self,
        method: &str,
        most: usize,
        wants: &[Want],
        mut shapes: impl FnMut(usize) -> Vec<Vec<usize>>,
    ) -> Result<usize> {
        if most == 0 || self.fits(method, &shapes(most), wants)? {
            return Ok(most);
        }
        // Sizes of intermediates grow with the size: below `low` all fit, from `high` on none.
        let (mut low, mut high) = (0, most);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.fits(method, &shapes(middle), wants)? { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// What the cache controls ask for after a run.
    fn give_back(&mut self) {
        self.runs += 1;
        let limit = self.options.cache_limit.unwrap_or(u64::MAX);
        let due = self.options.clear_cache_interval.is_some_and(|n| n > 0 && self.runs % u64::from(n) == 0);
        let gpu = &self.bound.inner.gpu;
        for s in self.graphs.iter_mut().flatten() {
            if due || s.stream.arena_bytes(gpu) > limit {
                s.stream.release_arena(gpu);
            }
        }
    }

    /// Gives back memory that only speeds up later runs: the arena. State stays.
    pub fn clear_cache(&mut self) {
        let gpu = &self.bound.inner.gpu;
        self.graphs.iter_mut().flatten().for_each(|s| s.stream.release_arena(gpu));
        let _ = gpu.device.poll(wgpu::PollType::Poll);
    }

    /// As [`Session::clear_cache`], and forgets planned shapes.
    pub fn trim(&mut self) {
        self.clear_cache();
        self.graphs.iter_mut().flatten().for_each(GraphSession::forget_shapes);
    }

    /// Forgets everything: mutable buffers are as before the first run.
    ///
    /// # Errors
    /// When the device fails.
    pub fn reset(&mut self) -> Result<()> {
        let inner = self.bound.inner.clone();
        for (i, s) in self.graphs.iter_mut().enumerate() {
            if let Some(s) = s {
                inner.graphs[i].reset(&inner.gpu, s)?;
            }
        }
        Ok(())
    }

    /// From now on, measures each kernel on the device; runs get slower.
    ///
    /// # Errors
    /// When the adapter has no timestamps.
    pub fn start_profile(&mut self) -> Result<()> {
        let gpu = self.bound.inner.gpu.clone();
        self.graphs.iter_mut().flatten().try_for_each(|s| s.stream.start_profile(&gpu))
    }

    /// Per kernel variant since [`Session::start_profile`]: its label, dispatches and nanoseconds on the device.
    pub fn profile(&self) -> Vec<(String, u64, f64)> {
        self.graphs.iter().flatten().flat_map(GraphSession::profile).collect()
    }

    /// Figures of the last run of each delegate that has run.
    pub fn last_run(&self) -> Vec<RunFacts> {
        self.graphs.iter().flatten().map(|s| s.last).collect()
    }

    /// Bytes on the device: weights (shared), state, arena and staging of this session.
    pub fn memory(&self) -> [u64; 4] {
        let inner = &self.bound.inner;
        let mut m = [0; 4];
        for (s, b) in self.graphs.iter().zip(&inner.graphs) {
            m[0] += b.weights.bytes;
            if let Some(s) = s {
                m[1] += b.state_bytes;
                m[2] += s.stream.arena_bytes(&inner.gpu);
                m[3] += s.stream.staging_bytes();
            }
        }
        m
    }
}

/// The delegate's result in the element type that the method declares.
fn as_declared(item: Item, declared: &PlanValue) -> Item {
    match (item, declared) {
        (Item::Tensor(t), PlanValue::Tensor(spec)) => Item::Tensor(t.cast(spec.dtype)),
        (item, _) => item,
    }
}
