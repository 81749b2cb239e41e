//! Language models: from a program's inputs and outputs to text.

pub(crate) mod chat;
pub(crate) mod model;
pub(crate) mod sampling;
pub(crate) mod text_stream;
pub(crate) mod tokens;
