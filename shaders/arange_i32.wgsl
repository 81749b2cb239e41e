// Element i of a range, computed in i32.
fn arange_at(i: u32) -> Out { return bitcast<i32>(p.whole.x + i * p.whole.z); }
