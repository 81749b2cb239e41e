//! What the memory controls cost and save on a program: `cargo bench --bench memory [-- PROGRAM [SIZE]]`, or
//! `LOWTIDE_PROGRAM` and `LOWTIDE_SIZE`. By default the small language model among the tests. Every dynamic dimension gets
//! the size (by default its bound, at most 64); inputs are zeros, and zeroed weights get made-up values. Every arm must
//! give the first one's outputs, bit for bit.

use std::path::PathBuf;
use std::time::Instant;

use lowtide::program::DimBound;
use lowtide::program::pte::PlanValue;
use lowtide::session::Budget;
use lowtide::{BindOptions, Engine, EngineOptions, Error, Item, Model, PlanOptions, SessionOptions, Tensor};

const METHOD: &str = "forward";
const RUNS: usize = 5;
const MB: u64 = 1 << 20;

fn size(d: &DimBound, wanted: Option<usize>) -> usize {
    match d.max {
        Some(max) if max == d.min => max as usize,
        max => wanted.unwrap_or(64).min(max.map_or(usize::MAX, |m| m as usize)),
    }
}

fn inputs(model: &Model, wanted: Option<usize>) -> Result<Vec<Item>, Error> {
    let (_, m) = model.method(METHOD)?;
    m.inputs
        .iter()
        .map(|&i| match &m.values[i] {
            PlanValue::Tensor(t) => {
                let dims: Vec<usize> = t.dims.iter().map(|d| size(d, wanted)).collect();
                let bytes = vec![0; dims.iter().product::<usize>() * t.dtype.size()];
                Tensor::new(t.dtype, &dims, bytes).map(Item::Tensor)
            }
            PlanValue::Int(v) => Ok(Item::Int(*v)),
            PlanValue::Bool(v) => Ok(Item::Bool(*v)),
            PlanValue::Double(v) => Ok(Item::Float(*v)),
            other => Err(Error::input(format!("input {other:?} cannot be made up"))),
        })
        .collect()
}

/// Kilobytes: the most that were ever resident, where the system says.
fn most_resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find(|l| l.starts_with("VmHWM"))?.split_whitespace().nth(1)?.parse().ok()
}

struct Arm {
    name: &'static str,
    keep: bool,
    options: SessionOptions,
}

fn arms() -> Vec<Arm> {
    let plain = SessionOptions::default;
    let flush = |mb: u64| SessionOptions { eval_threshold: Some(mb * MB), ..plain() };
    let limit = |mb: u64| SessionOptions { budget: Budget::AboveLoaded(mb * MB), ..plain() };
    let arm = |name, keep, options| Arm { name, keep, options };
    vec![
        arm("none (keep temps)", true, plain()),
        arm("release only", false, plain()),
        arm("threshold 512 MB", false, flush(512)),
        arm("threshold 128 MB", false, flush(128)),
        arm("limit +512 MB", false, limit(512)),
        arm("limit +256 MB", false, limit(256)),
        arm("limit +128 MB", false, limit(128)),
        arm("cache 0", false, SessionOptions { cache_limit: Some(0), ..plain() }),
    ]
}

fn main() -> Result<(), Error> {
    let mut given = std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    let path = given.next().or_else(|| std::env::var("LOWTIDE_PROGRAM").ok()).map(PathBuf::from);
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/models/kjv-3m/model.pte");
    let wanted = given.next().or_else(|| std::env::var("LOWTIDE_SIZE").ok()).and_then(|v| v.parse().ok());
    let model = Model::open(path.unwrap_or(own))?;
    let inputs = inputs(&model, wanted)?;
    let shapes: Vec<Vec<usize>> =
        inputs.iter().filter_map(|i| if let Item::Tensor(t) = i { Some(t.dims.clone()) } else { None }).collect();
    let engine = Engine::new(&EngineOptions::default())?;
    let before = most_resident();
    let bind = |keep_temps| {
        engine.bind(&model, BindOptions { keep_temps, synthetic_weights: Some(1), ..BindOptions::default() })
    };
    let mut bound = bind(false)?;
    let plan = bound.plan(METHOD, Some(&shapes))?;
    println!("{METHOD} on {}", engine.adapter().name);
    println!("weights {} bytes, state {}, inputs {shapes:?}", plan.weights_bytes, plan.state_bytes);
    if let (Some(before), Some(after)) = (before, most_resident()) {
        println!("resident peak: {before} KiB with the device open, {after} KiB after loading");
    }
    println!(
        "{:<20} {:>10} {:>14} {:>14} {:>8} {:>8} {:>8}  outputs",
        "arm", "ms", "peak above", "held after", "temps", "flushes", "waits"
    );
    let mut first: Option<Vec<Item>> = None;
    let mut kept = false;
    for arm in arms() {
        if arm.keep != kept {
            bound = bind(arm.keep)?;
            kept = arm.keep;
        }
        let options = PlanOptions { keep_temps: arm.keep, ..PlanOptions::default() };
        let plan = model.plan(METHOD, Some(&shapes), &options)?;
        let mut session = bound.session(arm.options)?;
        let mut times = Vec::new();
        let mut outputs = Vec::new();
        let mut refused = None;
        for run in 0..=RUNS {
            session.reset()?;
            let start = Instant::now();
            match session.run(METHOD, &inputs) {
                Ok(o) => outputs = o,
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
            // The first run compiles kernels.
            if run > 0 {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        if let Some(e) = refused {
            println!("{:<20} refused: {e}", arm.name);
            continue;
        }
        times.sort_by(f64::total_cmp);
        let facts = session.last_run().into_iter().next().unwrap_or_default();
        let same = first.get_or_insert_with(|| outputs.clone()) == &outputs;
        let [.., arena, staging] = session.memory();
        println!(
            "{:<20} {:>10.2} {:>14} {:>14} {:>8} {:>8} {:>8}  {}",
            arm.name,
            times[times.len() / 2],
            plan.arena_bytes + plan.staging_bytes,
            arena + staging,
            facts.end_live_temps,
            facts.flushes,
            facts.waits,
            if same { "identical" } else { "DIFFERENT" }
        );
        assert!(same, "{} changes the outputs", arm.name);
    }
    Ok(())
}
