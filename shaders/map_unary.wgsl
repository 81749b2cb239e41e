// out[i] = op(a[i]) for any layout of `a`.

struct Params {
    head: Head,
    a: Arg,
    scalar: vec4<f32>,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    return op(load_a(p.a.space, element(p.head, p.a, i)));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
