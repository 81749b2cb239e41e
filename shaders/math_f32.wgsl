// Elementary functions of f32, for compilers that may reassociate, contract and assume finite floats.
//
// Range reductions are done in integers or by operations that are exact however they are grouped;
// special values are handled on bits. Polynomials are minimax fits. Errors, in units in the last
// place, as measured against binary64 over all exponents: sqrt and div 0.5; exp, log, sin, cos, tanh,
// erf, rsqrt under 2; the others under 4.

const INF_BITS = 0x7f800000u;

fn bits_of(x: f32) -> u32 { return bitcast<u32>(x); }
fn magnitude(x: f32) -> u32 { return bitcast<u32>(x) & 0x7fffffffu; }
fn sign_bit(x: f32) -> u32 { return bitcast<u32>(x) & 0x80000000u; }
fn from_bits(b: u32) -> f32 { return bitcast<f32>(b); }
fn abs_f32(x: f32) -> f32 { return from_bits(magnitude(x)); }
fn neg_f32(x: f32) -> f32 { return from_bits(bits_of(x) ^ 0x80000000u); }
fn with_sign(x: f32, sign: u32) -> f32 { return from_bits(magnitude(x) | sign); }
// 2^n for n in -126..=127.
fn pow2(n: i32) -> f32 { return from_bits(u32(n + 127) << 23u); }

// m * 2^(e - 150) rounded to nearest even, `m` below 2^32 with a sticky lowest bit allowed: any exponent.
fn pack_f32(m: u32, e: i32, sign: u32) -> f32 {
    if m == 0u {
        return from_bits(sign);
    }
    let top = i32(firstLeadingBit(m));
    // The exponent field of the leading bit, and how far the significand must move right.
    let field = e + top - 23;
    var shift = top - 23;
    if field <= 0 {
        shift += 1 - field;
    }
    if field >= 255 {
        return from_bits(sign | INF_BITS);
    }
    var r: u32;
    if shift <= 0 {
        r = m << u32(-shift);
    } else if shift > 31 {
        return from_bits(sign);
    } else {
        r = m >> u32(shift);
        let rest = m & ((1u << u32(shift)) - 1u);
        let half = 1u << u32(shift - 1);
        if rest > half || (rest == half && (r & 1u) != 0u) {
            r += 1u;
        }
    }
    // A carry out of the significand moves into the exponent by itself.
    if field > 0 {
        r += u32(field - 1) << 23u;
    }
    return from_bits(sign | r);
}

// The significand with its leading bit at bit 23 (x) and the exponent field it stands for (y, may be below 1),
// of a finite number that is not zero.
fn unpack_f32(x: f32) -> vec2<i32> {
    let a = magnitude(x);
    if a >= 0x800000u {
        return vec2<i32>(i32((a & 0x7fffffu) | 0x800000u), i32(a >> 23u));
    }
    let up = 23 - i32(firstLeadingBit(a));
    return vec2<i32>(i32(a << u32(up)), 1 - up);
}

// ---- division and roots: estimate, exact integer residual, round ----

// a / b, correctly rounded.
fn div_f32(a: f32, b: f32) -> f32 {
    let sign = (bits_of(a) ^ bits_of(b)) & 0x80000000u;
    let x = magnitude(a);
    let y = magnitude(b);
    if x >= INF_BITS || y >= INF_BITS || x == 0u || y == 0u {
        if x > INF_BITS || y > INF_BITS || (x == y && (x == 0u || x == INF_BITS)) {
            return nan_f32();
        }
        if x == INF_BITS || y == 0u {
            return from_bits(sign | INF_BITS);
        }
        return from_bits(sign);
    }
    let n = unpack_f32(a);
    let d = unpack_f32(b);
    let wide = n.x < d.x;
    let up = select(24u, 25u, wide);
    let q0 = f32(n.x) / f32(d.x) * select(16777216.0, 33554432.0, wide);
    var q = i32(q0);
    // The estimate is off by a few units, so the residual fits the low word.
    var r = bitcast<i32>((bitcast<u32>(n.x) << up) - bitcast<u32>(q) * bitcast<u32>(d.x));
    let fix = i32(floor(f32(r) / f32(d.x)));
    q += fix;
    r -= fix * d.x;
    if r < 0 {
        q -= 1;
        r += d.x;
    } else if r >= d.x {
        q += 1;
        r -= d.x;
    }
    return pack_f32((u32(q) << 1u) | select(0u, 1u, r != 0), n.y - d.y + 126 - select(1, 2, wide), sign);
}

// The square root, correctly rounded.
fn sqrt_f32(x: f32) -> f32 {
    let a = magnitude(x);
    if a == 0u {
        return x;
    }
    if a > INF_BITS || sign_bit(x) != 0u {
        return nan_f32();
    }
    if a == INF_BITS {
        return x;
    }
    let n = unpack_f32(x);
    // x = m * 2^even with m in 2^23..2^25: the root of m * 2^26 has one or two bits below the 24 kept.
    let e = n.y - 150;
    let odd = (e & 1) != 0;
    let m = select(u32(n.x), u32(n.x) << 1u, odd);
    var r = i32(sqrt(f32(m)) * 8192.0);
    // m * 2^26 - r^2 lies within a few times r: the low word has it all.
    var rest = bitcast<i32>((m << 26u) - bitcast<u32>(r) * bitcast<u32>(r));
    for (var k = 0; k < 8 && rest < 0; k++) {
        r -= 1;
        rest += 2 * r + 1;
    }
    for (var k = 0; k < 8 && rest > 2 * r; k++) {
        rest -= 2 * r + 1;
        r += 1;
    }
    let half = select(e, e - 1, odd) / 2;
    return pack_f32((u32(r) << 1u) | select(0u, 1u, rest != 0), half - 14 + 150, 0u);
}

fn rsqrt_f32(x: f32) -> f32 {
    if magnitude(x) == 0u {
        return from_bits(sign_bit(x) | INF_BITS);
    }
    return div_f32(1.0, sqrt_f32(x));
}

// ---- exponentials ----

// x as n + f in units of log 2: n (x) and f * 2^32 (y). For magnitudes in 2^-6..128.
fn split_exp(x: f32) -> vec2<i32> {
    let a = magnitude(x);
    let m = (a & 0x7fffffu) | 0x800000u;
    // log2(e) = 1 + 0x....* 2^-33.
    var p = u32_mul_wide(m, 3802721445u);
    p.y += m << 1u;
    let s = u32(24 - (i32(a >> 23u) - 127));
    var t = vec2<u32>((p.x >> s) | (p.y << (32u - s)), p.y >> s);
    if sign_bit(x) != 0u {
        t = i64_neg(t);
    }
    return vec2<i32>(bitcast<i32>(t.y + (t.x >> 31u)), bitcast<i32>(t.x));
}

// e^r for |r| <= 0.36.
fn exp_core(r: f32) -> f32 {
    let p = 0.5 + r * (1.6666497e-1 + r * (4.166634e-2 + r * (8.371468e-3 + r * 1.3946294e-3)));
    return 1.0 + (r + r * r * p);
}

// v * 2^n for v in 0.5..2, any n.
fn scale_f32(v: f32, n: i32) -> f32 {
    let b = bits_of(v);
    let e = i32(b >> 23u) + n;
    if e > 0 && e < 255 {
        return from_bits((b & 0x7fffffu) | (u32(e) << 23u));
    }
    if e >= 255 {
        return from_bits(INF_BITS);
    }
    return pack_f32((b & 0x7fffffu) | 0x800000u, e, 0u);
}

// e^x * 2^n, without overflow on the way.
fn exp_scaled(x: f32, n: i32) -> f32 {
    let a = magnitude(x);
    if a > INF_BITS {
        return x;
    }
    if a < 0x3eb17218u {
        return scale_f32(exp_core(x), n);
    }
    if a >= 0x43000000u {
        return select(from_bits(INF_BITS), 0.0, sign_bit(x) != 0u);
    }
    let t = split_exp(x);
    return scale_f32(exp_core(f32(t.y) * 1.6138590e-10), t.x + n);
}

fn exp_f32(x: f32) -> f32 { return exp_scaled(x, 0); }

fn expm1_f32(x: f32) -> f32 {
    if magnitude(x) <= 0x3f333333u {
        let p = 1.6666672e-1 + x * (4.166664e-2 + x * (8.332652e-3 + x * (1.3889929e-3 + x * (2.0093776e-4 + x * 2.4821235e-5))));
        return with_sign(x + x * x * (0.5 + x * p), sign_bit(x));
    }
    return exp_f32(x) - 1.0;
}

fn sinh_f32(x: f32) -> f32 {
    let a = abs_f32(x);
    if magnitude(x) < 0x3f800000u {
        let z = x * x;
        let r = a + a * z * (1.6666667e-1 + z * (8.333311e-3 + z * (1.9842635e-4 + z * 2.7839255e-6)));
        return with_sign(r, sign_bit(x));
    }
    if magnitude(x) > INF_BITS {
        return x;
    }
    return with_sign(exp_scaled(a, -1) - exp_scaled(neg_f32(a), -1), sign_bit(x));
}

fn cosh_f32(x: f32) -> f32 {
    let a = abs_f32(x);
    return exp_scaled(a, -1) + exp_scaled(neg_f32(a), -1);
}

fn tanh_f32(x: f32) -> f32 {
    let m = magnitude(x);
    if m > INF_BITS {
        return x;
    }
    let a = from_bits(m);
    if m < 0x3f19999au {
        let z = a * a;
        let p = -3.333333e-1 + z * (1.3333228e-1 + z * (-5.3949695e-2 + z * (2.171747e-2 + z * (-8.220642e-3 + z * 2.1842136e-3))));
        return with_sign(a + a * z * p, sign_bit(x));
    }
    if m > 0x41200000u {
        return with_sign(1.0, sign_bit(x));
    }
    return with_sign(1.0 - div_f32(2.0, exp_f32(2.0 * a) + 1.0), sign_bit(x));
}

// 1 / (1 + e^-x)
fn sigmoid_f32(x: f32) -> f32 {
    if magnitude(x) > INF_BITS {
        return x;
    }
    let e = exp_f32(from_bits(magnitude(x) | 0x80000000u));
    return div_f32(select(1.0, e, sign_bit(x) != 0u), 1.0 + e);
}

// ---- logarithms ----

// log(1 + f) for 1 + f in sqrt(1/2)..sqrt(2).
fn log_core(f: f32) -> f32 {
    let p = 3.3333313e-1 + f * (-2.500001e-1 + f * (2.0002072e-1 + f * (-1.6667986e-1 + f * (1.4220355e-1
        + f * (-1.24063276e-1 + f * (1.18836984e-1 + f * (-1.1669404e-1 + f * 6.747887e-2)))))));
    let z = f * f;
    return f - (0.5 * z - f * z * p);
}

// A positive finite number as 2^k (1 + f): k and the bits of f.
fn split_log(x: f32) -> vec2<i32> {
    var b = bits_of(x);
    var k = 0;
    if b < 0x800000u {
        let n = unpack_f32(x);
        b = (u32(n.x) & 0x7fffffu) | 0x800000u;
        k = n.y - 1;
    }
    let up = bitcast<i32>(b - 0x3f3504f3u) >> 23u;
    let m = from_bits(b - (bitcast<u32>(up) << 23u));
    return vec2<i32>(k + up, bitcast<i32>(m - 1.0));
}

// Whether a logarithm's argument is out of its open range, and what the logarithm is then.
fn log_special(x: f32) -> vec2<u32> {
    let b = bits_of(x);
    if b - 1u < INF_BITS - 1u {
        return vec2<u32>(0u);
    }
    if magnitude(x) == 0u {
        return vec2<u32>(1u, 0xff800000u);
    }
    return vec2<u32>(1u, select(0x7fc00000u, b, b == INF_BITS));
}

fn log_f32(x: f32) -> f32 {
    let special = log_special(x);
    if special.x != 0u {
        return from_bits(special.y);
    }
    let s = split_log(x);
    let k = f32(s.x);
    return k * 0.693359375 + (k * -2.1219444e-4 + log_core(bitcast<f32>(s.y)));
}

fn log2_f32(x: f32) -> f32 {
    let special = log_special(x);
    if special.x != 0u {
        return from_bits(special.y);
    }
    let s = split_log(x);
    let l = log_core(bitcast<f32>(s.y));
    return f32(s.x) + (l * 1.4426950 + l * 1.9259630e-8);
}

fn log10_f32(x: f32) -> f32 {
    let special = log_special(x);
    if special.x != 0u {
        return from_bits(special.y);
    }
    let s = split_log(x);
    let k = f32(s.x);
    return k * 0.30102539 + (k * 4.6050390e-6 + log_core(bitcast<f32>(s.y)) * 0.43429448);
}

fn log1p_f32(x: f32) -> f32 {
    let b = bits_of(x);
    if magnitude(x) > INF_BITS || b == INF_BITS || magnitude(x) == 0u {
        return x;
    }
    if x <= -1.0 {
        return select(nan_f32(), from_bits(0xff800000u), b == 0xbf800000u);
    }
    if x > -0.2928 && x < 0.4142 {
        return with_sign(log_core(x), sign_bit(x));
    }
    if x < 0.0 || x >= 8388608.0 {
        return log_f32(1.0 + x);
    }
    // 1 + x = 2^k (1 + f) with f = x 2^-k - (1 - 2^-k), one rounding.
    let k = bitcast<i32>(bits_of(1.0 + x) - 0x3f3504f3u) >> 23u;
    let one_less = from_bits(select(0u, 0x3f800000u - (1u << u32(24 - k)), k > 0));
    let f = from_bits(b - (bitcast<u32>(k) << 23u)) - one_less;
    return f32(k) * 0.693359375 + (f32(k) * -2.1219444e-4 + log_core(f));
}

// ---- trigonometry ----

// Word `i` of 2/pi, after one word of zeros.
fn two_over_pi(i: u32) -> u32 {
    switch i {
        case 0u: { return 0u; }
        case 1u: { return 0xa2f9836eu; }
        case 2u: { return 0x4e441529u; }
        case 3u: { return 0xfc2757d1u; }
        case 4u: { return 0xf534ddc0u; }
        case 5u: { return 0xdb629599u; }
        case 6u: { return 0x3c439041u; }
        default: { return 0xfe5163abu; }
    }
}

struct Angle {
    // The quadrant, modulo 4.
    quadrant: u32,
    // What is left, in -pi/4..=pi/4.
    rest: f32,
}

// x modulo pi/2, for any finite x, by the fraction of x * 2/pi in 94 bits.
fn reduce_angle(x: f32) -> Angle {
    let a = magnitude(x);
    if a <= 0x3f490fdau {
        return Angle(0u, x);
    }
    let m = (a & 0x7fffffu) | 0x800000u;
    let at = u32(i32(a >> 23u) - 150 + 30);
    let w = at >> 5u;
    let s = at & 31u;
    let t0 = two_over_pi(w);
    let t1 = two_over_pi(w + 1u);
    let t2 = two_over_pi(w + 2u);
    let t3 = two_over_pi(w + 3u);
    var h = t0;
    var i = t1;
    var l = t2;
    if s != 0u {
        h = (t0 << s) | (t1 >> (32u - s));
        i = (t1 << s) | (t2 >> (32u - s));
        l = (t2 << s) | (t3 >> (32u - s));
    }
    let p0 = u32_mul_wide(m, l);
    let p1 = u32_mul_wide(m, i);
    let mid = p1.x + p0.y;
    var top = m * h + p1.y + select(0u, 1u, mid < p1.x);
    var q = (top + 0x20000000u) >> 30u;
    var rest = vec2<u32>(mid, top - (q << 30u));
    let down = i64_is_neg(rest);
    rest = i64_abs(rest);
    // The leading 32 bits, then times pi/2 in integers: one rounding.
    let up = countLeadingZeros(rest.y);
    var lead = rest.y;
    if up >= 32u {
        lead = rest.x;
    } else if up > 0u {
        lead = (rest.y << up) | (rest.x >> (32u - up));
    }
    let product = u32_mul_wide(lead, 0xc90fdaa2u);
    let y = f32(product.y) * pow2(-29 - i32(up));
    var sign = sign_bit(x);
    if sign != 0u {
        q = 0u - q;
    }
    if down {
        sign ^= 0x80000000u;
    }
    return Angle(q & 3u, with_sign(y, sign));
}

fn sin_core(y: f32) -> f32 {
    let z = y * y;
    return y + y * z * (-1.6666667e-1 + z * (8.33338e-3 + z * (-1.9853511e-4 + z * 2.8375146e-6)));
}
fn cos_core(y: f32) -> f32 {
    let z = y * y;
    return 1.0 - (0.5 * z - z * z * (4.1666668e-2 + z * (-1.3888982e-3 + z * (2.4822984e-5 + z * -2.897731e-7))));
}

fn sin_f32(x: f32) -> f32 {
    let m = magnitude(x);
    if m >= INF_BITS {
        return nan_f32();
    }
    if m < 0x39800000u {
        return x;
    }
    let t = reduce_angle(x);
    let r = select(sin_core(t.rest), cos_core(t.rest), (t.quadrant & 1u) != 0u);
    return from_bits(bits_of(r) ^ ((t.quadrant & 2u) << 30u));
}

fn cos_f32(x: f32) -> f32 {
    if magnitude(x) >= INF_BITS {
        return nan_f32();
    }
    let t = reduce_angle(x);
    let r = select(cos_core(t.rest), sin_core(t.rest), (t.quadrant & 1u) != 0u);
    return from_bits(bits_of(r) ^ (((t.quadrant + 1u) & 2u) << 30u));
}

fn tan_f32(x: f32) -> f32 {
    let m = magnitude(x);
    if m >= INF_BITS {
        return nan_f32();
    }
    if m < 0x39800000u {
        return x;
    }
    let t = reduce_angle(x);
    let s = sin_core(t.rest);
    let c = cos_core(t.rest);
    if (t.quadrant & 1u) != 0u {
        return neg_f32(div_f32(c, s));
    }
    return div_f32(s, c);
}

// asin(a) for 0 <= a <= 0.5.
fn asin_core(a: f32) -> f32 {
    let z = a * a;
    return a + a * z * (1.666666e-1 + z * (7.5005196e-2 + z * (4.4514213e-2 + z * (3.1829067e-2 + z * (1.4362824e-2 + z * 3.761694e-2)))));
}

fn asin_f32(x: f32) -> f32 {
    let m = magnitude(x);
    if m > 0x3f800000u {
        return nan_f32();
    }
    let a = from_bits(m);
    if m <= 0x3f000000u {
        return with_sign(asin_core(a), sign_bit(x));
    }
    let r = asin_core(sqrt_f32(0.5 * (1.0 - a)));
    return with_sign(1.5707964 - (2.0 * r + 4.371139e-8), sign_bit(x));
}

fn acos_f32(x: f32) -> f32 {
    let m = magnitude(x);
    if m > 0x3f800000u {
        return nan_f32();
    }
    let a = from_bits(m);
    if m <= 0x3f000000u {
        return 1.5707964 - (with_sign(asin_core(a), sign_bit(x)) + 4.371139e-8);
    }
    let r = 2.0 * asin_core(sqrt_f32(0.5 * (1.0 - a)));
    return select(r, 3.1415927 - (r + 8.742278e-8), sign_bit(x) != 0u);
}

fn atan_f32(x: f32) -> f32 {
    let m = magnitude(x);
    if m > INF_BITS {
        return x;
    }
    let a = from_bits(m);
    var base = 0.0;
    var low = 0.0;
    var t = a;
    if m > 0x401a827au {
        base = 1.5707964;
        low = -4.371139e-8;
        t = neg_f32(div_f32(1.0, a));
    } else if m > 0x3ed413cdu {
        base = 0.7853982;
        low = -2.1855695e-8;
        t = div_f32(a - 1.0, a + 1.0);
    }
    let z = t * t;
    let p = t * z * (-3.3333316e-1 + z * (1.9998531e-1 + z * (-1.424447e-1 + z * (1.0599823e-1 + z * -6.0917806e-2))));
    return with_sign(base + (t + (p + low)), sign_bit(x));
}

// The angle of the point (x, y).
fn atan2_f32(y: f32, x: f32) -> f32 {
    let my = magnitude(y);
    let mx = magnitude(x);
    if my > INF_BITS || mx > INF_BITS {
        return nan_f32();
    }
    let left = sign_bit(x) != 0u;
    var r: f32;
    if my == 0u {
        r = select(0.0, 3.1415927, left);
    } else if mx == 0u {
        r = 1.5707964;
    } else if mx == INF_BITS && my == INF_BITS {
        r = select(0.7853982, 2.3561945, left);
    } else {
        r = atan_f32(div_f32(from_bits(my), from_bits(mx)));
        if left {
            r = 3.1415927 - (r + 8.742278e-8);
        }
    }
    return with_sign(r, sign_bit(y));
}

// ---- inverse hyperbolic functions ----

fn asinh_f32(x: f32) -> f32 {
    let m = magnitude(x);
    if m >= INF_BITS || m < 0x39800000u {
        return x;
    }
    let a = from_bits(m);
    if m > 0x4d000000u {
        return with_sign(log_f32(a) + 0.6931472, sign_bit(x));
    }
    let z = a * a;
    return with_sign(log1p_f32(a + div_f32(z, 1.0 + sqrt_f32(1.0 + z))), sign_bit(x));
}

fn acosh_f32(x: f32) -> f32 {
    let b = bits_of(x);
    if b == INF_BITS || magnitude(x) > INF_BITS {
        return x;
    }
    if sign_bit(x) != 0u || b < 0x3f800000u {
        return nan_f32();
    }
    if b > 0x4d000000u {
        return log_f32(x) + 0.6931472;
    }
    let t = x - 1.0;
    return log1p_f32(t + sqrt_f32(2.0 * t + t * t));
}

fn atanh_f32(x: f32) -> f32 {
    let m = magnitude(x);
    if m > 0x3f800000u {
        return nan_f32();
    }
    if m < 0x39800000u {
        return x;
    }
    let a = from_bits(m);
    return with_sign(0.5 * log1p_f32(div_f32(2.0 * a, 1.0 - a)), sign_bit(x));
}

// ---- the error function ----

// 1 - erf(a) for 0.9 < a < 4.
fn erfc_tail(a: f32) -> f32 {
    let q = -1.6920522e-4 + a * (1.1294883 + a * (6.334011e-1 + a * (1.0821996e-1 + a * (-2.5080232e-2
        + a * (4.1560642e-3 + a * (-4.3134455e-4 + a * 2.0823523e-5))))));
    return exp_f32(-q);
}

fn erf_f32(x: f32) -> f32 {
    let m = magnitude(x);
    if m > INF_BITS {
        return x;
    }
    let a = from_bits(m);
    if m < 0x3f6b851fu {
        let z = a * a;
        let p = 1.2837917e-1 + z * (-3.761263e-1 + z * (1.1283624e-1 + z * (-2.6855582e-2 + z * (5.191912e-3
            + z * (-8.0431235e-4 + z * 7.9651756e-5)))));
        return with_sign(a + a * p, sign_bit(x));
    }
    if m > 0x407f0000u {
        return with_sign(1.0, sign_bit(x));
    }
    return with_sign(1.0 - erfc_tail(a), sign_bit(x));
}

// 0.5 x (1 + erf(x / sqrt 2))
fn gelu_f32(x: f32) -> f32 {
    if magnitude(x) > INF_BITS || bits_of(x) == INF_BITS {
        return x;
    }
    if x < -13.0 {
        return from_bits(0x80000000u);
    }
    return 0.5 * x * (1.0 + erf_f32(x * 0.70710678));
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
fn gelu_tanh_f32(x: f32) -> f32 {
    if magnitude(x) > INF_BITS || bits_of(x) == INF_BITS {
        return x;
    }
    if x < -13.0 {
        return from_bits(0x80000000u);
    }
    if x > 13.0 {
        return x;
    }
    return 0.5 * x * (1.0 + tanh_f32(0.7978845608 * (x + 0.044715 * x * x * x)));
}
