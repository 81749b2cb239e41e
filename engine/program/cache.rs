//! The key-value cache that a program leaves to its runtime (`UpdateAndAttend`).
//!
//! Each layer gets two mutable buffers of the session, so that liveness, placement, reset and reports treat
//! the cache as any other state. The instruction names them through two uses beyond its row's fields.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Access, Field, Op, fields};
use crate::program::pte::{Container, PlanValue};
use crate::program::{CacheLimits, DimBound, Graph, Operand, Use};
use crate::table::{Col, Csr, Id, Inst, Slot};

/// The use of an `UpdateAndAttend` that is its layer's keys.
pub const KEYS: Field = Field(200);
/// The use that is its layer's values.
pub const VALUES: Field = Field(201);

/// One layer of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLayer {
    /// Key-value heads.
    pub heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Positions that a query sees, itself included; `None` for all.
    pub window: Option<usize>,
}

/// The cache of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheConfig {
    /// Positions that a sequence can have.
    pub capacity: usize,
    /// Most positions that one run adds; the capacity or the window where it is not given.
    pub max_write: Option<usize>,
    /// Element type that keys and values are stored in.
    pub dtype: DType,
    /// Layers; one stands for all.
    pub layers: Vec<CacheLayer>,
}

impl CacheLayer {
    /// Positions that the layer's buffers hold: all of them, or a ring that a run of `max_write` positions
    /// cannot overtake.
    pub fn slots(&self, config: &CacheConfig) -> usize {
        match self.window {
            Some(w) => (w + config.max_write.unwrap_or(w).max(1) - 1).min(config.capacity),
            None => config.capacity,
        }
    }
}

/// What the constant methods of a file say: `get_n_caches`, `get_kv_heads`, `get_head_dims`, `get_windows`,
/// `get_max_ctx_len`, `get_prefill_chunk_size`. Keys and values are stored in the type of the first
/// result of `forward`.
pub fn from_methods(c: &Container) -> Option<CacheConfig> {
    let integers = |name: &str| -> Option<Vec<i64>> {
        let m = c.method(name).ok()?;
        match m.values.get(*m.outputs.first()?)? {
            PlanValue::Int(v) => Some(vec![*v]),
            PlanValue::Ints(v) => Some(v.clone()),
            PlanValue::Tensor(t) if t.dtype == DType::I32 => {
                let bytes = c.data().get(t.data.clone()?)?;
                Some(bytes.chunks_exact(4).map(|b| i64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect())
            }
            _ => None,
        }
    };
    let one = |name: &str| integers(name)?.first().and_then(|&v| usize::try_from(v).ok());
    let (n, heads, dims) = (one("get_n_caches")?, integers("get_kv_heads")?, integers("get_head_dims")?);
    let windows = integers("get_windows").unwrap_or_default();
    let layers = (0..n)
        .map(|i| {
            let window = windows.get(i).copied().filter(|&w| w > 0).map(|w| w as usize);
            Some(CacheLayer {
                heads: usize::try_from(*heads.get(i)?).ok()?,
                head_dim: usize::try_from(*dims.get(i)?).ok()?,
                window,
            })
        })
        .collect::<Option<Vec<_>>>()?;
    let dtype = c.method("forward").ok().and_then(|m| match m.values.get(*m.outputs.first()?)? {
        PlanValue::Tensor(t) if t.dtype.is_float() => Some(t.dtype),
        _ => None,
    });
    Some(CacheConfig {
        capacity: one("get_max_ctx_len").or_else(|| one("get_max_seq_len"))?,
        max_write: one("get_prefill_chunk_size"),
        dtype: dtype.unwrap_or(DType::F32),
        layers,
    })
}

/// Gives each layer that `g` names its buffers. A graph without such instructions comes back as it is.
///
/// # Errors
/// When there are such instructions and no configuration, or a layer that it does not have.
pub fn attach(mut g: Graph, config: Option<&CacheConfig>) -> Result<Graph> {
    let attends: Vec<(Inst, usize)> = layers_named(&g)?;
    if attends.is_empty() {
        return Ok(g);
    }
    let config = config.ok_or_else(|| {
        Error::input(
            "the program keeps its key-value cache outside of itself, and neither the file nor the caller describes it",
        )
    })?;
    let count = attends.iter().map(|a| a.1 + 1).max().unwrap_or(0);
    let layer = |i: usize| if config.layers.len() == 1 { config.layers.first() } else { config.layers.get(i) };
    for &(inst, i) in &attends {
        if layer(i).is_none() {
            return Err(Error::input(format!("layer {i} is named; the cache has {} layers", config.layers.len()))
                .at(g.describe(inst)));
        }
    }
    let buffers: Vec<(String, [u32; 4])> = (0..count)
        .filter_map(|i| layer(i).map(|l| (i, l)))
        .flat_map(|(i, l)| {
            let dims = [1, l.heads as u32, l.slots(config) as u32, l.head_dim as u32];
            [(format!("cache.{i}.keys"), dims), (format!("cache.{i}.values"), dims)]
        })
        .collect();
    let first = insert_mutable(&mut g, config.dtype, &buffers);
    let mut uses: Csr<Inst, Use> = Csr::default();
    for inst in g.insts.op.ids() {
        g.uses[inst].iter().for_each(|&u| uses.push(u));
        if let Some(&(_, i)) = attends.iter().find(|a| a.0 == inst) {
            let at = first + 2 * i as u32;
            uses.push(Use { slot: Slot(at), access: Access::InOut, field: KEYS });
            uses.push(Use { slot: Slot(at + 1), access: Access::InOut, field: VALUES });
        }
        uses.end_row();
    }
    g.uses = uses;
    g.cache = CacheLimits { capacity: config.capacity, windows: config.layers.iter().map(|l| l.window).collect() };
    Ok(g)
}

/// The instructions that attend through the cache, with their layers.
fn layers_named(g: &Graph) -> Result<Vec<(Inst, usize)>> {
    let attend = Op::from_name("UpdateAndAttend");
    g.insts
        .op
        .iter()
        .filter(|(_, op)| Some(**op) == attend)
        .map(|(inst, _)| {
            let layer = g.operands(inst, fields::update_and_attend::layer_id).next().map(|i| g.scalars.at(i));
            match layer {
                Some(Operand::Int(v)) if (0..4096).contains(&v) => Ok((inst, v as usize)),
                other => Err(Error::malformed(format!("layer {other:?} is no layer")).at(g.describe(inst))),
            }
        })
        .collect()
}

/// Adds mutable buffers after those there are; temps move up. Returns the first new slot.
fn insert_mutable(g: &mut Graph, dtype: DType, buffers: &[(String, [u32; 4])]) -> u32 {
    let first = g.tensors.first[4];
    let by = buffers.len() as u32;
    let moved = |s: Slot| if s.0 >= first { Slot(s.0 + by) } else { s };
    let old = std::mem::take(&mut g.tensors);
    let (mut dtypes, mut names, mut dims) = (Col::default(), Col::default(), Csr::default());
    let mut add = |t: Option<DType>, name: &str, d: &[DimBound]| {
        dtypes.push(t);
        names.push(name.to_string());
        d.iter().for_each(|&b| dims.push(b));
        let _: Slot = dims.end_row();
    };
    for s in (0..old.len()).map(Slot::new) {
        if s.0 == first {
            buffers.iter().for_each(|(n, d)| add(Some(dtype), n, &d.map(DimBound::fixed)));
        }
        add(old.dtype[s], &old.name[s], &old.dims[s]);
    }
    if old.len() as u32 == first {
        buffers.iter().for_each(|(n, d)| add(Some(dtype), n, &d.map(DimBound::fixed)));
    }
    g.tensors.first = old.first;
    g.tensors.first[4] += by;
    g.tensors.first[5] += by;
    (g.tensors.dtype, g.tensors.name, g.tensors.dims) = (dtypes, names, dims);
    for i in 0..g.scalars.len() {
        if let Operand::Tensor(s) = g.scalars.at(i) {
            g.scalars.bits[i] = u64::from(moved(s).0);
        }
    }
    g.uses.items_mut().iter_mut().for_each(|u| u.slot = moved(u.slot));
    for port in g.inputs.iter_mut().chain(&mut g.outputs) {
        if let crate::program::Port::Tensor(s) = port {
            *s = moved(*s);
        }
    }
    g.mutable.extend((first..first + by).map(Slot));
    first
}
