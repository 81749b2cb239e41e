// Four neighbouring elements at once. `how` is a constant of the pipeline: 1 f32, 2 bf16, 3 f16; the
// narrow ones need an even element offset.

fn half_low(w: u32) -> f32 { return bitcast<f32>(w << 16u); }
fn half_high(w: u32) -> f32 { return bitcast<f32>(w & 0xffff0000u); }

fn quad(space: u32, i: u32, how: u32) -> vec4<f32> {
    if how == 1u {
        return bitcast<vec4<f32>>(vec4<u32>(rd(space, i), rd(space, i + 1u), rd(space, i + 2u), rd(space, i + 3u)));
    }
    let x = rd(space, i >> 1u);
    let y = rd(space, (i >> 1u) + 1u);
    if how == 2u {
        return vec4<f32>(half_low(x), half_high(x), half_low(y), half_high(y));
    }
    return vec4<f32>(f16_value(x & 0xffffu), f16_value(x >> 16u), f16_value(y & 0xffffu), f16_value(y >> 16u));
}
