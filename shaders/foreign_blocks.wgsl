// Rows of GGUF super-blocks of 256 weights, read as bytes.
//
// A block of KIND 4 is: binary16 d and dmin, 12 bytes of eight 6-bit scales and minima, 128 bytes of low nibbles.
// KIND 5 has 32 bytes of fifth bits before the nibbles. KIND 6 is: 128 bytes of nibbles, 64 bytes of upper bit
// pairs, 16 signed scales, binary16 d.

override KIND: u32 = 4u;
override B_SPACE: u32 = 1u;

fn word_at(at: u32) -> u32 {
    let shift = (at & 3u) * 8u;
    var w = rd(B_SPACE, at >> 2u) >> shift;
    if shift != 0u {
        w |= rd(B_SPACE, (at >> 2u) + 1u) << (32u - shift);
    }
    return w;
}
fn byte_at(at: u32) -> u32 {
    return (rd(B_SPACE, at >> 2u) >> ((at & 3u) * 8u)) & 255u;
}
// Blocks begin at even bytes.
fn half_at(at: u32) -> f32 {
    return f16_value((rd(B_SPACE, at >> 2u) >> ((at & 2u) * 8u)) & 0xffffu);
}

// The first byte of the block that holds weight `k` of the row that begins at byte `row`.
fn block_at(row: u32, k: u32) -> u32 {
    var size = 144u;
    if KIND == 5u { size = 176u; }
    if KIND == 6u { size = 210u; }
    return row + (k >> 8u) * size;
}

// Weights p to p+3 of a block, before scale and minimum; p is a multiple of four.
fn codes(block: u32, p: u32) -> vec4<f32> {
    var w: u32;
    if KIND == 6u {
        w = (word_at(block + (p >> 7u) * 64u + (p & 63u)) >> (((p >> 6u) & 1u) * 4u)) & 0x0f0f0f0fu;
        let upper = word_at(block + 128u + (p >> 7u) * 32u + (p & 31u)) >> (((p >> 5u) & 3u) * 2u);
        w |= (upper & 0x03030303u) << 4u;
    } else {
        let nibbles = select(16u, 48u, KIND == 5u) + (p >> 6u) * 32u + (p & 31u);
        w = (word_at(block + nibbles) >> (((p >> 5u) & 1u) * 4u)) & 0x0f0f0f0fu;
        if KIND == 5u {
            w |= ((word_at(block + 16u + (p & 31u)) >> (p >> 5u)) & 0x01010101u) << 4u;
        }
    }
    let v = vec4<f32>((vec4<u32>(w) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
    if KIND == 6u {
        return v - vec4<f32>(32.0);
    }
    return v;
}

// Scale and minimum of the weights around p: weight = code * x - y.
fn scale_at(block: u32, p: u32) -> vec2<f32> {
    if KIND == 6u {
        let s = extractBits(bitcast<i32>(byte_at(block + 192u + (p >> 4u))), 0u, 8u);
        return vec2<f32>(half_at(block + 208u) * f32(s), 0.0);
    }
    let j = p >> 5u;
    let packed = block + 4u;
    var s: u32;
    var m: u32;
    if j < 4u {
        s = byte_at(packed + j) & 63u;
        m = byte_at(packed + j + 4u) & 63u;
    } else {
        let low = byte_at(packed + j + 4u);
        s = (low & 15u) | ((byte_at(packed + j - 4u) >> 6u) << 4u);
        m = (low >> 4u) | ((byte_at(packed + j) >> 6u) << 4u);
    }
    return vec2<f32>(half_at(block) * f32(s), half_at(block + 2u) * f32(m));
}

// Weight `k` of a row.
fn weight_at(row: u32, k: u32) -> f32 {
    let block = block_at(row, k);
    let p = k & 255u;
    let s = scale_at(block, p);
    return codes(block, p & 252u)[p & 3u] * s.x - s.y;
}
