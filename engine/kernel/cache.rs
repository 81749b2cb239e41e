//! Attention through the cache that the runtime keeps (see [`crate::program::cache`]).
//!
//! New keys and values are written first, at their position or around a ring; then every query attends to what
//! its layer keeps. A ring is read where it lies: the shader turns logical positions into cells.

use super::attend::{Attend, attend, attend_scratch, sizes};
use super::scatter::{Region, put_region};
use super::{Alias, Call, Emit, Kernel, Outs, View};
use crate::error::{Error, Result};
use crate::op::fields::update_and_attend as f;
use crate::program::cache::KEYS;
use crate::table::Life;

/// `UpdateAndAttend`.
pub static UPDATE_AND_ATTEND: Kernel = Kernel::new(Alias::Fresh, shape, encode).with_scratch(1);

/// Where one run's keys go and what it attends to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    /// Cells that the layer has.
    slots: usize,
    /// First new position.
    position: usize,
    /// New positions.
    rows: usize,
    /// Positions that are attended to, the newest last.
    keys: usize,
    /// Whether the cells are a ring narrower than the sequence.
    ring: bool,
}

/// The lives of the layer's keys and values.
fn cache(c: &Call<'_>) -> Result<[Life; 2]> {
    let uses = &c.graph.uses[c.inst];
    let at = uses.iter().position(|u| u.field == KEYS);
    at.map(|i| [c.lives[i], c.lives[i + 1]]).ok_or_else(|| Error::malformed("the program's cache is not configured"))
}

/// `position` is `None` while planning: as many keys as the layer can hold.
fn span(slots: usize, window: Option<usize>, capacity: usize, position: Option<i64>, rows: usize) -> Result<Span> {
    let at = match position {
        Some(p) => usize::try_from(p).map_err(|_| Error::input(format!("position {p} is negative")))?,
        None => capacity.saturating_sub(rows),
    };
    let end = at + rows;
    if end > capacity {
        return Err(Error::input(format!("positions {at}..{end} pass the cache's capacity of {capacity}")));
    }
    let ring = window.is_some();
    let keys = window.map_or(end, |w| end.min(w + rows.max(1) - 1));
    if keys > slots || rows > slots {
        return Err(Error::input(format!("{rows} positions at a time; the ring of {slots} cells takes fewer")));
    }
    Ok(Span { slots, position: at, rows, keys, ring })
}

fn find_span(c: &Call<'_>) -> Result<(Span, Option<usize>)> {
    let [keys, _] = cache(c)?;
    let slots = c.facts.views[keys].dims[2];
    let (window, capacity) = c.graph.cache_limits(c.inst);
    let rows = c.tensor(f::k)?.dims.get(2).copied().unwrap_or(0);
    let position = c.known_item(f::position);
    if position.is_none() && c.facts.host.runs() {
        return Err(Error::unsupported("the position must be an argument of the program").at("field position"));
    }
    Ok((span(slots, window, capacity, position, rows)?, window))
}

/// The cache as the attention sees it: `keys` positions, oldest first.
fn seen(cells: &View, s: Span) -> View {
    let mut v = cells.clone();
    v.dims[2] = s.keys;
    v
}

fn shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let (q, k, v) = (c.tensor(f::q)?, c.tensor(f::k)?, c.tensor(f::v)?);
    let [keys, values] = cache(c)?;
    sizes(q, k, v)?;
    let (stored_k, stored_v) = (&c.facts.views[keys], &c.facts.views[values]);
    for (new, stored, name) in [(k, stored_k, "k"), (v, stored_v, "v")] {
        if new.dims[0] != 1 || new.dims[1] != stored.dims[1] || new.dims[3] != stored.dims[3] {
            return Err(Error::input(format!(
                "shape {:?}; the layer's cache is {:?}",
                &new.dims[..],
                &stored.dims[..]
            ))
            .at(format!("field {name}")));
        }
    }
    let (s, _) = find_span(c)?;
    let sizes = sizes(q, &seen(stored_k, s), &seen(stored_v, s))?;
    let t = c.dtype(f::out_dtype)?.unwrap_or(q.dtype);
    out.fresh(c, f::out, t, &sizes.out());
    out.inexact = c.known_item(f::position).is_none();
    let words = attend_scratch(&sizes, t);
    if words > 0 {
        out.scratch_words(words);
    }
    Ok(())
}

fn encode(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let [keys, values] = cache(c)?;
    let (s, window) = find_span(c)?;
    for (new, cells) in [(f::k, keys), (f::v, values)] {
        let (new, cells) = (e.tensor(c, new)?, e.locate(cells, &c.facts.views[cells])?);
        let start = if s.ring { s.position % s.slots } else { s.position };
        let first = s.rows.min(s.slots - start);
        for (from, to, count) in [(0, start, first), (first, 0, s.rows - first)] {
            if count > 0 {
                let part = new.with_view(super::view::narrow(&new.view, 2, from, from + count, 1));
                put_region(e, &part, &cells, Region { axis: 2, start: to, step: 1, count })?;
            }
        }
    }
    let (q, out) = (e.tensor(c, f::q)?, e.tensor(c, f::out)?);
    let (k, v) = (&c.facts.views[keys], &c.facts.views[values]);
    let (k, v) = (e.locate(keys, &seen(k, s))?, e.locate(values, &seen(v, s))?);
    let first = s.position + s.rows - s.keys;
    let call = Attend {
        s: sizes(&q.view, &k.view, &v.view)?,
        q,
        k,
        v,
        mask: None,
        scale: c.float(f::scale)? as f32,
        causal: true,
        ring: if s.ring { [s.slots as u32, (first % s.slots) as u32] } else { [0, 0] },
        window: window.map_or(0, |w| w as u32),
    };
    attend(c, e, call, &out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_layer_keeps_everything() {
        let s = span(16, None, 16, Some(5), 3).unwrap();
        assert_eq!((s.position, s.keys, s.ring), (5, 8, false));
        assert!(span(16, None, 16, Some(14), 3).unwrap_err().to_string().contains("capacity of 16"));
        assert!(span(16, None, 16, Some(-1), 3).is_err());
    }

    #[test]
    fn a_ring_keeps_its_window_and_what_a_run_adds() {
        // Window 4, runs of up to 3: rings of 6 cells.
        for (position, rows, keys) in [(0, 3, 3), (3, 3, 6), (9, 3, 6), (9, 1, 4), (2, 1, 3), (3, 1, 4), (4, 1, 4)] {
            assert_eq!(span(6, Some(4), 100, Some(position), rows).unwrap().keys, keys, "{position} {rows}");
        }
        assert!(span(6, Some(4), 100, Some(10), 4).is_err());
    }
}
