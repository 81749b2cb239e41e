//! Host scalars: integer arithmetic, sizes of tensors and the single elements of known ones.

use super::{Alias, Call, Emit, Kernel, Outs, Value, axis};
use crate::error::{Error, Result};
use crate::op::fields;

/// `ItemInt`.
pub static ITEM_INT: Kernel = Kernel::new(Alias::Host, item_int, nothing);
/// Integer arithmetic.
pub static INT_BINARY: Kernel = Kernel::new(Alias::Host, int_binary, nothing);
/// `SymSize`.
pub static SYM_SIZE: Kernel = Kernel::new(Alias::Host, sym_size, nothing);

fn nothing(_: &Call<'_>, _: &mut Emit<'_>) -> Result<()> {
    Ok(())
}

/// The element as the host knows it; otherwise the run must wait for the tensor.
fn item_int(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::item_int as f;
    let view = c.tensor(f::x)?;
    if view.count() != 1 {
        return Err(Error::malformed(format!("the tensor has shape {:?}, not one element", &view.dims[..])));
    }
    match c.known_item(f::x) {
        Some(v) => out.value(c, f::out, Value::Int(v)),
        None => {
            out.wait = c.vid(f::out).map(|v| (c.use_of(f::x, 0), v));
        }
    }
    Ok(())
}

fn int_binary(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    use fields::add_int as f;
    let (Some(x), Some(y)) = (c.maybe_int(f::a), c.maybe_int(f::b)) else {
        out.value(c, f::out, later(c.func(), c.value(f::a), c.value(f::b)));
        return Ok(());
    };
    let result = match c.func() {
        "add_int" => x.checked_add(y),
        "subtract_int" => x.checked_sub(y),
        "multiply_int" => x.checked_mul(y),
        "floor_divide_int" => floor_divide(x, y),
        _ => floor_divide(x, y).and_then(|q| q.checked_mul(y)).and_then(|p| x.checked_sub(p)),
    };
    let result = result.ok_or_else(|| Error::malformed(format!("{x} and {y} overflow or divide by zero")))?;
    out.value(c, f::out, Value::Int(result));
    Ok(())
}

/// A sum or difference with a scalar that is not known yet.
fn later(func: &str, a: Value, b: Value) -> Value {
    let shifted = |of, plus: Option<i64>| plus.map_or(Value::Unknown, |plus| Value::Later { of, plus });
    match (func, a, b) {
        ("add_int", Value::Later { of, plus }, Value::Int(v))
        | ("add_int", Value::Int(v), Value::Later { of, plus }) => shifted(of, plus.checked_add(v)),
        ("subtract_int", Value::Later { of, plus }, Value::Int(v)) => shifted(of, plus.checked_sub(v)),
        ("subtract_int", _, _) => a.minus(b).map_or(Value::Unknown, Value::Int),
        _ => Value::Unknown,
    }
}

/// Rounds towards minus infinity.
fn floor_divide(x: i64, y: i64) -> Option<i64> {
    let q = x.checked_div(y)?;
    Some(if x % y != 0 && (x < 0) != (y < 0) { q - 1 } else { q })
}

fn sym_size(c: &Call<'_>, out: &mut Outs) -> Result<()> {
    let x = c.tensor(fields::sym_size::a)?;
    let at = axis(c.int(fields::sym_size::dim)?, x.rank())?;
    out.value(c, fields::sym_size::out, Value::Int(x.dims[at] as i64));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_rounds_down() {
        assert_eq!([(7, 3), (-7, 3), (7, -3), (-7, -3)].map(|(x, y)| floor_divide(x, y).unwrap()), [2, -3, -3, 2]);
        assert_eq!(floor_divide(1, 0), None);
        assert_eq!(floor_divide(i64::MIN, -1), None);
    }
}
