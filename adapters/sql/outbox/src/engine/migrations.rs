//! The migrations of each engine, which the program carries with it.

use std::sync::LazyLock;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Where the versions of the schema are recorded. A table of its own: `_sqlx_migrations` may be that of a service which
/// keeps its own tables in the same database.
pub(crate) const TABLE: &str = "handover_migrations";

/// A file below `migrations/`: its version, what it does, its statements.
type File = (i64, &'static str, &'static str);

include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

pub(super) static SQLITE: LazyLock<Migrator> = LazyLock::new(|| of(SQLITE_FILES));

#[cfg(feature = "mysql")]
pub(super) static MYSQL: LazyLock<Migrator> = LazyLock::new(|| of(MYSQL_FILES));

#[cfg(feature = "postgres")]
pub(super) static POSTGRES: LazyLock<Migrator> = LazyLock::new(|| of(POSTGRES_FILES));

fn of(files: &[File]) -> Migrator {
    let migration = |&(version, description, sql): &File| {
        let no_transaction = sql.starts_with("-- no-transaction");
        Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), no_transaction)
    };
    let mut migrator = Migrator::with_migrations(files.iter().map(migration).collect());
    migrator.dangerous_set_table_name(TABLE);
    migrator
}

/// The version that the newest migration leaves.
pub(crate) fn newest(migrations: &Migrator) -> i64 {
    migrations.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// The names of the tables that migrations create.
pub(crate) fn tables(migrations: &Migrator) -> impl Iterator<Item = &str> {
    let lines = migrations.iter().flat_map(|migration| migration.sql.as_str().lines());
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split([' ', '(']).next())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn each_list_is_what_the_driver_reads_from_the_folder_of_its_engine() {
        for (engine, files) in
            [("sqlite", SQLITE_FILES), ("mysql", MYSQL_FILES), ("postgres", POSTGRES_FILES)]
        {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../migrations").join(engine);
            let read = Migrator::new(folder.as_path()).await.expect("the driver reads them");
            let told = |of: &Migrator| -> Vec<_> {
                of.iter()
                    .map(|one| (one.version, one.description.clone(), one.checksum.clone(), one.no_tx))
                    .collect()
            };
            assert!(!files.is_empty(), "{engine}");
            // A checksum that differs would keep a database of an older version from being brought up to date.
            assert_eq!(told(&of(files)), told(&read), "{engine}");
            assert!(read.iter().all(|one| one.migration_type == MigrationType::Simple), "{engine}");
        }
    }
}
