// Element i of a range, computed in i64.
fn arange_at(i: u32) -> Out { return i64_add(p.whole.xy, i64_mul(vec2<u32>(i, 0u), p.whole.zw)); }
