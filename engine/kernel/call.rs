//! One instruction as its kernel sees it: operands resolved to numbers, tensors and text.

use smallvec::SmallVec;

use super::{Dims, Strides, View};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Access, Field, OpRow};
use crate::program::{Graph, Operand};
use crate::table::{Col, Inst, Life, Vid};

/// A host scalar during a pass.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Value {
    /// Not known on the host yet: it depends on tensor data.
    #[default]
    Unknown,
    /// Not known yet: the element that step `of` reads from the device, plus a number. Two of these
    /// that begin with the same element have a known difference.
    Later {
        /// The step that reads it.
        of: u32,
        /// What is added.
        plus: i64,
    },
    /// An integer or a bool.
    Int(i64),
    /// A float.
    Float(f64),
}

impl Value {
    /// `self - other`, where it is known.
    pub fn minus(self, other: Self) -> Option<i64> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.checked_sub(b),
            (Self::Later { of: x, plus: a }, Self::Later { of: y, plus: b }) if x == y => a.checked_sub(b),
            _ => None,
        }
    }
}

/// What the host knows of a tensor's contents.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Known {
    /// Nothing.
    #[default]
    No,
    /// They equal this view into the delegate's argument number `port`.
    Input {
        /// Position among the delegate's arguments.
        port: u32,
        /// Where in it.
        view: View,
    },
    /// Every element is this integer.
    Fill(i64),
}

/// The data of the delegate's integer arguments, where the host holds them.
pub trait HostData {
    /// Element `index` of argument `port`, stored as `dtype`; `None` when not at hand or not an integer.
    fn element(&self, port: u32, dtype: DType, index: usize) -> Option<i64>;
    /// Whether there is a run, as opposed to a plan of one.
    fn runs(&self) -> bool {
        true
    }
}

/// What shape rules know of the run so far.
pub struct Facts<'a> {
    /// The tensors of all lives.
    pub views: &'a Col<Life, View>,
    /// What the host knows of their contents.
    pub known: &'a Col<Life, Known>,
    /// The life whose memory a life looks into, if it is a view.
    pub base: &'a Col<Life, Option<Life>>,
    /// The host scalars.
    pub values: &'a Col<Vid, Value>,
    /// The arguments' data.
    pub host: &'a dyn HostData,
}

/// One instruction at one step.
pub struct Call<'a> {
    /// The program.
    pub graph: &'a Graph,
    /// The instruction.
    pub inst: Inst,
    /// The life behind each of the instruction's uses, in the order of [`Graph::uses`].
    pub lives: &'a [Life],
    /// Lives of the scratch tensors that the kernel's row reserves.
    pub scratch: &'a [Life],
    /// The run so far.
    pub facts: Facts<'a>,
}

impl<'a> Call<'a> {
    /// The op's row.
    pub fn row(&self) -> &'static OpRow {
        self.graph.insts.op[self.inst].row()
    }
    /// The op's shader function name.
    pub fn func(&self) -> &'static str {
        self.row().func
    }
    fn operand(&self, field: Field) -> Option<Operand> {
        self.graph.operands(self.inst, field).next().map(|i| self.graph.scalars.at(i))
    }
    fn missing(&self, field: Field) -> Error {
        Error::malformed("the field is absent").at(format!("field {}", self.row().fields[field.0 as usize].name))
    }
    /// The index into [`Call::lives`] of tensor number `nth` of a field.
    pub fn use_of(&self, field: Field, nth: usize) -> usize {
        let row = self.graph.insts.args[self.inst] as usize + field.0 as usize;
        self.graph.args.first_use[row] as usize + nth
    }
    /// The life of the tensor in a `Tid` field (or a tagged field holding one), if it is present.
    pub fn life(&self, field: Field) -> Option<Life> {
        matches!(self.operand(field), Some(Operand::Tensor(_))).then(|| self.lives[self.use_of(field, 0)])
    }
    /// The tensor in a field.
    ///
    /// # Errors
    /// When the field is absent or holds no tensor.
    pub fn tensor(&self, field: Field) -> Result<&'a View> {
        self.optional(field).ok_or_else(|| self.missing(field))
    }
    /// The tensor in a field, or `None`.
    pub fn optional(&self, field: Field) -> Option<&'a View> {
        self.life(field).map(|l| &self.facts.views[l])
    }
    /// Number of operands of a list field.
    pub fn len_of(&self, field: Field) -> usize {
        self.graph.operands(self.inst, field).len()
    }
    /// Whether a field is present.
    pub fn has(&self, field: Field) -> bool {
        self.len_of(field) > 0
    }
    /// Tensor number `nth` of a `[Tid]` field.
    pub fn tensor_at(&self, field: Field, nth: usize) -> &'a View {
        &self.facts.views[self.lives[self.use_of(field, nth)]]
    }
    /// What the host knows of the contents of a field's tensor.
    pub fn known(&self, field: Field) -> &'a Known {
        static NO: Known = Known::No;
        self.life(field).map_or(&NO, |l| &self.facts.known[l])
    }
    /// The single element of an integer tensor, where the host knows it.
    pub fn known_item(&self, field: Field) -> Option<i64> {
        match self.known(field) {
            Known::No => None,
            Known::Fill(v) => Some(*v),
            Known::Input { port, view } => self.facts.host.element(*port, view.dtype, view.offset),
        }
    }
    fn resolve(&self, operand: Operand) -> Value {
        match operand {
            Operand::Int(v) => Value::Int(v),
            Operand::Float(v) => Value::Float(v),
            Operand::Value(v) => self.facts.values[v],
            Operand::Tensor(_) | Operand::Text(_) => Value::Unknown,
        }
    }
    /// A scalar field: a literal, or a host scalar that may not be known yet. Absent is [`Value::Unknown`].
    pub fn value(&self, field: Field) -> Value {
        self.operand(field).map_or(Value::Unknown, |o| self.resolve(o))
    }
    /// Operand number `nth` of a list field, as a scalar.
    pub fn value_at(&self, field: Field, nth: usize) -> Value {
        self.graph
            .operands(self.inst, field)
            .nth(nth)
            .map_or(Value::Unknown, |i| self.resolve(self.graph.scalars.at(i)))
    }
    /// A scalar field as an integer, `None` while unknown.
    pub fn maybe_int(&self, field: Field) -> Option<i64> {
        match self.value(field) {
            Value::Int(v) => Some(v),
            Value::Float(v) => Some(v as i64),
            Value::Unknown | Value::Later { .. } => None,
        }
    }
    /// `b - a` of two scalar fields, also where only the difference is known.
    pub fn difference(&self, a: Field, b: Field) -> Option<i64> {
        self.value(b).minus(self.value(a))
    }
    /// A scalar field as an integer.
    ///
    /// # Errors
    /// When it is absent or not known on the host.
    pub fn int(&self, field: Field) -> Result<i64> {
        self.maybe_int(field).ok_or_else(|| {
            if self.has(field) {
                Error::unsupported("the value depends on tensor data and is not known here")
                    .at(format!("field {}", self.row().fields[field.0 as usize].name))
            } else {
                self.missing(field)
            }
        })
    }
    /// A bool field; absent is false.
    pub fn flag(&self, field: Field) -> bool {
        self.maybe_int(field).is_some_and(|v| v != 0)
    }
    /// A scalar field as a float, `None` when absent or unknown.
    pub fn maybe_float(&self, field: Field) -> Option<f64> {
        match self.value(field) {
            Value::Int(v) => Some(v as f64),
            Value::Float(v) => Some(v),
            Value::Unknown | Value::Later { .. } => None,
        }
    }
    /// A scalar field as a float.
    ///
    /// # Errors
    /// When it is absent or not known on the host.
    pub fn float(&self, field: Field) -> Result<f64> {
        self.maybe_float(field).ok_or_else(|| self.missing(field))
    }
    /// A string field; absent is empty.
    pub fn text(&self, field: Field) -> &'a str {
        match self.operand(field) {
            Some(Operand::Text(i)) => &self.graph.strings[i as usize],
            _ => "",
        }
    }
    /// A list of integers or host scalars; `None` for those not known yet.
    pub fn ints(&self, field: Field) -> SmallVec<[Option<i64>; 8]> {
        self.graph
            .operands(self.inst, field)
            .map(|i| match self.resolve(self.graph.scalars.at(i)) {
                Value::Int(v) => Some(v),
                Value::Float(v) => Some(v as i64),
                Value::Unknown | Value::Later { .. } => None,
            })
            .collect()
    }
    /// A dtype field, or `None` when absent.
    ///
    /// # Errors
    /// When the code names a type that lowtide does not compute with.
    pub fn dtype(&self, field: Field) -> Result<Option<DType>> {
        let Some(code) = self.maybe_int(field) else { return Ok(None) };
        i8::try_from(code).ok().and_then(DType::from_scalar_type).map(Some).ok_or_else(|| {
            Error::unsupported(format!("scalar type {code} is not an element type lowtide computes with"))
                .at(format!("field {}", self.row().fields[field.0 as usize].name))
        })
    }
    /// The `Vid` that a field names.
    pub fn vid(&self, field: Field) -> Option<Vid> {
        match self.operand(field) {
            Some(Operand::Value(v)) => Some(v),
            _ => None,
        }
    }
    /// Normalises the axes of a list field; an empty list means every axis.
    ///
    /// # Errors
    /// When an axis is out of range for `rank`.
    pub fn axes(&self, field: Field, rank: usize) -> Result<SmallVec<[usize; 8]>> {
        let list = self.ints(field);
        if list.is_empty() {
            return Ok((0..rank).collect());
        }
        let mut axes: SmallVec<[usize; 8]> = SmallVec::new();
        for a in list {
            let a = super::axis(a.unwrap_or(0), rank)?;
            if !axes.contains(&a) {
                axes.push(a);
            }
        }
        axes.sort_unstable();
        Ok(axes)
    }
}

/// What a shape rule computes.
#[derive(Default)]
pub struct Outs {
    /// Outputs by use index.
    pub tensors: SmallVec<[(usize, View); 2]>,
    /// What the host knows of outputs' contents, by use index.
    pub known: SmallVec<[(usize, Known); 1]>,
    /// Host scalars.
    pub values: SmallVec<[(Vid, Value); 1]>,
    /// Scratch tensors, in order.
    pub scratch: SmallVec<[View; 2]>,
    /// The use whose single element the host must read before it can go on, and the scalar it gives.
    pub wait: Option<(usize, Vid)>,
    /// Whether sizes here are upper bounds because a scalar is not known yet.
    pub inexact: bool,
}

impl Outs {
    /// Empties it for the next call, keeping its memory.
    pub fn clear(&mut self) {
        self.tensors.clear();
        self.known.clear();
        self.values.clear();
        self.scratch.clear();
        self.wait = None;
        self.inexact = false;
    }
    /// The output in `field` is a new row-major tensor.
    pub fn fresh(&mut self, c: &Call<'_>, field: Field, dtype: DType, dims: &[usize]) {
        self.view(c, field, View::contiguous(dtype, dims));
    }
    /// The output in `field` is `view` (for view ops: into the memory of the viewed tensor).
    pub fn view(&mut self, c: &Call<'_>, field: Field, view: View) {
        debug_assert!(c.row().fields[field.0 as usize].access == Access::Out);
        self.tensors.push((c.use_of(field, 0), view));
    }
    /// Output number `nth` of a list field.
    pub fn view_at(&mut self, c: &Call<'_>, field: Field, nth: usize, view: View) {
        self.tensors.push((c.use_of(field, nth), view));
    }
    /// The host knows the contents of the output in `field`.
    pub fn know(&mut self, c: &Call<'_>, field: Field, known: Known) {
        self.known.push((c.use_of(field, 0), known));
    }
    /// The host scalar in `field`.
    pub fn value(&mut self, c: &Call<'_>, field: Field, value: Value) {
        if let Some(vid) = c.vid(field) {
            self.values.push((vid, value));
        }
    }
    /// Asks for a scratch tensor of `count` 32-bit words; `encode` finds it under the same number.
    pub fn scratch_words(&mut self, count: usize) {
        self.scratch.push(View::contiguous(DType::U32, &[count]));
    }
}

/// A view of `x` with other dims and strides.
pub fn restride(x: &View, dims: Dims, strides: Strides, offset: usize) -> View {
    View { dtype: x.dtype, dims, strides, offset }
}

/// Resolves a slice `start..stop` over a dimension of `size` elements by Python's rules: negative counts
/// from the end, both ends are clamped.
pub fn slice_range(start: i64, stop: i64, size: usize) -> (usize, usize) {
    let n = size as i64;
    let clamp = |v: i64| if v < 0 { v.saturating_add(n).max(0) } else { v.min(n) };
    let (start, stop) = (clamp(start), clamp(stop));
    (start as usize, stop.max(start) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_clamp_like_python() {
        assert_eq!(slice_range(-3, i64::MAX, 10), (7, 10));
        assert_eq!(slice_range(-100, 2, 10), (0, 2));
        assert_eq!(slice_range(7, 3, 10), (7, 7));
        assert_eq!(slice_range(100, i64::MAX, 10), (10, 10));
        assert_eq!(slice_range(i64::MIN, i64::MIN, 10), (0, 0));
    }
}
