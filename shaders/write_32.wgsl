// Writes one element of a 32-bit output.
fn write_element(i: u32, v: Out) { wr(p.head.space, p.head.word + i, encode(v)); }
