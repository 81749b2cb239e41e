//! Broken and malicious files are refused, without a panic, a hang or an allocation out of proportion.

#[path = "support/memory.rs"]
mod memory;

use std::path::Path;
use std::sync::Arc;

use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};
use lowtide::dtype::DType;
use lowtide::error::{ErrorKind, Result};
use lowtide::op::fields;
use lowtide::program::build::{Int, ProgramBuilder};
use lowtide::program::check::check;
use lowtide::program::load::load;
use lowtide::program::pte::{Container, KernelOp, MethodCall, PlanValue};
use lowtide::program::{DimBound, Graph, write};
use lowtide::table::{Chain, Slot};

/// Reads a file as far as a model does before it is bound.
fn read(bytes: &[u8]) -> Result<()> {
    let c = Container::parse(Arc::new(bytes.to_vec()))?;
    for m in &c.methods {
        for d in &m.delegates {
            check(load(&c.data()[d.payload.clone()])?, &c.named)?;
        }
    }
    Ok(())
}

/// Reads within a budget of memory: a small multiple of the file, whatever the file says.
fn read_in_proportion(bytes: &[u8], what: impl Fn() -> String) -> Result<()> {
    let (result, peak) = memory::peak(|| read(bytes));
    assert!(peak < 64 * bytes.len() + (1 << 20), "{}: {peak} bytes for a file of {}", what(), bytes.len());
    result
}

/// A small program with an IF, a SCAN, lists, strings, values and constants.
fn small() -> ProgramBuilder {
    let mut b = ProgramBuilder::new();
    let rows = DimBound { min: 1, max: Some(8) };
    let (x, n) = (b.input(DType::F32, &[rows, 4.into()]), b.int_input());
    let w = b.constant("w", DType::F32, &[4], vec![0; 16]);
    let out = b.output(DType::F32, &[rows, 4.into()]);
    let state = b.mutable("state", DType::F32, &[4]);
    let (t, u, slice, y, m) = (b.temp(), b.temp(), b.temp(), b.temp(), b.value());
    let (main, yes, no, body) = (b.main(), b.chain(), b.chain(), b.chain());
    use fields as f;
    b.push(main, "SymSize", [(f::sym_size::a, x.into()), (f::sym_size::out, m.into())]);
    use f::if_::{cond, else_chain_idx, then_chain_idx};
    b.push(main, "If", [(cond, n.into()), (then_chain_idx, yes.into()), (else_chain_idx, no.into())]);
    b.push(yes, "Add", [(f::add::a, x.into()), (f::add::b, w.into()), (f::add::out, t.into())]);
    use f::reshape as r;
    let shape = [Int::Value(m), Int::Literal(-1)];
    b.push(no, "Reshape", [(r::x, x.into()), (r::out, t.into()), (r::shape, shape.into())]);
    use f::scan as s;
    let lists = [(s::originals, [t]), (s::sliced, [slice]), (s::outputs, [y]), (s::carry, [state])];
    let mut args: Vec<_> = lists.into_iter().map(|(f, t)| (f, t.into())).collect();
    args.push((s::body_chain_idx, body.into()));
    args.push((s::scan_axis, 0.into()));
    b.push(main, "Scan", args);
    b.push(body, "Add", [(f::add::a, slice.into()), (f::add::b, state.into()), (f::add::out, state.into())]);
    b.push(body, "Gelu", [(f::gelu::x, state.into()), (f::gelu::out, y.into()), (f::gelu::approximate, "none".into())]);
    use f::concatenate as c;
    b.push(main, "Concatenate", [(c::tensors, [y, t].into()), (c::out, u.into())]);
    b.push(main, "Exp", [(f::exp::x, u.into()), (f::exp::out, out.into())]);
    b.constant_method("get_max_ctx_len", PlanValue::Int(128));
    b.constant_tensor_method("get_kv_heads", DType::I32, &[1], vec![2, 0, 0, 0]);
    b
}

/// Files to break: the program above, and a real one.
fn victims() -> [Vec<u8>; 2] {
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/if-nested/model.pte");
    [small().build().unwrap(), std::fs::read(real).unwrap()]
}

/// Fails on anything but a sound program, or one whose kernels are all that is missing.
fn accept(result: Result<()>) {
    match result {
        Err(e) if e.message().starts_with("no kernel is written") => {}
        other => other.unwrap(),
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

#[test]
fn the_files_to_break_are_sound() {
    victims().iter().for_each(|v| accept(read(v)));
}

#[test]
fn truncated_files_are_refused() {
    for bytes in victims() {
        // Zeros that fill up the last segment may go; nothing else may.
        let filled = bytes.iter().rposition(|&b| b != 0).unwrap() - 128;
        for end in 0..bytes.len() {
            let result = read_in_proportion(&bytes[..end], || format!("cut at {end}"));
            assert!(end >= filled || result.is_err(), "cut at {end} of {}", bytes.len());
        }
    }
}

#[test]
fn truncated_payloads_are_refused() {
    let payload = write::payload(&small().graph().unwrap()).unwrap();
    for end in 0..payload.len() {
        assert!(load(&payload[..end]).is_err(), "cut at {end}");
        // The same with a header that agrees. Flatbuffers are written from their end, so a table is lost.
        let mut cut = payload[..end].to_vec();
        if end > 24 {
            cut[8..16].copy_from_slice(&(end as u64).to_le_bytes());
            let padding = payload.len() - end < 8;
            assert!(padding || load(&cut).is_err(), "cut at {end} of {}", payload.len());
        }
    }
}

#[test]
fn flipped_bits_do_no_harm() {
    for (seed, bytes) in victims().into_iter().enumerate() {
        let mut random = Random(seed as u64);
        for round in 0..5000 {
            let mut broken = bytes.clone();
            let flips: Vec<_> =
                (0..1 + random.below(3)).map(|_| (random.below(bytes.len()), 1 + random.below(255))).collect();
            flips.iter().for_each(|&(at, mask)| broken[at] ^= mask as u8);
            let _ = read_in_proportion(&broken, || format!("round {round}: {flips:?}"));
        }
    }
}

#[test]
fn flipped_bits_in_a_payload_do_no_harm() {
    let c = small().container().unwrap();
    let payload = &c.data()[c.methods[0].delegates[0].payload.clone()];
    let mut random = Random(7);
    for round in 0..10_000 {
        let mut broken = payload.to_vec();
        let (at, mask) = (24 + random.below(payload.len() - 24), 1 + random.below(255));
        broken[at] ^= mask as u8;
        let (result, peak) = memory::peak(|| load(&broken).and_then(|g| check(g, &c.named)));
        assert!(peak < 64 * payload.len() + (1 << 20), "round {round}: {peak} bytes");
        drop(result);
    }
}

#[test]
fn extreme_words_do_no_harm() {
    for bytes in victims() {
        for at in (0..bytes.len() - 8).step_by(4) {
            for value in [0u32, 1, 1 << 31, u32::MAX] {
                let mut broken = bytes.clone();
                broken[at..at + 4].copy_from_slice(&value.to_le_bytes());
                let _ = read_in_proportion(&broken, || format!("{value} at {at}"));
            }
            if at % 8 == 0 {
                for value in [0u64, 1, 1 << 63, u64::MAX] {
                    let mut broken = bytes.clone();
                    broken[at..at + 8].copy_from_slice(&value.to_le_bytes());
                    let _ = read_in_proportion(&broken, || format!("{value} at {at}"));
                }
            }
        }
    }
}

/// Replaces the only place where `from` stands.
fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|&i| bytes[i..].starts_with(from)).collect();
    assert_eq!((places.len(), from.len()), (1, to.len()), "{from:?}");
    let mut out = bytes.to_vec();
    out[places[0]..places[0] + to.len()].copy_from_slice(to);
    out
}

fn refused(result: Result<impl Sized>, kind: ErrorKind, expect: &str) {
    match result {
        Ok(_) => panic!("accepted; expected {expect:?}"),
        Err(e) => assert!(e.kind() == kind && e.to_string().contains(expect), "{e:?}; expected {expect:?}"),
    }
}

#[test]
fn containers_are_refused_by_name() {
    use ErrorKind::{Malformed, Unsupported};
    let good = small().build().unwrap();
    let check = |from: &[u8], to: &[u8], kind, expect| refused(read(&replace(&good, from, to)), kind, expect);
    check(b"ET12", b"ET11", Malformed, "ET12");
    check(b"MLXBackend", b"CoreMLBack", Unsupported, "lowered for \"CoreMLBack\"");
    check(b"MLX0", b"MLX1", Malformed, "does not start with MLX0");
    check(b"\x01\0\0\x001\0", b"\x01\0\0\x002\0", Unsupported, "the delegate's graph has version \"2\"");
    check(b"get_kv_heads\0", b"get_kv_\xff\xfeads\0", Malformed, "Utf8 error");
    check(b"none\0", b"no\xc3\x28\0", Malformed, "Utf8 error");

    // The header's words: program size, segment base, segment data size.
    let word = |at: usize, v: u64| {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&v.to_le_bytes());
        bytes
    };
    for huge in [u64::MAX, 1 << 63, good.len() as u64 + 1] {
        refused(read(&word(16, huge)), Malformed, "the program ends at byte");
        refused(read(&word(24, huge)), Malformed, "the segments start at byte");
        refused(read(&word(32, huge)), Malformed, "the segments end at byte");
    }
    refused(read(&word(24, 0)), Malformed, "the file has 0 bytes for segments");

    // A header without the segments' size, as older files have it.
    let mut old = good.clone();
    old[12..16].copy_from_slice(&24u32.to_le_bytes());
    old[32..40].fill(0xff);
    accept(read(&old));
}

#[test]
fn data_that_overruns_its_segment_is_refused() {
    let c = small().container().unwrap();
    let mut short = c.clone();
    if let PlanValue::Tensor(t) = &mut short.methods[2].values[0] {
        t.dims = vec![DimBound::fixed(4000)];
    }
    let bytes = write::container(&short).unwrap();
    refused(
        read(&bytes),
        ErrorKind::Malformed,
        "method \"get_kv_heads\", value 0, its data: the tensor needs 16000 bytes",
    );
    let mut short = c.clone();
    if let PlanValue::Tensor(t) = &mut short.methods[2].values[0] {
        t.dims = vec![DimBound::fixed(1 << 20); 8];
    }
    refused(read(&write::container(&short).unwrap()), ErrorKind::Limit, "a tensor of");
    let mut short = c.clone();
    short.named.get_mut("w").unwrap().end -= 1;
    let bytes = write::container(&short).unwrap();
    refused(read(&bytes), ErrorKind::Malformed, "constant t0 \"w\": shape [4] needs 16 bytes, the file has 15");
    // The container itself refuses to write what it does not have.
    let mut wild = c.clone();
    wild.named.insert("z".into(), usize::MAX - 1..usize::MAX);
    refused(write::container(&wild), ErrorKind::Malformed, "no bytes");
}

#[test]
fn calls_are_refused_by_name() {
    let with = |change: &dyn Fn(&mut Container)| {
        let mut c = small().container().unwrap();
        change(&mut c);
        write::container(&c).unwrap()
    };
    let copy = with(&|c| c.methods[0].calls.push(MethodCall::Kernel { op: KernelOp::Copy, args: vec![0, 0, 1, 0] }));
    accept(read(&copy));
    let clone = replace(&copy, b"aten::copy_", b"aten::clone");
    refused(read(&clone), ErrorKind::Unsupported, "call 1: operator aten::clone outside the delegate");
    let call = |call: MethodCall| with(&|c| c.methods[0].calls.push(call.clone()));
    let check = |c, kind, expect| refused(read(&call(c)), kind, expect);
    use ErrorKind::Malformed;
    check(
        MethodCall::Kernel { op: KernelOp::Copy, args: vec![0, 1, 1, 0] },
        Malformed,
        "call 1: aten::copy_ is called",
    );
    check(MethodCall::Kernel { op: KernelOp::Gather, args: vec![0, 1, 0] }, Malformed, "aten::gather is called");
    check(MethodCall::Kernel { op: KernelOp::Copy, args: vec![0, 99] }, Malformed, "value 99 is out of range");
    check(MethodCall::Delegate { delegate: 1, args: vec![] }, Malformed, "delegate 1 is out of range (1 delegates)");
    check(MethodCall::Move { from: 0, to: 99 }, Malformed, "value 99 is out of range");
    check(MethodCall::Free(99), Malformed, "value 99 is out of range");
    check(MethodCall::Jump { if_false: 1, to: 2 }, Malformed, "value 1 is not a bool");
    let jump = |to| {
        with(&|c| {
            c.methods[0].values.push(PlanValue::Bool(false));
            let if_false = c.methods[0].values.len() - 1;
            c.methods[0].calls.push(MethodCall::Jump { if_false, to });
        })
    };
    accept(read(&jump(2)));
    refused(read(&jump(3)), Malformed, "call 3 is out of range");
    refused(read(&jump(0)), ErrorKind::Unsupported, "call 1 jumps back to call 0");
    refused(read(&jump(1)), ErrorKind::Unsupported, "call 1 jumps back to call 1");
    let list = with(&|c| c.methods[0].values.push(PlanValue::Tensors(vec![Some(0), Some(1)])));
    refused(read(&list), Malformed, "value 1 is not a tensor");
    let twice = with(&|c| c.methods[1].name = "forward".into());
    refused(read(&twice), Malformed, "two methods are named \"forward\"");
    let many = with(&|c| {
        let d = c.methods[0].delegates[0].clone();
        c.methods[0].delegates.extend(std::iter::repeat_n(d, 100));
    });
    refused(read(&many), ErrorKind::Limit, "the same payloads too often");
}

/// A chain of IFs: chain `c` holds `ifs(c)`, pairs of chain numbers, and one instruction.
fn nest(chains: usize, ifs: impl Fn(usize) -> Vec<(usize, usize)>) -> Graph {
    let mut b = ProgramBuilder::new();
    let (x, n) = (b.input(DType::F32, &[1.into()]), b.int_input());
    let t = b.temp();
    (1..chains).for_each(|_| _ = b.chain());
    for c in 0..chains {
        b.push(Chain(c as u32), "Exp", [(fields::exp::x, x.into()), (fields::exp::out, t.into())]);
        for (yes, no) in ifs(c) {
            use fields::if_ as f;
            let (yes, no) = (Chain(yes as u32), Chain(no as u32));
            let args = [(f::cond, n.into()), (f::then_chain_idx, yes.into()), (f::else_chain_idx, no.into())];
            b.push(Chain(c as u32), "If", args);
        }
    }
    b.graph().unwrap()
}

#[test]
fn chains_that_unfold_without_end_are_refused_at_once() {
    use ErrorKind::{Limit, Malformed};
    let run = |g: Graph, kind, expect| {
        let loaded = load(&write::payload(&g).unwrap()).unwrap();
        assert_eq!(loaded, g);
        let (result, peak) = memory::peak(|| check(loaded, &Default::default()));
        refused(result, kind, expect);
        assert!(peak < 64 << 20, "{peak} bytes");
    };
    run(nest(1, |_| vec![(0, 0)]), Malformed, "chain c0: chain c0 runs itself");
    run(nest(4, |c| vec![(3, [1, 2, 1, 3][c])]), Malformed, "runs itself");
    run(
        nest(3, |c| [vec![(1, 1)], vec![(2, 2)], vec![(1, 1)]][c].clone()),
        Malformed,
        "chain c2: chain c1 runs itself",
    );
    // 2^40 steps, 60 deep.
    run(nest(60, |c| if c < 59 { vec![(c + 1, c + 1)] } else { vec![] }), Limit, "the limit is 2000000");
    run(
        nest(100, |c| if c < 99 { vec![(c + 1, c + 1)] } else { vec![] }),
        Limit,
        "chains nest 100 deep; the limit is 64",
    );
    run(nest(4096, |c| if c < 4095 { vec![(c + 1, 4095)] } else { vec![] }), Limit, "chains nest 4096 deep");
    run(nest(2, |c| if c == 0 { vec![(1, 1); 500_000] } else { vec![] }), Limit, "unfold to 2500001 steps");
    run(
        nest(2, |c| if c == 0 { vec![(1, 2)] } else { vec![] }),
        Malformed,
        "field else_chain_idx: chain 2 is out of range",
    );
}

#[test]
fn many_chains_over_many_slots_are_refused() {
    let mut g = nest(4000, |c| if c == 0 { vec![(1, 1); 6000] } else { vec![] });
    check(g.clone(), &Default::default()).map_or_else(|e| assert!(e.kind() == ErrorKind::Unsupported, "{e}"), drop);
    // Each slot is a column of tables with a row per chain and IF.
    g.tensors.first[5] = 200_000;
    for _ in g.tensors.dtype.len()..200_000 {
        g.tensors.dtype.push(None);
        g.tensors.name.push(String::new());
        let _: Slot = g.tensors.dims.end_row();
    }
    let expect = "4000 chains, 6000 IFs and SCANs and 200000 slots are too many together";
    refused(check(g, &Default::default()), ErrorKind::Limit, expect);
}

#[test]
fn long_lists_named_often_are_refused() {
    let mut b = ProgramBuilder::new();
    let (x, n, t, inner) = (b.input(DType::F32, &[1.into()]), b.int_input(), b.temp(), b.chain());
    use fields::concatenate as c;
    b.push(inner, "Concatenate", [(c::tensors, vec![x; 60_000].into()), (c::out, t.into())]);
    for _ in 0..1000 {
        use fields::if_ as f;
        let args = [(f::cond, n.into()), (f::then_chain_idx, inner.into()), (f::else_chain_idx, inner.into())];
        b.push(b.main(), "If", args);
    }
    refused(check(b.graph().unwrap(), &Default::default()), ErrorKind::Limit, "operands; the limit is");
}

#[test]
fn a_million_references_to_one_instruction_are_refused() {
    let at = |slot: u16| 4 + 2 * slot;
    let erase = |o: u32| WIPOffset::<UnionWIPOffset>::new(o);
    for copies in [1, 1000] {
        let mut b = FlatBufferBuilder::new();
        let start = b.start_table();
        let noop = erase(b.end_table(start).value());
        let start = b.start_table();
        b.push_slot_always(at(0), 1u8);
        b.push_slot_always(at(1), noop);
        let instruction = erase(b.end_table(start).value());
        let list = b.create_vector(&vec![instruction; 1_000_000]);
        let start = b.start_table();
        b.push_slot_always(at(0), list);
        let chain = erase(b.end_table(start).value());
        let chains = b.create_vector(&vec![chain; copies]);
        let start = b.start_table();
        b.push_slot_always(at(7), chains);
        let root = b.end_table(start);
        b.finish_minimal(root);
        let body = b.finished_data();
        let mut payload = b"\0\0\0\0MLX0".to_vec();
        payload.extend((24u64 + body.len() as u64).to_le_bytes());
        payload.extend([0; 8]);
        payload.extend(body);
        let (result, peak) = memory::peak(|| load(&payload));
        refused(result, ErrorKind::Limit, "refers to the same tables too often");
        assert!(peak < 1 << 20, "{peak} bytes");
    }
}

#[test]
fn counts_and_ranks_without_substance_are_refused() {
    let with = |change: &dyn Fn(&mut Graph)| {
        let c = small().container().unwrap();
        let mut g = small().graph().unwrap();
        change(&mut g);
        let payload = write::payload(&g).unwrap();
        let (result, peak) = memory::peak(|| load(&payload).and_then(|g| check(g, &c.named)));
        assert!(peak < 64 * payload.len() + (1 << 20), "{peak} bytes");
        result
    };
    use ErrorKind::{Limit, Malformed};
    refused(with(&|g| g.tensors.first[5] = 900_000), Limit, "tensor slots; at most");
    refused(with(&|g| g.tensors.first[5] = u32::MAX), Limit, "tensor slots; at most");
    refused(with(&|g| g.values = u32::MAX), Limit, "values; at most");
    refused(with(&|g| g.values = 900_000), Limit, "values; at most");
    refused(with(&|g| g.main = Chain(9)), Malformed, "the main chain is c9, but there are 4 chains");
    refused(with(&|g| g.init = Some(Chain(9))), Malformed, "the init chain is c9");
    let mut g = Graph::default();
    g.tensors.first = [0, 0, 1, 1, 1, 1];
    g.tensors.dtype.push(Some(DType::F32));
    g.tensors.name.push(String::new());
    (0..10_000).for_each(|_| g.tensors.dims.push(DimBound::fixed(1)));
    let _: Slot = g.tensors.dims.end_row();
    let _: Chain = g.chains.end_row();
    refused(load(&write::payload(&g).unwrap()), Limit, "meta of t0: 10000 dimensions; the limit is 8");
    refused(check(g, &Default::default()), Limit, "slot t0 has 10000 dimensions; the limit is 8");
}
