// Fills words: even ones with `low`, odd ones with `high`.

struct Params {
    head: Head,      // count: words
    low: u32,
    high: u32,
    pad0: u32,
    pad1: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(w: u32) -> Out {
    return select(p.low, p.high, (w & 1u) != 0u);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
