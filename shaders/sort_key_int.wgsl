// Integers as keys that order as unsigned pairs, high word first.
fn sort_key(space: u32, i: u32) -> vec2<u32> {
    let v = int_a(space, i);
    return vec2<u32>(v.y ^ 0x80000000u, v.x);
}
