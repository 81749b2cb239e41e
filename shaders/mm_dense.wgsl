// A product of two dense matrices: parameters, addressing and loads. Roles: a, b, and c what is added.

struct Mat {
    count: u32,
    offset: u32,
    row: i32,
    col: i32,
}
struct Pick {
    space: u32,
    offset: u32,
    stride: u32,
    second: u32,
}
struct Params {
    head: Head,
    m: u32,
    n: u32,
    k: u32,
    pad: u32,
    a: Mat,
    b: Mat,
    c: Mat,
    batch: array<vec4<i32>, 6>,
    alpha: f32,
    beta: f32,
    pad2: vec2<u32>,
    lhs: Pick,
    rhs: Pick,
}
@group(0) @binding(4) var<uniform> p: Params;

override A_SPACE: u32 = 0u;
override B_SPACE: u32 = 1u;
override C_SPACE: u32 = 1u;
// 0 any layout; 1 f32, 2 bf16, 3 f16 in neighbouring words (see words.wgsl).
override A_LOAD: u32 = 0u;
override B_LOAD: u32 = 0u;
// Whether both sides lie densely along the sum, in whole runs of eight.
override EIGHTS: u32 = 0u;
override HAS_C: u32 = 0u;
override LHS: u32 = 0u;
override RHS: u32 = 0u;

struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

// First elements of a, b and c of a batch entry.
fn locate(batch: u32) -> vec4<u32> {
    var rest = batch;
    var at = vec3<i32>(0i);
    for (var d = i32(p.head.rank) - 1; d >= 0; d--) {
        let size = p.head.dims[d >> 2u][d & 3];
        let q = rest / size;
        let r = i32(rest - q * size);
        at += r * vec3<i32>(p.batch[d >> 2u][d & 3], p.batch[2 + (d >> 2u)][d & 3], p.batch[4 + (d >> 2u)][d & 3]);
        rest = q;
    }
    var a = u32(at.x);
    if LHS != 0u {
        a = min(rd(p.lhs.space, p.lhs.offset + a), p.a.count - 1u) * p.lhs.stride;
    }
    var b = u32(at.y);
    if RHS != 0u {
        b = min(rd(p.rhs.space, p.rhs.offset + b), p.b.count - 1u) * p.rhs.stride;
    }
    return vec4<u32>(p.a.offset + a, p.b.offset + b, p.c.offset + u32(at.z), 0u);
}

fn a_at(at: vec4<u32>, m: u32, k: u32) -> f32 {
    return load_a(A_SPACE, at.x + u32(i32(m) * p.a.row + i32(k) * p.a.col));
}

fn b_at(at: vec4<u32>, k: u32, n: u32) -> f32 {
    return load_b(B_SPACE, at.y + u32(i32(k) * p.b.row + i32(n) * p.b.col));
}

fn a_quad(i: u32) -> vec4<f32> {
    if A_LOAD != 0u {
        return quad(A_SPACE, i, A_LOAD);
    }
    return vec4<f32>(load_a(A_SPACE, i), load_a(A_SPACE, i + 1u), load_a(A_SPACE, i + 2u), load_a(A_SPACE, i + 3u));
}
fn b_quad(i: u32) -> vec4<f32> {
    if B_LOAD != 0u {
        return quad(B_SPACE, i, B_LOAD);
    }
    return vec4<f32>(load_b(B_SPACE, i), load_b(B_SPACE, i + 1u), load_b(B_SPACE, i + 2u), load_b(B_SPACE, i + 3u));
}

fn a_eight(at: vec4<u32>, m: u32, u: u32) -> Eight {
    let i = at.x + u32(i32(m) * p.a.row) + 8u * u;
    return Eight(a_quad(i), a_quad(i + 4u));
}
fn b_eight(at: vec4<u32>, n: u32, u: u32) -> Eight {
    let i = at.y + u32(i32(n) * p.b.col) + 8u * u;
    return Eight(b_quad(i), b_quad(i + 4u));
}
fn dot_eight(at: vec4<u32>, n: u32, u: u32, w: Eight, x: Eight, sum: f32) -> f32 {
    return dot(w.low, x.low) + dot(w.high, x.high);
}

fn finish(at: vec4<u32>, m: u32, n: u32, sum: f32) -> f32 {
    if HAS_C != 0u {
        return p.alpha * sum + p.beta * load_c(C_SPACE, at.z + u32(i32(m) * p.c.row + i32(n) * p.c.col));
    }
    return sum;
}
