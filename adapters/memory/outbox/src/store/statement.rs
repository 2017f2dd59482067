//! What one statement sees and changes: the tables of the outbox, or those that an application adds.

use std::convert::Infallible;

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::Clock;

use crate::clock::moved;

/// Tables with all that belongs to them. An application's are made by [`tables!`](crate::tables).
///
/// `()` has no tables: the store keeps the outbox alone.
pub trait Tables: Default + Send + 'static {
    /// What a unit has changed in them.
    type Changes: Default + Send;
    /// What can be locked: rows, and the entries of unique keys.
    type Lock: Clone + Ord + Send;
    /// The last row ids given out. What a unit took and did not commit is never used.
    type Sequences: Default + Send;

    /// Makes a unit's changes committed ones. MUST NOT fail: the outbox's are committed with them.
    fn apply(&mut self, changes: Self::Changes);

    /// Every committed row as text, behind the name of its table.
    fn dump(&self) -> Vec<String>;
}

impl Tables for () {
    type Changes = ();
    type Lock = Infallible;
    type Sequences = ();

    fn apply(&mut self, (): ()) {}

    fn dump(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Makes [`Tables`]: their struct, the struct of a unit's changes, and a trait for [`Statement`] with a method for each
/// table that returns it as the statement sees it. Every row needs `Row` and `Debug`.
///
/// ```ignore
/// tables! {
///     /// Every table of the library, as committed.
///     pub struct Library { books: Book, loans: Loan }
///     pub struct LibraryChanges;
///     pub(crate) trait LibraryRows;
///     type Lock = LibraryLock;
///     type Sequences = LibrarySequences;
/// }
/// ```
#[macro_export]
macro_rules! tables {
    (
        $(#[$doc:meta])*
        $tables_vis:vis struct $tables:ident { $($name:ident: $row:ty),+ $(,)? }
        $changes_vis:vis struct $changes:ident;
        $seen_vis:vis trait $seen:ident;
        type Lock = $lock:ty;
        type Sequences = $sequences:ty;
    ) => {
        $(#[$doc])*
        #[derive(Default)]
        $tables_vis struct $tables {
            $(pub(crate) $name: $crate::store::tables::Table<$row, $tables>),+
        }

        /// Everything that a unit has changed.
        #[derive(Default)]
        $changes_vis struct $changes {
            $(pub(crate) $name: $crate::store::tables::Overlay<$row, $tables>),+
        }

        impl $crate::store::statement::Tables for $tables {
            type Changes = $changes;
            type Lock = $lock;
            type Sequences = $sequences;

            fn apply(&mut self, changes: $changes) {
                $(changes.$name.apply(&mut self.$name);)+
            }

            fn dump(&self) -> Vec<String> {
                let mut rows = Vec::new();
                $(rows.extend(self.$name.rows().values().map(|row| format!("{} {row:?}", stringify!($name))));)+
                rows
            }
        }

        /// The tables as a statement sees them.
        $seen_vis trait $seen {
            $(fn $name(&self) -> $crate::store::tables::Merged<'_, $row, $tables>;)+
        }

        impl $seen for $crate::store::statement::Statement<'_, $tables> {
            $(fn $name(&self) -> $crate::store::tables::Merged<'_, $row, $tables> {
                $crate::store::tables::Merged::new(&self.committed.$name, &self.own.$name)
            })+
        }
    };
}

/// Tables and their sequences: the outbox's half of the database, or the application's.
pub(super) struct Half<X: Tables> {
    pub(super) tables: X,
    sequences: X::Sequences,
}

impl<X: Tables> Half<X> {
    pub(super) fn of(tables: X) -> Half<X> {
        Half { tables, sequences: X::Sequences::default() }
    }
}

/// The next id of a sequence.
pub fn next(sequence: &mut i64) -> i64 {
    *sequence += 1;
    *sequence
}

/// One statement of one unit: the latest committed rows, and the unit's own on top.
pub struct Statement<'s, X: Tables> {
    /// The latest committed rows alone.
    pub committed: &'s X,
    /// What the unit has changed: a statement writes here.
    pub own: &'s mut X::Changes,
    /// The last row ids given out, to all units.
    pub sequences: &'s mut X::Sequences,
    clock: &'s dyn Clock,
    database_offset: TimeDelta,
}

impl<'s, X: Tables> Statement<'s, X> {
    pub(super) fn new(
        half: &'s mut Half<X>,
        own: &'s mut X::Changes,
        clock: &'s dyn Clock,
        database_offset: TimeDelta,
    ) -> Statement<'s, X> {
        Statement { committed: &half.tables, own, sequences: &mut half.sequences, clock, database_offset }
    }

    /// The database's own time.
    pub fn database_now(&self) -> DateTime<Utc> {
        moved(self.clock.now(), self.database_offset)
    }
}
