// Functions of two elements, by the type computed in: `op_<op>_<type>`. Comparisons give 0 or 1. Those
// that need more than a few operations are in ops_binary_math.wgsl.

fn op_add_f32(a: f32, b: f32) -> f32 { return a + b; }
fn op_add_i32(a: i32, b: i32) -> i32 { return a + b; }
fn op_add_u32(a: u32, b: u32) -> u32 { return a + b; }
fn op_add_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return i64_add(a, b); }
fn op_subtract_f32(a: f32, b: f32) -> f32 { return a - b; }
fn op_subtract_i32(a: i32, b: i32) -> i32 { return a - b; }
fn op_subtract_u32(a: u32, b: u32) -> u32 { return a - b; }
fn op_subtract_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return i64_sub(a, b); }
fn op_multiply_f32(a: f32, b: f32) -> f32 { return a * b; }
fn op_multiply_i32(a: i32, b: i32) -> i32 { return a * b; }
fn op_multiply_u32(a: u32, b: u32) -> u32 { return a * b; }
fn op_multiply_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return i64_mul(a, b); }

// ---- order: floats by their bits, as integers that rise with the value; zeros of both signs are one ----

fn rank_f32(v: f32) -> i32 {
    let b = bitcast<i32>(v);
    return select(b, bitcast<i32>(0x80000000u) - b, b < 0);
}
fn ordered(a: f32, b: f32) -> bool { return !(is_nan(a) || is_nan(b)); }
fn below_f32(a: f32, b: f32) -> bool { return ordered(a, b) && rank_f32(a) < rank_f32(b); }
fn same_f32(a: f32, b: f32) -> bool { return ordered(a, b) && rank_f32(a) == rank_f32(b); }
fn below_i32(a: i32, b: i32) -> bool { return a < b; }
fn same_i32(a: i32, b: i32) -> bool { return a == b; }
fn below_u32(a: u32, b: u32) -> bool { return a < b; }
fn same_u32(a: u32, b: u32) -> bool { return a == b; }
fn below_i64(a: vec2<u32>, b: vec2<u32>) -> bool { return i64_lt(a, b); }
fn same_i64(a: vec2<u32>, b: vec2<u32>) -> bool { return i64_eq(a, b); }

fn op_less_f32(a: f32, b: f32) -> i32 { return select(0, 1, below_f32(a, b)); }
fn op_less_equal_f32(a: f32, b: f32) -> i32 { return select(0, 1, below_f32(a, b) || same_f32(a, b)); }
fn op_greater_f32(a: f32, b: f32) -> i32 { return select(0, 1, below_f32(b, a)); }
fn op_greater_equal_f32(a: f32, b: f32) -> i32 { return select(0, 1, below_f32(b, a) || same_f32(a, b)); }
fn op_equal_f32(a: f32, b: f32) -> i32 { return select(0, 1, same_f32(a, b)); }
fn op_not_equal_f32(a: f32, b: f32) -> i32 { return select(1, 0, same_f32(a, b)); }

fn op_less_i32(a: i32, b: i32) -> i32 { return select(0, 1, below_i32(a, b)); }
fn op_less_equal_i32(a: i32, b: i32) -> i32 { return select(0, 1, below_i32(a, b) || same_i32(a, b)); }
fn op_greater_i32(a: i32, b: i32) -> i32 { return select(0, 1, below_i32(b, a)); }
fn op_greater_equal_i32(a: i32, b: i32) -> i32 { return select(0, 1, below_i32(b, a) || same_i32(a, b)); }
fn op_equal_i32(a: i32, b: i32) -> i32 { return select(0, 1, same_i32(a, b)); }
fn op_not_equal_i32(a: i32, b: i32) -> i32 { return select(1, 0, same_i32(a, b)); }

fn op_less_u32(a: u32, b: u32) -> i32 { return select(0, 1, below_u32(a, b)); }
fn op_less_equal_u32(a: u32, b: u32) -> i32 { return select(0, 1, below_u32(a, b) || same_u32(a, b)); }
fn op_greater_u32(a: u32, b: u32) -> i32 { return select(0, 1, below_u32(b, a)); }
fn op_greater_equal_u32(a: u32, b: u32) -> i32 { return select(0, 1, below_u32(b, a) || same_u32(a, b)); }
fn op_equal_u32(a: u32, b: u32) -> i32 { return select(0, 1, same_u32(a, b)); }
fn op_not_equal_u32(a: u32, b: u32) -> i32 { return select(1, 0, same_u32(a, b)); }

fn op_less_i64(a: vec2<u32>, b: vec2<u32>) -> i32 { return select(0, 1, below_i64(a, b)); }
fn op_less_equal_i64(a: vec2<u32>, b: vec2<u32>) -> i32 { return select(0, 1, below_i64(a, b) || same_i64(a, b)); }
fn op_greater_i64(a: vec2<u32>, b: vec2<u32>) -> i32 { return select(0, 1, below_i64(b, a)); }
fn op_greater_equal_i64(a: vec2<u32>, b: vec2<u32>) -> i32 { return select(0, 1, below_i64(b, a) || same_i64(a, b)); }
fn op_equal_i64(a: vec2<u32>, b: vec2<u32>) -> i32 { return select(0, 1, same_i64(a, b)); }
fn op_not_equal_i64(a: vec2<u32>, b: vec2<u32>) -> i32 { return select(1, 0, same_i64(a, b)); }

// A NaN on either side is the result.
fn op_maximum_f32(a: f32, b: f32) -> f32 {
    if is_nan(a) { return a; }
    return select(a, b, is_nan(b) || rank_f32(a) < rank_f32(b));
}
fn op_minimum_f32(a: f32, b: f32) -> f32 {
    if is_nan(a) { return a; }
    return select(a, b, is_nan(b) || rank_f32(b) < rank_f32(a));
}
fn op_maximum_i32(a: i32, b: i32) -> i32 { return select(a, b, below_i32(a, b)); }
fn op_minimum_i32(a: i32, b: i32) -> i32 { return select(a, b, below_i32(b, a)); }
fn op_maximum_u32(a: u32, b: u32) -> u32 { return select(a, b, below_u32(a, b)); }
fn op_minimum_u32(a: u32, b: u32) -> u32 { return select(a, b, below_u32(b, a)); }
fn op_maximum_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, below_i64(a, b)); }
fn op_minimum_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, below_i64(b, a)); }

fn op_logical_and_f32(a: f32, b: f32) -> i32 { return select(0, 1, (bitcast<u32>(a) & 0x7fffffffu) != 0u && (bitcast<u32>(b) & 0x7fffffffu) != 0u); }
fn op_logical_or_f32(a: f32, b: f32) -> i32 { return select(0, 1, (bitcast<u32>(a) & 0x7fffffffu) != 0u || (bitcast<u32>(b) & 0x7fffffffu) != 0u); }
fn op_logical_and_i32(a: i32, b: i32) -> i32 { return select(0, 1, a != 0 && b != 0); }
fn op_logical_or_i32(a: i32, b: i32) -> i32 { return select(0, 1, a != 0 || b != 0); }
fn op_logical_and_u32(a: u32, b: u32) -> i32 { return select(0, 1, a != 0u && b != 0u); }
fn op_logical_or_u32(a: u32, b: u32) -> i32 { return select(0, 1, a != 0u || b != 0u); }
fn op_logical_and_i64(a: vec2<u32>, b: vec2<u32>) -> i32 { return select(0, 1, (a.x | a.y) != 0u && (b.x | b.y) != 0u); }
fn op_logical_or_i64(a: vec2<u32>, b: vec2<u32>) -> i32 { return select(0, 1, (a.x | a.y) != 0u || (b.x | b.y) != 0u); }

fn op_bitwise_and_i32(a: i32, b: i32) -> i32 { return a & b; }
fn op_bitwise_or_i32(a: i32, b: i32) -> i32 { return a | b; }
fn op_bitwise_xor_i32(a: i32, b: i32) -> i32 { return a ^ b; }
fn op_bitwise_and_u32(a: u32, b: u32) -> u32 { return a & b; }
fn op_bitwise_or_u32(a: u32, b: u32) -> u32 { return a | b; }
fn op_bitwise_xor_u32(a: u32, b: u32) -> u32 { return a ^ b; }
fn op_bitwise_and_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return a & b; }
fn op_bitwise_or_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return a | b; }
fn op_bitwise_xor_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return a ^ b; }
