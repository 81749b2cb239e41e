//! What the check of a graph refuses, and with which words.

use lowtide::dtype::DType;
use lowtide::error::{ErrorKind, Result};
use lowtide::op::{Field, fields};
use lowtide::program::build::{Arg, Int, ProgramBuilder, TensorRef};
use lowtide::program::check::{Checked, check, check_call};
use lowtide::program::pte::MethodCall;
use lowtide::program::{DimBound, Graph, Operand, Port};
use lowtide::table::{Chain, Slot, Vid};

/// A builder with what most tests need: an argument, a result, a scalar argument.
struct Bench {
    b: ProgramBuilder,
    x: TensorRef,
    out: TensorRef,
    n: Vid,
    t: TensorRef,
    u: TensorRef,
}

impl Bench {
    fn new() -> Self {
        let mut b = ProgramBuilder::new();
        let x = b.input(DType::F32, &[3.into(), 4.into()]);
        let n = b.int_input();
        let out = b.output(DType::F32, &[3.into(), 4.into()]);
        let (t, u) = (b.temp(), b.temp());
        Self { b, x, out, n, t, u }
    }
    fn unary(&mut self, chain: Chain, x: TensorRef, out: TensorRef) {
        self.b.push(chain, "Exp", [(fields::exp::x, x.into()), (fields::exp::out, out.into())]);
    }
    /// The last instruction: the result from `x`.
    fn end(&mut self, x: TensorRef) {
        self.unary(self.b.main(), x, self.out);
    }
    fn when(&mut self, chain: Chain, cond: impl Into<Arg>, yes: Chain, no: Chain) {
        use fields::if_ as f;
        let args = [(f::cond, cond.into()), (f::then_chain_idx, yes.into()), (f::else_chain_idx, no.into())];
        self.b.push(chain, "If", args);
    }
    fn scan(&mut self, lists: [&[TensorRef]; 4], body: Chain) {
        use fields::scan as f;
        let names = [f::originals, f::sliced, f::outputs, f::carry];
        let mut args: Vec<(Field, Arg)> = names.into_iter().zip(lists).map(|(f, l)| (f, l.to_vec().into())).collect();
        args.push((f::body_chain_idx, body.into()));
        self.b.push(self.b.main(), "Scan", args);
    }
    fn checked(&self) -> Result<Checked> {
        let c = self.b.container().unwrap();
        check(self.b.graph().unwrap(), &c.named)
    }
    /// The check finds nothing wrong but kernels that are not written.
    fn accepted(&self) {
        match self.checked() {
            Err(e) if e.message().starts_with("no kernel is written") => {}
            other => drop(other.unwrap()),
        }
    }
    fn refused(&self, expect: &str) {
        let e = self.checked().unwrap_err();
        assert_eq!((e.kind(), e.to_string().as_str()), (ErrorKind::Malformed, expect));
    }
}

#[test]
fn a_read_needs_a_write_before_it() {
    let mut k = Bench::new();
    k.end(k.t);
    k.refused("chain c0, i0 Exp, field x: slot t2 is read, and nothing wrote it before on every path");

    let mut k = Bench::new();
    k.unary(k.b.main(), k.x, k.t);
    k.end(k.t);
    k.accepted();
    // Reading and writing one slot reads it first.
    let mut k = Bench::new();
    k.unary(k.b.main(), k.t, k.t);
    k.end(k.t);
    k.refused("chain c0, i0 Exp, field x: slot t2 is read, and nothing wrote it before on every path");

    let mut k = Bench::new();
    k.unary(k.b.main(), k.x, k.t);
    k.refused("output 0: slot t1 is read, and nothing wrote it before on every path");

    let mut k = Bench::new();
    let (m, main) = (k.b.value(), k.b.main());
    use fields::reshape as f;
    k.b.push(main, "Reshape", [(f::x, k.x.into()), (f::out, k.out.into()), (f::shape, [Int::Value(m)].into())]);
    k.refused("chain c0, i0 Reshape, field shape: value v1 is read, and nothing wrote it before on every path");

    let mut k = Bench::new();
    let m = k.b.value();
    k.end(k.x);
    k.b.returns_int(m);
    k.refused("output 1: value v1 is not written");
}

#[test]
fn a_branch_alone_does_not_count() {
    let make = |both: bool| {
        let mut k = Bench::new();
        let (yes, no) = (k.b.chain(), k.b.chain());
        k.when(k.b.main(), k.n, yes, no);
        k.unary(yes, k.x, k.t);
        k.unary(no, k.x, k.u);
        if both {
            k.unary(no, k.u, k.t);
        }
        k.end(k.t);
        k
    };
    make(true).accepted();
    make(false).refused("chain c0, i1 Exp, field x: slot t2 is read, and nothing wrote it before on every path");

    // Nor does the other branch.
    let mut k = make(true);
    k.end(k.u);
    k.refused("chain c0, i2 Exp, field x: slot t3 is read, and nothing wrote it before on every path");

    // What a branch reads may be written before the IF, and not in the other branch.
    let mut k = Bench::new();
    let (yes, no) = (k.b.chain(), k.b.chain());
    k.unary(k.b.main(), k.x, k.t);
    k.when(k.b.main(), 1, yes, no);
    k.unary(yes, k.t, k.u);
    k.unary(no, k.u, k.out);
    k.end(k.t);
    k.refused("chain c2, i4 Exp, field x: slot t3 is read, and nothing wrote it before on every path");

    // Both branches may be the same chain, and branches nest.
    let mut k = Bench::new();
    let (outer, inner) = (k.b.chain(), k.b.chain());
    k.when(k.b.main(), k.n, outer, outer);
    k.when(outer, k.n, inner, inner);
    k.unary(inner, k.x, k.t);
    k.end(k.t);
    k.accepted();
    assert_eq!(k.b.graph().unwrap().chains.rows(), 3);
}

/// A SCAN over `x` that slices into `t`, carries `state` and stacks `u`.
fn scan_bench() -> (Bench, TensorRef, Chain) {
    let mut k = Bench::new();
    let (state, body) = (k.b.mutable("state", DType::F32, &[4]), k.b.chain());
    (k, state, body)
}

#[test]
fn a_scan_writes_its_slices_and_wants_its_outputs() {
    let (mut k, state, body) = scan_bench();
    k.scan([&[k.x], &[k.t], &[k.u], &[state]], body);
    k.unary(body, k.t, state);
    k.unary(body, state, k.u);
    k.end(k.u);
    k.accepted();

    let (mut k, state, body) = scan_bench();
    k.scan([&[k.x], &[k.t], &[k.u], &[state]], body);
    k.unary(body, k.t, state);
    k.end(k.u);
    k.refused("chain c0, i0 Scan, field outputs: slot t4 is an output of the body, which does not write it");

    // A carry must have a value at the start.
    let (mut k, _, body) = scan_bench();
    k.scan([&[k.x], &[k.t], &[k.out], &[k.u]], body);
    k.unary(body, k.t, k.u);
    k.unary(body, k.t, k.out);
    k.refused("chain c0, i0 Scan, field carry: slot t4 is read, and nothing wrote it before on every path");

    // What the body wrote, and its slices, are there afterwards.
    let (mut k, state, body) = scan_bench();
    k.scan([&[k.x], &[k.t], &[], &[state]], body);
    k.unary(body, k.t, k.u);
    k.unary(k.b.main(), k.t, k.t);
    k.end(k.u);
    k.accepted();

    let (mut k, _, body) = scan_bench();
    k.scan([&[k.u], &[k.t], &[k.out], &[]], body);
    k.unary(body, k.t, k.out);
    k.refused("chain c0, i0 Scan, field originals: slot t4 is read, and nothing wrote it before on every path");
}

#[test]
fn scan_lists_make_sense() {
    let check = |lists: &dyn Fn(&Bench, TensorRef) -> [Vec<TensorRef>; 4], expect: &str| {
        let (mut k, state, body) = scan_bench();
        let l = lists(&k, state);
        k.scan([&l[0], &l[1], &l[2], &l[3]], body);
        k.unary(body, k.x, k.out);
        k.refused(&format!("chain c0, i0 Scan, field {expect}"));
    };
    check(
        &|_, _| [vec![], vec![], vec![], vec![]],
        "originals: the list is empty, so nothing says how many steps there are",
    );
    check(&|k, _| [vec![k.x, k.x], vec![k.t], vec![], vec![]], "sliced: the list has 1 tensors for 2 originals");
    check(&|k, _| [vec![k.x, k.x], vec![k.t, k.t], vec![], vec![]], "sliced: slot t3 is in sliced too");
    check(&|k, _| [vec![k.x], vec![k.t], vec![k.t], vec![]], "outputs: slot t3 is in sliced too");
    check(&|k, s| [vec![k.x], vec![k.t], vec![s], vec![s]], "carry: slot t2 is in outputs too");
    check(&|k, _| [vec![k.x], vec![k.x], vec![], vec![]], "originals: slot t0 is in sliced too");
    check(&|k, _| [vec![k.x], vec![k.out], vec![], vec![k.x]], "originals: slot t0 is in carry too");

    let (mut k, _, body) = scan_bench();
    k.scan([&[k.x], &[k.t], &[], &[]], body);
    let mut g = k.b.graph().unwrap();
    let at = g.operands(lowtide::table::Inst(0), fields::scan::body_chain_idx).start;
    g.scalars.bits[at] = -1i64 as u64;
    let e = check_graph(g).unwrap_err();
    assert_eq!(e.to_string(), "chain c0, i0 Scan, field body_chain_idx: chain -1 is out of range (2 chains)");
}

fn check_graph(g: Graph) -> Result<Checked> {
    check(g, &Default::default())
}

#[test]
fn inputs_and_constants_keep_what_they_hold() {
    let mut k = Bench::new();
    k.unary(k.b.main(), k.x, k.x);
    k.refused("chain c0, i0 Exp, field out: slot t0 is written and is an input, which nothing may write");

    let mut k = Bench::new();
    let w = k.b.constant("w", DType::F32, &[2], vec![0; 8]);
    k.unary(k.b.main(), k.x, w);
    k.refused("chain c0, i0 Exp, field out: slot t0 is written and is a constant, which only the init chain may write");

    // A chain that both init and main reach writes in main too.
    let mut k = Bench::new();
    let w = k.b.constant("w", DType::F32, &[2], vec![0; 8]);
    let (init, shared) = (k.b.init(), k.b.chain());
    k.unary(shared, w, w);
    k.when(init, 1, shared, shared);
    k.when(k.b.main(), 1, shared, shared);
    k.end(k.x);
    k.refused("chain c2, i3 Exp, field out: slot t0 is written and is a constant, which only the init chain may write");

    // State may be written and read by all.
    let mut k = Bench::new();
    let (state, init) = (k.b.mutable("s", DType::F32, &[3, 4]), k.b.init());
    k.unary(init, state, state);
    k.unary(k.b.main(), state, state);
    k.end(state);
    k.b.returns(state);
    k.accepted();

    let (mut k, _, body) = scan_bench();
    let w = k.b.constant("w", DType::F32, &[2], vec![0; 8]);
    k.scan([&[k.x], &[w], &[], &[]], body);
    k.refused(
        "chain c0, i0 Scan, field sliced: slot t0 is written and is a constant, which only the init chain may write",
    );
}

#[test]
fn constants_have_data_or_are_computed_first() {
    let make = |init: bool| {
        let mut k = Bench::new();
        let (w, c) = (k.b.constant("w", DType::F32, &[2], vec![0; 8]), k.b.computed_constant("c", DType::F32, &[2]));
        if init {
            let init = k.b.init();
            k.unary(init, w, c);
        }
        k.end(c);
        k
    };
    make(false).refused("chain c0, i0 Exp, field x: constant t1 \"c\" has no data and nothing wrote it before");
    let checked = make(true).checked().unwrap();
    assert_eq!(checked.constants.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    assert_eq!(checked.written_by_init, [Slot(1)]);
    assert_eq!((checked.reached.len(), checked.steps), (2, 1));

    // One that nothing reads may be missing.
    let mut k = Bench::new();
    k.b.computed_constant("unused", DType::F32, &[2]);
    k.end(k.x);
    k.accepted();

    // Temps and values of the init chain are gone when main starts.
    let mut k = Bench::new();
    let (w, init) = (k.b.constant("w", DType::F32, &[2], vec![0; 8]), k.b.init());
    k.unary(init, w, k.t);
    k.end(k.t);
    k.refused("chain c0, i0 Exp, field x: slot t3 is read, and nothing wrote it before on every path");

    // Arguments are not there yet when init runs.
    let mut k = Bench::new();
    let init = k.b.init();
    k.unary(init, k.x, k.t);
    k.end(k.x);
    k.refused("chain c1, i1 Exp, field x: input slot t0 is not among the inputs");

    // Sizes: the bytes must be those of the shape, which must be fixed.
    let mut k = Bench::new();
    k.b.constant("w", DType::I64, &[2, 3], vec![0; 40]);
    k.end(k.x);
    k.refused("constant t0 \"w\": shape [2, 3] needs 48 bytes, the file has 40");
    let mut k = Bench::new();
    k.b.constant("w", DType::F32, &[2], vec![0; 9]);
    k.end(k.x);
    k.refused("constant t0 \"w\": shape [2] needs 8 bytes, the file has 9");
    let mut k = Bench::new();
    k.b.constant("w", DType::F32, &[2], vec![0; 8]);
    k.end(k.x);
    let named = k.b.container().unwrap().named;
    let mut g = k.b.graph().unwrap();
    let dims = g.tensors.dims.items_mut();
    dims[0] = DimBound { min: 1, max: Some(2) };
    let e = check(g, &named).unwrap_err();
    assert_eq!(e.to_string(), "constant t0 \"w\": its dimensions are not fixed");
}

#[test]
fn every_id_is_in_range() {
    let good = || {
        let mut k = Bench::new();
        k.unary(k.b.main(), k.x, k.t);
        k.end(k.t);
        k.b.graph().unwrap()
    };
    let check = |change: &dyn Fn(&mut Graph), expect: &str| {
        let mut g = good();
        change(&mut g);
        assert_eq!(check_graph(g).unwrap_err().to_string(), expect);
    };
    check(&|g| g.scalars.bits[0] = 4, "chain c0, i0 Exp, field x: slot t4 is out of range (4 slots)");
    check(&|g| g.scalars.bits[1] = 1 << 31, "chain c0, i0 Exp, field out: slot t2147483648 is out of range (4 slots)");
    let swap = |g: &mut Graph, o: Operand| {
        let mut one = lowtide::program::Scalars::default();
        one.push(o);
        (g.scalars.tag[0], g.scalars.bits[0]) = (one.tag[0], one.bits[0]);
    };
    check(&|g| swap(g, Operand::Value(Vid(9))), "chain c0, i0 Exp, field x: value v9 is out of range (1 values)");
    check(&|g| swap(g, Operand::Text(0)), "chain c0, i0 Exp, field x: no string 0");
    check(&|g| g.main = Chain(1), "the main chain is c1, but there are 1 chains");
    check(&|g| g.init = Some(Chain(7)), "the init chain is c7, but there are 1 chains");
    check(&|g| g.inputs[0] = Port::Tensor(Slot(8)), "input 0: slot t8 is out of range (4 slots)");
    check(&|g| g.inputs[0] = Port::Tensor(Slot(1)), "input 0: slot t1 is not an input slot");
    check(&|g| g.inputs.push(Port::Tensor(Slot(0))), "input 2: slot t0 is already another input");
    check(&|g| g.inputs[1] = Port::Int(Vid(1)), "input 1: value v1 is out of range (1 values)");
    check(&|g| g.outputs[0] = Port::Float(Vid(2)), "output 0: value v2 is out of range (1 values)");
    check(&|g| g.mutable.push(Slot(2)), "mutable buffer 0: slot t2 is not a mutable buffer slot");
    check(&|g| g.tensors.dtype[Slot(0)] = None, "input 0: the file does not describe slot t0");
    check(&|g| _ = g.inputs.remove(0), "chain c0, i0 Exp, field x: input slot t0 is not among the inputs");
    check_graph(good()).unwrap();
}

#[test]
fn ops_without_a_kernel_are_refused_where_they_can_run() {
    let mut k = Bench::new();
    k.end(k.x);
    let aside = k.b.chain();
    use fields::metal_kernel as f;
    let list = || Arg::Ints(Vec::new());
    let args = [
        (f::name, "k".into()),
        (f::source, "".into()),
        (f::inputs, [k.x].into()),
        (f::outputs, [k.t].into()),
        (f::grid, list()),
        (f::threadgroup, list()),
    ];
    k.b.push(aside, "MetalKernel", args.clone());
    // No chain names the one it is in.
    k.checked().unwrap();
    k.b.push(k.b.main(), "MetalKernel", args);
    let e = k.checked().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert_eq!(
        e.to_string(),
        "chain c0, i1 MetalKernel: no kernel is written for the Metal kernel \"k\"; its source is not compiled"
    );
}

#[test]
fn calls_pass_what_the_graph_takes() {
    let mut k = Bench::new();
    k.end(k.x);
    let c = k.b.container().unwrap();
    let values = &c.methods[0].values;
    let MethodCall::Delegate { args, .. } = &c.methods[0].calls[0] else { panic!() };
    let g = k.b.graph().unwrap();
    check_call(&g, values, args).unwrap();
    let check = |args: &[usize], expect: &str| {
        let e = check_call(&g, values, args).unwrap_err().to_string();
        assert!(e.starts_with(expect), "{e}");
    };
    check(&args[1..], "the call passes 2 values; the delegate has 2 inputs and 1 outputs");
    check(&[1, 1, 2], "input 0: the delegate has a tensor of f32 with 2 dimensions, the method passes Int(0)");
    check(&[0, 0, 2], "input 1: the delegate has an integer, the method passes Tensor");
    check(&[0, 1, 9], "output 0: value 9 is out of range");
}
