//! The op table: one row per wire op, the single place where an op is defined.
//!
//! A row names the op's wire tag, its fields in vtable order with kind, access, need and default, and
//! the kernel that runs it. Everything else (decoding, checking, liveness, documentation, tests)
//! walks rows.

mod table;

pub use table::*;

use crate::kernel::Kernel;
use std::fmt;

/// The position of a field in its op's row, which is also its flatbuffer vtable slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Field(pub u8);

/// The wire type of a field. A kind that carries a tensor slot must be taught to [`FieldKind::slots`],
/// which liveness depends on: the match there has no wildcard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldKind {
    /// A tensor slot.
    Tid,
    /// A list of tensor slots.
    Tids,
    /// A host scalar.
    Vid,
    /// An `i64` literal or a host scalar.
    IntOrVid,
    /// A list of `i64` literals or host scalars.
    IntsOrVids,
    /// An `f64` literal or a host scalar.
    FloatOrVid,
    /// A host scalar or a tensor slot.
    VidOrTid,
    /// An `i64` literal, a host scalar or a tensor slot.
    IntOrVidOrTid,
    /// `int8`.
    I8,
    /// `int32`.
    I32,
    /// `uint32`.
    U32,
    /// `uint64`.
    U64,
    /// `float`.
    F32,
    /// `bool`.
    Bool,
    /// A UTF-8 string.
    Str,
    /// A list of `int32`.
    I32s,
    /// A list of `int8`.
    I8s,
    /// A list of strings.
    Strs,
}

/// Whether a field of some kind can carry tensor slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slots {
    /// Never.
    No,
    /// Exactly one, unless the field is absent.
    One,
    /// Any number.
    Many,
    /// One, depending on the value's tag.
    Maybe,
}

impl FieldKind {
    /// Whether and how a field of this kind carries tensor slots.
    pub const fn slots(self) -> Slots {
        match self {
            Self::Tid => Slots::One,
            Self::Tids => Slots::Many,
            Self::VidOrTid | Self::IntOrVidOrTid => Slots::Maybe,
            Self::Vid
            | Self::IntOrVid
            | Self::IntsOrVids
            | Self::FloatOrVid
            | Self::I8
            | Self::I32
            | Self::U32
            | Self::U64
            | Self::F32
            | Self::Bool
            | Self::Str
            | Self::I32s
            | Self::I8s
            | Self::Strs => Slots::No,
        }
    }
}

/// What an instruction does to the slot that a field names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// Reads it.
    #[default]
    In,
    /// Writes it whole.
    Out,
    /// Reads it and writes it (the carry of a SCAN).
    InOut,
}

impl Access {
    /// Whether the old value is needed.
    pub const fn reads(self) -> bool {
        matches!(self, Self::In | Self::InOut)
    }
    /// Whether a new value is made.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Out | Self::InOut)
    }
}

/// Whether a file must give a field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Need {
    /// The file must give it.
    Required,
    /// Absent means absent.
    Optional,
    /// Absent means this value.
    Default(f64),
}

/// One field of an op's row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FieldRow {
    /// The wire name.
    pub name: &'static str,
    /// The wire type.
    pub kind: FieldKind,
    /// What happens to the slots it names.
    pub access: Access,
    /// Whether it must be given.
    pub need: Need,
}

/// One row of the op table.
pub struct OpRow {
    /// The wire union tag.
    pub tag: u8,
    /// The wire name without its `Node` suffix.
    pub name: &'static str,
    /// The name in the table's field modules and in shader functions (`op_<func>`).
    pub func: &'static str,
    /// Fields in vtable order.
    pub fields: &'static [FieldRow],
    /// What runs it. One that is not written yet refuses the program at load.
    pub kernel: &'static Kernel,
}

/// A wire op: an index into [`TABLE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op(u8);

impl Op {
    /// The op that iterates a chain over slices.
    pub const SCAN: Self = Self(124);
    /// The op that runs one of two chains.
    pub const IF: Self = Self(131);

    /// Every op, in tag order.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..TABLE.len()).map(|i| Self(i as u8))
    }
    /// The op of a wire union tag.
    pub fn from_tag(tag: u8) -> Option<Self> {
        // Tags count from 1 and upstream only appends, so the row is tag - 1 (a test holds this).
        let index = tag.checked_sub(1)?;
        ((index as usize) < TABLE.len()).then_some(Self(index))
    }
    /// The op of a wire name such as `"Slice"`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|op| op.row().name == name)
    }
    /// Its row.
    pub fn row(self) -> &'static OpRow {
        &TABLE[self.0 as usize]
    }
    /// Its wire union tag.
    pub fn tag(self) -> u8 {
        self.row().tag
    }
    /// Its wire name.
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Defines [`TABLE`] and, per op, a module of its fields' positions:
/// `tag Name module KERNEL { field: Kind Access Need, ... }`.
macro_rules! ops {
    ($($tag:literal $name:ident $module:ident $kernel:expr => {
        $($field:ident: $kind:ident $access:ident $need:ident $(= $default:literal)?),* $(,)?
    })*) => {
        /// One row per wire op, in tag order.
        pub static TABLE: &[$crate::op::OpRow] = &[$(
            $crate::op::OpRow {
                tag: $tag,
                name: stringify!($name),
                func: stringify!($module),
                fields: &[$($crate::op::FieldRow {
                    name: stringify!($field),
                    kind: $crate::op::FieldKind::$kind,
                    access: $crate::op::Access::$access,
                    need: $crate::op::Need::$need $(($default as f64))?,
                }),*],
                kernel: $kernel,
            },
        )*];
        /// Field positions of every op, by name: `fields::slice::axis`.
        pub mod fields {$(
            #[doc = concat!("Field positions of `", stringify!($name), "`.")]
            #[allow(non_upper_case_globals, missing_docs)]
            pub mod $module {
                #[allow(unused_imports)]
                use $crate::op::Field;
                $crate::op::field_positions!(0u8; $($field)*);
            }
        )*}
    };
}

/// Numbers fields from zero.
macro_rules! field_positions {
    ($at:expr;) => {};
    ($at:expr; $field:ident $($rest:ident)*) => {
        pub const $field: Field = Field($at);
        $crate::op::field_positions!($at + 1; $($rest)*);
    };
}

use {field_positions, ops};

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// The table written in the form of `schema/mlx_wire.tsv`.
    fn as_wire_facts() -> String {
        let mut text = String::new();
        for op in Op::all() {
            let row = op.row();
            if row.fields.is_empty() {
                writeln!(text, "{}\t{}\t\t\t\t\t", row.tag, row.name).unwrap();
            }
            for (slot, f) in row.fields.iter().enumerate() {
                let kind = match f.kind {
                    FieldKind::Tid => "Tid",
                    FieldKind::Tids => "[Tid]",
                    FieldKind::Vid => "Vid",
                    FieldKind::IntOrVid => "IntOrVid",
                    FieldKind::IntsOrVids => "[IntOrVid]",
                    FieldKind::FloatOrVid => "FloatOrVid",
                    FieldKind::VidOrTid => "VidOrTid",
                    FieldKind::IntOrVidOrTid => "IntOrVidOrTid",
                    FieldKind::I8 => "int8",
                    FieldKind::I32 => "int32",
                    FieldKind::U32 => "uint32",
                    FieldKind::U64 => "uint64",
                    FieldKind::F32 => "float",
                    FieldKind::Bool => "bool",
                    FieldKind::Str => "string",
                    FieldKind::I32s => "[int32]",
                    FieldKind::I8s => "[int8]",
                    FieldKind::Strs => "[string]",
                };
                let required = if f.need == Need::Required { "required" } else { "" };
                writeln!(
                    text,
                    "{}\t{}\t{slot}\t{}\t{kind}\t{}\t{required}",
                    row.tag,
                    row.name,
                    f.name,
                    default_text(f)
                )
                .unwrap();
            }
        }
        text
    }

    /// The wire facts leave a default empty where flatbuffers' own zero applies.
    fn default_text(f: &FieldRow) -> String {
        let scalar = matches!(
            f.kind,
            FieldKind::I8 | FieldKind::I32 | FieldKind::U32 | FieldKind::U64 | FieldKind::F32 | FieldKind::Bool
        );
        match f.need {
            Need::Required => String::new(),
            Need::Optional if scalar => "null".into(),
            Need::Optional => String::new(),
            Need::Default(v) if f.kind == FieldKind::Bool => if v != 0.0 { "true" } else { "false" }.into(),
            Need::Default(v) if f.kind == FieldKind::F32 => format!("{v:?}"),
            Need::Default(v) => format!("{v}"),
        }
    }

    #[test]
    fn rows_equal_the_wire_facts_field_by_field() {
        let facts = include_str!("../../schema/mlx_wire.tsv");
        let ours = as_wire_facts();
        let mut ours = ours.lines();
        let mut fields = 0;
        // Only the rows of ops carry a tag.
        for fact in facts.lines().skip(1).filter(|l| !l.starts_with('\t')) {
            let got = ours.next().expect("the table has fewer rows than the facts");
            let columns: Vec<&str> = fact.split('\t').collect();
            let implicit = columns[5].is_empty() && columns[6].is_empty();
            if implicit {
                // A scalar without a stated default: ours spells the implicit zero or absence out.
                let got: Vec<&str> = got.split('\t').collect();
                assert_eq!(got[..5], columns[..5]);
                assert!(matches!(got[5], "" | "0" | "0.0" | "false" | "null"), "{fact}: {got:?}");
            } else {
                assert_eq!(got, fact);
            }
            fields += 1;
        }
        assert_eq!(ours.next(), None, "the table has more rows than the facts");
        assert!(fields > 480, "only {fields} facts were compared");
    }

    #[test]
    fn tags_are_dense_from_one() {
        for (i, op) in Op::all().enumerate() {
            assert_eq!(op.tag() as usize, i + 1);
            assert_eq!(Op::from_tag(op.tag()), Some(op));
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
        assert_eq!(Op::all().len(), 136);
        assert_eq!((Op::SCAN.name(), Op::IF.name()), ("Scan", "If"));
        assert!(Op::from_tag(0).is_none() && Op::from_tag(137).is_none());
    }

    #[test]
    fn outputs_are_named_like_outputs() {
        for op in Op::all() {
            for f in op.row().fields {
                // A SCAN sets its `sliced` slots before each iteration.
                let output = matches!(f.name, "out" | "outs" | "outputs" | "sliced");
                assert_eq!(f.access == Access::Out, output, "{op} {}", f.name);
            }
        }
    }
}
