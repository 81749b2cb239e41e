//! Elementwise ops of every element type against exact arithmetic on the host.

#[path = "support/ops.rs"]
#[allow(dead_code)]
mod ops;

use lowtide::dtype::DType;
use lowtide::op::fields;
use lowtide::{Engine, Tensor};
use ops::{engine, ints, one, tensor};

const INTS: [DType; 7] = [DType::I64, DType::I32, DType::I16, DType::I8, DType::U32, DType::U8, DType::Bool];

/// Values at the ends of every integer type and around the places where words meet.
fn edges(t: DType) -> Vec<i64> {
    let mut list = vec![0, 1, 2, 3, 5, 7, 100, 127, 128, 129, 200, 255];
    if !matches!(t, DType::U8 | DType::U32 | DType::Bool) {
        list.extend([-1, -2, -3, -7, -100, -127, -128]);
    }
    if t.size() >= 2 {
        list.extend([256, 1000, 32767, 12345]);
    }
    if t.size() >= 4 {
        list.extend([65535, 65536, 65537, 1 << 24, (1 << 24) + 1, i64::from(i32::MAX), 1 << 30, 123_456_789]);
    }
    if t == DType::U32 {
        list.extend([1 << 31, 3_000_000_000, u32::MAX.into()]);
    }
    if t.size() == 8 {
        let big = [
            1 << 31,
            1 << 32,
            (1 << 32) + 1,
            (1 << 32) + 5,
            3_000_000_000,
            1 << 33,
            1 << 40,
            (1 << 53) + 1,
            6_000_000_000,
            i64::MAX,
            i64::MAX - 1,
            0x0123_4567_89ab_cdef,
            0x7fff_ffff_0000_0000,
            0xffff_ffff,
        ];
        list.extend(big);
        list.extend(big.map(|v: i64| -v));
        list.push(i64::MIN);
    }
    match t {
        DType::I8 => list.retain(|&v| i8::try_from(v).is_ok()),
        DType::I16 => list.extend([-32768, -32767]),
        DType::I32 => list.extend([i64::from(i32::MIN), -65536, -65537, -123_456_789]),
        DType::Bool => list = vec![0, 1],
        _ => {}
    }
    list
}

fn wrap(v: i128, t: DType) -> i64 {
    match t {
        DType::I64 => v as i64,
        DType::I32 => i64::from(v as i32),
        DType::I16 => i64::from(v as i16),
        DType::I8 => i64::from(v as i8),
        DType::U32 => i64::from(v as u32),
        DType::U8 => i64::from(v as u8),
        DType::Bool => i64::from(v != 0),
        other => panic!("{other} is no integer type"),
    }
}

fn floor_div(a: i128, b: i128) -> i128 {
    if b == 0 {
        return 0;
    }
    let q = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

fn floor_mod(a: i128, b: i128) -> i128 {
    if b == 0 { 0 } else { a - floor_div(a, b) * b }
}

fn power(a: i128, b: i128) -> i128 {
    if b < 0 {
        return match a {
            1 => 1,
            -1 => {
                if b % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let (mut r, mut base, mut n) = (1i64, a as i64, b);
    while n > 0 {
        if n & 1 == 1 {
            r = r.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        n >>= 1;
    }
    r.into()
}

type Unary = (&'static str, fn(i128) -> i128, bool);
type Compare = (&'static str, fn(f64, f64) -> bool);
type Binary = (&'static str, fn(i128, i128) -> i128, bool);

const BINARY: &[Binary] = &[
    ("Add", |a, b| a + b, false),
    ("Subtract", |a, b| a - b, false),
    ("Multiply", |a, b| a * b, false),
    ("Maximum", |a, b| a.max(b), false),
    ("Minimum", |a, b| a.min(b), false),
    ("FloorDivide", floor_div, false),
    ("Remainder", floor_mod, false),
    ("Power", power, false),
    ("BitwiseAnd", |a, b| a & b, false),
    ("BitwiseOr", |a, b| a | b, false),
    ("BitwiseXor", |a, b| a ^ b, false),
    ("Less", |a, b| (a < b).into(), true),
    ("LessEqual", |a, b| (a <= b).into(), true),
    ("Greater", |a, b| (a > b).into(), true),
    ("GreaterEqual", |a, b| (a >= b).into(), true),
    ("Equal", |a, b| (a == b).into(), true),
    ("NotEqual", |a, b| (a != b).into(), true),
    ("LogicalAnd", |a, b| (a != 0 && b != 0).into(), true),
    ("LogicalOr", |a, b| (a != 0 || b != 0).into(), true),
];

fn check_binary(engine: &Engine, ta: DType, tb: DType) {
    let (ea, eb) = (edges(ta), edges(tb));
    let pairs: Vec<(i64, i64)> = ea.iter().flat_map(|&a| eb.iter().map(move |&b| (a, b))).collect();
    let n = pairs.len();
    let a = ints(ta, &[n], &pairs.iter().map(|p| p.0).collect::<Vec<_>>());
    let b = ints(tb, &[n], &pairs.iter().map(|p| p.1).collect::<Vec<_>>());
    let (va, vb) = (a.to_i64(), b.to_i64());
    for (op, f, compares) in BINARY {
        let to = if *compares { DType::Bool } else { ta.promote(tb) };
        let got = one(engine, op, &[], &[a.clone(), b.clone()], to, &[n]).unwrap().to_i64();
        for i in 0..n {
            let want = wrap(f(va[i].into(), vb[i].into()), to);
            assert_eq!(got[i], want, "{op} of {} ({ta}) and {} ({tb})", va[i], vb[i]);
        }
    }
}

#[test]
fn integers_are_exact_in_every_type() {
    let engine = engine();
    for t in INTS {
        check_binary(&engine, t, t);
    }
}

#[test]
fn integers_of_two_types_promote() {
    let engine = engine();
    for (a, b) in [
        (DType::I64, DType::I32),
        (DType::U32, DType::I32),
        (DType::U8, DType::I8),
        (DType::Bool, DType::I64),
        (DType::I16, DType::U32),
        (DType::U8, DType::Bool),
    ] {
        check_binary(&engine, a, b);
    }
}

#[test]
fn one_integer_ops_are_exact() {
    let engine = engine();
    let functions: &[Unary] = &[
        ("Neg", |a| -a, false),
        ("Abs", i128::abs, false),
        ("Sign", i128::signum, false),
        ("Square", |a| a * a, false),
        ("BitwiseInvert", |a| !a, false),
        ("Floor", |a| a, false),
        ("Ceil", |a| a, false),
        ("Round", |a| a, false),
        ("Trunc", |a| a, false),
        ("LogicalNot", |a| (a == 0).into(), true),
    ];
    for t in INTS {
        let x = ints(t, &[edges(t).len()], &edges(t));
        let values = x.to_i64();
        for (op, f, to_bool) in functions {
            if t == DType::Bool && *op == "Neg" {
                assert!(one(&engine, op, &[], std::slice::from_ref(&x), t, &x.dims.clone()).is_err());
                continue;
            }
            let to = if *to_bool { DType::Bool } else { t };
            let got = one(&engine, op, &[], std::slice::from_ref(&x), to, &x.dims.clone()).unwrap().to_i64();
            for (g, &v) in got.iter().zip(&values) {
                let want = if t == DType::Bool && *op == "BitwiseInvert" { 1 - v } else { wrap(f(v.into()), to) };
                assert_eq!(*g, want, "{op} of {v} ({t})");
            }
        }
        let exp = one(&engine, "Exp", &[], std::slice::from_ref(&x), DType::F32, &x.dims.clone()).unwrap().to_f32();
        assert_eq!(exp[0], 1.0, "{t}");
        let quotient =
            one(&engine, "Divide", &[], &[x.clone(), x.clone()], DType::F32, &x.dims.clone()).unwrap().to_f32();
        assert!(quotient[0].is_nan() && quotient[1] == 1.0, "{t}");
    }
}

#[test]
fn casts_between_every_two_types() {
    let engine = engine();
    let floats =
        [0.0, -0.0, 0.5, -0.5, 1.0, -1.9, 3.7, 100.25, -128.0, 127.0, 65519.0, 1e-3, 2047.0, -3.0, 16_777_215.0];
    for from in DType::ALL {
        let floats = if from == DType::F32 { &floats[..] } else { &floats[..10] };
        let x = if from.is_float() {
            tensor(from, &[floats.len()], floats)
        } else {
            ints(from, &[edges(from).len()], &edges(from))
        };
        for to in DType::ALL {
            let got = one(
                &engine,
                "AsType",
                &[(fields::as_type::scalar_type, to.into())],
                std::slice::from_ref(&x),
                to,
                &x.dims.clone(),
            );
            let got = got.unwrap();
            let (fx, ix) = (x.to_f64(), x.to_i64());
            for i in 0..x.count() {
                let (want, got) = match (from.is_float(), to.is_float()) {
                    (_, true) => {
                        // Through binary32, once rounded from the integer.
                        let exact = if from.is_float() { fx[i] } else { f64::from(ix[i] as f32) };
                        (tensor(to, &[1], &[exact]).to_f64()[0], got.to_f64()[i])
                    }
                    (true, false) if to == DType::Bool => (f64::from(u8::from(fx[i] != 0.0)), got.to_f64()[i]),
                    (true, false) => (wrap(fx[i].trunc() as i128, to) as f64, got.to_f64()[i]),
                    (false, false) => (wrap(ix[i].into(), to) as f64, got.to_i64()[i] as f64),
                };
                // Floats out of an unsigned type's range differ between machines.
                if !(from.is_float() && matches!(to, DType::U8 | DType::U32) && fx[i] < 0.0) {
                    assert_eq!(got, want, "{from} {} {} to {to}", fx[i], ix[i]);
                }
            }
        }
    }
}

#[test]
fn casts_of_64_bits_to_floats_round_once() {
    let engine = engine();
    let values: Vec<i64> = (0..63)
        .flat_map(|b| {
            [
                1i64 << b,
                (1 << b) + 1,
                (1 << b) - 1,
                (1 << b) | (1 << b >> 24),
                (1 << b) | (1 << b >> 24) | 1,
                (1 << b) | 3 << b >> 25,
            ]
        })
        .flat_map(|v| [v, -v])
        .collect();
    let x = Tensor::from_i64(&[values.len()], &values);
    let to = [(fields::as_type::scalar_type, DType::F32.into())];
    let got = one(&engine, "AsType", &to, &[x], DType::F32, &[values.len()]).unwrap().to_f32();
    for (g, v) in got.iter().zip(&values) {
        assert_eq!(*g, *v as f32, "{v}");
    }
    let back = one(
        &engine,
        "AsType",
        &[(fields::as_type::scalar_type, DType::I64.into())],
        &[Tensor::from_f32(&[8], &[1e10, -1e10, 9.3e18, -9.3e18, f32::NAN, 4294967296.0, -2.5, f32::INFINITY])],
        DType::I64,
        &[8],
    );
    let want = [10_000_000_000, -10_000_000_000, i64::MAX, i64::MIN, 0, 1 << 32, -2, i64::MAX];
    assert_eq!(back.unwrap().to_i64(), want);
}

#[test]
fn half_types_round_once_to_even() {
    let engine = engine();
    let to = |x: &[f32], t: DType| {
        let args = [(fields::as_type::scalar_type, t.into())];
        one(&engine, "AsType", &args, &[Tensor::from_f32(&[x.len()], x)], t, &[x.len()]).unwrap()
    };
    let all: Vec<f32> = (0..=u16::MAX).map(|b| f32::from_bits(u32::from(b) << 16 | 0x8000)).collect();
    let near: Vec<f32> = (0..=u16::MAX).map(|b| half::f16::from_bits(b).to_f32() * 1.000_45).collect();
    for x in [all, near] {
        for (i, (g, v)) in to(&x, DType::BF16).bytes.chunks(2).zip(&x).enumerate() {
            let (g, want) = (u16::from_le_bytes([g[0], g[1]]), half::bf16::from_f32(*v));
            assert!(g == want.to_bits() || v.is_nan() && half::bf16::from_bits(g).is_nan(), "{i} {v:e}");
        }
        for (i, (g, v)) in to(&x, DType::F16).bytes.chunks(2).zip(&x).enumerate() {
            let (g, want) = (u16::from_le_bytes([g[0], g[1]]), half::f16::from_f32(*v));
            assert!(g == want.to_bits() || v.is_nan() && half::f16::from_bits(g).is_nan(), "{i} {v:e}");
        }
    }
    // Every binary16 comes back from binary32 unchanged.
    let bits: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let x = Tensor::new(DType::F16, &[65536], bits).unwrap();
    let wide = one(
        &engine,
        "AsType",
        &[(fields::as_type::scalar_type, DType::F32.into())],
        std::slice::from_ref(&x),
        DType::F32,
        &[65536],
    );
    for (g, w) in wide.unwrap().to_f32().iter().zip(x.to_f32()) {
        assert!(g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan(), "{w}");
    }
}

#[test]
fn float_comparisons_know_nan_and_both_zeros() {
    let engine = engine();
    let v = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40];
    let pairs: Vec<(f64, f64)> = v.iter().flat_map(|&a| v.iter().map(move |&b| (a, b))).collect();
    let n = pairs.len();
    let functions: &[Compare] = &[
        ("Less", |a, b| a < b),
        ("LessEqual", |a, b| a <= b),
        ("Greater", |a, b| a > b),
        ("GreaterEqual", |a, b| a >= b),
        ("Equal", |a, b| a == b),
        ("NotEqual", |a, b| a != b),
        ("LogicalAnd", |a, b| a != 0.0 && b != 0.0),
        ("LogicalOr", |a, b| a != 0.0 || b != 0.0),
    ];
    for t in [DType::F32, DType::F16, DType::BF16] {
        let a = tensor(t, &[n], &pairs.iter().map(|p| p.0).collect::<Vec<_>>());
        let b = tensor(t, &[n], &pairs.iter().map(|p| p.1).collect::<Vec<_>>());
        let (va, vb) = (a.to_f64(), b.to_f64());
        for (op, f) in functions {
            let got = one(&engine, op, &[], &[a.clone(), b.clone()], DType::Bool, &[n]).unwrap().to_i64();
            for i in 0..n {
                assert_eq!(got[i] != 0, f(va[i], vb[i]), "{op} {t} {} {}", va[i], vb[i]);
            }
        }
        for (op, f) in [("Maximum", f64::max as fn(f64, f64) -> f64), ("Minimum", f64::min)] {
            let got = one(&engine, op, &[], &[a.clone(), b.clone()], t, &[n]).unwrap().to_f64();
            for i in 0..n {
                let nan = va[i].is_nan() || vb[i].is_nan();
                assert!(if nan { got[i].is_nan() } else { got[i] == f(va[i], vb[i]) }, "{op} {} {}", va[i], vb[i]);
            }
        }
    }
}

#[test]
fn clip_keeps_nan_and_lets_the_upper_bound_win() {
    let engine = engine();
    let x = Tensor::from_f32(&[4], &[f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 0.25]);
    let scalar = |v: f32| Tensor::from_f32(&[], &[v]);
    let clip = |low: f32, high: f32| {
        one(&engine, "Clip", &[], &[x.clone(), scalar(low), scalar(high)], DType::F32, &[4]).unwrap().to_f32()
    };
    let got = clip(-1.0, 1.0);
    assert!(got[0].is_nan() && got[1..] == [-1.0, 1.0, 0.25]);
    assert_eq!(clip(3.0, 1.0)[1..], [1.0, 1.0, 1.0]);
}

#[test]
fn floor_division_and_remainder_of_floats() {
    let engine = engine();
    let a = [7.0, -7.0, 7.0, -7.0, 5.0, -5.0, 1.0, -0.0, 1.0, -1.0, 0.0];
    let b = [3.0, 3.0, -3.0, -3.0, f32::INFINITY, f32::INFINITY, 0.0, 1.0, 0.1, 0.0, 0.0];
    let inputs = [Tensor::from_f32(&[11], &a), Tensor::from_f32(&[11], &b)];
    let q = one(&engine, "FloorDivide", &[], &inputs, DType::F32, &[11]).unwrap().to_f32();
    assert_eq!(q[..10], [2.0, -3.0, -3.0, 2.0, 0.0, -1.0, f32::INFINITY, -0.0, 9.0, f32::NEG_INFINITY]);
    assert!(q[7].is_sign_negative() && q[10].is_nan());
    let r = one(&engine, "Remainder", &[], &inputs, DType::F32, &[11]).unwrap().to_f32();
    assert_eq!(r[..6], [1.0, 2.0, -2.0, -1.0, 5.0, f32::INFINITY]);
}

#[test]
fn where_takes_any_condition_and_broadcasts() {
    let engine = engine();
    for t in DType::ALL {
        let c = tensor(t, &[2, 1], &[0.0, 1.0]);
        let x = tensor(DType::BF16, &[3], &[1.0, 2.0, 3.0]);
        let y = tensor(DType::BF16, &[1], &[-9.0]);
        let got = one(&engine, "Where", &[], &[c, x, y], DType::BF16, &[2, 3]).unwrap().to_f64();
        assert_eq!(got, [-9.0, -9.0, -9.0, 1.0, 2.0, 3.0], "{t}");
    }
    for t in DType::ALL {
        let c = tensor(DType::Bool, &[3], &[1.0, 0.0, 1.0]);
        let (x, y) = (tensor(t, &[3], &[1.0, 1.0, 0.0]), tensor(DType::F32, &[3], &[5.5, 6.5, 7.5]));
        let to = t.promote(DType::F32);
        assert_eq!(one(&engine, "Where", &[], &[c, x, y], to, &[3]).unwrap().to_f64(), [1.0, 6.5, 0.0], "{t}");
    }
}

#[test]
fn binary_ops_read_any_layout_at_awkward_sizes() {
    let engine = engine();
    for n in [1usize, 2, 3, 31, 33, 63, 64, 65, 257, 1031] {
        for t in [DType::F32, DType::F16, DType::U8, DType::I64] {
            let a: Vec<f64> = (0..3 * n).map(|i| (i % 11) as f64).collect();
            let b: Vec<f64> = (0..n).map(|i| (i % 5) as f64).collect();
            let got =
                ops::program(&engine, &[tensor(t, &[n, 3], &a), tensor(t, &[n], &b)], t, &[3, n], |p, refs, out| {
                    let (chain, turned) = (p.main(), p.temp());
                    let f = [
                        (fields::transpose::x, refs[0].into()),
                        (fields::transpose::out, turned.into()),
                        (fields::transpose::perm, [1, 0].into()),
                    ];
                    p.push(chain, "Transpose", f);
                    p.push(
                        chain,
                        "Add",
                        [
                            (fields::add::a, turned.into()),
                            (fields::add::b, refs[1].into()),
                            (fields::add::out, out.into()),
                        ],
                    );
                });
            let got = got.unwrap().to_f64();
            for i in 0..3 * n {
                assert_eq!(got[i], a[(i % n) * 3 + i / n] + b[i % n], "{t} {n} {i}");
            }
        }
    }
}
