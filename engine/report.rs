//! What a program needs in memory, by class, and which lives make the peak.

use crate::plan::{Placed, Timeline};
use crate::program::Graph;
use crate::session::RunFacts;
use crate::table::Step;

/// Bytes that a run needs, known before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReport {
    /// Constants on the device.
    pub weights_bytes: u64,
    /// Mutable buffers of one session.
    pub state_bytes: u64,
    /// The arena that all intermediates, arguments and results are placed in.
    pub arena_bytes: u64,
    /// Largest sum of live bytes over the steps: no arena can be smaller.
    pub lower_bound_bytes: u64,
    /// All of it.
    pub peak_bytes: u64,
    /// Temps that are still live when the run ends.
    pub end_live_temps: usize,
    /// Their bytes.
    pub end_live_bytes: u64,
    /// The step at which most bytes are live, and what runs there.
    pub peak_step: u32,
    /// The instruction at the peak.
    pub peak_instruction: String,
    /// The largest lives at the peak: name, bytes.
    pub largest: Vec<(String, u64)>,
    /// Instructions on the timeline.
    pub steps: usize,
}

impl MemoryReport {
    /// Adds a delegate's figures.
    pub(crate) fn add(&mut self, g: &Graph, t: &Timeline, placed: &Placed, facts: &RunFacts, weights: u64, state: u64) {
        let places = &placed.places;
        self.weights_bytes += weights;
        self.state_bytes += state;
        self.steps += t.steps.len();
        self.end_live_temps += facts.end_live_temps;
        self.end_live_bytes += facts.end_live_bytes;
        if places.arena_bytes >= self.arena_bytes {
            self.arena_bytes = places.arena_bytes;
            self.lower_bound_bytes = places.lower_bound;
            self.peak_step = places.peak_step.0;
            if !t.steps.is_empty() {
                self.peak_instruction = g.describe(t.steps.inst[places.peak_step]);
            }
            self.largest = largest(g, t, placed, places.peak_step);
        }
        self.peak_bytes = self.weights_bytes + self.state_bytes + self.arena_bytes;
    }
}

/// The ten largest lives at a step.
fn largest(g: &Graph, t: &Timeline, placed: &Placed, step: Step) -> Vec<(String, u64)> {
    let mut list: Vec<(String, u64)> = t
        .lives
        .slot
        .iter()
        .filter(|&(l, _)| placed.places.bytes[l] > 0 && t.lives.born[l] <= step && step <= t.lives.dies[l])
        .map(|(l, slot)| {
            let view = &placed.sizes.views[l];
            let name = slot.map_or_else(|| "scratch".to_string(), |s| s.to_string());
            let by = if t.steps.is_empty() { String::new() } else { g.describe(t.steps.inst[t.lives.born[l]]) };
            (format!("{name} {} {:?} from {by}", view.dtype, &view.dims[..]), placed.places.bytes[l])
        })
        .collect();
    list.sort_by_key(|e| std::cmp::Reverse(e.1));
    list.truncate(10);
    list
}
