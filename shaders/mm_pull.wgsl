// out[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n]: one thread per output word, any layout.

fn value(i: u32) -> Out {
    let row = i / p.n;
    let n = i - row * p.n;
    let batch = row / p.m;
    let m = row - batch * p.m;
    let at = locate(batch);
    var sum = 0.0;
    if EIGHTS != 0u {
        for (var u = 0u; u < p.k / 8u; u++) {
            let x = a_eight(at, m, u);
            let ones = vec4<f32>(1.0);
            sum += dot_eight(at, n, u, b_eight(at, n, u), x, dot(x.low, ones) + dot(x.high, ones));
        }
    } else {
        for (var k = 0u; k < p.k; k++) {
            sum += a_at(at, m, k) * b_at(at, k, n);
        }
    }
    return to_out(finish(at, m, n, sum));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
