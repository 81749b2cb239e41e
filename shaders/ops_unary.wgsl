// Functions of one element, by the type computed in: `op_<op>_<type>`. Those that need more than a few
// operations are in ops_math.wgsl. `cast` has no function: it is the conversion itself.

fn op_truth_f32(a: f32) -> i32 { return select(0, 1, (bitcast<u32>(a) & 0x7fffffffu) != 0u); }
fn op_truth_i32(a: i32) -> i32 { return select(0, 1, a != 0); }
fn op_truth_u32(a: u32) -> i32 { return select(0, 1, a != 0u); }
fn op_truth_i64(a: vec2<u32>) -> i32 { return select(0, 1, (a.x | a.y) != 0u); }

fn op_logical_not_f32(a: f32) -> i32 { return 1 - op_truth_f32(a); }
fn op_logical_not_i32(a: i32) -> i32 { return 1 - op_truth_i32(a); }
fn op_logical_not_u32(a: u32) -> i32 { return 1 - op_truth_u32(a); }
fn op_logical_not_i64(a: vec2<u32>) -> i32 { return 1 - op_truth_i64(a); }

fn op_bitwise_invert_i32(a: i32) -> i32 { return ~a; }
fn op_bitwise_invert_u32(a: u32) -> u32 { return ~a; }
fn op_bitwise_invert_i64(a: vec2<u32>) -> vec2<u32> { return ~a; }

fn op_neg_f32(a: f32) -> f32 { return bitcast<f32>(bitcast<u32>(a) ^ 0x80000000u); }
fn op_neg_i32(a: i32) -> i32 { return -a; }
fn op_neg_u32(a: u32) -> u32 { return 0u - a; }
fn op_neg_i64(a: vec2<u32>) -> vec2<u32> { return i64_neg(a); }

fn op_abs_f32(a: f32) -> f32 { return bitcast<f32>(bitcast<u32>(a) & 0x7fffffffu); }
fn op_abs_i32(a: i32) -> i32 { return abs(a); }
fn op_abs_u32(a: u32) -> u32 { return a; }
fn op_abs_i64(a: vec2<u32>) -> vec2<u32> { return i64_abs(a); }

fn op_sign_f32(a: f32) -> f32 {
    let b = bitcast<u32>(a);
    let m = b & 0x7fffffffu;
    // Zeros and NaN stay themselves.
    return bitcast<f32>(select((b & 0x80000000u) | 0x3f800000u, b, m == 0u || m > 0x7f800000u));
}
fn op_sign_i32(a: i32) -> i32 { return sign(a); }
fn op_sign_u32(a: u32) -> u32 { return min(a, 1u); }
fn op_sign_i64(a: vec2<u32>) -> vec2<u32> {
    if i64_is_neg(a) { return vec2<u32>(0xffffffffu); }
    return vec2<u32>(min(a.x | a.y, 1u), 0u);
}

fn op_square_f32(a: f32) -> f32 { return a * a; }
fn op_square_i32(a: i32) -> i32 { return a * a; }
fn op_square_u32(a: u32) -> u32 { return a * a; }
fn op_square_i64(a: vec2<u32>) -> vec2<u32> { return i64_mul(a, a); }

// Drops the bits below one; zeros keep their sign.
fn op_trunc_f32(a: f32) -> f32 {
    let b = bitcast<u32>(a);
    let e = i32((b >> 23u) & 255u) - 127;
    if e >= 23 { return a; }
    if e < 0 { return bitcast<f32>(b & 0x80000000u); }
    return bitcast<f32>(b & ~(0x7fffffu >> u32(e)));
}
fn op_floor_f32(a: f32) -> f32 {
    let t = op_trunc_f32(a);
    let cut = bitcast<u32>(t) != bitcast<u32>(a);
    return select(t, t - 1.0, cut && bitcast<i32>(a) < 0);
}
fn op_ceil_f32(a: f32) -> f32 {
    let t = op_trunc_f32(a);
    let cut = bitcast<u32>(t) != bitcast<u32>(a);
    return select(t, t + 1.0, cut && bitcast<i32>(a) >= 0);
}
// To nearest, halves to even.
fn op_round_f32(a: f32) -> f32 {
    let b = bitcast<u32>(a);
    let sign = b & 0x80000000u;
    let m = b & 0x7fffffffu;
    if m >= 0x4b000000u { return a; }
    let x = bitcast<f32>(m);
    var n = u32(x);
    let rest = x - f32(n);
    if rest > 0.5 || (rest == 0.5 && (n & 1u) != 0u) { n += 1u; }
    return bitcast<f32>(bitcast<u32>(f32(n)) | sign);
}
fn op_round_decimals_f32(a: f32) -> f32 {
    let m = bitcast<u32>(a) & 0x7fffffffu;
    let scaled = a * p.scalar.x;
    if (bitcast<u32>(scaled) & 0x7fffffffu) >= 0x4b000000u || m == 0u { return a; }
    return op_round_f32(scaled) * p.scalar.y;
}
