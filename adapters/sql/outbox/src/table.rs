//! One definition per table: [`table!`](crate::table) states each column of a row once, with the field that it is read
//! into and the value that is written.

use handover_outbox::ports::{Numbered, StoreError};

use crate::row::{Fields, Row};
use crate::value::Value;

/// A table that is defined by [`table!`](crate::table).
pub trait Table {
    /// A row as it is read.
    type Row;
    /// A row as it is written.
    type New<'a>;
    /// Name of the table.
    const NAME: &'static str;
    /// The columns that [`Table::read`] needs: `a, b`.
    const COLUMNS: &'static str;
    /// The statement that inserts [`Table::values`], without the values: `INSERT INTO t (a, b)`.
    const INSERT: &'static str;
    /// Number of columns that an insert writes.
    const INSERTED: usize;
    /// The columns that only an insert writes. Of a table with upserts, they are the key.
    const KEY: &'static str;
    /// The columns that an update of the whole row writes.
    const UPDATED: &'static [&'static str];
    /// The same columns in an `UPDATE`: `a = ?, b = ?`.
    const SET: &'static str;

    /// Access to single columns of a row of this table.
    fn fields(row: &Row) -> Fields<'_>;

    /// Reads a row.
    fn read(row: &Row) -> Result<Self::Row, StoreError>;

    /// Reads a row and its column `id`.
    fn numbered(row: &Row) -> Result<Numbered<Self::Row>, StoreError> {
        Ok(Numbered { id: Self::fields(row).int("id")?, effect: Self::read(row)? })
    }

    /// The values that an insert writes.
    fn values(new: Self::New<'_>) -> Vec<Value>;

    /// The values of [`Table::SET`].
    fn updated_values(_: Self::New<'_>) -> Vec<Value> {
        Vec::new()
    }

    /// The values that an insert of several rows writes.
    fn rows<'a>(new: impl IntoIterator<Item = Self::New<'a>>) -> Vec<Value> {
        let new = new.into_iter();
        let mut values = Vec::with_capacity(new.size_hint().0 * Self::INSERTED);
        for row in new {
            values.extend(Self::values(row));
        }
        values
    }
}

/// Defines a [`Table`]. A column is one line: the field, the method of [`Fields`](crate::Fields) that reads it, the
/// name of the column, and the value that is written.
///
/// ```
/// struct Visit {
///     patient: i64,
///     note: Option<String>,
///     is_over: bool,
/// }
///
/// handover_sql::table! {
///     /// Visits of patients.
///     VisitTable("visits" by "patient"), read row as Visit, write visit as &'a Visit;
///     insert { patient: int("patient" = visit.patient) }
///     update { note: opt_string("note" = &visit.note) }
///     read { is_over: flag("is_over") }
/// }
/// ```
///
/// Errors name the row by the column after `by`. `insert` has the columns that only an insert writes, `update` those
/// that an update of the whole row writes, too, and `read` those that are only read. An expression in parentheses reads
/// a field that consists of several columns: `trace: (row.trace())("trace_id" = .., "traceparent" = ..)`.
#[macro_export]
macro_rules! table {
    (
        $(#[$meta:meta])*
        $vis:vis $table:ident($name:literal by $key:literal),
        read $row:ident as $type:ident, write $new:tt as $new_type:ty;
        $($sections:tt)*
    ) => {
        $crate::table! {
            $(#[$meta])*
            $vis $table($name as "" by $key), read $row as $type, write $new as $new_type;
            $($sections)*
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis $table:ident($name:literal as $alias:literal by $key:literal),
        read $row:ident as $type:ident, write $new:tt as $new_type:ty;
        insert {
            $if:ident: $ir:tt($ic:literal = $iv:expr $(, $iec:literal = $iev:expr)*)
            $(, $jf:ident: $jr:tt($($jc:literal = $jv:expr),+))* $(,)?
        }
        $(update {
            $uf:ident: $ur:tt($uc:literal = $uv:expr $(, $uec:literal = $uev:expr)*)
            $(, $vf:ident: $vr:tt($($vc:literal = $vv:expr),+))* $(,)?
        })?
        $(read { $($rf:ident: $rr:tt($($rc:literal),+)),+ $(,)? })?
    ) => {
        $(#[$meta])*
        $vis enum $table {}

        impl $crate::Table for $table {
            type Row = $type;
            type New<'a> = $new_type;
            const NAME: &'static str = $name;
            const COLUMNS: &'static str = concat!(
                $alias, $ic $(, ", ", $alias, $iec)* $($(, ", ", $alias, $jc)+)*
                $(, ", ", $alias, $uc $(, ", ", $alias, $uec)* $($(, ", ", $alias, $vc)+)*)?
                $($($(, ", ", $alias, $rc)+)+)?
            );
            const INSERT: &'static str = concat!(
                "INSERT INTO ", $name, " (", $ic $(, ", ", $iec)* $($(, ", ", $jc)+)*
                $(, ", ", $uc $(, ", ", $uec)* $($(, ", ", $vc)+)*)?, ")"
            );
            const INSERTED: usize = <[&str]>::len(&[
                $ic $(, $iec)* $($(, $jc)+)* $(, $uc $(, $uec)* $($(, $vc)+)*)?
            ]);
            const KEY: &'static str = concat!($ic $(, ", ", $iec)* $($(, ", ", $jc)+)*);
            const UPDATED: &'static [&'static str] = &[$($uc $(, $uec)* $($(, $vc)+)*)?];
            const SET: &'static str =
                concat!($($uc, " = ?" $(, ", ", $uec, " = ?")* $($(, ", ", $vc, " = ?")+)*)?);

            fn fields(row: &$crate::Row) -> $crate::Fields<'_> {
                row.of($name, $key)
            }

            fn read(row: &$crate::Row) -> Result<$type, $crate::StoreError> {
                let $row = Self::fields(row);
                Ok($type {
                    $if: $crate::table!(@read $row $ir $ic $($iec)*)?,
                    $($jf: $crate::table!(@read $row $jr $($jc)+)?,)*
                    $($uf: $crate::table!(@read $row $ur $uc $($uec)*)?,
                    $($vf: $crate::table!(@read $row $vr $($vc)+)?,)*)?
                    $($($rf: $crate::table!(@read $row $rr $($rc)+)?,)+)?
                })
            }

            fn values($new: Self::New<'_>) -> Vec<$crate::Value> {
                $crate::values![$iv $(, $iev)* $($(, $jv)+)* $(, $uv $(, $uev)* $($(, $vv)+)*)?]
            }

            $(fn updated_values($new: Self::New<'_>) -> Vec<$crate::Value> {
                $crate::values![$uv $(, $uev)* $($(, $vv)+)*]
            })?
        }
    };
    (@read $row:ident ($read:expr) $($column:literal)+) => { $read };
    (@read $row:ident $read:ident $($column:literal)+) => { $row.$read($($column),+) };
}
pub(crate) use table;
