//! Rules of release that only a run can show: IF and SCAN on the device, flushes before releases, against
//! values computed here.

use lowtide::dtype::DType;
use lowtide::op::fields as f;
use lowtide::program::DimBound;
use lowtide::program::build::{ProgramBuilder, TensorRef};
use lowtide::session::RunFacts;
use lowtide::table::{Chain, Vid};
use lowtide::{BindOptions, Engine, EngineOptions, Item, Model, SessionOptions, Tensor};

const N: usize = 6;
const TURNS: usize = 5;

fn fixed(dims: &[usize]) -> Vec<DimBound> {
    dims.iter().map(|&d| DimBound::fixed(d as u32)).collect()
}

fn floats(dims: &[usize], seed: f32) -> Tensor {
    let count: usize = dims.iter().product();
    // Halves and quarters: sums and products are exact in binary32.
    Tensor::from_f32(dims, &(0..count).map(|i| ((i * 7 + 3) % 11) as f32 * 0.25 - seed).collect::<Vec<_>>())
}

/// Runs a program several times on one session; every run must give the same and leave no temp behind.
fn run(b: &ProgramBuilder, inputs: &[Item], options: &SessionOptions) -> (Vec<Vec<f32>>, RunFacts) {
    let engine = Engine::new(&EngineOptions::default()).expect("an adapter");
    let model = Model::from_bytes(b.build().expect("bytes")).expect("a program");
    let mut session = engine
        .bind(&model, BindOptions::default())
        .expect("a bound program")
        .session(options.clone())
        .expect("a session");
    let mut first: Option<Vec<Vec<f32>>> = None;
    for _ in 0..3 {
        let outs = session.run("forward", inputs).expect("a run");
        let outs: Vec<Vec<f32>> = outs
            .into_iter()
            .map(|o| match o {
                Item::Tensor(t) => t.to_f32(),
                other => panic!("a tensor was expected, {other:?} came"),
            })
            .collect();
        assert_eq!(first.get_or_insert_with(|| outs.clone()), &outs);
    }
    let facts = session.last_run()[0];
    assert_eq!((facts.end_live_temps, facts.end_live_bytes), (0, 0));
    (first.expect("three runs"), facts)
}

fn add(b: &mut ProgramBuilder, c: Chain, x: TensorRef, y: TensorRef, out: TensorRef) {
    b.push(c, "Add", [(f::add::a, x.into()), (f::add::b, y.into()), (f::add::out, out.into())]);
}
fn multiply(b: &mut ProgramBuilder, c: Chain, x: TensorRef, y: TensorRef, out: TensorRef) {
    b.push(c, "Multiply", [(f::multiply::a, x.into()), (f::multiply::b, y.into()), (f::multiply::out, out.into())]);
}
fn neg(b: &mut ProgramBuilder, c: Chain, x: TensorRef, out: TensorRef) {
    b.push(c, "Neg", [(f::neg::x, x.into()), (f::neg::out, out.into())]);
}
fn branch(b: &mut ProgramBuilder, c: Chain, cond: Vid, yes: Chain, no: Chain) {
    let args = [(f::if_::cond, cond.into()), (f::if_::then_chain_idx, yes.into()), (f::if_::else_chain_idx, no.into())];
    b.push(c, "If", args);
}
#[allow(clippy::too_many_arguments)]
fn scan(
    b: &mut ProgramBuilder,
    c: Chain,
    originals: Vec<TensorRef>,
    sliced: Vec<TensorRef>,
    outputs: Vec<TensorRef>,
    carry: Vec<TensorRef>,
    body: Chain,
) {
    let args = [
        (f::scan::originals, originals.into()),
        (f::scan::sliced, sliced.into()),
        (f::scan::outputs, outputs.into()),
        (f::scan::carry, carry.into()),
        (f::scan::body_chain_idx, body.into()),
        (f::scan::scan_axis, 0i64.into()),
    ];
    b.push(c, "Scan", args);
}

fn row(t: &Tensor, i: usize) -> Vec<f32> {
    t.to_f32()[i * N..(i + 1) * N].to_vec()
}
fn zip(a: &[f32], b: &[f32], op: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    a.iter().zip(b).map(|(&x, &y)| op(x, y)).collect()
}

/// Rule 5: FULL of 4096 floats makes 16,384 touched bytes, SUM reads them again: 24,576 are passed while the temp
/// is still live, so the run submits, releases it, and the sum is right.
#[test]
fn bytes_are_accounted_before_release_and_flushed_after() {
    let mut b = ProgramBuilder::new();
    let (main, t) = (b.main(), b.temp());
    let out = b.output(DType::F32, &[]);
    let full = [(f::full::out, t.into()), (f::full::shape, [4096].into()), (f::full::v, 0.5.into())];
    b.push(main, "Full", full.into_iter().chain([(f::full::scalar_type, DType::F32.into())]));
    b.push(main, "Sum", [(f::sum::x, t.into()), (f::sum::axes, [0].into()), (f::sum::out, out.into())]);
    let with = |threshold| SessionOptions { eval_threshold: threshold, ..SessionOptions::default() };
    let (sum, facts) = run(&b, &[], &with(Some(24_576)));
    assert_eq!(sum, [[2048.0]]);
    assert_eq!(facts.flushes, 1, "16,384 bytes are below the threshold, 32,772 are above");
    let (sum, facts) = run(&b, &[], &with(Some(16_384)));
    assert_eq!((sum[0][0], facts.flushes), (2048.0, 2));
    // 4 * 4096 written, the same read, 4 bytes of the sum: one byte more is never reached.
    let (sum, facts) = run(&b, &[], &with(Some(2 * 16_384 + 5)));
    assert_eq!((sum[0][0], facts.flushes), (2048.0, 0));
    assert_eq!(run(&b, &[], &with(None)).1.flushes, 0);
}

#[test]
fn a_scan_reads_a_carry_that_nothing_updates() {
    let mut b = ProgramBuilder::new();
    let series = b.input(DType::F32, &fixed(&[TURNS, N]));
    let x = b.input(DType::F32, &fixed(&[N]));
    let out = b.output(DType::F32, &fixed(&[TURNS, N]));
    let [carry, slice, local, result] = [b.temp(), b.temp(), b.temp(), b.temp()];
    let (main, body) = (b.main(), b.chain());
    add(&mut b, main, x, x, carry);
    // `local` is named by the body alone: it is released in every turn.
    neg(&mut b, body, slice, local);
    multiply(&mut b, body, local, carry, result);
    scan(&mut b, main, vec![series], vec![slice], vec![result], vec![carry], body);
    // The carry and the results survive the loop.
    add(&mut b, main, result, carry, out);
    let (s, v) = (floats(&[TURNS, N], 1.0), floats(&[N], 0.5));
    let (got, _) = run(&b, &[Item::Tensor(s.clone()), Item::Tensor(v.clone())], &SessionOptions::default());
    let c = zip(&v.to_f32(), &v.to_f32(), |a, b| a + b);
    let want: Vec<f32> = (0..TURNS).flat_map(|i| zip(&zip(&row(&s, i), &c, |a, b| -a * b), &c, |a, b| a + b)).collect();
    assert_eq!(got[0], want);
}

#[test]
fn a_scan_updates_its_carry() {
    let mut b = ProgramBuilder::new();
    let series = b.input(DType::F32, &fixed(&[TURNS, N]));
    let x = b.input(DType::F32, &fixed(&[N]));
    let stacked = b.output(DType::F32, &fixed(&[TURNS, N]));
    let last = b.output(DType::F32, &fixed(&[N]));
    let [carry, slice, kept, result] = [b.temp(), b.temp(), b.temp(), b.temp()];
    let (main, body) = (b.main(), b.chain());
    neg(&mut b, main, x, carry);
    // A value from before the loop that only the body reads, and every turn needs again.
    add(&mut b, main, x, x, kept);
    add(&mut b, body, carry, slice, carry);
    multiply(&mut b, body, carry, kept, result);
    scan(&mut b, main, vec![series], vec![slice], vec![result], vec![carry], body);
    neg(&mut b, main, result, stacked);
    neg(&mut b, main, carry, last);
    let (s, v) = (floats(&[TURNS, N], 1.0), floats(&[N], 0.5));
    let (got, _) = run(&b, &[Item::Tensor(s.clone()), Item::Tensor(v.clone())], &SessionOptions::default());
    let v = v.to_f32();
    let mut c: Vec<f32> = v.iter().map(|x| -x).collect();
    let mut want = Vec::new();
    for i in 0..TURNS {
        c = zip(&c, &row(&s, i), |a, b| a + b);
        want.extend(zip(&c, &v, |a, b| -(a * (b + b))));
    }
    assert_eq!(got[0], want);
    assert_eq!(got[1], c.iter().map(|x| -x).collect::<Vec<_>>());
}

/// Both branches run; each makes a temp of its own, and one that is read after.
#[test]
fn both_branches_of_an_if_run() {
    for flag in [0, 1, -3] {
        let mut b = ProgramBuilder::new();
        let x = b.input(DType::F32, &fixed(&[N]));
        let cond = b.int_input();
        let out = b.output(DType::F32, &fixed(&[N]));
        let [before, local, made] = [b.temp(), b.temp(), b.temp()];
        let (main, yes, no) = (b.main(), b.chain(), b.chain());
        add(&mut b, main, x, x, before);
        multiply(&mut b, yes, before, x, local);
        add(&mut b, yes, local, before, made);
        neg(&mut b, no, before, local);
        multiply(&mut b, no, local, local, made);
        branch(&mut b, main, cond, yes, no);
        // What was made before the IF is needed after it as well.
        add(&mut b, main, made, before, out);
        let v = floats(&[N], 0.5);
        let (got, _) = run(&b, &[Item::Tensor(v.clone()), Item::Int(flag)], &SessionOptions::default());
        let want: Vec<f32> =
            v.to_f32().iter().map(|x| if flag != 0 { 2.0 * x * x + 4.0 * x } else { 4.0 * x * x + 2.0 * x }).collect();
        assert_eq!(got[0], want, "condition {flag}");
    }
}

/// IFs three deep: every one of the eight paths adds other multiples to a slot that all levels share.
#[test]
fn ifs_nest_three_deep() {
    let mut b = ProgramBuilder::new();
    let x = b.input(DType::F32, &fixed(&[N]));
    let conds = [b.int_input(), b.int_input(), b.int_input()];
    let out = b.output(DType::F32, &fixed(&[N]));
    let [sum, outer] = [b.temp(), b.temp()];
    let main = b.main();
    neg(&mut b, main, x, sum);
    add(&mut b, main, x, x, outer);
    // Returns the chain that handles the levels from `level` on.
    fn level(b: &mut ProgramBuilder, conds: &[Vid; 3], at: usize, t: [TensorRef; 3]) -> [Chain; 2] {
        let [sum, outer, x] = t;
        let chains = [b.chain(), b.chain()];
        for (way, &c) in chains.iter().enumerate() {
            let local = b.temp();
            if way == 1 {
                add(b, c, x, outer, local)
            } else {
                neg(b, c, outer, local)
            }
            for _ in 0..=at {
                add(b, c, sum, local, sum);
            }
            if at + 1 < conds.len() {
                let [no, yes] = level(b, conds, at + 1, t);
                branch(b, c, conds[at + 1], yes, no);
                // The branch's local is read again after the IF inside it.
                add(b, c, sum, local, sum);
            }
        }
        chains
    }
    let [no, yes] = level(&mut b, &conds, 0, [sum, outer, x]);
    branch(&mut b, main, conds[0], yes, no);
    add(&mut b, main, sum, outer, out);
    let v = floats(&[N], 0.5);
    for path in 0..8 {
        let flags = [path & 1, path >> 1 & 1, path >> 2 & 1];
        let mut items = vec![Item::Tensor(v.clone())];
        items.extend(flags.map(Item::Int));
        let (got, _) = run(&b, &items, &SessionOptions::default());
        let local = |at: usize| if flags[at] != 0 { 3.0 } else { -2.0 };
        let factor = -1.0 + 2.0 * local(0) + 3.0 * local(1) + 3.0 * local(2) + 2.0;
        assert_eq!(got[0], v.to_f32().iter().map(|x| factor * x).collect::<Vec<_>>(), "path {flags:?}");
    }
}

/// An IF in the body of a SCAN, by a number that only the device has: each turn takes its own way.
#[test]
fn a_branch_inside_a_scan() {
    let mut b = ProgramBuilder::new();
    let series = b.input(DType::F32, &fixed(&[TURNS, N]));
    let ways = b.input(DType::I64, &fixed(&[TURNS]));
    let x = b.input(DType::F32, &fixed(&[N]));
    let stacked = b.output(DType::F32, &fixed(&[TURNS, N]));
    let last = b.output(DType::F32, &fixed(&[N]));
    let [carry, kept, slice, way, local, result] = [b.temp(), b.temp(), b.temp(), b.temp(), b.temp(), b.temp()];
    let cond = b.value();
    let (main, body, yes, no) = (b.main(), b.chain(), b.chain(), b.chain());
    neg(&mut b, main, x, carry);
    add(&mut b, main, x, x, kept);
    b.push(body, "ItemInt", [(f::item_int::x, way.into()), (f::item_int::out, cond.into())]);
    add(&mut b, yes, slice, kept, local);
    add(&mut b, yes, carry, local, carry);
    neg(&mut b, no, carry, carry);
    branch(&mut b, body, cond, yes, no);
    add(&mut b, body, carry, kept, result);
    scan(&mut b, main, vec![series, ways], vec![slice, way], vec![result], vec![carry], body);
    neg(&mut b, main, result, stacked);
    add(&mut b, main, carry, kept, last);
    let (s, v) = (floats(&[TURNS, N], 1.0), floats(&[N], 0.5));
    for pattern in [[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]] {
        let items =
            [Item::Tensor(s.clone()), Item::Tensor(Tensor::from_i64(&[TURNS], &pattern)), Item::Tensor(v.clone())];
        let (got, _) = run(&b, &items, &SessionOptions::default());
        let v = v.to_f32();
        let mut c: Vec<f32> = v.iter().map(|x| -x).collect();
        let mut want = Vec::new();
        for (i, &p) in pattern.iter().enumerate() {
            c = if p != 0 {
                zip(&c, &zip(&row(&s, i), &v, |a, x| a + 2.0 * x), |a, b| a + b)
            } else {
                c.iter().map(|x| -x).collect()
            };
            want.extend(zip(&c, &v, |a, x| -(a + 2.0 * x)));
        }
        assert_eq!(got[0], want, "{pattern:?}");
        assert_eq!(got[1], zip(&c, &v, |a, x| a + 2.0 * x), "{pattern:?}");
    }
}
