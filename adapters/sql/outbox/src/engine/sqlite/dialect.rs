//! The SQL dialect of SQLite.

use crate::dialect::{Claiming, Dialect, Joining, RowClaiming, Sequencing};

pub(crate) struct SqliteDialect;

impl Dialect for SqliteDialect {
    fn explain(&self) -> &'static str {
        "EXPLAIN QUERY PLAN"
    }

    fn lock_index(&self, _name: &str) -> String {
        String::new()
    }

    fn now(&self) -> &'static str {
        "SELECT strftime('%Y-%m-%dT%H:%M:%f000Z', 'now') AS now"
    }

    fn for_update(&self) -> &'static str {
        ""
    }

    fn skip_locked(&self) -> &'static str {
        ""
    }

    fn tables(&self) -> &'static str {
        "SELECT name FROM sqlite_schema WHERE type = 'table'"
    }

    fn relations(&self) -> &'static str {
        "SELECT name, CASE type WHEN 'index' THEN 'an index' ELSE 'a ' || type END AS kind FROM sqlite_schema"
    }

    fn catalogue(&self) -> &'static str {
        super::catalogue::CATALOGUE
    }

    fn claiming(&self) -> Claiming {
        Claiming::UpdateReturning
    }

    fn row_claiming(&self) -> RowClaiming {
        RowClaiming::SingleWriter
    }

    fn sequencing(&self) -> Sequencing {
        Sequencing::NewestRow
    }

    fn joining(&self) -> Joining {
        Joining::Script
    }

    fn index(&self, name: &str) -> String {
        format!("INDEXED BY {name}")
    }

    fn primary_key(&self) -> &'static str {
        // Allows the rowid only. Without statistics, SQLite otherwise prefers an index on a column with few values if the list of
        // keys is long.
        "NOT INDEXED"
    }

    fn failed(&self) -> String {
        self.index("idx_outbox_failed")
    }

    fn pending(&self) -> &'static str {
        "o.status IN ('NEW', 'RETRY')"
    }

    // SQLite has no parentheses around a SELECT of a UNION.
    fn nested(&self, select: &str) -> String {
        format!("SELECT * FROM ({select})")
    }

    fn or_replace(&self, key: &str, columns: &[&str]) -> String {
        let sets: Vec<String> =
            columns.iter().map(|column| format!("{column} = excluded.{column}")).collect();
        format!("ON CONFLICT ({key}) DO UPDATE SET {}", sets.join(", "))
    }

    fn sum(&self, of: &str) -> String {
        format!("sum({of})")
    }
}
