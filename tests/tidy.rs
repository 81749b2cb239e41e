//! The rules of the source tree that no compiler checks: which part may import which, file lengths,
//! module documentation, reasons for `unsafe`, and no paths of anybody's machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold no source of ours.
const SKIPPED: [&str; 5] = ["target", ".git", "artifacts", "corpus", "__pycache__"];
/// Longest source file, in lines.
const MAX_LINES: usize = 700;

/// What each part of the engine may import. The order is that of the data: facts, ops, programs, plans, devices, sessions.
/// `op` and `kernel` name each other: a row of the op table names its kernel, and a kernel reads an instruction of a
/// program through the fields of its op.
const MAY_IMPORT: [(&str, &[&str]); 13] = [
    ("table", &[]),
    ("limits", &[]),
    ("error", &[]),
    ("dtype", &[]),
    ("op", &["kernel"]),
    ("kernel", &["op", "program"]),
    ("program", &["op"]),
    ("plan", &["op", "kernel", "program"]),
    ("gpu", &["op", "kernel", "program", "plan"]),
    ("session", &["op", "kernel", "program", "plan", "gpu", "report"]),
    ("report", &["program", "plan", "session"]),
    ("verify", &["program", "session"]),
    ("lib", &["op", "kernel", "program", "plan", "gpu", "session", "report", "verify"]),
];
/// What everything may import.
const BASE: [&str; 4] = ["table", "limits", "error", "dtype"];

struct Source {
    /// From the root of the repository, with `/`.
    path: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(endings: &[&str]) -> Vec<Source> {
    let mut dirs = vec![root().to_path_buf()];
    let mut out = Vec::new();
    while let Some(dir) = dirs.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let name = path.file_name().unwrap().to_string_lossy().to_string();
            if path.is_dir() && !SKIPPED.contains(&name.as_str()) {
                dirs.push(path);
            } else if path.is_file() && endings.iter().any(|e| name.ends_with(e)) {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let path = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
                out.push(Source { path, text });
            }
        }
    }
    out
}

fn rust() -> Vec<Source> {
    files(&[".rs"])
}

/// The part of the engine that a file belongs to.
fn part(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("engine/")?;
    Some(rest.split('/').next()?.trim_end_matches(".rs"))
}

/// A file's code without comments, and without the test module that ends it.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let lines = text[..end].lines().map(|l| l.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The first path segments after `crate::`, in braces too.
fn imports(code: &str) -> BTreeSet<String> {
    let word = |s: &str| s.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut out = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let list = &list[..list.find('}').unwrap_or(list.len())];
            out.extend(list.split(',').map(|item| word(item.trim())));
        } else {
            out.insert(word(rest));
        }
    }
    out.remove("");
    out
}

fn report(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

#[test]
fn parts_import_only_what_lies_before_them() {
    let parts: BTreeSet<&str> = MAY_IMPORT.iter().map(|(p, _)| *p).collect();
    let mut broken = Vec::new();
    for f in rust() {
        let Some(part) = part(&f.path) else { continue };
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(p, _)| *p == part) else {
            broken.push(format!("{}: the part {part} has no row in MAY_IMPORT", f.path));
            continue;
        };
        for import in imports(&code(&f.text)) {
            let known = parts.contains(import.as_str());
            if known && import != part && !BASE.contains(&import.as_str()) && !allowed.contains(&import.as_str()) {
                broken.push(format!("{} imports {import}", f.path));
            }
        }
    }
    report("a part imports one that comes after it", &broken);
}

#[test]
fn wgpu_and_flatbuffers_stay_where_they_belong() {
    let mut broken = Vec::new();
    for f in rust() {
        let Some(part) = part(&f.path) else { continue };
        let code = code(&f.text);
        let mentions = |name: &str| code.contains(&format!("{name}::"));
        if mentions("wgpu") && !matches!(part, "gpu" | "session") {
            broken.push(format!("{} mentions wgpu", f.path));
        }
        if mentions("flatbuffers") && part != "program" {
            broken.push(format!("{} mentions flatbuffers", f.path));
        }
    }
    report("a package is used outside of its part", &broken);
}

#[test]
fn only_the_op_table_names_kernel_families() {
    let families: Vec<String> = fs::read_dir(root().join("engine/kernel"))
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().trim_end_matches(".rs").to_string())
        .filter(|name| !matches!(name.as_str(), "mod" | "call" | "emit" | "shader" | "source"))
        .map(|name| if name == "move" { "move_".to_string() } else { name })
        .collect();
    assert!(families.len() > 10, "{families:?}");
    let mut broken = Vec::new();
    for f in rust() {
        let inside = f.path.starts_with("engine/kernel/") || f.path == "engine/op/table.rs";
        if !f.path.starts_with("engine/") || inside {
            continue;
        }
        let code = code(&f.text);
        for family in families.iter().filter(|n| code.contains(&format!("kernel::{n}::"))) {
            broken.push(format!("{} names the family {family}", f.path));
        }
    }
    report("a kernel family is named outside of the op table", &broken);
}

#[test]
fn files_are_short() {
    let long = |f: &Source| f.text.lines().count() > MAX_LINES;
    let broken: Vec<String> = files(&[".rs", ".wgsl", ".py", ".sh"])
        .iter()
        .filter(|f| long(f))
        .map(|f| format!("{}: {} lines", f.path, f.text.lines().count()))
        .collect();
    report(&format!("a file has more than {MAX_LINES} lines"), &broken);
}

#[test]
fn every_module_says_what_it_is() {
    let broken: Vec<String> = rust().iter().filter(|f| !f.text.starts_with("//! ")).map(|f| f.path.clone()).collect();
    report("a file does not begin with a module comment", &broken);
}

/// The workspace denies unsafe code, so the compiler finds what this does not: each exception has its reason above it.
#[test]
fn unsafe_code_says_why_it_is_sound() {
    let mut broken = Vec::new();
    for f in rust().iter().filter(|f| f.path != "tests/tidy.rs") {
        let lines: Vec<&str> = f.text.lines().map(str::trim_start).collect();
        for (i, line) in lines.iter().enumerate().filter(|(_, l)| l.contains("allow(unsafe_code)")) {
            let reason = i > 0 && lines[i - 1].starts_with("//");
            if !reason || line.starts_with("#![") {
                broken.push(format!("{}:{}", f.path, i + 1));
            }
        }
    }
    report("unsafe code is allowed without a comment right above that says why it is sound", &broken);
}

#[test]
fn no_file_names_a_folder_of_somebodys_machine() {
    // Put together from halves, so that this file does not break its own rule.
    let folders = ["work", "home", "root", "Users", "tmp"].map(|name| format!("/{name}/"));
    let endings = [".rs", ".wgsl", ".md", ".toml", ".py", ".sh", ".json", ".tsv", ".txt", "run"];
    let mut broken = Vec::new();
    for f in files(&endings) {
        for (i, line) in f.text.lines().enumerate() {
            for at in folders.iter().flat_map(|name| line.match_indices(name.as_str()).map(|(at, _)| at)) {
                // A folder inside of a path, such as tests/home/x, is no machine's.
                let before = line[..at].chars().next_back();
                if !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '}' | '_' | '-' | '/' | '*')) {
                    broken.push(format!("{}:{}: {}", f.path, i + 1, line.trim()));
                }
            }
        }
    }
    report("an absolute path of a machine", &broken);
}
