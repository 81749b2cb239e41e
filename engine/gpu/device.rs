//! Adapters and devices.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::gpu::pipelines::Pipelines;
use crate::kernel::emit::{Caps, PARAM_BYTES};

/// How the message of a lost device begins.
const LOST: &str = "the device was lost";

/// Which adapter to use. `WGPU_BACKEND` and `WGPU_ADAPTER_NAME` in the environment are honoured.
#[derive(Clone, Debug, Default)]
pub struct GpuOptions {
    /// Part of the adapter's name, in any case; overrides the environment.
    pub adapter: Option<String>,
    /// Use wgpu's no-op backend: nothing is computed. For measuring the CPU side only.
    pub noop: bool,
    /// Choose kernels as for a CPU, or as for a GPU; `None` asks the adapter. For testing.
    pub software: Option<bool>,
}

/// What an adapter is and can do.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterFacts {
    /// Its name.
    pub name: String,
    /// `vulkan`, `metal`, `dx12`, `noop`.
    pub backend: String,
    /// `DiscreteGpu`, `IntegratedGpu`, `Cpu`, ...
    pub kind: String,
    /// Driver name and version.
    pub driver: String,
    /// Largest storage binding, in bytes.
    pub binding_bytes: u64,
    /// Largest buffer, in bytes.
    pub buffer_bytes: u64,
}

/// A device with what all programs on it share.
pub struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    /// The adapter.
    pub facts: AdapterFacts,
    /// What kernels choose by.
    pub caps: Caps,
    pub(crate) bind_layout: wgpu::BindGroupLayout,
    pub(crate) pipelines: Pipelines,
    /// Stands in for bindings that a program does not use.
    pub(crate) empty: wgpu::Buffer,
    failure: Arc<Mutex<Option<String>>>,
}

/// A device's error on one line.
pub(crate) fn chain(e: &wgpu::Error) -> String {
    e.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn device_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Device, message)
}

fn instance(options: &GpuOptions) -> wgpu::Instance {
    let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
    desc.backends = if options.noop {
        wgpu::Backends::NOOP
    } else {
        (wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12).with_env()
    };
    // No validation layers and no indirect-call checks: both cost per dispatch.
    desc.flags = wgpu::InstanceFlags::empty();
    desc.backend_options.noop.enable = options.noop;
    wgpu::Instance::new(desc)
}

fn facts(adapter: &wgpu::Adapter) -> AdapterFacts {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    AdapterFacts {
        name: info.name,
        backend: info.backend.to_string(),
        kind: format!("{:?}", info.device_type),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
        binding_bytes: limits.max_storage_buffer_binding_size,
        buffer_bytes: limits.max_buffer_size,
    }
}

/// Every adapter there is, best first.
pub fn adapters(options: &GpuOptions) -> Vec<AdapterFacts> {
    sorted_adapters(options).iter().map(facts).collect()
}

fn sorted_adapters(options: &GpuOptions) -> Vec<wgpu::Adapter> {
    let mut list = pollster::block_on(instance(options).enumerate_adapters(wgpu::Backends::all()));
    list.sort_by_key(|a| match a.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    });
    list
}

impl Gpu {
    /// Opens the adapter that `options` ask for.
    ///
    /// # Errors
    /// When there is none, or it refuses a device.
    pub fn new(options: &GpuOptions) -> Result<Self> {
        let wanted = options.adapter.clone().or_else(|| std::env::var("WGPU_ADAPTER_NAME").ok());
        let list = sorted_adapters(options);
        let names: Vec<String> = list.iter().map(|a| a.get_info().name).collect();
        let fits = |a: &&wgpu::Adapter| {
            wanted.as_ref().is_none_or(|w| a.get_info().name.to_lowercase().contains(&w.to_lowercase()))
        };
        let adapter = list.iter().find(fits).ok_or_else(|| match &wanted {
            Some(w) if !names.is_empty() => device_error(format!("no adapter is named like {w:?}; there are {names:?}")),
            _ => device_error(
                "no Vulkan, Metal or DX12 adapter was found; on Linux without a GPU install a software one (Debian: mesa-vulkan-drivers)",
            ),
        })?;
        Self::open(adapter, options)
    }

    fn open(adapter: &wgpu::Adapter, options: &GpuOptions) -> Result<Self> {
        let limits = adapter.limits();
        let features = adapter.features() & (wgpu::Features::PIPELINE_CACHE | wgpu::Features::TIMESTAMP_QUERY);
        let request = adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("lowtide"),
            required_features: features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        });
        let (device, queue) =
            pollster::block_on(request).map_err(|e| device_error(format!("the adapter refused a device: {e}")))?;
        let failure = Arc::new(Mutex::new(None));
        let note = |failure: &Arc<Mutex<Option<String>>>, text: String| {
            let mut slot = failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            slot.get_or_insert(text);
        };
        let on_error = failure.clone();
        device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| note(&on_error, chain(&e))));
        let on_lost = failure.clone();
        device.set_device_lost_callback(move |reason, text| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                note(&on_lost, format!("{LOST}: {text}"));
            }
        });
        let bind_layout = bind_layout(&device);
        let pipelines = Pipelines::new(&device, &bind_layout);
        let facts = facts(adapter);
        let caps = Caps {
            subgroup: [adapter.get_info().subgroup_min_size, adapter.get_info().subgroup_max_size],
            workgroup_bytes: limits.max_compute_workgroup_storage_size,
            workgroup_threads: limits.max_compute_invocations_per_workgroup,
            software: options.software.unwrap_or(adapter.get_info().device_type == wgpu::DeviceType::Cpu),
        };
        let empty = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("empty"),
            size: 256,
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        Ok(Self { device, queue, facts, caps, bind_layout, pipelines, empty, failure })
    }

    /// The first failure that the device reported outside of a call since the last time this was asked; a lost
    /// device stays lost.
    ///
    /// # Errors
    /// That failure.
    pub fn check(&self) -> Result<()> {
        let mut slot = self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*slot {
            Some(text) if text.starts_with(LOST) => Err(device_error(text.clone())),
            Some(_) => Err(device_error(slot.take().unwrap_or_default())),
            None => Ok(()),
        }
    }

    /// A buffer, or an error that says how much was wanted for what.
    ///
    /// # Errors
    /// When the adapter's limits or memory do not allow it.
    pub(crate) fn buffer(&self, what: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
        let size = buffer_bytes(bytes);
        let limit = if usage.contains(wgpu::BufferUsages::STORAGE) {
            self.facts.binding_bytes.min(self.facts.buffer_bytes)
        } else {
            self.facts.buffer_bytes
        };
        let memory = |text: String| Error::new(ErrorKind::Memory, text);
        if size > limit {
            return Err(memory(format!(
                "{what} takes {size} bytes; {} ({}) allows {limit} in one buffer",
                self.facts.name, self.facts.backend
            )));
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(what),
            size,
            usage,
            mapped_at_creation: false,
        });
        match pollster::block_on(scope.pop()) {
            None => Ok(buffer),
            Some(e) => Err(memory(format!("{what}: the device could not give {size} bytes: {}", chain(&e)))),
        }
    }
}

/// Bytes that a buffer takes when so many are asked for.
pub(crate) fn buffer_bytes(bytes: u64) -> u64 {
    bytes.max(256).next_multiple_of(16)
}

/// The one layout of all kernels: arena, two weight shards, state, parameters.
fn bind_layout(device: &wgpu::Device) -> wgpu::BindGroupLayout {
    let storage = |binding, read_only| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let params = wgpu::BindGroupLayoutEntry {
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Uniform,
            has_dynamic_offset: true,
            min_binding_size: std::num::NonZeroU64::new(PARAM_BYTES as u64),
        },
        ..storage(4, true)
    };
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some("lowtide"),
        entries: &[storage(0, false), storage(1, true), storage(2, true), storage(3, false), params],
    })
}

/// Bind groups by the shards they bind.
pub(crate) type BindGroups = HashMap<[u32; 2], wgpu::BindGroup>;
