//! A whole file: its methods and the checked graphs of their delegates.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::program::Bytes;
use crate::program::cache::{CacheConfig, attach, from_methods};
use crate::program::check::{Checked, check};
use crate::program::load::load;
use crate::program::pte::{Container, Method, PlanValue};

/// A loaded and checked program. Cheap to clone; shared between threads.
#[derive(Clone)]
pub struct Model {
    inner: Arc<Inner>,
}

/// What a caller may say about a file.
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// The key-value cache of a program that leaves it to its runtime; the file's constant methods describe it
    /// where this does not.
    pub cache: Option<CacheConfig>,
}

struct Inner {
    container: Container,
    graphs: Vec<Checked>,
    /// Per method: the first of its delegates' graphs.
    first: Vec<usize>,
}

impl Model {
    /// Opens a file. Weights stay on disk until a program is bound.
    ///
    /// # Errors
    /// When the file cannot be read, is malformed, or asks for something lowtide does not do.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &ModelOptions::default())
    }

    /// As [`Model::open`], with what the caller knows and the file does not say.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Self> {
        let path = path.as_ref();
        Self::from_container(Container::open(path)?, options).map_err(|e| e.at(path.display()))
    }

    /// Loads a program from memory.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::from_container(Container::parse(Arc::new(bytes))?, &ModelOptions::default())
    }

    fn from_container(container: Container, options: &ModelOptions) -> Result<Self> {
        let cache = options.cache.clone().or_else(|| from_methods(&container));
        let mut graphs = Vec::new();
        let mut first = Vec::new();
        let mut seen: Vec<(Range<usize>, usize)> = Vec::new();
        for m in &container.methods {
            first.push(graphs.len());
            for (i, d) in m.delegates.iter().enumerate() {
                let at = |e: Error| e.at(format!("method {}, delegate {i}", m.name));
                let bytes = (*container.bytes).as_ref();
                let payload = bytes
                    .get(d.payload.clone())
                    .ok_or_else(|| at(Error::malformed("the payload lies outside of the file")))?;
                seen.push((d.payload.clone(), graphs.len()));
                let graph = load(payload).and_then(|g| attach(g, cache.as_ref()));
                graphs.push(graph.and_then(|g| check(g, &container.named)).map_err(at)?);
            }
        }
        Ok(Self { inner: Arc::new(Inner { container, graphs, first }) })
    }

    /// The container's tables.
    pub fn container(&self) -> &Container {
        &self.inner.container
    }
    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        (*self.inner.container.bytes).as_ref()
    }
    /// The file's bytes, shared.
    pub(crate) fn source(&self) -> &Bytes {
        &self.inner.container.bytes
    }
    /// Names of the methods.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        self.inner.container.methods.iter().map(|m| m.name.as_str())
    }
    /// A method and its number.
    ///
    /// # Errors
    /// When there is none of this name; the message lists those there are.
    pub fn method(&self, name: &str) -> Result<(usize, &Method)> {
        self.inner.container.methods.iter().enumerate().find(|(_, m)| m.name == name).ok_or_else(|| {
            Error::input(format!("there is no method {name:?}; the file has {:?}", self.methods().collect::<Vec<_>>()))
        })
    }
    /// The graphs of all delegates of all methods.
    pub fn graphs(&self) -> &[Checked] {
        &self.inner.graphs
    }
    /// The number of a method's first graph among [`Model::graphs`].
    pub fn first_graph(&self, method: usize) -> usize {
        self.inner.first[method]
    }
    /// The integer that a constant method such as `get_max_ctx_len` returns, if the file has it.
    pub fn constant(&self, method: &str) -> Option<i64> {
        let (_, m) = self.method(method).ok()?;
        match (m.calls.is_empty(), m.outputs.as_slice()) {
            (true, [out]) => match m.values.get(*out)? {
                PlanValue::Int(v) => Some(*v),
                PlanValue::Bool(v) => Some(i64::from(*v)),
                _ => None,
            },
            _ => None,
        }
    }
}
