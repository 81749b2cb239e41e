//! Opening programs, packed ones too.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use lowtide::Model;

use crate::failure::{Failure, Outcome};

/// Most bytes that a packed program may unpack to. A few kilobytes of gzip can hold a terabyte of zeros.
const MAX_UNPACKED: u64 = 32 << 30;

/// Opens a program. One whose name ends in `.gz` is unpacked into memory, others are mapped.
pub(crate) fn open(path: &Path) -> Outcome<Model> {
    if path.extension().is_none_or(|e| e != "gz") {
        return Ok(Model::open(path)?);
    }
    let file = std::fs::File::open(path).map_err(|e| Failure::file(path, e))?;
    let mut bytes = Vec::new();
    let read = GzDecoder::new(file).take(MAX_UNPACKED).read_to_end(&mut bytes).map_err(|e| Failure::file(path, e))?;
    if read as u64 == MAX_UNPACKED {
        return Err(Failure::file(path, format!("unpacks to more than {MAX_UNPACKED} bytes")));
    }
    bytes.shrink_to_fit();
    Ok(Model::from_bytes(bytes).map_err(|e| e.at(path.display()))?)
}
