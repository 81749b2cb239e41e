// What folds need of 32-bit signed integers.

fn c_add(a: i32, b: i32) -> i32 { return a + b; }
fn c_mul(a: i32, b: i32) -> i32 { return a * b; }
fn c_less(a: i32, b: i32) -> bool { return a < b; }
fn c_zero() -> i32 { return 0; }
fn c_one() -> i32 { return 1; }
fn c_lowest() -> i32 { return bitcast<i32>(0x80000000u); }
fn c_highest() -> i32 { return 2147483647; }
fn c_true(v: i32) -> bool { return v != 0; }
fn c_nan(v: i32) -> bool { return false; }
fn c_over(v: i32, n: u32) -> i32 { return v; }
