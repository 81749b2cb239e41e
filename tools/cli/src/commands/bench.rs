//! `lowtide bench`: how fast a language model prefills and decodes here.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lowtide::{BindOptions, SessionOptions};
use serde_json::{Value as Json, json};

use crate::device::{DeviceArgs, describe};
use crate::failure::{Failure, Outcome};
use crate::lm::model::{LanguageModel, Signature};
use crate::{file, show};

/// Measures prefill and decode of a language model: medians of several runs, with their spread
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program
    model: PathBuf,
    /// The method
    #[arg(long, default_value = "forward")]
    method: String,
    /// Made-up values in place of weights that are all zeros
    #[arg(long, value_name = "SEED")]
    synthetic_weights: Option<u64>,
    /// Tokens to prefill
    #[arg(long, default_value_t = 512)]
    prompt: usize,
    /// Tokens to decode at each context
    #[arg(long, default_value_t = 32)]
    decode: usize,
    /// Tokens before decoding begins, several separated by commas
    #[arg(long, value_delimiter = ',', default_value = "128")]
    context: Vec<usize>,
    /// Runs of each
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Instead, print the device time of each kernel of one prefill and one decoded token
    #[arg(long)]
    profile: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Median and range of some times, in milliseconds.
struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(mut ms: Vec<f64>) -> Self {
        ms.sort_by(f64::total_cmp);
        let pick = |i: usize| ms.get(i).copied().unwrap_or(f64::NAN);
        Self { median: pick(ms.len() / 2), low: pick(0), high: pick(ms.len().saturating_sub(1)) }
    }
    fn json(&self) -> Json {
        json!({"median_ms": self.median, "min_ms": self.low, "max_ms": self.high})
    }
    fn text(&self) -> String {
        format!("{:.3} ms ({:.3} to {:.3})", self.median, self.low, self.high)
    }
}

fn ms(t: Duration) -> f64 {
    t.as_secs_f64() * 1e3
}

/// Feeds `count` tokens in chunks.
fn feed(lm: &mut LanguageModel, count: usize) -> Outcome<Duration> {
    let start = Instant::now();
    let mut left = count;
    while left > 0 {
        let n = left.min(lm.signature.chunk);
        let ids: Vec<u32> = (0..n).map(|i| ((i * 7 + left * 13) % 97 + 3) as u32).collect();
        lm.feed(&ids)?;
        left -= n;
    }
    Ok(start.elapsed())
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    if args.runs == 0 {
        return Err(Failure::usage("--runs is 1 or more"));
    }
    let model = file::open(&args.model)?;
    let signature = Signature::of(&model, &args.method)?;
    let engine = args.device.open()?;
    let bar = show::spinner("binding".to_string());
    let options = BindOptions { synthetic_weights: args.synthetic_weights, ..BindOptions::default() };
    let bound = engine.bind(&model, options)?;
    bar.finish_and_clear();
    let mut lm = LanguageModel::new(bound.session(SessionOptions::default())?, &args.method, signature);
    let context = lm.signature.context.unwrap_or(usize::MAX);
    let fits = |n: usize| {
        if n <= context {
            Ok(())
        } else {
            Err(Failure::usage(format!("{n} tokens; the program's context is {context}")))
        }
    };
    fits(args.prompt)?;
    // The first run compiles kernels.
    feed(&mut lm, args.prompt)?;
    feed(&mut lm, 1.min(context - args.prompt))?;
    if args.profile {
        return profile(&mut lm, args.prompt);
    }
    let mut prefill = Vec::new();
    for _ in 0..args.runs {
        lm.reset()?;
        prefill.push(ms(feed(&mut lm, args.prompt)?));
    }
    let prefill = Spread::of(prefill);
    let prefill_facts = lm.facts();
    let mut decode = Vec::new();
    for &before in &args.context {
        fits(before + args.decode)?;
        let mut times = Vec::new();
        for _ in 0..args.runs {
            lm.reset()?;
            feed(&mut lm, before)?;
            feed(&mut lm, 1)?;
            let start = Instant::now();
            for _ in 1..args.decode.max(2) {
                feed(&mut lm, 1)?;
            }
            times.push(ms(start.elapsed()) / (args.decode.max(2) - 1) as f64);
        }
        decode.push((before, Spread::of(times), lm.facts()));
    }
    let memory = lm.memory();
    if args.json {
        let decode: Vec<Json> = decode
            .iter()
            .map(|(c, s, f)| json!({"context": c, "per_token": s.json(), "dispatches": f.dispatches, "waits": f.waits}))
            .collect();
        let report = json!({
            "adapter": describe(engine.adapter()),
            "prompt": args.prompt,
            "prefill": prefill.json(),
            "prefill_dispatches": prefill_facts.dispatches,
            "decode": decode,
            "memory": {"weights": memory[0], "state": memory[1], "arena": memory[2], "staging": memory[3]},
        });
        println!("{report:#}");
        return Ok(());
    }
    println!("adapter            {}", describe(engine.adapter()));
    println!(
        "prefill {:<10} {}, {} dispatches in the last part",
        args.prompt,
        prefill.text(),
        prefill_facts.dispatches
    );
    for (c, s, f) in &decode {
        println!("decode at {c:<8} {} a token, {} dispatches, {} waits", s.text(), f.dispatches, f.waits);
    }
    println!("above weights      {} bytes of arena and staging; state {}", memory[2] + memory[3], memory[1]);
    Ok(())
}

/// The device time of each kernel.
fn profile(lm: &mut LanguageModel, prompt: usize) -> Outcome {
    for (what, tokens) in [("prefill", prompt), ("decode", 1)] {
        if what == "prefill" {
            lm.reset()?;
        }
        lm.session().start_profile()?;
        feed(lm, tokens)?;
        let rows = lm.session().profile();
        let total: f64 = rows.iter().map(|r| r.2).sum();
        println!("{what} of {tokens}: {:.3} ms on the device", total / 1e6);
        for (label, count, time) in rows {
            println!(
                "{:10.3} ms {:5.1} % {count:6} x {:9.2} us  {label}",
                time / 1e6,
                100.0 * time / total,
                time / 1e3 / count as f64
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_sorted_times() {
        let s = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((s.low, s.median, s.high), (1.0, 2.0, 3.0));
    }
}
