// Writes rows of `a` over rows of the output that the indices `b` name, and leaves the rest. Of several
// rows for one index the last wins; an index out of range writes nothing.
//
// Where a row is whole words, a thread writes one word of a row. Else (`merge`) a thread owns one word of
// the output and looks for the rows that cover it.

struct Params {
    head: Head,
    a: Arg,
    b: Arg,
    // Elements of a row, rows of `a` and of the output in each outer turn.
    run: u32,
    rows: u32,
    size: u32,
    merge: u32,
    // Words that say which rows of `a` a later one replaces, where `flags` is set.
    space: u32,
    word: u32,
    flags: u32,
    words: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    return to_out(load_a(p.a.space, element(p.head, p.a, i)));
}

fn index_of(row: u32) -> u32 {
    return checked_index(int_b(p.b.space, u32(i32(p.b.offset) + i32(row) * p.b.strides[0][0])), p.size);
}

fn put_whole(w: u32) {
    let i = w * PACKED;
    if i < p.head.count {
        let line = i / p.run;
        let outer = line / p.rows;
        let row = line - outer * p.rows;
        let index = index_of(row);
        if index == 0xffffffffu || (p.flags != 0u && rd(p.space, p.word + row) != 0u) {
            return;
        }
        put_word((outer * p.size + index) * p.run + (i - line * p.run), i);
    }
}

fn put_merged(word: u32) {
    if word >= p.words {
        return;
    }
    let bits = 32u / PACKED;
    let mask = 0xffffffffu >> (32u - bits);
    var old = rd(p.head.space, p.head.word + word);
    for (var k = 0u; k < PACKED; k++) {
        let e = word * PACKED + k;
        let line = e / p.run;
        let outer = line / p.size;
        for (var row = i32(p.rows) - 1; row >= 0; row--) {
            let i = (outer * p.rows + u32(row)) * p.run + (e - line * p.run);
            if index_of(u32(row)) == line - outer * p.size && i < p.head.count {
                old = (old & ~(mask << (bits * k))) | (encode(value(i)) << (bits * k));
                break;
            }
        }
    }
    wr(p.head.space, p.head.word + word, old);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let w = group_index(group, groups) * 64u + lane;
    if p.merge != 0u {
        put_merged(w);
    } else {
        put_whole(w);
    }
}
