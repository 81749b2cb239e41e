//! Plans against the independent checker, the rules of release one by one, and the checker against broken plans.

#[path = "support/files.rs"]
mod files;
mod support;

use std::collections::{HashMap, HashSet};

use lowtide::dtype::DType;
use lowtide::kernel::{Alias, Value};
use lowtide::op::fields as f;
use lowtide::plan::bound::Tables;
use lowtide::plan::sizes::{Argument, upper_dims};
use lowtide::plan::steps::StepKind;
use lowtide::plan::{Placed, Timeline};
use lowtide::program::build::{ProgramBuilder, TensorRef};
use lowtide::program::cache::{CacheConfig, CacheLayer};
use lowtide::program::{DimBound, Graph, Home, Port};
use lowtide::table::{Chain, Csr, Id, Life, Slot, Step};
use lowtide::{ErrorKind, Model, ModelOptions, PlanOptions};
use support::checker::{Checker, Path};
use support::{Rng, programs};

fn arguments(g: &Graph) -> Vec<Argument> {
    g.inputs
        .iter()
        .map(|p| match p {
            Port::Tensor(s) => Argument::Tensor(upper_dims(&g.tensors.dims[*s]).expect("bounded inputs")),
            _ => Argument::Scalar(Value::Unknown),
        })
        .collect()
}

fn plan(g: &Graph) -> (Timeline, Placed) {
    let t = Timeline::of(g, g.main).expect("a timeline");
    let p = t.place(g, &[], &arguments(g), false).expect("places");
    (t, p)
}

/// Replays along several paths; reads and releases checked.
fn replay(g: &Graph, t: &Timeline, placed: &Placed, rng: &mut Rng) -> Result<(usize, usize), String> {
    let (mut reads, mut releases) = (0, 0);
    for turns in [1, 3, 0] {
        for _ in 0..4 {
            let mut branch = || rng.chance(50);
            let c = Checker::run(g, t, placed, &mut Path { branch: &mut branch, turns })?;
            reads += c.reads;
            releases += c.releases;
        }
    }
    Ok((reads, releases))
}

#[test]
fn random_programs_read_what_slots_demand() {
    let mut rng = Rng(1);
    let (mut reads, mut releases) = (0, 0);
    for i in 0..600 {
        let size = 5 + rng.below(60);
        let b = programs::random(&mut rng, size);
        let g = b.graph().expect("a graph");
        let (t, placed) = plan(&g);
        let (r, f) = replay(&g, &t, &placed, &mut rng).unwrap_or_else(|e| panic!("program {i}: {e}\n{g:#?}"));
        reads += r;
        releases += f;
    }
    println!("{reads} reads and {releases} releases checked");
    assert!(reads > 100_000 && releases > 50_000, "{reads} {releases}");
}

/// The cache that a case's `meta.json` describes for a program that leaves it to its runtime.
fn cache(program: &std::path::Path) -> Option<CacheConfig> {
    let meta = std::fs::read(program.with_file_name("meta.json")).ok()?;
    let meta: serde_json::Value = serde_json::from_slice(&meta).ok()?;
    let text = meta["kv_cache"].as_str()?;
    let n: Vec<usize> = text.split(',').take(4).map(|v| v.trim().parse().expect("a number")).collect();
    let [capacity, layers, heads, head_dim] = n[..] else { panic!("{text}") };
    let layer = CacheLayer { heads, head_dim, window: None };
    Some(CacheConfig { capacity, max_write: None, dtype: DType::F32, layers: vec![layer; layers] })
}

/// Every program of the repository and of the shared cases, at its upper bounds: reads see what they must, nothing
/// is live at the end, and the arena is near the lower bound.
#[test]
fn every_program_at_hand() {
    let mut rng = Rng(2);
    let (mut programs, mut reads, mut worst) = (0, 0, Vec::new());
    for path in files::own().into_iter().chain(files::shared()) {
        let name = path.display().to_string();
        let model = match Model::open_with(&path, &ModelOptions { cache: cache(&path) }) {
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                eprintln!("SKIPPED: {e}");
                continue;
            }
            other => other.unwrap_or_else(|e| panic!("{e}")),
        };
        for g in model.graphs() {
            let tables = Tables::of(g, false).unwrap_or_else(|e| panic!("{name}: {e}"));
            let placed = tables.place(g, &arguments(g)).unwrap_or_else(|e| panic!("{name}: {e}"));
            let (r, _) = replay(g, &tables.main, &placed, &mut rng).unwrap_or_else(|e| panic!("{name}: {e}"));
            if let (Some(init), Some(chain)) = (&tables.init, g.init) {
                let graph = Graph { main: chain, ..init.graph.clone() };
                replay(&graph, &init.timeline, &init.placed, &mut rng)
                    .unwrap_or_else(|e| panic!("{name}, init chain: {e}"));
            }
            only_temps_are_released(g, &tables.main);
            reads += r;
            programs += 1;
            let places = &placed.places;
            let ratio = places.arena_bytes as f64 / places.lower_bound.max(1) as f64;
            let most = if name.contains("/models/") { 1.01 } else { 1.05 };
            if places.lower_bound > 0 && ratio > 1.0 {
                println!("{ratio:.4} {} over {} in {name}", places.arena_bytes, places.lower_bound);
            }
            if places.lower_bound > 0 && ratio > most {
                worst.push(format!("{ratio:.4} {name}"));
            }
        }
    }
    println!("{programs} programs, {reads} reads");
    assert!(programs >= files::own().len() && worst.is_empty(), "above the lower bound: {worst:#?}");
}

fn fixed(dims: &[u32]) -> Vec<DimBound> {
    dims.iter().map(|&d| DimBound::fixed(d)).collect()
}
fn add(b: &mut ProgramBuilder, c: Chain, x: TensorRef, y: TensorRef, out: TensorRef) {
    b.push(c, "Add", [(f::add::a, x.into()), (f::add::b, y.into()), (f::add::out, out.into())]);
}
fn neg(b: &mut ProgramBuilder, c: Chain, x: TensorRef, out: TensorRef) {
    b.push(c, "Neg", [(f::neg::x, x.into()), (f::neg::out, out.into())]);
}

fn only_temps_are_released(g: &Graph, t: &Timeline) {
    for &life in t.lives.release.items() {
        assert_eq!(t.lives.home[life], Home::Temp, "{life} is released");
        if let Some(slot) = t.lives.slot[life]
            && g.tensors.home(slot) != Home::Temp
        {
            // What is made beside an output or a buffer and copied over: not the slot's own life.
            assert!(life.0 >= g.tensors.first[4]);
        }
    }
}

/// Rule 1, and that every temp is released exactly once.
#[test]
fn only_temps_are_released_and_every_temp_is() {
    let mut rng = Rng(3);
    for _ in 0..200 {
        let g = programs::random(&mut rng, 40).graph().expect("a graph");
        let t = Timeline::of(&g, g.main).expect("a timeline");
        only_temps_are_released(&g, &t);
        let mut times: HashMap<Life, usize> = HashMap::new();
        t.lives.release.items().iter().for_each(|&l| *times.entry(l).or_default() += 1);
        for (life, &home) in t.lives.home.iter() {
            assert_eq!(times.get(&life).copied().unwrap_or(0), usize::from(home == Home::Temp), "{life} {home:?}");
        }
    }
}

/// Rule 2: in a program without branches a slot's memory goes at the last use of each value that the slot takes.
#[test]
fn a_temp_goes_at_its_last_use_over_all_reuses() {
    let mut rng = Rng(4);
    let mut seen = 0;
    for _ in 0..100 {
        let mut b = ProgramBuilder::new();
        let x = b.input(DType::F32, &fixed(&[4]));
        let out = b.output(DType::F32, &fixed(&[4]));
        let pool: Vec<TensorRef> = (0..4).map(|_| b.temp()).collect();
        let main = b.main();
        let mut ready = vec![x];
        // Reading and writing one slot in one instruction is left to the checker's random programs.
        let mut last: HashMap<(TensorRef, usize), usize> = HashMap::new();
        let mut version: HashMap<TensorRef, usize> = HashMap::new();
        let steps = 30;
        for step in 0..steps {
            let (a, c) = (ready[rng.below(ready.len())], ready[rng.below(ready.len())]);
            let to = *pool.iter().cycle().skip(rng.below(4)).find(|&&t| t != a && t != c).expect("four slots");
            add(&mut b, main, a, c, to);
            for t in [a, c] {
                last.insert((t, version.get(&t).copied().unwrap_or(0)), step);
            }
            *version.entry(to).or_default() += 1;
            last.insert((to, version[&to]), step);
            if !ready.contains(&to) {
                ready.push(to);
            }
        }
        add(&mut b, main, x, x, out);
        let g = b.graph().expect("a graph");
        let t = Timeline::of(&g, g.main).expect("a timeline");
        let mut want: Vec<usize> = last.iter().filter(|((t, _), _)| *t != x).map(|(_, &s)| s).collect();
        want.sort_unstable();
        let mut got: Vec<usize> = Vec::new();
        for step in t.steps.kind.ids() {
            got.extend(std::iter::repeat_n(step.index(), t.lives.release[step].len()));
        }
        seen += got.len();
        assert_eq!(got, want);
    }
    assert!(seen > 2000);
}

/// IF(cond){t = -x; u = t + before} else {u = before}; out = u + x. SCAN: see [`scan_program`].
fn if_program() -> (ProgramBuilder, [TensorRef; 3]) {
    let mut b = ProgramBuilder::new();
    let x = b.input(DType::F32, &fixed(&[64]));
    let cond = b.int_input();
    let out = b.output(DType::F32, &fixed(&[64]));
    let [before, local, made] = [b.temp(), b.temp(), b.temp()];
    let (main, yes, no) = (b.main(), b.chain(), b.chain());
    neg(&mut b, main, x, before);
    neg(&mut b, yes, x, local);
    add(&mut b, yes, local, before, made);
    neg(&mut b, no, x, local);
    add(&mut b, no, local, local, made);
    let args = [(f::if_::cond, cond.into()), (f::if_::then_chain_idx, yes.into()), (f::if_::else_chain_idx, no.into())];
    b.push(main, "If", args);
    add(&mut b, main, made, x, out);
    (b, [before, local, made])
}

fn slot(g: &Graph, temp: usize) -> Slot {
    Slot(g.tensors.first[4] + temp as u32)
}

/// The steps at which lives of a slot are released, but for results that are made beside it and copied over.
fn releases(t: &Timeline, of: Slot) -> Vec<usize> {
    let beside = |l: Life| t.lives.stages.items().iter().any(|&(stage, _)| stage == l);
    let own = |l: Life| t.lives.slot[l] == Some(of) && !beside(l);
    let at = |s: Step| t.lives.release[s].iter().filter(|&&l| own(l)).map(move |_| s.index()).collect::<Vec<_>>();
    t.steps.kind.ids().flat_map(at).collect()
}

/// Rule 3 for IF: what a branch names and its parent made goes when the IF is over; what only a branch names goes inside.
/// Rule 4: the branch that is not taken holds nothing, so both may use the same bytes.
#[test]
fn an_if_uses_what_its_branches_name() {
    let (b, _) = if_program();
    let g = b.graph().expect("a graph");
    let (t, placed) = plan(&g);
    let at = |kind| t.steps.kind.iter().find(|(_, k)| **k == kind).expect("the step").0.index();
    let (open, middle, end) = (at(StepKind::If), at(StepKind::Else), at(StepKind::EndIf));
    assert_eq!(releases(&t, slot(&g, 0)), [end], "made before, last read in the first branch");
    let local = releases(&t, slot(&g, 1));
    assert_eq!(local.len(), 2, "a life in each branch");
    assert!(open < local[0] && local[0] < middle && middle < local[1] && local[1] < end, "{local:?}");
    assert_eq!(releases(&t, slot(&g, 2)), [end + 1], "read after the IF");
    let lives: Vec<Life> = t.lives.slot.iter().filter(|(_, s)| **s == Some(slot(&g, 1))).map(|(l, _)| l).collect();
    assert_eq!(lives.len(), 2);
    // x, before, made and one local: the other branch's local adds nothing.
    assert_eq!(placed.places.arena_bytes, 4 * 256);
}

fn scan_program() -> ProgramBuilder {
    let mut b = ProgramBuilder::new();
    let series = b.input(DType::F32, &fixed(&[3, 8]));
    let x = b.input(DType::F32, &fixed(&[8]));
    let out = b.output(DType::F32, &fixed(&[3, 8]));
    let [carry, slice, local, result, kept] = [b.temp(), b.temp(), b.temp(), b.temp(), b.temp()];
    let (main, body) = (b.main(), b.chain());
    neg(&mut b, main, x, carry);
    neg(&mut b, main, x, kept);
    neg(&mut b, body, slice, local);
    add(&mut b, body, local, kept, result);
    add(&mut b, body, carry, result, carry);
    let args = [
        (f::scan::originals, [series].into()),
        (f::scan::sliced, [slice].into()),
        (f::scan::outputs, [result].into()),
        (f::scan::carry, [carry].into()),
        (f::scan::body_chain_idx, body.into()),
        (f::scan::scan_axis, 0i64.into()),
    ];
    b.push(main, "Scan", args);
    add(&mut b, main, result, carry, out);
    b
}

/// Rule 3 for SCAN: carries, results and what the parent made survive the turns, body-local temps do not.
#[test]
fn a_scan_keeps_what_its_next_turn_needs() {
    let g = scan_program().graph().expect("a graph");
    let (t, _) = plan(&g);
    let at = |kind| t.steps.kind.iter().find(|(_, k)| **k == kind).expect("the step").0.index();
    let (open, end) = (at(StepKind::Scan), at(StepKind::EndScan));
    assert_eq!(releases(&t, slot(&g, 0)), [end + 1], "the carry is read after");
    assert_eq!(releases(&t, slot(&g, 4)), [end], "every turn reads it");
    let local = releases(&t, slot(&g, 2));
    assert!(local.len() == 1 && open < local[0] && local[0] < end, "{local:?}");
    // A turn's own result goes at the end of the turn, the stack after its last use.
    assert_eq!(releases(&t, slot(&g, 3)), [end, end + 1]);
}

/// Rule 4: a slot that unrelated chains name has a life of its own in each, and no release ends another's.
#[test]
fn unrelated_chains_do_not_release_each_others_values() {
    let (b, _) = if_program();
    let g = b.graph().expect("a graph");
    let (t, placed) = plan(&g);
    let mut rng = Rng(5);
    replay(&g, &t, &placed, &mut rng).expect("a sound plan");
    for l in t.lives.slot.ids().filter(|&l| t.lives.slot[l] == Some(slot(&g, 1))) {
        let named: Vec<usize> =
            t.steps.kind.ids().filter(|&s| t.lives.of_use[s].contains(&l)).map(Step::index).collect();
        assert!(named.iter().all(|&s| t.lives.born[l].index() <= s && s <= t.lives.dies[l].index()));
    }
}

/// Rule 6: liveness reads nothing of an instruction but the slots that `FieldKind::slots` says its fields carry. A kind
/// without an answer there must not compile.
#[test]
fn a_new_operand_kind_must_say_whether_it_carries_slots() {
    let source = include_str!("../engine/op/mod.rs");
    let part = |from: &str, to: &str| {
        let start = source.find(from).unwrap_or_else(|| panic!("{from:?} is in engine/op/mod.rs"));
        let end = source[start..].find(to).expect("its end") + start;
        source[start..end + to.len()].to_string()
    };
    let kinds = part("pub enum FieldKind {", "\n}\n");
    let program = |kinds: &str| {
        format!(
            "#![allow(dead_code)]\n#[derive(Clone, Copy)]\n{kinds}\n{}\n{}\n",
            part("pub enum Slots {", "\n}\n"),
            part("impl FieldKind {", "\n}\n"),
        )
    };
    let dir = std::env::temp_dir().join(format!("lowtide-kinds-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let compile = |name: &str, text: &str| {
        let file = dir.join(format!("{name}.rs"));
        std::fs::write(&file, text).expect("a file");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let args = ["--edition=2024", "--crate-type=lib", "--emit=metadata", "--out-dir"];
        let out = std::process::Command::new(rustc).args(args).arg(&dir).arg(&file).output().expect("rustc runs");
        (out.status.success(), String::from_utf8_lossy(&out.stderr).to_string())
    };
    let (fine, text) = compile("as_it_is", &program(&kinds));
    assert!(fine, "{text}");
    let more = kinds.replacen("pub enum FieldKind {", "pub enum FieldKind {\n    TidAndVid,", 1);
    let (fine, text) = compile("one_more", &program(&more));
    std::fs::remove_dir_all(&dir).expect("the folder goes");
    assert!(!fine && text.contains("E0004"), "{text}");
}

/// Rule 7: at load, with the slot, the chain and the instruction.
#[test]
fn a_read_of_what_nothing_wrote_is_refused_by_name() {
    let mut b = ProgramBuilder::new();
    let x = b.input(DType::F32, &fixed(&[4]));
    let out = b.output(DType::F32, &fixed(&[4]));
    let (main, never) = (b.main(), b.temp());
    neg(&mut b, main, x, out);
    add(&mut b, main, x, never, out);
    let e = Model::from_bytes(b.build().expect("bytes")).err().expect("refused").to_string();
    for part in ["t2", "c0", "i1", "Add"] {
        assert!(e.contains(part), "{part} is not named: {e}");
    }
    // Written on one path only: the other reads nothing.
    let mut b = ProgramBuilder::new();
    let x = b.input(DType::F32, &fixed(&[4]));
    let cond = b.int_input();
    let out = b.output(DType::F32, &fixed(&[4]));
    let (main, yes, no, once) = (b.main(), b.chain(), b.chain(), b.temp());
    neg(&mut b, yes, x, once);
    let args = [(f::if_::cond, cond.into()), (f::if_::then_chain_idx, yes.into()), (f::if_::else_chain_idx, no.into())];
    b.push(main, "If", args);
    add(&mut b, main, once, x, out);
    let e = Model::from_bytes(b.build().expect("bytes")).err().expect("refused").to_string();
    assert!(e.contains("t2"), "{e}");
    // The planner says so by itself too, for graphs that no check has seen.
    let mut b = ProgramBuilder::new();
    let out = b.output(DType::F32, &fixed(&[4]));
    let (main, never) = (b.main(), b.temp());
    neg(&mut b, main, never, out);
    let g = b.graph().expect("a graph");
    let e = Timeline::of(&g, g.main).expect_err("refused").to_string();
    assert!(e.contains("t1") && e.contains("i0"), "{e}");
}

/// Rule 8, turned on the checker: of plans broken at random places it must notice those that matter.
#[test]
fn the_checker_notices_shifted_places_and_early_releases() {
    let mut rng = Rng(6);
    let (mut shifted, mut early) = ([0usize; 2], [0usize; 2]);
    for _ in 0..150 {
        let g = &programs::random(&mut rng, 40).graph().expect("a graph");
        let (t, mut placed) = plan(g);
        let t = &t;
        let reads_of = |life: Life| {
            let root = move |l: Life| t.lives.base[l].unwrap_or(l);
            t.steps.kind.ids().filter(move |&s| {
                let uses = &g.uses[t.steps.inst[s]];
                t.steps.kind[s] == StepKind::Op
                    && uses.iter().zip(&t.lives.of_use[s]).any(|(u, &l)| u.access.reads() && root(l) == life)
            })
        };
        // Shift: a life onto one that is read while the first is written.
        let mine: Vec<Life> = t
            .lives
            .slot
            .ids()
            .filter(|&l| t.lives.home[l] == Home::Temp && placed.places.bytes[l] > 0 && t.lives.slot[l].is_some())
            .filter(|&l| !t.lives.merged[l])
            .collect();
        if mine.is_empty() {
            continue;
        }
        for _ in 0..40 {
            let (a, b) = (mine[rng.below(mine.len())], mine[rng.below(mine.len())]);
            let written = t.lives.born[a];
            let matters = a != b && t.lives.base[a].is_none() && t.lives.born[b] < written && {
                reads_of(b).any(|s| s > written) && t.lives.share[a].is_none() && straight(t, written)
            };
            if matters {
                let kept = placed.places.offset[a];
                placed.places.offset[a] = placed.places.offset[b];
                let found = replay(g, t, &placed, &mut rng).is_err();
                placed.places.offset[a] = kept;
                shifted[usize::from(found)] += 1;
            }
        }
        // Early: a release moved to where the life begins, though it is read later.
        let victim = mine[rng.below(mine.len())];
        let late = reads_of(victim).any(|s| s > t.lives.born[victim] && straight(t, s));
        let temp = t.lives.home[victim] == Home::Temp && t.lives.share.iter().all(|(_, s)| *s != Some(victim));
        if late && temp && straight(t, t.lives.born[victim]) {
            let mut pairs: Vec<(Step, Life)> =
                t.steps.kind.ids().flat_map(|s| t.lives.release[s].iter().map(move |&l| (s, l))).collect();
            pairs.iter_mut().filter(|p| p.1 == victim).for_each(|p| p.0 = t.lives.born[victim]);
            let mut broken = Timeline::of(g, g.main).expect("a timeline");
            broken.lives.release = Csr::from_pairs(t.steps.len(), &pairs);
            early[usize::from(replay(g, &broken, &placed, &mut rng).is_err())] += 1;
        }
    }
    println!(
        "shifted places: {} noticed, {} not; early releases: {} noticed, {} not",
        shifted[1], shifted[0], early[1], early[0]
    );
    assert!(shifted[1] >= 10 && early[1] >= 10);
    assert_eq!((shifted[0], early[0]), (0, 0), "missed");
}

/// Whether a step is on every path.
fn straight(t: &Timeline, step: Step) -> bool {
    let mut depth = 0;
    for (s, kind) in t.steps.kind.iter().take(step.index() + 1) {
        match kind {
            StepKind::If | StepKind::Scan => depth += 1,
            StepKind::EndIf | StepKind::EndScan => depth -= 1,
            StepKind::Op | StepKind::Else => {}
        }
        let _ = s;
    }
    depth == 0
}

/// A view of a buffer that is overwritten while the view is needed must be a copy.
#[test]
fn the_checker_notices_a_missing_hazard_copy() {
    let mut b = ProgramBuilder::new();
    let x = b.input(DType::F32, &fixed(&[2, 4]));
    let state = b.mutable("m", DType::F32, &[2, 4]);
    let out = b.output(DType::F32, &fixed(&[4, 2]));
    let (main, view) = (b.main(), b.temp());
    let args = [(f::transpose::x, state.into()), (f::transpose::out, view.into()), (f::transpose::perm, [1, 0].into())];
    b.push(main, "Transpose", args);
    add(&mut b, main, x, x, state);
    neg(&mut b, main, view, out);
    let g = b.graph().expect("a graph");
    let (mut t, placed) = plan(&g);
    let mut rng = Rng(7);
    replay(&g, &t, &placed, &mut rng).expect("a sound plan");
    let copy = t.lives.slot.ids().find(|&l| t.lives.slot[l] == Some(slot(&g, 0))).expect("the view's life");
    assert_eq!(t.lives.base[copy], None, "it is a copy");
    assert!(matches!(g.insts.op[t.steps.inst[Step(0)]].row().kernel.alias, Alias::View(..)));
    t.lives.base[copy] = t.lives.slot.ids().find(|&l| t.lives.home[l] == Home::Mutable);
    assert!(replay(&g, &t, &placed, &mut rng).expect_err("noticed").contains("t3"));

    // One instruction reads a buffer whole and writes it: the result is made beside it and copied over.
    let mut b = ProgramBuilder::new();
    let x = b.input(DType::F32, &fixed(&[4]));
    let state = b.mutable("m", DType::F32, &[4]);
    let out = b.output(DType::F32, &fixed(&[4]));
    let main = b.main();
    add(&mut b, main, state, x, state);
    neg(&mut b, main, state, out);
    let g = b.graph().expect("a graph");
    let (mut t, placed) = plan(&g);
    replay(&g, &t, &placed, &mut rng).expect("a sound plan");
    assert_eq!(t.lives.stages[Step(0)].len(), 1);
    t.lives.stages = Csr::from_pairs(t.steps.len(), &[]);
    assert!(replay(&g, &t, &placed, &mut rng).is_err());
}

/// Rule 2: sessions share the tables, and a plan made from the file alone is the same plan.
#[test]
fn a_plan_repeats() {
    for path in files::own() {
        let Ok(model) = Model::open(&path) else { continue };
        let methods: Vec<String> = model.methods().map(String::from).collect();
        for m in methods {
            let Ok(a) = model.plan(&m, None, &PlanOptions::default()) else { continue };
            assert_eq!(a, model.plan(&m, None, &PlanOptions::default()).expect("again"));
            assert_eq!((a.end_live_temps, a.end_live_bytes), (0, 0));
            let kept = model.plan(&m, None, &PlanOptions { keep_temps: true, ..PlanOptions::default() }).expect("kept");
            assert!(
                kept.arena_bytes >= a.arena_bytes && (kept.end_live_temps > 0 || a.steps == 0 || a.steps < 3),
                "{m}"
            );
        }
    }
}

/// What an instruction reads and writes is exactly what its fields carry: no use is lost on the way to the tables.
#[test]
fn every_slot_that_a_field_names_is_a_use() {
    let mut rng = Rng(8);
    for _ in 0..50 {
        let g = programs::random(&mut rng, 40).graph().expect("a graph");
        for inst in g.insts.op.ids() {
            let named: HashSet<(Slot, bool, bool)> = (0..g.insts.op[inst].row().fields.len())
                .flat_map(|i| {
                    let access = g.insts.op[inst].row().fields[i].access;
                    g.operands(inst, lowtide::op::Field(i as u8)).map(move |o| (o, access))
                })
                .filter_map(|(o, access)| match g.scalars.at(o) {
                    lowtide::program::Operand::Tensor(s) => Some((s, access.reads(), access.writes())),
                    _ => None,
                })
                .collect();
            let used: HashSet<(Slot, bool, bool)> =
                g.uses[inst].iter().map(|u| (u.slot, u.access.reads(), u.access.writes())).collect();
            assert_eq!(named, used);
        }
    }
}
