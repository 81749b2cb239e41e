//! The README holds the table of ops as the op table makes it. `LOWTIDE_UPDATE=1` writes it anew.

use std::path::Path;
use std::process::Command;

const START: &str = "<!-- ops: made by `lowtide ops --markdown` -->\n";
const END: &str = "<!-- end of ops -->";

#[test]
fn the_readme_has_the_table_of_ops() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_lowtide")).args(["ops", "--markdown"]).output().unwrap();
    let table = format!("\n{}\n", String::from_utf8(out.stdout).unwrap());
    let start = readme.find(START).expect("the README has no place for the ops") + START.len();
    let end = start + readme[start..].find(END).expect("the README's ops have no end");
    if readme[start..end] == table {
        return;
    }
    let update = std::env::var_os("LOWTIDE_UPDATE").is_some();
    assert!(update, "README.md has another table of ops; run this test with LOWTIDE_UPDATE=1 to write it anew");
    std::fs::write(&path, format!("{}{table}{}", &readme[..start], &readme[end..])).unwrap();
}

#[test]
fn the_readme_has_the_example_that_compiles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let example = std::fs::read_to_string(root.join("tools/examples/embed.rs")).unwrap();
    assert!(
        readme.contains(&format!("```rust\n{example}```\n")),
        "README.md has another text than tools/examples/embed.rs"
    );
}

#[test]
fn the_readme_has_two_commands_to_begin_with() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let start = readme.find("## Try it").unwrap();
    let section = &readme[start..start + readme[start..].find("## Commands").unwrap()];
    let commands: Vec<&str> =
        section.split("```").skip(1).step_by(2).map(|b| b.trim_start_matches("sh").trim()).collect();
    assert_eq!(commands, ["./tools/try.sh", "cargo test --workspace"]);
    assert!(root.join("tools/try.sh").is_file());
}
