// The exponential for sums of exponentials: within 2 units in the last place, right at the ends.

fn expo(x: f32) -> f32 {
    if is_nan(x) { return x; }
    if x < -104.0 { return 0.0; }
    if x > 88.8 { return inf_f32(); }
    let k = round(x * 1.44269504);
    let r = fma(k, -1.42860677e-6, fma(k, -0.693145752, x));
    var y = fma(r, 0.00138888, 0.00833344);
    y = fma(y, r, 0.04166667);
    y = fma(y, r, 0.16666667);
    y = fma(y, r, 0.5);
    y = fma(y, r, 1.0);
    y = fma(y, r, 1.0);
    // Two steps keep the scale finite and the result gradual near zero.
    let n = i32(k);
    let h = n >> 1u;
    return y * bitcast<f32>(u32(h + 127) << 23u) * bitcast<f32>(u32(n - h + 127) << 23u);
}
