// Convolution over up to three axes, a thread per output word: x [batch, depth, height, width, channels], weights
// [out channels, depth, height, width, channels of a group].

struct Params {
    head: Head,
    // Strides by batch entry or out channel, depth, height, width.
    x: vec4<i32>,
    w: vec4<i32>,
    // Strides of the channels, first elements.
    x_col: i32,
    w_col: i32,
    x_offset: u32,
    w_offset: u32,
    // Depth, height, width; then input channels of a group.
    size: vec4<i32>,
    // Depth, height, width; then output channels of a group.
    kernel: vec4<i32>,
    stride: vec4<i32>,
    pad: vec4<i32>,
    dilation: vec4<i32>,
    // Depth, height, width, channels.
    out: vec4<i32>,
    // Sizes as a product of matrices, for mm_tile.wgsl.
    m: u32,
    n: u32,
    k: u32,
    unused: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

override A_SPACE: u32 = 0u;
override B_SPACE: u32 = 1u;
// The transpose: x is spread by the stride, and the sum runs over the places that reach an output.
override TRANSPOSED: u32 = 0u;

// The input place that kernel place `k` meets at output place `o`; `-1` for none.
fn meet(o: i32, k: i32, axis: i32) -> i32 {
    if TRANSPOSED != 0u {
        let t = o + p.pad[axis] - k * p.dilation[axis];
        if t < 0 || t % p.stride[axis] != 0 { return -1; }
        let i = t / p.stride[axis];
        return select(-1, i, i < p.size[axis]);
    }
    let i = o * p.stride[axis] - p.pad[axis] + k * p.dilation[axis];
    return select(-1, i, i >= 0 && i < p.size[axis]);
}

// Batch entry and place of row `m` of the output.
fn output_place(m: i32) -> vec4<i32> {
    var rest = m;
    let x = rest % p.out.z;
    rest /= p.out.z;
    let y = rest % p.out.y;
    rest /= p.out.y;
    return vec4<i32>(rest / p.out.x, rest % p.out.x, y, x);
}
