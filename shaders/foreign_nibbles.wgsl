// Codes of four bits, two to a byte, the first in the high half. Roles when packing: a the values, b the
// boundaries; when unpacking: a the bytes, b the levels, c a factor per row. All are row-major.

struct Params {
    head: Head,
    a_offset: u32,
    b_offset: u32,
    c_offset: u32,
    columns: u32,
    b_stride: i32,
    pad_0: u32,
    pad_1: u32,
    pad_2: u32,
}
@group(0) @binding(4) var<uniform> p: Params;

override A_SPACE: u32 = 0u;
override B_SPACE: u32 = 0u;
override C_SPACE: u32 = 0u;

fn level(i: u32) -> Calc { return load_b(B_SPACE, p.b_offset + u32(i32(i) * p.b_stride)); }
