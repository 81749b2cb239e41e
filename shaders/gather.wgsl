// out[i] = a[base(i) + index(i) * stride]: `a` gives the base, `b` the index. A negative index counts from
// the end; one out of range is clamped. A `size` of zero marks indices that are offsets already.

struct Params {
    head: Head,
    a: Arg,
    b: Arg,
    size: u32,
    stride: i32,
    pad_0: u32,
    pad_1: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    let index = wrapped_index(int_b(p.b.space, element(p.head, p.b, i)), p.size);
    let at = i32(element(p.head, p.a, i)) + bitcast<i32>(index) * p.stride;
    return to_out(load_a(p.a.space, u32(at)));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
