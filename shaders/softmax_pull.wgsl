// Softmax along any axis, a thread per output word: for short axes it makes each row's sum anew; for long ones
// it reads what the row pass of norm.wgsl left.

struct Params {
    head: Head,
    a: Arg,
    n: u32,
    col: i32,
    inner: u32,
    stats: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

override X_SPACE: u32 = 0u;
override READ_STATS: u32 = 0u;

fn value(i: u32) -> Out {
    let outer = i / p.inner;
    let j = outer % p.n;
    let at = element(p.head, p.a, i);
    let x = load_a(X_SPACE, at);
    if READ_STATS != 0u {
        let row = outer / p.n * p.inner + i % p.inner;
        let shift = ld_f32(0u, p.stats + 2u * row);
        return to_out(expo(x - shift) * ld_f32(0u, p.stats + 2u * row + 1u));
    }
    let start = at - u32(i32(j) * p.col);
    var m = -3.40282347e38;
    var any = false;
    for (var k = 0u; k < p.n; k++) {
        let y = load_a(X_SPACE, start + u32(i32(k) * p.col));
        any = any || bitcast<u32>(y) != 0xff800000u;
        m = max(m, y);
    }
    if !any {
        return to_out(nan_f32());
    }
    var s = 0.0;
    for (var k = 0u; k < p.n; k++) {
        s += expo(load_a(X_SPACE, start + u32(i32(k) * p.col)) - m);
    }
    return to_out(expo(x - m) / s);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
