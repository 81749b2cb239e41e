// Stores one 32-bit element per thread.
const PACKED = 1u;
fn store(w: u32) {
    if w < p.head.count {
        wr(p.head.space, p.head.word + w, encode(value(w)));
    }
}
// Stores element i at element `at` of the output.
fn put_word(at: u32, i: u32) {
    wr(p.head.space, p.head.word + at, encode(value(i)));
}
