//! Views: new descriptions of old bytes. Where a view cannot be one (its output is not a temp, its base
//! is overwritten while it is needed, or a reshape meets gaps) the passes have it copied by [`copy`].

use smallvec::SmallVec;

use super::call::{Known, restride, slice_range};
pub use super::map::copy;
use super::{Alias, Call, Contiguity, Dims, Emit, Kernel, Outs, Strides, View, axis, row_major};
use crate::error::{Error, Result};
use crate::op::{Field, fields};

const X: Field = Field(0);

pub(super) const fn view(contiguity: Contiguity, shape: fn(&Call<'_>, &mut Outs) -> Result<()>) -> Kernel {
    let encode = match contiguity {
        Contiguity::Needs => copy_rows,
        Contiguity::Same | Contiguity::Keeps | Contiguity::Breaks | Contiguity::NeedsThenBreaks => copy_views,
    };
    Kernel::new(Alias::View(X, contiguity), shape, encode)
}

/// `IdCopy`: the same tensor under another slot.
pub static ALIAS: Kernel = view(Contiguity::Same, alias);
/// `Contiguous`.
pub static CONTIGUOUS: Kernel = view(Contiguity::Needs, contiguous);
/// `ExpandDims`.
pub static EXPAND_DIMS: Kernel = view(Contiguity::Keeps, expand_dims);
/// `Squeeze`.
pub static SQUEEZE: Kernel = view(Contiguity::Keeps, squeeze);
/// `Split`.
pub static SPLIT: Kernel = view(Contiguity::Breaks, split);
/// `BroadcastTo`.
pub static BROADCAST: Kernel = view(Contiguity::Breaks, broadcast);
/// `Reshape`.
pub static RESHAPE: Kernel = view(Contiguity::Needs, reshape);
/// `Transpose`.
pub static TRANSPOSE: Kernel = view(Contiguity::Breaks, transpose);
/// `AsStrided`.
pub static AS_STRIDED: Kernel =
    Kernel::new(Alias::View(X, Contiguity::NeedsThenBreaks), as_strided, copy_strided).with_scratch(1);
/// `Slice`.
pub static SLICE: Kernel = view(Contiguity::Breaks, slice);

/// Copies what the shape rule describes of `x` into outputs that cannot be views.
fn copy_views(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let x = e.tensor(c, X)?;
    let mut outs = Outs::default();
    (c.row().kernel.shape)(c, &mut outs)?;
    for (index, view) in outs.tensors {
        let life = c.lives[index];
        if c.facts.base[life].is_some() {
            continue;
        }
        let to = e.locate(life, &c.facts.views[life])?;
        copy(e, &x.with_view(view), &to)?;
    }
    Ok(())
}

/// Copies the elements of `x`, in their own order, into an output of other dims.
fn copy_rows(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let (x, out) = (e.tensor(c, X)?, e.tensor(c, Field(1))?);
    copy(e, &x, &out)
}

/// Copies `x` into row-major scratch where it has gaps, then what the shape rule describes of that.
fn copy_strided(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let (mut x, to) = (e.tensor(c, X)?, e.tensor(c, fields::as_strided::out)?);
    let mut outs = Outs::default();
    as_strided(c, &mut outs)?;
    let mut view = outs.tensors.swap_remove(0).1;
    if !x.view.is_contiguous() {
        let rows = View::contiguous(x.view.dtype, &x.view.dims);
        let dense = e.locate(c.scratch[0], &rows)?;
        copy(e, &x, &dense)?;
        view.offset -= x.view.offset;
        x = dense;
    }
    copy(e, &x.with_view(view), &to)
}

/// Emits the view `f(x)` as the output in `field`; what the host knows of `x` follows through the same `f`.
pub(super) fn emit_view(c: &Call<'_>, out: &mut Outs, field: Field, f: impl Fn(&View) -> Result<View>) -> Result<()> {
    let x = c.tensor(X)?;
    out.view(c, field, f(x)?);
    match c.known(X) {
        Known::No => {}
        Known::Fill(v) => out.know(c, field, Known::Fill(*v)),
        Known::Input { port, view } => out.know(c, field, Known::Input { port: *port, view: f(view)? }),
    }
    Ok(())
}

fn alias(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    emit_view(c, out, fields::id_copy::out, |x| Ok(x.clone()))
}

fn contiguous(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    emit_view(c, out, fields::contiguous::out, |x| Ok(x.clone()))
}

fn expand_dims(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let at = axis(c.int(fields::expand_dims::axis)?, c.tensor(X)?.rank() + 1)?;
    if c.tensor(X)?.rank() == crate::limits::MAX_RANK {
        return Err(Error::limit(format!("rank passes {}", crate::limits::MAX_RANK)));
    }
    emit_view(c, out, fields::expand_dims::out, |x| {
        let mut v = x.clone();
        v.dims.insert(at, 1);
        v.strides.insert(at, 0);
        Ok(v)
    })
}

fn squeeze(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let x = c.tensor(X)?;
    let listed = c.ints(fields::squeeze::dims);
    let mut drop: SmallVec<[bool; 8]> = x.dims.iter().map(|&d| listed.is_empty() && d == 1).collect();
    for a in listed {
        let a = axis(a.unwrap_or(0), x.rank())?;
        // As PyTorch: a listed axis of another size stays.
        drop[a] = x.dims[a] == 1;
    }
    emit_view(c, out, fields::squeeze::out, |x| {
        let keep = |i: &usize| !drop[*i];
        let dims: Dims = (0..x.rank()).filter(keep).map(|i| x.dims[i]).collect();
        let strides: Strides = (0..x.rank()).filter(keep).map(|i| x.strides[i]).collect();
        Ok(restride(x, dims, strides, x.offset))
    })
}

/// Elements `start..stop` of one dimension, every `step`-th.
pub(crate) fn narrow(x: &View, axis: usize, start: usize, stop: usize, step: usize) -> View {
    let mut v = x.clone();
    v.dims[axis] = (stop - start).div_ceil(step);
    v.offset = (x.offset as isize + start as isize * x.strides[axis]) as usize;
    v.strides[axis] = x.strides[axis] * step as isize;
    v
}

fn split(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::split as f;
    let x = c.tensor(X)?;
    let at = axis(c.int(f::axis)?, x.rank())?;
    let mut sizes = c.ints(f::sizes);
    if sizes.len() == 1 && c.len_of(f::outs) > 1 {
        // One size stands for all parts; the last may be smaller.
        let size = sizes[0].unwrap_or(0).max(0);
        let last = x.dims[at] as i64 - size.saturating_mul(c.len_of(f::outs) as i64 - 1);
        sizes.resize(c.len_of(f::outs), Some(size));
        *sizes.last_mut().unwrap_or(&mut None) = Some(last);
    }
    if sizes.len() != c.len_of(f::outs) {
        return Err(Error::malformed(format!("{} sizes for {} outputs", sizes.len(), c.len_of(f::outs))));
    }
    let mut start = 0usize;
    for (i, size) in sizes.iter().enumerate() {
        let size = size.ok_or_else(|| Error::unsupported("a split size depends on tensor data"))?;
        let stop = usize::try_from(size).ok().and_then(|s| start.checked_add(s)).filter(|&s| s <= x.dims[at]);
        let Some(stop) = stop else {
            return Err(Error::malformed(format!(
                "size {size} at {start} passes the {} elements of axis {at}",
                x.dims[at]
            )));
        };
        out.view_at(c, f::outs, i, narrow(x, at, start, stop, 1));
        start = stop;
    }
    if start != x.dims[at] {
        return Err(Error::malformed(format!("sizes add up to {start}, axis {at} has {}", x.dims[at])));
    }
    Ok(())
}

/// Turns a list that may hold one -1 (and, at bounds, one unknown) into sizes of `count` elements.
fn infer_dims(wanted: &[Option<i64>], count: usize) -> Result<Dims> {
    let mut hole = None;
    let mut known = 1usize;
    let mut dims: Dims = SmallVec::new();
    for (i, w) in wanted.iter().enumerate() {
        match *w {
            Some(-1) | None if hole.is_none() => {
                hole = Some(i);
                dims.push(1);
            }
            Some(d) if d >= 0 && usize::try_from(d).is_ok_and(|d| known.checked_mul(d.max(1)).is_some()) => {
                known *= d as usize;
                dims.push(d as usize);
            }
            Some(-1) | None => {
                return Err(Error::malformed(format!("shape {wanted:?} leaves more than one size open")));
            }
            Some(d) => return Err(Error::malformed(format!("size {d} in shape {wanted:?} is not a size"))),
        }
    }
    if let Some(i) = hole {
        if known == 0 || count % known != 0 {
            return Err(Error::malformed(format!("{count} elements do not divide into shape {wanted:?}")));
        }
        dims[i] = count / known;
    } else if known != count {
        return Err(Error::malformed(format!("{count} elements do not make shape {:?}", &dims[..])));
    }
    Ok(dims)
}

fn reshape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let wanted = c.ints(fields::reshape::shape);
    emit_view(c, out, fields::reshape::out, |x| {
        let dims = infer_dims(&wanted, x.count())?;
        let strides = row_major(&dims);
        Ok(restride(x, dims, strides, x.offset))
    })?;
    // A host-known view with gaps does not reshape into row-major strides.
    if let Known::Input { view, .. } = c.known(X)
        && !view.is_contiguous()
    {
        out.known.clear();
    }
    Ok(())
}

fn broadcast(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let wanted = c.ints(fields::broadcast_to::shape);
    emit_view(c, out, fields::broadcast_to::out, |x| {
        let lead = wanted.len().saturating_sub(x.rank());
        let dims: Dims = wanted
            .iter()
            .enumerate()
            .map(|(i, w)| match *w {
                Some(-1) | None if i >= lead => Ok(x.dims[i - lead]),
                Some(d) if d >= 0 => Ok(d as usize),
                _ => Err(Error::malformed(format!("size {w:?} in shape {wanted:?} is not a size"))),
            })
            .collect::<Result<_>>()?;
        x.broadcast(&dims)
    })
}

fn transpose(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let perm = c.ints(fields::transpose::perm);
    emit_view(c, out, fields::transpose::out, |x| {
        let order: SmallVec<[usize; 8]> = if perm.is_empty() {
            (0..x.rank()).rev().collect()
        } else {
            perm.iter().map(|p| axis(p.unwrap_or(0), x.rank())).collect::<Result<_>>()?
        };
        let mut seen = [false; crate::limits::MAX_RANK];
        order.iter().for_each(|&i| seen[i] = true);
        if order.len() != x.rank() || seen.iter().filter(|&&s| s).count() != x.rank() {
            return Err(Error::malformed(format!("{:?} is no permutation of {} axes", &order[..], x.rank())));
        }
        Ok(restride(
            x,
            order.iter().map(|&i| x.dims[i]).collect(),
            order.iter().map(|&i| x.strides[i]).collect(),
            x.offset,
        ))
    })
}

/// MLX `as_strided`: strides and offset count elements of the row-major copy of `x`.
fn as_strided(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::as_strided as f;
    let whole = |list: &[Option<i64>], what: &str| -> Result<SmallVec<[i64; 8]>> {
        list.iter().map(|v| v.ok_or_else(|| Error::unsupported(format!("{what} depend on tensor data")))).collect()
    };
    let (shape, strides) = (whole(&c.ints(f::shape), "sizes")?, whole(&c.ints(f::strides), "strides")?);
    let offset = c.int(f::offset)?;
    if shape.len() != strides.len() || shape.iter().any(|&d| d < 0) {
        return Err(Error::malformed(format!("shape {shape:?} with strides {strides:?}")));
    }
    let x = c.tensor(X)?;
    let count = x.count() as i64;
    if !x.is_contiguous() {
        out.scratch.push(View::contiguous(x.dtype, &x.dims));
    }
    let (mut low, mut high) = (offset, offset);
    if shape.iter().all(|&d| d > 0) {
        for (&d, &s) in shape.iter().zip(&strides) {
            let reach =
                (d - 1).checked_mul(s).ok_or_else(|| Error::malformed(format!("stride {s} of size {d} overflows")))?;
            if reach < 0 { low = low.saturating_add(reach) } else { high = high.saturating_add(reach) }
        }
        if low < 0 || high >= count {
            return Err(Error::malformed(format!(
                "shape {shape:?}, strides {strides:?}, offset {offset} reach elements {low}..={high} of {count}"
            )));
        }
    }
    emit_view(c, out, f::out, |x| {
        let dims = shape.iter().map(|&d| d as usize).collect();
        Ok(restride(x, dims, strides.iter().map(|&s| s as isize).collect(), x.offset + offset as usize))
    })
}

fn slice(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::slice as f;
    let x = c.tensor(X)?;
    let at = axis(c.int(f::axis)?, x.rank())?;
    let step = c.int(f::step)?;
    if step < 0 {
        return slice_backwards(c, out, at, step);
    }
    let step = usize::try_from(step).ok().filter(|&s| s > 0).ok_or_else(|| Error::malformed("step 0 in a slice"))?;
    // Bounds that are not known yet may be anything: the whole axis is the upper bound, or the distance
    // of the two where that is known.
    let (from, to) = (c.maybe_int(f::start), c.maybe_int(f::stop));
    out.inexact |= from.is_none() || to.is_none();
    let to = match (from, to) {
        (None, None) => c.difference(f::start, f::stop).map(|d| d.max(0)),
        _ => to,
    };
    let (first, last) = slice_range(from.unwrap_or(0), to.unwrap_or(i64::MAX), x.dims[at]);
    emit_view(c, out, f::out, |x| Ok(narrow(x, at, first, last, step)))
}

/// A slice with a negative step, by Python's rules: from `start` down to, not including, `stop`.
fn slice_backwards(c: &Call<'_>, out: &mut Outs, at: usize, step: i64) -> Result<()> {
    use fields::slice as f;
    let n = c.tensor(X)?.dims[at] as i64;
    let clamp = |v: i64| if v < 0 { v.saturating_add(n).max(-1) } else { v.min(n - 1) };
    let (from, to) = (clamp(c.int(f::start)?), clamp(c.int(f::stop)?));
    let count = if from > to { (from - to).unsigned_abs().div_ceil(step.unsigned_abs()) } else { 0 };
    emit_view(c, out, f::out, |x| {
        let mut v = x.clone();
        v.dims[at] = count as usize;
        v.offset = (x.offset as isize + from.max(0) as isize * x.strides[at]) as usize;
        v.strides[at] = x.strides[at].saturating_mul(step as isize);
        Ok(v)
    })
}
