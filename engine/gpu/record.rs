//! The interpreter loop's sink: steps become dispatches, and a value that only the device knows ends a segment.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::gpu::submit::Stream;
use crate::gpu::weights::Weights;
use crate::kernel::emit::{Address, Dispatches, Variants};
use crate::kernel::{Call, Emit, View, view};
use crate::plan::sizes::{Sink, extent_bytes};
use crate::table::{Col, Life, Pipe, Step};

/// Records a run and plays it.
pub struct Recorder<'a> {
    /// The device.
    pub gpu: &'a Gpu,
    /// The session's buffers.
    pub stream: &'a mut Stream,
    /// The program's constants.
    pub weights: &'a Weights,
    /// Addresses of all lives.
    pub addresses: &'a Col<Life, Address>,
    /// Bytes that the plan gave each life.
    pub planned: &'a Col<Life, u64>,
    /// The lives whose memory views look into.
    pub base: &'a Col<Life, Option<Life>>,
    /// Weight shards of each step.
    pub shards: &'a Col<Step, [u32; 2]>,
    /// Variants seen so far.
    pub variants: &'a mut Variants,
    /// Dispatches not played yet.
    pub table: &'a mut Dispatches,
    /// Variants of the last run, in order.
    pub guess: &'a [Pipe],
    /// Where in `guess` the table begins.
    pub played: usize,
    /// Variants of this run, in order.
    pub record: &'a mut Vec<Pipe>,
    /// Times the host waited for a value.
    pub waits: u32,
    /// Bytes after which the table is played.
    pub threshold: Option<u64>,
    /// Bytes that instructions have touched since then.
    pub touched: u64,
    /// Times the threshold was reached.
    pub flushes: u32,
}

impl Recorder<'_> {
    fn emit(&mut self, step: Step) -> Emit<'_> {
        Emit {
            addresses: self.addresses,
            variants: self.variants,
            caps: self.gpu.caps,
            step,
            shards: self.shards[step],
            guess: self.guess.get(self.played..).unwrap_or(&[]),
            out: self.table,
        }
    }

    /// Plays what is recorded.
    ///
    /// # Errors
    /// What the device reports.
    pub fn flush(&mut self) -> Result<()> {
        self.stream.play(self.gpu, self.weights, self.variants.list(), self.table)?;
        self.record.extend_from_slice(&self.table.pipe);
        self.played += self.table.len();
        self.table.clear();
        Ok(())
    }
}

/// An integer as the host reads it.
pub fn integer(dtype: DType, bytes: &[u8]) -> Option<i64> {
    Some(match dtype {
        DType::I64 => i64::from_le_bytes(bytes.get(..8)?.try_into().ok()?),
        DType::I32 => i64::from(i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)),
        DType::U32 => i64::from(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)),
        DType::I16 => i64::from(i16::from_le_bytes(bytes.get(..2)?.try_into().ok()?)),
        DType::I8 => i64::from(*bytes.first()? as i8),
        DType::U8 => i64::from(*bytes.first()?),
        DType::Bool => i64::from(*bytes.first()? != 0),
        // The delegate's item<int>() truncates.
        DType::F32 => f32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as i64,
        DType::F16 => half::f16::from_le_bytes(bytes.get(..2)?.try_into().ok()?).to_f32() as i64,
        DType::BF16 => half::bf16::from_le_bytes(bytes.get(..2)?.try_into().ok()?).to_f32() as i64,
    })
}

impl Sink for Recorder<'_> {
    /// No tensor outgrows the place that the plan gave it.
    fn sized(&mut self, life: Life, view: &View, _: bool) -> Result<()> {
        let bytes = extent_bytes(view);
        if self.base[life].is_none() && bytes > self.planned[life] {
            return Err(Error::limit(format!(
                "{life} takes {bytes} bytes of shape {:?}; the plan gave it {}",
                &view.dims[..],
                self.planned[life]
            )));
        }
        Ok(())
    }

    fn op(&mut self, step: Step, call: &Call<'_>) -> Result<()> {
        let encode = call.row().kernel.encode;
        encode(call, &mut self.emit(step))?;
        let Some(threshold) = self.threshold else { return Ok(()) };
        // Touched bytes count while the operands are still live; the check comes after.
        self.touched += call.lives.iter().map(|&l| call.facts.views[l].bytes() as u64).sum::<u64>();
        if self.touched >= threshold {
            self.touched = 0;
            self.flushes += 1;
            self.flush()?;
        }
        Ok(())
    }

    fn copy(&mut self, step: Step, from: (Life, &View), to: (Life, &View)) -> Result<()> {
        let mut emit = self.emit(step);
        let (a, b) = (emit.locate(from.0, from.1)?, emit.locate(to.0, to.1)?);
        view::copy(&mut emit, &a, &b)
    }

    fn read(&mut self, _: Step, life: Life, view: &View) -> Result<Option<i64>> {
        self.flush()?;
        self.waits += 1;
        let from = self.addresses[life].plus((view.offset * view.dtype.size()) as u64);
        let mut value = None;
        self.stream.read(self.gpu, self.weights, &[(from, view.dtype.size() as u64)], |_, bytes| {
            value = integer(view.dtype, bytes);
        })?;
        value.map(Some).ok_or_else(|| Error::unsupported("the value could not be read"))
    }

    fn plans(&self) -> bool {
        false
    }
}
