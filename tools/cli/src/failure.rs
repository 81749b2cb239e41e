//! How a command fails: a message for people and an exit code for scripts.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use lowtide::{Error, ErrorKind};

/// The result of a command or of a part of it.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code, as the help lists them.
    pub(crate) code: u8,
    /// What to print; empty when everything has been said.
    pub(crate) message: String,
}

impl Failure {
    /// A failure with exit code 1.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }
    /// The arguments contradict each other or the file.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }
    /// A file could not be read, written or understood.
    pub(crate) fn file(path: &Path, why: impl Display) -> Self {
        Self::new(format!("{}: {why}", path.display()))
    }
    /// A failure whose report has been printed already.
    pub(crate) fn silent() -> Self {
        Self::new("")
    }
    /// Prints the message and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            eprintln!("error: {}", self.message);
        }
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        let code = match e.kind() {
            ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit => 3,
            ErrorKind::Memory | ErrorKind::Device => 4,
            _ => 1,
        };
        Self { code, message: e.to_string() }
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        // Nobody reads our output any more (`lowtide ... | head`): nothing is left to say.
        if e.kind() == io::ErrorKind::BrokenPipe { Self::silent() } else { Self::new(e.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_become_exit_codes() {
        let code = |kind| Failure::from(Error::new(kind, "x")).code;
        assert_eq!(code(ErrorKind::Malformed), 3);
        assert_eq!(code(ErrorKind::Unsupported), 3);
        assert_eq!(code(ErrorKind::Device), 4);
        assert_eq!(code(ErrorKind::Input), 1);
        assert_eq!(code(ErrorKind::Io), 1);
    }
}
