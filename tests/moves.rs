//! Ops that move elements, against loops on the host: packed types at sizes that do not fill words, any axis.

#[path = "support/ops.rs"]
#[allow(dead_code)]
mod ops;

use lowtide::dtype::DType;
use lowtide::op::{Field, fields};
use lowtide::program::build::{Arg, Int};
use lowtide::{Engine, Tensor};
use ops::{engine, fill, ints, one, program, tensor};

/// One type of each width.
const WIDTHS: [DType; 4] = [DType::F32, DType::BF16, DType::U8, DType::I64];

fn count(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// The coordinates of element `i`.
fn at(dims: &[usize], mut i: usize) -> Vec<usize> {
    let mut c = vec![0; dims.len()];
    for k in (0..dims.len()).rev() {
        c[k] = i % dims[k];
        i /= dims[k];
    }
    c
}

fn index(dims: &[usize], c: &[usize]) -> usize {
    dims.iter().zip(c).fold(0, |i, (d, c)| i * d + c)
}

/// Different small numbers.
fn numbers(dims: &[usize], seed: usize) -> Vec<f64> {
    (0..count(dims)).map(|i| ((i * 37 + seed * 11 + 5) % 101) as f64).collect()
}

/// Every element of the output by its coordinates.
fn expect(dims: &[usize], f: impl Fn(&[usize]) -> f64) -> Vec<f64> {
    (0..count(dims)).map(|i| f(&at(dims, i))).collect()
}

/// Runs an op on the tensors as they are and on the first one stored with its dims turned around, and compares.
fn check(engine: &Engine, op: &str, args: &[(Field, Arg)], inputs: &[Tensor], dims: &[usize], want: &[f64]) {
    let dtype = inputs[0].dtype;
    let got = one(engine, op, args, inputs, dtype, dims).unwrap_or_else(|e| panic!("{op} {args:?}: {e}"));
    assert_eq!(got.to_f64(), want, "{op} {dtype} {:?} {args:?}", inputs[0].dims);
    let x = &inputs[0];
    let rank = x.dims.len();
    let turned: Vec<usize> = x.dims.iter().rev().copied().collect();
    let old = x.to_f64();
    let values = expect(&turned, |c| old[index(&x.dims, &c.iter().rev().copied().collect::<Vec<_>>())]);
    let mut stored = inputs.to_vec();
    stored[0] = tensor(dtype, &turned, &values);
    let got = program(engine, &stored, dtype, dims, |b, refs, out| {
        let (chain, view) = (b.main(), b.temp());
        let perm: Vec<Int> = (0..rank as i64).rev().map(Int::Literal).collect();
        let t = fields::transpose::x;
        b.push(
            chain,
            "Transpose",
            [(t, refs[0].into()), (fields::transpose::out, view.into()), (fields::transpose::perm, perm.into())],
        );
        let mut refs = refs.to_vec();
        refs[0] = view;
        b.push(chain, op, fill(op, args, &refs, out));
    });
    assert_eq!(
        got.unwrap_or_else(|e| panic!("{op}: {e}")).to_f64(),
        want,
        "{op} {dtype} of a transposed tensor {args:?}"
    );
}

fn list(v: &[usize]) -> Arg {
    Arg::Ints(v.iter().map(|&v| Int::Literal(v as i64)).collect())
}

#[test]
fn tile_repeat_roll_flip() {
    let engine = engine();
    let d = [2, 3, 5];
    for t in WIDTHS {
        let v = numbers(&d, 1);
        let x = [tensor(t, &d, &v)];
        let get = |c: &[usize]| v[index(&d, c)];
        let out = [4, 3, 15];
        let want = expect(&out, |c| get(&[c[0] % 2, c[1], c[2] % 5]));
        check(&engine, "Tile", &[(fields::tile::reps, [2, 1, 3].into())], &x, &out, &want);
        let out = [2, 2, 3, 10];
        let want = expect(&out, |c| get(&[c[1], c[2], c[3] % 5]));
        check(&engine, "Tile", &[(fields::tile::reps, [2, 1, 1, 2].into())], &x, &out, &want);
        for axis in 0..3 {
            let mut out = d;
            out[axis] *= 3;
            let want = expect(&out, |c| {
                let mut c = c.to_vec();
                c[axis] /= 3;
                get(&c)
            });
            let args = [(fields::repeat::repeats, 3.into()), (fields::repeat::axis, (axis as i64 - 3).into())];
            check(&engine, "Repeat", &args, &x, &out, &want);
        }
        let want = expect(&d, |c| get(&[(c[0] + 1) % 2, c[1], (c[2] + 3) % 5]));
        check(
            &engine,
            "Roll",
            &[(fields::roll::shift, [1, 7].into()), (fields::roll::axes, [0, -1].into())],
            &x,
            &d,
            &want,
        );
        let want = expect(&d, |c| get(&[1 - c[0], c[1], 4 - c[2]]));
        check(&engine, "Flip", &[(fields::flip::axes, [0, -1].into())], &x, &d, &want);
    }
}

#[test]
fn pad_with_constants_and_edges() {
    let engine = engine();
    let d = [3, 5];
    for t in WIDTHS {
        let v = numbers(&d, 2);
        let out = [6, 8];
        let inside = |c: &[usize]| (1..4).contains(&c[0]) && c[1] < 5;
        let want = expect(&out, |c| if inside(c) { v[index(&d, &[c[0] - 1, c[1]])] } else { 9.0 });
        let widths = (fields::pad::pad_width, [1, 2, 0, 3].into());
        let args = [widths.clone(), (fields::pad::mode, "constant".into()), (fields::pad::constant_value, 9.0.into())];
        check(&engine, "Pad", &args, &[tensor(t, &d, &v)], &out, &want);
        let want = expect(&out, |c| v[index(&d, &[c[0].clamp(1, 3) - 1, c[1].min(4)])]);
        check(&engine, "Pad", &[widths, (fields::pad::mode, "edge".into())], &[tensor(t, &d, &v)], &out, &want);
    }
}

#[test]
fn concatenate_and_stack_at_every_axis() {
    let engine = engine();
    for t in WIDTHS {
        for axis in 0..3usize {
            for sizes in [[1usize, 2, 4], [3, 1, 1], [4, 4, 8], [2, 0, 5]] {
                let base = [2, 3, 3];
                let dims = |n: usize| {
                    let mut d = base;
                    d[axis] = n;
                    d
                };
                let parts: Vec<(Vec<f64>, [usize; 3])> =
                    sizes.iter().enumerate().map(|(i, &n)| (numbers(&dims(n), i), dims(n))).collect();
                let inputs: Vec<Tensor> = parts.iter().map(|(v, d)| tensor(t, d, v)).collect();
                let out = dims(sizes.iter().sum());
                let want = expect(&out, |c| {
                    let (mut c, mut k) = (c.to_vec(), 0);
                    while c[axis] >= sizes[k] {
                        c[axis] -= sizes[k];
                        k += 1;
                    }
                    parts[k].0[index(&parts[k].1, &c)]
                });
                check(
                    &engine,
                    "Concatenate",
                    &[(fields::concatenate::axis, (axis as i64).into())],
                    &inputs,
                    &out,
                    &want,
                );
            }
        }
        for axis in 0..3usize {
            let d = [3, 5];
            let parts: Vec<Vec<f64>> = (0..3).map(|i| numbers(&d, i)).collect();
            let inputs: Vec<Tensor> = parts.iter().map(|v| tensor(t, &d, v)).collect();
            let mut out = d.to_vec();
            out.insert(axis, 3);
            let want = expect(&out, |c| {
                let mut c = c.to_vec();
                let k = c.remove(axis);
                parts[k][index(&d, &c)]
            });
            check(&engine, "Stack", &[(fields::stack::axis, (axis as i64).into())], &inputs, &out, &want);
        }
    }
    let mixed = [tensor(DType::I8, &[3], &[1.0, -2.0, 3.0]), tensor(DType::F16, &[2], &[0.5, 1.5])];
    let got = one(&engine, "Concatenate", &[(fields::concatenate::axis, 0.into())], &mixed, DType::F16, &[5]);
    assert_eq!(got.unwrap().to_f64(), [1.0, -2.0, 3.0, 0.5, 1.5]);
}

#[test]
fn slice_update_leaves_the_rest() {
    let engine = engine();
    use fields::slice_update as f;
    for t in WIDTHS {
        for (d, axis, start, stop, step) in [
            ([3usize, 7, 3], 1usize, 2i64, 5i64, 1i64),
            ([3, 7, 3], 1, -6, i64::from(i32::MAX), 2),
            ([3, 7, 3], 2, 1, 2, 1),
            ([3, 7, 3], 0, 1, 3, 1),
            ([2, 8, 4], 1, 3, 8, 2),
            ([2, 8, 4], 2, 0, 4, 3),
            ([1, 1, 9], 2, 5, 8, 1),
            ([3, 7, 3], 1, 5, 5, 1),
        ] {
            let n = d[axis] as i64;
            let first = if start < 0 { start + n } else { start };
            let last = stop.min(n);
            let rows: Vec<i64> = (first..last).step_by(step as usize).collect();
            let mut part = d;
            part[axis] = rows.len();
            let (dst, update) = (numbers(&d, 3), numbers(&part, 4));
            let want = expect(&d, |c| match rows.iter().position(|&r| r == c[axis] as i64) {
                Some(j) => {
                    let mut c = c.to_vec();
                    c[axis] = j;
                    update[index(&part, &c)]
                }
                None => dst[index(&d, c)],
            });
            let args = [
                (f::axis, (axis as i64).into()),
                (f::start, start.into()),
                (f::stop, stop.into()),
                (f::step, step.into()),
            ];
            if rows.is_empty() {
                continue;
            }
            check(&engine, "SliceUpdate", &args, &[tensor(t, &d, &dst), tensor(t, &part, &update)], &d, &want);
        }
    }
}

#[test]
fn index_copy_lets_the_last_row_win() {
    let engine = engine();
    for t in WIDTHS {
        for (d, axis) in [([6usize, 3], 0usize), ([6, 4], 0), ([3, 6], 1), ([5, 2], 0)] {
            let rows = [1i64, -1, 0, 1];
            let n = d[axis] as i64;
            let mut part = d;
            part[axis] = rows.len();
            let (dst, update) = (numbers(&d, 5), numbers(&part, 6));
            let want = expect(&d, |c| match rows.iter().rposition(|&r| (r + n) % n == c[axis] as i64) {
                Some(j) => {
                    let mut c = c.to_vec();
                    c[axis] = j;
                    update[index(&part, &c)]
                }
                None => dst[index(&d, c)],
            });
            let inputs = [tensor(t, &d, &dst), tensor(t, &part, &update), Tensor::from_i64(&[4], &rows)];
            check(&engine, "IndexCopy", &[(fields::index_copy::axis, (axis as i64).into())], &inputs, &d, &want);
        }
    }
}

#[test]
fn scatter_add_sums_repeated_indices() {
    let engine = engine();
    for t in [DType::F32, DType::F16, DType::I64, DType::I32, DType::U8] {
        for (d, axis) in [([4usize, 3], 0usize), ([3, 5], 1)] {
            let mut part = d;
            part[axis] = 6;
            let n = d[axis] as i64;
            let (x, updates) = (vec![1.0; count(&d)], (0..count(&part)).map(|i| (i % 4) as f64).collect::<Vec<_>>());
            let places: Vec<i64> =
                (0..count(&part)).map(|i| (i as i64 * 5) % n - if i % 3 == 0 { n } else { 0 }).collect();
            let mut want = x.clone();
            for i in 0..count(&part) {
                let mut c = at(&part, i);
                c[axis] = (places[i] + n) as usize % n as usize;
                want[index(&d, &c)] += updates[i];
            }
            for index_type in [DType::I64, DType::I32] {
                let inputs = [tensor(t, &d, &x), ints(index_type, &part, &places), tensor(t, &part, &updates)];
                check(&engine, "ScatterAdd", &[(fields::scatter_add::axis, (axis as i64).into())], &inputs, &d, &want);
            }
        }
    }
}

#[test]
fn takes_wrap_negative_indices_and_clamp_wild_ones() {
    let engine = engine();
    for t in WIDTHS {
        for axis in 0..3usize {
            let d = [4, 3, 5];
            let v = numbers(&d, 7);
            let n = d[axis] as i64;
            let picks = [[0, -1], [n - 1, -n], [1, 2]];
            let flat: Vec<i64> = picks.concat();
            let mut out: Vec<usize> = d.to_vec();
            out.splice(axis..=axis, [3, 2]);
            let want = expect(&out, |c| {
                let k = picks[c[axis]][c[axis + 1]];
                let mut c = c.to_vec();
                c.splice(axis..axis + 2, [((k + n) % n) as usize]);
                v[index(&d, &c)]
            });
            for index_type in [DType::I64, DType::I32, DType::I16, DType::I8] {
                let inputs = [tensor(t, &d, &v), ints(index_type, &[3, 2], &flat)];
                check(&engine, "Take", &[(fields::take::axis, (axis as i64).into())], &inputs, &out, &want);
            }
            let mut out: Vec<usize> = d.to_vec();
            out.remove(axis);
            let want = expect(&out, |c| {
                let mut c = c.to_vec();
                c.insert(axis, d[axis] - 2);
                v[index(&d, &c)]
            });
            let args = [(fields::take::axis, (axis as i64).into()), (fields::take::index, (-2).into())];
            check(&engine, "Take", &args, &[tensor(t, &d, &v)], &out, &want);
        }
    }
    let x = tensor(DType::F32, &[10], &numbers(&[10], 0));
    let wild = Tensor::from_i64(&[4], &[-1, -10, 0, 1 << 40]);
    let got = one(&engine, "Take", &[], &[x.clone(), wild], DType::F32, &[4]).unwrap().to_f64();
    let v = x.to_f64();
    assert_eq!(got, [v[9], v[0], v[0], v[9]]);
}

#[test]
fn take_along_axis_and_gather() {
    let engine = engine();
    for t in WIDTHS {
        let d = [3, 4, 5];
        let v = numbers(&d, 8);
        for axis in 0..3usize {
            let mut out = d;
            out[axis] = 2;
            let n = d[axis] as i64;
            let picks: Vec<i64> =
                (0..count(&out)).map(|i| (i as i64 * 3) % n - if i % 2 == 0 { n } else { 0 }).collect();
            let want = expect(&out, |c| {
                let mut c = c.to_vec();
                let k = picks[index(&out, &c)];
                c[axis] = (k + n) as usize % n as usize;
                v[index(&d, &c)]
            });
            let inputs = [tensor(t, &d, &v), Tensor::from_i64(&out, &picks)];
            check(
                &engine,
                "TakeAlongAxis",
                &[(fields::take_along_axis::axis, (axis as i64).into())],
                &inputs,
                &out,
                &want,
            );
        }
        // x[i, :, j] for broadcast i and j, and slices of two columns.
        let (i, j) = ([0i64, 2, -1], [1i64, 0]);
        let out = [2, 3, 1, 4, 2];
        let want = expect(&out, |c| v[index(&d, &[((i[c[1]] + 3) % 3) as usize, c[3], j[c[0]] as usize + c[4]])]);
        let inputs = [tensor(t, &d, &v), Tensor::from_i64(&[3], &i), ints(DType::I32, &[2, 1], &j)];
        let args = [(fields::gather::axes, [0, 2].into()), (fields::gather::slice_sizes, [1, 4, 2].into())];
        check(&engine, "Gather", &args, &inputs, &out, &want);
    }
}

#[test]
fn triangles_fills_and_ranges() {
    let engine = engine();
    for t in [DType::F32, DType::F16, DType::U8, DType::I64, DType::Bool] {
        let d = [2, 3, 5];
        let v: Vec<f64> = numbers(&d, 9).iter().map(|v| if t == DType::Bool { v % 2.0 } else { *v }).collect();
        for k in [-1i64, 0, 2] {
            let low = expect(&d, |c| if c[2] as i64 - c[1] as i64 <= k { v[index(&d, c)] } else { 0.0 });
            let high = expect(&d, |c| if c[2] as i64 - c[1] as i64 >= k { v[index(&d, c)] } else { 0.0 });
            check(&engine, "Tril", &[(fields::tril::k, k.into())], &[tensor(t, &d, &v)], &d, &low);
            check(&engine, "Triu", &[(fields::triu::k, k.into())], &[tensor(t, &d, &v)], &d, &high);
            let tri = expect(&[3, 5], |c| f64::from(u8::from(c[1] as i64 - c[0] as i64 <= k)));
            let args = [
                (fields::tri::n, 3.into()),
                (fields::tri::m, 5.into()),
                (fields::tri::k, k.into()),
                (fields::tri::scalar_type, t.into()),
            ];
            assert_eq!(one(&engine, "Tri", &args, &[], t, &[3, 5]).unwrap().to_f64(), tri, "{t}");
        }
        let args = [
            (fields::full::shape, list(&[3, 3])),
            (fields::full::v, 1.0.into()),
            (fields::full::scalar_type, t.into()),
        ];
        assert_eq!(one(&engine, "Full", &args, &[], t, &[3, 3]).unwrap().to_f64(), [1.0; 9]);
        let like = one(&engine, "FullLike", &[(fields::full_like::v, 1.0.into())], &[tensor(t, &d, &v)], t, &d);
        assert_eq!(like.unwrap().to_f64(), [1.0; 30]);
        if t != DType::Bool {
            let args = |a: i64, b: i64, s: i64| {
                use fields::arange as f;
                [(f::start, a.into()), (f::stop, b.into()), (f::step, s.into()), (f::scalar_type, t.into())]
            };
            assert_eq!(
                one(&engine, "ARange", &args(2, 17, 3), &[], t, &[5]).unwrap().to_f64(),
                [2.0, 5.0, 8.0, 11.0, 14.0]
            );
            assert_eq!(one(&engine, "ARange", &args(9, 0, -4), &[], t, &[3]).unwrap().to_f64(), [9.0, 5.0, 1.0]);
        }
    }
    use fields::arange as f;
    let args = [
        (f::start, 3_000_000_000.into()),
        (f::stop, 3_000_000_003.into()),
        (f::step, 1.into()),
        (f::scalar_type, DType::I64.into()),
    ];
    let got = one(&engine, "ARange", &args, &[], DType::I64, &[3]).unwrap().to_i64();
    assert_eq!(got, [3_000_000_000, 3_000_000_001, 3_000_000_002]);
    let n = 4_194_241;
    let args = [(f::start, 0.into()), (f::stop, n.into()), (f::step, 1.into()), (f::scalar_type, DType::F32.into())];
    let got = one(&engine, "ARange", &args, &[], DType::F32, &[n as usize]).unwrap().to_f32();
    assert_eq!(got[n as usize - 2..], [(n - 2) as f32, (n - 1) as f32]);
}

#[test]
fn random_bits_are_those_of_the_generator() {
    let engine = engine();
    // From the mlx package: random.split(key(seed), count) is bits([count, 2]) of the same generator.
    let run = |seed: i64, dims: &[usize], width: i64| {
        let t = if width == 1 { DType::U8 } else { DType::U32 };
        let got = program(&engine, &[], t, dims, |b, _, out| {
            let (chain, vid) = (b.main(), b.value());
            use fields::{add_int as a, random_bits as f};
            b.push(chain, "AddInt", [(a::a, seed.into()), (a::b, 0.into()), (a::out, vid.into())]);
            b.push(
                chain,
                "RandomBits",
                [(f::out, out.into()), (f::shape, list(dims)), (f::seed, vid.into()), (f::width, width.into())],
            );
        });
        got.unwrap().to_i64()
    };
    for (seed, dims, want) in RANDOM {
        assert_eq!(run(*seed, dims, 4), *want, "{seed} {dims:?}");
    }
    let words = run(7, &[3], 4);
    // random.uniform((3,), key=key(7)): an odd number of words.
    for (w, u) in words.iter().zip([0.224_984_63, 0.426_160_42, 0.453_609_35]) {
        assert!((*w as f64 / f64::from(u32::MAX) - u).abs() < 1e-7, "{w} {u}");
    }
    let bytes = run(7, &[12], 1);
    let joined: Vec<i64> = bytes.chunks(4).map(|b| b[0] | b[1] << 8 | b[2] << 16 | b[3] << 24).collect();
    assert_eq!(joined, words);
}

const RANDOM: &[(i64, &[usize], &[i64])] = &[
    (0, &[1, 2], &[928981903, 3453687069]),
    (7, &[3, 2], &[276534068, 861967409, 1905761346, 1641862660, 2900896126, 1402713516]),
    (12345, &[4, 2], &[305750198, 2603326752, 508404452, 2388836431, 730924241, 3909302951, 1026615260, 1275643062]),
    (2147483647, &[2, 2], &[1746298583, 3828188280, 1015193934, 412987060]),
];

#[test]
fn sorting_is_stable_with_nan_last() {
    let engine = engine();
    for t in [DType::F32, DType::F16, DType::I64, DType::I8, DType::U32, DType::Bool, DType::U8] {
        for (d, axis) in [([2usize, 5, 3], 1usize), ([3, 7, 2], 0), ([2, 2, 33], 2)] {
            let mut v: Vec<f64> = (0..count(&d)).map(|i| ((i * 7919 + 3) % 13) as f64).collect();
            if t.is_float() {
                v[1] = f64::NAN;
                v[4] = f64::INFINITY;
                v[7] = -0.0;
                v[9] = -3.5;
            } else if matches!(t, DType::I64 | DType::I8) {
                v.iter_mut().for_each(|x| *x -= 6.0);
            } else if t == DType::Bool {
                v.iter_mut().for_each(|x| *x = f64::from(u8::from(*x > 6.0)));
            }
            check_sort(&engine, t, &d, axis, &v);
        }
    }
    let mut seed = 1u64;
    for n in [1usize, 2, 1023, 1024, 1025, 3000, 70_001] {
        let v: Vec<f64> = (0..n)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((seed >> 40) % 1000) as f64 - 500.0
            })
            .collect();
        check_sort(&engine, DType::F32, &[n], 0, &v);
        check_sort(&engine, DType::I32, &[n], 0, &v);
    }
    let big = [i64::MAX, i64::MIN, 1 << 32, (1 << 32) + 1, -1, 0, -(1 << 32), 3];
    let x = Tensor::from_i64(&[8], &big);
    let got = one(&engine, "Sort", &[], &[x], DType::I64, &[8]).unwrap().to_i64();
    let mut want = big;
    want.sort_unstable();
    assert_eq!(got, want);
}

fn check_sort(engine: &Engine, t: DType, d: &[usize], axis: usize, v: &[f64]) {
    let x = tensor(t, d, v);
    let v = x.to_f64();
    let key = |i: usize| (v[i].is_nan(), if v[i] == 0.0 { 0.0 } else { v[i] });
    let rows: Vec<usize> = (0..count(d)).filter(|&i| at(d, i)[axis] == 0).collect();
    let (mut sorted, mut order) = (v.clone(), vec![0.0; v.len()]);
    for row in rows {
        let place = |j: usize| {
            let mut c = at(d, row);
            c[axis] = j;
            index(d, &c)
        };
        let mut ids: Vec<usize> = (0..d[axis]).collect();
        ids.sort_by(|&a, &b| {
            let (x, y) = (key(place(a)), key(place(b)));
            x.0.cmp(&y.0).then(if x.0 { std::cmp::Ordering::Equal } else { x.1.total_cmp(&y.1) })
        });
        for (j, &id) in ids.iter().enumerate() {
            sorted[place(j)] = v[place(id)];
            order[place(j)] = id as f64;
        }
    }
    let bits = |v: &[f64]| v.iter().map(|x| if x.is_nan() { u64::MAX } else { x.to_bits() }).collect::<Vec<_>>();
    for (op, axis_field) in [("Sort", fields::sort::axis), ("Partition", fields::partition::axis)] {
        let mut args = vec![(axis_field, (axis as i64).into())];
        if op == "Partition" {
            args.push((fields::partition::kth, 0.into()));
        }
        let got = one(engine, op, &args, std::slice::from_ref(&x), t, d).unwrap().to_f64();
        assert!(bits(&got) == bits(&sorted), "{op} {t} {d:?} {axis}\n{got:?}\n{sorted:?}");
    }
    let got =
        one(engine, "Argsort", &[(fields::argsort::axis, (axis as i64).into())], &[x], DType::U32, d).unwrap().to_f64();
    assert!(got == order, "Argsort {t} {d:?} {axis}\n{got:?}\n{order:?}");
}

#[test]
fn bad_operands_are_named() {
    let engine = engine();
    let x = tensor(DType::F32, &[2, 3], &[0.0; 6]);
    let message = |op: &str, args: &[(Field, Arg)], inputs: &[Tensor], dims: &[usize]| match one(
        &engine,
        op,
        args,
        inputs,
        DType::F32,
        dims,
    ) {
        Ok(_) => panic!("{op} was accepted"),
        Err(e) => e.to_string(),
    };
    let cases = [
        (
            message(
                "Take",
                &[(fields::take::axis, 2.into()), (fields::take::index, 0.into())],
                std::slice::from_ref(&x),
                &[3],
            ),
            "axis 2",
        ),
        (message("Take", &[(fields::take::index, 5.into())], std::slice::from_ref(&x), &[3]), "index 5"),
        (
            message(
                "Pad",
                &[(fields::pad::pad_width, [1, 1].into()), (fields::pad::mode, "constant".into())],
                std::slice::from_ref(&x),
                &[2, 3],
            ),
            "2 widths",
        ),
        (
            message(
                "Pad",
                &[(fields::pad::pad_width, [0, 0, 0, -1].into()), (fields::pad::mode, "constant".into())],
                std::slice::from_ref(&x),
                &[2, 2],
            ),
            "-1",
        ),
        (message("Concatenate", &[], &[x.clone(), tensor(DType::F32, &[2, 2], &[0.0; 4])], &[4, 3]), "[2, 2]"),
        (message("Add", &[], &[x.clone(), tensor(DType::F32, &[2, 2], &[0.0; 4])], &[2, 3]), "[2, 2]"),
        (message("BitwiseAnd", &[], &[x.clone(), x.clone()], &[2, 3]), "f32"),
        (message("Take", &[], &[x.clone(), x.clone()], &[2, 3, 3]), "f32"),
        (
            message("Tile", &[(fields::tile::reps, [1 << 40, 1 << 40].into())], std::slice::from_ref(&x), &[2, 3]),
            "2199023255552",
        ),
    ];
    for (message, part) in cases {
        assert!(message.contains(part), "{message:?} does not name {part:?}");
    }
}
