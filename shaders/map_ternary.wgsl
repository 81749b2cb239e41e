// out[i] = op(a[i], b[i], c[i]) for any layouts; all are converted to the type computed in.

struct Params {
    head: Head,
    a: Arg,
    b: Arg,
    c: Arg,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    return op(
        load_a(p.a.space, element(p.head, p.a, i)),
        load_b(p.b.space, element(p.head, p.b, i)),
        load_c(p.c.space, element(p.head, p.c, i)),
    );
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
