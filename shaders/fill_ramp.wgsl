// out[i] = start + i * step in 64 bits, as the output stores it: constants (step 0, of raw bits) and ranges.

struct Params {
    head: Head,
    start: vec2<u32>,
    step: vec2<u32>,
}
@group(0) @binding(4) var<uniform> p: Params;

fn value(i: u32) -> Out {
    return to_out(i64_add(p.start, i64_mul(vec2<u32>(i, 0u), p.step)));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
