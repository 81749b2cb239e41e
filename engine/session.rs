//! Engines, bound programs and sessions: what an embedder holds.

mod graph;
mod method;
mod value;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gpu::{AdapterFacts, Gpu, GpuOptions};
use crate::plan::sizes::{Argument, upper_dims};
use crate::program::model::Model;
use crate::program::pte::{MethodCall, PlanValue};
use crate::program::{Graph, Port};
use crate::report::MemoryReport;
use graph::{BoundGraph, GraphSession};
use method::Schedule;

pub use graph::{RunFacts, Want};
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

/// How to open a session.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {}

/// One user's state of a program: mutable buffers and scratch.
pub struct Session {
    bound: Bound,
    graphs: Vec<Option<GraphSession>>,
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
            let bound = BoundGraph::new(&self.gpu, g, model.bytes(), &g.constants, &options, progress)
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
    pub fn session(&self, _options: SessionOptions) -> Result<Session> {
        let graphs = self.inner.graphs.iter().map(|_| None).collect();
        Ok(Session { bound: self.clone(), graphs })
    }

    /// What a run of `method` needs, before any run: at the shapes of its tensor inputs, or at the file's
    /// upper bounds where `shapes` is `None`.
    ///
    /// # Errors
    /// When there is no such method or the shapes do not fit it.
    pub fn plan(&self, method: &str, shapes: Option<&[Vec<usize>]>) -> Result<MemoryReport> {
        let (number, m) = self.inner.model.method(method)?;
        let first = self.inner.model.first_graph(number);
        let mut report = MemoryReport::default();
        for (i, _) in m.delegates.iter().enumerate() {
            let (g, b) = (&self.inner.model.graphs()[first + i], &self.inner.graphs[first + i]);
            let args = arguments(g, if m.delegates.len() == 1 { shapes } else { None })?;
            let placed = b.place(g, &args)?;
            let facts = graph::facts(&b.main, &placed, b.keep_temps);
            report.add(g, &b.main, &placed, &facts, b.weights.bytes, b.state_bytes);
        }
        Ok(report)
    }
}

/// Planning arguments of a graph: the given tensor shapes, or the upper bounds.
fn arguments(g: &Graph, shapes: Option<&[Vec<usize>]>) -> Result<Vec<Argument>> {
    let mut given = shapes.map(|s| s.iter());
    g.inputs
        .iter()
        .enumerate()
        .map(|(i, port)| match port {
            Port::Tensor(slot) => match &mut given {
                Some(list) => list
                    .next()
                    .map(|d| Argument::Tensor(d.as_slice().into()))
                    .ok_or_else(|| Error::input(format!("no shape is given for input {i}"))),
                None => {
                    upper_dims(&g.tensors.dims[*slot]).map(Argument::Tensor).map_err(|e| e.at(format!("input {i}")))
                }
            },
            Port::Int(_) | Port::Float(_) | Port::Bool(_) => Ok(Argument::Scalar(crate::kernel::Value::Unknown)),
        })
        .collect()
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
        let want_of = |value: usize| {
            if !schedule.needed[value] {
                return Want::Nothing;
            }
            m.outputs.iter().position(|&o| o == value).map_or(Want::All, |i| wants.get(i).copied().unwrap_or_default())
        };
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
                    let session = self.graph(first + delegate)?;
                    let results = bound.graphs[first + delegate]
                        .run(&bound.gpu, g, session, &items, &wanted)
                        .map_err(|e| e.at(format!("method {method}")))?;
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
            *slot = Some(inner.graphs[index].session(&inner.gpu, &inner.model.graphs()[index])?);
        }
        slot.as_mut().ok_or_else(|| Error::unsupported("unreachable: the session was just made"))
    }

    /// Forgets everything: mutable buffers are as before the first run.
    ///
    /// # Errors
    /// When the device fails.
    pub fn reset(&mut self) -> Result<()> {
        let inner = self.bound.inner.clone();
        for (i, s) in self.graphs.iter_mut().enumerate() {
            if let Some(s) = s {
                inner.graphs[i].reset(&inner.gpu, &inner.model.graphs()[i], s)?;
            }
        }
        Ok(())
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
                m[2] += s.stream.arena_bytes();
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
