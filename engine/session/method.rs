//! What a method does around its delegates: which calls are needed, and the few host kernels.

use crate::error::{Error, Result};
use crate::program::pte::{KernelOp, Method, MethodCall, PlanValue};
use crate::session::value::{Item, Tensor};

/// A method's calls, without those whose results nobody reads.
pub(crate) struct Schedule {
    /// Per call: whether it runs.
    pub(crate) runs: Vec<bool>,
    /// Per value: whether a result, a delegate or a host kernel that runs reads it.
    pub(crate) needed: Vec<bool>,
}

impl Schedule {
    /// Works backwards from the method's outputs. A delegate always runs: it may change state.
    pub(crate) fn of(method: &Method, inputs_of: impl Fn(usize) -> usize) -> Self {
        let mut needed = vec![false; method.values.len()];
        let mut runs = vec![true; method.calls.len()];
        method.outputs.iter().for_each(|&o| needed[o] = true);
        for (i, call) in method.calls.iter().enumerate().rev() {
            match call {
                MethodCall::Delegate { delegate, args } => {
                    args.iter().take(inputs_of(*delegate)).for_each(|&a| needed[a] = true);
                }
                MethodCall::Kernel { op, args } => {
                    let outs = match op {
                        // self is written as well as out.
                        KernelOp::Copy => vec![args.first(), args.last()],
                        KernelOp::Gather => vec![args.last()],
                    };
                    runs[i] = outs.into_iter().flatten().any(|&o| needed[o]);
                    if runs[i] {
                        args.iter().for_each(|&a| needed[a] = true);
                    }
                }
                MethodCall::Move { from, to } => {
                    runs[i] = needed[*to];
                    if runs[i] {
                        needed[*from] = true;
                    }
                }
                MethodCall::Free(_) | MethodCall::Jump { .. } => {}
            }
        }
        Self { runs, needed }
    }
}

/// The item that a plan's value stands for before any call.
pub(crate) fn initial(value: &PlanValue, file: &[u8]) -> Option<Item> {
    Some(match value {
        PlanValue::Int(v) => Item::Int(*v),
        PlanValue::Bool(v) => Item::Bool(*v),
        PlanValue::Double(v) => Item::Float(*v),
        PlanValue::Text(v) => Item::Text(v.clone()),
        PlanValue::Ints(v) => Item::Ints(v.clone()),
        PlanValue::Tensor(t) => {
            let bytes = file.get(t.data.clone()?)?.to_vec();
            let dims: Vec<usize> = t.dims.iter().map(|d| d.max.unwrap_or(d.min) as usize).collect();
            Item::Tensor(Tensor { dtype: t.dtype, dims, bytes })
        }
        _ => return None,
    })
}

/// Runs a host kernel over the values.
pub(crate) fn kernel(op: KernelOp, args: &[usize], values: &mut [Option<Item>]) -> Result<()> {
    match op {
        KernelOp::Copy => {
            let [to, from, .., out] = args else { return Err(Error::malformed("aten::copy_ wants four arguments")) };
            let copied = values[*from].clone();
            values[*out] = copied.clone();
            values[*to] = copied;
            Ok(())
        }
        KernelOp::Gather => {
            let [x, dim, index, .., out] = args else {
                return Err(Error::malformed("aten::gather.out wants five arguments"));
            };
            let (Some(Item::Tensor(x)), Some(Item::Int(dim)), Some(Item::Tensor(index))) =
                (&values[*x], &values[*dim], &values[*index])
            else {
                return Err(Error::malformed("aten::gather.out wants a tensor, a dimension and an index tensor"));
            };
            let gathered = gather(x, *dim, index)?;
            values[*out] = Some(Item::Tensor(gathered));
            Ok(())
        }
    }
}

/// `out[i][j][k] = x[i][index[i][j][k]][k]` for `dim` 1, and likewise for the others (PyTorch `gather`).
fn gather(x: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    let rank = x.dims.len();
    let dim = crate::kernel::axis(dim, rank.max(1))?;
    let fits = index.dims.len() == rank && (0..rank).all(|k| k == dim || index.dims[k] <= x.dims[k]);
    if !fits {
        return Err(Error::input(format!("aten::gather.out: index shape {:?} does not fit {:?}", index.dims, x.dims)));
    }
    let size = x.dtype.size();
    let strides = crate::kernel::row_major(&x.dims);
    let mut bytes = Vec::with_capacity(index.count() * size);
    for (n, i) in index.to_i64().into_iter().enumerate() {
        let (mut rest, mut at) = (n, 0usize);
        for k in (0..rank).rev() {
            let here = rest % index.dims[k];
            rest /= index.dims[k];
            let here = if k == dim {
                let d = x.dims[k] as i64;
                usize::try_from(if i < 0 { i + d } else { i }).ok().filter(|&v| v < x.dims[k]).ok_or_else(|| {
                    Error::input(format!("aten::gather.out: index {i} is out of range for {d} elements"))
                })?
            } else {
                here
            };
            at += here * strides[k] as usize;
        }
        bytes.extend_from_slice(&x.bytes[at * size..(at + 1) * size]);
    }
    Ok(Tensor { dtype: x.dtype, dims: index.dims.clone(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gather_reads_along_a_dimension() {
        let x = Tensor::from_f32(&[2, 3], &[0., 1., 2., 10., 11., 12.]);
        let i = Tensor::from_i64(&[2, 2], &[2, 0, -1, 1]);
        assert_eq!(gather(&x, 1, &i).unwrap().to_f32(), [2., 0., 12., 11.]);
        let e = gather(&x, 1, &Tensor::from_i64(&[1, 1], &[3])).unwrap_err();
        assert!(e.to_string().contains("index 3"), "{e}");
    }
}
