//! MySQL and MariaDB: a pool of connections at READ COMMITTED, `FOR UPDATE SKIP LOCKED`.

use std::num::NonZeroU32;

use async_trait::async_trait;
use chrono::NaiveDateTime;
use handover_outbox::ports::StoreError;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlRow};
use sqlx::{ConnectOptions as _, MySql, Pool, Row as _, TypeInfo as _, ValueRef as _};

use super::migrations::{MigrationFile, Migrations};
use super::pooled::{IDLE_IN_TRANSACTION_S, LOCK_WAIT_S, PREPARED, Pooled, STATEMENT_S, pool, probe};
use super::{mysql_bells, mysql_migrations};
use crate::bells::Bells;
use crate::connection::{Connection, Engine};
use crate::dialect::{Claiming, Dialect};
use crate::facts::ServerFacts;
use crate::fault::{Meaning, store_error};
use crate::value::Value;

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

/// What every connection is told, whatever the server's defaults are.
async fn set_up(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let settings = format!(
        // REPEATABLE READ, the default, reads old rows beside locked new ones and locks gaps. Without a strict mode texts
        // and numbers that do not fit are cut in silence.
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION autocommit = 1, \
         sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
         innodb_lock_wait_timeout = {LOCK_WAIT_S}, lock_wait_timeout = {LOCK_WAIT_S} \
         /*M! , idle_transaction_timeout = {IDLE_IN_TRANSACTION_S}, max_statement_time = {STATEMENT_S} */"
    );
    // Safe: the text is ours.
    sqlx::raw_sql(sqlx::AssertSqlSafe(settings)).execute(&mut *connection).await?;
    let levels: Vec<(String, String)> = sqlx::query_as(
        "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')",
    )
    .fetch_all(&mut *connection)
    .await?;
    match levels.iter().find(|(_, level)| level != "READ-COMMITTED") {
        None if !levels.is_empty() => Ok(()),
        other => Err(sqlx::Error::Configuration(
            format!("the isolation level is {other:?}, not READ-COMMITTED").into(),
        )),
    }
}

#[async_trait]
impl Engine for MysqlEngine {
    fn dialect(&self) -> &'static dyn Dialect {
        &MysqlDialect
    }

    async fn writer(&self) -> Result<Box<dyn Connection>, StoreError> {
        Ok(Box::new(Pooled::new(self.pool.acquire().await.map_err(fault)?, BEGIN)))
    }

    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError> {
        self.writer().await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        probe(&self.connect).await.map_err(fault)
    }

    async fn migrate(&self, migrations: &Migrations) -> Result<(), StoreError> {
        // A connection of its own: it closes with its lock whatever happens.
        let connection = self.connect.connect().await.map_err(fault)?;
        let done = mysql_migrations::run(connection, &migrations.migrator(migrations.mysql)).await;
        done.map_err(|error| super::migration_error(error, meaning))
    }

    fn files(&self, migrations: &Migrations) -> &'static [MigrationFile] {
        migrations.mysql
    }

    async fn facts(&self) -> Result<Option<ServerFacts>, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(fault)?;
        let version: String =
            sqlx::query_scalar("SELECT VERSION()").fetch_one(&mut *connection).await.map_err(fault)?;
        let settings: Vec<(String, String)> = sqlx::query_as(
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
             ('innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'innodb_doublewrite')",
        )
        .fetch_all(&mut *connection)
        .await
        .map_err(fault)?;
        Ok(Some(facts(&version, &settings)))
    }

    async fn guards_audit_log(&self) -> Result<bool, StoreError> {
        /// ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR.
        const DENIED: [u16; 2] = [1142, 1143];
        let mut connection = self.pool.acquire().await.map_err(fault)?;
        // Rights are looked at first, and no row fits.
        for edit in [
            "UPDATE outbox_audit_log SET actor = actor WHERE 1 = 0",
            "DELETE FROM outbox_audit_log WHERE 1 = 0",
        ] {
            match sqlx::query(edit).execute(&mut *connection).await {
                Ok(_) => return Ok(false),
                Err(sqlx::Error::Database(error))
                    if number(error.as_ref()).is_some_and(|number| DENIED.contains(&number)) => {}
                Err(error) => return Err(fault(error)),
            }
        }
        Ok(true)
    }

    async fn watch(&self, bells: &Bells) {
        mysql_bells::watch(&self.pool, bells).await
    }

    async fn tell(&self, _text: &str) -> Result<(), StoreError> {
        // It cannot: the others look.
        Ok(())
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// What these settings mean for what was committed.
fn facts(version: &str, settings: &[(String, String)]) -> ServerFacts {
    let is =
        |name: &str, value: &str| settings.iter().any(|(n, v)| n == name && v.eq_ignore_ascii_case(value));
    let safe = |name: &str| match name {
        "innodb_flush_log_at_trx_commit" => is(name, "1") || is(name, "3"),
        // Only what replicas and restored backups know of it.
        "sync_binlog" => is(name, "1") || !is("log_bin", "ON"),
        "innodb_doublewrite" => !is(name, "OFF") && !is(name, "0"),
        _ => true,
    };
    ServerFacts {
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

    fn by_key(&self, name: &str) -> String {
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
        // Without partial indexes one serves for three of SQLite's.
        let name = match name {
            "idx_outbox_waiting" | "idx_outbox_failed" => "idx_outbox_order",
            other => other,
        };
        // Statistics of a queue are always old, and a scan by the wrong index locks all it sees.
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

fn fault(error: sqlx::Error) -> StoreError {
    store_error(error, meaning)
}

pub(super) fn number(error: &dyn DatabaseError) -> Option<u16> {
    error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

/// No such user, password or database, or no rights on it, on a table or on a column.
pub(super) fn refuses_access(error: &dyn DatabaseError) -> bool {
    matches!(number(error), Some(1044 | 1045 | 1049 | 1698 | 1142 | 1143))
}

fn meaning(error: &dyn DatabaseError) -> Meaning {
    if error.is_unique_violation() {
        return Meaning::Taken;
    }
    match number(error) {
        // Deadlock, lock wait timeout, a row that changed under MariaDB's snapshot. After a lock wait timeout the server
        // keeps what the transaction did before: the session refuses to commit it.
        Some(1213 | 1205 | 1020) => Meaning::TryAgain,
        // Too many connections, of this user too, or of this host; shutting down, killed, interrupted, gone, timed out.
        Some(1040 | 1203 | 1226 | 1129 | 1053 | 1317 | 1927 | 1969 | 2006 | 2013 | 3024 | 4031) => {
            Meaning::Away
        }
        // The network, a full disk or table, a failed read or write, a server that takes no writes.
        Some(1158..=1161 | 1021 | 1114 | 1026 | 1290 | 1792 | 1836) => Meaning::Away,
        // No such user, password or database: configuration, but nobody's attempt.
        Some(1044 | 1045 | 1049 | 1698) => Meaning::Away,
        Some(_) | None => Meaning::Refused,
    }
}

fn bind(arguments: &mut MySqlArguments, value: Value) -> Result<(), sqlx::error::BoxDynError> {
    use sqlx::Arguments as _;
    match value {
        Value::Int(value) => arguments.add(value),
        Value::Text(value) => arguments.add(value),
        // As the columns are: compared with a TIMESTAMP, a DATETIME would have to be converted.
        Value::Time(value) => arguments.add(value.map(|time| time.naive_utc())),
        Value::List(_) => Err("this engine has no arrays".into()),
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

fn as_written(sql: &str) -> &str {
    sql
}

crate::engine::connection!(
    MySql, MySqlArguments, bind: bind, decode: decode, meaning: meaning, text: as_written
);
crate::engine::server_connection!(MySql, meaning);
