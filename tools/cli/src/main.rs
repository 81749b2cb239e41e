//! The command line of lowtide.
//!
//! Exit codes: 0 success; 1 the command failed (an input, a file, a case); 2 wrong usage; 3 the program file
//! is broken or asks for something lowtide does not do; 4 no usable adapter, the device failed, or memory
//! ran out.

mod commands;
mod device;
mod failure;
mod file;
mod lm;
mod show;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Outcome;

/// Runs ExecuTorch programs lowered by the MLX delegate on any GPU.
#[derive(Parser)]
#[command(name = "lowtide", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the command failed: an input does not fit, a file cannot be read, a case is wrong
  2  wrong usage
  3  the program file is broken, or asks for something lowtide does not do
  4  no usable adapter, the device failed, or memory ran out

WGPU_BACKEND (vulkan, metal, dx12) and WGPU_ADAPTER_NAME choose the adapter, as --adapter does.";

#[derive(Subcommand)]
enum Command {
    Generate(commands::generate::Args),
    Bench(commands::bench::Args),
    Run(commands::run::Args),
    Inspect(commands::inspect::Args),
    Plan(commands::plan::Args),
    Verify(commands::verify::Args),
    Devices(commands::devices::Args),
    Ops(commands::ops::Args),
}

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Generate(args) => commands::generate::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Devices(args) => commands::devices::run(&args),
        Command::Ops(args) => commands::ops::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_exit_code_is_in_the_help() {
        let help = Cli::command().render_help().to_string();
        for code in 0..=4 {
            assert!(help.contains(&format!("\n  {code}  ")), "exit code {code} is not in the help");
        }
    }
}
