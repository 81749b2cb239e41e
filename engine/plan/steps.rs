//! One timeline made from the chains: the bodies of IF and SCAN in place, between bracket steps.

use crate::error::{Error, Result};
use crate::limits::{MAX_DEPTH, MAX_STEPS};
use crate::op::{Field, Op, fields};
use crate::program::{Graph, Operand};
use crate::table::{Chain, Col, Inst, Step};

/// What happens at a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// An instruction runs.
    Op,
    /// The branch for a condition that holds begins.
    If,
    /// The other branch begins.
    Else,
    /// Both branches are over.
    EndIf,
    /// The body of a SCAN begins.
    Scan,
    /// An iteration of a SCAN is over.
    EndScan,
}

/// The timeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// What happens.
    pub kind: Col<Step, StepKind>,
    /// The instruction that runs or that the brackets belong to.
    pub inst: Col<Step, Inst>,
    /// If -> Else -> EndIf -> If; Scan -> EndScan -> Scan; an op is its own twin.
    pub twin: Col<Step, Step>,
}

/// What an instruction brackets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bracket {
    /// Nothing.
    None,
    /// An IF's two chains.
    If(Chain, Chain),
    /// A SCAN's body.
    Scan(Chain),
}

/// The chains that an instruction brackets.
pub fn bracket(g: &Graph, inst: Inst) -> Bracket {
    let chain = |field: Field| {
        g.operands(inst, field).next().map_or(Chain(0), |i| match g.scalars.at(i) {
            Operand::Int(v) => Chain(v as u32),
            _ => Chain(0),
        })
    };
    match g.insts.op[inst] {
        op if op == Op::IF => Bracket::If(chain(fields::if_::then_chain_idx), chain(fields::if_::else_chain_idx)),
        op if op == Op::SCAN => Bracket::Scan(chain(fields::scan::body_chain_idx)),
        _ => Bracket::None,
    }
}

impl Steps {
    /// The timeline that begins with `main`.
    ///
    /// # Errors
    /// When nesting or length passes a limit.
    pub fn of(g: &Graph, main: Chain) -> Result<Self> {
        let mut steps = Self::default();
        steps.chain(g, main, 0)?;
        Ok(steps)
    }

    fn push(&mut self, kind: StepKind, inst: Inst) -> Result<Step> {
        if self.kind.len() >= MAX_STEPS {
            return Err(Error::limit(format!("the timeline passes {MAX_STEPS} steps")));
        }
        self.kind.push(kind);
        let step = self.inst.push(inst);
        self.twin.push(step);
        Ok(step)
    }

    fn chain(&mut self, g: &Graph, chain: Chain, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::limit(format!("chain {chain} nests deeper than {MAX_DEPTH}")));
        }
        for &inst in &g.chains[chain] {
            match bracket(g, inst) {
                Bracket::None => {
                    self.push(StepKind::Op, inst)?;
                }
                Bracket::If(yes, no) => {
                    let open = self.push(StepKind::If, inst)?;
                    self.chain(g, yes, depth + 1)?;
                    let middle = self.push(StepKind::Else, inst)?;
                    self.chain(g, no, depth + 1)?;
                    let end = self.push(StepKind::EndIf, inst)?;
                    (self.twin[open], self.twin[middle], self.twin[end]) = (middle, end, open);
                }
                Bracket::Scan(body) => {
                    let open = self.push(StepKind::Scan, inst)?;
                    self.chain(g, body, depth + 1)?;
                    let end = self.push(StepKind::EndScan, inst)?;
                    (self.twin[open], self.twin[end]) = (end, open);
                }
            }
        }
        Ok(())
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.kind.len()
    }
    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }
}
