//! Plans against the independent checker, on random programs and on every program at hand.

mod support;

use lowtide::kernel::Value;
use lowtide::plan::sizes::{Argument, upper_dims};
use lowtide::plan::{Placed, Timeline};
use lowtide::program::{Graph, Port};
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

fn check(g: &Graph, rng: &mut Rng) -> Result<(usize, usize), String> {
    let (t, placed) = plan(g);
    let (mut reads, mut releases) = (0, 0);
    for turns in [1, 3, 0] {
        for _ in 0..4 {
            let mut branch = || rng.chance(50);
            let c = Checker::run(g, &t, &placed, &mut Path { branch: &mut branch, turns })?;
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
        let (r, f) = check(&g, &mut rng).unwrap_or_else(|e| panic!("program {i}: {e}\n{g:#?}"));
        reads += r;
        releases += f;
    }
    println!("{reads} reads and {releases} releases checked");
    assert!(reads > 100_000 && releases > 50_000, "{reads} {releases}");
}
