//! One delegate graph on a device: what is bound once, and what each session keeps.

use std::ops::Range;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::gpu::device::buffer_bytes;
use crate::gpu::record::{Recorder, integer};
use crate::gpu::submit::{PARAM_RING_BYTES, Stream};
use crate::gpu::weights::{Weights, write_padded};
use crate::kernel::call::HostData;
use crate::kernel::emit::{Address, Dispatches, Variants};
use crate::kernel::{Value, View};
use crate::plan::bound::{Init, Tables};
use crate::plan::lives::Lives;
use crate::plan::place::{ALIGN, Places};
use crate::plan::sizes::{Argument, Sizes, Walk, extent_bytes};
use crate::plan::tail::{Tail, last_row};
use crate::plan::{Placed, Timeline};
use crate::program::{Bytes, Graph, Home, Port};
use crate::session::BindOptions;
use crate::session::value::{Item, Tensor, gather};
use crate::table::{Col, Life, Pipe, Slot, Step};

/// A graph with its timeline and its constants on the device. Shared by sessions.
pub(crate) struct BoundGraph {
    pub(crate) main: Timeline,
    init: Option<Init>,
    /// Constants as the init chain leaves them.
    made: Vec<(Slot, View)>,
    pub(crate) weights: Weights,
    shards: Col<Step, [u32; 2]>,
    /// Byte offset of each mutable buffer in the session's state.
    state: Col<Life, u64>,
    pub(crate) state_bytes: u64,
    /// Whether the init chain names mutable buffers, so that each session runs it.
    init_per_session: bool,
    pub(crate) keep_temps: bool,
    /// Per output: where rows are left out when only the last is wanted.
    tails: Vec<Option<Tail>>,
}

/// Shapes that a session has planned, with the addresses of all lives.
struct Shape {
    args: Vec<Argument>,
    tail: Option<Tail>,
    placed: Placed,
    addresses: Col<Life, Address>,
}

/// Shapes that a session remembers.
const SHAPES: usize = 8;

/// One session's part of a graph.
pub(crate) struct GraphSession {
    pub(crate) stream: Stream,
    sizes: Sizes,
    variants: Variants,
    table: Dispatches,
    guess: Vec<Pipe>,
    record: Vec<Pipe>,
    shapes: Vec<Shape>,
    /// What the last run did.
    pub(crate) last: RunFacts,
}

/// Figures of one run of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunFacts {
    /// Bytes of the arena that the run's places span.
    pub arena_bytes: u64,
    /// Largest sum of live bytes over the steps.
    pub lower_bound: u64,
    /// Temps that were still live when the run ended.
    pub end_live_temps: usize,
    /// Their bytes.
    pub end_live_bytes: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Times the host waited for a value from the device.
    pub waits: u32,
    /// Times the evaluation threshold made it submit.
    pub flushes: u32,
}

/// Integer arguments, for shape rules.
struct Arguments<'a>(&'a [Item]);

impl HostData for Arguments<'_> {
    fn element(&self, port: u32, dtype: DType, index: usize) -> Option<i64> {
        match self.0.get(port as usize)? {
            Item::Tensor(t) if t.dtype == dtype => integer(dtype, t.bytes.get(index * dtype.size()..)?),
            _ => None,
        }
    }
}

/// What planning needs of the arguments of a run.
pub(crate) fn arguments(items: &[Item]) -> Result<Vec<Argument>> {
    items.iter().map(argument).collect()
}

fn argument(item: &Item) -> Result<Argument> {
    Ok(match item {
        Item::Tensor(t) => Argument::Tensor(t.dims.as_slice().into()),
        Item::Int(v) => Argument::Scalar(Value::Int(*v)),
        Item::Bool(v) => Argument::Scalar(Value::Int(i64::from(*v))),
        Item::Float(v) => Argument::Scalar(Value::Float(*v)),
        other => return Err(Error::input(format!("{other:?} cannot be passed to a delegate"))),
    })
}

impl GraphSession {
    /// Label, dispatches and device nanoseconds of each variant, slowest first.
    pub(crate) fn profile(&self) -> Vec<(String, u64, f64)> {
        let list = self.variants.list();
        let mut rows: Vec<_> =
            self.stream.profile().into_iter().map(|(p, n, t)| (list[p].label().into_owned(), n, t)).collect();
        rows.sort_by(|a, b| b.2.total_cmp(&a.2));
        rows
    }
    /// Forgets planned shapes.
    pub(crate) fn forget_shapes(&mut self) {
        self.shapes.clear();
    }
}

impl BoundGraph {
    /// Makes the tables of a graph, uploads its constants and runs its init chain.
    pub(crate) fn new(
        gpu: &Gpu,
        g: &Graph,
        source: &Bytes,
        constants: &[Option<Range<usize>>],
        options: &BindOptions<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let Tables { main, init, made, state, state_bytes, keep_temps } = Tables::of(g, options.keep_temps)?;
        let init_per_session = init.as_ref().is_some_and(Init::names_state);
        let weights = Weights::upload(gpu, g, source, constants, &made, options.synthetic_weights, progress)?;
        let shards = main.steps.inst.iter().map(|(_, &i)| weights.shards_of(g, i)).collect::<Vec<_>>().into();
        let tails = (0..g.outputs.len()).map(|i| Tail::of(g, &main, i)).collect();
        let bound = Self { main, init, made, weights, shards, state, state_bytes, init_per_session, keep_temps, tails };
        if bound.init.is_some() {
            let mut stream = Stream::new(gpu, 256, bound.state_bytes)?;
            bound.run_init(gpu, &mut stream, true)?;
        }
        Ok(bound)
    }

    fn address(&self, lives: &Lives, places: &Places, life: Life) -> Address {
        let root = lives.base[life].unwrap_or(life);
        match lives.home[root] {
            Home::Constant => self.weights.address[Slot(root.0)],
            Home::Mutable => Address::State(self.state[root]),
            Home::Input | Home::Output | Home::Temp => Address::Arena(places.offset[root]),
        }
    }

    fn addresses(&self, lives: &Lives, places: &Places) -> Col<Life, Address> {
        lives.slot.ids().map(|l| self.address(lives, places, l)).collect::<Vec<_>>().into()
    }

    /// Runs the init chain; with `store`, keeps the constants that it makes.
    fn run_init(&self, gpu: &Gpu, stream: &mut Stream, store: bool) -> Result<()> {
        let Some(Init { timeline, placed, graph: g }) = &self.init else { return Ok(()) };
        let lives = &timeline.lives;
        let mut addresses = self.addresses(lives, &placed.places);
        let mut end = placed.places.arena_bytes;
        let mut moves = Vec::new();
        for (slot, view) in &self.made {
            let life = Lives::of_slot(*slot);
            if let Address::Weights { shard, at } = addresses[life] {
                moves.push((end, shard, at, (view.bytes() as u64).next_multiple_of(4)));
            }
            addresses[life] = Address::Arena(end);
            end += (view.bytes() as u64).next_multiple_of(ALIGN);
        }
        for life in lives.slot.ids() {
            if let Some(root) = lives.base[life] {
                addresses[life] = addresses[root];
            }
        }
        stream.reserve_arena(gpu, end)?;
        let shards = timeline.steps.inst.iter().map(|(_, &i)| self.weights.shards_of(g, i)).collect::<Vec<_>>().into();
        let mut sizes = Sizes::default();
        sizes.begin(g, lives, &[], &[])?;
        let recorder = Recorder {
            gpu,
            stream,
            weights: &self.weights,
            addresses: &addresses,
            planned: &placed.bytes,
            base: &lives.base,
            shards: &shards,
            variants: &mut Variants::default(),
            table: &mut Dispatches::default(),
            guess: &[],
            played: 0,
            record: &mut Vec::new(),
            waits: 0,
            threshold: None,
            touched: 0,
            flushes: 0,
        };
        let mut recorder = Walk::new(g, &timeline.steps, lives, &mut sizes, &Arguments(&[]), recorder).run()?;
        recorder.flush()?;
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for (from, shard, at, bytes) in moves.into_iter().filter(|m| store && m.3 > 0) {
            encoder.copy_buffer_to_buffer(&stream.arena, from, &self.weights.shards[shard as usize], at, bytes);
        }
        gpu.queue.submit([encoder.finish()]);
        stream.finish(gpu)
    }

    /// Sizes and places at the given arguments.
    pub(crate) fn place(&self, g: &Graph, args: &[Argument], wanted: &[Want]) -> Result<Placed> {
        self.main.place_tail(g, &self.made, args, self.keep_temps, self.tail(wanted))
    }

    fn tail(&self, wanted: &[Want]) -> Option<Tail> {
        self.tails.iter().zip(wanted).find_map(|(tail, want)| tail.filter(|_| *want == Want::LastRow))
    }

    /// A session's buffers, with the state as the init chain leaves it.
    pub(crate) fn session(&self, gpu: &Gpu) -> Result<GraphSession> {
        let mut s = GraphSession {
            stream: Stream::new(gpu, 256, self.state_bytes)?,
            sizes: Sizes::default(),
            variants: Variants::default(),
            table: Dispatches::default(),
            guess: Vec::new(),
            record: Vec::new(),
            shapes: Vec::new(),
            last: RunFacts::default(),
        };
        self.reset(gpu, &mut s)?;
        Ok(s)
    }

    /// Zeroes the state and runs an init chain that writes it.
    pub(crate) fn reset(&self, gpu: &Gpu, s: &mut GraphSession) -> Result<()> {
        s.stream.clear_state(gpu);
        if self.init_per_session {
            self.run_init(gpu, &mut s.stream, false)?;
        }
        Ok(())
    }

    /// Bytes of arena and staging that a run with these arguments takes when it reads back what is `wanted`.
    pub(crate) fn needs(&self, g: &Graph, s: &mut GraphSession, args: &[Argument], wanted: &[Want]) -> Result<u64> {
        let shape = self.shape(g, &mut s.shapes, args, wanted)?;
        Ok(arena_bytes(&shape.placed) + staging_bytes(g, &shape.placed, wanted).max(s.stream.staging_bytes()))
    }

    fn shape<'s>(
        &self,
        g: &Graph,
        shapes: &'s mut Vec<Shape>,
        args: &[Argument],
        wanted: &[Want],
    ) -> Result<&'s Shape> {
        let tail = self.tail(wanted);
        if let Some(i) = shapes.iter().position(|s| s.args == args && s.tail == tail) {
            let hit = shapes.remove(i);
            shapes.insert(0, hit);
        } else {
            let placed = self.place(g, args, wanted)?;
            let addresses = self.addresses(&self.main.lives, &placed.places);
            shapes.truncate(SHAPES - 1);
            shapes.insert(0, Shape { args: args.to_vec(), tail, placed, addresses });
        }
        Ok(&shapes[0])
    }

    /// Runs the main chain. `wanted` says which outputs to read back, and of those with three dims or
    /// more whether only the last row of the last but one.
    pub(crate) fn run(
        &self,
        gpu: &Gpu,
        g: &Graph,
        s: &mut GraphSession,
        items: &[Item],
        wanted: &[Want],
        threshold: Option<u64>,
    ) -> Result<Vec<Option<Item>>> {
        for (i, (port, item)) in g.inputs.iter().zip(items).enumerate() {
            if let (Port::Tensor(slot), Item::Tensor(t)) = (port, item)
                && g.tensors.dtype[*slot] != Some(t.dtype)
            {
                let want = g.tensors.dtype[*slot].map_or("nothing", DType::name);
                return Err(Error::input(format!("input {i} is {}; the file wants {want}", t.dtype)));
            }
        }
        let shape = self.shape(g, &mut s.shapes, &arguments(items)?, wanted)?;
        s.stream.reserve_arena(gpu, shape.placed.places.arena_bytes)?;
        s.sizes.begin(g, &self.main.lives, &self.made, &shape.args)?;
        for (port, item) in g.inputs.iter().zip(items) {
            if let (Port::Tensor(slot), Item::Tensor(t)) = (port, item)
                && let Address::Arena(at) = shape.addresses[Lives::of_slot(*slot)]
            {
                write_padded(gpu, &s.stream.arena, at, &t.bytes);
            }
        }
        s.record.clear();
        let host = Arguments(items);
        let recorder = Recorder {
            gpu,
            stream: &mut s.stream,
            weights: &self.weights,
            addresses: &shape.addresses,
            planned: &shape.placed.bytes,
            base: &self.main.lives.base,
            shards: &self.shards,
            variants: &mut s.variants,
            table: &mut s.table,
            guess: &s.guess,
            played: 0,
            record: &mut s.record,
            waits: 0,
            threshold,
            touched: 0,
            flushes: 0,
        };
        let mut walk = Walk::new(g, &self.main.steps, &self.main.lives, &mut s.sizes, &host, recorder);
        walk.tail = shape.tail;
        let result = walk.run().and_then(|mut r| r.flush().map(|()| (r.waits, r.flushes)));
        s.table.clear();
        let (waits, flushes) = result?;
        std::mem::swap(&mut s.guess, &mut s.record);
        s.last = facts(&self.main, &shape.placed, self.keep_temps);
        s.last.dispatches = s.guess.len() as u64;
        s.last.waits = waits;
        s.last.flushes = flushes;
        self.read_outputs(gpu, g, &mut s.stream, &s.sizes, &shape.addresses, wanted)
    }

    fn read_outputs(
        &self,
        gpu: &Gpu,
        g: &Graph,
        stream: &mut Stream,
        sizes: &Sizes,
        addresses: &Col<Life, Address>,
        wanted: &[Want],
    ) -> Result<Vec<Option<Item>>> {
        let mut ranges = Vec::new();
        let mut views = Vec::new();
        let mut out: Vec<Option<Item>> = vec![None; g.outputs.len()];
        for (i, port) in g.outputs.iter().enumerate() {
            let want = wanted.get(i).copied().unwrap_or(Want::All);
            match (port, want) {
                (_, Want::Nothing) => {}
                (Port::Tensor(slot), _) => {
                    let life = Lives::of_slot(*slot);
                    let mut view = part(&sizes.views[life], want);
                    let skip = (view.offset * view.dtype.size()) as u64;
                    let from = addresses[life].plus(skip);
                    view.offset = 0;
                    ranges.push((from, extent_bytes(&view)));
                    views.push((i, view));
                }
                (Port::Int(v) | Port::Bool(v) | Port::Float(v), _) => {
                    out[i] = Some(match sizes.values[*v] {
                        Value::Int(x) => Item::Int(x),
                        Value::Float(x) => Item::Float(x),
                        Value::Unknown | Value::Later { .. } => {
                            return Err(Error::malformed(format!("output {i} was never computed")));
                        }
                    });
                }
            }
        }
        stream.read(gpu, &self.weights, &ranges, |k, bytes| {
            let (i, view) = &views[k];
            out[*i] =
                Some(Item::Tensor(Tensor { dtype: view.dtype, dims: view.dims.to_vec(), bytes: gather(view, bytes) }));
        })?;
        Ok(out)
    }
}

/// Which part of an output a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Want {
    /// All of it.
    #[default]
    All,
    /// Of `[.., rows, columns]`, the last row.
    LastRow,
    /// None of it: it is not read back.
    Nothing,
}

/// The part of a tensor that is read back.
fn part(view: &View, want: Want) -> View {
    if want == Want::LastRow { last_row(view) } else { view.clone() }
}

/// Bytes of the arena buffer that a run at these places takes.
pub(crate) fn arena_bytes(placed: &Placed) -> u64 {
    buffer_bytes(placed.places.arena_bytes)
}

/// Bytes of parameters and of staging for what is read back.
pub(crate) fn staging_bytes(g: &Graph, placed: &Placed, wanted: &[Want]) -> u64 {
    let sizes = &placed.sizes;
    let read: u64 = g
        .outputs
        .iter()
        .enumerate()
        .map(|(i, port)| match (port, wanted.get(i).copied().unwrap_or(Want::All)) {
            (_, Want::Nothing) | (Port::Int(_) | Port::Bool(_) | Port::Float(_), _) => 0,
            (Port::Tensor(slot), want) => {
                let mut view = part(&sizes.views[Lives::of_slot(*slot)], want);
                let odd = (view.offset * view.dtype.size()) as u64 & 3;
                view.offset = 0;
                (extent_bytes(&view) + odd).next_multiple_of(4)
            }
        })
        .sum();
    PARAM_RING_BYTES + buffer_bytes(read)
}

/// What the tables say of a run at these places.
pub(crate) fn facts(t: &Timeline, placed: &Placed, keep: bool) -> RunFacts {
    let mut f = RunFacts {
        arena_bytes: placed.places.arena_bytes,
        lower_bound: placed.places.lower_bound,
        ..RunFacts::default()
    };
    // Every temp is in the release table at its last use; what is in no row is what would stay.
    let released: usize = if keep { 0 } else { t.lives.release.items().len() };
    let temps = || t.lives.slot.ids().filter(|&l| t.lives.home[l] == Home::Temp && t.lives.slot[l].is_some());
    if keep {
        f.end_live_temps = temps().count();
        f.end_live_bytes = temps().map(|l| placed.places.bytes[l]).sum();
    } else {
        debug_assert!(released >= temps().count());
    }
    f
}
