//! MySQL and MariaDB: a pool of connections at READ COMMITTED, `FOR UPDATE SKIP LOCKED`.

use std::num::NonZeroU32;

use async_trait::async_trait;
use chrono::NaiveDateTime;
use handover_outbox::ports::StoreError;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlRow};
use sqlx::{ConnectOptions as _, MySql, Pool, Row as _, TypeInfo as _, ValueRef as _};

use super::pooled::{IDLE_IN_TRANSACTION_S, LOCK_WAIT_S, PREPARED, Pooled, STATEMENT_S, pool, probe};
use super::{mysql_migrations, mysql_wakeup};
use crate::connection::{Connection, Engine};
use crate::dialect::{Claiming, Dialect};
use crate::engine_info::ServerInfo;
use crate::error::{ErrorClass, store_error};
use crate::migrations::{MigrationFile, Migrations};
use crate::value::Value;
use crate::wakeup::CommitNotifier;

pub(crate) struct MysqlEngine {
    pool: Pool<MySql>,
    connect: MySqlConnectOptions,
}

impl MysqlEngine {
    pub(crate) fn open(connect: &MySqlConnectOptions, connections: NonZeroU32) -> MysqlEngine {
        let connect = connect.clone().statement_cache_capacity(PREPARED).disable_statement_logging();
        let pool = pool(connections)
            .after_connect(|connection, _| Box::pin(set_up(connection)))
            .connect_lazy_with(connect.clone());
        MysqlEngine { pool, connect }
    }
}

/// Session settings of every connection, independent of the server's defaults.
async fn set_up(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let settings = format!(
        // READ COMMITTED, because REPEATABLE READ (the default) mixes snapshot reads with current locked rows, and
        // locks gaps. Strict mode, because without it strings and numbers that do not fit are truncated silently.
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION autocommit = 1, \
         sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
         innodb_lock_wait_timeout = {LOCK_WAIT_S}, lock_wait_timeout = {LOCK_WAIT_S} \
         /*M! , idle_transaction_timeout = {IDLE_IN_TRANSACTION_S}, max_statement_time = {STATEMENT_S} */"
    );
    // Safe: the statement is a constant.
    sqlx::raw_sql(sqlx::AssertSqlSafe(settings)).execute(&mut *connection).await?;
    let levels: Vec<(String, String)> = sqlx::query_as(
        "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')",
    )
    .fetch_all(&mut *connection)
    .await?;
    match levels.iter().find(|(_, level)| level != "READ-COMMITTED") {
        None if !levels.is_empty() => Ok(()),
        other => Err(sqlx::Error::Configuration(
            format!("the isolation level is {other:?} instead of READ-COMMITTED").into(),
        )),
    }
}

#[async_trait]
impl Engine for MysqlEngine {
    fn dialect(&self) -> &'static dyn Dialect {
        &MysqlDialect
    }

    async fn writer(&self) -> Result<Box<dyn Connection>, StoreError> {
        Ok(Box::new(Pooled::new(self.pool.acquire().await.map_err(to_store_error)?, BEGIN)))
    }

    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError> {
        self.writer().await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        probe(&self.connect).await.map_err(to_store_error)
    }

    async fn migrate(&self, migrations: &Migrations) -> Result<(), StoreError> {
        // A dedicated connection: closing it releases the migration lock in every case.
        let connection = self.connect.connect().await.map_err(to_store_error)?;
        let done = mysql_migrations::run(connection, &migrations.migrator(migrations.mysql)).await;
        done.map_err(|error| super::migration_error(error, classify))
    }

    fn files(&self, migrations: &Migrations) -> &'static [MigrationFile] {
        migrations.mysql
    }

    async fn server_info(&self) -> Result<Option<ServerInfo>, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(to_store_error)?;
        let version: String = sqlx::query_scalar("SELECT VERSION()")
            .fetch_one(&mut *connection)
            .await
            .map_err(to_store_error)?;
        let settings: Vec<(String, String)> = sqlx::query_as(
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
             ('innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'innodb_doublewrite')",
        )
        .fetch_all(&mut *connection)
        .await
        .map_err(to_store_error)?;
        Ok(Some(server_info(&version, &settings)))
    }

    async fn guards_audit_log(&self) -> Result<bool, StoreError> {
        /// ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR.
        const DENIED: [u16; 2] = [1142, 1143];
        let mut connection = self.pool.acquire().await.map_err(to_store_error)?;
        // The server checks the privileges before it executes a statement. The condition matches no row, so these
        // statements change nothing.
        for edit in [
            "UPDATE outbox_audit_log SET actor = actor WHERE 1 = 0",
            "DELETE FROM outbox_audit_log WHERE 1 = 0",
        ] {
            match sqlx::query(edit).execute(&mut *connection).await {
                Ok(_) => return Ok(false),
                Err(sqlx::Error::Database(error))
                    if number(error.as_ref()).is_some_and(|number| DENIED.contains(&number)) => {}
                Err(error) => return Err(to_store_error(error)),
            }
        }
        Ok(true)
    }

    async fn watch(&self, notifier: &CommitNotifier) {
        mysql_wakeup::watch(&self.pool, notifier).await
    }

    async fn send_notification(&self, _text: &str) -> Result<(), StoreError> {
        // MySQL has no notifications: other processes poll.
        Ok(())
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// Extracts the version and the settings that endanger durability.
fn server_info(version: &str, settings: &[(String, String)]) -> ServerInfo {
    let is =
        |name: &str, value: &str| settings.iter().any(|(n, v)| n == name && v.eq_ignore_ascii_case(value));
    let safe = |name: &str| match name {
        "innodb_flush_log_at_trx_commit" => is(name, "1") || is(name, "3"),
        // `sync_binlog` matters only for replicas and point-in-time recovery, which need a binary log: if `log_bin` is
        // off, any value is safe.
        "sync_binlog" => is(name, "1") || !is("log_bin", "ON"),
        "innodb_doublewrite" => !is(name, "OFF") && !is(name, "0"),
        _ => true,
    };
    ServerInfo {
        version: match version.split_once("-MariaDB") {
            Some((number, _)) => format!("MariaDB {number}"),
            None => format!("MySQL {version}"),
        },
        unsafe_settings: settings
            .iter()
            .filter(|(name, _)| !safe(name))
            .map(|(name, value)| format!("{name} = {value}"))
            .collect(),
    }
}

const BEGIN: &str = "START TRANSACTION";

struct MysqlDialect;

impl Dialect for MysqlDialect {
    fn begin(&self) -> &'static str {
        BEGIN
    }

    fn explain(&self) -> &'static str {
        "EXPLAIN"
    }

    fn lock_index(&self, name: &str) -> String {
        self.index(name)
    }

    fn now(&self) -> &'static str {
        "SELECT UTC_TIMESTAMP(6) AS now"
    }

    fn for_update(&self) -> &'static str {
        "FOR UPDATE"
    }

    fn skip_locked(&self) -> &'static str {
        "FOR UPDATE SKIP LOCKED"
    }

    fn tables(&self) -> &'static str {
        "SELECT CAST(table_name AS CHAR) AS name FROM information_schema.tables WHERE table_schema = DATABASE()"
    }

    fn claiming(&self) -> Claiming {
        Claiming::SkipLocked
    }

    fn index(&self, name: &str) -> String {
        // MySQL has no partial indexes: one index replaces three of SQLite's.
        let name = match name {
            "idx_outbox_waiting" | "idx_outbox_failed" => "idx_outbox_order",
            other => other,
        };
        // The index is forced, because the statistics of a queue table are usually outdated, and a scan of the wrong
        // index locks every row it reads.
        format!("FORCE INDEX ({name})")
    }

    fn failed(&self) -> String {
        self.index("idx_status_time")
    }

    fn pending(&self) -> &'static str {
        "o.pending = 1"
    }

    fn or_replace(&self, _key: &str, columns: &[&str]) -> String {
        let sets: Vec<String> = columns.iter().map(|column| format!("{column} = VALUES({column})")).collect();
        format!("ON DUPLICATE KEY UPDATE {}", sets.join(", "))
    }

    fn sum(&self, of: &str) -> String {
        format!("CAST(SUM({of}) AS SIGNED)")
    }
}

fn to_store_error(error: sqlx::Error) -> StoreError {
    store_error(error, classify)
}

pub(super) fn number(error: &dyn DatabaseError) -> Option<u16> {
    error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

/// Unknown user or database, wrong password, or missing privileges on the database, a table or a column.
pub(super) fn refuses_access(error: &dyn DatabaseError) -> bool {
    matches!(number(error), Some(1044 | 1045 | 1049 | 1698 | 1142 | 1143))
}

fn classify(error: &dyn DatabaseError) -> ErrorClass {
    if error.is_unique_violation() {
        return ErrorClass::UniqueViolation;
    }
    match number(error) {
        // Deadlock, lock wait timeout, a row changed since MariaDB's snapshot. After a lock wait timeout the server
        // keeps the earlier changes of the transaction; the session does not commit them.
        Some(1213 | 1205 | 1020) => ErrorClass::Transient,
        // Too many connections (in total or per user), blocked host, server shutdown, interrupted statement, killed or
        // lost connection, timed-out statement or client.
        Some(1040 | 1203 | 1226 | 1129 | 1053 | 1317 | 1927 | 1969 | 2006 | 2013 | 3024 | 4031) => {
            ErrorClass::Unavailable
        }
        // Network errors, a full disk or table, a failed read or write, a read-only server.
        Some(1158..=1161 | 1021 | 1114 | 1026 | 1290 | 1792 | 1836) => ErrorClass::Unavailable,
        // Refused login or unknown database: a configuration error, which must not consume attempts.
        Some(1044 | 1045 | 1049 | 1698) => ErrorClass::Unavailable,
        Some(_) | None => ErrorClass::Permanent,
    }
}

fn bind(arguments: &mut MySqlArguments, value: Value) -> Result<(), sqlx::error::BoxDynError> {
    use sqlx::Arguments as _;
    match value {
        Value::Int(value) => arguments.add(value),
        Value::Text(value) => arguments.add(value),
        // Times are bound as DATETIME, the type of the columns: a comparison with a TIMESTAMP would need a conversion.
        Value::Time(value) => arguments.add(value.map(|time| time.naive_utc())),
        Value::List(_) => Err("MySQL does not support array parameters".into()),
    }
}

fn decode(row: &MySqlRow, index: usize) -> Result<Value, sqlx::Error> {
    let raw = row.try_get_raw(index)?;
    if raw.is_null() {
        return Ok(Value::Text(None));
    }
    Ok(match raw.type_info().name() {
        "BIGINT" | "INT" | "MEDIUMINT" | "SMALLINT" | "TINYINT" | "BOOLEAN" => {
            Value::Int(Some(row.try_get_unchecked(index)?))
        }
        "DATETIME" | "TIMESTAMP" => {
            Value::Time(Some(row.try_get_unchecked::<NaiveDateTime, _>(index)?.and_utc()))
        }
        _ => Value::Text(Some(row.try_get_unchecked(index)?)),
    })
}

fn unchanged(sql: &str) -> &str {
    sql
}

crate::engine::connection!(
    MySql, MySqlArguments, bind: bind, decode: decode, classify: classify, text: unchanged
);
crate::engine::server_connection!(MySql, classify);
