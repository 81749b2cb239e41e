// Stores one 64-bit element per thread.
const PACKED = 1u;
fn store(w: u32) {
    if w < p.head.count {
        put_word(w, w);
    }
}
// Stores element i at element `at` of the output.
fn put_word(at: u32, i: u32) {
    let v = value(i);
    wr(p.head.space, p.head.word + 2u * at, v.x);
    wr(p.head.space, p.head.word + 2u * at + 1u, v.y);
}
// For shaders that merge narrow elements into words; never called for 64 bits.
fn encode(v: Out) -> u32 { return v.x; }
