//! What binding a graph makes without a device: its timelines, the constants that its init chain makes, and
//! where its state lies.

use crate::error::{Error, Result};
use crate::kernel::View;
use crate::plan::lives::Lives;
use crate::plan::place::ALIGN;
use crate::plan::sizes::{Argument, upper_dims};
use crate::plan::tail::Tail;
use crate::plan::{Placed, Timeline};
use crate::program::{Graph, Home};
use crate::table::{Chain, Col, Life, Slot};

/// The tables of a graph that do not depend on arguments.
#[derive(Debug)]
pub struct Tables {
    /// The timeline of a call.
    pub main: Timeline,
    /// The init chain.
    pub init: Option<Init>,
    /// Constants as the init chain leaves them.
    pub made: Vec<(Slot, View)>,
    /// Byte offset of each mutable buffer in a session's state.
    pub state: Col<Life, u64>,
    /// Bytes of the state.
    pub state_bytes: u64,
    /// Whether temps are never released: only for comparison.
    pub keep_temps: bool,
}

impl Tables {
    /// Makes the tables.
    ///
    /// # Errors
    /// When a limit is passed, a temp is read that nothing wrote, or a mutable buffer has no bounds.
    pub fn of(g: &Graph, keep_temps: bool) -> Result<Self> {
        let main = Timeline::of(g, g.main)?;
        let init = g.init.map(|c| Init::new(g, c, keep_temps)).transpose()?;
        let made = init.as_ref().map(Init::made).unwrap_or_default();
        let mut state: Col<Life, u64> = Col::filled(0, g.tensors.len());
        let mut state_bytes = 0u64;
        for slot in g.tensors.of(Home::Mutable).map(Slot) {
            let dims = upper_dims(&g.tensors.dims[slot]).map_err(|e| e.at(format!("mutable buffer {slot}")))?;
            let dtype = g.tensors.dtype[slot]
                .ok_or_else(|| Error::malformed(format!("mutable buffer {slot} has no element type")))?;
            state[Lives::of_slot(slot)] = state_bytes;
            state_bytes += (dims.iter().product::<usize>() as u64 * dtype.size() as u64).next_multiple_of(ALIGN);
        }
        Ok(Self { main, init, made, state, state_bytes, keep_temps })
    }

    /// Sizes and places of a call with these arguments.
    ///
    /// # Errors
    /// When an argument or a shape rule does not fit.
    pub fn place(&self, g: &Graph, args: &[Argument]) -> Result<Placed> {
        self.place_tail(g, args, None)
    }

    /// As [`Tables::place`], without rows of a result that nobody wants.
    ///
    /// # Errors
    /// As [`Tables::place`].
    pub fn place_tail(&self, g: &Graph, args: &[Argument], tail: Option<Tail>) -> Result<Placed> {
        self.main.place_tail(g, &self.made, args, self.keep_temps, tail)
    }
}

/// The init chain, planned: it takes no arguments.
#[derive(Debug)]
pub struct Init {
    /// Its timeline.
    pub timeline: Timeline,
    /// Its sizes and places.
    pub placed: Placed,
    /// The graph without inputs, which the init chain must not read.
    pub graph: Graph,
}

impl Init {
    fn new(g: &Graph, chain: Chain, keep_temps: bool) -> Result<Self> {
        let timeline = Timeline::of(g, chain)?;
        let named = timeline.steps.inst.iter().flat_map(|(_, &i)| &g.uses[i]);
        if named.into_iter().any(|u| g.tensors.home(u.slot) == Home::Input) {
            return Err(Error::malformed("the init chain reads an input"));
        }
        let mut graph = g.clone();
        graph.inputs.clear();
        let placed = timeline.place(&graph, &[], &[], keep_temps)?;
        Ok(Self { timeline, placed, graph })
    }

    /// Constants that it writes, as it leaves them.
    fn made(&self) -> Vec<(Slot, View)> {
        let (g, t) = (&self.graph, &self.timeline);
        let mut made: Vec<(Slot, View)> = Vec::new();
        for step in t.steps.kind.ids() {
            for u in &g.uses[t.steps.inst[step]] {
                if u.access.writes() && g.tensors.home(u.slot) == Home::Constant && made.iter().all(|m| m.0 != u.slot) {
                    made.push((u.slot, self.placed.sizes.views[Lives::of_slot(u.slot)].clone()));
                }
            }
        }
        made
    }

    /// Whether it names mutable buffers, so that each session must run it.
    pub fn names_state(&self) -> bool {
        let (g, t) = (&self.graph, &self.timeline);
        t.steps.inst.iter().any(|(_, &i)| g.uses[i].iter().any(|u| g.tensors.home(u.slot) == Home::Mutable))
    }
}
