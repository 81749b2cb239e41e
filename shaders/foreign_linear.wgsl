// A product whose right side is rows of GGUF blocks: parameters, addressing and loads.
// Roles: a the left side, b the blocks, c the bias.

struct Params {
    head: Head,
    m: u32,
    n: u32,
    k: u32,
    row_bytes: u32,
    a_offset: u32,
    a_row: i32,
    a_col: i32,
    b_byte: u32,
    c_offset: u32,
    c_stride: i32,
    pad_0: u32,
    pad_1: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

override A_SPACE: u32 = 0u;
override C_SPACE: u32 = 1u;
// 0 any layout; 1 f32, 2 bf16, 3 f16 in neighbouring words (see words.wgsl).
override A_LOAD: u32 = 0u;
override EIGHTS: u32 = 0u;
override HAS_C: u32 = 0u;

struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

fn locate(batch: u32) -> vec4<u32> {
    return vec4<u32>(p.a_offset, p.b_byte, p.c_offset, 0u);
}
fn a_at(at: vec4<u32>, m: u32, k: u32) -> f32 {
    return load_a(A_SPACE, at.x + u32(i32(m) * p.a_row + i32(k) * p.a_col));
}
fn b_at(at: vec4<u32>, k: u32, n: u32) -> f32 {
    return weight_at(at.y + n * p.row_bytes, k);
}
fn a_quad(i: u32) -> vec4<f32> {
    if A_LOAD != 0u {
        return quad(A_SPACE, i, A_LOAD);
    }
    return vec4<f32>(load_a(A_SPACE, i), load_a(A_SPACE, i + 1u), load_a(A_SPACE, i + 2u), load_a(A_SPACE, i + 3u));
}
fn a_eight(at: vec4<u32>, m: u32, u: u32) -> Eight {
    let i = at.x + u32(i32(m) * p.a_row) + 8u * u;
    return Eight(a_quad(i), a_quad(i + 4u));
}
fn b_eight(at: vec4<u32>, n: u32, u: u32) -> Eight {
    let block = block_at(at.y + n * p.row_bytes, 8u * u);
    let i = (8u * u) & 255u;
    return Eight(codes(block, i), codes(block, i + 4u));
}
fn dot_eight(at: vec4<u32>, n: u32, u: u32, w: Eight, x: Eight, sum: f32) -> f32 {
    let s = scale_at(block_at(at.y + n * p.row_bytes, 8u * u), (8u * u) & 255u);
    return (dot(w.low, x.low) + dot(w.high, x.high)) * s.x - s.y * sum;
}
fn finish(at: vec4<u32>, m: u32, n: u32, sum: f32) -> f32 {
    if HAS_C != 0u {
        return sum + load_c(C_SPACE, at.z + u32(i32(n) * p.c_stride));
    }
    return sum;
}
