// Folds over the lanes of a workgroup: every lane gets the result. Two steps through workgroup memory.

override THREADS: u32 = 64u;
// The square root of THREADS.
override SIDE: u32 = 8u;

var<workgroup> lane_parts: array<f32, 256>;
var<workgroup> side_parts: array<f32, 16>;

fn fold_sum(v: f32, lane: u32) -> f32 {
    lane_parts[lane] = v;
    workgroupBarrier();
    if lane < SIDE {
        var s = 0.0;
        for (var j = 0u; j < SIDE; j++) {
            s += lane_parts[lane * SIDE + j];
        }
        side_parts[lane] = s;
    }
    workgroupBarrier();
    var s = 0.0;
    for (var j = 0u; j < SIDE; j++) {
        s += side_parts[j];
    }
    return s;
}

fn fold_max(v: f32, lane: u32) -> f32 {
    lane_parts[lane] = v;
    workgroupBarrier();
    if lane < SIDE {
        var s = lane_parts[lane * SIDE];
        for (var j = 1u; j < SIDE; j++) {
            s = max(s, lane_parts[lane * SIDE + j]);
        }
        side_parts[lane] = s;
    }
    workgroupBarrier();
    var s = side_parts[0];
    for (var j = 1u; j < SIDE; j++) {
        s = max(s, side_parts[j]);
    }
    return s;
}
