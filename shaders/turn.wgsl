// Sine and cosine of angles.

fn turn_sin(x: f32) -> f32 { return sin(x); }
fn turn_cos(x: f32) -> f32 { return cos(x); }
