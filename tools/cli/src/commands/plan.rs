//! `lowtide plan`: what a run needs in memory, before any run.

use std::path::PathBuf;

use lowtide::program::{DimBound, Port};
use lowtide::report::Chart;
use lowtide::session::Budget;
use lowtide::{MemoryReport, Model, PlanOptions, Want};
use serde_json::{Value as Json, json};

use crate::failure::{Failure, Outcome};
use crate::{file, show};

/// Prints what a run needs in memory, before any run
///
/// Neither an adapter nor the weights are needed. Without --seq, sizes are those at the file's upper bounds.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program; one that ends in .gz is unpacked
    model: PathBuf,
    /// The method
    #[arg(long, default_value = "forward")]
    method: String,
    /// The size of every dynamic dimension of the inputs
    #[arg(long, value_name = "N")]
    seq: Option<usize>,
    /// Says whether the run fits into 512MB in all, or +256MB on top of weights and state, and in parts of what size
    #[arg(long, value_name = "BYTES")]
    budget: Option<Budget>,
    /// Only the last row of each result is read back, as `generate` does
    #[arg(long)]
    last_row: bool,
    /// Never release a temp: what a runtime without liveness analysis needs, for comparison
    #[arg(long)]
    keep_temps: bool,
    /// Taken for symmetry with bench: the values of weights change no figure
    #[arg(long, value_name = "SEED")]
    synthetic_weights: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a page that draws the run: memory over steps, and every value's place
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let model = file::open(&args.model)?;
    let (report, charts) = plan_steps(&model, args, args.seq)?;
    let budget = args.budget.map(|b| Verdict::of(&model, args, b, &report)).transpose()?;
    if let Some(path) = &args.html {
        let title = args.model.file_name().unwrap_or_default().to_string_lossy();
        std::fs::write(path, page(&title, args, &report, &charts)).map_err(|e| Failure::file(path, e))?;
    }
    if args.json {
        let mut out = report_json(&report);
        if let (Some(v), Some(map)) = (&budget, out.as_object_mut()) {
            map.insert("budget".into(), v.json());
        }
        println!("{out:#}");
    } else {
        print!("{}", text(&report));
        if let Some(v) = &budget {
            println!("\n{}", v.text());
        }
    }
    match budget {
        Some(Verdict { part: None, .. }) => Err(Failure { code: 4, message: "the run does not fit the budget".into() }),
        _ => Ok(()),
    }
}

fn plan_steps(model: &Model, args: &Args, seq: Option<usize>) -> Outcome<(MemoryReport, Vec<Chart>)> {
    let shapes = seq.map(|n| shapes(model, &args.method, n)).transpose()?;
    let (_, m) = model.method(&args.method)?;
    let want = if args.last_row { Want::LastRow } else { Want::All };
    let options = PlanOptions { keep_temps: args.keep_temps, wants: vec![want; m.outputs.len()] };
    Ok(model.plan_steps(&args.method, shapes.as_deref(), &options)?)
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

/// Whether a run fits a budget.
#[derive(Debug, PartialEq)]
struct Verdict {
    /// Bytes that the budget leaves for arena and staging.
    available: u64,
    /// Bytes of arena and staging that the run takes at once.
    wanted: u64,
    /// The largest size of the dynamic dimensions that fits; the size asked for where that does.
    part: Option<usize>,
}

impl Verdict {
    fn of(model: &Model, args: &Args, budget: Budget, r: &MemoryReport) -> Outcome<Self> {
        let available = match budget {
            Budget::Unlimited => u64::MAX,
            Budget::Total(bytes) => bytes.saturating_sub(r.weights_bytes + r.state_bytes),
            Budget::AboveLoaded(bytes) => bytes,
        };
        let wanted = r.arena_bytes + r.staging_bytes;
        let fits = |n: usize| -> Outcome<bool> {
            let (r, _) = plan_steps(model, args, Some(n))?;
            Ok(r.arena_bytes + r.staging_bytes <= available)
        };
        let part = match args.seq {
            _ if wanted <= available => Some(args.seq.unwrap_or(0)),
            None => None,
            Some(n) => {
                let (mut low, mut high) = (0, n);
                while low + 1 < high {
                    let middle = low + (high - low) / 2;
                    // What is below the file's smallest size does not run.
                    if fits(middle).unwrap_or(false) { low = middle } else { high = middle }
                }
                (low > 0).then_some(low)
            }
        };
        Ok(Self { available, wanted, part })
    }

    fn json(&self) -> Json {
        json!({
            "available_bytes": self.available,
            "wanted_bytes": self.wanted,
            "fits": self.wanted <= self.available,
            "largest_part": self.part,
        })
    }

    fn text(&self) -> String {
        let (wanted, available) = (show::grouped(self.wanted), show::grouped(self.available));
        let how = match self.part {
            _ if self.wanted <= self.available => "it fits".to_string(),
            Some(n) => format!("it fits in parts of {n}"),
            None => "it does not fit".to_string(),
        };
        format!("the run takes {wanted} bytes of arena and staging, the budget leaves {available}: {how}")
    }
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

/// The page of `--html`: everything in one file, nothing fetched.
fn page(title: &str, args: &Args, r: &MemoryReport, charts: &[Chart]) -> String {
    let chart = |c: &Chart| {
        let bars: Vec<Json> =
            c.bars.iter().map(|b| json!([b.born, b.dies, b.offset, b.bytes, b.name, b.made_by])).collect();
        json!({"steps": c.steps, "live": c.live, "bars": bars, "arena": c.arena_bytes})
    };
    let size = args.seq.map_or("upper bounds".to_string(), |n| format!("size {n}"));
    let kept = if args.keep_temps { ", temps kept" } else { "" };
    let data = json!({
        "title": title,
        "what": format!("{} at {size}{kept}", args.method),
        "report": report_json(r),
        "charts": charts.iter().map(chart).collect::<Vec<_>>(),
    });
    // Inside a script element only `<` could end it.
    include_str!("plan.html").replace("/*DATA*/null", &data.to_string().replace('<', "\\u003c"))
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

    #[test]
    fn a_verdict_says_how_it_fits() {
        let v = |available, part| Verdict { available, wanted: 100, part };
        assert!(v(100, Some(7)).text().ends_with("it fits"));
        assert!(v(99, Some(7)).text().ends_with("in parts of 7"));
        assert!(v(9, None).text().ends_with("does not fit"));
        assert_eq!(v(99, Some(7)).json()["fits"], false);
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let html = include_str!("plan.html");
        assert!(html.contains("/*DATA*/null"));
        for outside in ["http:", "https:", "src=", "@import", "fetch("] {
            assert!(!html.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
        }
    }
}
