// What folds need of 64-bit integers.

fn c_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return i64_add(a, b); }
fn c_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return i64_mul(a, b); }
fn c_less(a: vec2<u32>, b: vec2<u32>) -> bool { return i64_lt(a, b); }
fn c_zero() -> vec2<u32> { return vec2<u32>(0u); }
fn c_one() -> vec2<u32> { return vec2<u32>(1u, 0u); }
fn c_lowest() -> vec2<u32> { return vec2<u32>(0u, 0x80000000u); }
fn c_highest() -> vec2<u32> { return vec2<u32>(0xffffffffu, 0x7fffffffu); }
fn c_true(v: vec2<u32>) -> bool { return (v.x | v.y) != 0u; }
fn c_nan(v: vec2<u32>) -> bool { return false; }
fn c_over(v: vec2<u32>, n: u32) -> vec2<u32> { return v; }
