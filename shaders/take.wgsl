// out[o, i, k] = a[o, index[i], k]. A negative index counts from the end; one that is out of range is clamped.

struct Params {
    head: Head,      // count, space and word of the output; dims of the source
    a: Arg,
    index: Arg,
    indices: Head,   // dims of the index tensor
    extent: u32,     // source rows along the axis
    rows: u32,       // indices
    inner: u32,
    pad: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

// Words of an index: 2 for 64 bits.
override INDEX_WORDS: u32 = 1u;

fn row_of(i: u32) -> u32 {
    let at = element(p.indices, p.index, i);
    var v = bitcast<i32>(rd(p.index.space, at * INDEX_WORDS));
    if INDEX_WORDS == 2u {
        let high = bitcast<i32>(rd(p.index.space, at * 2u + 1u));
        if high > 0 || (high == 0 && v < 0) {
            v = 2147483647;
        } else if high < -1 || (high == -1 && v >= 0) {
            v = -2147483647;
        }
    }
    if v < 0 {
        v += i32(p.extent);
    }
    return u32(clamp(v, 0, i32(p.extent) - 1));
}

fn value(e: u32) -> Out {
    let row = e / p.inner;
    let k = e - row * p.inner;
    let o = row / p.rows;
    let i = row - o * p.rows;
    return op(load_a(p.a.space, element(p.head, p.a, (o * p.extent + row_of(i)) * p.inner + k)));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
