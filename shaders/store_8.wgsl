// Stores four 8-bit elements per thread.
fn store(w: u32) {
    let first = 4u * w;
    if first < p.head.count {
        var word = 0u;
        let n = min(4u, p.head.count - first);
        for (var k = 0u; k < n; k++) {
            word |= encode(value(first + k)) << (8u * k);
        }
        wr(p.head.space, p.head.word + w, word);
    }
}
