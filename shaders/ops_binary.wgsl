// Functions of two elements, by the type computed in. `op_<op>_<type>`.

fn op_add_f32(a: f32, b: f32) -> f32 { return a + b; }
fn op_multiply_f32(a: f32, b: f32) -> f32 { return a * b; }
