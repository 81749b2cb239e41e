// Functions of two elements that need more than a few operations. `op_<op>_<type>`.

fn op_divide_f32(a: f32, b: f32) -> f32 { return div_f32(a, b); }
fn op_atan2_f32(a: f32, b: f32) -> f32 { return atan2_f32(a, b); }
fn op_power_f32(a: f32, b: f32) -> f32 { return pow_f32(a, b); }

// log(e^a + e^b)
fn op_log_add_exp_f32(a: f32, b: f32) -> f32 {
    if is_nan(a) { return a; }
    if is_nan(b) { return b; }
    let high = max(a, b);
    let low = min(a, b);
    if is_inf(high) || is_inf(low) { return high; }
    return high + log1p_f32(exp_f32(low - high));
}

// The remainder with the sign of `a`, exact.
fn fmod_f32(a: f32, b: f32) -> f32 {
    let x = magnitude(a);
    let y = magnitude(b);
    if x >= INF_BITS || y > INF_BITS || y == 0u {
        return nan_f32();
    }
    if x < y {
        return a;
    }
    let n = unpack_f32(a);
    let d = unpack_f32(b);
    var r = u32(n.x) % u32(d.x);
    for (var left = n.y - d.y; left > 0 && r != 0u; ) {
        let step = min(left, 8);
        r = (r << u32(step)) % u32(d.x);
        left -= step;
    }
    return pack_f32(r, d.y, sign_bit(a));
}
// Whether a remainder with the sign of the dividend must move by one divisor to get the divisor's sign.
fn crosses_f32(rest: f32, b: f32) -> bool {
    return magnitude(rest) != 0u && sign_bit(rest) != sign_bit(b);
}
fn op_remainder_f32(a: f32, b: f32) -> f32 {
    let r = fmod_f32(a, b);
    if is_nan(r) || !crosses_f32(r, b) { return r; }
    return r + b;
}
fn op_floor_divide_f32(a: f32, b: f32) -> f32 {
    if magnitude(b) == 0u || is_nan(a) || is_nan(b) || is_inf(a) {
        return select(div_f32(a, b), nan_f32(), is_inf(a) && magnitude(b) != 0u);
    }
    let r = fmod_f32(a, b);
    var q = div_f32(a - r, b);
    if crosses_f32(r, b) {
        q -= 1.0;
    }
    if magnitude(q) == 0u {
        return from_bits((bits_of(a) ^ bits_of(b)) & 0x80000000u);
    }
    // The quotient is whole but for its rounding.
    let whole = floor(q);
    return select(whole, whole + 1.0, q - whole > 0.5);
}

// ---- integers: quotients round down, remainders have the divisor's sign; a zero divisor gives zero ----

fn op_floor_divide_i32(a: i32, b: i32) -> i32 {
    if b == 0 { return 0; }
    if b == -1 { return -a; }
    let q = a / b;
    return select(q, q - 1, a - q * b != 0 && (a < 0) != (b < 0));
}
fn op_floor_divide_u32(a: u32, b: u32) -> u32 {
    if b == 0u { return 0u; }
    return a / b;
}
fn op_remainder_i32(a: i32, b: i32) -> i32 {
    if b == 0 || b == -1 { return 0; }
    let r = a - (a / b) * b;
    return select(r, r + b, r != 0 && (r < 0) != (b < 0));
}
fn op_remainder_u32(a: u32, b: u32) -> u32 {
    if b == 0u { return 0u; }
    return a % b;
}
fn op_floor_divide_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return i64_divmod(a, b).xy; }
fn op_remainder_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return i64_divmod(a, b).zw; }

// Wraps like repeated multiplication. A negative exponent gives the whole part of the true power.
fn op_power_i32(a: i32, b: i32) -> i32 {
    if b < 0 {
        if a == 1 { return 1; }
        if a == -1 { return select(1, -1, (b & 1) != 0); }
        return 0;
    }
    return bitcast<i32>(op_power_u32(bitcast<u32>(a), bitcast<u32>(b)));
}
fn op_power_u32(a: u32, b: u32) -> u32 {
    var r = 1u;
    var base = a;
    for (var n = b; n != 0u; n >>= 1u) {
        if (n & 1u) != 0u { r *= base; }
        base *= base;
    }
    return r;
}
fn op_power_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let one = vec2<u32>(1u, 0u);
    if i64_is_neg(b) {
        if i64_eq(a, one) { return one; }
        if (a.x & a.y) == 0xffffffffu { return select(one, a, (b.x & 1u) != 0u); }
        return vec2<u32>(0u);
    }
    var r = one;
    var base = a;
    // Powers of an exponent's high word pass any value but 0 and 1, or are even: the loop covers both words.
    for (var k = 0u; k < 64u; k++) {
        let word = select(b.x, b.y, k >= 32u);
        if ((word >> (k & 31u)) & 1u) != 0u { r = i64_mul(r, base); }
        base = i64_mul(base, base);
    }
    return r;
}
