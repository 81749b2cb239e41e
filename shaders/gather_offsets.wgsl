// out[i] (+)= index(i) * stride: the offsets that several index tensors make together.

struct Params {
    head: Head,
    b: Arg,
    size: u32,
    stride: i32,
    // Whether earlier offsets are added to.
    add: u32,
    pad: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    let index = wrapped_index(int_a(p.b.space, element(p.head, p.b, i)), p.size);
    var at = bitcast<u32>(bitcast<i32>(index) * p.stride);
    if p.add != 0u {
        at += rd(p.head.space, p.head.word + i);
    }
    return at;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
