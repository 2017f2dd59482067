//! Tables with their indexes, and what a unit has changed on top of them.
//!
//! **Invariant:** an index is written by [`Table::put`] and [`Table::remove`] alone, so it cannot drift from its rows.
//!
//! The parameter `X` is the struct of the tables ([`super::statement::Tables`]): it is local to the crate that implements
//! [`Row`] for a foreign type.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::ops::Bound;

/// A row of one of the tables `X`: its primary key, and its entries in the table's secondary indexes.
pub trait Row<X>: Clone {
    /// The primary key.
    type Key: Ord + Clone;
    /// The secondary indexes of its table.
    type Index: Default;

    /// Its primary key, which MUST NOT change while the row is in a table.
    fn key(&self) -> Self::Key;

    /// Adds its entries to the indexes.
    fn enter(&self, _index: &mut Self::Index) {}

    /// Removes the entries that [`Row::enter`] added.
    fn leave(&self, _index: &mut Self::Index) {}
}

/// Rows by primary key, and their indexes.
pub struct Table<R: Row<X>, X> {
    rows: BTreeMap<R::Key, R>,
    /// For reading; see the module's invariant.
    pub index: R::Index,
}

impl<R: Row<X>, X> Default for Table<R, X> {
    fn default() -> Self {
        Table { rows: BTreeMap::new(), index: R::Index::default() }
    }
}

impl<R: Row<X>, X> Table<R, X> {
    /// The row of a primary key.
    pub fn get(&self, key: &R::Key) -> Option<&R> {
        self.rows.get(key)
    }

    /// Every row by its primary key.
    pub fn rows(&self) -> &BTreeMap<R::Key, R> {
        &self.rows
    }

    /// Inserts a row, or replaces the one of its primary key.
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

    /// Deletes the row of a primary key, if there is one.
    pub fn remove(&mut self, key: &R::Key) {
        if let Some(old) = self.rows.remove(key) {
            old.leave(&mut self.index);
        }
    }
}

/// What a unit has written to a table and not committed. Most units write to few tables: one that is left alone costs
/// nothing.
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
    /// Inserts a row, or replaces the one of its primary key, once the unit commits.
    pub fn put(&mut self, row: R) {
        let written = self.0.get_or_insert_default();
        written.removed.remove(&row.key());
        written.table.put(row);
    }

    /// Deletes the row of a primary key, once the unit commits.
    pub fn remove(&mut self, key: &R::Key) {
        let written = self.0.get_or_insert_default();
        written.table.remove(key);
        written.removed.insert(key.clone());
    }

    /// Changes the committed table accordingly.
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

/// A table as a statement sees it: the latest committed rows under the unit's own.
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
    /// A committed table under what a unit has written to it.
    pub fn new(committed: &'a Table<R, X>, own: &'a Overlay<R, X>) -> Self {
        Merged { committed, own: own.0.as_deref() }
    }

    /// The row of a primary key.
    pub fn get(self, key: &R::Key) -> Option<&'a R> {
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

    /// As [`Merged::select`], for all rows in the order of their keys.
    pub fn all(self) -> impl Iterator<Item = &'a R> {
        self.select(|table| table.rows.iter())
    }
}

/// The members of a set below a bound, greatest first: what a page shows.
pub fn below<T: Ord + Copy>(set: &BTreeSet<T>, before: Option<T>) -> impl Iterator<Item = &T> {
    set.range((Bound::Unbounded, before.map_or(Bound::Unbounded, Bound::Excluded))).rev()
}

/// The numbered rows of a table below a bound, greatest number first: what a page shows.
pub fn rows_below<R: Row<X, Key = i64>, X>(
    table: &Table<R, X>,
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
