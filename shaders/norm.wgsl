// Normalises rows: a workgroup takes one row, or as many as fill whole words of the output.

struct Params {
    head: Head,
    a: Arg,
    n: u32,
    col: i32,
    rows: u32,
    eps: f32,
    w_offset: u32,
    w_col: i32,
    z_offset: u32,
    z_col: i32,
}
@group(0) @binding(4) var<uniform> p: Params;

// 0 root mean square, 1 mean and variance, 2 softmax, 3 softmax's maximum and sum only.
override KIND: u32 = 0u;
override X_SPACE: u32 = 0u;
override W_SPACE: u32 = 1u;
override Z_SPACE: u32 = 1u;
override HAS_W: u32 = 0u;
override HAS_Z: u32 = 0u;
override PER_WORD: u32 = 1u;

// Of each row of the workgroup: its first element, what is taken away and the factor.
var<workgroup> start: array<u32, 4>;
var<workgroup> shift: array<f32, 4>;
var<workgroup> scale: array<f32, 4>;
var<private> first: u32;

fn x_at(start: u32, j: u32) -> f32 {
    return load_a(X_SPACE, start + u32(i32(j) * p.col));
}

fn value(i: u32) -> Out {
    let rel = i - first;
    let r = rel / p.n;
    let j = rel - r * p.n;
    let x = x_at(start[r], j);
    if KIND >= 2u {
        return to_out(expo(x - shift[r]) * scale[r]);
    }
    var y = x;
    if KIND == 1u {
        y -= shift[r];
    }
    y *= scale[r];
    if HAS_W != 0u {
        y *= load_b(W_SPACE, p.w_offset + u32(i32(j) * p.w_col));
    }
    if HAS_Z != 0u {
        y += load_c(Z_SPACE, p.z_offset + u32(i32(j) * p.z_col));
    }
    return to_out(y);
}

// What is taken away and the factor; `live` is whether the row exists.
fn row_stats(at: u32, live: bool, lane: u32) -> vec2<f32> {
    let n = select(0u, p.n, live);
    if KIND == 0u {
        var s = 0.0;
        for (var j = lane; j < n; j += THREADS) {
            let x = x_at(at, j);
            s += x * x;
        }
        return vec2<f32>(0.0, 1.0 / sqrt(fold_sum(s, lane) / f32(p.n) + p.eps));
    }
    if KIND == 1u {
        var s = 0.0;
        for (var j = lane; j < n; j += THREADS) {
            s += x_at(at, j);
        }
        let mean = fold_sum(s, lane) / f32(p.n);
        var v = 0.0;
        for (var j = lane; j < n; j += THREADS) {
            let d = x_at(at, j) - mean;
            v += d * d;
        }
        return vec2<f32>(mean, 1.0 / sqrt(fold_sum(v, lane) / f32(p.n) + p.eps));
    }
    var m = -3.40282347e38;
    var any = false;
    for (var j = lane; j < n; j += THREADS) {
        let x = x_at(at, j);
        any = any || bitcast<u32>(x) != 0xff800000u;
        m = max(m, x);
    }
    m = fold_max(m, lane);
    let seen = fold_max(select(0.0, 1.0, any), lane);
    var s = 0.0;
    for (var j = lane; j < n; j += THREADS) {
        s += expo(x_at(at, j) - m);
    }
    s = fold_sum(s, lane);
    if seen == 0.0 {
        return vec2<f32>(m, nan_f32());
    }
    return vec2<f32>(m, 1.0 / s);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = group_index(group, groups);
    let total = p.head.count / p.n;
    for (var r = 0u; r < p.rows; r++) {
        let row = number * p.rows + r;
        let live = row < total;
        var at = 0u;
        if live {
            at = element(p.head, p.a, row);
        }
        let stats = row_stats(at, live, lane);
        if lane == 0u {
            start[r] = at;
            shift[r] = stats.x;
            scale[r] = stats.y;
            if KIND == 3u && live {
                wr(p.head.space, p.head.word + 2u * row, bitcast<u32>(stats.x));
                wr(p.head.space, p.head.word + 2u * row + 1u, bitcast<u32>(stats.y));
            }
        }
    }
    workgroupBarrier();
    if KIND != 3u {
        first = number * p.rows * p.n;
        let words = (p.rows * p.n + PER_WORD - 1u) / PER_WORD;
        for (var w = lane; w < words; w += THREADS) {
            store(first / PER_WORD + w);
        }
    }
}
