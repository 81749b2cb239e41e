// out[i] = 1 where a later index is the same as index i, else 0.

struct Params {
    head: Head,
    b: Arg,
    size: u32,
    pad_0: u32,
    pad_1: u32,
    pad_2: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn index_of(i: u32) -> u32 {
    return checked_index(int_a(p.b.space, u32(i32(p.b.offset) + i32(i) * p.b.strides[0][0])), p.size);
}

fn value(i: u32) -> Out {
    let mine = index_of(i);
    for (var k = i + 1u; k < p.head.count; k++) {
        if index_of(k) == mine { return 1u; }
    }
    return 0u;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
