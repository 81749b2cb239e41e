//! What a run needs, from the file alone: no device, no weights.

use crate::error::{Error, Result};
use crate::gpu::weights::planned_bytes;
use crate::kernel::Value;
use crate::plan::bound::Tables;
use crate::plan::sizes::{Argument, upper_dims};
use crate::plan::tail::Tail;
use crate::program::model::Model;
use crate::program::pte::{Method, MethodCall};
use crate::program::{Graph, Port};
use crate::report::{Chart, MemoryReport};
use crate::session::graph::Want;
use crate::session::method::Schedule;
use crate::session::{Bound, BoundInner};
use crate::table::Slot;

/// How a run that is planned will be made.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Never release a temp, as with [`crate::BindOptions::keep_temps`].
    pub keep_temps: bool,
    /// Which outputs the run will read back, as for [`crate::Session::run_with`].
    pub wants: Vec<Want>,
}

impl Model {
    /// What a run of `method` needs on a device, before there is one: at the shapes of its tensor inputs, or at the
    /// file's upper bounds where `shapes` is `None`. A first run of a session takes exactly this.
    ///
    /// # Errors
    /// When there is no such method or the shapes do not fit it.
    pub fn plan(&self, method: &str, shapes: Option<&[Vec<usize>]>, options: &PlanOptions) -> Result<MemoryReport> {
        Ok(self.plan_steps(method, shapes, options)?.0)
    }

    /// As [`Model::plan`], with the memory of every step and the place of every life, one chart per delegate.
    ///
    /// # Errors
    /// As [`Model::plan`].
    pub fn plan_steps(
        &self,
        method: &str,
        shapes: Option<&[Vec<usize>]>,
        options: &PlanOptions,
    ) -> Result<(MemoryReport, Vec<Chart>)> {
        let (number, m) = self.method(method)?;
        let first = self.first_graph(number);
        let (mut report, mut charts) = (MemoryReport::default(), Vec::new());
        for (i, g) in self.graphs().iter().enumerate() {
            let tables = Tables::of(g, options.keep_temps).map_err(|e| e.at(format!("graph {i}")))?;
            report.weights_bytes += planned_bytes(g, &g.constants, &tables.made)?;
            let Some(delegate) = i.checked_sub(first).filter(|&d| d < m.delegates.len()) else { continue };
            let args = arguments(g, if m.delegates.len() == 1 { shapes } else { None })?;
            let wanted = wanted(self, m, first, delegate, &options.wants);
            let last = (0..wanted.len()).filter(|&i| wanted[i] == Want::LastRow);
            let tail = last.into_iter().find_map(|i| Tail::of(g, &tables.main, i));
            let placed = tables.place_tail(g, &args, tail)?;
            report.add(g, &tables.main, &placed, options.keep_temps, tables.state_bytes, &wanted);
            charts.push(Chart::of(g, &tables.main, &placed));
        }
        Ok((report, charts))
    }
}

impl Bound {
    /// What a run of `method` needs, before any run: at the shapes of its tensor inputs, or at the file's
    /// upper bounds where `shapes` is `None`. As [`Model::plan`] with this program's options.
    ///
    /// # Errors
    /// When there is no such method or the shapes do not fit it.
    pub fn plan(&self, method: &str, shapes: Option<&[Vec<usize>]>) -> Result<MemoryReport> {
        let BoundInner { model, graphs, .. } = &*self.inner;
        let (number, m) = model.method(method)?;
        let first = model.first_graph(number);
        let mut report = MemoryReport::default();
        report.weights_bytes = graphs.iter().map(|b| b.weights.bytes).sum();
        for delegate in 0..m.delegates.len() {
            let (g, b) = (&model.graphs()[first + delegate], &graphs[first + delegate]);
            let args = arguments(g, if m.delegates.len() == 1 { shapes } else { None })?;
            let wanted = wanted(model, m, first, delegate, &[]);
            let placed = b.place(g, &args, &wanted)?;
            report.add(g, &b.main, &placed, b.keep_temps, b.state_bytes, &wanted);
        }
        Ok(report)
    }
}

/// What a run reads back of the results of a delegate's first call.
pub(crate) fn wanted(model: &Model, m: &Method, first: usize, number: usize, wants: &[Want]) -> Vec<Want> {
    let inputs = |d: usize| model.graphs()[first + d].inputs.len();
    let schedule = Schedule::of(m, inputs);
    let call = m.calls.iter().find_map(|c| match c {
        MethodCall::Delegate { delegate, args } if *delegate == number => Some(args),
        _ => None,
    });
    let outs = call.map_or(&[][..], |args| &args[inputs(number).min(args.len())..]);
    outs.iter().map(|&value| want_of(m, &schedule, wants, value)).collect()
}

/// What is read back of a value that a delegate makes: what a caller wants of a result, all that a later call takes.
pub(crate) fn want_of(m: &Method, schedule: &Schedule, wants: &[Want], value: usize) -> Want {
    if !schedule.needed[value] {
        return Want::Nothing;
    }
    m.outputs.iter().position(|&o| o == value).map_or(Want::All, |i| wants.get(i).copied().unwrap_or_default())
}

/// Planning arguments of a graph: the given tensor shapes, or the upper bounds.
pub(crate) fn arguments(g: &Graph, shapes: Option<&[Vec<usize>]>) -> Result<Vec<Argument>> {
    let mut given = shapes.map(|s| s.iter());
    let upper = |slot: Slot, i: usize| {
        upper_dims(&g.tensors.dims[slot]).map(Argument::Tensor).map_err(|e| e.at(format!("input {i}")))
    };
    g.inputs
        .iter()
        .enumerate()
        .map(|(i, port)| match port {
            Port::Tensor(slot) => match &mut given {
                Some(list) => list
                    .next()
                    .map(|d| Argument::Tensor(d.as_slice().into()))
                    .ok_or_else(|| Error::input(format!("no shape is given for input {i}"))),
                None => upper(*slot, i),
            },
            Port::Int(_) | Port::Float(_) | Port::Bool(_) => Ok(Argument::Scalar(Value::Unknown)),
        })
        .collect()
}
