// Packed weights: the codes of a row are a stream of bits over its words, least significant first.

override BITS: u32 = 4u;
// 0 affine, 1 mxfp4, 2 mxfp8, 3 nvfp4.
override MODE: u32 = 0u;
override B_SPACE: u32 = 1u;
override S_SPACE: u32 = 1u;
override Z_SPACE: u32 = 1u;
override HAS_Z: u32 = 1u;

fn code(row: u32, i: u32) -> u32 {
    let bit = i * BITS;
    let at = row + (bit >> 5u);
    let shift = bit & 31u;
    var v = rd(B_SPACE, at) >> shift;
    if shift + BITS > 32u {
        v |= rd(B_SPACE, at + 1u) << (32u - shift);
    }
    return v & ((1u << BITS) - 1u);
}

// E2M1: 0 .5 1 1.5 2 3 4 6, then the same negative.
fn fp4_value(c: u32) -> f32 {
    let mag = c & 7u;
    var bits = ((mag >> 1u) + 126u) << 23u | (mag & 1u) << 22u;
    if mag < 2u {
        bits = select(0u, 0x3f000000u, mag == 1u);
    }
    return bitcast<f32>(bits | (c & 8u) << 28u);
}

// E4M3 without infinities.
fn fp8_value(c: u32) -> f32 {
    let e = (c >> 3u) & 15u;
    let m = c & 7u;
    var bits = (e + 120u) << 23u | m << 20u;
    if e == 0u {
        bits = bitcast<u32>(f32(m) * 0.001953125);
    }
    if (c & 127u) == 127u {
        bits = 0x7fc00000u;
    }
    return bitcast<f32>(bits | (c & 128u) << 24u);
}

// E8M0: powers of two.
fn power_value(c: u32) -> f32 {
    if c == 0u {
        return bitcast<f32>(0x00400000u);
    }
    return bitcast<f32>(rd_const(c << 23u));
}

fn code_value(c: u32) -> f32 {
    if MODE == 0u { return f32(c); }
    if MODE == 2u { return fp8_value(c); }
    return fp4_value(c);
}

fn scale_value(i: u32) -> f32 {
    let s = load_b(S_SPACE, i);
    if MODE == 0u { return s; }
    if MODE == 3u { return fp8_value(u32(s)); }
    return power_value(u32(s));
}

fn bias_value(i: u32) -> f32 {
    if HAS_Z != 0u { return load_c(Z_SPACE, i); }
    return 0.0;
}

// Codes 8u to 8u+7 of a row, as values.
struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}
fn eight(row: u32, u: u32) -> Eight {
    var lo: vec4<u32>;
    var hi: vec4<u32>;
    if BITS == 4u {
        let w = rd(B_SPACE, row + u);
        lo = (vec4<u32>(w) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
        hi = (vec4<u32>(w) >> vec4<u32>(16u, 20u, 24u, 28u)) & vec4<u32>(15u);
    } else if BITS == 8u {
        let x = rd(B_SPACE, row + 2u * u);
        let y = rd(B_SPACE, row + 2u * u + 1u);
        lo = (vec4<u32>(x) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
        hi = (vec4<u32>(y) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
    } else if BITS == 2u {
        let w = rd(B_SPACE, row + (u >> 1u)) >> ((u & 1u) * 16u);
        lo = (vec4<u32>(w) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u);
        hi = (vec4<u32>(w) >> vec4<u32>(8u, 10u, 12u, 14u)) & vec4<u32>(3u);
    } else {
        let i = 8u * u;
        lo = vec4<u32>(code(row, i), code(row, i + 1u), code(row, i + 2u), code(row, i + 3u));
        hi = vec4<u32>(code(row, i + 4u), code(row, i + 5u), code(row, i + 6u), code(row, i + 7u));
    }
    if MODE == 0u {
        return Eight(vec4<f32>(lo), vec4<f32>(hi));
    }
    return Eight(
        vec4<f32>(code_value(lo.x), code_value(lo.y), code_value(lo.z), code_value(lo.w)),
        vec4<f32>(code_value(hi.x), code_value(hi.y), code_value(hi.z), code_value(hi.w)),
    );
}
