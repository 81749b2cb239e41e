//! `lowtide inspect`: what a program file holds.
//!
//! The file is read without the checks that running needs, so that a program that lowtide refuses can be
//! looked at too; whether it runs is said apart.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lowtide::program::load::load;
use lowtide::program::pte::{Container, Method, PlanValue, TensorSpec};
use lowtide::program::{Graph, Home, Port};
use lowtide::table::{Chain, Slot};
use lowtide::{Error, MemoryReport, Model, PlanOptions, Tensor};
use serde_json::{Map, Value as Json, json};

use super::plan::report_json;
use crate::failure::Outcome;
use crate::show;

/// Stored tensors of up to this many elements are printed; larger ones are described.
const MOST_ELEMENTS: usize = 64;

/// Prints what a program file holds: methods, chains, ops, slots, constants and planned memory
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program
    model: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let container = Container::open(&args.model)?;
    let model = Model::open(&args.model);
    let mut methods = Vec::new();
    for m in &container.methods {
        methods.push(MethodFacts::of(&container, m, model.as_ref().ok())?);
    }
    let refusal = model.err();
    if args.json {
        println!("{:#}", file_json(&container, &methods, refusal.as_ref()));
    } else {
        print!("{}", file_text(&args.model.display().to_string(), &container, &methods, refusal.as_ref()));
    }
    Ok(())
}

/// A method in the words of this command.
struct MethodFacts {
    name: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// The values that a method without calls returns.
    constants: Option<Vec<Json>>,
    delegates: Vec<GraphFacts>,
    /// What its run needs; absent where the program is refused.
    plan: Option<lowtide::Result<MemoryReport>>,
}

/// A delegate's graph in the words of this command.
struct GraphFacts {
    inputs: Vec<String>,
    outputs: Vec<String>,
    chains: Vec<ChainFacts>,
    /// Count of each op, and whether it runs.
    ops: BTreeMap<&'static str, (usize, bool)>,
    slots: [(&'static str, usize); 5],
    values: u32,
    constant_bytes: u64,
    mutable_bytes: Option<u64>,
}

struct ChainFacts {
    name: String,
    instructions: usize,
    role: &'static str,
}

impl MethodFacts {
    fn of(container: &Container, m: &Method, model: Option<&Model>) -> Outcome<Self> {
        let bytes = container.data();
        let constants = m
            .calls
            .is_empty()
            .then(|| m.outputs.iter().filter_map(|&o| m.values.get(o)).map(|v| value_json(v, bytes)).collect());
        let delegates = m
            .delegates
            .iter()
            .enumerate()
            .map(|(i, d)| {
                let at = |e: Error| e.at(format!("method {}, delegate {i}", m.name));
                let payload = bytes.get(d.payload.clone()).unwrap_or_default();
                Ok(GraphFacts::of(&load(payload).map_err(at)?, container))
            })
            .collect::<Outcome<Vec<_>>>()?;
        let plan = if delegates.is_empty() {
            None
        } else {
            model.map(|model| model.plan(&m.name, None, &PlanOptions::default()))
        };
        let describe = |list: &[usize]| list.iter().filter_map(|&v| m.values.get(v)).map(value_text).collect();
        Ok(Self {
            name: m.name.clone(),
            inputs: describe(&m.inputs),
            outputs: describe(&m.outputs),
            constants,
            delegates,
            plan,
        })
    }
}

impl GraphFacts {
    fn of(g: &Graph, container: &Container) -> Self {
        let mut ops: BTreeMap<&'static str, (usize, bool)> = BTreeMap::new();
        for (_, op) in g.insts.op.iter() {
            ops.entry(op.name()).or_insert((0, op.row().kernel.written)).0 += 1;
        }
        let homes = [
            ("constant", Home::Constant),
            ("input", Home::Input),
            ("output", Home::Output),
            ("mutable", Home::Mutable),
            ("temp", Home::Temp),
        ];
        Self {
            inputs: g.inputs.iter().map(|p| port(g, p)).collect(),
            outputs: g.outputs.iter().map(|p| port(g, p)).collect(),
            chains: chains(g),
            ops,
            slots: homes.map(|(name, home)| (name, g.tensors.of(home).len())),
            values: g.values,
            constant_bytes: constant_bytes(g, container),
            mutable_bytes: mutable_bytes(g),
        }
    }
}

/// Bytes of the graph's constants in the file; constants that share bytes count once.
fn constant_bytes(g: &Graph, container: &Container) -> u64 {
    let mut ranges: Vec<(usize, usize)> = g
        .tensors
        .of(Home::Constant)
        .filter_map(|s| g.tensors.name.get(Slot(s)))
        .filter_map(|name| container.named.get(name))
        .map(|r| (r.start, r.end))
        .collect();
    ranges.sort_unstable();
    ranges.dedup();
    ranges.iter().map(|(start, end)| (end - start) as u64).sum()
}

/// Bytes of the mutable buffers; `None` where the file does not say how large one is.
fn mutable_bytes(g: &Graph) -> Option<u64> {
    let bytes = |s: Slot| {
        let elements = g.tensors.dims[s].iter().try_fold(1u64, |n, d| n.checked_mul(u64::from(d.max?)))?;
        elements.checked_mul((*g.tensors.dtype.get(s)?)?.size() as u64)
    };
    g.tensors.of(Home::Mutable).map(Slot).try_fold(0u64, |n, s| n.checked_add(bytes(s)?))
}

fn chains(g: &Graph) -> Vec<ChainFacts> {
    (0..g.chains.rows() as u32)
        .map(Chain)
        .map(|c| ChainFacts {
            name: c.to_string(),
            instructions: g.chains[c].len(),
            role: if c == g.main {
                "main"
            } else if g.init == Some(c) {
                "init"
            } else {
                "nested"
            },
        })
        .collect()
}

fn port(g: &Graph, port: &Port) -> String {
    match port {
        Port::Tensor(slot) if slot.0 < g.tensors.len() as u32 => {
            format!("{slot} {}", show::tensor(g.tensors.dtype[*slot], &g.tensors.dims[*slot]))
        }
        Port::Tensor(slot) => slot.to_string(),
        Port::Int(v) => format!("{v} int"),
        Port::Float(v) => format!("{v} float"),
        Port::Bool(v) => format!("{v} bool"),
    }
}

fn value_text(v: &PlanValue) -> String {
    match v {
        PlanValue::Tensor(t) => show::tensor(Some(t.dtype), &t.dims),
        PlanValue::Int(_) => "int".into(),
        PlanValue::Double(_) => "float".into(),
        PlanValue::Bool(_) => "bool".into(),
        PlanValue::Text(_) => "string".into(),
        PlanValue::Ints(_) => "list of ints".into(),
        PlanValue::Doubles(_) => "list of floats".into(),
        PlanValue::Bools(_) => "list of bools".into(),
        PlanValue::Tensors(_) => "list of tensors".into(),
        PlanValue::None => "none".into(),
    }
}

/// What a constant method returns.
fn value_json(v: &PlanValue, file: &[u8]) -> Json {
    match v {
        PlanValue::Int(v) => json!(v),
        PlanValue::Bool(v) => json!(v),
        PlanValue::Double(v) => json!(v),
        PlanValue::Text(v) => json!(v),
        PlanValue::Ints(v) => json!(v),
        PlanValue::Doubles(v) => json!(v),
        PlanValue::Bools(v) => json!(v),
        PlanValue::None => Json::Null,
        PlanValue::Tensor(t) => elements(t, file).unwrap_or_else(|| json!(value_text(v))),
        PlanValue::Tensors(_) => json!(value_text(v)),
    }
}

/// The elements of a small tensor that the file stores.
fn elements(t: &TensorSpec, file: &[u8]) -> Option<Json> {
    let dims: Vec<usize> = t.dims.iter().map(|d| d.max.unwrap_or(d.min) as usize).collect();
    let tensor = Tensor::new(t.dtype, &dims, file.get(t.data.clone()?)?.to_vec()).ok()?;
    if tensor.count() > MOST_ELEMENTS {
        return None;
    }
    Some(if t.dtype.is_float() { json!(tensor.to_f64()) } else { json!(tensor.to_i64()) })
}

fn file_json(c: &Container, methods: &[MethodFacts], refusal: Option<&Error>) -> Json {
    json!({
        "bytes": c.data().len(),
        "named_data": c.named.len(),
        "runs": refusal.is_none(),
        "refusal": refusal.map(ToString::to_string),
        "methods": methods.iter().map(method_json).collect::<Vec<_>>(),
    })
}

fn method_json(m: &MethodFacts) -> Json {
    let mut out = Map::new();
    out.insert("name".into(), json!(m.name));
    out.insert("inputs".into(), json!(m.inputs));
    out.insert("outputs".into(), json!(m.outputs));
    if let Some(values) = &m.constants {
        out.insert("returns".into(), json!(values));
    }
    out.insert("delegates".into(), m.delegates.iter().map(graph_json).collect());
    match &m.plan {
        Some(Ok(report)) => out.insert("plan".into(), report_json(report)),
        Some(Err(why)) => out.insert("plan_error".into(), json!(why.to_string())),
        None => None,
    };
    Json::Object(out)
}

fn graph_json(g: &GraphFacts) -> Json {
    let chains: Vec<Json> =
        g.chains.iter().map(|c| json!({"name": c.name, "role": c.role, "instructions": c.instructions})).collect();
    let ops: Map<String, Json> = g.ops.iter().map(|(&name, &(count, _))| (name.to_string(), json!(count))).collect();
    let missing: Vec<&str> = g.ops.iter().filter(|(_, (_, runs))| !runs).map(|(&name, _)| name).collect();
    let slots: Map<String, Json> = g.slots.iter().map(|&(name, count)| (name.to_string(), json!(count))).collect();
    json!({
        "inputs": g.inputs,
        "outputs": g.outputs,
        "chains": chains,
        "ops": ops,
        "ops_that_do_not_run": missing,
        "slots": slots,
        "values": g.values,
        "constant_bytes": g.constant_bytes,
        "mutable_bytes": g.mutable_bytes,
    })
}

fn file_text(path: &str, c: &Container, methods: &[MethodFacts], refusal: Option<&Error>) -> String {
    let mut out = format!("{path}: {} bytes, {} named data\n", show::grouped(c.data().len() as u64), c.named.len());
    out += &match refusal {
        None => "every op has a kernel\n".to_string(),
        Some(e) => format!("refused: {e}\n"),
    };
    for m in methods.iter().filter(|m| m.constants.is_none()) {
        out += &format!("\nmethod {}\n", m.name);
        out += &ports("  ", &m.inputs, &m.outputs);
        for (i, g) in m.delegates.iter().enumerate() {
            out += &graph_text(i, g);
        }
        match &m.plan {
            Some(Ok(r)) => out += &plan_text(r),
            Some(Err(why)) => out += &format!("  no plan: {why}\n"),
            None => {}
        }
    }
    let constants: Vec<Vec<String>> = methods
        .iter()
        .filter_map(|m| {
            let values: Vec<String> = m.constants.as_ref()?.iter().map(ToString::to_string).collect();
            Some(vec![format!("  {}", m.name), values.join(", ")])
        })
        .collect();
    if !constants.is_empty() {
        out += "\nmethods that return stored values\n";
        out += &show::table(&constants, &[]);
    }
    out
}

fn ports(indent: &str, inputs: &[String], outputs: &[String]) -> String {
    let line = |what: &str, i: usize, text: &String| format!("{indent}{what} {i}: {text}\n");
    let inputs = inputs.iter().enumerate().map(|(i, t)| line("input", i, t));
    inputs.chain(outputs.iter().enumerate().map(|(i, t)| line("output", i, t))).collect()
}

fn graph_text(index: usize, g: &GraphFacts) -> String {
    let mut out = format!("  delegate {index}\n");
    out += &ports("    ", &g.inputs, &g.outputs);
    let chains: Vec<String> =
        g.chains.iter().map(|c| format!("{} {} ({} instructions)", c.name, c.role, c.instructions)).collect();
    out += &format!("    chains: {}\n", chains.join(", "));
    let slots: Vec<String> = g.slots.iter().map(|(name, count)| format!("{count} {name}")).collect();
    out += &format!("    slots: {}; {} host values\n", slots.join(", "), g.values);
    let mutable = g.mutable_bytes.map_or_else(|| "of unknown size".into(), |n| format!("{} bytes", show::grouped(n)));
    out += &format!("    constants: {} bytes; mutable buffers: {mutable}\n", show::grouped(g.constant_bytes));
    out += "    ops:\n";
    let mut ops: Vec<(&str, usize, bool)> = g.ops.iter().map(|(&name, &(count, runs))| (name, count, runs)).collect();
    ops.sort_by_key(|&(name, count, _)| (std::cmp::Reverse(count), name));
    let rows: Vec<Vec<String>> = ops
        .iter()
        .map(|&(name, count, runs)| {
            let note = if runs { "" } else { "no kernel" };
            vec![format!("      {name}"), count.to_string(), note.into()]
        })
        .collect();
    out + &show::table(&rows, &[1])
}

fn plan_text(r: &MemoryReport) -> String {
    let parts = [r.weights_bytes, r.state_bytes, r.arena_bytes, r.staging_bytes].map(show::bytes);
    let [weights, state, arena, staging] = parts;
    let (peak, least) = (show::bytes(r.peak_bytes), show::bytes(r.lower_bound_bytes));
    format!(
        "  planned peak at the upper bounds: {peak} (weights {weights}, state {state}, arena {arena}, staging {staging}; \
         no arena can be smaller than {least})\n"
    )
}
