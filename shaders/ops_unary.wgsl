// Functions of one element, by the type computed in. `op_<op>_<type>`.

fn op_cast_f32(a: f32) -> Out { return to_out(a); }
fn op_neg_f32(a: f32) -> f32 { return -a; }
fn op_silu_f32(a: f32) -> f32 { return a / (1.0 + exp(-a)); }
fn op_cos_f32(a: f32) -> f32 { return cos(a); }
fn op_sin_f32(a: f32) -> f32 { return sin(a); }
