// What folds need of 32-bit unsigned integers.

fn c_add(a: u32, b: u32) -> u32 { return a + b; }
fn c_mul(a: u32, b: u32) -> u32 { return a * b; }
fn c_less(a: u32, b: u32) -> bool { return a < b; }
fn c_zero() -> u32 { return 0u; }
fn c_one() -> u32 { return 1u; }
fn c_lowest() -> u32 { return 0u; }
fn c_highest() -> u32 { return 0xffffffffu; }
fn c_true(v: u32) -> bool { return v != 0u; }
fn c_nan(v: u32) -> bool { return false; }
fn c_over(v: u32, n: u32) -> u32 { return v; }
