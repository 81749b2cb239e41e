// The level of each code times the factor of its row.

fn value(i: u32) -> Out {
    let byte = u32(load_a(A_SPACE, p.a_offset + (i >> 1u)));
    let code = select(byte >> 4u, byte & 15u, (i & 1u) != 0u);
    return to_out(level(code) * load_c(C_SPACE, p.c_offset + i / p.columns));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
