//! `lowtide verify`: runs case folders against their expected outputs.

use std::path::PathBuf;

use lowtide::verify::{CaseResult, Status, find, run as run_case, to_json};

use crate::device::DeviceArgs;
use crate::failure::{Failure, Outcome};
use crate::show;

/// Runs every case under a folder and compares its outputs with the expected ones
///
/// Fails when a case fails, when no case is found, and when none could run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder of cases, at any depth
    dir: PathBuf,
    /// Only cases whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let mut cases = find(&args.dir)?;
    cases.retain(|c| c.name.contains(&args.filter));
    if cases.is_empty() {
        let part = if args.filter.is_empty() { String::new() } else { format!(" with {:?} in its name", args.filter) };
        return Err(Failure::new(format!("no case{part} is under {}", args.dir.display())));
    }
    let engine = args.device.open()?;
    let bar = show::count_bar("", cases.len());
    let mut results = Vec::with_capacity(cases.len());
    for case in &cases {
        bar.set_message(case.name.clone());
        results.push(run_case(&engine, case));
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json {
        println!("{:#}", to_json(&results));
    } else {
        print!("{}", show::table(&rows(&results), &[1, 2]));
        println!("{}", summary(&results, &crate::device::describe(engine.adapter())));
    }
    verdict(&results)
}

fn count(results: &[CaseResult], status: Status) -> usize {
    results.iter().filter(|r| r.status == status).count()
}

fn rows(results: &[CaseResult]) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = vec![["status", "worst", "steps", "case", "reason"].map(String::from).into()];
    rows.extend(results.iter().map(|r| {
        let worst = if r.worst.is_finite() { format!("{:.3}", r.worst) } else { "-".into() };
        // A compiler's message has several lines; a row has one.
        let reason = r.reason.split_whitespace().collect::<Vec<_>>().join(" ");
        vec![r.status.name().to_string(), worst, r.steps.to_string(), r.name.clone(), reason]
    }));
    rows
}

fn summary(results: &[CaseResult], adapter: &str) -> String {
    let [passed, failed, refused] = [Status::Pass, Status::Fail, Status::Refused].map(|s| count(results, s));
    format!("{passed} passed, {failed} failed, {refused} refused on {adapter} (worst: |error| over what is allowed)")
}

fn verdict(results: &[CaseResult]) -> Outcome {
    if count(results, Status::Fail) > 0 {
        return Err(Failure::silent());
    }
    if count(results, Status::Pass) == 0 {
        return Err(Failure::new("every case was refused: nothing was verified"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(status: Status) -> CaseResult {
        CaseResult { name: "x".into(), status, worst: 0.5, reason: String::new(), steps: 1 }
    }

    #[test]
    fn a_failure_or_nothing_verified_is_a_failure() {
        assert!(verdict(&[result(Status::Pass), result(Status::Refused)]).is_ok());
        assert!(verdict(&[result(Status::Pass), result(Status::Fail)]).is_err());
        assert!(verdict(&[result(Status::Refused)]).is_err());
    }

    #[test]
    fn the_summary_counts_each_status() {
        let all = [result(Status::Pass), result(Status::Fail), result(Status::Refused), result(Status::Pass)];
        assert!(summary(&all, "a").starts_with("2 passed, 1 failed, 1 refused on a"));
        assert_eq!(rows(&all).len(), 5);
    }
}
