//! What binding costs: time and bytes of the timeline, liveness and release tables against the number of instructions,
//! with 400 chains throughout. `cargo bench --bench bind`; the bytes are printed before the times.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use lowtide::dtype::DType;
use lowtide::op::fields as f;
use lowtide::plan::effects::Effects;
use lowtide::plan::lives::Lives;
use lowtide::plan::steps::Steps;
use lowtide::program::build::{ProgramBuilder, TensorRef};
use lowtide::program::{DimBound, Graph};
use lowtide::table::Chain;

const CHAINS: usize = 400;

fn add(b: &mut ProgramBuilder, c: Chain, x: TensorRef, y: TensorRef, out: TensorRef) {
    b.push(c, "Add", [(f::add::a, x.into()), (f::add::b, y.into()), (f::add::out, out.into())]);
}

/// A program of `count` instructions as old plans are: a slot per instruction. Half are in the main chain, the others
/// in the branches of IFs spread over it; one in ten reads a slot that the main chain made, and each branch ends with
/// one that the main chain reads.
fn program(count: usize) -> Graph {
    let mut b = ProgramBuilder::new();
    let dims = [DimBound::fixed(16)];
    let x = b.input(DType::F32, &dims);
    let flag = b.int_input();
    let out = b.output(DType::F32, &dims);
    let main = b.main();
    let ifs = (CHAINS - 1) / 2;
    let inside = (count / 2 / (2 * ifs)).max(1);
    let stretch = count.saturating_sub(2 * ifs * inside + ifs + 1) / ifs;
    let mut last = x;
    let mut made = vec![x];
    for _ in 0..ifs {
        for _ in 0..stretch {
            let t = b.temp();
            add(&mut b, main, last, made[made.len() / 2], t);
            last = t;
            made.push(t);
        }
        let result = b.temp();
        let (yes, no) = (b.chain(), b.chain());
        for c in [yes, no] {
            let mut local = last;
            for i in 0..inside {
                let t = if i + 1 == inside { result } else { b.temp() };
                let other = if i % 10 == 0 { made[made.len() - 1 - i / 10 % made.len()] } else { local };
                add(&mut b, c, local, other, t);
                local = t;
            }
        }
        let args =
            [(f::if_::cond, flag.into()), (f::if_::then_chain_idx, yes.into()), (f::if_::else_chain_idx, no.into())];
        b.push(main, "If", args);
        last = result;
        made.push(result);
    }
    add(&mut b, main, last, x, out);
    b.graph().expect("a graph")
}

fn tables(g: &Graph) -> (Steps, Effects, Lives) {
    let steps = Steps::of(g, g.main).expect("steps");
    let effects = Effects::of(g, &[g.main]);
    let lives = Lives::of(g, &steps, &effects).expect("lives");
    (steps, effects, lives)
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    println!(
        "{:>12} {:>12} {:>14} {:>14} {:>10} {:>12}",
        "instructions", "chains", "release bytes", "all bytes", "ms", "ns each"
    );
    let graphs: Vec<Graph> = [1_000, 10_000, 100_000, 1_000_000].map(program).into();
    for g in &graphs {
        let mut best = Duration::MAX;
        let mut sizes = (0, 0);
        for _ in 0..3 {
            let start = Instant::now();
            let (steps, effects, lives) = black_box(tables(g));
            best = best.min(start.elapsed());
            sizes = (lives.release.bytes(), lives.table_bytes() + effects.table_bytes() + steps.len() * 9);
        }
        let count = g.insts.op.len();
        let (ms, each) = (best.as_secs_f64() * 1e3, best.as_secs_f64() * 1e9 / count as f64);
        println!("{count:>12} {:>12} {:>14} {:>14} {ms:>10.2} {each:>12.0}", g.chains.rows(), sizes.0, sizes.1);
    }
    let mut group = criterion.benchmark_group("tables");
    for g in &graphs {
        let count = g.insts.op.len();
        group.throughput(Throughput::Elements(count as u64));
        group.bench_with_input(BenchmarkId::from_parameter(count), g, |b, g| b.iter(|| black_box(tables(g))));
    }
    group.finish();
    criterion.final_summary();
}
