//! lowtide runs ExecuTorch programs lowered by the MLX delegate on any GPU, through wgpu.
//!
//! A [`Model`] is a checked file, an [`Engine`] a device, a [`Bound`] program has its weights on the
//! device, and a [`Session`] holds one user's state. Memory is planned before a run and nothing is
//! kept longer than its last use.

pub mod dtype;
pub mod error;
pub mod gpu;
pub mod kernel;
pub mod limits;
pub mod op;
pub mod plan;
pub mod program;
pub mod report;
pub mod session;
pub mod table;
#[cfg(feature = "verify")]
pub mod verify;

pub use error::{Error, ErrorKind, Result};
pub use program::model::{Model, ModelOptions};
pub use report::MemoryReport;
pub use session::{
    BindOptions, Bound, Engine, EngineOptions, Item, PlanOptions, RunFacts, Session, SessionOptions, Tensor, Want,
};
