// out[i] = condition[i] is not zero ? a[i] : b[i]. The condition may have any element type.

struct Params {
    head: Head,
    a: Arg,
    b: Arg,
    condition: Arg,
    // Bytes of a condition's element, and the bits of it that make it true.
    bytes: u32,
    mask: u32,
    pad_0: u32,
    pad_1: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn truth(i: u32) -> bool {
    let space = p.condition.space;
    switch p.bytes {
        case 1u: { return (rd(space, i >> 2u) >> (8u * (i & 3u)) & p.mask) != 0u; }
        case 2u: { return (rd(space, i >> 1u) >> (16u * (i & 1u)) & p.mask) != 0u; }
        case 4u: { return (rd(space, i) & p.mask) != 0u; }
        default: { return (rd(space, 2u * i) | rd(space, 2u * i + 1u)) != 0u; }
    }
}

fn value(i: u32) -> Out {
    if truth(element(p.head, p.condition, i)) {
        return to_out(load_a(p.a.space, element(p.head, p.a, i)));
    }
    return to_out(load_b(p.b.space, element(p.head, p.b, i)));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
