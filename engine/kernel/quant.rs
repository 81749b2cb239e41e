//! Quantized weights.

use super::Kernel;

/// Not written yet.
pub static QUANTIZED_MATMUL: Kernel = Kernel::unwritten();
/// Not written yet.
pub static DEQUANTIZE: Kernel = Kernel::unwritten();
/// Not written yet.
pub static GATHER_QMM: Kernel = Kernel::unwritten();
