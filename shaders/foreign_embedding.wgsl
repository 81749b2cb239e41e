// Rows of GGUF blocks picked by index, as plain elements. Role a: the indices. A row that is not there is zeros.

struct Params {
    head: Head,
    a: Arg,
    row_bytes: u32,
    b_byte: u32,
    columns: u32,
    rows: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    let r = i / p.columns;
    let row = int_a(p.a.space, element(p.head, p.a, r));
    if row.y != 0u || row.x >= p.rows {
        return to_out(0.0);
    }
    return to_out(weight_at(p.b_byte + row.x * p.row_bytes, i - r * p.columns));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
