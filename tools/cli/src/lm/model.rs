//! A program as a language model: which input is which, and logits for tokens at positions.

use lowtide::dtype::DType;
use lowtide::program::DimBound;
use lowtide::program::pte::{Method, PlanValue, TensorSpec};
use lowtide::{Error, Item, Model, Session, Tensor, Want};

use crate::failure::{Failure, Outcome};

/// How to call a language model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Signature {
    /// Which input takes the tokens, and its type.
    ids: (usize, DType),
    positions: Positions,
    /// Most tokens of one run.
    pub(crate) chunk: usize,
    /// Most tokens of a text; `None` when the file does not say.
    pub(crate) context: Option<usize>,
}

/// The other input.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Positions {
    /// The absolute position of each token.
    Each(DType),
    /// The position of the first token, as a tensor of one element.
    First(DType),
    /// The position of the first token, as a number.
    Number,
}

impl Signature {
    /// Recognises a language model by the types and shapes of a method's inputs.
    pub(crate) fn of(model: &Model, method: &str) -> Outcome<Self> {
        let (_, m) = model.method(method)?;
        Self::find(m, |name| model.constant(name))
    }

    fn find(m: &Method, constant: impl Fn(&str) -> Option<i64>) -> Outcome<Self> {
        let values: Vec<&PlanValue> = m.inputs.iter().filter_map(|&i| m.values.get(i)).collect();
        let [a, b] = values.as_slice() else { return Err(not_one(m, "it takes another number of inputs")) };
        let (ids_at, spec, other) = match (token_input(a), token_input(b)) {
            (Some(spec), None) => (0, spec, *b),
            (None, Some(spec)) => (1, spec, *a),
            _ => return Err(not_one(m, "not exactly one input is an integer tensor [1, S]")),
        };
        let positions = positions(other, &spec.dims[1])
            .ok_or_else(|| not_one(m, "the input beside the tokens holds no positions, i64 [S]"))?;
        let size = |name: &str| constant(name).and_then(|v| usize::try_from(v).ok()).filter(|&v| v > 0);
        let bound = spec.dims[1].max.map(|v| v as usize);
        if spec.dims[1].is_fixed() && bound != Some(1) {
            return Err(not_one(m, "it takes a fixed number of tokens at a time"));
        }
        let chunk = size("get_prefill_chunk_size").unwrap_or(usize::MAX).min(bound.unwrap_or(usize::MAX));
        let context = ["get_max_ctx_len", "get_max_context_len", "get_max_seq_len"].into_iter().find_map(size);
        match m.outputs.first().and_then(|&o| m.values.get(o)) {
            Some(PlanValue::Tensor(out)) if out.dtype.is_float() && out.dims.len() >= 2 => {}
            _ => return Err(not_one(m, "its first output holds no logits, a float tensor [1, S, vocabulary]")),
        }
        Ok(Self { ids: (ids_at, spec.dtype), positions, chunk, context })
    }

    /// The inputs for tokens that begin at a position.
    fn inputs(&self, ids: &[u32], start: usize) -> Vec<Item> {
        let integers = |dims: &[usize], values: &[i64], dtype| Item::Tensor(Tensor::from_i64(dims, values).cast(dtype));
        let tokens: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        let tokens = integers(&[1, ids.len()], &tokens, self.ids.1);
        let each: Vec<i64> = (start..start + ids.len()).map(|p| p as i64).collect();
        let positions = match self.positions {
            Positions::Each(dtype) => integers(&[ids.len()], &each, dtype),
            Positions::First(dtype) => integers(&[1], &[start as i64], dtype),
            Positions::Number => Item::Int(start as i64),
        };
        if self.ids.0 == 0 { vec![tokens, positions] } else { vec![positions, tokens] }
    }
}

impl Signature {
    /// Shapes of the tensor inputs for so many tokens.
    fn shapes(&self, tokens: usize) -> Vec<Vec<usize>> {
        let ids = vec![1, tokens];
        let positions = match self.positions {
            Positions::Each(_) => vec![tokens],
            Positions::First(_) => vec![1],
            Positions::Number => return vec![ids],
        };
        if self.ids.0 == 0 { vec![ids, positions] } else { vec![positions, ids] }
    }
}

/// An integer tensor `[1, S]`.
fn token_input(v: &PlanValue) -> Option<&TensorSpec> {
    match v {
        PlanValue::Tensor(t) if t.dims.len() == 2 && is_integer(t.dtype) && t.dims[0].max == Some(1) => Some(t),
        _ => None,
    }
}

fn is_integer(t: DType) -> bool {
    matches!(t, DType::I64 | DType::I32)
}

fn positions(v: &PlanValue, tokens: &DimBound) -> Option<Positions> {
    match v {
        PlanValue::Int(_) => Some(Positions::Number),
        PlanValue::Tensor(t) if is_integer(t.dtype) && t.dims.len() == 1 => {
            let single = t.dims[0].is_fixed() && t.dims[0].max == Some(1) && !tokens.is_fixed();
            Some(if single { Positions::First(t.dtype) } else { Positions::Each(t.dtype) })
        }
        _ => None,
    }
}

fn not_one(m: &Method, why: &str) -> Failure {
    Failure::new(format!(
        "method {} is no language model that generate knows: {why}. Wanted: tokens i64 [1, S] and positions i64 [S], \
         giving logits; `lowtide inspect` shows what the file has, `lowtide run` runs any method",
        m.name
    ))
}

/// A language model with the text so far in its session.
pub(crate) struct LanguageModel {
    session: Session,
    method: String,
    pub(crate) signature: Signature,
    /// Tokens taken so far.
    pub(crate) position: usize,
}

impl LanguageModel {
    pub(crate) fn new(session: Session, method: &str, signature: Signature) -> Self {
        Self { session, method: method.to_string(), signature, position: 0 }
    }

    /// How many of so many tokens a run takes, by the file's bounds and the session's budget; 1 at least.
    pub(crate) fn part(&self, tokens: usize) -> lowtide::Result<usize> {
        let most = tokens.min(self.signature.chunk);
        let fit = self.session.largest_fit(&self.method, most, &[Want::LastRow], |n| self.signature.shapes(n))?;
        Ok(fit.max(1))
    }

    /// Takes at most [`Signature::chunk`] tokens and gives the logits of what follows the last.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub(crate) fn feed(&mut self, ids: &[u32]) -> lowtide::Result<Vec<f32>> {
        let inputs = self.signature.inputs(ids, self.position);
        let at = format!("at position {}", self.position);
        let outputs = self.session.run_with(&self.method, &inputs, &[Want::LastRow]).map_err(|e| e.at(&at))?;
        self.position += ids.len();
        let Some(Item::Tensor(logits)) = outputs.into_iter().next() else {
            return Err(Error::malformed("the method's first output is no tensor"));
        };
        let columns = logits.dims.last().copied().unwrap_or(0);
        let mut row = logits.to_f32();
        Ok(row.split_off(row.len().saturating_sub(columns)))
    }

    /// Forgets the text so far.
    ///
    /// # Errors
    /// As [`Session::reset`].
    pub(crate) fn reset(&mut self) -> lowtide::Result<()> {
        self.position = 0;
        self.session.reset()
    }

    /// The session.
    pub(crate) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Figures of the last run.
    pub(crate) fn facts(&self) -> lowtide::RunFacts {
        self.session.last_run().last().copied().unwrap_or_default()
    }

    /// Bytes on the device: weights, state, arena, staging.
    pub(crate) fn memory(&self) -> [u64; 4] {
        self.session.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dtype: DType, dims: &[(u32, u32)]) -> PlanValue {
        let dims = dims.iter().map(|&(min, max)| DimBound { min, max: Some(max) }).collect();
        PlanValue::Tensor(TensorSpec { dtype, dims, data: None })
    }

    fn method(values: Vec<PlanValue>, inputs: &[usize], outputs: &[usize]) -> Method {
        Method {
            name: "forward".into(),
            values,
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            calls: Vec::new(),
            delegates: Vec::new(),
        }
    }

    fn llama() -> Vec<PlanValue> {
        vec![
            tensor(DType::I64, &[(1, 1), (0, 128)]),
            tensor(DType::I64, &[(0, 128)]),
            tensor(DType::F32, &[(1, 1), (0, 128), (2048, 2048)]),
        ]
    }

    fn constants(name: &str) -> Option<i64> {
        match name {
            "get_prefill_chunk_size" => Some(64),
            "get_max_ctx_len" => Some(512),
            "get_max_seq_len" => Some(256),
            _ => None,
        }
    }

    #[test]
    fn inputs_are_recognised_in_either_order() {
        let m = method(llama(), &[0, 1], &[2]);
        let s = Signature::find(&m, constants).unwrap();
        assert_eq!((s.chunk, s.context), (64, Some(512)));
        let tokens = Item::Tensor(Tensor::from_i64(&[1, 2], &[7, 8]));
        let places = Item::Tensor(Tensor::from_i64(&[2], &[5, 6]));
        assert_eq!(s.inputs(&[7, 8], 5), [tokens.clone(), places.clone()]);
        assert_eq!(s.shapes(2), [vec![1, 2], vec![2]]);
        let s = Signature::find(&method(llama(), &[1, 0], &[2]), |_| None).unwrap();
        assert_eq!((s.chunk, s.context), (128, None));
        assert_eq!(s.inputs(&[7, 8], 5), [places, tokens]);
        assert_eq!(s.shapes(2), [vec![2], vec![1, 2]]);
    }

    #[test]
    fn a_first_position_may_stand_for_all() {
        let mut values = llama();
        values[1] = tensor(DType::I32, &[(1, 1)]);
        let s = Signature::find(&method(values, &[0, 1], &[2]), |_| None).unwrap();
        assert_eq!(s.inputs(&[7, 8], 5)[1], Item::Tensor(Tensor::from_i64(&[1], &[5]).cast(DType::I32)));
        let mut values = llama();
        values[1] = PlanValue::Int(0);
        let s = Signature::find(&method(values, &[0, 1], &[2]), |_| None).unwrap();
        assert_eq!(s.inputs(&[7], 5)[1], Item::Int(5));
        assert_eq!(s.shapes(7), [vec![1, 7]]);
    }

    #[test]
    fn one_token_at_a_time_is_a_chunk_of_one() {
        let mut values = llama();
        values[0] = tensor(DType::I64, &[(1, 1), (1, 1)]);
        values[1] = tensor(DType::I64, &[(1, 1)]);
        let s = Signature::find(&method(values, &[0, 1], &[2]), constants).unwrap();
        assert_eq!(s.chunk, 1);
    }

    #[test]
    fn other_methods_are_refused_with_a_reason() {
        let why = |values: Vec<PlanValue>, inputs: &[usize], outputs: &[usize]| {
            Signature::find(&method(values, inputs, outputs), |_| None).unwrap_err().message
        };
        assert!(why(llama(), &[0], &[2]).contains("number of inputs"));
        assert!(why(llama(), &[1, 2], &[0]).contains("integer tensor [1, S]"));
        assert!(why(llama(), &[0, 2], &[2]).contains("no positions"));
        assert!(why(llama(), &[0, 1], &[1]).contains("no logits"));
        let mut fixed = llama();
        fixed[0] = tensor(DType::I64, &[(1, 1), (8, 8)]);
        assert!(why(fixed, &[0, 1], &[2]).contains("fixed number of tokens"));
    }
}
