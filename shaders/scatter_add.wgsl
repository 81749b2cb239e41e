// out[.., k, ..] += the updates whose index along the axis is k, in their order: a thread owns its word.

struct Params {
    head: Head,
    // Updates and indices at the place of an output element, with stride 0 along the axis.
    a: Arg,
    b: Arg,
    a_stride: i32,
    b_stride: i32,
    // Updates along the axis.
    rows: u32,
    // Elements of the output along and after the axis.
    size: u32,
    inner: u32,
    // The first element of the output in its buffer.
    own: u32,
    pad_0: u32,
    pad_1: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    let mine = (i / p.inner) % p.size;
    let at_a = i32(element(p.head, p.a, i));
    let at_b = i32(element(p.head, p.b, i));
    var sum = load_out(p.head.space, p.own + i);
    for (var row = 0; row < i32(p.rows); row++) {
        if checked_index(int_b(p.b.space, u32(at_b + row * p.b_stride)), p.size) == mine {
            sum = op(sum, load_a(p.a.space, u32(at_a + row * p.a_stride)));
        }
    }
    return sum;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
