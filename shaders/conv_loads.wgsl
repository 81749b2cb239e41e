// conv.wgsl of one group as a product of matrices: rows are output places, columns output channels, and the sum
// runs over kernel places and channels.

fn locate(batch: u32) -> vec4<u32> {
    return vec4<u32>(0u);
}

fn split_sum(k: i32) -> vec4<i32> {
    var rest = k / p.size.w;
    let c = k - rest * p.size.w;
    let x = rest % p.kernel.z;
    rest /= p.kernel.z;
    return vec4<i32>(rest / p.kernel.y, rest % p.kernel.y, x, c);
}

fn a_at(at: vec4<u32>, m: u32, k: u32) -> f32 {
    let o = output_place(i32(m));
    let t = split_sum(i32(k));
    let z = meet(o.y, t.x, 0);
    let y = meet(o.z, t.y, 1);
    let x = meet(o.w, t.z, 2);
    if min(min(z, y), x) < 0 {
        return 0.0;
    }
    return load_a(A_SPACE, u32(i32(p.x_offset) + o.x * p.x.x + z * p.x.y + y * p.x.z + x * p.x.w + t.w * p.x_col));
}

fn b_at(at: vec4<u32>, k: u32, n: u32) -> f32 {
    let t = split_sum(i32(k));
    return load_b(B_SPACE, u32(i32(p.w_offset) + i32(n) * p.w.x + t.x * p.w.y + t.y * p.w.z + t.z * p.w.w + t.w * p.w_col));
}

fn finish(at: vec4<u32>, m: u32, n: u32, sum: f32) -> f32 {
    return sum;
}
