//! What a program needs in memory, by class, and which lives make the peak.

use crate::plan::{Placed, Timeline};
use crate::program::{Graph, Home};
use crate::session::{Want, arena_bytes, facts, staging_bytes};
use crate::table::{Life, Step};

/// Bytes that a run needs, known before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReport {
    /// Constants on the device.
    pub weights_bytes: u64,
    /// Mutable buffers of one session.
    pub state_bytes: u64,
    /// The arenas that all intermediates, arguments and results are placed in: one per delegate.
    pub arena_bytes: u64,
    /// Dispatch parameters, and results on their way back.
    pub staging_bytes: u64,
    /// Largest sum of live bytes over the steps: no arena can be smaller. Added up over the delegates as arenas are.
    pub lower_bound_bytes: u64,
    /// All of it.
    pub peak_bytes: u64,
    /// Temps that are still live when the run ends.
    pub end_live_temps: usize,
    /// Their bytes.
    pub end_live_bytes: u64,
    /// The step at which most bytes are live, and what runs there; of the delegate with the largest arena.
    pub peak_step: u32,
    /// The instruction at the peak.
    pub peak_instruction: String,
    /// The largest lives at the peak: name, bytes.
    pub largest: Vec<(String, u64)>,
    /// Instructions on the timeline.
    pub steps: usize,
    /// Largest arena of one delegate so far.
    most: u64,
}

impl MemoryReport {
    /// Adds a delegate's figures.
    pub(crate) fn add(&mut self, g: &Graph, t: &Timeline, placed: &Placed, keep: bool, state: u64, wanted: &[Want]) {
        let (places, facts) = (&placed.places, facts(t, placed, keep));
        self.state_bytes += state;
        self.steps += t.steps.len();
        self.end_live_temps += facts.end_live_temps;
        self.end_live_bytes += facts.end_live_bytes;
        let arena = arena_bytes(placed);
        if arena > self.most {
            self.most = arena;
            self.peak_step = places.peak_step.0;
            if !t.steps.is_empty() {
                self.peak_instruction = g.describe(t.steps.inst[places.peak_step]);
            }
            self.largest = largest(g, t, placed, places.peak_step);
        }
        self.arena_bytes += arena;
        self.lower_bound_bytes += places.lower_bound;
        self.staging_bytes += staging_bytes(g, placed, wanted);
        self.peak_bytes = self.weights_bytes + self.state_bytes + self.arena_bytes + self.staging_bytes;
    }
}

/// A planned run, step by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// What happens at each step.
    pub steps: Vec<String>,
    /// Bytes live at each step.
    pub live: Vec<u64>,
    /// Everything that has a place in the arena.
    pub bars: Vec<Bar>,
    /// Bytes of the arena.
    pub arena_bytes: u64,
}

/// A stretch of the arena over a stretch of steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// Slot, element type and shape.
    pub name: String,
    /// What makes it.
    pub made_by: String,
    /// First step.
    pub born: u32,
    /// Last step.
    pub dies: u32,
    /// Address in the arena.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Chart {
    /// The chart of a planned timeline.
    pub(crate) fn of(g: &Graph, t: &Timeline, placed: &Placed) -> Self {
        let places = &placed.places;
        let steps: Vec<String> = t.steps.inst.iter().map(|(s, &i)| step_name(g, t, s, i)).collect();
        let mut change = vec![0i64; steps.len() + 1];
        let mut bars = Vec::new();
        for life in t.lives.slot.ids().filter(|&l| places.bytes[l] > 0) {
            let (born, dies) = (places.span[life].0, places.span[life].1);
            change[born.0 as usize] += places.bytes[life] as i64;
            change[(dies.0 as usize + 1).min(steps.len())] -= places.bytes[life] as i64;
            let made_by = match t.lives.home[life] {
                Home::Input => "the caller".to_string(),
                _ => steps.get(t.lives.born[life].0 as usize).cloned().unwrap_or_default(),
            };
            let (offset, bytes) = (places.offset[life], places.bytes[life]);
            bars.push(Bar { name: name(t, placed, life), made_by, born: born.0, dies: dies.0, offset, bytes });
        }
        let mut live = Vec::with_capacity(steps.len());
        let mut now = 0i64;
        for c in change.iter().take(steps.len()) {
            now += c;
            live.push(now as u64);
        }
        Self { steps, live, bars, arena_bytes: places.arena_bytes }
    }
}

fn step_name(g: &Graph, t: &Timeline, step: Step, inst: crate::table::Inst) -> String {
    use crate::plan::steps::StepKind;
    let op = g.insts.op[inst];
    match t.steps.kind[step] {
        StepKind::Op => format!("{inst} {op}"),
        StepKind::If => format!("{inst} If: then"),
        StepKind::Else => format!("{inst} If: else"),
        StepKind::EndIf => format!("{inst} If ends"),
        StepKind::Scan => format!("{inst} Scan begins"),
        StepKind::EndScan => format!("{inst} Scan ends"),
    }
}

fn name(t: &Timeline, placed: &Placed, life: Life) -> String {
    let view = &placed.sizes.views[life];
    let slot = t.lives.slot[life].map_or_else(|| "scratch".to_string(), |s| s.to_string());
    let what = match t.lives.home[life] {
        Home::Input => " (input)",
        Home::Output => " (output)",
        _ => "",
    };
    format!("{slot}{what} {} {:?}", view.dtype, &view.dims[..])
}

/// The ten largest lives at a step.
fn largest(g: &Graph, t: &Timeline, placed: &Placed, step: Step) -> Vec<(String, u64)> {
    let places = &placed.places;
    let there = |l: &Life| places.bytes[*l] > 0 && places.span[*l].0 <= step && step <= places.span[*l].1;
    let mut lives: Vec<Life> = t.lives.slot.ids().filter(there).collect();
    lives.sort_by_key(|&l| std::cmp::Reverse(places.bytes[l]));
    lives.truncate(10);
    let text = |l: Life| match t.lives.home[l] {
        Home::Input => name(t, placed, l),
        _ if t.steps.is_empty() => name(t, placed, l),
        _ => format!("{} from {}", name(t, placed, l), g.describe(t.steps.inst[t.lives.born[l]])),
    };
    lives.into_iter().map(|l| (text(l), places.bytes[l])).collect()
}
