// Element i of a range, computed in u32.
fn arange_at(i: u32) -> Out { return p.whole.x + i * p.whole.z; }
