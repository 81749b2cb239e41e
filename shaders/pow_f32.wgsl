// Powers of f32, by a logarithm and a product in fixed point: no step depends on how floats are grouped.

fn shr_64(a: vec2<u32>, n: u32) -> vec2<u32> {
    if n == 0u { return a; }
    if n >= 64u { return vec2<u32>(0u); }
    if n >= 32u { return vec2<u32>(a.y >> (n - 32u), 0u); }
    return vec2<u32>((a.x >> n) | (a.y << (32u - n)), a.y >> n);
}
fn shl_64(a: vec2<u32>, n: u32) -> vec2<u32> {
    if n == 0u { return a; }
    if n >= 64u { return vec2<u32>(0u); }
    if n >= 32u { return vec2<u32>(0u, a.x << (n - 32u)); }
    return vec2<u32>(a.x << n, (a.y << n) | (a.x >> (32u - n)));
}
// The high 64 bits of a product of 64-bit numbers, short by at most two units.
fn mul_high_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let cross = i64_add(vec2<u32>(u32_mul_wide(a.x, b.y).y, 0u), vec2<u32>(u32_mul_wide(a.y, b.x).y, 0u));
    return i64_add(u32_mul_wide(a.y, b.y), cross);
}

// g32 = c + z * g, in units of 2^-32, z in units of 2^-36.
fn horner(c: u32, z: u32, g: u32) -> u32 { return c + (u32_mul_wide(z, g).y >> 4u); }

// |log2(1 + f * 2^-24)| as xy * 2^-z, for 1 + f * 2^-24 in sqrt(1/2)..sqrt(2), f not zero: to 2^-36 of itself.
fn log2_fixed(f: i32) -> vec3<u32> {
    let a = u32(abs(f));
    let d = u32(33554432 + f);
    // s = f / (2 + f) as q * 2^-(48 + up), by digits of six bits.
    let up = 23u - firstLeadingBit(a);
    var r = a << up;
    var q = vec2<u32>(0u);
    for (var k = 0; k < 8; k++) {
        let digit = (r << 6u) / d;
        r = (r << 6u) - digit * d;
        q = shl_64(q, 6u);
        q.x |= digit;
    }
    // z = s^2 in units of 2^-36; log2(1 + f) = 2 / log 2 * s * (1 + z / 3 + z^2 / 5 + ...).
    let s = shr_64(q, 14u + up).x;
    let z = u32_mul_wide(s, s).y;
    var g = horner(330382100u, z, 286331153u);
    g = horner(390451572u, z, g);
    g = horner(477218588u, z, g);
    g = horner(613566757u, z, g);
    g = horner(858993459u, z, g);
    g = horner(1431655765u, z, g);
    let t = u32_mul_wide(z, g).y;
    let scaled = shl_64(q, 15u);
    let p = i64_add(scaled, shr_64(u32_mul_wide(scaled.y, t), 4u));
    return vec3<u32>(mul_high_64(p, vec2<u32>(0x5c17f0bcu, 0xb8aa3b29u)), 61u + up);
}

// a^b for finite a > 0 and finite b, neither special.
fn pow_core(a: f32, b: f32) -> f32 {
    let n = unpack_f32(a);
    // a = 2^k (1 + f * 2^-24)
    let low = n.x < 0xb504f4;
    let k = n.y - 127 + select(1, 0, low);
    let f = select(n.x - 16777216, (n.x - 8388608) * 2, low);
    var l = vec2<u32>(0u);
    var e = 0u;
    var down = f < 0;
    if f != 0 {
        let m = log2_fixed(f);
        l = m.xy;
        e = m.z;
    }
    if k != 0 {
        l = shr_64(l, e - 55u);
        if f == 0 { l = vec2<u32>(0u); }
        let whole = vec2<u32>(0u, u32(abs(k)) << 23u);
        if (k < 0) == down { l = i64_add(whole, l); } else { l = i64_sub(whole, l); }
        down = k < 0;
        e = 55u;
    }
    if (l.x | l.y) == 0u {
        return 1.0;
    }
    let lead = select(countLeadingZeros(l.y), 32u + countLeadingZeros(l.x), l.y == 0u);
    l = shl_64(l, lead);
    // t = |b| log2(a) in units of 2^-32.
    let m = unpack_f32(b);
    let u = i64_add(u32_mul_wide(l.y, u32(m.x)), vec2<u32>(u32_mul_wide(l.x, u32(m.x)).y, 0u));
    let right = i32(e + lead) - (m.y - 150) - 64;
    let negative = down != (sign_bit(b) != 0u);
    if right < 13 {
        return select(from_bits(INF_BITS), 0.0, negative);
    }
    var t = shr_64(u, u32(right));
    if negative { t = i64_neg(t); }
    let whole = bitcast<i32>(t.y + (t.x >> 31u));
    return scale_f32(exp_core(f32(bitcast<i32>(t.x)) * 1.6138590e-10), whole);
}

// 0: not a whole number, 1: odd, 2: even.
fn parity(b: f32) -> u32 {
    let m = magnitude(b);
    let e = i32(m >> 23u) - 127;
    if e >= 24 { return 2u; }
    if e < 0 { return select(0u, 2u, m == 0u); }
    let bits = (m & 0x7fffffu) | 0x800000u;
    let shift = u32(23 - min(e, 23));
    if (bits & ((1u << shift) - 1u)) != 0u { return 0u; }
    return select(2u, 1u, ((bits >> shift) & 1u) != 0u && e <= 23);
}

// a^b. Source of the special cases: ISO C, annex F.
fn pow_f32(a: f32, b: f32) -> f32 {
    let x = magnitude(a);
    let y = magnitude(b);
    if y == 0u || bits_of(a) == 0x3f800000u { return 1.0; }
    if x > INF_BITS { return a; }
    if y > INF_BITS { return b; }
    let grows = sign_bit(b) == 0u;
    if y == INF_BITS {
        if x == 0x3f800000u { return 1.0; }
        return from_bits(select(0u, INF_BITS, (x > 0x3f800000u) == grows));
    }
    let whole = parity(b);
    let sign = select(0u, sign_bit(a), whole == 1u);
    if x == 0u || x == INF_BITS {
        return from_bits(sign | select(0u, INF_BITS, (x != 0u) == grows));
    }
    if sign_bit(a) != 0u && whole == 0u { return nan_f32(); }
    if bits_of(b) == 0x3f800000u { return a; }
    if bits_of(b) == 0x40000000u { return a * a; }
    if bits_of(b) == 0x3f000000u { return sqrt_f32(a); }
    if bits_of(b) == 0xbf800000u { return div_f32(1.0, a); }
    return from_bits(bits_of(pow_core(from_bits(x), b)) | sign);
}
