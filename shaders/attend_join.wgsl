// Joins what attend.wgsl made of parts of the keys: a thread per output word.

struct Params {
    head: Head,
    word: u32,
    parts: u32,
    v_dim: u32,
    pad: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    let row = i / p.v_dim;
    let d = i - row * p.v_dim;
    let wide = p.v_dim + 2u;
    let first = p.word + row * p.parts * wide;
    var m = -3.40282347e38;
    for (var s = 0u; s < p.parts; s++) {
        m = max(m, ld_f32(0u, first + s * wide + p.v_dim));
    }
    var l = 0.0;
    var sum = 0.0;
    for (var s = 0u; s < p.parts; s++) {
        let at = first + s * wide;
        let count = ld_f32(0u, at + p.v_dim + 1u);
        if count != 0.0 {
            let share = expo(ld_f32(0u, at + p.v_dim) - m);
            l += share * count;
            sum += share * ld_f32(0u, at + d);
        }
    }
    return to_out(select(sum / l, 0.0, l == 0.0));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
