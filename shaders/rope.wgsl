// Rotary position embedding of the first `dims` elements of each row; the rest is copied.

struct Params {
    head: Head,
    a: Arg,
    // Elements of a batch entry, positions of a head, elements of a row, elements that turn.
    entry: u32,
    len: u32,
    width: u32,
    dims: u32,
    col: i32,
    scale: f32,
    // The binary logarithm of the ratio of neighbouring frequencies: a short part and the rest.
    step: f32,
    step_rest: f32,
    // Where the offset is: its words and their distance by batch entry; or itself.
    offset_space: u32,
    offset: i32,
    offset_col: i32,
    freq_space: u32,
    freq: u32,
    freq_col: i32,
    pad: vec2<u32>,
}
@group(0) @binding(4) var<uniform> p: Params;

override X_SPACE: u32 = 0u;
override PAIRS: u32 = 0u;
override HAS_FREQS: u32 = 0u;
override HAS_OFFSET: u32 = 0u;

// base^(-i / half), with an exponent exact to more than 24 bits.
fn frequency(i: u32) -> f32 {
    if HAS_FREQS != 0u {
        return 1.0 / load_b(p.freq_space, p.freq + u32(i32(i) * p.freq_col));
    }
    let n = f32(i);
    let e = n * p.step;
    let whole = round(e);
    let rest = (e - whole) + n * p.step_rest;
    return expo(rest * -0.69314718) * bitcast<f32>(u32(127 - i32(whole)) << 23u);
}

fn value(i: u32) -> Out {
    let row = i / p.width;
    let d = i - row * p.width;
    let at = element(p.head, p.a, i);
    let x = load_a(X_SPACE, at);
    if d >= p.dims {
        return to_out(x);
    }
    let half = p.dims / 2u;
    var pair = d;
    var second = false;
    var away = i32(half);
    if PAIRS != 0u {
        pair = d >> 1u;
        second = (d & 1u) != 0u;
        away = 1;
    } else if d >= half {
        pair = d - half;
        second = true;
    }
    var offset = p.offset;
    if HAS_OFFSET != 0u {
        offset = bitcast<i32>(rd(p.offset_space, u32(p.offset + i32(i / p.entry) * p.offset_col)));
    }
    let position = f32(i32(row % p.len) + offset) * p.scale;
    let angle = position * frequency(pair);
    let y = load_a(X_SPACE, at + u32(select(away, -away, second) * p.col));
    let s = sin_f32(angle);
    let c = cos_f32(angle);
    if second {
        return to_out(y * s + x * c);
    }
    return to_out(x * c - y * s);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
