//! Elementary functions on the device against binary64: the errors that `shaders/math_f32.wgsl` promises.

#[path = "support/ops.rs"]
#[allow(dead_code)]
mod ops;

use lowtide::dtype::DType;
use lowtide::op::fields;
use lowtide::{Engine, Tensor};
use ops::{engine, one, ulps};

/// Floats of every exponent and both signs, with the values that functions treat apart.
fn sample(per_exponent: u32) -> Vec<f32> {
    let mut seed = 1u32;
    let mut list =
        vec![0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e6, -1e6];
    for exponent in 0..255u32 {
        for k in 0..per_exponent {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mantissa = match k {
                0 => 0,
                1 => 0x7f_ffff,
                _ => seed >> 9,
            };
            list.push(f32::from_bits(exponent << 23 | mantissa));
            list.push(f32::from_bits(1 << 31 | exponent << 23 | mantissa));
        }
    }
    list
}

/// Floats spread evenly over a range.
fn spread(low: f32, high: f32, count: usize) -> impl Iterator<Item = f32> {
    (0..count).map(move |i| low + (high - low) * (i as f32 / count as f32))
}

fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a > 6.0 {
        return 1f64.copysign(x);
    }
    // The series with positive terms: no cancellation.
    let (mut term, mut sum, mut n) = (a, a, 0.0);
    while term > sum * 1e-18 {
        n += 1.0;
        term *= 2.0 * a * a / (2.0 * n + 1.0);
        sum += term;
    }
    (sum * (-a * a).exp() * std::f64::consts::FRAC_2_SQRT_PI).copysign(x)
}

/// An op, its reference and the error it may have.
type Pairwise = (&'static str, fn(f64, f64) -> f64, f64);

struct Function {
    op: &'static str,
    reference: fn(f64) -> f64,
    limit: f64,
}

const FUNCTIONS: &[Function] = &[
    Function { op: "Exp", reference: f64::exp, limit: 2.0 },
    Function { op: "Expm1", reference: f64::exp_m1, limit: 4.0 },
    Function { op: "Log", reference: f64::ln, limit: 2.0 },
    Function { op: "Log2", reference: f64::log2, limit: 4.0 },
    Function { op: "Log10", reference: f64::log10, limit: 4.0 },
    Function { op: "Log1p", reference: f64::ln_1p, limit: 4.0 },
    Function { op: "Sin", reference: f64::sin, limit: 2.0 },
    Function { op: "Cos", reference: f64::cos, limit: 2.0 },
    Function { op: "Tan", reference: f64::tan, limit: 4.0 },
    Function { op: "Arcsin", reference: f64::asin, limit: 4.0 },
    Function { op: "Arccos", reference: f64::acos, limit: 4.0 },
    Function { op: "Arctan", reference: f64::atan, limit: 4.0 },
    Function { op: "Sinh", reference: f64::sinh, limit: 4.0 },
    Function { op: "Cosh", reference: f64::cosh, limit: 4.0 },
    Function { op: "Tanh", reference: f64::tanh, limit: 2.0 },
    Function { op: "Arcsinh", reference: f64::asinh, limit: 4.0 },
    Function { op: "Arccosh", reference: f64::acosh, limit: 4.0 },
    Function { op: "Arctanh", reference: f64::atanh, limit: 4.0 },
    Function { op: "Erf", reference: erf, limit: 2.0 },
    Function { op: "Sqrt", reference: f64::sqrt, limit: 0.5 },
    Function { op: "Rsqrt", reference: |x| 1.0 / x.sqrt(), limit: 2.0 },
    Function { op: "Reciprocal", reference: |x| 1.0 / x, limit: 0.5 },
    Function { op: "Sigmoid", reference: |x| 1.0 / (1.0 + (-x).exp()), limit: 4.0 },
    Function { op: "Floor", reference: f64::floor, limit: 0.0 },
    Function { op: "Ceil", reference: f64::ceil, limit: 0.0 },
    Function { op: "Trunc", reference: f64::trunc, limit: 0.0 },
    Function { op: "Round", reference: f64::round_ties_even, limit: 0.0 },
    Function { op: "Abs", reference: f64::abs, limit: 0.0 },
    Function { op: "Neg", reference: |x| -x, limit: 0.0 },
    Function { op: "Square", reference: |x| x * x, limit: 0.5 },
];

fn worst(engine: &Engine, f: &Function, xs: &[f32]) -> (f64, f32, f32) {
    let x = Tensor::from_f32(&[xs.len()], xs);
    let got = one(engine, f.op, &[], &[x], DType::F32, &[xs.len()]).expect(f.op).to_f32();
    let error = |i: usize| ulps(got[i], (f.reference)(f64::from(xs[i])));
    let at = (0..xs.len()).max_by(|&a, &b| error(a).total_cmp(&error(b))).expect("some");
    (error(at), xs[at], got[at])
}

#[test]
fn elementary_functions_keep_their_errors() {
    let engine = engine();
    let mut xs = sample(96);
    xs.extend(spread(-1.0, 1.0, 20_000));
    xs.extend(spread(-12.0, 12.0, 20_000));
    xs.extend(spread(-110.0, 110.0, 20_000));
    xs.extend(spread(0.5, 2.0, 10_000));
    // Close to multiples of pi/2, where most reductions lose everything.
    xs.extend((1..4000).map(|k| (f64::from(k) * std::f64::consts::FRAC_PI_2) as f32));
    xs.extend([16_367_173.0 * 2f32.powi(72), 0.5f32.next_up(), 33_554_432.0, 1.0e22]);
    let mut broken = Vec::new();
    for f in FUNCTIONS {
        let (error, x, got) = worst(&engine, f, &xs);
        let line = format!("{:12} {error:8.3} ulp at {x:e} ({:#010x}): {got:e}", f.op, x.to_bits());
        println!("{line}");
        if error > f.limit {
            broken.push(line);
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn two_argument_functions_keep_their_errors() {
    let engine = engine();
    let edge = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        3.0,
        -3.0,
        1.5,
        1e-40,
        1e30,
        -1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1.0 + f32::EPSILON,
        1.0 - f32::EPSILON,
        16_777_216.0,
        16_777_217.0,
        8_388_609.0,
        -7.0,
        88.0,
        -88.0,
    ];
    let mut pairs: Vec<(f32, f32)> = edge.iter().flat_map(|&a| edge.iter().map(move |&b| (a, b))).collect();
    let mut seed = 7u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f32 / (1u64 << 24) as f32
    };
    for _ in 0..40_000 {
        let a = (next() * 40.0 - 20.0).exp2() * (next() + 0.5);
        let b = (next() - 0.5) * (next() * 9.0 - 2.0).exp2();
        pairs.push((a, b));
        pairs.push((1.0 + (next() - 0.5) * (next() * -20.0).exp2(), b * (next() * 20.0).exp2()));
        pairs.push((-a, (b * 4.0).round()));
    }
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    let n = pairs.len();
    let functions: &[Pairwise] = &[
        ("Power", f64::powf, 2.0),
        ("Divide", |a, b| a / b, 0.5),
        ("Atan2", f64::atan2, 4.0),
        // The difference of the arguments is rounded before the exponential takes it, as in the delegate.
        (
            "LogAddExp",
            |a, b| if a == b { a + std::f64::consts::LN_2 } else { a.max(b) + (-(a - b).abs()).exp().ln_1p() },
            16.0,
        ),
        (
            "Remainder",
            |a, b| {
                let r = a % b;
                if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
            },
            0.5,
        ),
        ("Add", |a, b| a + b, 0.5),
        ("Multiply", |a, b| a * b, 0.5),
        ("Subtract", |a, b| a - b, 0.5),
    ];
    let mut broken = Vec::new();
    for &(op, reference, limit) in functions {
        let inputs = [Tensor::from_f32(&[n], &a), Tensor::from_f32(&[n], &b)];
        let got = one(&engine, op, &[], &inputs, DType::F32, &[n]).expect(op).to_f32();
        let want = |i: usize| reference(f64::from(a[i]), f64::from(b[i]));
        // Where the sum cancels, the error is judged against the larger argument.
        let error = |i: usize| match op {
            "LogAddExp" if a[i].is_nan() || b[i].is_nan() => {
                if got[i].is_nan() {
                    0.0
                } else {
                    f64::INFINITY
                }
            }
            "LogAddExp" if want(i).is_finite() && want(i).abs() < f64::from(a[i].max(b[i]).abs()) => {
                (f64::from(got[i]) - want(i)).abs() / f64::from(a[i].max(b[i]).abs() * f32::EPSILON)
            }
            _ => ulps(got[i], want(i)),
        };
        let at = (0..n).max_by(|&x, &y| error(x).total_cmp(&error(y))).expect("some");
        let line =
            format!("{op:12} {:8.3} ulp at {:e}, {:e}: {:e}, not {:e}", error(at), a[at], b[at], got[at], want(at));
        println!("{line}");
        if error(at) > limit {
            broken.push(line);
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn signs_of_zero_and_special_values() {
    let engine = engine();
    let run = |op: &str, xs: &[f32]| {
        let x = Tensor::from_f32(&[xs.len()], xs);
        one(&engine, op, &[], &[x], DType::F32, &[xs.len()])
            .expect(op)
            .to_f32()
            .iter()
            .map(|v| v.to_bits())
            .collect::<Vec<_>>()
    };
    let bits = |xs: &[f32]| xs.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(run("Round", &[0.5, 1.5, 2.5, -0.5, -1.5, -2.5]), bits(&[0.0, 2.0, 2.0, -0.0, -2.0, -2.0]));
    assert_eq!(run("Ceil", &[-0.5, -0.0, 0.0]), bits(&[-0.0, -0.0, 0.0]));
    assert_eq!(run("Floor", &[-0.0, 0.5, -0.5]), bits(&[-0.0, 0.0, -1.0]));
    for op in [
        "Sin", "Tan", "Tanh", "Sinh", "Arcsin", "Arctan", "Arcsinh", "Arctanh", "Erf", "Expm1", "Log1p", "Sqrt",
        "Trunc",
    ] {
        assert_eq!(run(op, &[-0.0, 0.0]), bits(&[-0.0, 0.0]), "{op}");
    }
    let gelu = |xs: &[f32], how: &str| {
        let x = Tensor::from_f32(&[xs.len()], xs);
        one(&engine, "Gelu", &[(fields::gelu::approximate, how.into())], &[x], DType::F32, &[xs.len()])
            .expect("Gelu")
            .to_f32()
    };
    for how in ["tanh", "none"] {
        let got = gelu(&[-13.5, -1e30, f32::NEG_INFINITY, f32::INFINITY, 1e30, f32::NAN, 0.0], how);
        assert_eq!(bits(&got[..5]), bits(&[-0.0, -0.0, -0.0, f32::INFINITY, 1e30]), "{how}");
        assert!(got[5].is_nan() && got[6] == 0.0);
    }
}
