//! The building blocks of every table: typed dense ids, typed columns, compressed rows and bit rows.
//!
//! A table is a plain struct of columns. A column is indexed by one id type only, so an index of
//! another kind does not compile.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};

use bitvec::slice::BitSlice;
use bitvec::vec::BitVec;

/// A dense 32-bit row number of one kind of table.
pub trait Id: Copy + Eq + Ord + fmt::Debug + fmt::Display {
    /// The id of row `index`.
    ///
    /// # Panics
    /// When `index` does not fit 32 bits; the limits in [`crate::limits`] keep every table far smaller.
    fn new(index: usize) -> Self;
    /// The row number.
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $letter:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl Id for $name {
            fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("table larger than 2^32 rows"))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

ids! {
    /// A tensor slot of the file (wire: `Tid`).
    Slot = "t";
    /// A host scalar of the file (wire: `Vid`).
    Vid = "v";
    /// An instruction, numbered over all chains of a graph.
    Inst = "i";
    /// A chain of instructions.
    Chain = "c";
    /// A point on the one timeline made from the chains.
    Step = "s";
    /// The stretch in which one value of a slot is needed.
    Life = "l";
    /// A compiled kernel variant.
    Pipe = "p";
}

/// A column: values indexed by one id type.
#[derive(Clone, PartialEq)]
pub struct Col<K, T> {
    items: Vec<T>,
    key: PhantomData<fn(K)>,
}

impl<K, T> Default for Col<K, T> {
    fn default() -> Self {
        Self { items: Vec::new(), key: PhantomData }
    }
}

impl<K: Id, T> Col<K, T> {
    /// A column of `rows` copies of `value`.
    pub fn filled(value: T, rows: usize) -> Self
    where
        T: Clone,
    {
        Self { items: vec![value; rows], key: PhantomData }
    }
    /// Appends a row and returns its id.
    pub fn push(&mut self, value: T) -> K {
        let id = K::new(self.items.len());
        self.items.push(value);
        id
    }
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether the column has no rows.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The row, if `id` is in range.
    pub fn get(&self, id: K) -> Option<&T> {
        self.items.get(id.index())
    }
    /// Rows with their ids, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(i, v)| (K::new(i), v))
    }
    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator + use<K, T> {
        (0..self.items.len()).map(K::new)
    }
    /// The rows as a slice.
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }
    /// The rows as a mutable slice.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.items
    }
}

impl<K, T> From<Vec<T>> for Col<K, T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, key: PhantomData }
    }
}
impl<K: Id, T> Index<K> for Col<K, T> {
    type Output = T;
    fn index(&self, id: K) -> &T {
        &self.items[id.index()]
    }
}
impl<K: Id, T> IndexMut<K> for Col<K, T> {
    fn index_mut(&mut self, id: K) -> &mut T {
        &mut self.items[id.index()]
    }
}
impl<K: Id, T: fmt::Debug> fmt::Debug for Col<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Compressed rows: for each key a run of items, stored end to end.
#[derive(Clone, PartialEq)]
pub struct Csr<K, T> {
    starts: Vec<u32>,
    items: Vec<T>,
    key: PhantomData<fn(K)>,
}

impl<K, T> Default for Csr<K, T> {
    fn default() -> Self {
        Self { starts: vec![0], items: Vec::new(), key: PhantomData }
    }
}

impl<K: Id, T> Csr<K, T> {
    /// Appends one item to the row that is being built.
    pub fn push(&mut self, item: T) {
        self.items.push(item);
    }
    /// Ends the row that is being built and returns its id.
    pub fn end_row(&mut self) -> K {
        let id = K::new(self.starts.len() - 1);
        self.starts.push(u32::try_from(self.items.len()).expect("table larger than 2^32 items"));
        id
    }
    /// Groups `(key, item)` pairs into rows; items of a row keep their order.
    pub fn from_pairs(rows: usize, pairs: &[(K, T)]) -> Self
    where
        T: Copy + Default,
    {
        let mut starts = vec![0u32; rows + 1];
        for (k, _) in pairs {
            starts[k.index() + 1] += 1;
        }
        for i in 0..rows {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut items = vec![T::default(); pairs.len()];
        for (k, item) in pairs {
            let at = &mut next[k.index()];
            items[*at as usize] = *item;
            *at += 1;
        }
        Self { starts, items, key: PhantomData }
    }
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }
    /// Where the row's items lie among all items.
    pub fn range(&self, row: K) -> Range<usize> {
        self.starts[row.index()] as usize..self.starts[row.index() + 1] as usize
    }
    /// All items of all rows.
    pub fn items(&self) -> &[T] {
        &self.items
    }
    /// All items of all rows, mutable.
    pub fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
    /// Bytes the table occupies.
    pub fn bytes(&self) -> usize {
        self.starts.len() * 4 + self.items.len() * size_of::<T>()
    }
}

impl<K: Id, T> Index<K> for Csr<K, T> {
    type Output = [T];
    fn index(&self, row: K) -> &[T] {
        &self.items[self.range(row)]
    }
}
impl<K: Id, T: fmt::Debug> fmt::Debug for Csr<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries((0..self.rows()).map(|r| (K::new(r), &self[K::new(r)]))).finish()
    }
}

/// A bit matrix: one bit per (row, column) pair.
#[derive(Clone, PartialEq, Eq)]
pub struct BitRows<R, C> {
    bits: BitVec,
    cols: usize,
    key: PhantomData<fn(R, C)>,
}

impl<R: Id, C: Id> BitRows<R, C> {
    /// A matrix of zeros.
    pub fn new(rows: usize, cols: usize) -> Self {
        Self { bits: BitVec::repeat(false, rows * cols), cols, key: PhantomData }
    }
    /// One row.
    pub fn row(&self, r: R) -> &BitSlice {
        &self.bits[r.index() * self.cols..(r.index() + 1) * self.cols]
    }
    /// One row, mutable.
    pub fn row_mut(&mut self, r: R) -> &mut BitSlice {
        &mut self.bits[r.index() * self.cols..(r.index() + 1) * self.cols]
    }
    /// One bit.
    pub fn get(&self, r: R, c: C) -> bool {
        self.bits[r.index() * self.cols + c.index()]
    }
    /// Sets one bit.
    pub fn set(&mut self, r: R, c: C) {
        self.bits.set(r.index() * self.cols + c.index(), true);
    }
    /// Adds every bit of `other`'s row `from` to row `to`.
    pub fn union_from(&mut self, to: R, other: &Self, from: R) {
        let (start, end) = (to.index() * self.cols, (to.index() + 1) * self.cols);
        self.bits[start..end] |= other.row(from);
    }
    /// Bytes the table occupies.
    pub fn bytes(&self) -> usize {
        self.bits.len().div_ceil(8)
    }
    /// The columns set in row `r`, ascending.
    pub fn ones(&self, r: R) -> impl Iterator<Item = C> + '_ {
        self.row(r).iter_ones().map(C::new)
    }
}

impl<R: Id, C: Id> fmt::Debug for BitRows<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.bits.len().checked_div(self.cols).unwrap_or(0);
        f.debug_map().entries((0..rows).map(|r| (R::new(r), self.ones(R::new(r)).collect::<Vec<_>>()))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_with_their_letter() {
        assert_eq!(format!("{} {:?} {} {} {}", Slot(7), Inst(12), Chain(2), Step(40), Life(9)), "t7 i12 c2 s40 l9");
    }

    #[test]
    fn csr_groups_pairs_in_order() {
        let t: Csr<Step, u32> = Csr::from_pairs(3, &[(Step(2), 5), (Step(0), 1), (Step(2), 6)]);
        assert_eq!((&t[Step(0)], &t[Step(1)], &t[Step(2)]), (&[1][..], &[][..], &[5, 6][..]));
    }

    #[test]
    fn bit_rows_union_and_iterate() {
        let mut a: BitRows<Chain, Slot> = BitRows::new(2, 70);
        a.set(Chain(0), Slot(69));
        let b = a.clone();
        a.set(Chain(1), Slot(3));
        a.union_from(Chain(1), &b, Chain(0));
        assert_eq!(a.ones(Chain(1)).collect::<Vec<_>>(), [Slot(3), Slot(69)]);
        assert!(a.get(Chain(0), Slot(69)) && !a.get(Chain(0), Slot(3)));
    }
}
