// Products with many rows: a workgroup makes a 32 x 64 tile; both sides pass through workgroup memory in
// slices of 16 along the sum, and each thread keeps a 4 x 8 block.

override PER_WORD: u32 = 1u;
const TM: u32 = 32u;
const TN: u32 = 64u;
const TK: u32 = 16u;
// Which index of each side neighbouring lanes walk: 1 the sum, 0 the rows or columns.
override A_ALONG: u32 = 1u;
override B_ALONG: u32 = 1u;

var<workgroup> left: array<f32, 512>;
var<workgroup> right: array<f32, 2048>;
var<private> base: u32;

fn value(i: u32) -> Out {
    return to_out(right[i - base]);
}

fn load_left(at: vec4<u32>, m0: u32, k0: u32, lane: u32) {
    for (var j = lane; j < TM * TK; j += 64u) {
        var m = j % TM;
        var k = j / TM;
        if A_ALONG != 0u {
            k = j % TK;
            m = j / TK;
        }
        var v = 0.0;
        if m0 + m < p.m && k0 + k < p.k {
            v = a_at(at, m0 + m, k0 + k);
        }
        left[k * TM + m] = v;
    }
}

fn load_right(at: vec4<u32>, n0: u32, k0: u32, lane: u32) {
    for (var j = lane; j < TN * TK; j += 64u) {
        var n = j % TN;
        var k = j / TN;
        if B_ALONG != 0u {
            k = j % TK;
            n = j / TK;
        }
        var v = 0.0;
        if n0 + n < p.n && k0 + k < p.k {
            v = b_at(at, k0 + k, n0 + n);
        }
        right[k * TN + n] = v;
    }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let tiles_m = (p.m + TM - 1u) / TM;
    let tiles_n = (p.n + TN - 1u) / TN;
    let number = group_index(group, groups);
    let batch = number / (tiles_m * tiles_n);
    let tile = number - batch * tiles_m * tiles_n;
    // Neighbouring workgroups share the weights.
    let n0 = tile / tiles_m * TN;
    let m0 = (tile % tiles_m) * TM;
    let live = batch * p.m * p.n < p.head.count;
    var at = vec4<u32>(0u);
    if live {
        at = locate(batch);
    }
    let tm = lane / 8u;
    let tn = lane % 8u;
    var low: array<vec4<f32>, 4>;
    var high: array<vec4<f32>, 4>;
    for (var k0 = 0u; k0 < p.k; k0 += TK) {
        if live {
            load_left(at, m0, k0, lane);
            load_right(at, n0, k0, lane);
        }
        workgroupBarrier();
        for (var k = 0u; k < TK; k++) {
            let x = k * TN + tn * 4u;
            let wl = vec4<f32>(right[x], right[x + 1u], right[x + 2u], right[x + 3u]);
            let wh = vec4<f32>(right[x + 32u], right[x + 33u], right[x + 34u], right[x + 35u]);
            let y = k * TM + tm * 4u;
            for (var r = 0u; r < 4u; r++) {
                let a = left[y + r];
                low[r] += a * wl;
                high[r] += a * wh;
            }
        }
        workgroupBarrier();
    }
    for (var r = 0u; r < 4u; r++) {
        let m = tm * 4u + r;
        for (var c = 0u; c < 4u; c++) {
            let n = tn * 4u + c;
            var l = low[r][c];
            var h = high[r][c];
            if live && m0 + m < p.m {
                if n0 + n < p.n { l = finish(at, m0 + m, n0 + n, l); }
                if n0 + n + 32u < p.n { h = finish(at, m0 + m, n0 + n + 32u, h); }
            }
            right[m * TN + n] = l;
            right[m * TN + n + 32u] = h;
        }
    }
    workgroupBarrier();
    let pieces = TN / PER_WORD;
    for (var j = lane; j < TM * pieces; j += 64u) {
        let m = j / pieces;
        let n = (j % pieces) * PER_WORD;
        if live && m0 + m < p.m && n0 + n < p.n {
            let i = (batch * p.m + m0 + m) * p.n + n0 + n;
            base = i - (m * TN + n);
            store(i / PER_WORD);
        }
    }
}
