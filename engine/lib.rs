//! lowtide.
pub mod dtype;
pub mod error;
pub mod gpu;
pub mod kernel;
pub mod limits;
pub mod op;
pub mod plan;
pub mod program;
pub mod table;
