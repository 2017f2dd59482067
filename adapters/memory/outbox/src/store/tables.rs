//! Tables with their indexes, and overlays with the uncommitted changes of a unit of work.
//!
//! **Invariant:** only [`Table::put`] and [`Table::remove`] write an index, so it always matches the rows.
//!
//! The parameter `X` is the struct of the tables ([`super::statement::Tables`]). It is local to the crate that implements
//! [`Row`], so that a row can be a foreign type (orphan rule).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::ops::Bound;

/// A row of a table of `X`: its primary key, and its entries in the secondary indexes.
pub trait Row<X>: Clone {
    /// The primary key.
    type Key: Ord + Clone;
    /// The secondary indexes of the table.
    type Index: Default;

    /// Returns the primary key, which MUST NOT change while the row is in a table.
    fn key(&self) -> Self::Key;

    /// Adds the entries of the row to the indexes.
    fn enter(&self, _index: &mut Self::Index) {}

    /// Removes the entries of the row from the indexes. Entries that the next [`Row::enter`] overwrites may stay.
    fn leave(&self, _index: &mut Self::Index) {}
}

/// A table: rows by primary key, and its indexes.
pub struct Table<R: Row<X>, X> {
    rows: BTreeMap<R::Key, R>,
    /// The indexes. MUST NOT be changed directly; see the invariant of the module.
    pub index: R::Index,
}

impl<R: Row<X>, X> Default for Table<R, X> {
    fn default() -> Self {
        Table { rows: BTreeMap::new(), index: R::Index::default() }
    }
}

impl<R: Row<X>, X> Table<R, X> {
    /// Returns the row with this primary key.
    pub fn get(&self, key: &R::Key) -> Option<&R> {
        self.rows.get(key)
    }

    /// Returns all rows, by primary key.
    pub fn rows(&self) -> &BTreeMap<R::Key, R> {
        &self.rows
    }

    /// Inserts a row, or replaces the row with the same primary key.
    pub fn put(&mut self, row: R) {
        match self.rows.entry(row.key()) {
            Entry::Occupied(mut entry) => {
                entry.get().leave(&mut self.index);
                row.enter(&mut self.index);
                entry.insert(row);
            }
            Entry::Vacant(entry) => {
                row.enter(&mut self.index);
                entry.insert(row);
            }
        }
    }

    /// Deletes the row with a primary key, if it exists.
    pub fn remove(&mut self, key: &R::Key) {
        if let Some(old) = self.rows.remove(key) {
            old.leave(&mut self.index);
        }
    }
}

/// Uncommitted changes of a unit of work to a table. Most units of work change few tables, so an empty overlay
/// allocates nothing.
pub struct Overlay<R: Row<X>, X>(Option<Box<Written<R, X>>>);

/// The rows of an [`Overlay`].
struct Written<R: Row<X>, X> {
    table: Table<R, X>,
    removed: BTreeSet<R::Key>,
}

impl<R: Row<X>, X> Default for Overlay<R, X> {
    fn default() -> Self {
        Overlay(None)
    }
}

impl<R: Row<X>, X> Default for Written<R, X> {
    fn default() -> Self {
        Written { table: Table::default(), removed: BTreeSet::new() }
    }
}

impl<R: Row<X>, X> Overlay<R, X> {
    /// Inserts a row, or replaces the row with the same primary key, when the unit of work commits.
    pub fn put(&mut self, row: R) {
        let written = self.0.get_or_insert_default();
        written.removed.remove(&row.key());
        written.table.put(row);
    }

    /// Deletes the row with a primary key when the unit of work commits.
    pub fn remove(&mut self, key: &R::Key) {
        let written = self.0.get_or_insert_default();
        written.table.remove(key);
        written.removed.insert(key.clone());
    }

    /// Applies the changes to the committed table.
    pub fn apply(self, table: &mut Table<R, X>) {
        let Some(written) = self.0 else { return };
        for key in &written.removed {
            table.remove(key);
        }
        for row in written.table.rows.into_values() {
            table.put(row);
        }
    }
}

impl<R: Row<X>, X> Written<R, X> {
    fn hides(&self, key: &R::Key) -> bool {
        self.table.rows.contains_key(key) || self.removed.contains(key)
    }
}

/// A table as seen by a statement: the latest committed rows overlaid with the changes of the unit of work.
pub struct Merged<'a, R: Row<X>, X> {
    committed: &'a Table<R, X>,
    own: Option<&'a Written<R, X>>,
}

impl<R: Row<X>, X> Clone for Merged<'_, R, X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Row<X>, X> Copy for Merged<'_, R, X> {}

impl<'a, R: Row<X>, X> Merged<'a, R, X> {
    /// Combines a committed table and an overlay.
    pub fn new(committed: &'a Table<R, X>, own: &'a Overlay<R, X>) -> Self {
        Merged { committed, own: own.0.as_deref() }
    }

    /// Returns the row with this primary key.
    pub fn get(self, key: &R::Key) -> Option<&'a R> {
        match self.own {
            None => self.committed.get(key),
            Some(own) => {
                own.table.get(key).or_else(|| self.committed.get(key).filter(|_| !own.removed.contains(key)))
            }
        }
    }

    /// Selects rows by an index. `pick` must yield pairs of sort key and row in ascending order of the key.
    ///
    /// A committed row that the unit of work has changed is skipped, so that only the changed version is found, if it
    /// matches.
    pub fn select<T: Ord, I: Iterator<Item = (T, &'a R)>>(
        self,
        pick: impl Fn(&'a Table<R, X>) -> I,
    ) -> impl Iterator<Item = &'a R> {
        let own = self.own;
        let is_as_committed = move |row: &R| own.is_none_or(|own| !own.hides(&row.key()));
        let committed = pick(self.committed).filter(move |(_, row)| is_as_committed(row));
        let written = own.map(|own| pick(&own.table)).into_iter().flatten();
        InOrder { left: committed.peekable(), right: written.peekable() }
    }

    /// Selects all rows in the order of their primary keys; see [`Merged::select`].
    pub fn all(self) -> impl Iterator<Item = &'a R> {
        self.select(|table| table.rows.iter())
    }
}

/// Converts a row limit to `usize`.
pub fn limited(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// The members of a set below a bound, in descending order, for pagination.
pub fn below<T: Ord + Copy>(set: &BTreeSet<T>, before: Option<T>) -> impl Iterator<Item = &T> {
    set.range((Bound::Unbounded, before.map_or(Bound::Unbounded, Bound::Excluded))).rev()
}

/// The rows with an id below a bound, in descending order of id, for pagination.
pub fn rows_below<R: Row<X, Key = i64>, X>(
    table: &Table<R, X>,
    before: Option<i64>,
) -> impl Iterator<Item = (i64, &R)> {
    let upper = before.map_or(Bound::Unbounded, Bound::Excluded);
    table.rows.range((Bound::Unbounded, upper)).rev().map(|(id, row)| (*id, row))
}

/// Merges two ascending iterators.
struct InOrder<A: Iterator, B: Iterator> {
    left: Peekable<A>,
    right: Peekable<B>,
}

impl<T: Ord, R, A: Iterator<Item = (T, R)>, B: Iterator<Item = (T, R)>> Iterator for InOrder<A, B> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        let left_first = match (self.left.peek(), self.right.peek()) {
            (Some(left), Some(right)) => left.0 <= right.0,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let next = if left_first { self.left.next() } else { self.right.next() };
        next.map(|(_, row)| row)
    }
}
