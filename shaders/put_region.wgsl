// Writes `a` into a part of the output and leaves the rest. The part is rows of `run` elements:
// row r = (outer, turn) begins at base + outer * outer_pitch + turn * turn_pitch.
//
// Where every row is whole words, a thread writes one word of a row. Else (`merge`) a thread owns one word
// of the output between `first` and `last`, and replaces those of its elements that rows cover.

struct Params {
    head: Head,
    a: Arg,
    run: u32,
    turns: u32,
    outer_pitch: u32,
    turn_pitch: u32,
    base: u32,
    merge: u32,
    first: u32,
    last: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    return to_out(load_a(p.a.space, element(p.head, p.a, i)));
}

fn put_whole(w: u32) {
    let i = w * PACKED;
    if i < p.head.count {
        let row = i / p.run;
        let outer = row / p.turns;
        let at = p.base + outer * p.outer_pitch + (row - outer * p.turns) * p.turn_pitch + (i - row * p.run);
        put_word(at, i);
    }
}

fn put_merged(w: u32) {
    let word = p.first + w;
    if word > p.last {
        return;
    }
    let bits = 32u / PACKED;
    let mask = 0xffffffffu >> (32u - bits);
    var old = rd(p.head.space, p.head.word + word);
    for (var k = 0u; k < PACKED; k++) {
        let e = word * PACKED + k;
        if e < p.base { continue; }
        let outer = (e - p.base) / p.outer_pitch;
        let rest = (e - p.base) - outer * p.outer_pitch;
        let turn = rest / p.turn_pitch;
        let at = rest - turn * p.turn_pitch;
        let i = (outer * p.turns + turn) * p.run + at;
        if turn < p.turns && at < p.run && i < p.head.count {
            old = (old & ~(mask << (bits * k))) | (encode(value(i)) << (bits * k));
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
