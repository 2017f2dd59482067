//! Tables with their indexes, and what a unit has changed on top of them.
//!
//! **Invariant:** an index is written by [`Table::put`] and [`Table::remove`] alone, so it cannot drift from its rows.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::ops::Bound;

/// A row of a table: its primary key, and how it stands in the table's secondary indexes.
pub(super) trait Row: Clone {
    /// The primary key.
    type Key: Ord + Clone;
    /// The secondary indexes of its table.
    type Index: Default;

    fn key(&self) -> Self::Key;

    fn enter(&self, _index: &mut Self::Index) {}

    fn leave(&self, _index: &mut Self::Index) {}
}

/// Rows by primary key, and their indexes.
pub(super) struct Table<R: Row> {
    rows: BTreeMap<R::Key, R>,
    /// For reading; see the module's invariant.
    pub(super) index: R::Index,
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Table { rows: BTreeMap::new(), index: R::Index::default() }
    }
}

impl<R: Row> Table<R> {
    pub(super) fn get(&self, key: &R::Key) -> Option<&R> {
        self.rows.get(key)
    }

    pub(super) fn rows(&self) -> &BTreeMap<R::Key, R> {
        &self.rows
    }

    pub(super) fn put(&mut self, row: R) {
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

    pub(super) fn remove(&mut self, key: &R::Key) {
        if let Some(old) = self.rows.remove(key) {
            old.leave(&mut self.index);
        }
    }
}

/// What a unit has written to a table and not committed. Most units write to few tables: one that is left alone costs
/// nothing.
pub(super) struct Overlay<R: Row>(Option<Box<Written<R>>>);

/// The rows of an [`Overlay`].
struct Written<R: Row> {
    table: Table<R>,
    removed: BTreeSet<R::Key>,
}

impl<R: Row> Default for Overlay<R> {
    fn default() -> Self {
        Overlay(None)
    }
}

impl<R: Row> Default for Written<R> {
    fn default() -> Self {
        Written { table: Table::default(), removed: BTreeSet::new() }
    }
}

impl<R: Row> Overlay<R> {
    pub(super) fn put(&mut self, row: R) {
        let written = self.0.get_or_insert_default();
        written.removed.remove(&row.key());
        written.table.put(row);
    }

    pub(super) fn remove(&mut self, key: &R::Key) {
        let written = self.0.get_or_insert_default();
        written.table.remove(key);
        written.removed.insert(key.clone());
    }

    pub(super) fn apply(self, table: &mut Table<R>) {
        let Some(written) = self.0 else { return };
        for key in &written.removed {
            table.remove(key);
        }
        for row in written.table.rows.into_values() {
            table.put(row);
        }
    }
}

impl<R: Row> Written<R> {
    fn hides(&self, key: &R::Key) -> bool {
        self.table.rows.contains_key(key) || self.removed.contains(key)
    }
}

/// A table as a statement sees it: the latest committed rows under the unit's own.
pub(super) struct Merged<'a, R: Row> {
    committed: &'a Table<R>,
    own: Option<&'a Written<R>>,
}

impl<R: Row> Clone for Merged<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: Row> Copy for Merged<'_, R> {}

impl<'a, R: Row> Merged<'a, R> {
    pub(super) fn new(committed: &'a Table<R>, own: &'a Overlay<R>) -> Self {
        Merged { committed, own: own.0.as_deref() }
    }

    pub(super) fn get(self, key: &R::Key) -> Option<&'a R> {
        match self.own {
            None => self.committed.get(key),
            Some(own) => {
                own.table.get(key).or_else(|| self.committed.get(key).filter(|_| !own.removed.contains(key)))
            }
        }
    }

    /// Rows that `pick` finds by an index, in its order: it yields pairs of sort key and row, ascending.
    ///
    /// Each committed row that the unit has changed is left out, so that it is found as the unit left it or not at all.
    pub(super) fn select<T: Ord, I: Iterator<Item = (T, &'a R)>>(
        self,
        pick: impl Fn(&'a Table<R>) -> I,
    ) -> impl Iterator<Item = &'a R> {
        let own = self.own;
        let is_as_committed = move |row: &R| own.is_none_or(|own| !own.hides(&row.key()));
        let committed = pick(self.committed).filter(move |(_, row)| is_as_committed(row));
        let written = own.map(|own| pick(&own.table)).into_iter().flatten();
        InOrder { left: committed.peekable(), right: written.peekable() }
    }

    /// As [`Merged::select`], for all rows in the order of their keys.
    pub(super) fn all(self) -> impl Iterator<Item = &'a R> {
        self.select(|table| table.rows.iter())
    }
}

/// The members of a set below a bound, greatest first: what a page shows.
pub(super) fn below<T: Ord + Copy>(set: &BTreeSet<T>, before: Option<T>) -> impl Iterator<Item = &T> {
    set.range((Bound::Unbounded, before.map_or(Bound::Unbounded, Bound::Excluded))).rev()
}

/// The numbered rows of a table below a bound, greatest number first: what a page shows.
pub(super) fn rows_below<R: Row<Key = i64>>(
    table: &Table<R>,
    before: Option<i64>,
) -> impl Iterator<Item = (i64, &R)> {
    let upper = before.map_or(Bound::Unbounded, Bound::Excluded);
    table.rows.range((Bound::Unbounded, upper)).rev().map(|(id, row)| (*id, row))
}

/// Two ascending iterators as one.
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
