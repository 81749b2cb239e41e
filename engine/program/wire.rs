//! Flatbuffers read by description: a [`Shape`] says which fields of a table are read and what they
//! are; [`verify`] walks everything reachable through shapes with the flatbuffers verifier; a
//! [`Node`] then reads fields by slot. A field that no shape describes is never looked at.
//!
//! Every read of a [`Node`] is still checked against the buffer: the bytes may be a mapped file that
//! somebody else writes to, and a changed byte must at worst give a wrong number, never a bad access.

use std::ops::Range;

use flatbuffers::{InvalidFlatbuffer, Verifiable, Verifier, VerifierOptions};

use crate::error::{Error, Result};
use crate::limits::{MAX_APPARENT, MAX_APPARENT_RATIO, MAX_TABLE_DEPTH, MAX_TABLES};
use crate::op::{FieldKind, Op};

/// The fields of one kind of table.
pub(crate) struct Shape {
    /// The wire name.
    pub(crate) name: &'static str,
    /// Those that are read.
    pub(crate) fields: &'static [Part],
}

/// One field of a [`Shape`].
pub(crate) struct Part {
    /// Its place in the vtable.
    pub(crate) slot: u8,
    /// The wire name.
    pub(crate) name: &'static str,
    /// What is there.
    pub(crate) kind: Kind,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A number or a struct of this many bytes.
    Scalar(u8),
    /// A vector of such.
    List(u8),
    /// A UTF-8 string.
    Text,
    /// A vector of strings.
    Texts,
    /// A table.
    Table(&'static Shape),
    /// A vector of tables.
    Tables(&'static Shape),
    /// The tag of a union, whose table is in the next slot; tags count from 1.
    Union(&'static [&'static Shape]),
    /// As `Union`, with the rows of the op table as members. An unknown tag is left to the reader.
    Op,
}

impl Kind {
    /// What a field of an op holds.
    pub(crate) const fn of(kind: FieldKind) -> Self {
        use super::facts::{FLOAT_OR_VID, INT_OR_VID, INT_OR_VID_OR_TID, VID_OR_TID};
        match kind {
            FieldKind::Tid | FieldKind::Vid | FieldKind::I32 | FieldKind::U32 | FieldKind::F32 => Self::Scalar(4),
            FieldKind::I8 | FieldKind::Bool => Self::Scalar(1),
            FieldKind::U64 => Self::Scalar(8),
            FieldKind::Tids | FieldKind::I32s => Self::List(4),
            FieldKind::I8s => Self::List(1),
            FieldKind::Str => Self::Text,
            FieldKind::Strs => Self::Texts,
            FieldKind::IntOrVid => Self::Table(&INT_OR_VID),
            FieldKind::IntsOrVids => Self::Tables(&INT_OR_VID),
            FieldKind::FloatOrVid => Self::Table(&FLOAT_OR_VID),
            FieldKind::VidOrTid => Self::Table(&VID_OR_TID),
            FieldKind::IntOrVidOrTid => Self::Table(&INT_OR_VID_OR_TID),
        }
    }
}

/// Defines shapes and, per shape, a module with the slots of its fields.
macro_rules! shapes {
    ($($name:ident $table:ident $module:ident { $($slot:literal $field:ident: $kind:expr),* $(,)? })*) => {$(
        pub(crate) static $name: $crate::program::wire::Shape = $crate::program::wire::Shape {
            name: stringify!($table),
            fields: &[$($crate::program::wire::Part { slot: $slot, name: stringify!($field), kind: $kind }),*],
        };
        #[allow(non_upper_case_globals, dead_code)]
        pub(crate) mod $module {
            $(pub(crate) const $field: u8 = $slot;)*
        }
    )*};
}
pub(crate) use shapes;

/// Checks that everything `root` describes lies inside `buf`, and returns the root table.
pub(crate) fn verify<'a>(buf: &'a [u8], root: &'static Shape) -> Result<Node<'a>> {
    // Shared vtables and strings are counted at every visit, so the apparent size of an honest file
    // is a few times its length. The bound keeps a small file from unfolding into a large one.
    let apparent = buf.len().saturating_mul(MAX_APPARENT_RATIO).saturating_add(1 << 16);
    let opts = VerifierOptions {
        max_depth: MAX_TABLE_DEPTH,
        max_tables: MAX_TABLES,
        max_apparent_size: usize::try_from(MAX_APPARENT).unwrap_or(usize::MAX / 2).min(apparent),
        ignore_missing_null_terminator: true,
    };
    let mut v = Verifier::new(&opts, buf);
    let at = follow(&mut v, 0).map_err(|e| e.at(root.name))?;
    table(&mut v, at, parts(root)).map_err(|e| e.at(root.name))?;
    Node::new(buf, at).ok_or_else(|| Error::malformed("the root table lies outside the buffer").at(root.name))
}

fn broken(e: InvalidFlatbuffer) -> Error {
    match e {
        InvalidFlatbuffer::TooManyTables | InvalidFlatbuffer::ApparentSizeTooLarge => {
            Error::limit("the file refers to the same tables too often")
        }
        InvalidFlatbuffer::DepthLimitReached => Error::limit(format!("tables nest deeper than {MAX_TABLE_DEPTH}")),
        // The crate's message ends in a trace with line breaks; our places replace it.
        e => Error::malformed(e.to_string().lines().next().unwrap_or_default().trim_end_matches('.')),
    }
}

type Field = (u8, &'static str, Kind);

fn parts(shape: &'static Shape) -> impl Iterator<Item = Field> {
    shape.fields.iter().map(|p| (p.slot, p.name, p.kind))
}

fn op_parts(op: Op) -> impl Iterator<Item = Field> {
    op.row().fields.iter().enumerate().map(|(i, f)| (i as u8, f.name, Kind::of(f.kind)))
}

fn voffset(slot: u8) -> u16 {
    4 + 2 * u16::from(slot)
}

fn follow(v: &mut Verifier<'_, '_>, at: usize) -> Result<usize> {
    Ok(at.saturating_add(v.get_uoffset(at).map_err(broken)? as usize))
}

fn table(v: &mut Verifier<'_, '_>, at: usize, fields: impl Iterator<Item = Field>) -> Result<()> {
    let mut t = v.visit_table(at).map_err(broken)?;
    for (slot, name, kind) in fields {
        let Some(here) = t.deref(voffset(slot)).map_err(broken)? else { continue };
        let checked = match kind {
            Kind::Union(_) | Kind::Op => match t.deref(voffset(slot + 1)).map_err(broken)? {
                Some(value) => union(t.verifier(), here, value, kind),
                None => t.verifier().get_u8(here).map(|_| ()).map_err(broken),
            },
            _ => field(t.verifier(), here, kind),
        };
        checked.map_err(|e| e.at(name))?;
    }
    t.finish();
    Ok(())
}

fn union(v: &mut Verifier<'_, '_>, tag: usize, value: usize, kind: Kind) -> Result<()> {
    let tag = v.get_u8(tag).map_err(broken)?;
    match kind {
        Kind::Op => match Op::from_tag(tag) {
            Some(op) => {
                let at = follow(v, value)?;
                table(v, at, op_parts(op)).map_err(|e| e.at(op))
            }
            None => Ok(()),
        },
        Kind::Union(members) => {
            let member = usize::from(tag).checked_sub(1).and_then(|i| members.get(i)).copied();
            let shape = member.ok_or_else(|| Error::malformed(format!("unknown union tag {tag}")))?;
            let at = follow(v, value)?;
            table(v, at, parts(shape)).map_err(|e| e.at(shape.name))
        }
        _ => Ok(()),
    }
}

fn field(v: &mut Verifier<'_, '_>, at: usize, kind: Kind) -> Result<()> {
    match kind {
        Kind::Scalar(size) => scalars(v, at, 1, size),
        Kind::List(size) => {
            let at = follow(v, at)?;
            let count = v.get_uoffset(at).map_err(broken)? as usize;
            scalars(v, at.saturating_add(4), count, size)
        }
        Kind::Text => {
            let at = follow(v, at)?;
            <&str as Verifiable>::run_verifier(v, at).map_err(broken)
        }
        Kind::Texts => each(v, at, |v, at| <&str as Verifiable>::run_verifier(v, at).map_err(broken)),
        Kind::Table(shape) => {
            let at = follow(v, at)?;
            table(v, at, parts(shape))
        }
        Kind::Tables(shape) => each(v, at, |v, at| table(v, at, parts(shape))),
        Kind::Union(_) | Kind::Op => Ok(()),
    }
}

/// Checks `count` numbers of `size` bytes at `at`.
fn scalars(v: &mut Verifier<'_, '_>, at: usize, count: usize, size: u8) -> Result<()> {
    match size {
        1 => Ok(()),
        4 => v.is_aligned::<u32>(at),
        _ => v.is_aligned::<u64>(at),
    }
    .map_err(broken)?;
    v.range_in_buffer(at, count.saturating_mul(usize::from(size))).map_err(broken)
}

/// Checks every element of the vector of offsets that `at` refers to.
fn each(v: &mut Verifier<'_, '_>, at: usize, item: impl Fn(&mut Verifier<'_, '_>, usize) -> Result<()>) -> Result<()> {
    let at = follow(v, at)?;
    let count = v.get_uoffset(at).map_err(broken)? as usize;
    let start = at.saturating_add(4);
    scalars(v, start, count, 4)?;
    for i in 0..count {
        let there = follow(v, start + 4 * i)?;
        item(v, there).map_err(|e| e.at(format!("[{i}]")))?;
    }
    Ok(())
}

/// A number as flatbuffers store it.
pub(crate) trait Number: Sized {
    /// Reads one at `at`.
    fn read(buf: &[u8], at: usize) -> Option<Self>;
    /// Its size.
    const BYTES: usize = size_of::<Self>();
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            fn read(buf: &[u8], at: usize) -> Option<Self> {
                let bytes = buf.get(at..at.checked_add(size_of::<Self>())?)?;
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}
numbers! { u8 i8 u16 i32 u32 i64 u64 f32 f64 }

/// A verified table.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    buf: &'a [u8],
    at: usize,
    vtable: usize,
    vtable_len: usize,
}

impl<'a> Node<'a> {
    fn new(buf: &'a [u8], at: usize) -> Option<Self> {
        let back = i32::read(buf, at)?;
        let vtable = usize::try_from(i64::try_from(at).ok()?.checked_sub(i64::from(back))?).ok()?;
        Some(Self { buf, at, vtable, vtable_len: u16::read(buf, vtable)?.into() })
    }
    fn field(self, slot: u8) -> Option<usize> {
        let entry = usize::from(voffset(slot));
        if entry + 2 > self.vtable_len {
            return None;
        }
        match u16::read(self.buf, self.vtable.checked_add(entry)?)? {
            0 => None,
            offset => self.at.checked_add(offset.into()),
        }
    }
    fn target(self, at: usize) -> Option<usize> {
        at.checked_add(u32::read(self.buf, at)? as usize)
    }
    /// Where the elements of a vector start, and how many there are.
    fn vector(self, slot: u8) -> Option<(usize, usize)> {
        let at = self.target(self.field(slot)?)?;
        Some((at.checked_add(4)?, u32::read(self.buf, at)? as usize))
    }
    fn text_at(self, at: usize) -> Option<&'a str> {
        let start = at.checked_add(4)?;
        let end = start.checked_add(u32::read(self.buf, at)? as usize)?;
        std::str::from_utf8(self.buf.get(start..end)?).ok()
    }
    /// Whether a field is present.
    pub(crate) fn has(self, slot: u8) -> bool {
        self.field(slot).is_some()
    }
    /// A number; `None` where absent.
    pub(crate) fn get<T: Number>(self, slot: u8) -> Option<T> {
        T::read(self.buf, self.field(slot)?)
    }
    /// A bool, false where absent.
    pub(crate) fn flag(self, slot: u8) -> bool {
        self.get::<u8>(slot).is_some_and(|b| b != 0)
    }
    /// A string.
    pub(crate) fn text(self, slot: u8) -> Option<&'a str> {
        self.text_at(self.target(self.field(slot)?)?)
    }
    /// A table.
    pub(crate) fn node(self, slot: u8) -> Option<Self> {
        Self::new(self.buf, self.target(self.field(slot)?)?)
    }
    /// Number of elements of a vector; 0 where absent.
    pub(crate) fn len(self, slot: u8) -> usize {
        self.vector(slot).map_or(0, |(_, count)| count)
    }
    /// The numbers of a vector.
    pub(crate) fn list<T: Number>(self, slot: u8) -> impl Iterator<Item = T> + use<'a, T> {
        let (start, count) = self.vector(slot).unwrap_or((0, 0));
        (0..count).map_while(move |i| T::read(self.buf, start.checked_add(i.checked_mul(T::BYTES)?)?))
    }
    /// Number `i` of a vector.
    pub(crate) fn number_at<T: Number>(self, slot: u8, i: usize) -> Option<T> {
        let (start, count) = self.vector(slot)?;
        T::read(self.buf, start.checked_add((i < count).then_some(i)?.checked_mul(T::BYTES)?)?)
    }
    /// Table `i` of a vector.
    pub(crate) fn node_at(self, slot: u8, i: usize) -> Option<Self> {
        let (start, count) = self.vector(slot)?;
        Self::new(self.buf, self.target(start.checked_add((i < count).then_some(i)?.checked_mul(4)?)?)?)
    }
    fn targets(self, slot: u8) -> impl Iterator<Item = usize> + use<'a> {
        let (start, count) = self.vector(slot).unwrap_or((0, 0));
        (0..count).map_while(move |i| self.target(start.checked_add(i.checked_mul(4)?)?))
    }
    /// The tables of a vector.
    pub(crate) fn nodes(self, slot: u8) -> impl Iterator<Item = Self> + use<'a> {
        self.targets(slot).map_while(move |at| Self::new(self.buf, at))
    }
    /// The strings of a vector.
    pub(crate) fn texts(self, slot: u8) -> impl Iterator<Item = &'a str> + use<'a> {
        self.targets(slot).map_while(move |at| self.text_at(at))
    }
    /// Where the bytes of a byte vector lie in the buffer.
    pub(crate) fn bytes(self, slot: u8) -> Option<Range<usize>> {
        let (start, count) = self.vector(slot)?;
        Some(start..start.checked_add(count)?)
    }
}
