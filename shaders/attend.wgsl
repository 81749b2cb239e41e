// Attention with a running maximum and sum: a workgroup makes ROWS query rows of one key-value head, 64 keys at
// a time, so that memory does not grow with the number of keys. The query heads that share a key-value head
// are rows of one run, and their outputs lie side by side.

struct Params {
    head: Head,
    // Strides by batch entry, head, position, element.
    q: vec4<i32>,
    k: vec4<i32>,
    v: vec4<i32>,
    mask: vec4<i32>,
    // First elements of q, k, v and the mask.
    offset: vec4<u32>,
    kv_heads: u32,
    repeats: u32,
    q_len: u32,
    k_len: u32,
    dim: u32,
    v_dim: u32,
    // Keys of one part; all of them where the work is not split.
    part: u32,
    scale: f32,
    // Cells of the ring that the keys lie in, and the cell of the oldest.
    ring: vec2<u32>,
    // Keys that a query sees, itself included.
    window: u32,
    pad: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

override Q_SPACE: u32 = 0u;
override K_SPACE: u32 = 3u;
override V_SPACE: u32 = 3u;
override MASK_SPACE: u32 = 0u;
// How four elements of a key are read (words.wgsl), 0 one by one.
override K_LOAD: u32 = 0u;
override CAUSAL: u32 = 0u;
// Whether keys lie in a ring, and whether a query sees a window of them.
override RING: u32 = 0u;
override WINDOW: u32 = 0u;
// 0 none, 1 bool, 2 f32, 3 f16, 4 bf16.
override MASK: u32 = 0u;
override ROWS: u32 = 1u;
// Value elements per lane.
override SLOTS: u32 = 1u;
override PER_WORD: u32 = 1u;
// Whether sums, maxima and unscaled outputs of a part of the keys are stored, for attend_join.wgsl.
override SPLIT: u32 = 0u;

const THREADS: u32 = 64u;
// Running maxima begin finite, so that no difference of infinities arises.
const LOWEST: f32 = -3.40282347e38;

var<workgroup> query: array<vec4<f32>, 512>;
var<workgroup> weight: array<f32, 512>;
var<workgroup> peak: array<f32, 64>;
var<workgroup> result: array<f32, 2048>;
var<private> base: u32;

fn value(i: u32) -> Out {
    return to_out(result[i - base]);
}

fn minus_inf() -> f32 {
    return -inf_f32();
}

fn place(s: vec4<i32>, b: u32, h: u32, l: u32) -> u32 {
    return u32(i32(b) * s.x + i32(h) * s.y + i32(l) * s.z);
}

// The cell of a key.
fn cell(j: u32) -> u32 {
    if RING != 0u {
        return (p.ring.y + j) % p.ring.x;
    }
    return j;
}

// Whether a key is too old for a query position.
fn too_old(l: u32, j: u32) -> bool {
    return WINDOW != 0u && i32(j) <= i32(l) + i32(p.k_len) - i32(p.q_len) - i32(p.window);
}

// Number of keys that a query position may see.
fn reach(l: u32) -> u32 {
    if CAUSAL != 0u {
        return u32(max(i32(l) + 1 + i32(p.k_len) - i32(p.q_len), 0));
    }
    return p.k_len;
}

fn masked(score: f32, b: u32, h: u32, l: u32, j: u32) -> f32 {
    let i = p.offset.w + place(p.mask, b, h, l) + u32(i32(j) * p.mask.w);
    if MASK == 1u {
        if ld_bool(MASK_SPACE, i) == 0 { return minus_inf(); }
        return score;
    }
    if MASK == 2u { return score + ld_f32(MASK_SPACE, i); }
    if MASK == 3u { return score + ld_f16(MASK_SPACE, i); }
    return score + ld_bf16(MASK_SPACE, i);
}

// Four elements of a key from element `d` on; zeros past the end.
fn key_quad(start: u32, d: u32) -> vec4<f32> {
    if K_LOAD != 0u {
        return quad(K_SPACE, start + d, K_LOAD);
    }
    var x = vec4<f32>(0.0);
    for (var c = 0u; c < 4u; c++) {
        if d + c < p.dim {
            x[c] = load_b(K_SPACE, start + u32(i32(d + c) * p.k.w));
        }
    }
    return x;
}

fn is_minus_inf(x: f32) -> bool {
    return bitcast<u32>(x) == 0xff800000u;
}

fn load_queries(b: u32, kv: u32, r0: u32, rows: u32, lane: u32) {
    let quads = (p.dim + 3u) / 4u;
    for (var t = lane; t < ROWS * quads; t += THREADS) {
        let r = t / quads;
        let d = (t - r * quads) * 4u;
        var x = vec4<f32>(0.0);
        if r0 + r < rows {
            let h = kv * p.repeats + (r0 + r) / p.q_len;
            let start = p.offset.x + place(p.q, b, h, (r0 + r) % p.q_len);
            for (var c = 0u; c < 4u; c++) {
                if d + c < p.dim {
                    x[c] = p.scale * load_a(Q_SPACE, start + u32(i32(d + c) * p.q.w));
                }
            }
        }
        query[t] = x;
    }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let rows = p.repeats * p.q_len;
    let blocks = (rows + ROWS - 1u) / ROWS;
    let parts = max((p.k_len + p.part - 1u) / p.part, 1u);
    var number = group_index(group, groups);
    let split = number % parts;
    number /= parts;
    let r0 = (number % blocks) * ROWS;
    let bh = number / blocks;
    let b = bh / p.kv_heads;
    let kv = bh - b * p.kv_heads;
    let live = bh * rows * p.v_dim < p.head.count;
    if live {
        load_queries(b, kv, r0, rows, lane);
    }
    workgroupBarrier();

    let quads = (p.dim + 3u) / 4u;
    var m: array<f32, 8>;
    var l: array<f32, 8>;
    var score: array<f32, 8>;
    var acc: array<f32, 32>;
    var limit = 0u;
    for (var r = 0u; r < ROWS; r++) {
        m[r] = LOWEST;
        if r0 + r < rows {
            limit = max(limit, reach((r0 + r) % p.q_len));
        }
    }
    let last = min(limit, (split + 1u) * p.part);
    for (var j0 = split * p.part; j0 < last; j0 += THREADS) {
        let j = j0 + lane;
        for (var r = 0u; r < ROWS; r++) {
            score[r] = 0.0;
        }
        if live && j < last {
            let start = p.offset.y + place(p.k, b, kv, cell(j));
            for (var d = 0u; d < quads; d++) {
                let x = key_quad(start, 4u * d);
                for (var r = 0u; r < ROWS; r++) {
                    score[r] += dot(query[r * quads + d], x);
                }
            }
        }
        for (var r = 0u; r < ROWS; r++) {
            let at = (r0 + r) % p.q_len;
            if !live || j >= min(last, reach(at)) || too_old(at, j) {
                score[r] = minus_inf();
            } else if MASK != 0u && r0 + r < rows {
                score[r] = masked(score[r], b, kv * p.repeats + (r0 + r) / p.q_len, at, j);
            }
            weight[r * THREADS + lane] = score[r];
        }
        workgroupBarrier();
        if lane < ROWS * 8u {
            var top = weight[lane * 8u];
            for (var c = 1u; c < 8u; c++) {
                top = max(top, weight[lane * 8u + c]);
            }
            peak[lane] = top;
        }
        workgroupBarrier();
        var shrink: array<f32, 8>;
        for (var r = 0u; r < ROWS; r++) {
            var top = m[r];
            for (var c = 0u; c < 8u; c++) {
                top = max(top, peak[r * 8u + c]);
            }
            shrink[r] = expo(m[r] - top);
            m[r] = top;
            var w = 0.0;
            if !is_minus_inf(score[r]) {
                w = expo(score[r] - top);
            }
            weight[r * THREADS + lane] = w;
        }
        workgroupBarrier();
        let count = min(THREADS, last - j0);
        for (var r = 0u; r < ROWS; r++) {
            var s = 0.0;
            for (var c = 0u; c < count; c++) {
                s += weight[r * THREADS + c];
            }
            l[r] = l[r] * shrink[r] + s;
            for (var t = 0u; t < SLOTS; t++) {
                acc[t * ROWS + r] *= shrink[r];
            }
        }
        if live {
            // Four keys at a time, so that their loads overlap. Past the end the weight is zero.
            for (var c = 0u; c < count; c += 4u) {
                var start: vec4<u32>;
                for (var i = 0u; i < 4u; i++) {
                    start[i] = p.offset.z + place(p.v, b, kv, cell(min(j0 + c + i, last - 1u)));
                }
                for (var t = 0u; t < SLOTS; t++) {
                    let d = t * THREADS + lane;
                    if d < p.v_dim {
                        let at = start + vec4<u32>(u32(i32(d) * p.v.w));
                        let x = vec4<f32>(
                            load_c(V_SPACE, at.x), load_c(V_SPACE, at.y), load_c(V_SPACE, at.z), load_c(V_SPACE, at.w));
                        for (var r = 0u; r < ROWS; r++) {
                            let w = r * THREADS + c;
                            acc[t * ROWS + r] += dot(vec4<f32>(weight[w], weight[w + 1u], weight[w + 2u], weight[w + 3u]), x);
                        }
                    }
                }
            }
        }
        workgroupBarrier();
    }
    for (var r = 0u; r < ROWS; r++) {
        var share = 1.0;
        if SPLIT == 0u {
            share = select(1.0 / l[r], 0.0, l[r] == 0.0);
        }
        for (var t = 0u; t < SLOTS; t++) {
            let d = t * THREADS + lane;
            if d < p.v_dim {
                result[r * p.v_dim + d] = acc[t * ROWS + r] * share;
            }
        }
    }
    workgroupBarrier();
    if !live {
        return;
    }
    let own = min(ROWS, rows - r0);
    let row = bh * rows + r0;
    if SPLIT != 0u {
        // Of every row and part: the elements, then the maximum and the sum.
        let wide = p.v_dim + 2u;
        for (var t = lane; t < own * p.v_dim; t += THREADS) {
            let r = t / p.v_dim;
            wr(p.head.space, p.head.word + ((row + r) * parts + split) * wide + t - r * p.v_dim, bitcast<u32>(result[t]));
        }
        if lane < own {
            let at = p.head.word + ((row + lane) * parts + split) * wide + p.v_dim;
            var top = 0.0;
            var sum = 0.0;
            for (var r = 0u; r < ROWS; r++) {
                if r == lane {
                    top = m[r];
                    sum = l[r];
                }
            }
            wr(p.head.space, at, bitcast<u32>(top));
            wr(p.head.space, at + 1u, bitcast<u32>(sum));
        }
        return;
    }
    base = row * p.v_dim;
    for (var w = lane; w < (own * p.v_dim + PER_WORD - 1u) / PER_WORD; w += THREADS) {
        store(base / PER_WORD + w);
    }
}
