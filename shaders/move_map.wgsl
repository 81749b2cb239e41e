// out at (o0, o1, ...) = a at (o0 / div0 + add0, ...), coordinates outside `a` wrapped, clamped or constant.

struct Params {
    head: Head,
    a: Arg,
    size: array<vec4<u32>, 2>,
    add: array<vec4<i32>, 2>,
    // Of the one dimension that repeats its elements.
    repeat_dim: u32,
    repeats: u32,
    // 0 wraps, 1 clamps, 2 takes `constant`.
    edge: u32,
    constant: u32,
    constant_high: u32,
    pad_0: u32,
    pad_1: u32,
    pad_2: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    var rest = i;
    var at = i32(p.a.offset);
    for (var k = i32(p.head.rank) - 1; k >= 0; k--) {
        let d = p.head.dims[k >> 2][k & 3];
        let q = rest / d;
        var o = rest - q * d;
        rest = q;
        if u32(k) == p.repeat_dim { o = o / p.repeats; }
        let size = i32(p.size[k >> 2][k & 3]);
        var c = i32(o) + p.add[k >> 2][k & 3];
        if c < 0 || c >= size {
            if p.edge == 2u { return to_out(vec2<u32>(p.constant, p.constant_high)); }
            if p.edge == 1u {
                c = clamp(c, 0, size - 1);
            } else {
                c = c % size;
            }
        }
        at += c * p.a.strides[k >> 2][k & 3];
    }
    return to_out(load_a(p.a.space, u32(at)));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
