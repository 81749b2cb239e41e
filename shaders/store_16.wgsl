// Stores two 16-bit elements per thread.
fn store(w: u32) {
    let i = 2u * w;
    if i < p.head.count {
        var word = encode(value(i));
        if i + 1u < p.head.count {
            word |= encode(value(i + 1u)) << 16u;
        }
        wr(p.head.space, p.head.word + w, word);
    }
}
