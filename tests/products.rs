//! Products of dense and packed matrices against references.

#[path = "support/rig.rs"]
mod rig;

use lowtide::dtype::DType;
use lowtide::op::fields;
use rig::{Array, Case, Operand, Rig, tolerance};

const F32: DType = DType::F32;
const F16: DType = DType::F16;
const BF16: DType = DType::BF16;

/// `[batch.., m, k] x [batch.., k, n]` with batches that broadcast.
fn matmul(a: &Array, b: &Array) -> Array {
    let (ra, rb) = (a.dims.len(), b.dims.len());
    let (m, k, n) = (a.dims[ra - 2], a.dims[ra - 1], b.dims[rb - 1]);
    let rank = ra.max(rb);
    let dim = |x: &[usize], i: usize| (i + x.len()).checked_sub(rank).map_or(1, |i| x[i]);
    let mut dims: Vec<usize> = (0..rank - 2).map(|i| dim(&a.dims, i).max(dim(&b.dims, i))).collect();
    dims.extend([m, n]);
    let pick = |x: &Array, batch: &[usize], row: usize, col: usize| {
        let lead = rank - x.dims.len();
        let mut at: Vec<usize> =
            batch[lead.min(batch.len())..].iter().zip(&x.dims).map(|(&i, &d)| if d == 1 { 0 } else { i }).collect();
        at.extend([row, col]);
        x.at(&at)
    };
    Array::by_index(&dims, |i| {
        let batch = &i[..rank - 2];
        (0..k).map(|t| pick(a, batch, i[rank - 2], t) * pick(b, batch, t, i[rank - 1])).sum()
    })
}

fn addmm(rig: &Rig, name: &str, a: Operand, b: Operand, out: DType) {
    use fields::addmm as f;
    let want = matmul(&a.seen(), &b.seen());
    let k = *a.seen().dims.last().unwrap() as f64;
    let c = Case {
        op: "Addmm",
        operands: vec![(f::mat1, a), (f::mat2, b)],
        args: vec![],
        out: f::out,
        dtype: out,
        dims: want.dims.clone(),
    };
    rig.check(name, &c, &want, tolerance(out), k.sqrt().max(1.0));
}

#[test]
fn every_small_size() {
    let rig = Rig::new();
    let mut seed = 0;
    for m in [0, 1, 2, 3, 5, 33] {
        for n in [0, 1, 2, 31, 32, 65, 97] {
            for k in [0, 1, 7, 8, 64, 257] {
                seed += 1;
                let (ta, tb, out) = [(F32, F32, F32), (BF16, BF16, BF16), (F16, F16, F16), (F32, BF16, F32)][seed % 4];
                let a = Operand::new(ta, Array::random(&[m, k], seed as u64));
                let b = Operand::new(tb, Array::random(&[k, n], seed as u64 + 1000));
                let b = if seed % 3 == 0 { b } else { b.stored(&[1, 0]) };
                addmm(&rig, &format!("{m}x{k} {ta} {k}x{n} {tb}"), a, b, out);
            }
        }
    }
}

#[test]
fn layouts_and_batches() {
    let rig = Rig::new();
    for (t, m) in [(F32, 4), (BF16, 4), (F16, 9), (BF16, 40)] {
        let a = || Operand::new(t, Array::random(&[3, m, 24], 5));
        let b = || Operand::new(t, Array::random(&[3, 24, 34], 6));
        addmm(&rig, "plain", a(), b(), t);
        addmm(&rig, "a by columns", a().stored(&[0, 2, 1]), b(), t);
        addmm(&rig, "b by columns", a(), b().stored(&[0, 2, 1]), t);
        addmm(&rig, "batch inside", a().stored(&[1, 0, 2]), b().stored(&[2, 1, 0]), t);
        addmm(&rig, "odd offset", a().sliced(2, 3, 1), b().sliced(1, 1, 1), t);
        addmm(&rig, "every other row", a().sliced(1, 1, 2), b().sliced(2, 2, 2), t);
        let one = Operand::new(t, Array::random(&[24, 34], 7));
        addmm(&rig, "shared b", a(), one.clone().stored(&[1, 0]), t);
        addmm(&rig, "shared constant b", a(), one.weights(), t);
        let wide = Operand::new(t, Array::random(&[2, 1, m, 24], 8));
        addmm(&rig, "batches that broadcast", wide, b(), t);
        let stretched = Operand::new(t, Array::random(&[1, m, 24], 9)).expanded(&[3, m, 24]);
        addmm(&rig, "a repeated", stretched, b(), t);
    }
}

#[test]
fn a_scaled_third_tensor() {
    use fields::addmm as f;
    let rig = Rig::new();
    for t in [F32, BF16] {
        for m in [1, 3, 8, 50] {
            let (a, b) = (Array::random(&[m, 64], 1).rounded(t), Array::random(&[64, 48], 2).rounded(t));
            let product = matmul(&a, &b);
            for dims in [vec![48], vec![m, 1], vec![m, 48], vec![]] {
                let bias = Operand::new(F16, Array::random(&dims, 3));
                let seen = bias.clone().expanded(&[m, 48]).seen();
                let want = Array::by_index(&[m, 48], |i| 0.5 * product.at(&i) + 2.0 * seen.at(&i));
                let out = F32;
                let c = Case {
                    op: "Addmm",
                    operands: vec![
                        (f::mat1, Operand::new(t, a.clone())),
                        (f::mat2, Operand::new(t, b.clone()).stored(&[1, 0])),
                        (f::bias, bias),
                    ],
                    args: vec![(f::alpha, 0.5.into()), (f::beta, 2.0.into())],
                    out: f::out,
                    dtype: out,
                    dims: vec![m, 48],
                };
                rig.check(&format!("{t} {m} bias {dims:?}"), &c, &want, tolerance(out), 8.0);
            }
        }
    }
}

#[test]
fn vectors() {
    use fields::addmm as f;
    let rig = Rig::new();
    let (v, w) = (Array::random(&[24], 1), Array::random(&[24, 10], 2));
    let row = matmul(&Array::new(&[1, 24], v.data.clone()), &w);
    let case = |a: Array, b: Array, dims: Vec<usize>| Case {
        op: "Addmm",
        operands: vec![(f::mat1, Operand::new(F32, a)), (f::mat2, Operand::new(F32, b))],
        args: vec![],
        out: f::out,
        dtype: F32,
        dims,
    };
    rig.check("row", &case(v.clone(), w.clone(), vec![10]), &Array::new(&[10], row.data), 3e-6, 5.0);
    let wt = Array::by_index(&[10, 24], |i| w.at(&[i[1], i[0]]));
    let col = matmul(&wt, &Array::new(&[24, 1], v.data.clone()));
    rig.check("column", &case(wt, v.clone(), vec![10]), &Array::new(&[10], col.data), 3e-6, 5.0);
    let dot = v.data.iter().map(|x| x * x).sum();
    rig.check("dot", &case(v.clone(), v, vec![]), &Array::new(&[], vec![dot]), 3e-6, 5.0);
}

#[test]
fn gathered_matrices() {
    use fields::gather_mm as f;
    let rig = Rig::new();
    let pick = [2usize, 0, 3, 3, 1, 2];
    for (t, m) in [(F32, 1), (BF16, 1), (BF16, 3), (F16, 20)] {
        for index in [DType::I32, DType::U32, DType::I64, DType::I16] {
            let a = Array::random(&[6, m, 40], 1).rounded(t);
            let b = Array::random(&[4, 40, 18], 2).rounded(t);
            let left = [5usize, 4, 3, 2, 1, 0];
            let want = |swap: bool| {
                Array::by_index(&[6, m, 18], |i| {
                    let from = if swap { left[i[0]] } else { i[0] };
                    (0..40).map(|k| a.at(&[from, i[1], k]) * b.at(&[pick[i[0]], k, i[2]])).sum()
                })
            };
            let rhs = Operand::new(index, Array::new(&[6], pick.map(|v| v as f64).to_vec())).sliced(0, 1, 2);
            let lhs = Operand::new(index, Array::new(&[6], left.map(|v| v as f64).to_vec()));
            for (name, swap, perm) in
                [("rhs", false, [0, 2, 1]), ("both", true, [0, 1, 2]), ("inside", true, [2, 0, 1])]
            {
                let mut operands = vec![
                    (f::a, Operand::new(t, a.clone()).stored(&[1, 0, 2])),
                    (f::b, Operand::new(t, b.clone()).stored(&perm).weights()),
                    (f::rhs_indices, rhs.clone()),
                ];
                if swap {
                    operands.push((f::lhs_indices, lhs.clone()));
                }
                let c = Case { op: "GatherMm", operands, args: vec![], out: f::out, dtype: t, dims: vec![6, m, 18] };
                rig.check(&format!("{t} {m} {index} {name}"), &c, &want(swap), tolerance(t), 6.0);
            }
        }
    }
}

/// A packed matrix: the words, the scales and biases, and the values.
struct Packed {
    words: Array,
    scales: Array,
    biases: Array,
    values: Array,
}

fn fp4(c: u32) -> f64 {
    let v = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][(c & 7) as usize];
    if c & 8 != 0 { -v } else { v }
}

fn fp8(c: u32) -> f64 {
    let (e, m) = (c >> 3 & 15, f64::from(c & 7));
    let v = if e == 0 { m / 512.0 } else { (1.0 + m / 8.0) * 2f64.powi(e as i32 - 7) };
    if c & 128 != 0 { -v } else { v }
}

fn pack(mode: &str, dims: &[usize], bits: usize, group: usize, scale_type: DType, seed: u64) -> Packed {
    let r = dims.len() - 1;
    let (rows, k) = (dims[..r].iter().product::<usize>(), dims[r]);
    let noise = Array::random(&[rows, k], seed);
    let code = |i: usize| -> u32 {
        let c = ((noise.data[i] + 1.0) * 0.5 * f64::from(1u32 << bits)) as u32 & ((1 << bits) - 1);
        if mode == "mxfp8" && c & 127 == 127 { c - 1 } else { c }
    };
    let mut words = vec![0u32; rows * k * bits / 32];
    for row in 0..rows {
        for i in 0..k {
            for bit in 0..bits {
                let at = i * bits + bit;
                words[row * k * bits / 32 + at / 32] |= (code(row * k + i) >> bit & 1) << (at % 32);
            }
        }
    }
    let with = |last: usize| -> Vec<usize> { dims[..r].iter().copied().chain([last]).collect() };
    let groups = with(k / group);
    let raw = Array::random(&groups, seed + 1);
    let (scales, scale) = match mode {
        "affine" => (raw.map(|v| v * 0.1).rounded(scale_type), None),
        "nvfp4" => (raw.map(|v| ((v + 1.0) * 60.0).floor()), Some(fp8 as fn(u32) -> f64)),
        _ => (raw.map(|v| 125.0 + (v * 3.0).round()), Some((|c| 2f64.powi(c as i32 - 127)) as fn(u32) -> f64)),
    };
    let biases = Array::random(&groups, seed + 2).rounded(scale_type);
    let values = Array::from_fn(dims, |i| {
        let g = i / k * (k / group) + i % k / group;
        match mode {
            "affine" => f64::from(code(i)) * scales.data[g] + biases.data[g],
            "mxfp8" => fp8(code(i)) * scale.unwrap()(scales.data[g] as u32),
            _ => fp4(code(i)) * scale.unwrap()(scales.data[g] as u32),
        }
    });
    Packed {
        words: Array::new(&with(k * bits / 32), words.into_iter().map(f64::from).collect()),
        scales,
        biases,
        values,
    }
}

struct Mode(&'static str, usize, usize);
const MODES: [Mode; 14] = [
    Mode("affine", 4, 32),
    Mode("affine", 8, 64),
    Mode("affine", 2, 32),
    Mode("affine", 3, 32),
    Mode("affine", 5, 32),
    Mode("affine", 6, 64),
    Mode("affine", 4, 128),
    Mode("affine", 4, 16),
    Mode("affine", 6, 16),
    Mode("affine", 8, 8),
    Mode("affine", 4, 4),
    Mode("mxfp4", 4, 32),
    Mode("mxfp8", 8, 32),
    Mode("nvfp4", 4, 16),
];

#[test]
fn packed_weights() {
    use fields::quantized_matmul as f;
    let rig = Rig::new();
    for (number, &Mode(mode, bits, group)) in MODES.iter().enumerate() {
        let scale_type = if mode != "affine" { DType::U8 } else { [BF16, F32, F16][number % 3] };
        for (m, n) in [(1usize, 97usize), (2, 66), (3, 33), (9, 97), (50, 70)] {
            for transpose in [true, false] {
                let k = 128;
                let n = if transpose { n } else { n.next_multiple_of(128) };
                let t = [F32, BF16, F16][(m + number) % 3];
                let dims = if transpose { [n, k] } else { [k, n] };
                let p = pack(mode, &dims, bits, group, scale_type, (number * 10 + m) as u64);
                let b =
                    if transpose { Array::by_index(&[k, n], |i| p.values.at(&[i[1], i[0]])) } else { p.values.clone() };
                let x = Operand::new(t, Array::random(&[m, k], m as u64));
                let x = if m == 3 { x.sliced(1, 1, 1) } else { x };
                let want = matmul(&x.seen(), &b);
                let mut operands = vec![
                    (f::x, x),
                    (f::w, Operand::new(DType::U32, p.words).weights()),
                    (f::scales, Operand::new(scale_type, p.scales).weights()),
                ];
                let mut out = t;
                if mode == "affine" {
                    operands.push((f::biases, Operand::new(scale_type, p.biases).weights()));
                    out = t.promote(scale_type);
                }
                let c = Case {
                    op: "QuantizedMatmul",
                    operands,
                    args: vec![
                        (f::mode, mode.into()),
                        (f::bits, (bits as i64).into()),
                        (f::group_size, (group as i64).into()),
                        (f::transpose, transpose.into()),
                    ],
                    out: f::out,
                    dtype: out,
                    dims: vec![m, n],
                };
                let size = want.data.iter().fold(0f64, |s, v| s.max(v.abs()));
                rig.check(&format!("{mode} {bits} {group} {m}x{n} {transpose}"), &c, &want, tolerance(out), size);
            }
        }
    }
}

#[test]
fn packed_weights_of_the_numerics_list() {
    use fields::quantized_matmul as f;
    let rig = Rig::new();
    for m in [1usize, 8, 9, 50] {
        let mut words = vec![0u32; 97 * 8];
        for n in 0..97 {
            for k in 0..64 {
                words[n * 8 + k / 8] |= (((k + n) % 16) << (k % 8 * 4)) as u32;
            }
        }
        let scales = Array::by_index(&[97, 2], |i| [0.5, 0.25][i[1]]);
        let biases = Array::by_index(&[97, 2], |i| [-4.0, 1.0][i[1]]);
        let want = Array::by_index(&[m, 97], |i| {
            (0..64)
                .map(|k| {
                    let g = k / 32;
                    k as f64 / 64.0 * (((k + i[1]) % 16) as f64 * [0.5, 0.25][g] + [-4.0, 1.0][g])
                })
                .sum()
        });
        assert_eq!((want.at(&[0, 0]), want.at(&[m - 1, 96]), want.at(&[0, 95])), (74.3125, 74.3125, 71.5));
        let c = Case {
            op: "QuantizedMatmul",
            operands: vec![
                (f::x, Operand::new(F32, Array::by_index(&[m, 64], |i| i[1] as f64 / 64.0))),
                (f::w, Operand::new(DType::U32, Array::new(&[97, 8], words.into_iter().map(f64::from).collect()))),
                (f::scales, Operand::new(F32, scales)),
                (f::biases, Operand::new(F32, biases)),
            ],
            args: vec![(f::mode, "affine".into()), (f::bits, 4i64.into()), (f::group_size, 32i64.into())],
            out: f::out,
            dtype: F32,
            dims: vec![m, 97],
        };
        rig.check(&format!("M = {m}"), &c, &want, 1e-6, 1.0);
    }
}

#[test]
fn batches_of_packed_weights() {
    use fields::quantized_matmul as f;
    let rig = Rig::new();
    for t in [F32, BF16] {
        let p = pack("affine", &[3, 40, 64], 4, 32, BF16, 3);
        let b = Array::by_index(&[3, 64, 40], |i| p.values.at(&[i[0], i[2], i[1]]));
        for x in [vec![3, 2, 64], vec![2, 3, 1, 64], vec![7, 64], vec![1, 9, 64]] {
            let x = Operand::new(t, Array::random(&x, 4));
            let want = matmul(&x.seen(), &b);
            let c = Case {
                op: "QuantizedMatmul",
                operands: vec![
                    (f::x, x),
                    (f::w, Operand::new(DType::U32, p.words.clone()).stored(&[1, 0, 2])),
                    (f::scales, Operand::new(BF16, p.scales.clone()).stored(&[2, 1, 0])),
                    (f::biases, Operand::new(BF16, p.biases.clone()).weights()),
                ],
                args: vec![(f::mode, "affine".into()), (f::bits, 4i64.into()), (f::group_size, 32i64.into())],
                out: f::out,
                dtype: t,
                dims: want.dims.clone(),
            };
            rig.check(&format!("{t} {:?}", want.dims), &c, &want, tolerance(t), 8.0);
        }
    }
}

#[test]
fn gathered_packed_weights() {
    use fields::gather_qmm as f;
    let rig = Rig::new();
    for &Mode(mode, bits, group) in &MODES {
        for (m, t) in [(1, F32), (2, BF16), (6, F16)] {
            let scale_type = if mode == "affine" { BF16 } else { DType::U8 };
            let p = pack(mode, &[4, 32, 128], bits, group, scale_type, 9);
            let pick = [3usize, 1, 1, 0, 2];
            let x = Operand::new(t, Array::random(&[5, m, 128], 2));
            let seen = x.seen();
            let want = Array::by_index(&[5, m, 32], |i| {
                (0..128).map(|k| seen.at(&[i[0], i[1], k]) * p.values.at(&[pick[i[0]], i[2], k])).sum()
            });
            let mut operands = vec![
                (f::x, x),
                (f::w, Operand::new(DType::U32, p.words).weights()),
                (f::scales, Operand::new(scale_type, p.scales).weights()),
                (f::rhs_indices, Operand::new(DType::U32, Array::new(&[5], pick.map(|v| v as f64).to_vec()))),
            ];
            if mode == "affine" {
                operands.push((f::biases, Operand::new(scale_type, p.biases)));
            }
            let out = if mode == "affine" { t.promote(BF16) } else { t };
            let c = Case {
                op: "GatherQmm",
                operands,
                args: vec![
                    (f::mode, mode.into()),
                    (f::bits, (bits as i64).into()),
                    (f::group_size, (group as i64).into()),
                ],
                out: f::out,
                dtype: out,
                dims: vec![5, m, 32],
            };
            let size = want.data.iter().fold(0f64, |s, v| s.max(v.abs()));
            rig.check(&format!("{mode} {bits} {group} {m}"), &c, &want, tolerance(out), size);
        }
    }
}

#[test]
fn unpacking() {
    use fields::dequantize as f;
    let rig = Rig::new();
    for &Mode(mode, bits, group) in &MODES {
        for out in [F32, F16, BF16] {
            let scale_type = if mode == "affine" { BF16 } else { DType::U8 };
            let p = pack(mode, &[3, 5, 128], bits, group, scale_type, 1);
            for global in [false, true] {
                if global && mode != "nvfp4" {
                    continue;
                }
                let mut operands = vec![
                    (f::w, Operand::new(DType::U32, p.words.clone()).stored(&[0, 2, 1])),
                    (f::scales, Operand::new(scale_type, p.scales.clone()).stored(&[1, 0, 2])),
                ];
                if mode == "affine" {
                    operands.push((f::biases, Operand::new(scale_type, p.biases.clone())));
                }
                let mut want = p.values.clone();
                if global {
                    operands.push((f::global_scale, Operand::new(F32, Array::new(&[], vec![5376.0]))));
                    want = want.map(|v| v * 2.0);
                }
                let c = Case {
                    op: "Dequantize",
                    operands,
                    args: vec![
                        (f::mode, mode.into()),
                        (f::bits, (bits as i64).into()),
                        (f::group_size, (group as i64).into()),
                        (f::dtype, out.into()),
                    ],
                    out: f::out,
                    dtype: out,
                    dims: want.dims.clone(),
                };
                rig.check(&format!("{mode} {bits} {group} {out}"), &c, &want, tolerance(out), 0.1);
            }
        }
    }
}
