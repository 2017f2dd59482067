//! The migrations of one part of a database, which the program carries with it.

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// The migrations of the outbox. Its tables begin with `outbox_`, beside `event_consume_log` and `dead_letters`.
pub(crate) static OUTBOX: Migrations = Migrations {
    part: "outbox",
    table: "outbox_migrations",
    sqlite: &[(1, "baseline", include_str!("../../../../../migrations/outbox/sqlite/0001_baseline.sql"))],
    mysql: &[(1, "baseline", include_str!("../../../../../migrations/outbox/mysql/0001_baseline.sql"))],
    postgres: &[(1, "baseline", include_str!("../../../../../migrations/outbox/postgres/0001_baseline.sql"))],
};

/// A migration: its version, what it does, its statements.
pub type MigrationFile = (i64, &'static str, &'static str);

/// The migrations of one part of a database: of the outbox, or of an application with tables in the same database.
///
/// A migration that was released is never changed: its checksum is recorded in the databases that have it.
#[derive(Debug)]
pub struct Migrations {
    /// What it is called: `outbox`.
    pub part: &'static str,
    /// Where its versions are recorded. A table of its own, since each part has versions of its own.
    pub table: &'static str,
    /// On SQLite.
    pub sqlite: &'static [MigrationFile],
    /// On MySQL and MariaDB. Every statement ends a line with its semicolon and stands alone; what changes rows must have
    /// the same result when it is run twice, since DDL is not transactional there.
    pub mysql: &'static [MigrationFile],
    /// On PostgreSQL.
    pub postgres: &'static [MigrationFile],
}

impl Migrations {
    /// As the driver runs them.
    pub(super) fn migrator(&self, files: &[MigrationFile]) -> Migrator {
        let migration = |&(version, description, sql): &MigrationFile| {
            let no_transaction = sql.starts_with("-- no-transaction");
            let sql = sql.into_sql_str();
            Migration::new(version, description.into(), MigrationType::Simple, sql, no_transaction)
        };
        let mut migrator = Migrator::with_migrations(files.iter().map(migration).collect());
        migrator.dangerous_set_table_name(self.table);
        migrator
    }
}

/// The version that the newest migration leaves.
pub(crate) fn newest(files: &[MigrationFile]) -> i64 {
    files.iter().map(|(version, ..)| *version).max().unwrap_or(0)
}

/// The names of the tables that migrations create.
pub(crate) fn tables(files: &[MigrationFile]) -> impl Iterator<Item = &str> {
    let lines = files.iter().flat_map(|(_, _, sql)| sql.lines());
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split([' ', '(']).next())
}
