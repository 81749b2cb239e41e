//! `lowtide devices`: the adapters that wgpu finds.

use lowtide::Engine;
use serde_json::{Value as Json, json};

use crate::device::{DeviceArgs, adapter_json};
use crate::failure::{Failure, Outcome};
use crate::show;

/// Lists the adapters that programs can run on, best first
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command. No adapter at all is a failure, so that scripts can ask.
pub(crate) fn run(args: &Args) -> Outcome {
    let adapters = Engine::adapters(&DeviceArgs::default().options());
    if args.json {
        let list: Vec<Json> = adapters.iter().map(adapter_json).collect();
        println!("{:#}", json!({ "adapters": list }));
    } else if !adapters.is_empty() {
        let mut rows: Vec<Vec<String>> =
            vec![["name", "backend", "kind", "largest binding", "largest buffer", "driver"].map(String::from).into()];
        rows.extend(adapters.iter().map(|a| {
            let sizes = [show::bytes(a.binding_bytes), show::bytes(a.buffer_bytes)];
            let [binding, buffer] = sizes;
            vec![a.name.clone(), a.backend.clone(), a.kind.clone(), binding, buffer, a.driver.clone()]
        }));
        print!("{}", show::table(&rows, &[3, 4]));
    }
    if adapters.is_empty() {
        return Err(Failure {
            code: 4,
            message: "no Vulkan, Metal or DX12 adapter was found; on Linux without a GPU install a software one \
                      (Debian: mesa-vulkan-drivers)"
                .into(),
        });
    }
    Ok(())
}
