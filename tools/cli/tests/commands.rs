//! The built binary on the models that ship with the repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lowtide::verify::{read_tensors, write_tensors};
use serde_json::Value as Json;

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models")
}

fn model(name: &str) -> String {
    models().join(name).join("model.pte").display().to_string()
}

/// An empty folder of a test's own.
fn scratch(test: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn lowtide(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lowtide")).args(args).output().unwrap()
}

fn stdout(out: &Output) -> String {
    String::from_utf8(out.stdout.clone()).unwrap()
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[track_caller]
fn success(args: &[&str]) -> String {
    let out = lowtide(args);
    assert!(out.status.success(), "{args:?}: {}\n{}\n{}", out.status, stdout(&out), stderr(&out));
    stdout(&out)
}

#[track_caller]
fn json(args: &[&str]) -> Json {
    serde_json::from_str(&success(args)).unwrap()
}

#[track_caller]
fn fails(code: i32, args: &[&str]) -> String {
    let out = lowtide(args);
    assert_eq!(out.status.code(), Some(code), "{args:?}:\n{}\n{}", stdout(&out), stderr(&out));
    stderr(&out)
}

#[test]
fn alone_it_prints_help() {
    let help = fails(2, &[]);
    for word in ["generate", "run", "inspect", "plan", "verify", "devices", "ops", "Exit codes"] {
        assert!(help.contains(word), "{word} is not in:\n{help}");
    }
}

#[test]
fn exit_codes_are_as_documented() {
    let dir = scratch("exit_codes");
    let broken = dir.join("broken.pte").display().to_string();
    std::fs::write(&broken, b"nothing of the kind").unwrap();
    assert!(fails(1, &["inspect", "nowhere.pte"]).contains("nowhere.pte"));
    assert!(fails(3, &["inspect", &broken]).contains("ET12"));
    assert!(fails(2, &["plan"]).contains("MODEL"));
    let out = dir.join("o.bin").display().to_string();
    let named = ["run", &model("if-nested"), "--inputs", "i.bin", "--outputs", &out, "--adapter", "no such adapter"];
    assert!(fails(4, &named).contains("no such adapter"));
    let unpaired = ["run", &model("if-nested"), "--inputs", "a", "--inputs", "b", "--outputs", &out];
    assert!(fails(2, &unpaired).contains("one --outputs for each"));
    let kjv = model("kjv-3m");
    assert!(fails(2, &["generate", &kjv, "--prompt", "x", "--top-p", "0.5"]).contains("--temperature"));
    let alone = dir.join("alone.pte").display().to_string();
    std::fs::copy(model("kjv-3m"), &alone).unwrap();
    assert!(fails(2, &["generate", &alone, "--prompt", "x"]).contains("--tokenizer"));
    assert!(fails(1, &["generate", &model("full-sum"), "--prompt", "x"]).contains("no language model"));
}

#[test]
fn devices_are_listed() {
    let list = json(&["devices", "--json"]);
    let first = &list["adapters"][0];
    assert!(!first["name"].as_str().unwrap().is_empty());
    assert!(first["binding_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(success(&["devices"]).contains(first["name"].as_str().unwrap()));
}

#[test]
fn a_language_model_is_inspected() {
    let file = json(&["inspect", &model("kjv-3m"), "--json"]);
    let method = |name: &str| {
        let list = file["methods"].as_array().unwrap();
        list.iter().find(|m| m["name"] == name).unwrap_or_else(|| panic!("{name} is not in {list:?}")).clone()
    };
    assert_eq!(method("get_max_ctx_len")["returns"], serde_json::json!([512]));
    let forward = method("forward");
    assert_eq!(forward["inputs"].as_array().unwrap().len(), 2);
    let delegate = &forward["delegates"][0];
    assert_eq!(delegate["ops"]["Sdpa"], 5);
    assert_eq!(delegate["slots"]["mutable"], 10);
    assert_eq!(delegate["mutable_bytes"], 10 * 512 * 2 * 32 * 4);
    assert!(delegate["constant_bytes"].as_u64().unwrap() > 2_000_000);
    let roles: Vec<&str> = delegate["chains"].as_array().unwrap().iter().map(|c| c["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["main", "init"]);
    let text = success(&["inspect", &model("kjv-3m")]);
    assert!(text.contains("method forward") && text.contains("get_max_ctx_len"), "{text}");
}

#[test]
fn a_plan_releases_what_keeping_everything_does_not() {
    let path = model("if-nested");
    let plan = json(&["plan", &path, "--json"]);
    let kept = json(&["plan", &path, "--json", "--keep-temps"]);
    assert_eq!(plan["end_live_temps"], 0);
    assert!(kept["end_live_temps"].as_u64().unwrap() > 0);
    let bytes = |p: &Json, name: &str| p[name].as_u64().unwrap();
    assert!(bytes(&plan, "arena_bytes") < bytes(&kept, "arena_bytes"));
    assert!(bytes(&plan, "lower_bound_bytes") <= bytes(&plan, "arena_bytes"));
    assert!(bytes(&plan, "peak_bytes") >= bytes(&plan, "weights_bytes") + bytes(&plan, "arena_bytes"));
    assert!(success(&["plan", &path]).contains("arena_bytes"));
}

#[test]
fn a_plan_takes_a_length_within_bounds() {
    let path = model("kjv-3m");
    let arena = |seq: &str| json(&["plan", &path, "--json", "--seq", seq])["arena_bytes"].as_u64().unwrap();
    assert!(arena("8") < arena("128"));
    assert!(fails(1, &["plan", &path, "--seq", "129"]).contains("129"));
}

#[test]
fn steps_run_on_one_session() {
    let case = models().join("if-nested/cases/all_leaves");
    let dir = scratch("steps");
    success(&[
        "run",
        &model("if-nested"),
        "--steps",
        &case.display().to_string(),
        "--outputs",
        &dir.display().to_string(),
    ]);
    for n in 0..6 {
        let expected = read_tensors(&case.join(format!("step_{n:03}_expected.bin"))).unwrap();
        let actual = read_tensors(&dir.join(format!("step_{n:03}_output.bin"))).unwrap();
        assert_eq!(actual.len(), expected.len());
        for (a, e) in actual.iter().zip(&expected) {
            assert_eq!((a.dtype, &a.dims), (e.dtype, &e.dims));
            for (x, y) in a.to_f64().iter().zip(e.to_f64()) {
                assert!((x - y).abs() <= 1e-4 + 1e-4 * y.abs(), "step {n}: {x} is not {y}");
            }
        }
    }
}

#[test]
fn named_files_run_as_steps() {
    let case = models().join("if-nested/cases/all_leaves");
    let dir = scratch("named_files");
    let path = |p: PathBuf| p.display().to_string();
    let (i0, i1) = (path(case.join("step_000_input.bin")), path(case.join("step_003_input.bin")));
    let (o0, o1) = (path(dir.join("a.bin")), path(dir.join("b.bin")));
    let text =
        success(&["run", &model("if-nested"), "--inputs", &i0, "--inputs", &i1, "--outputs", &o0, "--outputs", &o1]);
    assert_eq!(text.lines().count(), 2);
    assert!(Path::new(&o0).is_file() && Path::new(&o1).is_file());
    let e = fails(1, &["run", &model("if-nested"), "--inputs", &i0, "--outputs", &o0, "--method", "backward"]);
    assert!(e.contains("backward") && e.contains("forward"), "{e}");
}

#[test]
fn verify_passes_good_cases_and_fails_wrong_ones() {
    let folder = models().join("if-nested").display().to_string();
    let result = json(&["verify", &folder, "--json"]);
    assert_eq!((result["passed"].as_u64(), result["failed"].as_u64()), (Some(1), Some(0)));
    assert_eq!(result["cases"][0]["status"], "pass");
    assert!(fails(1, &["verify", &folder, "--filter", "nothing is called this"]).contains("no case"));
    assert!(fails(1, &["verify", "nowhere"]).contains("nowhere"));

    let dir = scratch("wrong_case");
    let case = dir.join("cases/all_leaves");
    std::fs::create_dir_all(&case).unwrap();
    for name in ["model.pte", "meta.json", "cases/all_leaves/step_000_input.bin"] {
        std::fs::copy(models().join("if-nested").join(name), dir.join(name)).unwrap();
    }
    let expected = models().join("if-nested/cases/all_leaves/step_000_expected.bin");
    let mut tensors = read_tensors(&expected).unwrap();
    tensors[0].bytes[3] ^= 0x40;
    std::fs::write(case.join("step_000_expected.bin"), write_tensors(&tensors).unwrap()).unwrap();
    let out = lowtide(&["verify", &dir.display().to_string()]);
    assert_eq!(out.status.code(), Some(1), "{}", stdout(&out));
    assert!(stdout(&out).contains("0 passed, 1 failed"), "{}", stdout(&out));
}

#[test]
fn greedy_tokens_are_those_of_the_reference() {
    let text = std::fs::read_to_string(models().join("kjv-3m/text.json")).unwrap();
    let reference: Json = serde_json::from_str(&text).unwrap();
    for (name, case) in reference.as_object().unwrap() {
        let count = case["generated_ids"].as_array().unwrap().len().to_string();
        let prompt = case["prompt"].as_str().unwrap();
        let made = json(&["generate", &model("kjv-3m"), "--prompt", prompt, "--max-new-tokens", &count, "--json"]);
        assert_eq!(made["prompt_ids"], case["prompt_ids"], "{name}");
        assert_eq!(made["ids"], case["generated_ids"], "{name}");
        assert_eq!(made["text"], case["text"], "{name}");
        assert_eq!(made["stop"], "max_new_tokens");
        assert!(made["memory"]["weights"].as_u64().unwrap() > 2_000_000);
        assert!(made["tokens_per_second"]["decode"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_run_takes_what_its_plan_says() {
    let path = model("kjv-3m");
    let run = json(&["generate", &path, "--prompt", "There was a certain man", "--max-new-tokens", "1", "--json"]);
    let tokens = run["prompt_ids"].as_array().unwrap().len().to_string();
    let plan = json(&["plan", &path, "--seq", &tokens, "--last-row", "--json"]);
    for class in ["weights", "state", "arena", "staging"] {
        assert_eq!(run["memory"][class], plan[format!("{class}_bytes")], "{class}");
    }
    assert_eq!(run["memory"]["total"], plan["peak_bytes"]);
}

#[test]
fn a_seed_repeats_its_text() {
    let path = model("kjv-3m");
    let make = |seed: &str| {
        let sampling = ["--temperature", "0.8", "--top-k", "50", "--top-p", "0.95", "--seed", seed];
        let mut args = vec!["generate", &path, "--prompt", "And it came to pass", "--max-new-tokens", "12", "--json"];
        args.extend(sampling);
        json(&args)["ids"].clone()
    };
    assert_eq!(make("1"), make("1"));
    assert_ne!(make("1"), make("2"));
}

#[test]
fn text_streams_to_stdout_and_figures_to_stderr() {
    let out = lowtide(&["generate", &model("kjv-3m"), "--prompt", "There was", "--max-new-tokens", "5", "--echo"]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(stdout(&out).starts_with("There was"), "{}", stdout(&out));
    for word in ["adapter", "first token", "upload", "pipelines", "decode", "memory", "arena"] {
        assert!(stderr(&out).contains(word), "{word} is not in:\n{}", stderr(&out));
    }
    assert!(fails(1, &["generate", &model("kjv-3m"), "--prompt", "x", "--chat"]).contains("no chat template"));
}

#[test]
fn a_prompt_is_split_to_fit_a_budget() {
    let path = model("kjv-3m");
    let prompt = "And the LORD said unto Moses, ".repeat(8);
    let whole = json(&["generate", &path, "--prompt", &prompt, "--max-new-tokens", "4", "--json"]);
    let staged = |m: &Json| m["memory"]["arena"].as_u64().unwrap() + m["memory"]["staging"].as_u64().unwrap();
    let budget = format!("+{}", staged(&whole) * 3 / 4);
    let args = ["generate", &path, "--prompt", &prompt, "--max-new-tokens", "4", "--json", "--budget", &budget];
    let split = json(&args);
    assert_eq!(split["ids"], whole["ids"]);
    assert!(split["prefill_parts"].as_array().unwrap().len() > whole["prefill_parts"].as_array().unwrap().len());
    assert!(staged(&split) <= staged(&whole) * 3 / 4);
}
