//! Runs single ops on any layout of their inputs, and compares with references in binary64.
#![allow(dead_code, unreachable_pub)]

use half::{bf16, f16};
use lowtide::dtype::DType;
use lowtide::op::Field;
use lowtide::program::DimBound;
use lowtide::program::build::{Arg, Int, ProgramBuilder};
use lowtide::program::model::Model;
use lowtide::{BindOptions, Engine, EngineOptions, Item, SessionOptions, Tensor};

/// A row-major array in binary64.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub dims: Vec<usize>,
    pub data: Vec<f64>,
}

impl Array {
    pub fn new(dims: &[usize], data: Vec<f64>) -> Self {
        assert_eq!(dims.iter().product::<usize>(), data.len());
        Self { dims: dims.into(), data }
    }
    pub fn from_fn(dims: &[usize], f: impl FnMut(usize) -> f64) -> Self {
        Self::new(dims, (0..dims.iter().product()).map(f).collect())
    }
    /// Made-up values in -1..1.
    pub fn random(dims: &[usize], seed: u64) -> Self {
        let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1;
        Self::from_fn(dims, |_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        })
    }
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { dims: self.dims.clone(), data: self.data.iter().map(|&v| f(v)).collect() }
    }
    /// The values as `dtype` holds them.
    pub fn rounded(&self, dtype: DType) -> Self {
        self.map(|v| round(dtype, v))
    }
    pub fn at(&self, index: &[usize]) -> f64 {
        assert_eq!(index.len(), self.dims.len());
        let i = index.iter().zip(&self.dims).fold(0, |i, (&x, &d)| {
            assert!(x < d);
            i * d + x
        });
        self.data[i]
    }
    /// Every index of `dims`, in row-major order.
    pub fn indices(dims: &[usize]) -> impl Iterator<Item = Vec<usize>> {
        let dims = dims.to_vec();
        (0..dims.iter().product::<usize>()).map(move |i| {
            let mut rest = i;
            let mut index = vec![0; dims.len()];
            for (x, &d) in index.iter_mut().zip(&dims).rev() {
                *x = rest % d;
                rest /= d;
            }
            index
        })
    }
    pub fn by_index(dims: &[usize], f: impl FnMut(Vec<usize>) -> f64) -> Self {
        Self::new(dims, Self::indices(dims).map(f).collect())
    }
}

pub fn round(dtype: DType, v: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(v as f32),
        DType::F16 => f16::from_f64(v).to_f64(),
        DType::BF16 => f64::from(bf16::from_f32(v as f32)),
        DType::Bool => f64::from(u8::from(v != 0.0)),
        _ => v.trunc(),
    }
}

pub fn bytes(dtype: DType, data: &[f64]) -> Vec<u8> {
    data.iter()
        .flat_map(|&v| match dtype {
            DType::F32 => (v as f32).to_le_bytes().to_vec(),
            DType::F16 => f16::from_f64(v).to_le_bytes().to_vec(),
            DType::BF16 => bf16::from_f32(v as f32).to_le_bytes().to_vec(),
            DType::I64 => (v as i64).to_le_bytes().to_vec(),
            DType::I32 => (v as i32).to_le_bytes().to_vec(),
            DType::I16 => (v as i16).to_le_bytes().to_vec(),
            DType::I8 => vec![v as i8 as u8],
            DType::U32 => (v as u32).to_le_bytes().to_vec(),
            DType::U8 => vec![v as u8],
            DType::Bool => vec![u8::from(v != 0.0)],
        })
        .collect()
}

/// A step that turns a base tensor into the operand of the op under test.
#[derive(Clone, Debug)]
pub enum Step {
    Transpose(Vec<i64>),
    Slice(usize, usize, usize, usize),
    Expand(Vec<usize>),
}

/// An input of the op under test.
#[derive(Clone, Debug)]
pub struct Operand {
    pub dtype: DType,
    pub base: Array,
    pub steps: Vec<Step>,
    pub constant: bool,
}

impl Operand {
    pub fn new(dtype: DType, base: Array) -> Self {
        Self { dtype, base: base.rounded(dtype), steps: Vec::new(), constant: false }
    }
    /// The operand is a constant of the program.
    pub fn weights(mut self) -> Self {
        self.constant = true;
        self
    }
    /// A dense tensor of the same contents stored with its axes in another order.
    pub fn stored(mut self, perm: &[usize]) -> Self {
        let dims: Vec<usize> = perm.iter().map(|&p| self.base.dims[p]).collect();
        let base = self.base.clone();
        let stored = Array::by_index(&dims, |i| {
            let mut at = vec![0; i.len()];
            perm.iter().zip(&i).for_each(|(&p, &x)| at[p] = x);
            base.at(&at)
        });
        let mut back = vec![0i64; perm.len()];
        perm.iter().enumerate().for_each(|(to, &from)| back[from] = to as i64);
        self.base = stored;
        self.steps.push(Step::Transpose(back));
        self
    }
    /// The same contents cut out of a larger tensor, `before` elements in along `axis`, every `step`-th.
    pub fn sliced(mut self, axis: usize, before: usize, step: usize) -> Self {
        assert!(self.steps.is_empty(), "slice first");
        let n = self.base.dims[axis];
        let mut dims = self.base.dims.clone();
        dims[axis] = before + n * step + 3;
        let base = self.base.clone();
        let mut junk = 0.0;
        let big = Array::by_index(&dims, |mut i| {
            let x = i[axis];
            if x >= before && (x - before) % step == 0 && (x - before) / step < n {
                i[axis] = (x - before) / step;
                base.at(&i)
            } else {
                junk += 1.0;
                7.0 + junk % 50.0
            }
        });
        self.base = big.rounded(self.dtype);
        self.steps.push(Step::Slice(axis, before, before + n * step, step));
        self
    }
    /// The contents repeated along axes of size 1.
    pub fn expanded(mut self, dims: &[usize]) -> Self {
        self.steps.push(Step::Expand(dims.into()));
        self
    }
    /// What the op sees.
    pub fn seen(&self) -> Array {
        let mut a = self.base.clone();
        for s in &self.steps {
            a = match s {
                Step::Transpose(perm) => {
                    let dims: Vec<usize> = perm.iter().map(|&p| a.dims[p as usize]).collect();
                    Array::by_index(&dims, |i| {
                        let mut at = vec![0; i.len()];
                        perm.iter().zip(&i).for_each(|(&p, &x)| at[p as usize] = x);
                        a.at(&at)
                    })
                }
                Step::Slice(axis, start, stop, step) => {
                    let mut dims = a.dims.clone();
                    dims[*axis] = (stop - start).div_ceil(*step);
                    Array::by_index(&dims, |mut i| {
                        i[*axis] = start + i[*axis] * step;
                        a.at(&i)
                    })
                }
                Step::Expand(dims) => Array::by_index(dims, |i| {
                    let lead = dims.len() - a.dims.len();
                    let at: Vec<usize> =
                        i[lead..].iter().zip(&a.dims).map(|(&x, &d)| if d == 1 { 0 } else { x }).collect();
                    a.at(&at)
                }),
            };
        }
        a
    }
}

/// An op under test.
pub struct Case {
    pub op: &'static str,
    pub operands: Vec<(Field, Operand)>,
    pub args: Vec<(Field, Arg)>,
    pub out: Field,
    pub dtype: DType,
    pub dims: Vec<usize>,
}

/// Engines that choose kernels as for a GPU and as for a CPU.
pub struct Rig {
    engines: Vec<(&'static str, Engine)>,
}

impl Rig {
    pub fn new() -> Self {
        let open = |software| {
            let mut options = EngineOptions::default();
            options.gpu.software = Some(software);
            Engine::new(&options).expect("an adapter")
        };
        Self { engines: vec![("gpu forms", open(false)), ("cpu forms", open(true))] }
    }

    fn program(c: &Case) -> (Vec<u8>, Vec<Item>) {
        use lowtide::op::fields;
        let mut b = ProgramBuilder::new();
        let mut inputs = Vec::new();
        let mut args = c.args.clone();
        for (i, (field, o)) in c.operands.iter().enumerate() {
            let data = bytes(o.dtype, &o.base.data);
            let dims: Vec<u32> = o.base.dims.iter().map(|&d| d as u32).collect();
            let mut t = if o.constant {
                b.constant(&format!("c{i}"), o.dtype, &dims, data)
            } else {
                inputs.push(Item::Tensor(Tensor::new(o.dtype, &o.base.dims, data).expect("bytes fit")));
                let bounds: Vec<DimBound> = dims.into_iter().map(DimBound::fixed).collect();
                b.input(o.dtype, &bounds)
            };
            for s in &o.steps {
                let next = b.temp();
                let main = b.main();
                match s {
                    Step::Transpose(p) => {
                        use fields::transpose as f;
                        let perm = p.iter().map(|&v| Int::Literal(v)).collect::<Vec<_>>();
                        b.push(main, "Transpose", [(f::x, t.into()), (f::out, next.into()), (f::perm, perm.into())]);
                    }
                    Step::Slice(axis, start, stop, step) => {
                        use fields::slice as f;
                        b.push(
                            main,
                            "Slice",
                            [
                                (f::x, t.into()),
                                (f::out, next.into()),
                                (f::axis, (*axis as i64).into()),
                                (f::start, (*start as i64).into()),
                                (f::stop, (*stop as i64).into()),
                                (f::step, (*step as i64).into()),
                            ],
                        );
                    }
                    Step::Expand(dims) => {
                        use fields::broadcast_to as f;
                        let shape = dims.iter().map(|&v| Int::Literal(v as i64)).collect::<Vec<_>>();
                        b.push(
                            main,
                            "BroadcastTo",
                            [(f::x, t.into()), (f::out, next.into()), (f::shape, shape.into())],
                        );
                    }
                }
                t = next;
            }
            args.push((*field, t.into()));
        }
        let bounds: Vec<DimBound> = c.dims.iter().map(|&d| DimBound::fixed(d as u32)).collect();
        let out = b.output(c.dtype, &bounds);
        args.push((c.out, out.into()));
        b.push(b.main(), c.op, args);
        (b.build().expect("a program"), inputs)
    }

    /// Runs a case on every engine and compares with `want` in units of the output's precision: an element may
    /// differ by `tolerance * (scale + |want|)`.
    pub fn check(&self, name: &str, c: &Case, want: &Array, tolerance: f64, scale: f64) {
        assert_eq!(c.dims, want.dims, "{name}: the reference's shape");
        let (program, inputs) = Self::program(c);
        for (engine_name, engine) in &self.engines {
            let fail = |e: lowtide::error::Error| -> ! { panic!("{name} ({engine_name}): {e}") };
            let model = Model::from_bytes(program.clone()).unwrap_or_else(|e| fail(e));
            let bound = engine.bind(&model, BindOptions::default()).unwrap_or_else(|e| fail(e));
            let mut session = bound.session(SessionOptions::default()).unwrap_or_else(|e| fail(e));
            let outs = session.run("forward", &inputs).unwrap_or_else(|e| fail(e));
            let Item::Tensor(got) = &outs[0] else { panic!("{name}: no tensor") };
            assert_eq!(got.dims, c.dims, "{name} ({engine_name})");
            let got = got.to_f64();
            for (i, (&g, &w)) in got.iter().zip(&want.data).enumerate() {
                let w = round(c.dtype, w);
                let close = g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * (scale + w.abs());
                assert!(close, "{name} ({engine_name}): element {i} of {:?} is {g}, not {w}", c.dims);
            }
        }
    }
}

/// A tolerance for results that are rounded to `dtype`.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 3e-6,
        DType::F16 => 1.1e-3,
        DType::BF16 => 8.5e-3,
        _ => 0.0,
    }
}
