//! Runs case folders: programs with inputs and expected outputs, as ExecuTorch's exporter writes them.
//!
//! An op case is a folder with `model.pte input.bin expected_output.bin meta.json`; a model case is a folder
//! with programs and `cases/<case>/step_NNN_{input,expected}.bin`, run in order on one session.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::program::cache::{CacheConfig, CacheLayer};
use crate::program::model::{Model, ModelOptions};
use crate::session::{BindOptions, Engine, Item, SessionOptions, Tensor};

/// How a case ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Every output is within tolerance.
    Pass,
    /// An output is wrong, or the run broke.
    Fail,
    /// lowtide says that it cannot run the program.
    Refused,
}

impl Status {
    /// `pass`, `fail` or `refused`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Refused => "refused",
        }
    }
}

/// The result of one case.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The case's path under the folder that was given.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// Largest |error| over what the tolerance allows; 1 is the limit. Infinite where shapes or NaNs differ.
    pub worst: f64,
    /// Why it did not pass.
    pub reason: String,
    /// Steps that ran.
    pub steps: usize,
}

/// One case to run.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name in reports.
    pub name: String,
    program: PathBuf,
    method: String,
    steps: Vec<(PathBuf, PathBuf)>,
    rtol: f64,
    atol: f64,
    compare: bool,
    cache: Option<CacheConfig>,
}

fn io(path: &Path, e: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("{}: {e}", path.display()))
}

fn json(path: &Path) -> Result<Json> {
    let text = std::fs::read_to_string(path).map_err(|e| io(path, e))?;
    serde_json::from_str(&text).map_err(|e| io(path, e))
}

/// Every case under a folder, by name.
///
/// # Errors
/// When a folder or a `meta.json` cannot be read.
pub fn find(root: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    walk(root, root, &mut cases)?;
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

fn walk(root: &Path, dir: &Path, out: &mut Vec<Case>) -> Result<()> {
    let meta = dir.join("meta.json");
    let name = |p: &Path| p.strip_prefix(root).unwrap_or(p).display().to_string();
    if meta.is_file() {
        let meta = json(&meta)?;
        if dir.join("cases").is_dir() {
            return model_cases(dir, &name(dir), &meta, out);
        }
        if dir.join("input.bin").is_file() {
            out.push(Case {
                name: if dir == root {
                    dir.file_name().unwrap_or_default().to_string_lossy().into()
                } else {
                    name(dir)
                },
                program: dir.join("model.pte"),
                method: "forward".into(),
                steps: vec![(dir.join("input.bin"), dir.join("expected_output.bin"))],
                rtol: meta["rtol"].as_f64().unwrap_or(0.0),
                atol: meta["atol"].as_f64().unwrap_or(0.0),
                compare: meta["skip_comparison"] != Json::Bool(true),
                cache: meta["kv_cache"].as_str().map(cache_config).transpose()?,
            });
            return Ok(());
        }
    }
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(dir).map_err(|e| io(dir, e))?.filter_map(|e| e.ok().map(|e| e.path())).collect();
    entries.sort();
    for e in entries.into_iter().filter(|e| e.is_dir()) {
        walk(root, &e, out)?;
    }
    Ok(())
}

/// `capacity,layers,kv_heads,head_dim[,dtype]`, the dtype as a scalar type code.
fn cache_config(text: &str) -> Result<CacheConfig> {
    let bad = || Error::malformed(format!("{text:?} does not describe a cache")).at("kv_cache");
    let n = text.split(',').map(|v| v.trim().parse::<usize>().map_err(|_| bad())).collect::<Result<Vec<_>>>()?;
    let [capacity, layers, heads, head_dim, rest @ ..] = n.as_slice() else { return Err(bad()) };
    let dtype = match rest {
        [] => DType::F32,
        [code, ..] => i8::try_from(*code).ok().and_then(DType::from_scalar_type).ok_or_else(bad)?,
    };
    let layer = CacheLayer { heads: *heads, head_dim: *head_dim, window: None };
    Ok(CacheConfig { capacity: *capacity, max_write: None, dtype, layers: vec![layer; *layers] })
}

fn model_cases(dir: &Path, name: &str, meta: &Json, out: &mut Vec<Case>) -> Result<()> {
    for (case, m) in meta["cases"].as_object().into_iter().flatten() {
        let folder = dir.join("cases").join(case);
        let mut steps = Vec::new();
        let pick = |exact: PathBuf, f32_: PathBuf| if f32_.is_file() { f32_ } else { exact };
        if folder.join("input.bin").is_file() {
            let expected = pick(folder.join("expected_output.bin"), folder.join("expected_output_f32.bin"));
            steps.push((folder.join("input.bin"), expected));
        }
        for i in 0.. {
            let input = folder.join(format!("step_{i:03}_input.bin"));
            if !input.is_file() {
                break;
            }
            let stem = format!("step_{i:03}_expected");
            steps.push((input, pick(folder.join(format!("{stem}.bin")), folder.join(format!("{stem}_f32.bin")))));
        }
        out.push(Case {
            name: if name.is_empty() { case.clone() } else { format!("{name}/{case}") },
            program: dir.join(m["program"].as_str().unwrap_or("model.pte")),
            method: m["method"].as_str().unwrap_or("forward").into(),
            steps,
            rtol: m["tolerance"]["rtol"].as_f64().unwrap_or(0.0),
            atol: m["tolerance"]["atol"].as_f64().unwrap_or(0.0),
            compare: true,
            cache: None,
        });
    }
    Ok(())
}

/// Reads a `.bin` file of tensors: u32 count; per tensor u32 dtype (0 f32, 1 f16, 2 i32, 3 i64, 4 bf16,
/// 5 bool, 6 u8), u32 rank, i32 dims, raw data; all little endian.
///
/// # Errors
/// When the file cannot be read or is cut short.
pub fn read_tensors(path: &Path) -> Result<Vec<Tensor>> {
    let bytes = std::fs::read(path).map_err(|e| io(path, e))?;
    parse_tensors(&bytes).map_err(|e| e.at(path.display()))
}

const CODES: [DType; 7] = [DType::F32, DType::F16, DType::I32, DType::I64, DType::BF16, DType::Bool, DType::U8];

fn parse_tensors(bytes: &[u8]) -> Result<Vec<Tensor>> {
    let mut at = 0usize;
    let mut take = |n: usize| {
        let end = at.checked_add(n).filter(|&e| e <= bytes.len());
        let part = end.map(|e| &bytes[at..e]);
        at = end.unwrap_or(bytes.len());
        part.ok_or_else(|| Error::malformed(format!("the file ends at byte {}, inside of a tensor", bytes.len())))
    };
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let count = word(take(4)?);
    let mut tensors = Vec::new();
    for _ in 0..count {
        let code = word(take(4)?);
        let dtype = *CODES
            .get(code as usize)
            .ok_or_else(|| Error::malformed(format!("element type code {code}; 0 to {} are known", CODES.len() - 1)))?;
        let rank = word(take(4)?) as usize;
        let dims: Vec<usize> = take(rank.saturating_mul(4))?.chunks_exact(4).map(|b| word(b) as usize).collect();
        let size = dims.iter().try_fold(dtype.size(), |a, &d| a.checked_mul(d));
        let data = take(size.ok_or_else(|| Error::malformed(format!("shape {dims:?} overflows")))?)?;
        tensors.push(Tensor { dtype, dims, bytes: data.to_vec() });
    }
    Ok(tensors)
}

/// Writes tensors in the form that [`read_tensors`] reads.
///
/// # Errors
/// When an element type has no code there.
pub fn write_tensors(tensors: &[Tensor]) -> Result<Vec<u8>> {
    let mut out = (tensors.len() as u32).to_le_bytes().to_vec();
    for t in tensors {
        let code = CODES
            .iter()
            .position(|&c| c == t.dtype)
            .ok_or_else(|| Error::unsupported(format!("the file format has no code for {}", t.dtype)))?;
        out.extend((code as u32).to_le_bytes());
        out.extend((t.dims.len() as u32).to_le_bytes());
        t.dims.iter().for_each(|&d| out.extend((d as u32).to_le_bytes()));
        out.extend(&t.bytes);
    }
    Ok(out)
}

/// The largest |error| over tolerance, or why the two cannot be compared.
fn compare(actual: &Tensor, expected: &Tensor, rtol: f64, atol: f64) -> std::result::Result<f64, String> {
    if actual.dims != expected.dims {
        return Err(format!("shape {:?}, expected {:?}", actual.dims, expected.dims));
    }
    // An expected tensor in f32 may stand for a rounded one of a narrower float type.
    let same = actual.dtype == expected.dtype || (actual.dtype.is_float() && expected.dtype == DType::F32);
    if !same {
        return Err(format!("{}, expected {}", actual.dtype, expected.dtype));
    }
    let mut worst = 0f64;
    let exact = !actual.dtype.is_float();
    let (a, e) = (actual.to_f64(), expected.to_f64());
    let integers = exact.then(|| (actual.to_i64(), expected.to_i64()));
    for i in 0..a.len() {
        if let Some((x, y)) = &integers
            && x[i] == y[i]
        {
            continue;
        }
        if a[i] == e[i] || (a[i].is_nan() && e[i].is_nan()) {
            continue;
        }
        let allowed = atol + rtol * e[i].abs();
        let error = (a[i] - e[i]).abs() / allowed;
        // A NaN on one side only is as wrong as it gets.
        if error.is_nan() || error > 1.0 {
            return Err(format!(
                "element {i} of {:?} is {}, expected {}; allowed error {allowed:.3e}",
                actual.dims, a[i], e[i]
            ));
        }
        worst = worst.max(error);
    }
    Ok(worst)
}

/// Runs one case.
pub fn run(engine: &Engine, case: &Case) -> CaseResult {
    let mut result =
        CaseResult { name: case.name.clone(), status: Status::Pass, worst: 0.0, reason: String::new(), steps: 0 };
    if let Err(e) = run_steps(engine, case, &mut result) {
        result.status = match e.kind() {
            ErrorKind::Unsupported => Status::Refused,
            _ => Status::Fail,
        };
        result.worst = f64::INFINITY;
        result.reason = e.to_string();
    }
    result
}

fn run_steps(engine: &Engine, case: &Case, result: &mut CaseResult) -> Result<()> {
    let model = Model::open_with(&case.program, &ModelOptions { cache: case.cache.clone() })?;
    let bound = engine.bind(&model, BindOptions::default())?;
    let mut session = bound.session(SessionOptions::default())?;
    for (step, (input, expected)) in case.steps.iter().enumerate() {
        let (_, m) = model.method(&case.method)?;
        let tensors = read_tensors(input)?;
        let items: Vec<Item> = tensors.into_iter().enumerate().map(|(i, t)| as_argument(t, m, i)).collect();
        let outputs = session.run(&case.method, &items).map_err(|e| e.at(format!("step {step}")))?;
        result.steps += 1;
        if !case.compare {
            continue;
        }
        let expected = read_tensors(expected)?;
        let actual: Vec<Tensor> = outputs.into_iter().filter_map(as_tensor).collect();
        if actual.len() != expected.len() {
            return Err(Error::input(format!("{} outputs, expected {}", actual.len(), expected.len())));
        }
        for (k, (a, e)) in actual.iter().zip(&expected).enumerate() {
            match compare(a, e, case.rtol, case.atol) {
                Ok(worst) => result.worst = result.worst.max(worst),
                Err(why) => return Err(Error::input(why).at(format!("step {step}, output {k}"))),
            }
        }
    }
    Ok(())
}

/// A tensor as the method wants it: scalars are passed as such.
pub fn as_argument(t: Tensor, m: &crate::program::pte::Method, index: usize) -> Item {
    use crate::program::pte::PlanValue;
    match m.inputs.get(index).and_then(|&v| m.values.get(v)) {
        Some(PlanValue::Int(_)) if t.count() == 1 => Item::Int(t.to_i64()[0]),
        Some(PlanValue::Double(_)) if t.count() == 1 => Item::Float(t.to_f64()[0]),
        Some(PlanValue::Bool(_)) if t.count() == 1 => Item::Bool(t.to_i64()[0] != 0),
        _ => Item::Tensor(t),
    }
}

/// A result as a tensor, if it is a number or a tensor.
pub fn as_tensor(item: Item) -> Option<Tensor> {
    match item {
        Item::Tensor(t) => Some(t),
        Item::Int(v) => Some(Tensor::from_i64(&[], &[v])),
        Item::Float(v) => Some(Tensor::from_f32(&[], &[v as f32])),
        Item::Bool(v) => Some(Tensor { dtype: DType::Bool, dims: vec![], bytes: vec![u8::from(v)] }),
        Item::Text(_) | Item::Ints(_) | Item::None => None,
    }
}

/// The results as JSON: `{"cases": [{"name", "status", "worst", "reason"}], "passed", "failed", "refused"}`.
pub fn to_json(results: &[CaseResult]) -> Json {
    let count = |s: Status| results.iter().filter(|r| r.status == s).count();
    let cases: Vec<Json> = results
        .iter()
        .map(|r| {
            // JSON has no infinity: what cannot be compared has no worst error.
            let worst = if r.worst.is_finite() { Json::from(r.worst) } else { Json::Null };
            serde_json::json!({"name": r.name, "status": r.status.name(), "worst": worst, "reason": r.reason})
        })
        .collect();
    serde_json::json!({
        "cases": cases,
        "passed": count(Status::Pass),
        "failed": count(Status::Fail),
        "refused": count(Status::Refused),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_round_trip_and_cut_files_are_errors() {
        let t = vec![Tensor::from_f32(&[2, 1], &[1.0, -2.0]), Tensor::from_i64(&[], &[7])];
        let bytes = write_tensors(&t).unwrap();
        assert_eq!(parse_tensors(&bytes).unwrap(), t);
        for n in 0..bytes.len() {
            assert!(parse_tensors(&bytes[..n]).is_err());
        }
    }

    #[test]
    fn comparison_knows_nan_and_tolerance() {
        let t = |v: &[f32]| Tensor::from_f32(&[v.len()], v);
        assert_eq!(compare(&t(&[f32::NAN, 1.0]), &t(&[f32::NAN, 1.0]), 0.0, 0.0), Ok(0.0));
        assert!(compare(&t(&[f32::NAN]), &t(&[1.0]), 1.0, 1.0).is_err());
        assert_eq!(compare(&t(&[1.5]), &t(&[1.0]), 0.0, 1.0), Ok(0.5));
        assert!(compare(&t(&[1.5]), &t(&[1.0]), 0.0, 0.25).is_err());
    }
}
