//! From a checked program to one whose memory is known: the timeline, effects, lives, sizes and places.

pub mod bound;
pub mod effects;
pub mod lives;
pub mod place;
pub mod sizes;
pub mod steps;
pub mod tail;

use crate::dtype::DType;
use crate::error::Result;
use crate::kernel::call::HostData;
use crate::kernel::{Call, View};
use crate::plan::lives::Lives;
use crate::plan::place::Places;
use crate::plan::sizes::{Argument, Sink, Sizes, Walk, extent_bytes};
use crate::plan::steps::Steps;
use crate::program::Graph;
use crate::table::{Chain, Col, Life, Step};

/// What is made once per chain that a call can begin with.
#[derive(Debug)]
pub struct Timeline {
    /// Steps.
    pub steps: Steps,
    /// Lives.
    pub lives: Lives,
}

impl Timeline {
    /// The timeline that begins with `main`.
    ///
    /// # Errors
    /// When a limit is passed, or a temp is read that nothing wrote.
    pub fn of(g: &Graph, main: Chain) -> Result<Self> {
        let steps = Steps::of(g, main)?;
        let effects = effects::Effects::of(g, &[main]);
        let lives = Lives::of(g, &steps, &effects)?;
        Ok(Self { steps, lives })
    }

    /// Sizes at the given argument shapes, and the places of all lives. `made` are constants as the init chain
    /// left them.
    ///
    /// # Errors
    /// When an argument or a shape rule does not fit.
    pub fn place(
        &self,
        g: &Graph,
        made: &[(crate::table::Slot, View)],
        args: &[Argument],
        keep_temps: bool,
    ) -> Result<Placed> {
        self.place_tail(g, made, args, keep_temps, None)
    }

    /// As [`Timeline::place`], without rows of a result that nobody wants.
    ///
    /// # Errors
    /// As [`Timeline::place`].
    pub fn place_tail(
        &self,
        g: &Graph,
        made: &[(crate::table::Slot, View)],
        args: &[Argument],
        keep_temps: bool,
        tail: Option<tail::Tail>,
    ) -> Result<Placed> {
        let mut sizes = Sizes::default();
        sizes.begin(g, &self.lives, made, args)?;
        let mut bytes = Col::filled(0u64, self.lives.len());
        for life in self.lives.slot.ids() {
            bytes[life] = extent_bytes(&sizes.views[life]);
        }
        // Outputs are sized by what writes them.
        for slot in g.tensors.of(crate::program::Home::Output).map(crate::table::Slot) {
            bytes[Lives::of_slot(slot)] = 0;
        }
        let sink = Planner { bytes, inexact: Col::filled(false, self.lives.len()), lives: &self.lives };
        let mut walk = Walk::new(g, &self.steps, &self.lives, &mut sizes, &NoData, sink);
        walk.tail = tail;
        let sink = walk.run()?;
        let (bytes, inexact) = (sink.bytes, sink.inexact);
        let fits = |heir: Life, from: Life| {
            let (a, b) = (&sizes.views[heir], &sizes.views[from]);
            let exact = !inexact[heir] && !inexact[from];
            self.lives.inherits[heir]
                || exact
                    && a.dtype.size() == b.dtype.size()
                    && a.dims == b.dims
                    && b.is_contiguous()
                    && bytes[heir] == bytes[from]
        };
        let places = Places::of(&self.lives, self.steps.len(), &bytes, fits, keep_temps);
        Ok(Placed { sizes, places, bytes })
    }
}

/// Sizes and places at one set of argument shapes.
#[derive(Debug)]
pub struct Placed {
    /// Sizes, upper bounds where they depend on data.
    pub sizes: Sizes,
    /// Places.
    pub places: Places,
    /// Most bytes of each life that has memory of its own.
    pub bytes: Col<Life, u64>,
}

/// Data is not at hand when planning.
struct NoData;
impl HostData for NoData {
    fn element(&self, _: u32, _: DType, _: usize) -> Option<i64> {
        None
    }
    fn runs(&self) -> bool {
        false
    }
}

/// Notes the largest size of each life.
struct Planner<'a> {
    bytes: Col<Life, u64>,
    inexact: Col<Life, bool>,
    lives: &'a Lives,
}

impl Sink for Planner<'_> {
    fn sized(&mut self, life: Life, view: &View, inexact: bool) -> Result<()> {
        let bytes = extent_bytes(view);
        if bytes > crate::limits::MAX_TENSOR_BYTES {
            return Err(crate::error::Error::limit(format!(
                "a tensor of shape {:?} {} takes {bytes} bytes; the limit is {}",
                &view.dims[..],
                view.dtype,
                crate::limits::MAX_TENSOR_BYTES
            )));
        }
        if self.lives.base[life].is_none() {
            self.bytes[life] = self.bytes[life].max(bytes);
        }
        self.inexact[life] |= inexact;
        Ok(())
    }
    fn op(&mut self, _: Step, _: &Call<'_>) -> Result<()> {
        Ok(())
    }
    fn copy(&mut self, _: Step, _: (Life, &View), _: (Life, &View)) -> Result<()> {
        Ok(())
    }
    fn read(&mut self, _: Step, _: Life, _: &View) -> Result<Option<i64>> {
        Ok(None)
    }
    fn plans(&self) -> bool {
        true
    }
}
