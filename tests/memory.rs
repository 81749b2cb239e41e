//! What a run takes is what its plan said, to the byte; budgets, splitting, giving memory back.

#[allow(dead_code)]
#[path = "support/files.rs"]
mod files;

use lowtide::program::pte::PlanValue;
use lowtide::session::Budget;
use lowtide::{
    BindOptions, Bound, Engine, EngineOptions, ErrorKind, Item, Model, PlanOptions, SessionOptions, Tensor, Want,
};

fn engine() -> Engine {
    Engine::new(&EngineOptions::default()).expect("an adapter")
}

fn kjv() -> Model {
    let path = files::own().into_iter().find(|p| p.to_string_lossy().contains("kjv-3m")).expect("tests/models/kjv-3m");
    Model::open(path).expect("a model")
}

fn shapes(n: usize) -> Vec<Vec<usize>> {
    vec![vec![1, n], vec![n]]
}

/// Tokens `from..to` of a made-up text.
fn tokens(from: usize, to: usize) -> Vec<Item> {
    let ids: Vec<i64> = (from..to).map(|i| (i * i * 7 + i * 3 + 5) as i64 % 97).collect();
    let positions: Vec<i64> = (from..to).map(|i| i as i64).collect();
    vec![
        Item::Tensor(Tensor::from_i64(&[1, to - from], &ids)),
        Item::Tensor(Tensor::from_i64(&[to - from], &positions)),
    ]
}

fn bind(model: &Model, keep_temps: bool) -> Bound {
    engine().bind(model, BindOptions { keep_temps, ..BindOptions::default() }).expect("a bound program")
}

fn logits(items: &[Item]) -> Vec<f32> {
    match &items[0] {
        Item::Tensor(t) => t.to_f32(),
        other => panic!("{other:?}"),
    }
}

/// Zeros of every input at its upper bounds.
fn zeros(model: &Model, method: &str) -> Option<Vec<Item>> {
    let (_, m) = model.method(method).expect("the method");
    let item = |value: &PlanValue| match value {
        PlanValue::Tensor(t) => {
            let dims: Vec<usize> = t.dims.iter().map(|d| d.max.map(|v| v as usize)).collect::<Option<_>>()?;
            let bytes = vec![0; dims.iter().product::<usize>() * t.dtype.size()];
            Some(Item::Tensor(Tensor::new(t.dtype, &dims, bytes).expect("bytes fit")))
        }
        PlanValue::Int(v) => Some(Item::Int(*v)),
        PlanValue::Bool(v) => Some(Item::Bool(*v)),
        PlanValue::Double(v) => Some(Item::Float(*v)),
        _ => None,
    };
    m.inputs.iter().map(|&i| item(&m.values[i])).collect()
}

#[test]
fn a_run_takes_what_its_plan_said() {
    let model = kjv();
    for keep_temps in [false, true] {
        let bound = bind(&model, keep_temps);
        for n in [1, 6, 64] {
            for want in [Want::All, Want::LastRow] {
                let options = PlanOptions { keep_temps, wants: vec![want] };
                let plan = model.plan("forward", Some(&shapes(n)), &options).expect("a plan");
                if want == Want::All {
                    assert_eq!(plan, bound.plan("forward", Some(&shapes(n))).expect("a plan"));
                }
                let mut session = bound.session(SessionOptions::default()).expect("a session");
                session.run_with("forward", &tokens(0, n), &[want]).expect("a run");
                let planned = [plan.weights_bytes, plan.state_bytes, plan.arena_bytes, plan.staging_bytes];
                assert_eq!(session.memory(), planned, "{n} tokens, {want:?}, keep {keep_temps}");
                assert_eq!(session.memory().iter().sum::<u64>(), plan.peak_bytes);
                let facts = session.last_run()[0];
                assert_eq!((facts.end_live_temps, facts.end_live_bytes), (plan.end_live_temps, plan.end_live_bytes));
                assert_eq!(facts.end_live_temps > 0, keep_temps);
            }
        }
    }
}

/// The last row alone is the last row of all, and the rows that are left out take no memory.
#[test]
fn a_last_row_is_that_of_the_whole() {
    let model = kjv();
    let bound = bind(&model, false);
    let run = |want| {
        let mut session = bound.session(SessionOptions::default()).expect("a session");
        let out = session.run_with("forward", &tokens(0, 50), &[want]).expect("a run");
        let Item::Tensor(t) = &out[0] else { panic!("a tensor") };
        (t.dims.clone(), t.to_f32(), session.memory())
    };
    let (all_dims, all, all_memory) = run(Want::All);
    let (dims, last, memory) = run(Want::LastRow);
    let columns = all_dims[2];
    assert_eq!(dims, [1, 1, columns]);
    let want = &all[all.len() - columns..];
    let apart = last.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("{apart} apart; arena and staging {} against {}", memory[2] + memory[3], all_memory[2] + all_memory[3]);
    assert!(last.len() == columns && apart <= 1e-4, "{apart}");
    assert!(memory[2] <= all_memory[2] && memory[3] <= all_memory[3]);
}

#[test]
fn every_own_program_takes_what_its_plan_said() {
    let mut ran = 0;
    for path in files::own() {
        let name = path.display().to_string();
        let Ok(model) = Model::open(&path) else {
            eprintln!("SKIPPED: {name} does not load");
            continue;
        };
        let methods: Vec<String> = model.methods().map(String::from).collect();
        for method in methods {
            let Some(inputs) = zeros(&model, &method) else { continue };
            let (_, m) = model.method(&method).expect("the method");
            if m.delegates.is_empty() {
                continue;
            }
            let plan = model.plan(&method, None, &PlanOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
            let mut session = bind(&model, false).session(SessionOptions::default()).expect("a session");
            session.run(&method, &inputs).unwrap_or_else(|e| panic!("{name}, {method}: {e}"));
            let planned = [plan.weights_bytes, plan.state_bytes, plan.arena_bytes, plan.staging_bytes];
            assert_eq!(session.memory(), planned, "{name}, {method}");
            ran += 1;
        }
    }
    assert!(ran > 5, "{ran}");
}

/// One byte less than the plan is refused with both figures before anything is submitted; the plan's bytes are enough.
#[test]
fn a_budget_of_exactly_the_plan_is_enough() {
    let model = kjv();
    let bound = bind(&model, false);
    let plan = bound.plan("forward", Some(&shapes(32))).expect("a plan");
    let above = plan.arena_bytes + plan.staging_bytes;
    for (enough, budget) in [
        (true, Budget::AboveLoaded(above)),
        (false, Budget::AboveLoaded(above - 1)),
        (true, Budget::Total(plan.peak_bytes)),
        (false, Budget::Total(plan.peak_bytes - 1)),
    ] {
        let mut session = bound.session(SessionOptions { budget, ..SessionOptions::default() }).expect("a session");
        assert_eq!(session.fits("forward", &shapes(32), &[]).expect("an answer"), enough);
        match session.run("forward", &tokens(0, 32)) {
            Ok(_) => assert!(enough, "{budget:?}"),
            Err(e) => {
                assert!(!enough && e.kind() == ErrorKind::Memory, "{e}");
                let text = e.to_string();
                assert!(text.contains(&above.to_string()) && text.contains(&(above - 1).to_string()), "{text}");
                assert_eq!(session.last_run()[0].dispatches, 0);
            }
        }
    }
}

/// A prompt that a budget does not allow whole gives the same logits in the parts that planning finds.
#[test]
fn a_split_prompt_gives_the_same() {
    let model = kjv();
    let bound = bind(&model, false);
    let all = 96;
    let mut whole = bound.session(SessionOptions::default()).expect("a session");
    let want = logits(&whole.run_with("forward", &tokens(0, all), &[Want::LastRow]).expect("a run"));
    let need = |n: usize| {
        let options = PlanOptions { wants: vec![Want::LastRow], ..PlanOptions::default() };
        let p = model.plan("forward", Some(&shapes(n)), &options).expect("a plan");
        p.arena_bytes + p.staging_bytes
    };
    for part in [40, 17, 1] {
        let budget = Budget::AboveLoaded(need(part));
        let mut session = bound.session(SessionOptions { budget, ..SessionOptions::default() }).expect("a session");
        assert!(session.run_with("forward", &tokens(0, all), &[Want::LastRow]).is_err());
        let size = session.largest_fit("forward", all, &[Want::LastRow], shapes).expect("a size");
        assert!(size >= part && size < all && need(size) <= need(part), "{size} for {part}");
        let (mut at, mut got) = (0, Vec::new());
        while at < all {
            let to = (at + size).min(all);
            got = logits(&session.run_with("forward", &tokens(at, to), &[Want::LastRow]).expect("a part"));
            at = to;
            let [.., arena, staging] = session.memory();
            assert!(arena + staging <= need(part), "{arena} {staging}");
        }
        let apart = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let scale = want.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        println!("parts of {size}: at most {apart} apart, logits up to {scale}");
        assert!(got.len() == want.len() && apart <= 1e-2 * scale, "{apart} of {scale}");
    }
    let none = SessionOptions { budget: Budget::AboveLoaded(1000), ..SessionOptions::default() };
    let session = bound.session(none).expect("a session");
    assert_eq!(session.largest_fit("forward", all, &[], shapes).expect("a size"), 0);
}

#[test]
fn caches_are_given_back() {
    let model = kjv();
    let bound = bind(&model, false);
    let run = |options: SessionOptions, times: usize| {
        let mut session = bound.session(options).expect("a session");
        let mut arenas = Vec::new();
        for i in 0..times {
            session.run_with("forward", &tokens(i, i + 1), &[Want::LastRow]).expect("a run");
            arenas.push(session.memory()[2] > 0);
        }
        (session, arenas)
    };
    let (mut session, arenas) = run(SessionOptions::default(), 2);
    assert_eq!(arenas, [true, true]);
    let before = session.memory();
    session.trim();
    assert_eq!(session.memory(), [before[0], before[1], 0, before[3]]);
    session.run_with("forward", &tokens(2, 3), &[Want::LastRow]).expect("a run after a trim");
    assert_eq!(session.memory(), before);
    session.clear_cache();
    assert_eq!(session.memory()[2], 0);
    let zero = SessionOptions { cache_limit: Some(0), ..SessionOptions::default() };
    assert_eq!(run(zero, 2).1, [false, false]);
    let every_third = SessionOptions { clear_cache_interval: Some(3), ..SessionOptions::default() };
    assert_eq!(run(every_third, 6).1, [true, true, false, true, true, false]);
    let small = SessionOptions { memory_limit: Some(1000), ..SessionOptions::default() };
    let mut session = bound.session(small).expect("a session");
    assert_eq!(session.run("forward", &tokens(0, 1)).expect_err("refused").kind(), ErrorKind::Memory);
}

/// Kilobytes of this process that are resident.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = text.lines().find(|l| l.starts_with("VmRSS")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|v| v.parse().ok()).expect("a number")
}

/// Loading, running and dropping 50 times leaves nothing behind. Runs in a process of its own: other tests of this one
/// allocate at the same time.
#[cfg(target_os = "linux")]
#[test]
fn loading_and_dropping_is_flat() {
    const ALONE: &str = "LOWTIDE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let me = std::env::current_exe().expect("this program");
        let args = ["loading_and_dropping_is_flat", "--exact", "--nocapture"];
        let out = std::process::Command::new(me).args(args).env(ALONE, "1").output().expect("it runs");
        print!("{}", String::from_utf8_lossy(&out.stdout));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        return;
    }
    let engine = engine();
    let mut after = Vec::new();
    let mut weights = 0;
    for _ in 0..50 {
        let model = kjv();
        let bound = engine.bind(&model, BindOptions::default()).expect("a bound program");
        let mut session = bound.session(SessionOptions::default()).expect("a session");
        session.run_with("forward", &tokens(0, 8), &[Want::LastRow]).expect("a run");
        weights = session.memory()[0] / 1024;
        drop((session, bound, model));
        after.push(resident());
    }
    let (early, late) = (after[9], after[49]);
    println!("resident after 10 loads {early} KiB, after 50 {late} KiB; weights {weights} KiB");
    // One copy of the weights leaked per load would be forty times that.
    assert!(late < early + 2 * weights + 8 * 1024, "{early} KiB after 10 loads, {late} KiB after 50");
}
