//! Migrations on MySQL and MariaDB, where DDL is not transactional.
//!
//! **Invariant:** an interrupted migration is resumed. A row with `success = false` is written before the first
//! statement. When such a migration is resumed, a statement counts as applied if it fails because its change exists.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migration, Migrator};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection as _};

use super::mysql_error::number;
use super::pooled::MIGRATION_WAIT_S;
use crate::prefix::TablePrefix;

/// Name of the migration lock. Named locks are global to the server, so the name contains the database.
fn lock_name(prefix: &TablePrefix) -> String {
    format!("CONCAT('handover-migrations-', MD5(CONCAT(DATABASE(), '{}')))", prefix.before(""))
}

pub(super) async fn run(
    connection: MySqlConnection,
    prefix: &TablePrefix,
    migrator: &Migrator,
) -> Result<(), MigrateError> {
    let mut resumable = ResumableMigrations { connection, lock: lock_name(prefix) };
    migrator.run_direct(None, &mut resumable, false).await?;
    resumable.connection.close().await.map_err(MigrateError::from)
}

/// The driver's migrations, able to resume an interrupted one.
struct ResumableMigrations {
    connection: MySqlConnection,
    /// Expression for the name of the migration lock.
    lock: String,
}

impl ResumableMigrations {
    async fn recorded_success(
        &mut self,
        table: &str,
        migration: &Migration,
    ) -> Result<Option<bool>, MigrateError> {
        let sql = format!("SELECT success FROM {table} WHERE version = ?");
        let query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(migration.version);
        Ok(query.fetch_optional(&mut self.connection).await?)
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
        let is_resumed = self.recorded_success(table, migration).await?.is_some();
        if !is_resumed {
            self.begin(table, migration).await?;
        }
        for statement in statements(migration.sql.as_str()) {
            let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut self.connection).await;
            if let Err(error) = done
                && !(is_resumed && was_applied(&error))
            {
                return Err(MigrateError::ExecuteMigration(error, migration.version));
            }
        }
        let duration = started.elapsed();
        let sql =
            format!("UPDATE {table} SET success = true, checksum = ?, execution_time = ? WHERE version = ?");
        sqlx::query(AssertSqlSafe(sql))
            .bind(migration.checksum.as_ref())
            .bind(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
            .bind(migration.version)
            .execute(&mut self.connection)
            .await?;
        Ok(duration)
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the duration of a migration is informational and affects no decision"
)]
fn started() -> Instant {
    Instant::now()
}

/// Splits a file into statements, each of which ends with a semicolon at the end of a line.
fn statements(sql: &str) -> impl Iterator<Item = &str> {
    sql.split_inclusive(";\n").filter(|text| {
        text.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with("--"))
    })
}

/// Whether a statement failed because it creates something that exists, or drops something that does not.
fn was_applied(error: &sqlx::Error) -> bool {
    // The table, column, key, constraint (MySQL and MariaDB differ) or trigger exists, or there is nothing to drop.
    let codes = [1050, 1060, 1061, 1022, 1826, 3821, 3822, 1359, 1091, 1051, 3940, 1360];
    error.as_database_error().and_then(number).is_some_and(|number| codes.contains(&number))
}

impl Migrate for ResumableMigrations {
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
        // A dirty migration is not in the list of applied ones, so it is resumed.
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
            let sql = format!("SELECT GET_LOCK({}, {MIGRATION_WAIT_S})", self.lock);
            let acquired: Option<i64> =
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.connection).await?;
            if acquired == Some(1) {
                return Ok(());
            }
            let message = format!("another process has held the migration lock for {MIGRATION_WAIT_S} s");
            Err(MigrateError::Execute(sqlx::Error::Io(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                message,
            ))))
        })
    }

    fn unlock(&mut self) -> BoxFuture<'_, Result<(), MigrateError>> {
        Box::pin(async move {
            let sql = format!("SELECT RELEASE_LOCK({})", self.lock);
            sqlx::query(AssertSqlSafe(sql)).execute(&mut self.connection).await?;
            Ok(())
        })
    }

    fn apply<'e>(
        &'e mut self,
        table_name: &'e str,
        migration: &'e Migration,
    ) -> BoxFuture<'e, Result<Duration, MigrateError>> {
        Box::pin(ResumableMigrations::apply(self, table_name, migration))
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
    use crate::migrations::OUTBOX;

    #[test]
    fn every_statement_of_a_migration_has_one_semicolon() {
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
    fn statements_skips_comments_without_statement() {
        let sql = "-- one\n\nCREATE TABLE a (id INT);\n\n-- two;\n\nDROP TABLE a;\n\n-- three\n";
        assert_eq!(statements(sql).count(), 2);
    }
}
