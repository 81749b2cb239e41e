//! Opening the adapter that the arguments ask for.

use lowtide::gpu::{AdapterFacts, GpuOptions};
use lowtide::{BindOptions, Bound, Engine, EngineOptions, Model};
use serde_json::{Value as Json, json};

use crate::failure::Outcome;
use crate::show;

/// Which adapter to run on.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct DeviceArgs {
    /// Part of the adapter's name, in any case (see `lowtide devices`)
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Option<String>,
}

impl DeviceArgs {
    /// The engine's options.
    pub(crate) fn options(&self) -> EngineOptions {
        EngineOptions { gpu: GpuOptions { adapter: self.adapter.clone(), ..GpuOptions::default() } }
    }
    /// Opens the device.
    pub(crate) fn open(&self) -> Outcome<Engine> {
        Ok(Engine::new(&self.options())?)
    }
}

/// Binds a program, with a progress bar for its weights.
pub(crate) fn bind(engine: &Engine, model: &Model) -> Outcome<Bound> {
    let bar = show::byte_bar("weights");
    let mut progress = |done: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let bound = engine.bind(model, BindOptions { progress: Some(&mut progress), ..BindOptions::default() });
    bar.finish_and_clear();
    Ok(bound?)
}

/// `llvmpipe (vulkan, Cpu)`.
pub(crate) fn describe(a: &AdapterFacts) -> String {
    format!("{} ({}, {})", a.name, a.backend, a.kind)
}

/// An adapter as JSON.
pub(crate) fn adapter_json(a: &AdapterFacts) -> Json {
    json!({
        "name": a.name,
        "backend": a.backend,
        "kind": a.kind,
        "driver": a.driver,
        "binding_bytes": a.binding_bytes,
        "buffer_bytes": a.buffer_bytes,
    })
}
