// The gated delta rule. Each row of the state, one per value of a head, goes through the sequence on its own: it
// decays, is corrected towards the value along the key, and is read along the query. A workgroup takes four
// rows; 16 lanes share a row's columns. Roles: a q, k and v, b the gates, c the state.

struct Params {
    head: Head,
    // First elements: q k v g, beta state.
    offsets: array<vec4<u32>, 2>,
    // Strides of q k v g beta state.
    strides: array<vec4<i32>, 6>,
    steps: u32,
    keys: u32,
    values: u32,
    heads: u32,
    // Heads of the values per head of the keys.
    repeat: u32,
    // First word of the new state.
    state_word: u32,
    // Heads of all batch entries.
    count: u32,
    pad: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

override Q_SPACE: u32 = 0u;
override K_SPACE: u32 = 0u;
override V_SPACE: u32 = 0u;
override G_SPACE: u32 = 0u;
override BETA_SPACE: u32 = 0u;
override STATE_SPACE: u32 = 0u;
override NEXT_SPACE: u32 = 0u;

const ROWS: u32 = 4u;
const LANES: u32 = 16u;
var<workgroup> memory: array<f32, 64>;
var<workgroup> reads: array<f32, 64>;
var<private> held: array<f32, 4>;

fn at(which: u32, index: vec4<i32>) -> u32 {
    let d = index * p.strides[which];
    return u32(i32(p.offsets[which >> 2u][which & 3u]) + d.x + d.y + d.z + d.w);
}

fn value(i: u32) -> Out {
    return to_out(held[i % PACKED]);
}

fn remembered(row: u32) -> f32 {
    var s = 0.0;
    for (var j = 0u; j < LANES; j++) {
        s += memory[row * LANES + j];
    }
    return s;
}
fn read_out(row: u32) -> f32 {
    var s = 0.0;
    for (var j = 0u; j < LANES; j++) {
        s += reads[row * LANES + j];
    }
    return s;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let per_head = (p.values + ROWS - 1u) / ROWS;
    let number = group_index(group, groups);
    let n = number / per_head;
    let batch = i32(n / p.heads);
    let head = i32(n % p.heads);
    let key_head = head / i32(p.repeat);
    let row = lane / LANES;
    let dv = (number - n * per_head) * ROWS + row;
    let live = n < p.count && dv < p.values;
    // Each lane owns a run of columns, so that it also owns the words of the new state.
    let each = p.keys / LANES;
    let first = (lane % LANES) * each;
    var s: array<f32, 32>;
    if live {
        for (var i = 0u; i < each; i++) {
            s[i] = load_c(STATE_SPACE, at(5u, vec4<i32>(batch, head, i32(dv), i32(first + i))));
        }
    }
    for (var t = 0; t < i32(p.steps); t++) {
        var sum = 0.0;
        if live {
            let gate = load_b(G_SPACE, at(3u, vec4<i32>(batch, t, head, 0)));
            for (var i = 0u; i < each; i++) {
                s[i] = s[i] * gate;
                sum += s[i] * load_a(K_SPACE, at(1u, vec4<i32>(batch, t, key_head, i32(first + i))));
            }
        }
        memory[lane] = sum;
        workgroupBarrier();
        sum = 0.0;
        if live {
            let v = load_a(V_SPACE, at(2u, vec4<i32>(batch, t, head, i32(dv))));
            let beta = load_b(BETA_SPACE, at(4u, vec4<i32>(batch, t, head, 0)));
            let delta = (v - remembered(row)) * beta;
            for (var i = 0u; i < each; i++) {
                let column = vec4<i32>(batch, t, key_head, i32(first + i));
                s[i] += load_a(K_SPACE, at(1u, column)) * delta;
                sum += s[i] * load_a(Q_SPACE, at(0u, column));
            }
        }
        reads[lane] = sum;
        workgroupBarrier();
        if live && lane % LANES == 0u && row % PACKED == 0u {
            for (var j = 0u; j < PACKED; j++) {
                held[j] = read_out(min(row + j, ROWS - 1u));
            }
            let i = ((u32(batch) * p.steps + u32(t)) * p.heads + u32(head)) * p.values + dv;
            store(i / PACKED);
        }
    }
    if live {
        let word = p.state_word + ((n * p.values + dv) * p.keys + first) / PACKED;
        for (var i = 0u; i < each; i += PACKED) {
            var w = 0u;
            for (var j = 0u; j < PACKED; j++) {
                w |= encode(to_out(s[i + j])) << ((32u / PACKED * j) & 31u);
            }
            wr(NEXT_SPACE, word + i / PACKED, w);
        }
    }
}
