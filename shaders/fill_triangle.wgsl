// One side of a diagonal of the last two dims: from `a`, or ones. The other side is zero.

struct Params {
    head: Head,
    a: Arg,
    // Kept where low <= column - row <= high.
    low: i32,
    high: i32,
    rows: u32,
    columns: u32,
    // The bits of a one, where `ones` is set.
    one: vec2<u32>,
    ones: u32,
    pad: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    let column = i % p.columns;
    let row = (i / p.columns) % p.rows;
    let at = i32(column) - i32(row);
    if at < p.low || at > p.high {
        return to_out(vec2<u32>(0u));
    }
    if p.ones != 0u {
        return to_out(p.one);
    }
    return to_out(load_a(p.a.space, element(p.head, p.a, i)));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
