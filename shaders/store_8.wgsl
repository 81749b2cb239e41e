// Stores four 8-bit elements per thread.
const PACKED = 4u;
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
// Stores elements i.. at element `at` of the output, which begins a word.
fn put_word(at: u32, i: u32) {
    var word = 0u;
    for (var k = 0u; k < 4u; k++) {
        word |= encode(value(i + k)) << (8u * k);
    }
    wr(p.head.space, p.head.word + (at >> 2u), word);
}
