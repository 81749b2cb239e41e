// The place of the largest or smallest element along an axis; the first of equals, and the first NaN before all.

override LEAST: u32 = 0u;
override GROUP: u32 = 0u;

const THREADS: u32 = 64u;

struct Best {
    v: Calc,
    at: u32,
}

var<workgroup> best_v: array<Calc, 64>;
var<workgroup> best_at: array<u32, 64>;
var<private> found: u32;

fn beats(a: Best, b: Best) -> bool {
    if a.at == 0xffffffffu { return false; }
    if b.at == 0xffffffffu { return true; }
    let na = c_nan(a.v);
    let nb = c_nan(b.v);
    if na != nb { return na; }
    if !na {
        let more = select(c_less(b.v, a.v), c_less(a.v, b.v), LEAST != 0u);
        let less = select(c_less(a.v, b.v), c_less(b.v, a.v), LEAST != 0u);
        if more != less { return more; }
    }
    return a.at < b.at;
}

fn best(start: u32, first: u32, step: u32) -> Best {
    var b = Best(c_zero(), 0xffffffffu);
    for (var r = first; r < p.count; r += step) {
        let c = Best(x_at(start, r), r);
        if beats(c, b) { b = c; }
    }
    return b;
}

fn value(i: u32) -> u32 {
    if GROUP != 0u { return found; }
    return best(element(p.head, p.a, i), 0u, 1u).at;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = group_index(group, groups);
    if GROUP == 0u {
        store(number * THREADS + lane);
        return;
    }
    var b = Best(c_zero(), 0xffffffffu);
    if number < p.head.count {
        b = best(element(p.head, p.a, number), lane, THREADS);
    }
    best_v[lane] = b.v;
    best_at[lane] = b.at;
    workgroupBarrier();
    if lane == 0u {
        for (var j = 1u; j < THREADS; j++) {
            let c = Best(best_v[j], best_at[j]);
            if beats(c, b) { b = c; }
        }
        found = b.at;
        store(number);
    }
}
