// out[i] = start + i * step.

struct Params {
    head: Head,
    start: vec4<f32>,        // x: start, y: step
    whole: vec4<u32>,        // start and step as 64-bit integers
}
@group(0) @binding(4) var<uniform> p: Params;

// Integers wrap; a float adds in f32.
fn value(i: u32) -> Out {
    return arange_at(i);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    store(group_index(group, groups) * 64u + lane);
}
