//! `lowtide run`: a method on tensors from files.

use std::path::{Path, PathBuf};

use lowtide::session::Budget;
use lowtide::verify::{as_argument, as_tensor, read_tensors, write_tensors};
use lowtide::{Item, Model, Session, SessionOptions, Tensor};

use crate::device::{DeviceArgs, bind};
use crate::failure::{Failure, Outcome};
use crate::file;

/// Runs a method on tensors from files and writes its results
///
/// A tensor file is little endian: u32 count; per tensor u32 type (0 f32, 1 f16, 2 i32, 3 i64, 4 bf16, 5 bool,
/// 6 u8), u32 rank, i32 sizes, raw data. Several --inputs, or the files step_NNN_input.bin of --steps, are run
/// in order on one session: mutable buffers keep their contents from step to step.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program
    model: PathBuf,
    /// Tensors of one step; may be given several times
    #[arg(long, value_name = "FILE", required_unless_present = "steps", conflicts_with = "steps")]
    inputs: Vec<PathBuf>,
    /// Where results go: one file per --inputs, or with --steps a folder for step_NNN_output.bin
    #[arg(long, value_name = "FILE", required = true)]
    outputs: Vec<PathBuf>,
    /// A folder with step_000_input.bin, step_001_input.bin, ...
    #[arg(long, value_name = "DIR")]
    steps: Option<PathBuf>,
    /// The method
    #[arg(long, default_value = "forward")]
    method: String,
    /// Most device memory: 512MB in all, or +256MB on top of weights and state
    #[arg(long, value_name = "BYTES")]
    budget: Option<Budget>,
    #[command(flatten)]
    device: DeviceArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Outcome {
    let steps = steps(args)?;
    let model = file::open(&args.model)?;
    model.method(&args.method)?;
    let engine = args.device.open()?;
    let options = SessionOptions { budget: args.budget.unwrap_or_default(), ..SessionOptions::default() };
    let mut session = bind(&engine, &model)?.session(options)?;
    for (number, (input, output)) in steps.iter().enumerate() {
        let results = step(&model, &mut session, &args.method, input)
            .map_err(|f| Failure { message: format!("step {number}: {}", f.message), ..f })?;
        std::fs::write(output, write_tensors(&results)?).map_err(|e| Failure::file(output, e))?;
        let shapes: Vec<String> = results.iter().map(|t| format!("{} {:?}", t.dtype, t.dims)).collect();
        println!("{} -> {}: {}", input.display(), output.display(), shapes.join(", "));
    }
    Ok(())
}

/// The input and output file of each step.
fn steps(args: &Args) -> Outcome<Vec<(PathBuf, PathBuf)>> {
    let Some(dir) = &args.steps else {
        if args.inputs.len() != args.outputs.len() {
            let (i, o) = (args.inputs.len(), args.outputs.len());
            return Err(Failure::usage(format!(
                "{i} --inputs and {o} --outputs: give one --outputs for each --inputs"
            )));
        }
        return Ok(args.inputs.iter().cloned().zip(args.outputs.iter().cloned()).collect());
    };
    let [to] = args.outputs.as_slice() else {
        return Err(Failure::usage("--steps takes one --outputs: the folder that results go to"));
    };
    std::fs::create_dir_all(to).map_err(|e| Failure::file(to, e))?;
    let list: Vec<_> = (0..)
        .map(|n| (dir.join(format!("step_{n:03}_input.bin")), to.join(format!("step_{n:03}_output.bin"))))
        .take_while(|(input, _)| input.is_file())
        .collect();
    if list.is_empty() {
        return Err(Failure::file(dir, "there is no step_000_input.bin"));
    }
    Ok(list)
}

fn step(model: &Model, session: &mut Session, method: &str, input: &Path) -> Outcome<Vec<Tensor>> {
    let (_, m) = model.method(method)?;
    let tensors = read_tensors(input)?;
    let items: Vec<Item> = tensors.into_iter().enumerate().map(|(i, t)| as_argument(t, m, i)).collect();
    let results = session.run(method, &items)?;
    Ok(results.into_iter().filter_map(as_tensor).collect())
}
