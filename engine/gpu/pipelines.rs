//! Compiled variants, shared by all programs of a device.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::gpu::device::chain;
use crate::kernel::Variant;
use crate::kernel::emit::source;

/// The variants compiled so far.
pub struct Pipelines {
    layout: wgpu::PipelineLayout,
    done: Mutex<HashMap<Variant, wgpu::ComputePipeline>>,
    /// Time spent compiling.
    nanos: AtomicU64,
}

impl Pipelines {
    pub(crate) fn new(device: &wgpu::Device, bind_layout: &wgpu::BindGroupLayout) -> Self {
        let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("lowtide"),
            bind_group_layouts: &[Some(bind_layout)],
            immediate_size: 0,
        });
        Self { layout, done: Mutex::default(), nanos: AtomicU64::new(0) }
    }

    /// The compiled form of a variant.
    ///
    /// # Errors
    /// When the device rejects it.
    pub(crate) fn get(&self, device: &wgpu::Device, v: &Variant) -> Result<wgpu::ComputePipeline> {
        if let Some(p) = self.done.lock().unwrap_or_else(PoisonError::into_inner).get(v) {
            return Ok(p.clone());
        }
        let start = Instant::now();
        let compiled = self.compile(device, v)?;
        self.nanos.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.done.lock().unwrap_or_else(PoisonError::into_inner).insert(v.clone(), compiled.clone());
        Ok(compiled)
    }

    fn compile(&self, device: &wgpu::Device, v: &Variant) -> Result<wgpu::ComputePipeline> {
        let label = v.label();
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let desc =
            wgpu::ShaderModuleDescriptor { label: Some(&label), source: wgpu::ShaderSource::Wgsl(source(v).into()) };
        // Bounds checks stay. Loops need no guard: each counts up to a number that its kernel was given, and
        // the guard keeps drivers from unrolling them (twice the time on an H200).
        let checks = wgpu::ShaderRuntimeChecks { force_loop_bounding: false, ..wgpu::ShaderRuntimeChecks::checked() };
        // SAFETY: what is asked of shaders compiled this way is that their loops end, and lowtide's do; no text
        // of a program's file becomes a shader.
        #[allow(unsafe_code)]
        let module = unsafe { device.create_shader_module_trusted(desc, checks) };
        let constants: Vec<(&str, f64)> = v.options.iter().map(|&(name, value)| (name, f64::from(value))).collect();
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&label),
            layout: Some(&self.layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &constants,
                // Kernels write workgroup memory before they read it.
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        });
        match pollster::block_on(scope.pop()) {
            None => Ok(pipeline),
            Some(e) => Err(Error::new(ErrorKind::Device, format!("kernel {label} does not compile: {}", chain(&e)))),
        }
    }

    /// Number of variants compiled so far.
    pub fn count(&self) -> usize {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Time spent compiling them. A driver that compiles at first use adds that to the run instead.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}
