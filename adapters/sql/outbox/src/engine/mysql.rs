//! MySQL and MariaDB: a pool of connections at READ COMMITTED, `FOR UPDATE SKIP LOCKED`.

use std::num::NonZeroU32;

use async_trait::async_trait;
use chrono::NaiveDateTime;
use handover_outbox::ports::{DatabaseHealth, StoreError, SystemFaultKind};
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, MySql, Pool, Row as _, TypeInfo as _, ValueRef as _};

use super::mysql_error::number;
use super::mysql_settings::{LENDING, set_up};
use super::pooled::{LOCK_WAIT_S, PREPARED, Pooled, acquire, pool, probe};
use super::{mysql_catalogue, mysql_health, mysql_migrations, mysql_settings, mysql_wakeup};
use crate::connection::{Connection, Engine};
use crate::dialect::{Claiming, Dialect, Joining, RowClaiming, Sequencing};
use crate::engine_info::{ServerInfo, UnsuitableSetting};
use crate::error::{ErrorClass, driver_error, store_error};
use crate::migrations::{MigrationFile, Migrations};
use crate::pools;
use crate::prefix::TablePrefix;
use crate::value::Value;
use crate::wakeup::CommitNotifier;

pub(crate) struct MysqlEngine {
    pool: Pool<MySql>,
    connect: MySqlConnectOptions,
    prefix: TablePrefix,
}

impl MysqlEngine {
    pub(crate) fn open(
        connect: &MySqlConnectOptions,
        connections: NonZeroU32,
        prefix: TablePrefix,
    ) -> MysqlEngine {
        let connect = connect.clone().statement_cache_capacity(PREPARED).disable_statement_logging();
        let pool = pool(connections)
            .after_connect(|connection, _| Box::pin(set_up(connection)))
            .connect_lazy_with(connect.clone());
        MysqlEngine { pool, connect, prefix }
    }
}

#[async_trait]
impl Engine for MysqlEngine {
    fn dialect(&self) -> &'static dyn Dialect {
        &MysqlDialect
    }

    fn prefix(&self) -> &TablePrefix {
        &self.prefix
    }

    async fn writer(&self) -> Result<Box<dyn Connection>, StoreError> {
        let acquired = acquire(&self.pool, &self.connect, set_up).await;
        Ok(Box::new(Pooled::new(acquired.map_err(to_store_error)?, &LENDING)))
    }

    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError> {
        self.writer().await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        probe(&self.connect, set_up).await.map_err(to_store_error)
    }

    async fn migrate(&self, migrations: &Migrations) -> Result<(), StoreError> {
        // A dedicated connection: closing it releases the migration lock in every case.
        let mut connection = self.connect.connect().await.map_err(to_store_error)?;
        set_up(&mut connection).await.map_err(to_store_error)?;
        // A migration may take long. But an ALTER TABLE that waits for a transaction makes all later statements on the table
        // wait, too: it fails soon, and the migration is resumed when it is repeated.
        let settings =
            format!("SET SESSION lock_wait_timeout = {LOCK_WAIT_S} /*M! , max_statement_time = 0 */");
        sqlx::raw_sql(AssertSqlSafe(settings)).execute(&mut connection).await.map_err(to_store_error)?;
        let migrator = self.prefix.migrator(migrations, migrations.mysql);
        let done = mysql_migrations::run(connection, &self.prefix, &migrator).await;
        done.map_err(|error| crate::error::migration_error(error, classify))
    }

    fn files(&self, migrations: &Migrations) -> &'static [MigrationFile] {
        migrations.mysql
    }

    fn expected(&self, migrations: &Migrations) -> &'static str {
        migrations.schema.mysql
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

    async fn unsuitable_settings(&self) -> Result<Vec<UnsuitableSetting>, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(to_store_error)?;
        mysql_settings::unsuitable(&mut connection).await.map_err(to_store_error)
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
            // Safe: the statement is a constant with known names.
            let edit = AssertSqlSafe(self.prefix.statement(edit).into_owned());
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
        mysql_wakeup::watch(&self.pool, &self.prefix, notifier).await
    }

    async fn send_notification(&self, _text: &str) -> Result<(), StoreError> {
        // MySQL has no notifications: other processes poll.
        Ok(())
    }

    async fn health(&self) -> Result<DatabaseHealth, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(to_store_error)?;
        mysql_health::read(&mut connection).await.map_err(to_store_error)
    }

    fn report_pools(&self) {
        pools::report(pools::SERVER, &self.pool);
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

pub(crate) struct MysqlDialect;

impl Dialect for MysqlDialect {
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

    fn relations(&self) -> &'static str {
        "SELECT CAST(table_name AS CHAR) AS name, IF(table_type = 'VIEW', 'a view', 'a table') AS kind \
         FROM information_schema.tables WHERE table_schema = DATABASE()"
    }

    /// The user of the service has no right to delete rows of the table.
    fn deletable_audit_entries(&self) -> &'static str {
        "outbox_old_audit_reads"
    }

    fn catalogue(&self) -> &'static str {
        mysql_catalogue::CATALOGUE
    }

    fn claiming(&self) -> Claiming {
        Claiming::SkipLocked
    }

    fn row_claiming(&self) -> RowClaiming {
        RowClaiming::LockingRead
    }

    fn sequencing(&self) -> Sequencing {
        Sequencing::Counters
    }

    fn joining(&self) -> Joining {
        Joining::None
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

    fn primary_key(&self) -> &'static str {
        // MySQL may otherwise read every row of a status by its index.
        "FORCE INDEX (PRIMARY)"
    }

    fn failed(&self) -> String {
        self.index("idx_status_time")
    }

    fn pending(&self) -> &'static str {
        "o.pending = 1"
    }

    fn claimed(&self) -> &'static str {
        "is_claimed = 1"
    }

    // MySQL has no partial indexes.
    fn positions_indexed_from(&self) -> i64 {
        i64::MIN
    }

    fn or_replace(&self, _key: &str, columns: &[&str]) -> String {
        let sets: Vec<String> = columns.iter().map(|column| format!("{column} = VALUES({column})")).collect();
        format!("ON DUPLICATE KEY UPDATE {}", sets.join(", "))
    }

    fn or_ignore(&self, _key: &str) -> String {
        // INSERT IGNORE would also truncate texts that are too long.
        "ON DUPLICATE KEY UPDATE duplicates = duplicates + 1".to_owned()
    }

    fn or_keep(&self, key: &str, columns: &[&str]) -> String {
        // With CLIENT_FOUND_ROWS, an existing row that gets no other value counts like a new one.
        self.or_replace(key, columns)
    }

    fn inserted(&self, rows: u64, affected: u64) -> u64 {
        // A new row counts as 1, an updated one as 2.
        (2 * rows).saturating_sub(affected)
    }

    fn sum(&self, of: &str) -> String {
        format!("CAST(SUM({of}) AS SIGNED)")
    }
}

fn to_store_error(error: sqlx::Error) -> StoreError {
    store_error(error, classify)
}

/// Error of a statement that appends events on a connection of an application: the counter is NULL outside of a transaction.
pub(crate) fn append_error(error: StoreError) -> StoreError {
    /// ER_BAD_NULL_ERROR. No other value of these statements can be NULL.
    const NULL: u16 = 1048;
    let reported = driver_error(&error).and_then(sqlx::Error::as_database_error);
    if reported.and_then(number) == Some(NULL) {
        let why = "the database has rolled the transaction back, because of a deadlock or a lock timeout, and would commit each further \
                   statement by itself; begin the transaction again";
        return StoreError::Transient(why.into());
    }
    error
}

pub(crate) fn classify(error: &dyn DatabaseError) -> ErrorClass {
    if error.is_unique_violation() {
        return ErrorClass::UniqueViolation;
    }
    number(error).map_or(ErrorClass::Permanent, class_of)
}

/// Class of an error number of the server (ER_*), or of its file layer (EE_*, below 100).
const fn class_of(number: u16) -> ErrorClass {
    match number {
        // Deadlock, lock wait timeout, a lock that is not available at once, a row changed since MariaDB's snapshot, a
        // statement that has to be prepared again. After a lock wait timeout the server keeps the earlier changes of the transaction; the session does
        // not commit them.
        1213 | 1205 | 3572 | 1020 | 1615 => ErrorClass::Transient,
        // Blocked host, server shutdown, interrupted statement, killed or lost connection, timed-out statement or
        // client.
        1129 | 1053 | 1317 | 1927 | 1969 | 2006 | 2013 | 3024 | 4031 => ErrorClass::Unavailable,
        // Network errors.
        1158..=1161 => ErrorClass::Unavailable,
        // Refused login, unknown database, missing privileges on a database, table, column or routine, or for an
        // operation; an unknown definer.
        1044 | 1045 | 1049 | 1698 | 1142 | 1143 | 1227 | 1370 | 1449 => {
            ErrorClass::RolledBack(SystemFaultKind::Rights)
        }
        // Unknown table, column or routine, an invalid view.
        1054 | 1109 | 1146 | 1305 | 1356 => ErrorClass::RolledBack(SystemFaultKind::Schema),
        // A read-only server, transaction, table or engine.
        1036 | 1290 | 1792 | 1836 | 1874 => ErrorClass::RolledBack(SystemFaultKind::ReadOnly),
        // Failed reads and writes of files, a full disk or table, no memory for a sort or temporary table.
        1..=35 | 1004 | 1016 | 1021 | 1023 | 1024 | 1026 | 1030 | 1037 | 1038 | 1041 | 1114 | 1932 => {
            ErrorClass::Fault(SystemFaultKind::Storage)
        }
        // Too many connections (in total or per user) or threads, prepared statements or locks.
        1040 | 1203 | 1226 | 1135 | 1461 | 1206 => ErrorClass::Fault(SystemFaultKind::Limit),
        _ => ErrorClass::Permanent,
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
    MySql, sqlx::MySqlConnection, MySqlArguments, bind: bind, decode: decode, classify: classify, text: unchanged
);
crate::engine::server_connection!(MySql, classify);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_distinguished_from_errors_of_a_statement() {
        let rolled_back = ErrorClass::RolledBack;
        let fault = ErrorClass::Fault;
        for (numbers, class) in [
            (&[1142, 1143, 1044, 1227][..], rolled_back(SystemFaultKind::Rights)),
            (&[1146, 1054], rolled_back(SystemFaultKind::Schema)),
            (&[1290, 1792, 1836], rolled_back(SystemFaultKind::ReadOnly)),
            (&[3, 28, 1021, 1026, 1030, 1037, 1038, 1041, 1114], fault(SystemFaultKind::Storage)),
            (&[1040, 1203, 1226, 1461], fault(SystemFaultKind::Limit)),
            (&[1205, 1213, 3572], ErrorClass::Transient),
            (&[1053, 1927, 2013], ErrorClass::Unavailable),
            // Data too long, out of range, a violated check, a syntax error.
            (&[1406, 1264, 4025, 1064], ErrorClass::Permanent),
        ] {
            assert!(numbers.iter().all(|number| class_of(*number) == class), "{numbers:?}");
        }
    }
}
