// Stores one 64-bit element per thread.
fn store(w: u32) {
    if w < p.head.count {
        let v = value(w);
        wr(p.head.space, p.head.word + 2u * w, v.x);
        wr(p.head.space, p.head.word + 2u * w + 1u, v.y);
    }
}
