//! Constants on the device: a few large read-only buffers.
//!
//! A dispatch can bind two of them. Small constants come first, so that they share shard 0; the large
//! ones of an instruction are kept together.

use std::collections::HashMap;
use std::ops::Range;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::kernel::View;
use crate::kernel::emit::Address;
use crate::program::{Bytes, Graph, Home};
use crate::table::{Col, Inst, Slot};

/// Constants up to this size gather in the first shard.
const SMALL_BYTES: u64 = 64 << 10;
/// Constants begin on this boundary.
const ALIGN: u64 = 256;
/// Bytes uploaded before the staging memory is waited for and given back.
const UPLOAD_PIECE: usize = 8 << 20;

/// Where each constant is.
pub struct Weights {
    pub(crate) shards: Vec<wgpu::Buffer>,
    /// Address of each constant slot.
    pub(crate) address: Col<Slot, Address>,
    /// Bytes of all shards.
    pub bytes: u64,
}

/// Plans shards: constants of one instruction in at most two of them.
struct Layout {
    limit: u64,
    sizes: Vec<u64>,
    address: Col<Slot, Option<(u32, u64)>>,
    /// File ranges that are already placed: equal blobs are stored once.
    seen: HashMap<(usize, usize), (u32, u64)>,
}

impl Layout {
    fn place(&mut self, slot: Slot, bytes: u64, range: Option<&Range<usize>>, shard: usize) {
        if self.address[slot].is_some() {
            return;
        }
        let key = range.map(|r| (r.start, r.end));
        if let Some(&at) = key.and_then(|k| self.seen.get(&k)) {
            self.address[slot] = Some(at);
            return;
        }
        while self.sizes.len() <= shard {
            self.sizes.push(0);
        }
        let at = (shard as u32, self.sizes[shard]);
        self.sizes[shard] += bytes.next_multiple_of(ALIGN);
        self.address[slot] = Some(at);
        if let Some(k) = key {
            self.seen.insert(k, at);
        }
    }
}

impl Weights {
    /// Plans and uploads the constants of a graph. `ranges` are their bytes in `source`; a constant without
    /// one is made by the init chain, as is each slot in `made`, with what it becomes. With a seed, constants that are
    /// all zeros get made-up values. `progress` hears of bytes done.
    ///
    /// # Errors
    /// When a constant does not fit a binding of the adapter, or memory runs out.
    pub fn upload(
        gpu: &Gpu,
        g: &Graph,
        source: &Bytes,
        ranges: &[Option<Range<usize>>],
        made: &[(Slot, View)],
        synthetic: Option<u64>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let file = (**source).as_ref();
        let layout = plan(g, ranges, made, gpu.facts.binding_bytes.min(gpu.facts.buffer_bytes))?;
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let shards = layout.sizes.iter().map(|&s| gpu.buffer("weights", s, usage)).collect::<Result<Vec<_>>>()?;
        let total: u64 = layout.sizes.iter().sum();
        let mut address = Col::filled(Address::Weights { shard: 0, at: 0 }, layout.address.len());
        let mut done = 0u64;
        let mut pending = 0usize;
        let mut sent: HashMap<(u32, u64), ()> = HashMap::new();
        for slot in g.tensors.of(Home::Constant).map(Slot) {
            let Some((shard, at)) = layout.address[slot] else { continue };
            address[slot] = Address::Weights { shard, at };
            let Some(range) = ranges[slot.0 as usize].clone() else { continue };
            if made.iter().any(|m| m.0 == slot) || sent.insert((shard, at), ()).is_some() {
                continue;
            }
            let seed = synthetic.filter(|_| file[range.clone()].iter().all(|&b| b == 0));
            for (i, piece) in file[range.clone()].chunks(UPLOAD_PIECE).enumerate() {
                let to = at + (i * UPLOAD_PIECE) as u64;
                match (seed, g.tensors.dtype[slot]) {
                    (Some(seed), Some(dtype)) => {
                        let key = seed ^ (u64::from(slot.0) << 40) ^ (i as u64) << 20;
                        write_padded(gpu, &shards[shard as usize], to, &made_up(dtype, piece.len(), key));
                    }
                    _ => write_padded(gpu, &shards[shard as usize], to, piece),
                }
                done += piece.len() as u64;
                pending += piece.len();
                if pending >= UPLOAD_PIECE {
                    pending = 0;
                    gpu.queue.submit([]);
                    let _ = gpu.device.poll(wgpu::PollType::wait_indefinitely());
                }
                // The device has its copy: the file's pages need not stay in memory too.
                let from = range.start + i * UPLOAD_PIECE;
                source.forget(from..from + piece.len());
                progress(done, total);
            }
        }
        gpu.queue.submit([]);
        let _ = gpu.device.poll(wgpu::PollType::wait_indefinitely());
        gpu.check()?;
        Ok(Self { shards, address, bytes: total })
    }

    /// The two shards that the constants of an instruction are in.
    pub(crate) fn shards_of(&self, g: &Graph, inst: Inst) -> [u32; 2] {
        let mut found: [Option<u32>; 2] = [None; 2];
        for u in &g.uses[inst] {
            if g.tensors.home(u.slot) != Home::Constant {
                continue;
            }
            if let Address::Weights { shard, .. } = self.address[u.slot]
                && !found.contains(&Some(shard))
            {
                if found[0].is_none() {
                    found[0] = Some(shard);
                } else {
                    found[1] = Some(shard);
                }
            }
        }
        let low = found[0].unwrap_or(0);
        [low, found[1].unwrap_or(low)]
    }
}

/// Values in place of zeros, the same for the same seed: packed codes are uniform bits, floats are small
/// and of both signs, so that activations of deep programs stay finite.
fn made_up(dtype: DType, bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        // SplitMix64 (Steele, Lea, Flood 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        let bits = next();
        let small = ((bits >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 0.02;
        match dtype {
            DType::F32 => out.extend(small.to_le_bytes()),
            DType::BF16 => out.extend(half::bf16::from_f32(small).to_le_bytes()),
            DType::F16 => out.extend(half::f16::from_f32(small).to_le_bytes()),
            DType::Bool => out.push((bits & 1) as u8),
            // Integers other than packed codes are indices: zero is always in range.
            DType::I64 | DType::I32 | DType::I16 => out.push(0),
            DType::U32 | DType::U8 | DType::I8 => out.extend(bits.to_le_bytes()),
        }
    }
    out.truncate(bytes);
    out
}

/// Writes bytes of any length; buffers are written in words.
pub(crate) fn write_padded(gpu: &Gpu, buffer: &wgpu::Buffer, at: u64, bytes: &[u8]) {
    let whole = bytes.len() & !3;
    if whole > 0 {
        gpu.queue.write_buffer(buffer, at, &bytes[..whole]);
    }
    if whole < bytes.len() {
        let mut word = [0u8; 4];
        word[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
        gpu.queue.write_buffer(buffer, at + whole as u64, &word);
    }
}

fn declared_bytes(g: &Graph, slot: Slot) -> u64 {
    let count: u64 = g.tensors.dims[slot].iter().map(|d| u64::from(d.max.unwrap_or(d.min))).product();
    count * g.tensors.dtype[slot].map_or(0, |t| t.size() as u64)
}

/// Bytes of the constants of a graph on any device: how they are split into buffers does not change the sum.
///
/// # Errors
/// None at present.
pub(crate) fn planned_bytes(g: &Graph, ranges: &[Option<Range<usize>>], made: &[(Slot, View)]) -> Result<u64> {
    Ok(plan(g, ranges, made, u64::MAX / 2)?.sizes.iter().sum())
}

fn plan(g: &Graph, ranges: &[Option<Range<usize>>], made: &[(Slot, View)], limit: u64) -> Result<Layout> {
    let constants = g.tensors.of(Home::Constant);
    let mut layout =
        Layout { limit, sizes: vec![0], address: Col::filled(None, constants.len()), seen: HashMap::new() };
    // A slot that the init chain writes has contents of its own, whatever the file holds under its key.
    let made = made.iter().map(|(s, v)| (*s, v.bytes() as u64)).collect::<HashMap<_, _>>();
    let bytes_of = |slot: Slot| made.get(&slot).copied().unwrap_or_else(|| declared_bytes(g, slot));
    let range = |slot: Slot| if made.contains_key(&slot) { None } else { ranges[slot.0 as usize].as_ref() };
    for slot in constants.clone().map(Slot) {
        let bytes = bytes_of(slot);
        if bytes <= SMALL_BYTES && layout.sizes[0] + bytes + ALIGN <= limit {
            layout.place(slot, bytes, range(slot), 0);
        }
    }
    let mut shard = 0;
    for inst in g.insts.op.ids() {
        let group: Vec<Slot> = g.uses[inst]
            .iter()
            .map(|u| u.slot)
            .filter(|&s| g.tensors.home(s) == Home::Constant && layout.address[s].is_none())
            .collect();
        let need: u64 = group.iter().map(|&s| bytes_of(s).next_multiple_of(ALIGN)).sum();
        if layout.sizes[shard] + need > layout.limit {
            shard = layout.sizes.len();
        }
        for slot in group {
            let bytes = bytes_of(slot);
            if bytes > limit {
                return Err(Error::unsupported(format!(
                    "constant {slot} takes {bytes} bytes; the adapter binds {limit} at most and splitting rows is not written yet"
                )));
            }
            layout.place(slot, bytes, range(slot), shard);
        }
    }
    for inst in g.insts.op.ids() {
        let mut used: Vec<u32> = g.uses[inst]
            .iter()
            .filter(|u| g.tensors.home(u.slot) == Home::Constant)
            .filter_map(|u| layout.address[u.slot].map(|a| a.0))
            .collect();
        used.sort_unstable();
        used.dedup();
        if used.len() > 2 {
            return Err(Error::unsupported(format!(
                "its constants lie in {} weight buffers, two can be bound",
                used.len()
            ))
            .at(g.describe(inst)));
        }
    }
    Ok(layout)
}
