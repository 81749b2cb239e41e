// The plain form of conv.wgsl.

fn value(i: u32) -> Out {
    let row = i32(i) / p.out.w;
    let o = i32(i) - row * p.out.w;
    let at = output_place(row);
    let group = o / p.kernel.w;
    let x0 = i32(p.x_offset) + at.x * p.x.x + group * p.size.w * p.x_col;
    let w0 = i32(p.w_offset) + o * p.w.x;
    var sum = 0.0;
    for (var kz = 0; kz < p.kernel.x; kz++) {
        let z = meet(at.y, kz, 0);
        if z < 0 { continue; }
        for (var ky = 0; ky < p.kernel.y; ky++) {
            let y = meet(at.z, ky, 1);
            if y < 0 { continue; }
            for (var kx = 0; kx < p.kernel.z; kx++) {
                let x = meet(at.w, kx, 2);
                if x < 0 { continue; }
                let a = x0 + z * p.x.y + y * p.x.z + x * p.x.w;
                let b = w0 + kz * p.w.y + ky * p.w.z + kx * p.w.w;
                for (var c = 0; c < p.size.w; c++) {
                    sum += load_a(A_SPACE, u32(a + c * p.x_col)) * load_b(B_SPACE, u32(b + c * p.w_col));
                }
            }
        }
    }
    return to_out(sum);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
