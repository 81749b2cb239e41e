//! Containers that other exporters write: inline data, old headers, and what lowtide refuses of them.

use std::sync::Arc;

use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};
use lowtide::dtype::DType;
use lowtide::error::{ErrorKind, Result};
use lowtide::program::DimBound;
use lowtide::program::pte::{Container, MethodCall, PlanValue};

/// A flatbuffer value, written as it stands.
#[derive(Clone)]
enum V {
    B(u8),
    I(i32),
    L(u64),
    S(&'static str),
    Bytes(Vec<u8>),
    Ints(Vec<i32>),
    Longs(Vec<u64>),
    T(Vec<(u16, V)>),
    Ts(Vec<V>),
}
use V::{B, Bytes, I, Ints, L, Longs, S, T, Ts};

type Offset = WIPOffset<UnionWIPOffset>;

fn offset(b: &mut FlatBufferBuilder<'static>, v: &V) -> Offset {
    let at = match v {
        S(s) => b.create_string(s).value(),
        Bytes(v) => b.create_vector(v).value(),
        Ints(v) => b.create_vector(v).value(),
        Longs(v) => b.create_vector(v).value(),
        Ts(items) => {
            let items: Vec<Offset> = items.iter().map(|i| offset(b, i)).collect();
            b.create_vector(&items).value()
        }
        T(fields) => {
            let offsets: Vec<Option<Offset>> = fields
                .iter()
                .map(|(_, v)| match v {
                    B(_) | I(_) | L(_) => None,
                    v => Some(offset(b, v)),
                })
                .collect();
            let start = b.start_table();
            for ((slot, v), o) in fields.iter().zip(offsets) {
                let at = 4 + 2 * slot;
                match (v, o) {
                    (B(v), _) => b.push_slot_always(at, *v),
                    (I(v), _) => b.push_slot_always(at, *v),
                    (L(v), _) => b.push_slot_always(at, *v),
                    (_, Some(o)) => b.push_slot_always(at, o),
                    _ => unreachable!(),
                }
            }
            b.end_table(start).value()
        }
        B(_) | I(_) | L(_) => unreachable!(),
    };
    WIPOffset::new(at)
}

/// A program without an extended header.
fn bytes(program: Vec<(u16, V)>) -> Vec<u8> {
    let mut b = FlatBufferBuilder::new();
    let root = offset(&mut b, &T(program));
    b.finish(root, Some("ET12"));
    b.finished_data().to_vec()
}

fn parse(program: Vec<(u16, V)>) -> Result<Container> {
    Container::parse(Arc::new(bytes(program)))
}

/// A value of a plan: its tag and its table.
fn value(tag: u8, fields: Vec<(u16, V)>) -> V {
    T(vec![(0, B(tag)), (1, T(fields))])
}

/// A plan with these values, all of them results, and calls.
fn plan(values: Vec<V>, calls: Vec<V>, more: Vec<(u16, V)>) -> V {
    let outputs = (0..values.len() as i32).collect();
    let mut fields = vec![(0, S("forward")), (2, Ts(values)), (3, Ints(vec![])), (4, Ints(outputs))];
    fields.push((5, Ts(vec![T(vec![(2, Ts(calls))])])));
    fields.extend(more);
    T(fields)
}

fn delegate(id: &'static str, location: u8, index: i32) -> (u16, V) {
    (7, Ts(vec![T(vec![(0, S(id)), (1, T(vec![(0, B(location)), (1, I(index))]))])]))
}

fn tensor(more: Vec<(u16, V)>) -> V {
    let mut fields = vec![(0, B(3)), (2, Ints(vec![2])), (3, Bytes(vec![0]))];
    fields.retain(|(slot, _)| more.iter().all(|(s, _)| s != slot));
    fields.extend(more);
    value(5, fields)
}

#[test]
fn inline_payloads_and_constants() {
    let payload = vec![7; 50];
    let call = T(vec![(0, B(2)), (1, T(vec![(0, I(0)), (1, Ints(vec![0]))]))]);
    let values = vec![tensor(vec![(5, I(1))]), value(2, vec![(0, L(9))]), T(vec![]), value(1, vec![])];
    let program = vec![
        (1, Ts(vec![plan(values, vec![call], vec![delegate("MLXBackend", 0, 0)])])),
        (2, Ts(vec![T(vec![]), T(vec![(0, Bytes(vec![1, 2, 3, 4, 5, 6, 7, 8]))])])),
        (3, Ts(vec![T(vec![(0, Bytes(payload.clone()))])])),
    ];
    let c = parse(program).unwrap();
    let m = c.method("forward").unwrap();
    assert_eq!(c.data()[m.delegates[0].payload.clone()], payload);
    assert_eq!(m.calls, [MethodCall::Delegate { delegate: 0, args: vec![0] }]);
    let PlanValue::Tensor(t) = &m.values[0] else { panic!() };
    assert_eq!((t.dtype, t.dims.as_slice()), (DType::I32, &[DimBound::fixed(2)][..]));
    assert_eq!(c.data()[t.data.clone().unwrap()], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(m.values[1..], [PlanValue::Int(9), PlanValue::None, PlanValue::None]);
    assert!(format!("{c:?}").contains("forward"));
}

#[test]
fn dimensions_follow_the_shape_dynamism() {
    let dims = |more: Vec<(u16, V)>| {
        let c = parse(vec![(1, Ts(vec![plan(vec![tensor(more)], vec![], vec![])]))]).unwrap();
        let PlanValue::Tensor(t) = &c.methods[0].values[0] else { panic!() };
        t.dims.clone()
    };
    assert_eq!(dims(vec![(8, B(0))]), [DimBound::fixed(2)]);
    assert_eq!(dims(vec![(8, B(1))]), [DimBound { min: 0, max: Some(2) }]);
    assert_eq!(dims(vec![(8, B(2))]), [DimBound { min: 0, max: None }]);
    assert_eq!(dims(vec![(2, Ints(vec![])), (3, Bytes(vec![]))]), []);
}

#[test]
fn tensors_are_refused_by_what_they_want() {
    use ErrorKind::{Limit, Malformed, Unsupported};
    let check = |more: Vec<(u16, V)>, kind: ErrorKind, expect: &str| {
        let e = parse(vec![(1, Ts(vec![plan(vec![tensor(more)], vec![], vec![])]))]).unwrap_err();
        let place = "method \"forward\", value 0";
        assert_eq!((e.kind(), e.to_string()), (kind, format!("{place}{expect}")));
    };
    let wanting = |name: &str, code: u8| {
        let text = format!(": the element type is {name} (code {code}), which lowtide does not compute with");
        check(vec![(0, B(code))], Unsupported, &text);
    };
    wanting("float64", 7);
    wanting("uint16", 27);
    wanting("float8_e4m3fn", 24);
    wanting("an unknown type", 99);
    check(vec![(8, B(3))], Malformed, ": unknown shape dynamism 3");
    check(vec![(2, Ints(vec![-2]))], Malformed, ": a dimension of size -2");
    check(vec![(2, Ints(vec![1; 9]))], Limit, ": 9 dimensions; the limit is 8");
    let row_major = ": the tensor's dimensions are not stored in row-major order";
    check(vec![(2, Ints(vec![1, 2])), (3, Bytes(vec![1, 0]))], Unsupported, row_major);
    let extra = |slot: u16, v: V| vec![(9, T(vec![(slot, v)]))];
    check(extra(2, B(1)), Unsupported, ": the tensor's data is in another file");
    check(extra(0, L(1)), Unsupported, ": the tensor is state with initial values in a mutable segment");
    check(extra(3, B(1)), Unsupported, ": the tensor lives on another device");
    check(vec![(5, I(1)), (6, T(vec![]))], Unsupported, ": the tensor is state with initial values");
    check(vec![(5, I(1))], Malformed, ", its data: constant 1 is out of range");
    check(vec![(5, I(-1))], Malformed, ", its data: constant 4294967295 is out of range");
    check(vec![(5, I(1)), (8, B(1))], Unsupported, ", its data: a constant has a dynamic shape");
}

#[test]
fn constant_segments_keep_within_their_segment() {
    let program = |offset: u64| {
        let mut all = bytes(vec![
            (1, Ts(vec![plan(vec![tensor(vec![(5, I(1))])], vec![], vec![])])),
            (4, Ts(vec![T(vec![(0, L(0)), (1, L(16))])])),
            (5, T(vec![(0, I(0)), (1, Longs(vec![0, offset]))])),
        ]);
        // The extended header moves the root by its length, and the segment follows.
        let (length, root) = (all.len() + 24, u32::from_le_bytes(all[..4].try_into().unwrap()) + 24);
        let mut header = b"eh00".to_vec();
        header.extend(24u32.to_le_bytes());
        header.extend((length as u64).to_le_bytes());
        header.extend((length as u64).to_le_bytes());
        all[..4].copy_from_slice(&root.to_le_bytes());
        all.splice(8..8, header);
        all.extend(0..16u8);
        Container::parse(Arc::new(all))
    };
    let c = program(5).unwrap();
    let PlanValue::Tensor(t) = &c.methods[0].values[0] else { panic!() };
    assert_eq!(c.data()[t.data.clone().unwrap()], [5, 6, 7, 8, 9, 10, 11, 12]);
    program(8).unwrap();
    for (offset, expect) in [
        (9, "the tensor needs 8 bytes and 7 are stored"),
        (17, "constant 1 is out of range"),
        (u64::MAX, "constant 1 is out of range"),
    ] {
        assert!(program(offset).unwrap_err().to_string().ends_with(expect), "{offset}");
    }
}

#[test]
fn plans_are_refused_by_what_they_want() {
    let check = |plan: V, expect: &str| {
        let e = parse(vec![(1, Ts(vec![plan]))]).unwrap_err().to_string();
        assert!(e.contains(expect), "{e}; expected {expect}");
    };
    let int = || value(2, vec![]);
    check(
        plan(vec![], vec![], vec![delegate("XnnpackBackend", 0, 0)]),
        "lowered for \"XnnpackBackend\"; lowtide runs \"MLXBackend\"",
    );
    check(plan(vec![], vec![], vec![delegate("MLXBackend", 0, 3)]), "inline payload 3 is out of range (0 payloads)");
    check(plan(vec![], vec![], vec![delegate("MLXBackend", 1, 0)]), "segment 0 is out of range (0 segments)");
    check(plan(vec![], vec![], vec![delegate("MLXBackend", 2, 0)]), "unknown payload location 2");
    check(plan(vec![value(12, vec![])], vec![], vec![]), "values, [0], val_type: unknown union tag 12");
    check(plan(vec![T(vec![(0, B(2))])], vec![], vec![]), "value 0: the value has a tag and no table");
    check(plan(vec![value(10, vec![(0, Ints(vec![-1]))])], vec![], vec![]), "value 0: value -1 is out of range");
    check(plan(vec![value(11, vec![(0, Ints(vec![0]))])], vec![], vec![]), "value 0: value 0 is not a tensor");
    check(plan(vec![int()], vec![T(vec![(0, B(6)), (1, T(vec![]))])], vec![]), "unknown union tag 6");
    check(plan(vec![int()], vec![T(vec![])], vec![]), "call 0: the call has no fields");
    check(
        plan(vec![int()], vec![T(vec![(0, B(1)), (1, T(vec![]))])], vec![]),
        "operator 0 is out of range (0 operators)",
    );
    let outside = |name, overload| (6, Ts(vec![T(vec![(0, S(name)), (1, S(overload))])]));
    let kernel = || T(vec![(0, B(1)), (1, T(vec![]))]);
    check(plan(vec![int()], vec![kernel()], vec![outside("aten::add", "out")]), "operator aten::add.out outside");
    // An operator that no call uses does no harm.
    parse(vec![(1, Ts(vec![plan(vec![int()], vec![], vec![outside("aten::add", "out")])]))]).unwrap();
    let free = || T(vec![(0, B(5)), (1, T(vec![]))]);
    let two = T(vec![(0, S("f")), (2, Ts(vec![int()])), (5, Ts(vec![T(vec![(2, Ts(vec![free()]))]); 2]))]);
    check(two, "method \"f\": the method has more than one chain of calls");
    let e = parse(vec![(0, I(1))]).unwrap_err();
    assert_eq!(e.to_string(), "the file has version 1; this lowtide reads version 0");
    let key = |k| T(vec![(0, S(k)), (1, I(0))]);
    let e = parse(vec![(4, Ts(vec![T(vec![])])), (7, Ts(vec![key("a"), key("a")]))]).unwrap_err();
    assert_eq!(e.to_string(), "two entries of named data have the key \"a\"");
}

#[test]
fn files_open_mapped_and_read() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/full-sum/model.pte");
    let (mapped, read) = (Container::open(&path).unwrap(), Container::read(&path).unwrap());
    assert_eq!((mapped.data(), &mapped.methods), (read.data(), &read.methods));
    for missing in [Container::open("no/such.pte"), Container::read("no/such.pte")] {
        let e = missing.unwrap_err();
        assert!(e.kind() == ErrorKind::Io && e.to_string().starts_with("no/such.pte: "), "{e}");
    }
}
