// Folds of two passes, in binary32: variance, deviation, log of a sum of exponentials, median.

// 0 variance, 1 standard deviation, 2 log of the sum of exponentials, 3 median.
override OP: u32 = 0u;
override GROUP: u32 = 0u;

var<workgroup> counts: array<u32, 64>;
var<workgroup> done: array<f32, 4>;
var<private> base: u32;

// Within a workgroup every lane folds a part; a thread on its own folds all.
fn all_sum(v: f32, lane: u32) -> f32 {
    if GROUP != 0u { return fold_sum(v, lane); }
    return v;
}
fn all_max(v: f32, lane: u32) -> f32 {
    if GROUP != 0u { return fold_max(v, lane); }
    return v;
}
fn all_count(v: u32, lane: u32) -> u32 {
    if GROUP == 0u { return v; }
    workgroupBarrier();
    counts[lane] = v;
    workgroupBarrier();
    var s = 0u;
    for (var j = 0u; j < THREADS; j++) {
        s += counts[j];
    }
    return s;
}

fn spread(start: u32, lane: u32, step: u32, live: bool) -> f32 {
    let n = select(0u, p.count, live);
    var s = 0.0;
    for (var r = lane; r < n; r += step) {
        s += x_at(start, r);
    }
    let mean = all_sum(s, lane) / f32(p.count);
    var v = 0.0;
    for (var r = lane; r < n; r += step) {
        let d = x_at(start, r) - mean;
        v += d * d;
    }
    v = all_sum(v, lane) / f32(max(i32(p.count) - p.ddof, 0));
    if OP == 1u { return sqrt(v); }
    return v;
}

fn log_sum(start: u32, lane: u32, step: u32, live: bool) -> f32 {
    let n = select(0u, p.count, live);
    var m = -3.40282347e38;
    for (var r = lane; r < n; r += step) {
        m = max(m, x_at(start, r));
    }
    m = all_max(m, lane);
    var s = 0.0;
    for (var r = lane; r < n; r += step) {
        s += expo(x_at(start, r) - m);
    }
    s = all_sum(s, lane);
    if is_inf(m) { return m; }
    return log_f32(s) + m;
}

// Orders floats as unsigned integers.
fn key(x: f32) -> u32 {
    let b = bitcast<u32>(x);
    return b ^ select(0x80000000u, 0xffffffffu, (b >> 31u) != 0u);
}

fn count_below(start: u32, lane: u32, step: u32, n: u32, limit: u32) -> u32 {
    var c = 0u;
    for (var r = lane; r < n; r += step) {
        c += select(0u, 1u, key(x_at(start, r)) < limit);
    }
    return all_count(c, lane);
}

// The element of rank `k`, bit by bit.
fn ranked(start: u32, lane: u32, step: u32, n: u32, k: u32) -> f32 {
    var found = 0u;
    for (var bit = 0u; bit < 32u; bit++) {
        let next = found | (0x80000000u >> bit);
        if count_below(start, lane, step, n, next) <= k {
            found = next;
        }
    }
    return bitcast<f32>(found ^ select(0xffffffffu, 0x80000000u, (found >> 31u) != 0u));
}

fn median(start: u32, lane: u32, step: u32, live: bool) -> f32 {
    let n = select(0u, p.count, live);
    var bad = 0u;
    for (var r = lane; r < n; r += step) {
        bad += select(0u, 1u, is_nan(x_at(start, r)));
    }
    let nans = all_count(bad, lane);
    let high = ranked(start, lane, step, n, p.count / 2u);
    var low = high;
    if (p.count & 1u) == 0u {
        low = ranked(start, lane, step, n, p.count / 2u - 1u);
    }
    if nans != 0u { return nan_f32(); }
    return 0.5 * low + 0.5 * high;
}

fn fold(start: u32, lane: u32, step: u32, live: bool) -> f32 {
    if OP == 2u { return log_sum(start, lane, step, live); }
    if OP == 3u { return median(start, lane, step, live); }
    return spread(start, lane, step, live);
}

fn value(i: u32) -> Out {
    if GROUP != 0u {
        return to_out(done[i - base]);
    }
    return to_out(fold(element(p.head, p.a, i), 0u, 1u, true));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = group_index(group, groups);
    if GROUP == 0u {
        store(number * THREADS + lane);
        return;
    }
    base = number * PER_WORD;
    for (var e = 0u; e < PER_WORD; e++) {
        let live = base + e < p.head.count;
        var start = 0u;
        if live {
            start = element(p.head, p.a, base + e);
        }
        let v = fold(start, lane, THREADS, live);
        if lane == 0u {
            done[e] = v;
        }
    }
    workgroupBarrier();
    if lane == 0u {
        store(number);
    }
}
