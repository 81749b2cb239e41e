// Writes one element of a 64-bit output.
fn write_element(i: u32, v: Out) {
    wr(p.head.space, p.head.word + 2u * i, v.x);
    wr(p.head.space, p.head.word + 2u * i + 1u, v.y);
}
