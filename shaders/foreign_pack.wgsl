// Packs the number of boundaries that lie below each value.

fn value(i: u32) -> Out {
    let high = load_a(A_SPACE, p.a_offset + 2u * i);
    let low = load_a(A_SPACE, p.a_offset + 2u * i + 1u);
    var code = 0u;
    for (var k = 0u; k < 15u; k++) {
        let edge = level(k);
        code += select(0u, 16u, high > edge) + select(0u, 1u, low > edge);
    }
    return to_out(f32(code));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
