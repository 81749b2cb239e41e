// Stores one 32-bit element per thread.
fn store(w: u32) {
    if w < p.head.count {
        wr(p.head.space, p.head.word + w, encode(value(w)));
    }
}
