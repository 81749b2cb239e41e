//! Programs of one op, run on the device.

use lowtide::dtype::DType;
use lowtide::op::{Access, Field, Op};
use lowtide::program::DimBound;
use lowtide::program::build::{Arg, ProgramBuilder, TensorRef};
use lowtide::{BindOptions, Engine, EngineOptions, Item, Model, Result, SessionOptions, Tensor};

/// The device that tests run on.
pub(crate) fn engine() -> Engine {
    Engine::new(&EngineOptions::default()).expect("an adapter")
}

fn bounds(dims: &[usize]) -> Vec<DimBound> {
    dims.iter().map(|&d| DimBound::fixed(d as u32)).collect()
}

/// Builds a program of some inputs and one output with `build` and runs it once.
///
/// # Errors
/// When the program is refused or fails.
pub(crate) fn program(
    engine: &Engine,
    inputs: &[Tensor],
    dtype: DType,
    dims: &[usize],
    build: impl FnOnce(&mut ProgramBuilder, &[TensorRef], TensorRef),
) -> Result<Tensor> {
    let mut b = ProgramBuilder::new();
    let refs: Vec<TensorRef> = inputs.iter().map(|t| b.input(t.dtype, &bounds(&t.dims))).collect();
    let out = b.output(dtype, &bounds(dims));
    build(&mut b, &refs, out);
    let model = Model::from_bytes(b.build()?)?;
    let mut session = engine.bind(&model, BindOptions::default())?.session(SessionOptions::default())?;
    let items: Vec<Item> = inputs.iter().cloned().map(Item::Tensor).collect();
    match session.run("forward", &items)?.swap_remove(0) {
        Item::Tensor(t) => {
            assert_eq!((t.dtype, &t.dims[..]), (dtype, dims));
            Ok(t)
        }
        other => panic!("a tensor was expected, {other:?} came"),
    }
}

/// Runs one op: `inputs` fill its tensor fields in order, a list field takes all that are left.
///
/// # Errors
/// When the program is refused or fails.
pub(crate) fn one(
    engine: &Engine,
    op: &str,
    args: &[(Field, Arg)],
    inputs: &[Tensor],
    dtype: DType,
    dims: &[usize],
) -> Result<Tensor> {
    program(engine, inputs, dtype, dims, |b, refs, out| {
        let chain = b.main();
        b.push(chain, op, fill(op, args, refs, out));
    })
}

/// The arguments of an op with its tensor fields filled in order.
pub(crate) fn fill(op: &str, args: &[(Field, Arg)], refs: &[TensorRef], out: TensorRef) -> Vec<(Field, Arg)> {
    use lowtide::op::FieldKind;
    let row = Op::from_name(op).expect("an op").row();
    let mut args = args.to_vec();
    let mut left = refs.iter().copied();
    for (i, f) in row.fields.iter().enumerate() {
        let field = Field(i as u8);
        if args.iter().any(|(g, _)| *g == field) {
            continue;
        }
        match (f.kind, f.access) {
            (FieldKind::Tid, Access::Out) => args.push((field, out.into())),
            (FieldKind::Tid, Access::In) => args.extend(left.next().map(|t| (field, t.into()))),
            (FieldKind::IntOrVidOrTid, Access::In) => args.extend(left.next().map(|t| (field, t.into()))),
            (FieldKind::Tids, Access::In) => args.push((field, left.by_ref().collect::<Vec<_>>().into())),
            _ => {}
        }
    }
    args
}

/// A tensor of any type from numbers, rounded or wrapped as a store does.
pub(crate) fn tensor(dtype: DType, dims: &[usize], values: &[f64]) -> Tensor {
    let bytes = values.iter().flat_map(|&v| bytes_of(dtype, v)).collect();
    Tensor::new(dtype, dims, bytes).expect("as many values as dims")
}

fn bytes_of(dtype: DType, v: f64) -> Vec<u8> {
    match dtype {
        DType::F32 => (v as f32).to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f64(v).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f32(v as f32).to_le_bytes().to_vec(),
        DType::Bool => vec![u8::from(v != 0.0)],
        _ => (v as i128).to_le_bytes()[..dtype.size()].to_vec(),
    }
}

/// A tensor of an integer type from integers, wrapped.
pub(crate) fn ints(dtype: DType, dims: &[usize], values: &[i64]) -> Tensor {
    let bytes = values
        .iter()
        .flat_map(
            |v| if dtype == DType::Bool { vec![u8::from(*v != 0)] } else { v.to_le_bytes()[..dtype.size()].to_vec() },
        )
        .collect();
    Tensor::new(dtype, dims, bytes).expect("as many values as dims")
}

/// Distance of `got` from `want` in units of the last place of the binary32 nearest to `want`; 0 where both are NaN,
/// infinite where only one is. Results below the smallest normal number may be flushed to zero.
pub(crate) fn ulps(got: f32, want: f64) -> f64 {
    let near = want as f32;
    if got.is_nan() || near.is_nan() {
        return if got.is_nan() == near.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if near.is_infinite() || got.is_infinite() {
        return if got == near || got.abs() >= f32::MAX && near.abs() >= f32::MAX { 0.0 } else { f64::INFINITY };
    }
    if near.abs() < f32::MIN_POSITIVE && got.abs() <= f32::MIN_POSITIVE {
        return 0.0;
    }
    let exponent = ((near.to_bits() >> 23) & 255).max(1) as i32 - 150;
    (f64::from(got) - want).abs() / 2f64.powi(exponent)
}
