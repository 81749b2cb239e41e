//! Every limit on what a file or a request may ask for, in one place, each with its reason.

/// Highest tensor rank. The kernels' parameter blocks hold eight dimensions; the delegate's programs use up to six.
pub const MAX_RANK: usize = 8;
/// Instructions of one graph, over all chains. Real programs have thousands.
pub const MAX_INSTRUCTIONS: usize = 1_000_000;
/// Chains of one graph. A real program has a few per IF and SCAN.
pub const MAX_CHAINS: usize = 4096;
/// Steps of the timeline after nested chains are put in place. Bounds the blow-up of a chain that many others name.
pub const MAX_STEPS: usize = 2_000_000;
/// Operands of the instructions on the timeline, counted as steps are.
pub const MAX_STEP_OPERANDS: usize = 32_000_000;
/// Depth of IF and SCAN nesting. The passes recurse no deeper than this.
pub const MAX_DEPTH: usize = 64;
/// Tensor slots of one graph. Old plans have one per instruction.
pub const MAX_SLOTS: usize = 1_000_000;
/// Host scalars of one graph.
pub const MAX_VALUES: usize = 1_000_000;
/// Bits of a table with one row per chain and per instruction that names chains, and one column per slot: 128 MiB.
pub const MAX_EFFECT_BITS: usize = 1 << 30;
/// Elements of one list field (shapes, axes, tensors of a concatenation).
pub const MAX_LIST: usize = 65_536;
/// Bytes of one string field; Metal kernel sources are the longest seen (tens of kilobytes).
pub const MAX_STRING: usize = 4 << 20;
/// Methods of one program.
pub const MAX_METHODS: usize = 1024;
/// Values of one execution plan.
pub const MAX_PLAN_VALUES: usize = 1_000_000;
/// Named data entries and segments of one program.
pub const MAX_NAMED_DATA: usize = 1_000_000;
/// Bytes of one tensor: element offsets inside kernels are 32-bit, and so are byte offsets of packed words times four.
pub const MAX_TENSOR_BYTES: u64 = 1 << 34;
/// Tables that a flatbuffer verifier may visit.
pub const MAX_TABLES: usize = 64_000_000;
/// Depth of tables that a flatbuffer verifier may visit. The deepest path of both formats has six.
pub const MAX_TABLE_DEPTH: usize = 32;
/// Bytes that a flatbuffer may seem to hold, in multiples of its length, when every reference is counted as a copy.
/// Real files stay under three; one that passes this refers to the same tables or strings very often.
pub const MAX_APPARENT_RATIO: usize = 8;
/// Bytes of all delegates' payloads, in multiples of the file's length: methods may share a payload, each is decoded.
pub const MAX_PAYLOAD_RATIO: usize = 8;
/// The same, absolutely: columns of the tables that loading fills are indexed by 32 bits.
pub const MAX_APPARENT: u64 = 1 << 33;
