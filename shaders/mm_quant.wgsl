// A product whose right side is packed weights: parameters, addressing and loads.
// Roles: a the left side, b the scales, c the biases of the groups.

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
    group: u32,
    a: Mat,
    b: Mat,
    s: Mat,
    z: Mat,
    batch: array<vec4<i32>, 6>,
    lhs: Pick,
    rhs: Pick,
}
@group(0) @binding(4) var<uniform> p: Params;

override A_SPACE: u32 = 0u;
// 0 any layout; 1 f32, 2 bf16, 3 f16 in neighbouring words (see words.wgsl).
override A_LOAD: u32 = 0u;
// Rows of the packed matrix are output columns (1) or run along the sum (0).
override TRANSPOSED: u32 = 1u;
// Whether whole runs of eight codes lie in one group and the left side is dense.
override EIGHTS: u32 = 0u;
// Whether index tensors pick the matrices.
override LHS: u32 = 0u;
override RHS: u32 = 0u;

// First elements of the left side, the weights (in words), the scales and the biases of a batch entry.
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
    var s = u32(at.z);
    if RHS != 0u {
        let pick = min(rd(p.rhs.space, p.rhs.offset + b), p.b.count - 1u);
        b = pick * p.rhs.stride;
        s = pick * p.rhs.second;
    }
    return vec4<u32>(p.a.offset + a, p.b.offset + b, p.s.offset + s, p.z.offset + s);
}

fn a_at(at: vec4<u32>, m: u32, k: u32) -> f32 {
    return load_a(A_SPACE, at.x + u32(i32(m) * p.a.row + i32(k) * p.a.col));
}

// The weight of row `r`, position `i`.
fn weight_at(at: vec4<u32>, r: u32, i: u32) -> f32 {
    let g = u32(i32(r) * p.s.row + i32(i / p.group) * p.s.col);
    let v = code_value(code(at.y + r * u32(p.b.row), i));
    return v * scale_value(at.z + g) + bias_value(at.w + g);
}

fn b_at(at: vec4<u32>, k: u32, n: u32) -> f32 {
    if TRANSPOSED != 0u {
        return weight_at(at, n, k);
    }
    return weight_at(at, k, n);
}

fn a_quad(i: u32) -> vec4<f32> {
    if A_LOAD != 0u {
        return quad(A_SPACE, i, A_LOAD);
    }
    return vec4<f32>(load_a(A_SPACE, i), load_a(A_SPACE, i + 1u), load_a(A_SPACE, i + 2u), load_a(A_SPACE, i + 3u));
}

// Elements 8u to 8u+7 of a row of the left side.
fn a_eight(at: vec4<u32>, m: u32, u: u32) -> Eight {
    let i = at.x + u32(i32(m) * p.a.row) + 8u * u;
    return Eight(a_quad(i), a_quad(i + 4u));
}

// The part of a dot product with output column `n` that eight elements and their sum make.
fn b_eight(at: vec4<u32>, n: u32, u: u32) -> Eight {
    return eight(at.y + n * u32(p.b.row), u);
}
fn dot_eight(at: vec4<u32>, n: u32, u: u32, w: Eight, x: Eight, sum: f32) -> f32 {
    let g = u32(i32(n) * p.s.row + i32(8u * u / p.group) * p.s.col);
    let d = dot(w.low, x.low) + dot(w.high, x.high);
    return d * scale_value(at.z + g) + bias_value(at.w + g) * sum;
}

fn finish(at: vec4<u32>, m: u32, n: u32, sum: f32) -> f32 {
    return sum;
}
