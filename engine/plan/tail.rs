//! Results of which only the last row is wanted: where the rows that nobody reads can be left out.
//!
//! A language model's logits are `[1, rows, vocabulary]`, and a prompt needs the last row of them only. The ops that
//! end such a program work row by row, so the first of them may take the last row of its input and leave the others.

use crate::kernel::View;
use crate::op::Access;
use crate::plan::Timeline;
use crate::plan::steps::StepKind;
use crate::program::{Graph, Home, Port};
use crate::table::{Life, Step};

/// The step at which an input loses all rows but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The step.
    pub step: Step,
    /// The input.
    pub input: Life,
}

/// The last row of the last but one dimension of a tensor of three dimensions or more; other tensors whole.
pub fn last_row(view: &View) -> View {
    let mut view = view.clone();
    if view.rank() >= 3 && view.dims[view.rank() - 2] > 1 {
        let at = view.rank() - 2;
        view.offset = (view.offset as isize + (view.dims[at] as isize - 1) * view.strides[at]) as usize;
        view.dims[at] = 1;
    }
    view
}

impl Tail {
    /// Where the rows of output `port` can be left out, if they can: its value and what it is made from are used for
    /// nothing else, outside of IF and SCAN, by ops that work row by row.
    pub fn of(g: &Graph, t: &Timeline, port: usize) -> Option<Self> {
        let Port::Tensor(slot) = *g.outputs.get(port)? else { return None };
        let shared = g.outputs.iter().filter(|p| **p == Port::Tensor(slot)).count() > 1;
        if g.tensors.home(slot) != Home::Output || shared {
            return None;
        }
        let mut life = crate::plan::lives::Lives::of_slot(slot);
        let mut found = None;
        while let Some(step) = only_writer(g, t, life) {
            let Some(input) = row_input(g, t, step, life) else { break };
            found = Some(Self { step, input });
            // Going on, the input must be used here only, and be memory of its own.
            let temp = t.lives.home[input] == Home::Temp && t.lives.base[input].is_none() && !t.lives.merged[input];
            if !temp || uses(t, input).count() != 2 {
                break;
            }
            life = input;
        }
        found
    }
}

/// The steps that name a life or a view of it, as often as they do.
fn uses(t: &Timeline, life: Life) -> impl Iterator<Item = Step> + '_ {
    let of = move |l: Life| l == life || t.lives.base[l] == Some(life);
    t.steps.kind.ids().flat_map(move |s| t.lives.of_use[s].iter().filter(move |&&l| of(l)).map(move |_| s))
}

/// The one step that writes a life, if it is an op outside of IF and SCAN and, for an output, nothing reads the life.
fn only_writer(g: &Graph, t: &Timeline, life: Life) -> Option<Step> {
    let mut all = uses(t, life);
    let step = all.next()?;
    if t.lives.home[life] == Home::Output && all.next().is_some() {
        return None;
    }
    let inside = |kind: &StepKind| matches!(kind, StepKind::If | StepKind::Scan);
    let ends = |kind: &StepKind| matches!(kind, StepKind::EndIf | StepKind::EndScan);
    let before = &t.steps.kind.as_slice()[..step.0 as usize];
    let nested = before.iter().filter(|k| inside(k)).count() != before.iter().filter(|k| ends(k)).count();
    let writes = g.uses[t.steps.inst[step]].iter().zip(&t.lives.of_use[step]);
    let out = writes.filter(|(u, l)| **l == life && u.access == Access::Out).count() == 1;
    (t.steps.kind[step] == StepKind::Op && !nested && out && t.lives.stages[step].is_empty()).then_some(step)
}

/// The input whose rows the output's rows are made from, one by one, where the op at `step` works like that.
fn row_input(g: &Graph, t: &Timeline, step: Step, out: Life) -> Option<Life> {
    let inst = t.steps.inst[step];
    let uses = &g.uses[inst];
    let lives = &t.lives.of_use[step];
    let rows_only = match g.insts.op[inst].name() {
        // The weights are constants; `x` has the rows.
        "QuantizedMatmul" | "AsType" | "Tanh" => true,
        // The other operand must be the same for every row.
        "Add" | "Multiply" | "Divide" => false,
        _ => return None,
    };
    let mut input = None;
    for (u, &l) in uses.iter().zip(lives) {
        if l == out {
            continue;
        }
        let constant = g.tensors.home(u.slot) == Home::Constant;
        match constant {
            true if rows_only || g.tensors.dims[u.slot].len() <= 1 => {}
            true => return None,
            false if input.is_none() => input = Some(l),
            false => return None,
        }
    }
    input
}
