//! Migrations on MySQL and MariaDB, where DDL is not transactional.
//!
//! **Invariant:** a migration that was cut off is gone on with. Each statement is whole by itself, and there is a row
//! with `success = false` from before the first: a statement of such a migration whose work is there was done before.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migration, Migrator};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection as _};

use super::mysql::number;
use super::pooled::MIGRATION_WAIT_S;

/// Locks are the server's, not the database's.
const LOCK: &str = "CONCAT('handover-migrations-', MD5(DATABASE()))";

pub(super) async fn run(connection: MySqlConnection, migrator: &Migrator) -> Result<(), MigrateError> {
    let mut resuming = Resuming { connection };
    migrator.run_direct(None, &mut resuming, false).await?;
    resuming.connection.close().await.map_err(MigrateError::from)
}

/// The driver's migrations, that go on where one was cut off.
struct Resuming {
    connection: MySqlConnection,
}

impl Resuming {
    async fn row(&mut self, table: &str, migration: &Migration) -> Result<Option<bool>, MigrateError> {
        let sql = format!("SELECT success FROM {table} WHERE version = ?");
        let row = sqlx::query_scalar(AssertSqlSafe(sql)).bind(migration.version);
        Ok(row.fetch_optional(&mut self.connection).await?)
    }

    async fn begin(&mut self, table: &str, migration: &Migration) -> Result<(), MigrateError> {
        let sql = format!(
            "INSERT INTO {table} (version, description, success, checksum, execution_time) VALUES (?, ?, false, ?, -1)"
        );
        sqlx::query(AssertSqlSafe(sql))
            .bind(migration.version)
            .bind(migration.description.as_ref())
            .bind(migration.checksum.as_ref())
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    async fn apply(&mut self, table: &str, migration: &Migration) -> Result<Duration, MigrateError> {
        let started = started();
        let was_cut_off = self.row(table, migration).await?.is_some();
        if !was_cut_off {
            self.begin(table, migration).await?;
        }
        for statement in statements(migration.sql.as_str()) {
            let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut self.connection).await;
            if let Err(error) = done
                && !(was_cut_off && was_done(&error))
            {
                return Err(MigrateError::ExecuteMigration(error, migration.version));
            }
        }
        let took = started.elapsed();
        let sql =
            format!("UPDATE {table} SET success = true, checksum = ?, execution_time = ? WHERE version = ?");
        sqlx::query(AssertSqlSafe(sql))
            .bind(migration.checksum.as_ref())
            .bind(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX))
            .bind(migration.version)
            .execute(&mut self.connection)
            .await?;
        Ok(took)
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "how long a migration took is told to people, and decides nothing"
)]
fn started() -> Instant {
    Instant::now()
}

/// The statements of a file: each ends a line with its semicolon.
fn statements(sql: &str) -> impl Iterator<Item = &str> {
    sql.split_inclusive(";\n").filter(|text| {
        text.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with("--"))
    })
}

/// Whether a statement failed because what it makes is there, or what it drops is not.
fn was_done(error: &sqlx::Error) -> bool {
    // Table, column, key, constraint (MySQL and MariaDB differ), trigger; nothing to drop.
    let there = [1050, 1060, 1061, 1022, 1826, 3822, 1359, 1091, 1051, 3940, 1360];
    error.as_database_error().and_then(number).is_some_and(|number| there.contains(&number))
}

impl Migrate for Resuming {
    fn create_schema_if_not_exists<'e>(
        &'e mut self,
        schema_name: &'e str,
    ) -> BoxFuture<'e, Result<(), MigrateError>> {
        self.connection.create_schema_if_not_exists(schema_name)
    }

    fn ensure_migrations_table<'e>(
        &'e mut self,
        table_name: &'e str,
    ) -> BoxFuture<'e, Result<(), MigrateError>> {
        self.connection.ensure_migrations_table(table_name)
    }

    fn dirty_version<'e>(&'e mut self, _: &'e str) -> BoxFuture<'e, Result<Option<i64>, MigrateError>> {
        // It is not in the list of those applied, and so is gone on with.
        Box::pin(async { Ok(None) })
    }

    fn list_applied_migrations<'e>(
        &'e mut self,
        table_name: &'e str,
    ) -> BoxFuture<'e, Result<Vec<AppliedMigration>, MigrateError>> {
        Box::pin(async move {
            let sql = format!("SELECT version, checksum FROM {table_name} WHERE success ORDER BY version");
            let rows: Vec<(i64, Vec<u8>)> =
                sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut self.connection).await?;
            Ok(rows
                .into_iter()
                .map(|(version, checksum)| AppliedMigration { version, checksum: checksum.into() })
                .collect())
        })
    }

    fn lock(&mut self) -> BoxFuture<'_, Result<(), MigrateError>> {
        Box::pin(async move {
            let sql = format!("SELECT GET_LOCK({LOCK}, {MIGRATION_WAIT_S})");
            let taken: Option<i64> =
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.connection).await?;
            if taken == Some(1) {
                return Ok(());
            }
            let waited = format!("another process has been migrating for {MIGRATION_WAIT_S} s");
            Err(MigrateError::Execute(sqlx::Error::Io(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                waited,
            ))))
        })
    }

    fn unlock(&mut self) -> BoxFuture<'_, Result<(), MigrateError>> {
        Box::pin(async move {
            let sql = format!("SELECT RELEASE_LOCK({LOCK})");
            sqlx::query(AssertSqlSafe(sql)).execute(&mut self.connection).await?;
            Ok(())
        })
    }

    fn apply<'e>(
        &'e mut self,
        table_name: &'e str,
        migration: &'e Migration,
    ) -> BoxFuture<'e, Result<Duration, MigrateError>> {
        Box::pin(Resuming::apply(self, table_name, migration))
    }

    fn revert<'e>(
        &'e mut self,
        table_name: &'e str,
        migration: &'e Migration,
    ) -> BoxFuture<'e, Result<Duration, MigrateError>> {
        self.connection.revert(table_name, migration)
    }
}

#[cfg(test)]
mod tests {
    use super::statements;
    use crate::engine::migrations::OUTBOX;

    #[test]
    fn every_statement_of_a_migration_stands_alone() {
        for (_, _, sql) in OUTBOX.mysql {
            for statement in statements(sql) {
                let code: Vec<&str> =
                    statement.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
                let code = code.join("\n");
                assert!(code.trim_end().ends_with(';'), "{code}");
                assert_eq!(code.matches(';').count(), 1, "{code}");
            }
        }
    }

    #[test]
    fn comments_alone_are_no_statement() {
        let sql = "-- one\n\nCREATE TABLE a (id INT);\n\n-- two;\n\nDROP TABLE a;\n\n-- three\n";
        assert_eq!(statements(sql).count(), 2);
    }
}
