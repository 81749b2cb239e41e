// Products with few rows on the left: a workgroup makes COLS columns of all ROWS rows of a batch entry. Its
// lanes split the sum in runs of eight, so that neighbouring lanes read neighbouring words of the weights.

override ROWS: u32 = 1u;
override PER_WORD: u32 = 1u;
const COLS: u32 = 8u;
const THREADS: u32 = 64u;

var<workgroup> parts: array<f32, 2048>;
var<private> base: u32;

fn value(i: u32) -> Out {
    return to_out(parts[i - base]);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let per_batch = (p.n + COLS - 1u) / COLS;
    let number = group_index(group, groups);
    let batch = number / per_batch;
    let n0 = (number - batch * per_batch) * COLS;
    let live = batch * p.m * p.n < p.head.count;
    var sums: array<f32, 32>;
    var at = vec4<u32>(0u);
    if live {
        at = locate(batch);
        let units = p.k / 8u;
        for (var u = lane; u < units; u += THREADS) {
            var x: array<Eight, 4>;
            var total: array<f32, 4>;
            for (var m = 0u; m < ROWS; m++) {
                x[m] = a_eight(at, m, u);
                total[m] = dot(x[m].low, vec4<f32>(1.0)) + dot(x[m].high, vec4<f32>(1.0));
            }
            for (var c = 0u; c < COLS; c++) {
                let n = min(n0 + c, p.n - 1u);
                let w = b_eight(at, n, u);
                for (var m = 0u; m < ROWS; m++) {
                    sums[m * COLS + c] += dot_eight(at, n, u, w, x[m], total[m]);
                }
            }
        }
    }
    // Fold 64 partial sums of each output to 8, then to one.
    for (var v = 0u; v < ROWS * COLS; v++) {
        parts[v * THREADS + lane] = sums[v];
    }
    workgroupBarrier();
    var folded: array<f32, 4>;
    for (var r = 0u; r < ROWS; r++) {
        let first = (r * THREADS + lane) * 8u;
        var s = 0.0;
        for (var j = 0u; j < 8u; j++) {
            s += parts[first + j];
        }
        folded[r] = s;
    }
    workgroupBarrier();
    for (var r = 0u; r < ROWS; r++) {
        parts[r * THREADS + lane] = folded[r];
    }
    workgroupBarrier();
    var done = 0.0;
    let m = lane / COLS;
    let c = lane % COLS;
    if lane < ROWS * COLS {
        for (var j = 0u; j < 8u; j++) {
            done += parts[lane * 8u + j];
        }
        if live && n0 + c < p.n {
            done = finish(at, m, n0 + c, done);
        }
    }
    workgroupBarrier();
    parts[lane] = done;
    workgroupBarrier();
    // One thread per output word of the rows' pieces.
    let pieces = COLS / PER_WORD;
    if live && lane < ROWS * pieces {
        let row = lane / pieces;
        let n = n0 + (lane % pieces) * PER_WORD;
        if n < p.n {
            let i = (batch * p.m + row) * p.n + n;
            base = i - (row * COLS + n - n0);
            store(i / PER_WORD);
        }
    }
}
