//! The one error type. Every error says what went wrong, where, what was wanted and what was found.

use std::fmt;

/// What kind of thing went wrong; callers branch on this, people read the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is not a well-formed program.
    Malformed,
    /// The file is well formed but asks for something lowtide does not do.
    Unsupported,
    /// A size in the file or the request passes a limit in [`crate::limits`].
    Limit,
    /// An input's count, dtype or shape does not fit the method.
    Input,
    /// A run needs more memory than its budget or the adapter allows.
    Memory,
    /// No usable adapter, or the device was lost.
    Device,
    /// The file could not be read.
    Io,
    /// A run was cancelled by its token.
    Cancelled,
}

/// An error with its place in the program. Places are added from the inside out with [`Error::at`].
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    place: Vec<String>,
}

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), place: Vec::new() }
    }
    /// The file is broken.
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Malformed, message)
    }
    /// The file wants something lowtide cannot do.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }
    /// A limit is passed.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }
    /// An input does not fit.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }
    /// Names a place that encloses the error, for example `chain c0` or `field axis`.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.place.insert(0, place.to_string());
        self
    }
    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
    /// The message without its place.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place.join(", "))?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_from_the_outside_in() {
        let e = Error::malformed("slot t9 is out of range (8 slots)").at("field x").at("i3 Add").at("chain c0");
        assert_eq!(e.to_string(), "chain c0, i3 Add, field x: slot t9 is out of range (8 slots)");
        assert_eq!(e.kind(), ErrorKind::Malformed);
    }
}
