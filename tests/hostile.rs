//! Real files load; broken ones are refused without a panic.

use std::path::{Path, PathBuf};

use lowtide::program::{check::check, load::load, pte::Container};

fn shared_files() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(root) = here.ancestors().skip(1).map(|d| d.join("shared/cases")).find(|d| d.is_dir()) else {
        return Vec::new();
    };
    let mut dirs = vec![root];
    let mut files = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
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

#[test]
fn real_files_load_and_check() {
    let files = shared_files();
    let mut bad = 0;
    for file in &files {
        let c = match Container::open(file) {
            Ok(c) => c,
            Err(e) => {
                println!("{e}");
                bad += 1;
                continue;
            }
        };
        for m in &c.methods {
            for d in &m.delegates {
                let r = load(&c.data()[d.payload.clone()]).and_then(|g| check(g, &c.named));
                if let Err(e) = r {
                    if !e.message().starts_with("no kernel is written") {
                        println!("{}: {e}", file.display());
                        bad += 1;
                    }
                }
            }
        }
    }
    println!("{} files", files.len());
    assert_eq!(bad, 0);
}
