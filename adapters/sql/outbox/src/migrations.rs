//! The embedded migrations of one part of a database.

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// The migrations of the outbox. Its tables are `event_consume_log`, `dead_letters` and those with the prefix `outbox_` or
/// `webhook_`.
pub(crate) static OUTBOX: Migrations = Migrations {
    part: "outbox",
    table: "outbox_migrations",
    sqlite: &[
        (1, "baseline", include_str!("../migrations/sqlite/0001_baseline.sql")),
        (2, "jobs", include_str!("../migrations/sqlite/0002_jobs.sql")),
        (3, "compatible event types", include_str!("../migrations/sqlite/0003_compatible_event_types.sql")),
        (
            4,
            "compatible aggregate keys",
            include_str!("../migrations/sqlite/0004_compatible_aggregate_keys.sql"),
        ),
        (5, "compatible webhooks", include_str!("../migrations/sqlite/0005_compatible_webhooks.sql")),
        (
            6,
            "compatible delivery forms",
            include_str!("../migrations/sqlite/0006_compatible_delivery_forms.sql"),
        ),
    ],
    mysql: &[
        (1, "baseline", include_str!("../migrations/mysql/0001_baseline.sql")),
        (2, "jobs", include_str!("../migrations/mysql/0002_jobs.sql")),
        (3, "compatible event types", include_str!("../migrations/mysql/0003_compatible_event_types.sql")),
        (
            4,
            "compatible aggregate keys",
            include_str!("../migrations/mysql/0004_compatible_aggregate_keys.sql"),
        ),
        (5, "compatible webhooks", include_str!("../migrations/mysql/0005_compatible_webhooks.sql")),
        (
            6,
            "compatible delivery forms",
            include_str!("../migrations/mysql/0006_compatible_delivery_forms.sql"),
        ),
    ],
    postgres: &[
        (1, "baseline", include_str!("../migrations/postgres/0001_baseline.sql")),
        (2, "jobs", include_str!("../migrations/postgres/0002_jobs.sql")),
        (3, "compatible event types", include_str!("../migrations/postgres/0003_compatible_event_types.sql")),
        (
            4,
            "compatible aggregate keys",
            include_str!("../migrations/postgres/0004_compatible_aggregate_keys.sql"),
        ),
        (5, "compatible webhooks", include_str!("../migrations/postgres/0005_compatible_webhooks.sql")),
        (
            6,
            "compatible delivery forms",
            include_str!("../migrations/postgres/0006_compatible_delivery_forms.sql"),
        ),
    ],
};

/// Beginning of the description of a compatible migration.
pub(crate) const COMPATIBLE: &str = "compatible ";

/// A migration: version, description, SQL.
pub type MigrationFile = (i64, &'static str, &'static str);

/// The migrations of one part of a database: of the outbox, or of an application with tables in the same database.
///
/// A released migration MUST NOT change: its checksum is recorded in every database where it was applied.
///
/// A migration whose description begins with `compatible ` MUST be one on whose schema programs of the previous version
/// work without a change: on a database with newer migrations that are all marked in this way, an older program starts.
#[derive(Debug)]
pub struct Migrations {
    /// Name of the part, such as `outbox`.
    pub part: &'static str,
    /// The table that records the applied versions. Each part has its own, because parts are versioned separately.
    pub table: &'static str,
    /// The migrations for SQLite.
    pub sqlite: &'static [MigrationFile],
    /// The migrations for MySQL and MariaDB. DDL is not transactional there, so an interrupted migration is resumed:
    /// each statement ends with a semicolon at the end of a line, does not depend on session state, and, if it changes
    /// rows, is idempotent.
    pub mysql: &'static [MigrationFile],
    /// The migrations for PostgreSQL.
    pub postgres: &'static [MigrationFile],
}

impl Migrations {
    /// The driver's migrator for these migrations.
    pub(crate) fn migrator(&self, files: &[MigrationFile]) -> Migrator {
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

/// The version of the newest migration; 0 if there are none.
pub(crate) fn newest(files: &[MigrationFile]) -> i64 {
    files.iter().map(|(version, ..)| *version).max().unwrap_or(0)
}

/// The names of the tables that migrations create.
pub(crate) fn tables(files: &[MigrationFile]) -> impl Iterator<Item = &str> {
    let lines = files.iter().flat_map(|(_, _, sql)| sql.lines());
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split([' ', '(']).next())
}
