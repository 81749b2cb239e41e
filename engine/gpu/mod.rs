//! The only part that knows wgpu: the device, weights, compiled variants, recording and submission.

pub mod device;
pub mod pipelines;
pub mod record;
pub mod submit;
pub mod weights;

pub use device::{AdapterFacts, Gpu, GpuOptions};
