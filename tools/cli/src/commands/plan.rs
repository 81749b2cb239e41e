//! `lowtide plan`: what a run needs in memory, before any run.

use std::path::PathBuf;

use lowtide::program::{DimBound, Port};
use lowtide::{MemoryReport, Model, PlanOptions, Want};
use serde_json::{Value as Json, json};

use crate::failure::{Failure, Outcome};
use crate::show;

/// Prints what a run needs in memory, before any run
///
/// No adapter is needed, and weights are not read. Without --seq, sizes are those at the file's upper bounds.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program
    model: PathBuf,
    /// The method
    #[arg(long, default_value = "forward")]
    method: String,
    /// The size of every dynamic dimension of the inputs
    #[arg(long, value_name = "N")]
    seq: Option<usize>,
    /// Never release a temp: what a runtime without liveness analysis needs, for comparison
    #[arg(long)]
    keep_temps: bool,
    /// Read back only the last row of the first result, as `generate` does
    #[arg(long)]
    last_row: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let model = Model::open(&args.model)?;
    let shapes = args.seq.map(|n| shapes(&model, &args.method, n)).transpose()?;
    let wants = if args.last_row { vec![Want::LastRow] } else { Vec::new() };
    let options = PlanOptions { keep_temps: args.keep_temps, wants };
    let report = model.plan(&args.method, shapes.as_deref(), &options)?;
    if args.json {
        println!("{:#}", report_json(&report));
    } else {
        print!("{}", text(&report));
    }
    Ok(())
}

/// The shapes of a method's tensor inputs where every dynamic dimension is `n`.
fn shapes(model: &Model, method: &str, n: usize) -> Outcome<Vec<Vec<usize>>> {
    let (number, m) = model.method(method)?;
    if m.delegates.len() != 1 {
        let count = m.delegates.len();
        return Err(Failure::usage(format!("--seq is for methods with one delegate; {method} has {count}")));
    }
    let g = &model.graphs()[model.first_graph(number)];
    let tensors = g.inputs.iter().filter_map(|port| if let Port::Tensor(slot) = port { Some(*slot) } else { None });
    Ok(tensors.map(|slot| g.tensors.dims[slot].iter().map(|d| size(d, n)).collect()).collect())
}

/// A dimension's one size, or `n` where it has several; planning checks `n` against the file's bounds.
fn size(d: &DimBound, n: usize) -> usize {
    if d.is_fixed() { d.min as usize } else { n }
}

/// A report as JSON. All sizes are bytes.
pub(crate) fn report_json(r: &MemoryReport) -> Json {
    let largest: Vec<Json> = r.largest.iter().map(|(life, bytes)| json!({"life": life, "bytes": bytes})).collect();
    json!({
        "weights_bytes": r.weights_bytes,
        "state_bytes": r.state_bytes,
        "arena_bytes": r.arena_bytes,
        "staging_bytes": r.staging_bytes,
        "peak_bytes": r.peak_bytes,
        "lower_bound_bytes": r.lower_bound_bytes,
        "end_live_temps": r.end_live_temps,
        "end_live_bytes": r.end_live_bytes,
        "steps": r.steps,
        "peak_step": r.peak_step,
        "peak_instruction": r.peak_instruction,
        "largest": largest,
    })
}

fn text(r: &MemoryReport) -> String {
    let row = |name: &str, bytes: u64, what: &str| vec![name.into(), show::grouped(bytes), what.into()];
    let rows = [
        row("weights_bytes", r.weights_bytes, "constants, shared by sessions"),
        row("state_bytes", r.state_bytes, "mutable buffers of a session"),
        row("arena_bytes", r.arena_bytes, "arguments, results and intermediates"),
        row("staging_bytes", r.staging_bytes, "dispatch parameters, and results on their way back"),
        row("peak_bytes", r.peak_bytes, "the sum"),
        row("lower_bound_bytes", r.lower_bound_bytes, "most bytes live at one step: no arena can be smaller"),
        row("end_live_temps", r.end_live_temps as u64, "intermediates never released"),
        row("end_live_bytes", r.end_live_bytes, "their bytes"),
        row("peak_step", u64::from(r.peak_step), &format!("of {}: {}", r.steps, r.peak_instruction)),
    ];
    let mut out = show::table(&rows, &[1]);
    if !r.largest.is_empty() {
        out += "\nlargest at the peak:\n";
        let lives: Vec<Vec<String>> =
            r.largest.iter().map(|(life, bytes)| vec![show::grouped(*bytes), life.clone()]).collect();
        out += &show::table(&lives, &[0]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_dimension_takes_the_size() {
        assert_eq!(size(&DimBound { min: 1, max: Some(128) }, 8), 8);
        assert_eq!(size(&DimBound { min: 1, max: None }, 8), 8);
        assert_eq!(size(&DimBound::fixed(3), 8), 3);
    }
}
