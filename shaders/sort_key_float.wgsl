// Floats as keys that order as integers do: zeros of both signs are equal, NaN comes last.
fn sort_key(space: u32, i: u32) -> vec2<u32> {
    let b = bitcast<u32>(load_a(space, i));
    let m = b & 0x7fffffffu;
    if m > 0x7f800000u { return vec2<u32>(0xffffffffu, 0u); }
    if m == 0u { return vec2<u32>(0x80000000u, 0u); }
    return vec2<u32>(b ^ select(0x80000000u, 0xffffffffu, b > m), 0u);
}
