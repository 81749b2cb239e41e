// Reductions: output elements are numbered over the kept dims; `reduced` splits the rest.

struct Params {
    head: Head,
    a: Arg,
    count: u32,
    rank: u32,
    ddof: i32,
    pad: u32,
    dims: array<vec4<u32>, 2>,
    strides: array<vec4<i32>, 2>,
}
@group(0) @binding(4) var<uniform> p: Params;

override X_SPACE: u32 = 0u;
override PER_WORD: u32 = 1u;

// Element number `r` of those that one output element is made of; `start` is the first.
fn x_at(start: u32, r: u32) -> Calc {
    var at = i32(start);
    if p.rank == 1u {
        at += i32(r) * p.strides[0].x;
    } else {
        var rest = r;
        for (var k = i32(p.rank) - 1; k >= 0; k--) {
            let d = p.dims[k >> 2u][k & 3];
            let q = rest / d;
            at += i32(rest - q * d) * p.strides[k >> 2u][k & 3];
            rest = q;
        }
    }
    return load_a(X_SPACE, u32(at));
}
