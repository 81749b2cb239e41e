// Packed weights as plain elements.

struct Params {
    head: Head,
    w: Arg,
    s: Arg,
    z: Arg,
    columns: u32,
    group: u32,
    scale_col: i32,
    global: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

override HAS_G: u32 = 0u;

fn value(i: u32) -> Out {
    let row = i / p.columns;
    let col = i - row * p.columns;
    let g = i32(col / p.group);
    let v = code_value(code(element(p.head, p.w, row), col));
    var scale = scale_value(element(p.head, p.s, row) + u32(g * p.scale_col));
    if HAS_G != 0u {
        scale *= ld_f32(p.global, p.w.pad) / 2688.0;
    }
    return to_out(v * scale + bias_value(element(p.head, p.z, row) + u32(g * i32(p.z.pad))));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
