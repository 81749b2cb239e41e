// 64-bit signed integers as two words (x low, y high), for adapters with and without 64-bit shaders alike.

fn i32_to_i64(v: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(v), bitcast<u32>(v >> 31u)); }
fn u32_to_i64(v: u32) -> vec2<u32> { return vec2<u32>(v, 0u); }
fn i64_to_i32(v: vec2<u32>) -> i32 { return bitcast<i32>(v.x); }
fn i64_to_u32(v: vec2<u32>) -> u32 { return v.x; }

fn i64_neg(a: vec2<u32>) -> vec2<u32> {
    let low = ~a.x + 1u;
    return vec2<u32>(low, ~a.y + select(0u, 1u, low == 0u));
}
fn i64_is_neg(a: vec2<u32>) -> bool { return (a.y >> 31u) != 0u; }
fn i64_abs(a: vec2<u32>) -> vec2<u32> { if i64_is_neg(a) { return i64_neg(a); } return a; }
fn i64_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn i64_sub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return i64_add(a, i64_neg(b)); }
fn i64_eq(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x == b.x && a.y == b.y; }
fn i64_ult(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }
fn i64_lt(a: vec2<u32>, b: vec2<u32>) -> bool {
    return i64_ult(vec2<u32>(a.x, a.y ^ 0x80000000u), vec2<u32>(b.x, b.y ^ 0x80000000u));
}

// The full product of two words.
fn u32_mul_wide(a: u32, b: u32) -> vec2<u32> {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let ll = al * bl;
    let lh = al * bh;
    let hl = ah * bl;
    let mid = (ll >> 16u) + (lh & 0xffffu) + (hl & 0xffffu);
    return vec2<u32>((ll & 0xffffu) | (mid << 16u), ah * bh + (lh >> 16u) + (hl >> 16u) + (mid >> 16u));
}
fn i64_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let p = u32_mul_wide(a.x, b.x);
    return vec2<u32>(p.x, p.y + a.x * b.y + a.y * b.x);
}
fn i64_shl1(a: vec2<u32>) -> vec2<u32> { return vec2<u32>(a.x << 1u, (a.y << 1u) | (a.x >> 31u)); }

// Quotient (xy) and remainder (zw) of unsigned 64-bit numbers, one bit at a time; a zero divisor gives zeros.
fn u64_divmod(n: vec2<u32>, d: vec2<u32>) -> vec4<u32> {
    if (d.x | d.y) == 0u {
        return vec4<u32>(0u);
    }
    if (n.y | d.y) == 0u {
        return vec4<u32>(n.x / d.x, 0u, n.x % d.x, 0u);
    }
    var q = vec2<u32>(0u);
    var r = vec2<u32>(0u);
    for (var i = 63i; i >= 0i; i--) {
        let carry = (r.y >> 31u) != 0u;
        r = i64_shl1(r);
        let word = select(n.x, n.y, i >= 32i);
        r.x |= (word >> (u32(i) & 31u)) & 1u;
        q = i64_shl1(q);
        if carry || !i64_ult(r, d) {
            r = i64_sub(r, d);
            q.x |= 1u;
        }
    }
    return vec4<u32>(q, r);
}

// Rounds to nearest even: the top 24 significant bits, with all lower ones in the sticky bit.
fn i64_to_f32(v: vec2<u32>) -> f32 {
    let a = i64_abs(v);
    var r: f32;
    if a.y == 0u {
        r = f32(a.x);
    } else {
        let top = 31u - firstLeadingBit(a.y);
        var high = a.y;
        var low = a.x;
        if top > 0u {
            high = (a.y << top) | (a.x >> (32u - top));
            low = a.x << top;
        }
        if low != 0u {
            high |= 1u;
        }
        // `high` has its top bit set and a sticky bit at the bottom: 8 bits below the significand.
        r = f32(high) * bitcast<f32>((159u - top) << 23u);
    }
    return select(r, -r, i64_is_neg(v));
}

// Truncates; out of range saturates, NaN gives 0.
fn f32_to_i64(v: f32) -> vec2<u32> {
    if is_nan(v) { return vec2<u32>(0u); }
    let a = abs(v);
    if a >= 9223372036854775808.0 {
        return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), v < 0.0);
    }
    let b = bitcast<u32>(a);
    let e = i32(b >> 23u) - 150;
    let m = (b & 0x7fffffu) | 0x800000u;
    var r = vec2<u32>(0u);
    if e >= 32 {
        r = vec2<u32>(0u, m << u32(e - 32));
    } else if e > 0 {
        r = vec2<u32>(m << u32(e), select(0u, m >> u32(32 - e), e > 0));
    } else if e > -24 {
        r.x = m >> u32(-e);
    }
    if v < 0.0 { return i64_neg(r); }
    return r;
}

// Quotient rounded down (xy) and remainder with the divisor's sign (zw); a zero divisor gives zeros.
fn i64_divmod(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
    let t = u64_divmod(i64_abs(a), i64_abs(b));
    var q = t.xy;
    var r = t.zw;
    let down = i64_is_neg(a) != i64_is_neg(b);
    if down { q = i64_neg(q); }
    if i64_is_neg(a) { r = i64_neg(r); }
    if down && (r.x | r.y) != 0u {
        q = i64_sub(q, vec2<u32>(1u, 0u));
        r = i64_add(r, b);
    }
    return vec4<u32>(q, r);
}
