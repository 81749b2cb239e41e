// Writes a tensor into a part of another along one axis: rows `start + j * step` of `extent`.
//
// Seen as [outer, axis, inner]. Where every run begins and ends on a word, one thread copies one word.
// Otherwise one thread owns each word of the whole destination and keeps what is not in the part.

struct Params {
    head: Head,      // count: source elements; space, word: the destination; dims: the source's
    a: Arg,          // the source
    extent: u32,     // destination rows along the axis
    start: u32,
    step: u32,
    rows: u32,       // source rows along the axis
    inner: u32,
    total: u32,      // destination elements
    pad0: u32,
    pad1: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

override PER: u32 = 1u;        // elements of a word
override WORDS: u32 = 1u;      // words of an element
override ALIGNED: u32 = 1u;

fn source_bits(i: u32) -> u32 {
    return encode_bits(element(p.head, p.a, i));
}

fn encode_bits(at: u32) -> u32 {
    if PER == 1u {
        return rd(p.a.space, at);
    }
    let bits = 32u / PER;
    return extractBits(rd(p.a.space, at / PER), (at % PER) * bits, bits);
}

fn aligned(w: u32) {
    let e = w * PER;
    if e >= p.head.count {
        return;
    }
    let span = p.rows * p.inner;
    let outer = e / span;
    let rest = e - outer * span;
    let j = rest / p.inner;
    let d = (outer * p.extent + p.start + j * p.step) * p.inner + (rest - j * p.inner);
    if WORDS == 2u {
        let at = element(p.head, p.a, e);
        wr(p.head.space, p.head.word + 2u * d, rd(p.a.space, 2u * at));
        wr(p.head.space, p.head.word + 2u * d + 1u, rd(p.a.space, 2u * at + 1u));
        return;
    }
    var word = source_bits(e);
    for (var k = 1u; k < PER; k++) {
        word |= source_bits(e + k) << (k * (32u / PER));
    }
    wr(p.head.space, p.head.word + d / PER, word);
}

fn owned(w: u32) {
    if w * PER >= p.total {
        return;
    }
    let bits = 32u / PER;
    let old = rd(p.head.space, p.head.word + w);
    var word = old;
    for (var k = 0u; k < PER; k++) {
        let d = w * PER + k;
        let row = d / p.inner;
        let outer = row / p.extent;
        let c = row - outer * p.extent;
        if d < p.total && c >= p.start && (c - p.start) % p.step == 0u && (c - p.start) / p.step < p.rows {
            let j = (c - p.start) / p.step;
            let i = (outer * p.rows + j) * p.inner + (d - row * p.inner);
            word = insertBits(word, source_bits(i), k * bits, bits);
        }
    }
    wr(p.head.space, p.head.word + w, word);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let w = group_index(group, groups) * 64u + lane;
    if ALIGNED != 0u {
        aligned(w);
    } else {
        owned(w);
    }
}
