//! Kernels that a program brings as Metal source: our own shaders for those that ExecuTorch's exporter emits.
//!
//! A `MetalKernel` is recognised by its name, the names of its tensors and its template arguments. Its source
//! is never compiled: what is known here runs on every backend, and anything else is refused at load.

mod delta;
mod gguf;
mod turboquant;

use smallvec::SmallVec;

use super::emit::Tensor;
use super::{Alias, Call, Dims, Emit, Kernel, Outs, View};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::fields::metal_kernel as f;
use crate::op::{Field, OpRow};
use crate::program::{Graph, Operand};
use crate::table::Inst;

/// `MetalKernel`.
pub static METAL_KERNEL: Kernel = Kernel::new(Alias::Fresh, shape, encode).with_scratch(3).with_check(check);

/// A kernel that is known by name.
struct Foreign {
    name: &'static str,
    /// Names of the input tensors.
    inputs: &'static [&'static str],
    /// The last input may be absent.
    last_optional: bool,
    outputs: &'static [&'static str],
    /// Template arguments that it must have.
    arguments: &'static [&'static str],
    /// What the file alone says of the node.
    check: fn(&Node<'_>) -> Result<()>,
    shape: fn(&Call<'_>, &Node<'_>, &mut Outs) -> Result<()>,
    encode: fn(&Call<'_>, &Node<'_>, &mut Emit<'_>) -> Result<()>,
}

static KNOWN: [&[Foreign]; 3] = [&delta::KERNELS, &gguf::KERNELS, &turboquant::KERNELS];

/// One `MetalKernel` instruction of a file.
struct Node<'a> {
    graph: &'a Graph,
    inst: Inst,
}

impl<'a> Node<'a> {
    fn row(&self) -> &'static OpRow {
        self.graph.insts.op[self.inst].row()
    }
    fn operands(&self, field: Field) -> impl Iterator<Item = Operand> + use<'a> {
        let graph = self.graph;
        graph.operands(self.inst, field).map(|i| graph.scalars.at(i))
    }
    fn texts(&self, field: Field) -> impl Iterator<Item = &'a str> + use<'a> {
        let graph = self.graph;
        self.operands(field).map(|o| match o {
            Operand::Text(i) => &graph.strings[i as usize][..],
            _ => "",
        })
    }
    fn integers(&self, field: Field) -> impl Iterator<Item = i64> + use<'a> {
        self.operands(field).map(|o| match o {
            Operand::Int(v) => v,
            _ => i64::MIN,
        })
    }
    fn name(&self) -> &'a str {
        self.texts(f::name).next().unwrap_or_default()
    }
    fn bad(&self, field: Field, text: String) -> Error {
        Error::unsupported(text)
            .at(format!("field {}", self.row().fields[field.0 as usize].name))
            .at(format!("kernel {:?}", self.name()))
    }
    fn known(&self) -> Result<&'static Foreign> {
        let name = self.name();
        KNOWN.iter().flat_map(|k| k.iter()).find(|k| k.name == name).ok_or_else(|| {
            Error::unsupported(format!(
                "no kernel is written for the Metal kernel {name:?}; its source is not compiled"
            ))
        })
    }
    /// A template argument.
    fn argument(&self, name: &str) -> Result<usize> {
        let at = self.texts(f::template_arg_names).position(|n| n == name);
        at.and_then(|at| self.integers(f::template_arg_values).nth(at))
            .and_then(|v| usize::try_from(v).ok())
            .ok_or_else(|| self.bad(f::template_arg_names, format!("there is no {name}, or it is negative")))
    }
    /// The element type of output `nth`.
    fn output_type(&self, nth: usize) -> Result<DType> {
        let code = self.integers(f::output_dtypes).nth(nth);
        code.and_then(|c| i8::try_from(c).ok())
            .and_then(DType::from_scalar_type)
            .ok_or_else(|| self.bad(f::output_dtypes, format!("{code:?} is no element type of output {nth}")))
    }
    /// As [`Node::output_type`], refusing what is not a float.
    fn float_type(&self, nth: usize) -> Result<DType> {
        let t = self.output_type(nth)?;
        if t.is_float() {
            return Ok(t);
        }
        Err(self.bad(f::output_dtypes, format!("output {nth} is {t}, not a float")))
    }
}

/// Refuses a node that is not exactly a known kernel.
fn check(graph: &Graph, inst: Inst) -> Result<()> {
    let node = Node { graph, inst };
    let k = node.known()?;
    let same = |field: Field, wanted: &[&str], optional: bool| {
        let got: SmallVec<[&str; 8]> = node.texts(field).collect();
        if got[..] == *wanted || (optional && got[..] == wanted[..wanted.len() - 1]) {
            return Ok(got.len());
        }
        Err(node.bad(field, format!("{got:?} are not the tensors {wanted:?} that it is known by")))
    };
    let inputs = same(f::input_names, k.inputs, k.last_optional)?;
    let outputs = same(f::output_names, k.outputs, false)?;
    for (field, wanted) in [(f::inputs, inputs), (f::outputs, outputs), (f::output_dtypes, outputs)] {
        let got = node.operands(field).count();
        if got != wanted {
            return Err(node.bad(field, format!("{got} are listed, not {wanted}")));
        }
    }
    for name in k.arguments {
        node.argument(name)?;
    }
    (k.check)(&node).map_err(|e| e.at(format!("kernel {:?}", k.name)))
}

fn shape(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let node = Node { graph: c.graph, inst: c.inst };
    let k = node.known()?;
    (k.shape)(c, &node, out).map_err(|e| e.at(format!("kernel {:?}", k.name)))?;
    // The file states the shapes too; where both are known they must agree.
    let declared = c.ints(f::output_shapes_flat);
    let derived = out.tensors.iter().flat_map(|(_, v)| v.dims.iter());
    if !declared.is_empty()
        && (declared.len() != derived.clone().count()
            || declared.iter().zip(derived).any(|(d, &v)| d.is_some_and(|d| d != v as i64)))
    {
        let shapes: Vec<&[usize]> = out.tensors.iter().map(|(_, v)| &v.dims[..]).collect();
        return Err(Error::malformed(format!("outputs have shapes {shapes:?}; the file says {declared:?}")));
    }
    Ok(())
}

fn encode(c: &Call<'_>, e: &mut Emit<'_>) -> Result<()> {
    let node = Node { graph: c.graph, inst: c.inst };
    (node.known()?.encode)(c, &node, e)
}

/// Output `nth` is a new tensor.
fn fresh(c: &Call<'_>, out: &mut Outs, nth: usize, dtype: DType, dims: &[usize]) -> Result<()> {
    super::matmul::check_size(dims)?;
    out.view_at(c, f::outputs, nth, View::contiguous(dtype, dims));
    Ok(())
}

/// Asks for copies of those of the first `count` inputs that are not row-major.
fn dense_scratch(c: &Call<'_>, out: &mut Outs, count: usize) {
    for x in (0..count).map(|i| c.tensor_at(f::inputs, i)).filter(|x| !x.is_contiguous()) {
        out.scratch.push(View::contiguous(x.dtype, &x.dims));
    }
}

/// Input `nth` in row-major order; inputs are taken in order, `next` counts the copies.
fn dense(c: &Call<'_>, e: &mut Emit<'_>, nth: usize, next: &mut usize) -> Result<Tensor> {
    let x = e.tensor_at(c, f::inputs, nth)?;
    if x.view.is_contiguous() {
        return Ok(x);
    }
    let to = e.scratch(c, *next)?;
    *next += 1;
    super::view::copy(e, &x, &to)?;
    Ok(to)
}

/// All dims but the last.
fn leading(view: &View) -> Dims {
    view.dims[..view.rank().saturating_sub(1)].into()
}

/// Refuses an input of another type or rank than the kernel can take.
fn need(c: &Call<'_>, nth: usize, fits: impl Fn(&View) -> bool) -> Result<()> {
    let v = c.tensor_at(f::inputs, nth);
    if fits(v) {
        return Ok(());
    }
    Err(Error::malformed(format!("input {nth} is {} {:?}", v.dtype, &v.dims[..])))
}
