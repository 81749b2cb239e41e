//! Values that go into and come out of a method.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::View;

/// A row-major tensor in host memory, little endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub dims: Vec<usize>,
    /// Elements.
    pub bytes: Vec<u8>,
}

/// An argument or a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A tensor.
    Tensor(Tensor),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// A string.
    Text(String),
    /// Integers.
    Ints(Vec<i64>),
    /// Nothing.
    None,
}

impl Tensor {
    /// A tensor of raw bytes.
    ///
    /// # Errors
    /// When the byte count does not fit sizes and type.
    pub fn new(dtype: DType, dims: &[usize], bytes: Vec<u8>) -> Result<Self> {
        let wanted = dims.iter().try_fold(dtype.size(), |a, &d| a.checked_mul(d));
        if wanted != Some(bytes.len()) {
            return Err(Error::input(format!(
                "{} bytes for a {dtype} tensor of shape {dims:?}, which takes {wanted:?}",
                bytes.len()
            )));
        }
        Ok(Self { dtype, dims: dims.to_vec(), bytes })
    }
    /// An `i64` tensor.
    pub fn from_i64(dims: &[usize], values: &[i64]) -> Self {
        Self { dtype: DType::I64, dims: dims.to_vec(), bytes: bytemuck::cast_slice(values).to_vec() }
    }
    /// An `f32` tensor.
    pub fn from_f32(dims: &[usize], values: &[f32]) -> Self {
        Self { dtype: DType::F32, dims: dims.to_vec(), bytes: bytemuck::cast_slice(values).to_vec() }
    }
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }
    /// The elements as `f64`, whatever the type. 64-bit integers beyond 2^53 lose their low bits.
    pub fn to_f64(&self) -> Vec<f64> {
        self.bytes.chunks_exact(self.dtype.size()).map(|b| element(self.dtype, b)).collect()
    }
    /// The elements as `f32`.
    pub fn to_f32(&self) -> Vec<f32> {
        self.to_f64().into_iter().map(|v| v as f32).collect()
    }
    /// The elements as `i64`; floats truncate.
    pub fn to_i64(&self) -> Vec<i64> {
        self.bytes
            .chunks_exact(self.dtype.size())
            .map(|b| crate::gpu::record::integer(self.dtype, b).unwrap_or(0))
            .collect()
    }
    /// The same elements in another type, by the delegate's rules for outputs: floats to integers truncate,
    /// wider integers keep their low bits.
    pub fn cast(self, to: DType) -> Self {
        if self.dtype == to {
            return self;
        }
        let mut bytes = Vec::with_capacity(self.count() * to.size());
        for b in self.bytes.chunks_exact(self.dtype.size()) {
            if to.is_float() {
                let v = element(self.dtype, b);
                match to {
                    DType::F16 => bytes.extend(half::f16::from_f64(v).to_le_bytes()),
                    DType::BF16 => bytes.extend(half::bf16::from_f64(v).to_le_bytes()),
                    _ => bytes.extend((v as f32).to_le_bytes()),
                }
            } else if to == DType::Bool {
                bytes.push(u8::from(element(self.dtype, b) != 0.0));
            } else {
                let v = crate::gpu::record::integer(self.dtype, b).unwrap_or(0);
                bytes.extend(&v.to_le_bytes()[..to.size()]);
            }
        }
        Self { dtype: to, dims: self.dims, bytes }
    }
}

/// One element as `f64`.
fn element(dtype: DType, b: &[u8]) -> f64 {
    match (dtype, b) {
        (DType::F32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        (DType::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f64(),
        (DType::BF16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f64(),
        _ => crate::gpu::record::integer(dtype, b).unwrap_or(0) as f64,
    }
}

/// Gathers a view's elements in row-major order from bytes that begin at the view's first element.
pub(crate) fn gather(view: &View, bytes: &[u8]) -> Vec<u8> {
    let size = view.dtype.size();
    if view.is_contiguous() {
        return bytes[..view.bytes()].to_vec();
    }
    let mut out = Vec::with_capacity(view.bytes());
    let mut index = vec![0usize; view.rank()];
    for _ in 0..view.count() {
        let at: isize = index.iter().zip(&view.strides).map(|(&i, &s)| i as isize * s).sum();
        let at = at as usize * size;
        out.extend_from_slice(&bytes[at..at + size]);
        for k in (0..index.len()).rev() {
            index[k] += 1;
            if index[k] < view.dims[k] {
                break;
            }
            index[k] = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_follow_the_delegate() {
        let t = Tensor::from_f32(&[3], &[1.9, -2.5, 0.0]);
        assert_eq!(t.clone().cast(DType::I64).to_i64(), [1, -2, 0]);
        assert_eq!(t.clone().cast(DType::Bool).bytes, [1, 1, 0]);
        assert_eq!(t.cast(DType::BF16).to_f32(), [1.8984375, -2.5, 0.0]);
        let t = Tensor::from_i64(&[1], &[(1 << 32) + 5]);
        assert_eq!(t.cast(DType::I32).to_i64(), [5]);
    }

    #[test]
    fn sizes_are_checked() {
        assert!(Tensor::new(DType::F32, &[2, 2], vec![0; 12]).is_err());
        assert!(Tensor::new(DType::F32, &[usize::MAX, 8], vec![]).is_err());
    }

    #[test]
    fn strided_bytes_gather_in_order() {
        let mut v = View::contiguous(DType::U8, &[2, 3]);
        v.strides = [1isize, 2].into_iter().collect();
        assert_eq!(gather(&v, &[0, 1, 2, 3, 4, 5]), [0, 2, 4, 1, 3, 5]);
    }
}
