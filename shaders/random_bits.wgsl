// Words of the threefry 2x32 counter-based generator (Salmon et al., 2011), in MLX's order: word i of the
// first half and word i of the second come from one count; an odd number of words has one count in between.

struct Params {
    head: Head,
    key: vec2<u32>,
    pad_0: u32,
    pad_1: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn mixed(v: vec2<u32>, r: u32) -> vec2<u32> {
    let x = v.x + v.y;
    return vec2<u32>(x, ((v.y << r) | (v.y >> (32u - r))) ^ x);
}

fn threefry(count: vec2<u32>) -> vec2<u32> {
    let k0 = p.key.x;
    let k1 = p.key.y;
    let k2 = k0 ^ k1 ^ 0x1bd11bdau;
    var v = count + p.key;
    v = mixed(mixed(mixed(mixed(v, 13u), 15u), 26u), 6u) + vec2<u32>(k1, k2 + 1u);
    v = mixed(mixed(mixed(mixed(v, 17u), 29u), 16u), 24u) + vec2<u32>(k2, k0 + 2u);
    v = mixed(mixed(mixed(mixed(v, 13u), 15u), 26u), 6u) + vec2<u32>(k0, k1 + 3u);
    v = mixed(mixed(mixed(mixed(v, 17u), 29u), 16u), 24u) + vec2<u32>(k1, k2 + 4u);
    v = mixed(mixed(mixed(mixed(v, 13u), 15u), 26u), 6u) + vec2<u32>(k2, k0 + 5u);
    return v;
}

fn value(i: u32) -> Out {
    let half = p.head.count / 2u;
    let second = p.head.count - half;
    if i < half { return threefry(vec2<u32>(i, second + i)).x; }
    if i < second { return threefry(vec2<u32>(i, 0u)).x; }
    return threefry(vec2<u32>(i - second, i)).y;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
