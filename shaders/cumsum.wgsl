// Running sums along an axis, written as whole words: a thread per row, or a workgroup per long row.

struct Params {
    head: Head,
    a: Arg,
    n: u32,
    col: i32,
    inner: u32,
    rows: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

override X_SPACE: u32 = 0u;
override REVERSE: u32 = 0u;
override EXCLUSIVE: u32 = 0u;
override GROUP: u32 = 0u;

const THREADS: u32 = 64u;
var<workgroup> parts: array<Calc, 64>;

fn place(j: u32) -> u32 {
    if REVERSE != 0u { return p.n - 1u - j; }
    return j;
}

fn x_at(start: u32, j: u32) -> Calc {
    return load_a(X_SPACE, start + u32(i32(place(j)) * p.col));
}

// The store of a pull kernel is not used: a thread writes many elements.
fn value(i: u32) -> Out {
    return to_out(c_zero());
}

fn write_row(row: u32, j: u32, v: Calc) {
    let outer = row / p.inner;
    let i = (outer * p.n + place(j)) * p.inner + (row - outer * p.inner);
    write_element(i, to_out(v));
}

fn run(row: u32, start: u32, first: u32, last: u32, before: Calc) {
    var sum = before;
    for (var j = first; j < last; j++) {
        let next = c_add(sum, x_at(start, j));
        if EXCLUSIVE != 0u {
            write_row(row, j, sum);
        } else {
            write_row(row, j, next);
        }
        sum = next;
    }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = group_index(group, groups);
    if GROUP == 0u {
        let row = number * THREADS + lane;
        if row < p.rows {
            run(row, element(p.head, p.a, row), 0u, p.n, c_zero());
        }
        return;
    }
    let live = number < p.rows;
    var start = 0u;
    if live {
        start = element(p.head, p.a, number);
    }
    let each = (p.n + THREADS - 1u) / THREADS;
    let first = min(lane * each, p.n);
    let last = select(first, min(first + each, p.n), live);
    var sum = c_zero();
    for (var j = first; j < last; j++) {
        sum = c_add(sum, x_at(start, j));
    }
    parts[lane] = sum;
    workgroupBarrier();
    var before = c_zero();
    for (var j = 0u; j < lane; j++) {
        before = c_add(before, parts[j]);
    }
    if live {
        run(number, start, first, last, before);
    }
}
