//! Random bits.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::{Pod, Zeroable};

use super::emit::{Head, threads_for};
use super::fill::sizes;
use super::map::pull;
use super::{Alias, Call, Emit, Kernel, Outs, Shader, Variant};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::fields;

/// `RandomBits`.
pub static RANDOM_BITS: Kernel = Kernel::new(Alias::Fresh, random_shape, random_bits);

static SHADER: Shader = Shader { name: "random_bits", text: include_str!("../../shaders/random_bits.wgsl"), uses: &[] };

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RandomParams {
    head: Head,
    key: [u32; 2],
    pad: [u32; 2],
}

fn random_shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::random_bits as f;
    let dtype = match c.int(f::width)? {
        1 => DType::U8,
        4 => DType::U32,
        2 => return Err(Error::unsupported("width 2 makes 16-bit unsigned integers, which lowtide does not have")),
        other => return Err(Error::malformed(format!("width {other}; 1, 2 or 4 bytes are known"))),
    };
    let dims = sizes(c, f::shape, dtype)?;
    out.fresh(c, f::out, dtype, &dims);
    Ok(())
}

/// The seed of a call that names none: another one each time, and in each process.
fn fresh_seed() -> u64 {
    static FIRST: OnceLock<u64> = OnceLock::new();
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let first = *FIRST.get_or_init(|| RandomState::new().build_hasher().finish());
    first.wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn random_bits(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    use fields::random_bits as f;
    let out = e.tensor(c, f::out)?;
    // A negative seed is widened with its sign, as the delegate does.
    let seed = if c.has(f::seed) { c.int(f::seed)? as u64 } else { fresh_seed() };
    let words = threads_for(out.view.count(), out.view.dtype) as usize;
    let params = RandomParams { head: Head::new(&out, &[words]), key: [(seed >> 32) as u32, seed as u32], pad: [0; 2] };
    pull(e, &Variant::new(&SHADER, DType::U32.calc(), DType::U32), &params, &params.head, DType::U32);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::emit::validate;
    use super::*;

    #[test]
    fn the_variant_is_valid() {
        validate(&Variant::new(&SHADER, DType::U32.calc(), DType::U32));
    }

    #[test]
    fn seeds_differ_between_calls() {
        assert_ne!(fresh_seed(), fresh_seed());
    }
}
