//! One file per command.

pub(crate) mod bench;
pub(crate) mod devices;
pub(crate) mod generate;
pub(crate) mod inspect;
pub(crate) mod ops;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod verify;
