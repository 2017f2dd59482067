//! Statements on the tables of the outbox or of an application.

use std::convert::Infallible;

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::Clock;

use crate::clock::moved;

/// A set of tables with its changes, locks and sequences. An application defines its own with [`tables!`](crate::tables).
///
/// `()` has no tables: the store contains only the outbox.
pub trait Tables: Default + Send + 'static {
    /// Uncommitted changes of a unit of work.
    type Changes: Default + Send;
    /// Lockable objects: rows and entries of unique keys.
    type Lock: Clone + Ord + Send;
    /// The last assigned row ids. Ids of a unit of work that does not commit are not reused.
    type Sequences: Default + Send;

    /// Commits the changes of a unit of work. MUST NOT panic, because the changes of the outbox are committed
    /// together with them.
    fn apply(&mut self, changes: Self::Changes);

    /// All committed rows as text, prefixed with the table name.
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

/// Defines [`Tables`]: the struct of the tables, the struct of the changes of a unit of work, and a trait for
/// [`Statement`] with one method per table, which returns the table as the statement sees it. Each row type must
/// implement `Row` and `Debug`.
///
/// ```ignore
/// tables! {
///     /// The committed tables of the library.
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

        /// The uncommitted changes of a unit of work.
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

        /// The tables as seen by a statement.
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

/// Half of the database: the tables and sequences of the outbox, or of the application.
pub(super) struct Half<X: Tables> {
    pub(super) tables: X,
    sequences: X::Sequences,
}

impl<X: Tables> Half<X> {
    pub(super) fn of(tables: X) -> Half<X> {
        Half { tables, sequences: X::Sequences::default() }
    }
}

/// Returns the next id of a sequence.
pub fn next(sequence: &mut i64) -> i64 {
    *sequence += 1;
    *sequence
}

/// A statement of a unit of work. It sees the latest committed rows overlaid with the changes of the unit of work.
pub struct Statement<'s, X: Tables> {
    /// The latest committed rows, without the changes of the unit of work.
    pub committed: &'s X,
    /// The changes of the unit of work; a statement writes here.
    pub own: &'s mut X::Changes,
    /// The last assigned row ids, shared by all units of work.
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

    /// The time of the database.
    pub fn database_now(&self) -> DateTime<Utc> {
        moved(self.clock.now(), self.database_offset)
    }
}
