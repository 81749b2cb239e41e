//! Reductions, normalisations and running sums against references.

#[path = "support/rig.rs"]
mod rig;

use lowtide::dtype::DType;
use lowtide::op::{Field, fields};
use lowtide::program::build::{Arg, Int};
use rig::{Array, Case, Operand, Rig, tolerance};

const F32: DType = DType::F32;
const F16: DType = DType::F16;
const BF16: DType = DType::BF16;
const SIZES: [usize; 11] = [1, 2, 31, 32, 33, 63, 64, 65, 255, 257, 1031];

/// Folds `x` over `axes`, which vanish.
fn fold(x: &Array, axes: &[usize], f: impl Fn(&[f64]) -> f64) -> Array {
    let kept: Vec<usize> = (0..x.dims.len()).filter(|i| !axes.contains(i)).collect();
    let dims: Vec<usize> = kept.iter().map(|&i| x.dims[i]).collect();
    let rest: Vec<usize> = axes.iter().map(|&i| x.dims[i]).collect();
    Array::by_index(&dims, |i| {
        let list: Vec<f64> = Array::indices(&rest)
            .map(|r| {
                let mut at = vec![0; x.dims.len()];
                kept.iter().zip(&i).for_each(|(&k, &v)| at[k] = v);
                axes.iter().zip(&r).for_each(|(&k, &v)| at[k] = v);
                x.at(&at)
            })
            .collect();
        f(&list)
    })
}

fn reference(op: &str, v: &[f64]) -> f64 {
    let n = v.len() as f64;
    let sum = v.iter().sum::<f64>();
    let nan = v.iter().any(|x| x.is_nan());
    let max = if nan { f64::NAN } else { v.iter().copied().fold(f64::NEG_INFINITY, f64::max) };
    let spread = v.iter().map(|x| (x - sum / n).powi(2)).sum::<f64>() / (n - 1.0).max(0.0);
    match op {
        "Sum" => sum,
        "Mean" => sum / n,
        "Prod" => v.iter().product(),
        "Max" => max,
        "Min" => {
            if nan {
                f64::NAN
            } else {
                v.iter().copied().fold(f64::INFINITY, f64::min)
            }
        }
        "Any" => f64::from(u8::from(v.iter().any(|&x| x != 0.0))),
        "All" => f64::from(u8::from(v.iter().all(|&x| x != 0.0))),
        "LogSumExp" => {
            if max.is_infinite() {
                max
            } else {
                v.iter().map(|x| (x - max).exp()).sum::<f64>().ln() + max
            }
        }
        "Var" => spread,
        "Std" => spread.sqrt(),
        "Median" => {
            if nan {
                return f64::NAN;
            }
            let mut s = v.to_vec();
            s.sort_by(f64::total_cmp);
            let mid = s.len() / 2;
            if s.len() % 2 == 1 { s[mid] } else { 0.5 * (s[mid - 1] + s[mid]) }
        }
        _ => unreachable!(),
    }
}

fn out_type(op: &str, t: DType) -> DType {
    match op {
        "Sum" | "Prod" if !t.is_float() => match t {
            DType::I64 => DType::I64,
            DType::U8 | DType::U32 => DType::U32,
            _ => DType::I32,
        },
        "Any" | "All" => DType::Bool,
        "Sum" | "Prod" | "Max" | "Min" => t,
        _ if t.is_float() => t,
        _ => F32,
    }
}

fn axes_arg(axes: &[usize]) -> Arg {
    axes.iter().map(|&a| Int::Literal(a as i64)).collect::<Vec<_>>().into()
}

fn reduce(rig: &Rig, name: &str, op: &'static str, x: Operand, axes: &[usize]) {
    use fields::sum as f;
    let t = x.dtype;
    let want = fold(&x.seen(), axes, |v| reference(op, v));
    let out = out_type(op, t);
    let mut args = vec![(f::axes, axes_arg(axes))];
    if matches!(op, "Var" | "Std") {
        args.push((fields::var::ddof, 1i64.into()));
    }
    let count: usize = axes.iter().map(|&a| x.seen().dims[a]).product();
    let scale = if op == "Sum" { (count as f64).sqrt().max(1.0) } else { 1.0 };
    let c = Case { op, operands: vec![(f::x, x)], args, out: f::out, dtype: out, dims: want.dims.clone() };
    rig.check(&format!("{op} {t} {name} {axes:?}"), &c, &want, tolerance(out), scale);
}

const OPS: [&str; 11] = ["Sum", "Mean", "Prod", "Max", "Min", "Any", "All", "LogSumExp", "Var", "Std", "Median"];

#[test]
fn rows_of_every_size() {
    let rig = Rig::new();
    for (i, n) in SIZES.into_iter().enumerate() {
        for (j, op) in OPS.into_iter().enumerate() {
            let t = [F32, BF16, F16][(i + j) % 3];
            let x = Array::random(&[3, n], (i * 20 + j) as u64);
            // Products of many numbers stay near one.
            let x = if op == "Prod" { x.map(|v| 1.0 + v / n as f64) } else { x };
            reduce(&rig, &format!("3x{n}"), op, Operand::new(t, x), &[1]);
        }
    }
}

#[test]
fn any_axes_of_any_layout() {
    let rig = Rig::new();
    for (j, op) in OPS.into_iter().enumerate() {
        let t = [F32, F16, BF16][j % 3];
        let x = || Operand::new(t, Array::random(&[3, 5, 2, 9], j as u64 + 50).map(|v| v + 0.5));
        for axes in [&[0][..], &[1], &[1, 3], &[0, 2], &[0, 1, 2, 3]] {
            reduce(&rig, "dense", op, x(), axes);
            reduce(&rig, "permuted", op, x().stored(&[2, 0, 3, 1]), axes);
            reduce(&rig, "sliced", op, x().sliced(3, 1, 2), axes);
        }
        let one = Operand::new(t, Array::random(&[3, 1, 4], 3)).expanded(&[3, 80, 4]);
        if op != "Prod" {
            reduce(&rig, "repeated", op, one, &[1, 2]);
        }
    }
}

#[test]
fn integers_and_bools() {
    let rig = Rig::new();
    for t in [DType::I64, DType::I32, DType::I16, DType::I8, DType::U32, DType::U8, DType::Bool] {
        for n in [1, 5, 130] {
            let signed = matches!(t, DType::I64 | DType::I32 | DType::I16 | DType::I8);
            let big = if t == DType::I64 { 3e9 } else { 100.0 };
            let x = Array::random(&[5, n], n as u64).map(|v| (v * big).trunc());
            let x = if signed { x } else { x.map(f64::abs) };
            let x = if t == DType::Bool { x.map(|v| f64::from(u8::from(v > 30.0))) } else { x };
            for op in ["Sum", "Mean", "Max", "Min", "Any", "All", "Median"] {
                reduce(&rig, &format!("5x{n}"), op, Operand::new(t, x.clone()), &[1]);
            }
            let small = x.map(|v| if v > 50.0 { 2.0 } else { 1.0 });
            if n <= 5 {
                reduce(&rig, &format!("5x{n}"), "Prod", Operand::new(t, small), &[1]);
            }
        }
    }
}

#[test]
fn special_values() {
    let rig = Rig::new();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let x = Array::new(&[4, 3], vec![1.0, nan, 3.0, -inf, -inf, -inf, inf, 0.0, -1.0, -inf, inf, 2.0]);
    for op in ["Max", "Min", "LogSumExp", "Median"] {
        reduce(&rig, "specials", op, Operand::new(F32, x.clone()), &[1]);
    }
    reduce(&rig, "none", "Sum", Operand::new(F32, Array::new(&[0, 3], vec![])), &[0]);
    reduce(&rig, "none", "Prod", Operand::new(F32, Array::new(&[0, 3], vec![])), &[0]);
    reduce(&rig, "none", "Mean", Operand::new(F32, Array::new(&[0, 3], vec![])), &[0]);
    reduce(&rig, "none", "Any", Operand::new(F32, Array::new(&[0, 3], vec![])), &[0]);
    reduce(&rig, "none", "All", Operand::new(F32, Array::new(&[0, 3], vec![])), &[0]);
}

#[test]
fn long_sums() {
    let rig = Rig::new();
    let ones = Operand::new(BF16, Array::from_fn(&[4096], |_| 1.0));
    reduce(&rig, "4096 ones", "Sum", ones, &[0]);
    reduce(&rig, "4096 x 32", "Mean", Operand::new(F16, Array::from_fn(&[4096], |_| 32.0)), &[0]);
    let million = Array::random(&[1_000_003], 1);
    reduce(&rig, "a million", "Sum", Operand::new(F32, million.map(|v| v + 1.0)), &[0]);
    reduce(&rig, "a million", "Var", Operand::new(F32, million), &[0]);
}

#[test]
fn kept_axes() {
    use fields::sum as f;
    let rig = Rig::new();
    let x = Operand::new(F32, Array::random(&[3, 4, 5], 1));
    let want = fold(&x.seen(), &[1], |v| v.iter().sum());
    let want = Array::new(&[3, 1, 5], want.data);
    let c = Case {
        op: "Sum",
        operands: vec![(f::x, x)],
        args: vec![(f::axes, axes_arg(&[1])), (f::keepdims, true.into())],
        out: f::out,
        dtype: F32,
        dims: vec![3, 1, 5],
    };
    rig.check("kept", &c, &want, 3e-6, 2.0);
}

fn arg(rig: &Rig, x: Operand, axis: usize) {
    use fields::argmax as f;
    for op in ["Argmax", "Argmin"] {
        let want = fold(&x.seen(), &[axis], |v| {
            let better = |a: f64, b: f64| if op == "Argmax" { a > b } else { a < b };
            let mut best = 0;
            for (i, &a) in v.iter().enumerate() {
                if !v[best].is_nan() && (a.is_nan() || better(a, v[best])) {
                    best = i;
                }
            }
            best as f64
        });
        let c = Case {
            op,
            operands: vec![(f::x, x.clone())],
            args: vec![(f::axis, (axis as i64).into())],
            out: f::out,
            dtype: DType::U32,
            dims: want.dims.clone(),
        };
        rig.check(&format!("{op} {} {:?} {axis}", x.dtype, x.seen().dims), &c, &want, 0.0, 1.0);
    }
}

#[test]
fn places_of_extremes() {
    let rig = Rig::new();
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for row in
        [vec![1.0, 3.0, 3.0, 2.0], vec![5.0; 3], vec![1.0, nan, 3.0, nan], vec![-inf; 70], vec![inf; 3], vec![2.0]]
    {
        arg(&rig, Operand::new(F32, Array::new(&[1, row.len()], row)), 1);
    }
    for t in [F32, BF16, DType::I64, DType::I32, DType::U8] {
        let x = Array::random(&[4, 300], 8).map(|v| (v.abs() * 200.0).trunc());
        arg(&rig, Operand::new(t, x.clone()), 1);
        arg(&rig, Operand::new(t, x.clone()).stored(&[1, 0]), 1);
        arg(&rig, Operand::new(t, x).sliced(0, 1, 2), 0);
    }
    arg(&rig, Operand::new(F16, Array::random(&[40_001], 2)), 0);
}

#[test]
fn running_sums() {
    use fields::cumsum as f;
    let rig = Rig::new();
    let mut number = 0;
    for t in [F32, BF16, F16, DType::I64, DType::I32, DType::I8, DType::Bool] {
        for (dims, axis) in [(vec![2, 3], 0), (vec![3, 65], 1), (vec![2, 257, 3], 1), (vec![5], 0), (vec![3, 2000], 1)]
        {
            number += 1;
            let (reverse, inclusive) = (number % 2 == 0, number % 3 != 0);
            let scale = if t.is_float() {
                1.0
            } else if t == DType::I8 {
                0.0
            } else {
                3.0
            };
            let x = Array::random(&dims, number).map(|v| if scale == 1.0 { v } else { (v * scale).trunc() });
            let x = if t == DType::Bool { x.map(|v| f64::from(u8::from(v > 0.0))) } else { x };
            let o = Operand::new(t, x);
            let o = if number % 4 == 0 { o.sliced(axis, 1, 2) } else { o };
            let seen = o.seen();
            let want = Array::by_index(&dims, |i| {
                let n = dims[axis];
                let span = match (reverse, inclusive) {
                    (false, true) => 0..i[axis] + 1,
                    (false, false) => 0..i[axis],
                    (true, true) => i[axis]..n,
                    (true, false) => i[axis] + 1..n,
                };
                span.map(|j| {
                    let mut at = i.clone();
                    at[axis] = j;
                    seen.at(&at)
                })
                .sum()
            });
            let out = if t == DType::Bool { DType::I32 } else { t };
            let c = Case {
                op: "Cumsum",
                operands: vec![(f::x, o)],
                args: vec![
                    (f::axis, (axis as i64).into()),
                    (f::reverse, reverse.into()),
                    (f::inclusive, inclusive.into()),
                ],
                out: f::out,
                dtype: out,
                dims: dims.clone(),
            };
            rig.check(&format!("{t} {dims:?} {axis} {reverse} {inclusive}"), &c, &want, tolerance(out), 30.0);
        }
    }
}

fn softmax(rig: &Rig, name: &str, x: Operand, axis: usize) {
    use fields::softmax as f;
    let seen = x.seen();
    let top = fold(&seen, &[axis], |v| reference("Max", v));
    let sum = fold(&seen, &[axis], |v| {
        let top = reference("Max", v);
        v.iter().map(|x| (x - top).exp()).sum()
    });
    let want = Array::by_index(&seen.dims, |i| {
        let mut row = i.clone();
        row.remove(axis);
        (seen.at(&i) - top.at(&row)).exp() / sum.at(&row)
    });
    let t = x.dtype;
    let c = Case {
        op: "Softmax",
        operands: vec![(f::x, x)],
        args: vec![(f::axis, (axis as i64).into())],
        out: f::out,
        dtype: t,
        dims: want.dims.clone(),
    };
    rig.check(&format!("softmax {t} {name} {axis}"), &c, &want, tolerance(t), 1e-7);
}

#[test]
fn softmaxes() {
    let rig = Rig::new();
    for (i, n) in SIZES.into_iter().enumerate() {
        let t = [F32, BF16, F16][i % 3];
        softmax(&rig, &format!("3x{n}"), Operand::new(t, Array::random(&[3, n], 1).map(|v| v * 8.0)), 1);
        softmax(&rig, &format!("{n}x5"), Operand::new(t, Array::random(&[n, 5], 2).map(|v| v * 8.0)), 0);
        let x = Operand::new(t, Array::random(&[2, n, 3], 3));
        softmax(&rig, "permuted", x.clone().stored(&[2, 1, 0]), 1);
        softmax(&rig, "last, permuted", x.stored(&[1, 2, 0]), 2);
    }
    softmax(&rig, "wide", Operand::new(F32, Array::random(&[1, 5000], 3)), 1);
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for n in [4, 40] {
        let mut rows = vec![-inf; n];
        rows.extend((0..n).map(|i| if i == 1 { nan } else { 1.0 }));
        rows.extend((0..n).map(|i| if i == 2 { -inf } else { i as f64 }));
        rows.extend((0..n).map(|_| -3.0e38));
        softmax(&rig, "specials", Operand::new(F32, Array::new(&[4, n], rows)), 1);
    }
    softmax(&rig, "zeros", Operand::new(F16, Array::from_fn(&[70_000], |_| 0.0)), 0);
    softmax(&rig, "many rows", Operand::new(F32, Array::by_index(&[70_000, 2], |i| i[1] as f64)), 1);
}

fn norm(rig: &Rig, op: &'static str, x: Operand, w: Option<Operand>, z: Option<Operand>) {
    let seen = x.seen();
    let n = *seen.dims.last().unwrap();
    let eps = f64::from(1e-5f32);
    let last = seen.dims.len() - 1;
    let stats = |f: &dyn Fn(&[f64]) -> f64| fold(&seen, &[last], f);
    let layer = op == "LayerNorm";
    let mean = stats(&|v| if layer { v.iter().sum::<f64>() / n as f64 } else { 0.0 });
    let square = stats(&|v| v.iter().map(|x| x * x).sum::<f64>() / n as f64);
    let (ws, zs) = (w.as_ref().map(Operand::seen), z.as_ref().map(Operand::seen));
    let want = Array::by_index(&seen.dims, |i| {
        let row = &i[..last];
        let (m, q) = (mean.at(row), square.at(row));
        let y = (seen.at(&i) - m) / (q - m * m + eps).sqrt();
        let y = y * ws.as_ref().map_or(1.0, |w| w.at(&i[last..]));
        y + zs.as_ref().map_or(0.0, |z| z.at(&i[last..]))
    });
    let mut t = x.dtype;
    let name = format!("{op} {} {:?}", x.dtype, seen.dims);
    let field = |f: [Field; 2]| if layer { f[1] } else { f[0] };
    let mut operands = vec![(field([fields::rms_norm::x, fields::layer_norm::x]), x)];
    if let Some(w) = w {
        t = t.promote(w.dtype);
        operands.push((field([fields::rms_norm::weight, fields::layer_norm::weight]), w));
    }
    if let Some(z) = z {
        t = t.promote(z.dtype);
        operands.push((fields::layer_norm::bias, z));
    }
    let c = Case {
        op,
        operands,
        args: vec![(field([fields::rms_norm::eps, fields::layer_norm::eps]), 1e-5.into())],
        out: field([fields::rms_norm::out, fields::layer_norm::out]),
        dtype: t,
        dims: want.dims.clone(),
    };
    rig.check(&name, &c, &want, tolerance(t) * 2.0, 1.0);
}

#[test]
fn norms() {
    let rig = Rig::new();
    for (i, n) in SIZES.into_iter().enumerate() {
        let t = [F32, BF16, F16][i % 3];
        let x = Operand::new(t, Array::random(&[5, n], i as u64).map(|v| v * 3.0 + 1.0));
        let w = Operand::new([BF16, F32][i % 2], Array::random(&[n], 7));
        let z = Operand::new(F32, Array::random(&[n], 8)).sliced(0, 1, 2);
        norm(&rig, "RMSNorm", x.clone(), Some(w.clone().weights()), None);
        norm(&rig, "RMSNorm", x.clone().stored(&[1, 0]), None, None);
        // A row of one element has no spread: the reference is exact only up to cancellation.
        if n > 1 {
            norm(&rig, "LayerNorm", x.clone(), Some(w.clone()), Some(z));
            norm(&rig, "LayerNorm", x.sliced(1, 1, 2), Some(w), None);
        }
    }
    let x = Operand::new(BF16, Array::random(&[2, 3, 4, 130], 1)).stored(&[0, 2, 1, 3]);
    norm(&rig, "RMSNorm", x, Some(Operand::new(BF16, Array::random(&[130], 7))), None);
    norm(&rig, "RMSNorm", Operand::new(F32, Array::random(&[3000], 1)), None, None);
}
