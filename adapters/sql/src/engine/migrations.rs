//! The migrations of each engine, which the program carries with it.

use std::sync::LazyLock;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

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
    Migrator::with_migrations(files.iter().map(migration).collect())
}
