// Stores two 16-bit elements per thread.
const PACKED = 2u;
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
// Stores elements i.. at element `at` of the output, which begins a word.
fn put_word(at: u32, i: u32) {
    wr(p.head.space, p.head.word + (at >> 1u), encode(value(i)) | (encode(value(i + 1u)) << 16u));
}
