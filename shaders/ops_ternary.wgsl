// Functions of three elements, by the type computed in: `op_<op>_<type>`.

fn op_clip_f32(a: f32, low: f32, high: f32) -> f32 { return op_minimum_f32(op_maximum_f32(a, low), high); }
fn op_clip_i32(a: i32, low: i32, high: i32) -> i32 { return min(max(a, low), high); }
fn op_clip_u32(a: u32, low: u32, high: u32) -> u32 { return min(max(a, low), high); }
fn op_clip_i64(a: vec2<u32>, low: vec2<u32>, high: vec2<u32>) -> vec2<u32> {
    return op_minimum_i64(op_maximum_i64(a, low), high);
}
