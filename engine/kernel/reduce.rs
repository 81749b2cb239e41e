//! Reductions over axes.

use bytemuck::{Pod, Zeroable};

use super::emit::{Arg, Head, Tensor, collapse, fold};
use super::{Emit, Kernel, Shader, Variant};

/// Not written yet.
pub static REDUCE: Kernel = Kernel::unwritten();
/// Not written yet.
pub static ARG: Kernel = Kernel::unwritten();
/// Not written yet.
pub static CUMSUM: Kernel = Kernel::unwritten();

static CAST: Shader = Shader {
    name: "map_unary",
    text: include_str!("../../shaders/map_unary.wgsl"),
    uses: &[include_str!("../../shaders/ops_unary.wgsl")],
};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct CastParams {
    head: Head,
    a: Arg,
}

/// Converts the elements of a tensor of any layout into a row-major one of the same sizes.
pub(super) fn cast(e: &mut Emit<'_>, from: &Tensor, to: &Tensor) {
    let (dims, [s]) = collapse(&from.view.dims, [&from.view.strides]);
    let params =
        CastParams { head: Head::new(to, &dims), a: Arg::new(from.space, from.offset, &s, from.view.is_contiguous()) };
    let variant = Variant::new(&CAST, from.view.dtype.calc(), to.view.dtype).func("cast").inputs(&[from.view.dtype]);
    e.dispatch_2d(&variant, &params, fold(params.head.threads(to.view.dtype).div_ceil(64)));
}

/// Lanes of a workgroup that folds rows of `n` elements, and their square root (`lanes.wgsl`).
pub(super) fn row_lanes(n: usize, caps: super::emit::Caps) -> [u32; 2] {
    if n >= 1024 && !caps.software && caps.workgroup_threads >= 256 { [256, 16] } else { [64, 8] }
}
