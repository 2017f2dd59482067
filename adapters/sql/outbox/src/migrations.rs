//! The embedded migrations of one part of a database.

/// The migrations of the outbox. Its tables are `event_consume_log`, `dead_letters`, and those that begin with `outbox_` or
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
        (7, "compatible monitoring", include_str!("../migrations/sqlite/0007_compatible_monitoring.sql")),
        (
            8,
            "compatible message times",
            include_str!("../migrations/sqlite/0008_compatible_message_times.sql"),
        ),
        (
            9,
            "compatible idle consumers",
            include_str!("../migrations/sqlite/0009_compatible_idle_consumers.sql"),
        ),
        (10, "compatible archive", include_str!("../migrations/sqlite/0010_compatible_archive.sql")),
        (11, "compatible erasure", include_str!("../migrations/sqlite/0011_compatible_erasure.sql")),
        (
            12,
            "compatible archive erasure",
            include_str!("../migrations/sqlite/0012_compatible_archive_erasure.sql"),
        ),
        (
            13,
            "compatible audit retention",
            include_str!("../migrations/sqlite/0013_compatible_audit_retention.sql"),
        ),
        (14, "compatible job backlog", include_str!("../migrations/sqlite/0014_compatible_job_backlog.sql")),
        (
            15,
            "compatible consume count",
            include_str!("../migrations/sqlite/0015_compatible_consume_count.sql"),
        ),
        (
            16,
            "compatible erasure reason",
            include_str!("../migrations/sqlite/0016_compatible_erasure_reason.sql"),
        ),
        (17, "compatible order index", include_str!("../migrations/sqlite/0017_compatible_order_index.sql")),
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
        (7, "compatible monitoring", include_str!("../migrations/mysql/0007_compatible_monitoring.sql")),
        (
            8,
            "compatible message times",
            include_str!("../migrations/mysql/0008_compatible_message_times.sql"),
        ),
        (
            9,
            "compatible idle consumers",
            include_str!("../migrations/mysql/0009_compatible_idle_consumers.sql"),
        ),
        (10, "compatible archive", include_str!("../migrations/mysql/0010_compatible_archive.sql")),
        (11, "compatible erasure", include_str!("../migrations/mysql/0011_compatible_erasure.sql")),
        (
            12,
            "compatible archive erasure",
            include_str!("../migrations/mysql/0012_compatible_archive_erasure.sql"),
        ),
        (
            13,
            "compatible audit retention",
            include_str!("../migrations/mysql/0013_compatible_audit_retention.sql"),
        ),
        (14, "compatible job backlog", include_str!("../migrations/mysql/0014_compatible_job_backlog.sql")),
        (
            15,
            "compatible consume count",
            include_str!("../migrations/mysql/0015_compatible_consume_count.sql"),
        ),
        (
            16,
            "compatible erasure reason",
            include_str!("../migrations/mysql/0016_compatible_erasure_reason.sql"),
        ),
        (17, "compatible order index", include_str!("../migrations/mysql/0017_compatible_order_index.sql")),
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
        (7, "compatible monitoring", include_str!("../migrations/postgres/0007_compatible_monitoring.sql")),
        (
            8,
            "compatible message times",
            include_str!("../migrations/postgres/0008_compatible_message_times.sql"),
        ),
        (
            9,
            "compatible idle consumers",
            include_str!("../migrations/postgres/0009_compatible_idle_consumers.sql"),
        ),
        (10, "compatible archive", include_str!("../migrations/postgres/0010_compatible_archive.sql")),
        (11, "compatible erasure", include_str!("../migrations/postgres/0011_compatible_erasure.sql")),
        (
            12,
            "compatible archive erasure",
            include_str!("../migrations/postgres/0012_compatible_archive_erasure.sql"),
        ),
        (
            13,
            "compatible audit retention",
            include_str!("../migrations/postgres/0013_compatible_audit_retention.sql"),
        ),
        (
            14,
            "compatible job backlog",
            include_str!("../migrations/postgres/0014_compatible_job_backlog.sql"),
        ),
        (
            15,
            "compatible consume count",
            include_str!("../migrations/postgres/0015_compatible_consume_count.sql"),
        ),
        (
            16,
            "compatible erasure reason",
            include_str!("../migrations/postgres/0016_compatible_erasure_reason.sql"),
        ),
        (
            17,
            "compatible order index",
            include_str!("../migrations/postgres/0017_compatible_order_index.sql"),
        ),
    ],
    schema: ExpectedSchema {
        sqlite: include_str!("../migrations/sqlite/schema.txt"),
        mysql: include_str!("../migrations/mysql/schema.txt"),
        postgres: include_str!("../migrations/postgres/schema.txt"),
    },
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
    /// The schema after all migrations.
    pub schema: ExpectedSchema,
}

/// The schema after all migrations of a part, for each engine: the lines of [`SqlStore::schema_lines`](crate::SqlStore::schema_lines) for its tables. Empty
/// if the part is not compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExpectedSchema {
    /// On SQLite.
    pub sqlite: &'static str,
    /// On MySQL and MariaDB.
    pub mysql: &'static str,
    /// On PostgreSQL.
    pub postgres: &'static str,
}

/// The version of the newest migration; 0 if there are none.
pub(crate) fn newest(files: &[MigrationFile]) -> i64 {
    files.iter().map(|(version, ..)| *version).max().unwrap_or(0)
}

/// A name of a table, view, index, constraint, trigger or function in a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    /// Whether the migration creates what has this name.
    pub(crate) is_created: bool,
}

/// The names in a migration: the lower-case words after keywords such as `TABLE`.
pub(crate) fn names((_, _, sql): &MigrationFile) -> Vec<Named> {
    let code = sql.lines().filter_map(|line| line.split("--").next());
    let words: Vec<&str> = code.flat_map(str::split_whitespace).collect();
    let is_name =
        |word: &str| !word.is_empty() && word.chars().all(|it| matches!(it, 'a'..='z' | '0'..='9' | '_'));
    let named = words.windows(3).filter_map(|words| {
        let [before, keyword, name] = *words else { return None };
        let name = name.split(['(', ';', ',']).next().filter(|name| is_name(name))?;
        let is_created = match keyword {
            "TABLE" | "INDEX" | "TRIGGER" | "FUNCTION" | "VIEW" => matches!(before, "CREATE" | "UNIQUE"),
            "CONSTRAINT" | "KEY" => before != "DROP",
            _ => return None,
        };
        Some(Named { name, is_created })
    });
    named.collect()
}
