// Functions of one f32 that math_f32.wgsl computes.

fn op_sqrt_f32(a: f32) -> f32 { return sqrt_f32(a); }
fn op_rsqrt_f32(a: f32) -> f32 { return rsqrt_f32(a); }
fn op_reciprocal_f32(a: f32) -> f32 { return div_f32(1.0, a); }
fn op_exp_f32(a: f32) -> f32 { return exp_f32(a); }
fn op_expm1_f32(a: f32) -> f32 { return expm1_f32(a); }
fn op_log_f32(a: f32) -> f32 { return log_f32(a); }
fn op_log2_f32(a: f32) -> f32 { return log2_f32(a); }
fn op_log10_f32(a: f32) -> f32 { return log10_f32(a); }
fn op_log1p_f32(a: f32) -> f32 { return log1p_f32(a); }
fn op_sin_f32(a: f32) -> f32 { return sin_f32(a); }
fn op_cos_f32(a: f32) -> f32 { return cos_f32(a); }
fn op_tan_f32(a: f32) -> f32 { return tan_f32(a); }
fn op_arcsin_f32(a: f32) -> f32 { return asin_f32(a); }
fn op_arccos_f32(a: f32) -> f32 { return acos_f32(a); }
fn op_arctan_f32(a: f32) -> f32 { return atan_f32(a); }
fn op_sinh_f32(a: f32) -> f32 { return sinh_f32(a); }
fn op_cosh_f32(a: f32) -> f32 { return cosh_f32(a); }
fn op_tanh_f32(a: f32) -> f32 { return tanh_f32(a); }
fn op_arcsinh_f32(a: f32) -> f32 { return asinh_f32(a); }
fn op_arccosh_f32(a: f32) -> f32 { return acosh_f32(a); }
fn op_arctanh_f32(a: f32) -> f32 { return atanh_f32(a); }
fn op_erf_f32(a: f32) -> f32 { return erf_f32(a); }
fn op_sigmoid_f32(a: f32) -> f32 { return sigmoid_f32(a); }
fn op_gelu_f32(a: f32) -> f32 { return gelu_f32(a); }
fn op_gelu_tanh_f32(a: f32) -> f32 { return gelu_tanh_f32(a); }
fn op_silu_f32(a: f32) -> f32 { return a * sigmoid_f32(a); }
