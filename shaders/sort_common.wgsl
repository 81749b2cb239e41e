// What sorting passes share: rows along an axis, and indices of their elements in row-major tensors.

struct Params {
    // Over the rows; the output is that of the pass.
    head: Head,
    // The first element of each row.
    a: Arg,
    stride: i32,
    // Elements of a row, and after the axis.
    n: u32,
    inner: u32,
    // Elements of a sorted run.
    width: u32,
    // Indices that the pass reads.
    space: u32,
    word: u32,
    pad_0: u32,
    pad_1: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

// The place of element j of a row in a row-major tensor.
fn place(row: u32, j: u32) -> u32 {
    let outer = row / p.inner;
    return (outer * p.n + j) * p.inner + (row - outer * p.inner);
}

fn key_below(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x < b.x || (a.x == b.x && a.y < b.y);
}

// For the store, which passes of sorting do not use.
fn value(i: u32) -> Out { return i; }
