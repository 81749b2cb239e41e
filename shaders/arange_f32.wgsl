// Element i of a range, computed in f32.
fn arange_at(i: u32) -> Out { return p.start.x + f32(i) * p.start.y; }
