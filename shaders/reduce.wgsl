// Folds of one pass: sums, products, extremes, tests.

// 0 sum, 1 prod, 2 max, 3 min, 4 any, 5 all, 6 mean.
override OP: u32 = 0u;
// Whether a workgroup makes each output word together; else a thread makes it alone.
override GROUP: u32 = 0u;

const THREADS: u32 = 64u;
// Sums are added up in runs, so that their error grows with the root of the count.
const RUN: u32 = 64u;

var<workgroup> parts: array<Calc, 64>;
var<workgroup> sides: array<Calc, 8>;
var<workgroup> done: array<Calc, 4>;
var<private> base: u32;

fn first_value() -> Calc {
    if OP == 1u || OP == 5u { return c_one(); }
    if OP == 2u { return c_lowest(); }
    if OP == 3u { return c_highest(); }
    return c_zero();
}

fn join(a: Calc, b: Calc) -> Calc {
    if OP == 1u || OP == 5u { return c_mul(a, b); }
    if OP == 2u {
        if c_nan(a) || (!c_nan(b) && !c_less(a, b)) { return a; }
        return b;
    }
    if OP == 3u {
        if c_nan(a) || (!c_nan(b) && !c_less(b, a)) { return a; }
        return b;
    }
    if OP == 4u {
        if c_true(a) { return a; }
        return b;
    }
    return c_add(a, b);
}

fn take(v: Calc) -> Calc {
    if OP == 4u || OP == 5u {
        if c_true(v) { return c_one(); }
        return c_zero();
    }
    return v;
}

// Folds elements `from`, `from + step`, ...
fn fold(start: u32, first: u32, step: u32) -> Calc {
    var total = first_value();
    var r = first;
    while r < p.count {
        var run = first_value();
        for (var j = 0u; j < RUN && r < p.count; j++) {
            run = join(run, take(x_at(start, r)));
            r += step;
        }
        total = join(total, run);
    }
    return total;
}

fn finish(v: Calc) -> Out {
    if OP == 6u { return to_out(c_over(v, p.count)); }
    return to_out(v);
}

fn value(i: u32) -> Out {
    if GROUP != 0u {
        return finish(done[i - base]);
    }
    return finish(fold(element(p.head, p.a, i), 0u, 1u));
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
        var v = first_value();
        if base + e < p.head.count {
            v = fold(element(p.head, p.a, base + e), lane, THREADS);
        }
        parts[lane] = v;
        workgroupBarrier();
        if lane < 8u {
            var s = first_value();
            for (var j = 0u; j < 8u; j++) {
                s = join(s, parts[lane * 8u + j]);
            }
            sides[lane] = s;
        }
        workgroupBarrier();
        if lane == 0u {
            var s = first_value();
            for (var j = 0u; j < 8u; j++) {
                s = join(s, sides[j]);
            }
            done[e] = s;
        }
    }
    workgroupBarrier();
    if lane == 0u {
        store(number);
    }
}
