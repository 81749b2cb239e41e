//! Attention, rotary embedding and convolutions against references.

#[path = "support/rig.rs"]
mod rig;

use lowtide::dtype::DType;
use lowtide::op::{Field, fields};
use lowtide::program::build::Arg;
use rig::{Array, Case, Operand, Rig, tolerance};

const F32: DType = DType::F32;
const F16: DType = DType::F16;
const BF16: DType = DType::BF16;

fn attend(q: &Array, k: &Array, v: &Array, mask: Option<&Array>, bools: bool, causal: bool, scale: f64) -> Array {
    let (heads, groups, lq, lk) = (q.dims[1], k.dims[1], q.dims[2], k.dims[2]);
    let (d, dv) = (q.dims[3], v.dims[3]);
    let mut out = Array::from_fn(&[q.dims[0], heads, lq, dv], |_| 0.0);
    for i in Array::indices(&[q.dims[0], heads, lq]) {
        let (b, h, l) = (i[0], i[1], i[2]);
        let g = h / (heads / groups);
        let scores: Vec<f64> = (0..lk)
            .map(|j| {
                if causal && j + lq > l + lk {
                    return f64::NEG_INFINITY;
                }
                let s = scale * (0..d).map(|t| q.at(&[b, h, l, t]) * k.at(&[b, g, j, t])).sum::<f64>();
                match mask.map(|m| m.at(&[b, h, l, j])) {
                    Some(m) if bools => {
                        if m != 0.0 {
                            s
                        } else {
                            f64::NEG_INFINITY
                        }
                    }
                    Some(m) => s + m,
                    None => s,
                }
            })
            .collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if top == f64::NEG_INFINITY {
            continue;
        }
        let e: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
        let sum: f64 = e.iter().sum();
        for t in 0..dv {
            out.data[((b * heads + h) * lq + l) * dv + t] = (0..lk).map(|j| e[j] / sum * v.at(&[b, g, j, t])).sum();
        }
    }
    out
}

struct Sizes {
    heads: usize,
    groups: usize,
    lq: usize,
    lk: usize,
    d: usize,
    dv: usize,
}

fn sdpa(rig: &Rig, name: &str, [q, k, v]: [Operand; 3], mask: Option<Operand>, causal: bool) {
    use fields::sdpa as f;
    let seen = [&q, &k, &v].map(Operand::seen);
    let scale = f64::from(0.3f32);
    let m = mask.as_ref().map(|m| {
        let dims = [seen[0].dims[0], seen[0].dims[1], seen[0].dims[2], seen[1].dims[2]];
        m.clone().expanded(&dims).seen()
    });
    let bools = mask.as_ref().is_some_and(|m| m.dtype == DType::Bool);
    let want = attend(&seen[0], &seen[1], &seen[2], m.as_ref(), bools, causal, scale);
    let t = q.dtype.promote(k.dtype).promote(v.dtype);
    let mut operands = vec![(f::q, q), (f::k, k), (f::v, v)];
    operands.extend(mask.map(|m| (f::mask, m)));
    let c = Case {
        op: "Sdpa",
        operands,
        args: vec![(f::scale, scale.into()), (f::causal, causal.into())],
        out: f::out,
        dtype: t,
        dims: want.dims.clone(),
    };
    rig.check(name, &c, &want, tolerance(t), 0.5);
}

fn qkv(s: &Sizes, batch: usize, t: DType) -> [Operand; 3] {
    [
        Operand::new(t, Array::random(&[batch, s.heads, s.lq, s.d], 1)),
        Operand::new(t, Array::random(&[batch, s.groups, s.lk, s.d], 2)),
        Operand::new(t, Array::random(&[batch, s.groups, s.lk, s.dv], 3)),
    ]
}

#[test]
fn attention_of_many_sizes() {
    let rig = Rig::new();
    let list = [
        (1, 1, 1, 1, 4, 4),
        (4, 2, 1, 63, 64, 64),
        (4, 2, 3, 65, 80, 80),
        (6, 2, 5, 130, 128, 64),
        (2, 1, 17, 17, 256, 256),
        (8, 1, 1, 300, 128, 128),
        (3, 3, 2, 40, 33, 33),
        (2, 2, 9, 20, 10, 3),
        (2, 1, 2, 70, 300, 260),
        (2, 2, 1, 1000, 64, 64),
        (4, 2, 33, 257, 32, 32),
        (3, 1, 2, 0, 8, 8),
    ];
    for (i, (heads, groups, lq, lk, d, dv)) in list.into_iter().enumerate() {
        let s = Sizes { heads, groups, lq, lk, d, dv };
        let t = [F32, BF16, F16][i % 3];
        for causal in [false, true] {
            if causal && lq > lk {
                continue;
            }
            let name = format!("{t} heads {heads}/{groups} q {lq} k {lk} dims {d} {dv} causal {causal}");
            sdpa(&rig, &name, qkv(&s, 2, t), None, causal);
        }
    }
}

#[test]
fn attention_over_views_of_a_cache() {
    let rig = Rig::new();
    for (t, lq) in [(BF16, 1), (F32, 1), (F16, 20)] {
        let s = Sizes { heads: 4, groups: 2, lq, lk: 90, d: 64, dv: 64 };
        let [q, k, v] = qkv(&s, 1, t);
        let across = [0, 2, 1, 3];
        sdpa(&rig, "transposed", [q.clone().stored(&across), k.clone().stored(&across), v.clone()], None, true);
        sdpa(&rig, "sliced", [q.clone(), k.clone().sliced(2, 5, 1), v.clone().sliced(2, 0, 1)], None, true);
        sdpa(
            &rig,
            "odd",
            [q.clone().sliced(3, 1, 1), k.clone().sliced(3, 3, 1), v.clone().sliced(3, 1, 2)],
            None,
            false,
        );
        sdpa(
            &rig,
            "by columns",
            [q.clone(), k.clone().stored(&[0, 1, 3, 2]), v.clone().stored(&[3, 2, 1, 0])],
            None,
            false,
        );
        sdpa(&rig, "mixed types", [q, Operand { dtype: F32, ..k }, v], None, true);
    }
}

#[test]
fn attention_masks() {
    let rig = Rig::new();
    for (t, lq, lk) in [(F32, 5, 70), (BF16, 1, 300), (F16, 3, 9)] {
        let s = Sizes { heads: 4, groups: 2, lq, lk, d: 16, dv: 16 };
        for dims in [vec![lq, lk], vec![2, 1, lq, lk], vec![1, 4, 1, lk], vec![lk]] {
            let noise = Array::random(&dims, 9);
            let bools = Operand::new(DType::Bool, noise.map(|v| f64::from(u8::from(v > 0.0))));
            sdpa(&rig, &format!("{t} bool {dims:?}"), qkv(&s, 2, t), Some(bools), false);
            for m in [F32, t] {
                let add = Operand::new(m, noise.map(|v| if v > 0.5 { f64::NEG_INFINITY } else { v * 3.0 }));
                sdpa(&rig, &format!("{t} {m} {dims:?}"), qkv(&s, 2, t), Some(add), false);
            }
        }
    }
}

#[test]
fn attention_of_the_numerics_list() {
    let rig = Rig::new();
    let eye = || Operand::new(F32, Array::new(&[1, 1, 2, 2], vec![1.0, 0.0, 0.0, 1.0]));
    let v = || Operand::new(F32, Array::new(&[1, 1, 2, 2], vec![1.0, 2.0, 3.0, 4.0]));
    let inf = f64::NEG_INFINITY;
    let low = f64::from(f32::MIN);
    use fields::sdpa as f;
    for (mask, dtype, row) in [
        (vec![1.0, 1.0, 0.0, 0.0], DType::Bool, [0.0, 0.0]),
        (vec![0.0, 0.0, inf, inf], F32, [0.0, 0.0]),
        (vec![0.0, 0.0, low, low], F32, [2.0, 3.0]),
    ] {
        let scale = 0.5f64.sqrt();
        let want = Array::new(&[1, 1, 2, 2], vec![1.6604769, 2.6604769, row[0], row[1]]);
        let mask = Operand::new(dtype, Array::new(&[2, 2], mask));
        let c = Case {
            op: "Sdpa",
            operands: vec![(f::q, eye()), (f::k, eye()), (f::v, v()), (f::mask, mask)],
            args: vec![(f::scale, scale.into())],
            out: f::out,
            dtype: F32,
            dims: vec![1, 1, 2, 2],
        };
        rig.check("masked row", &c, &want, 1e-6, 1.0);
    }
    let zeros = |l| Operand::new(F32, Array::from_fn(&[1, 1, l, 4], |_| 0.0));
    let c = Case {
        op: "Sdpa",
        operands: vec![
            (f::q, zeros(2)),
            (f::k, zeros(4)),
            (f::v, Operand::new(F32, Array::new(&[1, 1, 4, 1], vec![0.0, 1.0, 2.0, 3.0]))),
        ],
        args: vec![(f::scale, 1.0.into()), (f::causal, true.into())],
        out: f::out,
        dtype: F32,
        dims: vec![1, 1, 2, 1],
    };
    rig.check("lower right", &c, &Array::new(&[1, 1, 2, 1], vec![1.0, 1.5]), 1e-6, 1.0);
}

/// How a rope is asked for.
struct Turn {
    dims: usize,
    pairs: bool,
    offsets: Vec<i64>,
    freqs: bool,
    scale: f64,
}

fn rope(rig: &Rig, name: &str, x: Operand, turn: &Turn) {
    use fields::rope as f;
    let seen = x.seen();
    let r = seen.dims.len();
    let half = turn.dims / 2;
    let base = 10_000f64;
    let freqs = Array::from_fn(&[half], |i| 1.0 + i as f64 * 1.7).rounded(F32);
    let want = Array::by_index(&seen.dims, |i| {
        let d = i[r - 1];
        if d >= turn.dims {
            return seen.at(&i);
        }
        let (pair, second) = if turn.pairs { (d / 2, d % 2 == 1) } else { (d % half, d >= half) };
        let (first, other) = if turn.pairs { (2 * pair, 2 * pair + 1) } else { (pair, pair + half) };
        let rate = if turn.freqs { 1.0 / freqs.at(&[pair]) } else { base.powf(-(pair as f64) / half as f64) };
        let offset = turn.offsets[i[0] % turn.offsets.len()] as f64;
        let a = (i[r - 2] as f64 + offset) * turn.scale * rate;
        let mut at = i.clone();
        let mut get = |d| {
            at[r - 1] = d;
            seen.at(&at)
        };
        let (x1, x2) = (get(first), get(other));
        if second { x1 * a.sin() + x2 * a.cos() } else { x1 * a.cos() - x2 * a.sin() }
    });
    let t = x.dtype;
    let data = turn.offsets.iter().map(|&v| v as f64).collect();
    let dims: &[usize] = if turn.offsets.len() == 1 { &[] } else { &[turn.offsets.len()] };
    let kind = if turn.pairs { DType::I32 } else { DType::I64 };
    let mut operands = vec![(f::x, x), (f::offset, Operand::new(kind, Array::new(dims, data)))];
    if turn.freqs {
        operands.push((f::freqs, Operand::new(F32, freqs).weights()));
    }
    let args: Vec<(Field, Arg)> = vec![
        (f::dims, (turn.dims as i64).into()),
        (f::traditional, turn.pairs.into()),
        (f::base, base.into()),
        (f::scale, turn.scale.into()),
    ];
    let c = Case { op: "Rope", operands, args, out: f::out, dtype: t, dims: want.dims.clone() };
    // An angle of a few thousand is known to one part in 2^24.
    rig.check(name, &c, &want, if t == F32 { 3e-4 } else { tolerance(t) }, 1.0);
}

#[test]
fn rotary_embedding() {
    let rig = Rig::new();
    for (i, t) in [F32, BF16, F16].into_iter().enumerate() {
        for pairs in [false, true] {
            for freqs in [false, true] {
                let turn = |dims, offsets| Turn { dims, pairs, offsets, freqs, scale: [1.0, 0.5][i % 2] };
                let x = || Operand::new(t, Array::random(&[2, 3, 7, 64], i as u64));
                rope(&rig, "whole", x(), &turn(64, vec![5]));
                rope(&rig, "part", x().stored(&[0, 2, 1, 3]), &turn(24, vec![2000]));
                rope(&rig, "by entry", x().sliced(3, 1, 1), &turn(32, vec![3, 100]));
                rope(&rig, "odd width", Operand::new(t, Array::random(&[1, 5, 9], 4)), &turn(8, vec![0]));
            }
        }
    }
}

#[test]
fn rotary_embedding_of_the_numerics_list() {
    use fields::rope as f;
    let rig = Rig::new();
    for (pairs, want) in [
        (false, [-1.98411065, 1.95990067, 2.46237790, 4.01979967]),
        (true, [-1.14263966, 1.92207560, 2.95985067, 4.02979950]),
    ] {
        let c = Case {
            op: "Rope",
            operands: vec![
                (f::x, Operand::new(F32, Array::new(&[1, 1, 1, 4], vec![1.0, 2.0, 3.0, 4.0]))),
                (f::offset, Operand::new(DType::I32, Array::new(&[], vec![1.0]))),
            ],
            args: vec![(f::dims, 4i64.into()), (f::traditional, pairs.into()), (f::base, 10_000.0.into())],
            out: f::out,
            dtype: F32,
            dims: vec![1, 1, 1, 4],
        };
        rig.check("list", &c, &Array::new(&[1, 1, 1, 4], want.to_vec()), 2e-7, 1.0);
    }
}

/// Settings along each axis: stride, padding, dilation, output padding.
type Axes<'a> = &'a [[usize; 4]];

fn convolve(x: &Array, w: &Array, axes: Axes<'_>, groups: usize, transposed: bool) -> Array {
    let n = axes.len();
    let (channels, outs) = (w.dims[n + 1], w.dims[0]);
    let mut dims = vec![x.dims[0]];
    for (i, &[stride, pad, dilation, extra]) in axes.iter().enumerate() {
        let reach = dilation * (w.dims[i + 1] - 1);
        dims.push(if transposed {
            (x.dims[i + 1] - 1) * stride + reach + extra + 1 - 2 * pad
        } else {
            (x.dims[i + 1] + 2 * pad - reach - 1) / stride + 1
        });
    }
    dims.push(outs);
    Array::by_index(&dims, |o| {
        let group = o[n + 1] / (outs / groups);
        Array::indices(&w.dims[1..=n])
            .map(|k| {
                let mut at = vec![o[0]];
                for (i, &[stride, pad, dilation, _]) in axes.iter().enumerate() {
                    let place = if transposed {
                        let t = (o[i + 1] + pad) as i64 - (k[i] * dilation) as i64;
                        if t % stride as i64 != 0 { -1 } else { t / stride as i64 }
                    } else {
                        (o[i + 1] * stride + k[i] * dilation) as i64 - pad as i64
                    };
                    if place < 0 || place >= x.dims[i + 1] as i64 {
                        return 0.0;
                    }
                    at.push(place as usize);
                }
                at.push(0);
                let mut kw = vec![o[n + 1]];
                kw.extend(&k);
                kw.push(0);
                (0..channels)
                    .map(|c| {
                        at[n + 1] = group * channels + c;
                        kw[n + 1] = c;
                        x.at(&at) * w.at(&kw)
                    })
                    .sum()
            })
            .sum()
    })
}

fn conv(rig: &Rig, name: &str, x: Operand, w: Operand, axes: Axes<'_>, groups: usize, transposed: bool) {
    let n = axes.len();
    let op = match (n, transposed) {
        (1, false) => "Conv1D",
        (2, false) => "Conv2D",
        (3, false) => "Conv3D",
        (1, true) => "ConvTranspose1D",
        (2, true) => "ConvTranspose2D",
        _ => "ConvTranspose3D",
    };
    let want = convolve(&x.seen(), &w.seen(), axes, groups, transposed);
    let t = x.dtype.promote(w.dtype);
    let kinds = if transposed { 4 } else { 3 };
    let mut args: Vec<(Field, Arg)> = Vec::new();
    for (i, axis) in axes.iter().enumerate() {
        for (kind, &v) in axis[..kinds].iter().enumerate() {
            args.push((Field((3 + kind * n + i) as u8), (v as i64).into()));
        }
    }
    args.push((Field((3 + kinds * n) as u8), (groups as i64).into()));
    let c = Case {
        op,
        operands: vec![(Field(0), x), (Field(1), w)],
        args,
        out: Field(2),
        dtype: t,
        dims: want.dims.clone(),
    };
    rig.check(&format!("{op} {t} {name}"), &c, &want, tolerance(t), 4.0);
}

#[test]
fn convolutions() {
    let rig = Rig::new();
    for (i, t) in [F32, BF16, F16].into_iter().enumerate() {
        let x = |d: &[usize]| Operand::new(t, Array::random(d, i as u64));
        let w = |d: &[usize]| Operand::new(t, Array::random(d, 77)).weights();
        for transposed in [false, true] {
            let go = |name: &str, x: Operand, w: Operand, axes: Axes<'_>, groups| {
                conv(&rig, name, x, w, axes, groups, transposed)
            };
            go("plain", x(&[2, 9, 4]), w(&[8, 3, 4]), &[[1, 0, 1, 0]], 1);
            go("strided", x(&[1, 9, 4]), w(&[6, 3, 2]), &[[2, 1, 1, 1]], 2);
            go("dilated", x(&[1, 11, 3]), w(&[5, 2, 3]), &[[1, 1, 3, 0]], 1);
            go("square", x(&[2, 7, 6, 5]), w(&[16, 3, 3, 5]), &[[1, 1, 1, 0], [1, 1, 1, 0]], 1);
            go("uneven", x(&[1, 8, 5, 4]), w(&[10, 3, 2, 4]), &[[2, 1, 1, 0], [1, 0, 2, 0]], 1);
            go("deep", x(&[1, 6, 6, 6]), w(&[6, 3, 3, 1]), &[[1, 1, 1, 0], [1, 1, 1, 0]], 6);
            go("pixels", x(&[2, 4, 4, 24]), w(&[32, 1, 1, 24]), &[[1, 0, 1, 0], [1, 0, 1, 0]], 1);
            go("solid", x(&[1, 4, 5, 6, 3]), w(&[8, 2, 3, 2, 3]), &[[1, 0, 1, 0], [2, 1, 1, 1], [1, 1, 2, 0]], 1);
            let first = Operand::new(t, Array::random(&[1, 8, 8, 6], 3)).stored(&[0, 3, 1, 2]);
            let turned = Operand::new(t, Array::random(&[12, 3, 3, 6], 4)).stored(&[0, 3, 1, 2]);
            go("channels first", first, turned, &[[1, 1, 1, 0], [2, 1, 1, 0]], 1);
        }
    }
}
