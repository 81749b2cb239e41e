// Square roots of the sums of squares of row-major rows: a workgroup makes one output word.

struct Params {
    head: Head,
    a_offset: u32,
    columns: u32,
    pad_0: u32,
    pad_1: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

override A_SPACE: u32 = 0u;
var<private> roots: array<f32, 4>;

fn value(i: u32) -> Out {
    return to_out(roots[i % PACKED]);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let word = group_index(group, groups);
    for (var j = 0u; j < PACKED; j++) {
        let row = word * PACKED + j;
        var sum = 0.0;
        if row < p.head.count {
            for (var k = lane; k < p.columns; k += 64u) {
                let v = load_a(A_SPACE, p.a_offset + row * p.columns + k);
                sum += v * v;
            }
        }
        roots[j] = sqrt_f32(fold_sum(sum, lane));
    }
    if lane == 0u {
        store(word);
    }
}
