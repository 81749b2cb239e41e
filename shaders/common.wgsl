// Bindings shared by every kernel, addressing, and the element types.
//
// A tensor is (space, element offset, strides). Every buffer is an array of 32-bit words; narrow
// elements are packed, least significant first, and one thread owns each output word.

@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read> weights_low: array<u32>;
@group(0) @binding(2) var<storage, read> weights_high: array<u32>;
@group(0) @binding(3) var<storage, read_write> state: array<u32>;

// An input: mirrors kernel::emit::Arg.
struct Arg {
    space: u32,
    offset: u32,
    flat: u32,
    pad: u32,
    strides: array<vec4<i32>, 2>,
}

// What every pull-style parameter block begins with: mirrors kernel::emit::Head.
struct Head {
    count: u32,
    space: u32,
    word: u32,
    rank: u32,
    dims: array<vec4<u32>, 2>,
}

fn rd(space: u32, i: u32) -> u32 {
    switch space {
        case 0u: { return arena[i]; }
        case 1u: { return weights_low[i]; }
        case 2u: { return weights_high[i]; }
        default: { return state[i]; }
    }
}

fn wr(space: u32, i: u32, v: u32) {
    if space == 0u {
        arena[i] = v;
    } else {
        state[i] = v;
    }
}

// The element of `a` for output element `i` numbered over the head's dims.
fn element(h: Head, a: Arg, i: u32) -> u32 {
    if a.flat != 0u {
        return a.offset + i;
    }
    var rest = i;
    var at = i32(a.offset);
    for (var k = i32(h.rank) - 1; k >= 0; k--) {
        let d = h.dims[k >> 2][k & 3];
        let q = rest / d;
        at += i32(rest - q * d) * a.strides[k >> 2][k & 3];
        rest = q;
    }
    return u32(at);
}

// The number of this workgroup in a grid folded into two dimensions.
fn group_index(id: vec3<u32>, groups: vec3<u32>) -> u32 {
    return id.y * groups.x + id.x;
}

// ---- loads: element i of a buffer, in the type that kernels compute in ----

fn ld_f32(space: u32, i: u32) -> f32 { return bitcast<f32>(rd(space, i)); }
fn ld_i32(space: u32, i: u32) -> i32 { return bitcast<i32>(rd(space, i)); }
fn ld_u32(space: u32, i: u32) -> u32 { return rd(space, i); }
fn ld_i64(space: u32, i: u32) -> vec2<u32> { return vec2<u32>(rd(space, 2u * i), rd(space, 2u * i + 1u)); }
fn ld_bf16(space: u32, i: u32) -> f32 {
    let w = rd(space, i >> 1u);
    return bitcast<f32>(select(w << 16u, w & 0xffff0000u, (i & 1u) != 0u));
}
fn ld_f16(space: u32, i: u32) -> f32 {
    return f16_value(rd(space, i >> 1u) >> ((i & 1u) * 16u));
}
// The binary16 in the low half, by integer steps: no adapter feature and no flushed subnormals.
fn f16_value(h: u32) -> f32 {
    let e = (h >> 10u) & 31u;
    let m = h & 0x3ffu;
    var bits = ((e + 112u) << 23u) | (m << 13u);
    if e == 0u {
        bits = bitcast<u32>(f32(m) * 5.9604644775390625e-8);
    } else if e == 31u {
        bits = 0x7f800000u | (m << 13u);
    }
    return bitcast<f32>(bits | ((h & 0x8000u) << 16u));
}
fn ld_i16(space: u32, i: u32) -> i32 {
    let w = rd(space, i >> 1u);
    return extractBits(bitcast<i32>(w), (i & 1u) * 16u, 16u);
}
fn ld_i8(space: u32, i: u32) -> i32 {
    return extractBits(bitcast<i32>(rd(space, i >> 2u)), (i & 3u) * 8u, 8u);
}
fn ld_u8(space: u32, i: u32) -> i32 {
    return i32(extractBits(rd(space, i >> 2u), (i & 3u) * 8u, 8u));
}
fn ld_bool(space: u32, i: u32) -> i32 {
    return select(0, 1, extractBits(rd(space, i >> 2u), (i & 3u) * 8u, 8u) != 0u);
}

// ---- stores: the low bits of a word for one element ----

fn enc_f32(v: f32) -> u32 { return bitcast<u32>(v); }
fn enc_i32(v: i32) -> u32 { return bitcast<u32>(v); }
fn enc_u32(v: u32) -> u32 { return v; }
fn enc_i16(v: i32) -> u32 { return bitcast<u32>(v) & 0xffffu; }
fn enc_i8(v: i32) -> u32 { return bitcast<u32>(v) & 0xffu; }
fn enc_u8(v: i32) -> u32 { return bitcast<u32>(v) & 0xffu; }
fn enc_bool(v: i32) -> u32 { return select(0u, 1u, v != 0); }

// Rounds to nearest even; a NaN stays a NaN.
fn enc_bf16(v: f32) -> u32 {
    let b = bitcast<u32>(v);
    if (b & 0x7fffffffu) > 0x7f800000u {
        return (b >> 16u) | 0x40u;
    }
    return (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;
}

// Rounds to nearest even, with gradual underflow and overflow to infinity; a NaN stays a NaN.
fn enc_f16(v: f32) -> u32 {
    let b = bitcast<u32>(v);
    let sign = (b >> 16u) & 0x8000u;
    let a = b & 0x7fffffffu;
    if a > 0x7f800000u {
        return sign | 0x7e00u;
    }
    if a >= 0x477ff000u {
        return sign | 0x7c00u;
    }
    if a < 0x38800000u {
        // Subnormal: shift the full significand into place, rounding to nearest even.
        let e = a >> 23u;
        if e < 102u {
            return sign;
        }
        let m = (a & 0x7fffffu) | 0x800000u;
        let shift = 126u - e;
        let half = 1u << (shift - 1u);
        let kept = m >> shift;
        let rest = m & ((1u << shift) - 1u);
        let up = rest > half || (rest == half && (kept & 1u) != 0u);
        return sign | (kept + select(0u, 1u, up));
    }
    let r = a - 0x38000000u;
    return sign | ((r + 0xfffu + ((r >> 13u) & 1u)) >> 13u);
}

// ---- tests on bits: the language lets compilers assume that floats are finite ----

fn is_nan(v: f32) -> bool { return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u; }
fn is_inf(v: f32) -> bool { return (bitcast<u32>(v) & 0x7fffffffu) == 0x7f800000u; }
fn nan_f32() -> f32 { return bitcast<f32>(rd_const(0x7fc00000u)); }
fn inf_f32() -> f32 { return bitcast<f32>(rd_const(0x7f800000u)); }
// Keeps constant evaluation from seeing a non-finite literal, which the language forbids.
fn rd_const(bits: u32) -> u32 { var b = bits; return b; }

// ---- conversions between the types that kernels compute in ----

fn f32_to_i32(v: f32) -> i32 {
    // Truncates; out of range saturates, NaN gives 0.
    if is_nan(v) { return 0; }
    if v >= 2147483648.0 { return 2147483647; }
    if v <= -2147483648.0 { return bitcast<i32>(0x80000000u); }
    return i32(v);
}
fn f32_to_u32(v: f32) -> u32 {
    if is_nan(v) { return 0u; }
    if v < 0.0 { return bitcast<u32>(f32_to_i32(v)); }
    if v >= 4294967296.0 { return 0xffffffffu; }
    return u32(v);
}
fn i32_to_f32(v: i32) -> f32 { return f32(v); }
fn i32_to_u32(v: i32) -> u32 { return bitcast<u32>(v); }
fn u32_to_f32(v: u32) -> f32 { return f32(v); }
fn u32_to_i32(v: u32) -> i32 { return bitcast<i32>(v); }
