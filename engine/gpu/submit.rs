//! Playing dispatches: parameter upload, passes, submissions, waiting and reading back.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::gpu::Gpu;
use crate::gpu::device::BindGroups;
use crate::gpu::weights::Weights;
use crate::kernel::Variant;
use crate::kernel::emit::{Address, Dispatches, PARAM_BYTES};
use crate::table::{Col, Id, Pipe};

/// A submission that takes longer than this is given up as hung.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Dispatches per submission: the device starts early and no watchdog fires.
const SUBMIT_DISPATCHES: usize = 192;
/// Parameter blocks that the session keeps on the device: a ring that several submissions fit in.
const PARAM_BLOCKS: usize = 1024;
/// Bytes of that ring, part of each session's staging.
pub const PARAM_RING_BYTES: u64 = (PARAM_BLOCKS * PARAM_BYTES) as u64;

/// The buffers of a session on the device.
pub struct Stream {
    pub(crate) arena: wgpu::Buffer,
    pub(crate) state: Option<wgpu::Buffer>,
    params: wgpu::Buffer,
    staging: wgpu::Buffer,
    /// The next free block of `params`.
    cursor: usize,
    groups: BindGroups,
    pipes: Vec<wgpu::ComputePipeline>,
    /// Device time of each kernel, where the session asks for it.
    profile: Option<Profile>,
    /// Dispatches played so far, over all runs.
    pub dispatched: u64,
    /// Submissions so far, over all runs.
    pub submitted: u64,
}

impl Stream {
    /// Buffers for an arena and a state of the given sizes.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn new(gpu: &Gpu, arena_bytes: u64, state_bytes: u64) -> Result<Self> {
        let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let state = if state_bytes > 0 { Some(gpu.buffer("state", state_bytes, storage)?) } else { None };
        Ok(Self {
            arena: gpu.buffer("arena", arena_bytes, storage)?,
            state,
            params: gpu.buffer(
                "params",
                PARAM_RING_BYTES,
                wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            )?,
            cursor: 0,
            staging: staging_buffer(gpu, 256)?,
            groups: BindGroups::new(),
            pipes: Vec::new(),
            profile: None,
            dispatched: 0,
            submitted: 0,
        })
    }

    /// Makes the arena at least this large. Its contents are lost.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn reserve_arena(&mut self, gpu: &Gpu, bytes: u64) -> Result<()> {
        if self.arena == gpu.empty || self.arena.size() < bytes {
            self.groups.clear();
            let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
            // Gives the old one back before the new one is taken.
            self.arena = gpu.empty.clone();
            self.arena = gpu.buffer("arena", bytes, storage)?;
        }
        Ok(())
    }

    /// Gives the arena back; the next run takes a new one.
    pub fn release_arena(&mut self, gpu: &Gpu) {
        self.groups.clear();
        self.arena = gpu.empty.clone();
    }

    /// Bytes of the arena buffer.
    pub fn arena_bytes(&self, gpu: &Gpu) -> u64 {
        if self.arena == gpu.empty { 0 } else { self.arena.size() }
    }
    /// Bytes of parameter and staging buffers.
    pub fn staging_bytes(&self) -> u64 {
        self.params.size() + self.staging.size()
    }

    /// Zeroes the state.
    pub fn clear_state(&self, gpu: &Gpu) {
        if let Some(state) = &self.state {
            let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            encoder.clear_buffer(state, 0, None);
            gpu.queue.submit([encoder.finish()]);
        }
    }

    /// Compiles what is new among `variants`.
    fn prepare(&mut self, gpu: &Gpu, variants: &Col<Pipe, Variant>) -> Result<()> {
        for v in &variants.as_slice()[self.pipes.len()..] {
            self.pipes.push(gpu.pipelines.get(&gpu.device, v)?);
        }
        Ok(())
    }

    /// Plays all dispatches of the table.
    ///
    /// # Errors
    /// When a variant does not compile or memory runs out.
    pub fn play(
        &mut self,
        gpu: &Gpu,
        weights: &Weights,
        variants: &Col<Pipe, Variant>,
        table: &Dispatches,
    ) -> Result<()> {
        if table.is_empty() {
            return Ok(());
        }
        self.prepare(gpu, variants)?;
        for &shards in &table.shards {
            if !self.groups.contains_key(&shards) {
                let group = self.bind(gpu, weights, shards);
                self.groups.insert(shards, group);
            }
        }
        if self.profile.is_some() {
            self.dispatched += table.len() as u64;
            return self.play_timed(gpu, table);
        }
        for first in (0..table.len()).step_by(SUBMIT_DISPATCHES) {
            let range = first..table.len().min(first + SUBMIT_DISPATCHES);
            if self.cursor + range.len() > PARAM_BLOCKS {
                self.cursor = 0;
            }
            let base = self.cursor;
            self.cursor += range.len();
            let bytes = &table.params[range.start * PARAM_BYTES..range.end * PARAM_BYTES];
            gpu.queue.write_buffer(&self.params, (base * PARAM_BYTES) as u64, bytes);
            let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                let mut bound: Option<Pipe> = None;
                let mut group: Option<([u32; 2], &wgpu::BindGroup)> = None;
                for i in range {
                    let pipe = table.pipe[i];
                    if bound != Some(pipe) {
                        pass.set_pipeline(&self.pipes[pipe.index()]);
                        bound = Some(pipe);
                    }
                    let shards = table.shards[i];
                    let binding = match group {
                        Some((s, g)) if s == shards => g,
                        _ => &self.groups[&shards],
                    };
                    group = Some((shards, binding));
                    pass.set_bind_group(0, binding, &[((base + i - first) * PARAM_BYTES) as u32]);
                    pass.dispatch_workgroups(table.groups[i][0], table.groups[i][1], 1);
                }
            }
            gpu.queue.submit([encoder.finish()]);
            self.submitted += 1;
        }
        self.dispatched += table.len() as u64;
        Ok(())
    }

    /// From now on, measures each dispatch on the device: one pass each, so runs get slower.
    ///
    /// # Errors
    /// When the adapter has no timestamps.
    pub fn start_profile(&mut self, gpu: &Gpu) -> Result<()> {
        self.profile = Some(Profile::new(gpu)?);
        Ok(())
    }

    /// Per compiled variant: dispatches and nanoseconds on the device since [`Stream::start_profile`].
    pub fn profile(&self) -> Vec<(Pipe, u64, f64)> {
        let totals = self.profile.as_ref().map(|p| p.totals.as_slice()).unwrap_or_default();
        totals.iter().enumerate().filter(|(_, t)| t.0 > 0).map(|(i, t)| (Pipe::new(i), t.0, t.1)).collect()
    }

    fn play_timed(&mut self, gpu: &Gpu, table: &Dispatches) -> Result<()> {
        for first in (0..table.len()).step_by(SUBMIT_DISPATCHES) {
            let range = first..table.len().min(first + SUBMIT_DISPATCHES);
            let bytes = &table.params[range.start * PARAM_BYTES..range.end * PARAM_BYTES];
            gpu.queue.write_buffer(&self.params, 0, bytes);
            self.cursor = range.len();
            let Some(profile) = &mut self.profile else { return Ok(()) };
            let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for i in range.clone() {
                let at = 2 * (i - first) as u32;
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: None,
                    timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                        query_set: &profile.queries,
                        beginning_of_pass_write_index: Some(at),
                        end_of_pass_write_index: Some(at + 1),
                    }),
                });
                pass.set_pipeline(&self.pipes[table.pipe[i].index()]);
                pass.set_bind_group(0, &self.groups[&table.shards[i]], &[((i - first) * PARAM_BYTES) as u32]);
                pass.dispatch_workgroups(table.groups[i][0], table.groups[i][1], 1);
            }
            profile.collect(gpu, encoder, &table.pipe[range])?;
        }
        Ok(())
    }

    fn bind(&self, gpu: &Gpu, weights: &Weights, shards: [u32; 2]) -> wgpu::BindGroup {
        let shard = |i: u32| weights.shards.get(i as usize).unwrap_or(&gpu.empty);
        fn whole(binding: u32, buffer: &wgpu::Buffer) -> wgpu::BindGroupEntry<'_> {
            wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() }
        }
        // A buffer may be bound for writing once only, so a missing state is a buffer of its own.
        let params = wgpu::BindGroupEntry {
            binding: 4,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &self.params,
                offset: 0,
                size: std::num::NonZeroU64::new(PARAM_BYTES as u64),
            }),
        };
        let no_state;
        let state = match &self.state {
            Some(s) => s,
            None => {
                no_state = gpu.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("no state"),
                    size: 256,
                    usage: wgpu::BufferUsages::STORAGE,
                    mapped_at_creation: false,
                });
                &no_state
            }
        };
        gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &gpu.bind_layout,
            entries: &[
                whole(0, &self.arena),
                whole(1, shard(shards[0])),
                whole(2, shard(shards[1])),
                whole(3, state),
                params,
            ],
        })
    }

    /// Reads byte ranges of the session's buffers and of the constants back, after everything submitted before.
    ///
    /// # Errors
    /// When the device is lost or does not answer in time.
    pub fn read(
        &mut self,
        gpu: &Gpu,
        weights: &Weights,
        ranges: &[(Address, u64)],
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let at_of = |a: Address| match a {
            Address::Arena(at) | Address::State(at) | Address::Weights { at, .. } => at,
        };
        let padded = |at: u64, len: u64| (at & !3, (len + (at & 3)).next_multiple_of(4));
        let total: u64 = ranges.iter().map(|&(a, len)| padded(at_of(a), len).1).sum();
        if total == 0 {
            ranges.iter().enumerate().for_each(|(i, _)| each(i, &[]));
            return Ok(());
        }
        if self.staging.size() < total {
            self.staging = staging_buffer(gpu, total)?;
        }
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut to = 0;
        for &(address, len) in ranges {
            let (from, size) = padded(at_of(address), len);
            let buffer = match address {
                Address::Arena(_) => &self.arena,
                Address::State(_) => self.state.as_ref().unwrap_or(&self.arena),
                Address::Weights { shard, .. } => &weights.shards[shard as usize],
            };
            if size > 0 {
                encoder.copy_buffer_to_buffer(buffer, from, &self.staging, to, size);
            }
            to += size;
        }
        gpu.queue.submit([encoder.finish()]);
        let (tell, told) = std::sync::mpsc::channel();
        self.staging.slice(..total).map_async(wgpu::MapMode::Read, move |r| {
            let _ = tell.send(r);
        });
        let device = |text: String| Error::new(ErrorKind::Device, text);
        gpu.device
            .poll(wgpu::PollType::Wait { submission_index: None, timeout: Some(TIMEOUT) })
            .map_err(|e| device(format!("the device did not finish within {} s: {e}", TIMEOUT.as_secs())))?;
        gpu.check()?;
        told.recv()
            .map_err(|_| device("the device dropped a read".into()))?
            .map_err(|e| device(format!("reading back failed: {e}")))?;
        {
            let view = self
                .staging
                .slice(..total)
                .get_mapped_range()
                .map_err(|e| device(format!("reading back failed: {e}")))?;
            let mut from = 0usize;
            for (i, &(address, len)) in ranges.iter().enumerate() {
                let at = at_of(address);
                let skip = (at & 3) as usize;
                each(i, &view[from + skip..from + skip + len as usize]);
                from += padded(at, len).1 as usize;
            }
        }
        self.staging.unmap();
        Ok(())
    }

    /// Waits until everything submitted is done.
    ///
    /// # Errors
    /// When the device is lost or does not answer in time.
    pub fn finish(&self, gpu: &Gpu) -> Result<()> {
        gpu.device.poll(wgpu::PollType::Wait { submission_index: None, timeout: Some(TIMEOUT) }).map_err(|e| {
            Error::new(ErrorKind::Device, format!("the device did not finish within {} s: {e}", TIMEOUT.as_secs()))
        })?;
        gpu.check()
    }
}

fn staging_buffer(gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer> {
    gpu.buffer("staging", bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST)
}

/// Timestamps around dispatches.
struct Profile {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    read: wgpu::Buffer,
    /// Per variant: dispatches and nanoseconds.
    totals: Vec<(u64, f64)>,
}

impl Profile {
    fn new(gpu: &Gpu) -> Result<Self> {
        if !gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Err(Error::unsupported(format!("{} has no timestamps", gpu.facts.name)));
        }
        let count = 2 * SUBMIT_DISPATCHES as u32;
        let bytes = u64::from(count) * 8;
        let queries = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count,
        });
        let resolve = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let read = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        Ok(Self {
            queries,
            resolved: gpu.buffer("timestamps", bytes, resolve)?,
            read: gpu.buffer("timestamps", bytes, read)?,
            totals: Vec::new(),
        })
    }

    /// Submits what is encoded and adds up its times.
    fn collect(&mut self, gpu: &Gpu, mut encoder: wgpu::CommandEncoder, pipes: &[Pipe]) -> Result<()> {
        let count = 2 * pipes.len() as u32;
        encoder.resolve_query_set(&self.queries, 0..count, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.read, 0, u64::from(count) * 8);
        gpu.queue.submit([encoder.finish()]);
        let slice = self.read.slice(..u64::from(count) * 8);
        slice.map_async(wgpu::MapMode::Read, |_| {});
        let device = |e: String| Error::new(ErrorKind::Device, format!("timestamps: {e}"));
        let wait = wgpu::PollType::Wait { submission_index: None, timeout: Some(TIMEOUT) };
        gpu.device.poll(wait).map_err(|e| device(e.to_string()))?;
        {
            let view = slice.get_mapped_range().map_err(|e| device(e.to_string()))?;
            let period = f64::from(gpu.queue.get_timestamp_period());
            let stamps: Vec<u64> = view
                .chunks_exact(8)
                .map(|b| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
                .collect();
            for (pair, pipe) in stamps.chunks_exact(2).zip(pipes) {
                if self.totals.len() <= pipe.index() {
                    self.totals.resize(pipe.index() + 1, (0, 0.0));
                }
                let total = &mut self.totals[pipe.index()];
                total.0 += 1;
                total.1 += pair[1].saturating_sub(pair[0]) as f64 * period;
            }
        }
        self.read.unmap();
        Ok(())
    }
}
