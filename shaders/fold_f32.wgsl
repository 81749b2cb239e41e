// What folds need of binary32.

fn c_add(a: f32, b: f32) -> f32 { return a + b; }
fn c_mul(a: f32, b: f32) -> f32 { return a * b; }
fn c_less(a: f32, b: f32) -> bool { return a < b; }
fn c_zero() -> f32 { return 0.0; }
fn c_one() -> f32 { return 1.0; }
fn c_lowest() -> f32 { return -inf_f32(); }
fn c_highest() -> f32 { return inf_f32(); }
fn c_true(v: f32) -> bool { return v != 0.0; }
fn c_nan(v: f32) -> bool { return is_nan(v); }
fn c_over(v: f32, n: u32) -> f32 { return v / f32(n); }
