//! Random programs with recycled slots, views, in-place updates, IF and SCAN.

use lowtide::dtype::DType;
use lowtide::op::fields as f;
use lowtide::program::DimBound;
use lowtide::program::build::{Arg, ProgramBuilder, TensorRef};
use lowtide::table::Chain;

use super::Rng;

/// Sizes that every plain tensor of a random program has.
pub const SIDE: u32 = 4;

struct Gen<'a> {
    b: ProgramBuilder,
    rng: &'a mut Rng,
    pool: Vec<TensorRef>,
    mutable: Vec<TensorRef>,
    constants: Vec<TensorRef>,
    input: TensorRef,
    series: TensorRef,
    flag: lowtide::table::Vid,
}

/// Values: slots that hold a `[SIDE, SIDE]` tensor on every path to here.
type Ready = Vec<TensorRef>;

/// A random program of about `size` instructions.
pub fn random(rng: &mut Rng, size: usize) -> ProgramBuilder {
    let mut b = ProgramBuilder::new();
    let dims = [DimBound::fixed(SIDE), DimBound::fixed(SIDE)];
    let data: Vec<u8> = (0..SIDE * SIDE).flat_map(|i| (i as f32 * 0.25 - 1.0).to_le_bytes()).collect();
    let constants = vec![b.constant("c0", DType::F32, &[SIDE, SIDE], data)];
    let input = b.input(DType::F32, &dims);
    let series = b.input(DType::F32, &[DimBound::fixed(3), dims[0], dims[1]]);
    let flag = b.int_input();
    let output = b.output(DType::F32, &dims);
    let mutable = (0..2).map(|i| b.mutable(&format!("m{i}"), DType::F32, &[SIDE, SIDE])).collect();
    // Few slots, so that they are recycled all the time.
    let pool = (0..3 + rng.below(6)).map(|_| b.temp()).collect();
    let mut g = Gen { b, rng, pool, mutable, constants, input, series, flag };
    let main = g.b.main();
    let mut ready: Ready = vec![g.input];
    ready.extend(&g.constants);
    ready.extend(&g.mutable);
    g.fill(main, &mut ready, size, 0);
    let last = g.pick(&ready);
    let other = g.pick(&ready);
    g.b.push(main, "Add", [(f::add::a, last.into()), (f::add::b, other.into()), (f::add::out, output.into())]);
    g.b
}

impl Gen<'_> {
    fn pick(&mut self, from: &Ready) -> TensorRef {
        from[self.rng.below(from.len())]
    }

    fn target(&mut self) -> TensorRef {
        if self.rng.chance(10) {
            self.mutable[self.rng.below(self.mutable.len())]
        } else {
            self.pool[self.rng.below(self.pool.len())]
        }
    }

    fn fill(&mut self, chain: Chain, ready: &mut Ready, size: usize, depth: usize) {
        for _ in 0..size {
            match self.rng.below(100) {
                0..4 if depth < 3 => self.branch(chain, ready, depth),
                4..8 if depth < 2 => self.scan(chain, ready, depth),
                _ => self.op(chain, ready),
            }
        }
    }

    fn op(&mut self, chain: Chain, ready: &mut Ready) {
        let (x, y, out) = (self.pick(ready), self.pick(ready), self.target());
        let b = &mut self.b;
        match self.rng.below(7) {
            0 => b.push(chain, "Add", [(f::add::a, x.into()), (f::add::b, y.into()), (f::add::out, out.into())]),
            1 => {
                b.push(
                    chain,
                    "Multiply",
                    [(f::multiply::a, x.into()), (f::multiply::b, y.into()), (f::multiply::out, out.into())],
                );
            }
            2 => b.push(chain, "Neg", [(f::neg::x, x.into()), (f::neg::out, out.into())]),
            3 => b.push(
                chain,
                "Transpose",
                [(f::transpose::x, x.into()), (f::transpose::out, out.into()), (f::transpose::perm, [1, 0].into())],
            ),
            4 => {
                let shape = [i64::from(SIDE), -1];
                b.push(
                    chain,
                    "Reshape",
                    [(f::reshape::x, x.into()), (f::reshape::out, out.into()), (f::reshape::shape, shape.into())],
                );
            }
            5 => b.push(chain, "IdCopy", [(f::id_copy::x, x.into()), (f::id_copy::out, out.into())]),
            6 => b.push(chain, "Contiguous", [(f::contiguous::x, x.into()), (f::contiguous::out, out.into())]),
            _ => {
                // A part is sliced off and put back, perhaps into the slot that it came from.
                let part = self.pool[self.rng.below(self.pool.len())];
                let (start, stop) = (self.rng.below(3) as i64, 3 + self.rng.below(2) as i64);
                let axis = self.rng.below(2) as i64;
                if part == x || part == y {
                    return self.op(chain, ready);
                }
                let slice = |t: TensorRef| -> Vec<(lowtide::op::Field, Arg)> {
                    vec![
                        (f::slice::x, t.into()),
                        (f::slice::axis, axis.into()),
                        (f::slice::start, start.into()),
                        (f::slice::stop, stop.into()),
                        (f::slice::out, part.into()),
                    ]
                };
                self.b.push(chain, "Slice", slice(x));
                self.b.push(
                    chain,
                    "SliceUpdate",
                    [
                        (f::slice_update::dst, y.into()),
                        (f::slice_update::update, part.into()),
                        (f::slice_update::out, out.into()),
                        (f::slice_update::axis, axis.into()),
                        (f::slice_update::start, start.into()),
                        (f::slice_update::stop, stop.into()),
                    ],
                );
                // The part is no whole tensor.
                ready.retain(|&t| t != part);
            }
        }
        if !ready.contains(&out) {
            ready.push(out);
        }
    }

    fn branch(&mut self, chain: Chain, ready: &mut Ready, depth: usize) {
        let (yes, no) = (self.b.chain(), self.b.chain());
        let (mut a, mut b) = (ready.clone(), ready.clone());
        let (n, m) = (1 + self.rng.below(5), self.rng.below(5));
        self.fill(yes, &mut a, n, depth + 1);
        self.fill(no, &mut b, m, depth + 1);
        self.b.push(
            chain,
            "If",
            [
                (f::if_::cond, self.flag.into()),
                (f::if_::then_chain_idx, yes.into()),
                (f::if_::else_chain_idx, no.into()),
            ],
        );
        // After it, only what both branches leave whole can be read.
        *ready = a.into_iter().filter(|t| b.contains(t)).collect();
    }

    fn scan(&mut self, chain: Chain, ready: &mut Ready, depth: usize) {
        let body = self.b.chain();
        // The sliced slot and the output slot are their own; the carry is any temp that is whole.
        let (sliced, output) = (self.b.temp(), self.b.temp());
        let temps: Ready = ready.iter().copied().filter(|t| self.pool.contains(t)).collect();
        let carry = if temps.is_empty() { None } else { Some(self.pick(&temps)) };
        let mut inner = ready.clone();
        inner.push(sliced);
        let n = 1 + self.rng.below(5);
        // What the body makes of a slot must be whole again for the next turn.
        let before = inner.clone();
        self.fill(body, &mut inner, n, depth + 1);
        for t in before.iter().filter(|t| !inner.contains(t)) {
            self.b.push(body, "Neg", [(f::neg::x, sliced.into()), (f::neg::out, (*t).into())]);
        }
        if let Some(c) = carry {
            self.b.push(body, "Add", [(f::add::a, c.into()), (f::add::b, sliced.into()), (f::add::out, c.into())]);
        }
        let from = if inner.is_empty() { sliced } else { self.pick(&inner) };
        self.b.push(
            body,
            "Multiply",
            [(f::multiply::a, from.into()), (f::multiply::b, sliced.into()), (f::multiply::out, output.into())],
        );
        let carries: Vec<TensorRef> = carry.into_iter().collect();
        self.b.push(
            chain,
            "Scan",
            [
                (f::scan::originals, [self.series].into()),
                (f::scan::sliced, [sliced].into()),
                (f::scan::outputs, [output].into()),
                (f::scan::carry, carries.into()),
                (f::scan::body_chain_idx, body.into()),
                (f::scan::scan_axis, 0i64.into()),
            ],
        );
        // The stacked results are read once, whole.
        let out = self.pool[self.rng.below(self.pool.len())];
        let one = self.b.temp();
        self.b.push(
            chain,
            "Slice",
            [
                (f::slice::x, output.into()),
                (f::slice::axis, 0i64.into()),
                (f::slice::start, 1i64.into()),
                (f::slice::stop, 2i64.into()),
                (f::slice::out, one.into()),
            ],
        );
        self.b.push(
            chain,
            "Reshape",
            [
                (f::reshape::x, one.into()),
                (f::reshape::out, out.into()),
                (f::reshape::shape, [i64::from(SIDE), i64::from(SIDE)].into()),
            ],
        );
        if !ready.contains(&out) {
            ready.push(out);
        }
    }
}
