//! Program files to test with: those in the repository, and the shared cases where a checkout has them.

use std::path::{Path, PathBuf};

/// The `.pte` files below `dir`, sorted.
fn below(dir: PathBuf) -> Vec<PathBuf> {
    let (mut dirs, mut files) = (vec![dir], Vec::new());
    while let Some(dir) = dirs.pop() {
        for path in std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|e| e.path()) {
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "pte") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The programs of the repository.
pub(crate) fn own() -> Vec<PathBuf> {
    below(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models"))
}

/// The shared cases: `shared/cases` in a folder above the repository. Says so when there are none.
pub(crate) fn shared() -> Vec<PathBuf> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(1);
    match above.map(|d| d.join("shared/cases")).find(|d| d.is_dir()) {
        Some(dir) => below(dir),
        None => {
            eprintln!("SKIPPED: no shared/cases above the repository; only its own programs are tested");
            Vec::new()
        }
    }
}
