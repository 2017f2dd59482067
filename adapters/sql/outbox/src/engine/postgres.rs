//! PostgreSQL: a pool of connections, `FOR UPDATE SKIP LOCKED`, numbered parameters.

use std::num::NonZeroU32;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{DatabaseHealth, StoreError, SystemFaultKind};
use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgDatabaseError, PgRow, PgValueRef};
use sqlx::{ConnectOptions as _, Connection as _, Pool, Postgres, Row as _, TypeInfo as _, ValueRef as _};

use super::pooled::{MIGRATION_WAIT_S, PREPARED, Pooled, acquire, pool, probe};
use super::postgres_settings::{self, LENDING, set_up};
use super::{postgres_catalogue, postgres_health, postgres_wakeup};
use crate::connection::{Connection, Engine};
use crate::dialect::{
    Claiming, Dialect, Joining, LookUp, RowClaiming, Sequencing, insert_values, numbered, placeholders,
};
use crate::engine_info::{ServerInfo, UnsuitableSetting};
use crate::error::{ErrorClass, store_error};
use crate::migrations::{MigrationFile, Migrations};
use crate::pools;
use crate::prefix::TablePrefix;
use crate::value::Value;
use crate::wakeup::CommitNotifier;

pub(crate) struct PostgresEngine {
    pool: Pool<Postgres>,
    connect: PgConnectOptions,
    prefix: TablePrefix,
}

impl PostgresEngine {
    pub(crate) fn open(
        connect: &PgConnectOptions,
        connections: NonZeroU32,
        prefix: TablePrefix,
    ) -> PostgresEngine {
        let name = connect.get_application_name().unwrap_or("handover");
        let connect = connect
            .clone()
            .application_name(name)
            .statement_cache_capacity(PREPARED)
            .disable_statement_logging();
        let pool = pool(connections)
            .after_connect(|connection, _| Box::pin(set_up(connection)))
            .connect_lazy_with(connect.clone());
        PostgresEngine { pool, connect, prefix }
    }
}

#[async_trait]
impl Engine for PostgresEngine {
    fn dialect(&self) -> &'static dyn Dialect {
        &PostgresDialect
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
        // A dedicated connection: closing it releases the advisory lock in every case.
        let mut connection = self.connect.connect().await.map_err(to_store_error)?;
        set_up(&mut connection).await.map_err(to_store_error)?;
        // A migration may take long, but without `lock_timeout` the driver waits for the migration lock indefinitely.
        let settings = format!(
            "SET lock_timeout = '{MIGRATION_WAIT_S}s'; SET statement_timeout = 0; \
             SET enable_seqscan = on; SET enable_bitmapscan = on"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(settings))
            .execute(&mut connection)
            .await
            .map_err(to_store_error)?;
        let migrator = self.prefix.migrator(migrations, migrations.postgres);
        migrator.run_direct(None, &mut connection, false).await.map_err(migration_error)?;
        connection.close().await.map_err(to_store_error)
    }

    fn files(&self, migrations: &Migrations) -> &'static [MigrationFile] {
        migrations.postgres
    }

    fn expected(&self, migrations: &Migrations) -> &'static str {
        migrations.schema.postgres
    }

    async fn server_info(&self) -> Result<Option<ServerInfo>, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(to_store_error)?;
        let settings: Vec<(String, String)> = sqlx::query_as(
            "SELECT name, setting FROM pg_settings \
             WHERE name IN ('server_version', 'fsync', 'full_page_writes', 'synchronous_commit') ORDER BY name",
        )
        .fetch_all(&mut *connection)
        .await
        .map_err(to_store_error)?;
        let version =
            settings.iter().find(|(name, _)| name == "server_version").map(|(_, value)| value.as_str());
        Ok(Some(ServerInfo {
            version: format!("PostgreSQL {}", version.unwrap_or_default()),
            unsafe_settings: settings
                .iter()
                .filter(|(name, value)| name != "server_version" && value == "off")
                .map(|(name, value)| format!("{name} = {value}"))
                .collect(),
        }))
    }

    async fn unsuitable_settings(&self) -> Result<Vec<UnsuitableSetting>, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(to_store_error)?;
        postgres_settings::unsuitable(&mut connection).await.map_err(to_store_error)
    }

    async fn watch(&self, notifier: &CommitNotifier) {
        postgres_wakeup::watch(&self.connect, &self.prefix, notifier).await
    }

    async fn send_notification(&self, text: &str) -> Result<(), StoreError> {
        let mut connection = self.pool.acquire().await.map_err(to_store_error)?;
        postgres_wakeup::notify(&mut connection, &self.prefix, text).await.map_err(to_store_error)
    }

    async fn health(&self) -> Result<DatabaseHealth, StoreError> {
        let mut connection = self.pool.acquire().await.map_err(to_store_error)?;
        postgres_health::read(&mut connection, &self.prefix).await.map_err(to_store_error)
    }

    fn report_pools(&self) {
        pools::report(pools::SERVER, &self.pool);
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

pub(crate) struct PostgresDialect;

impl Dialect for PostgresDialect {
    fn explain(&self) -> &'static str {
        "EXPLAIN"
    }

    fn lock_index(&self, _name: &str) -> String {
        String::new()
    }

    fn now(&self) -> &'static str {
        "SELECT clock_timestamp() AS now"
    }

    fn for_update(&self) -> &'static str {
        "FOR UPDATE"
    }

    fn skip_locked(&self) -> &'static str {
        "FOR UPDATE SKIP LOCKED"
    }

    fn tables(&self) -> &'static str {
        "SELECT tablename::text AS name FROM pg_tables WHERE schemaname = current_schema()"
    }

    fn relations(&self) -> &'static str {
        "SELECT relname::text AS name, CASE relkind WHEN 'i' THEN 'an index' WHEN 'I' THEN 'an index' \
         WHEN 'S' THEN 'a sequence' WHEN 'v' THEN 'a view' WHEN 'm' THEN 'a view' WHEN 'c' THEN 'a type' \
         ELSE 'a table' END AS kind \
         FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
    }

    fn catalogue(&self) -> &'static str {
        postgres_catalogue::CATALOGUE
    }

    fn hexadecimal(&self, column: &str) -> String {
        format!("upper(encode({column}, 'hex'))")
    }

    fn claiming(&self) -> Claiming {
        Claiming::SkipLocked
    }

    fn row_claiming(&self) -> RowClaiming {
        RowClaiming::AdvisoryLock
    }

    fn sequencing(&self) -> Sequencing {
        Sequencing::CountersInStatement
    }

    fn joining(&self) -> Joining {
        Joining::CommonTableExpressions
    }

    fn index(&self, _name: &str) -> String {
        // PostgreSQL has no index hints. With the settings of `set_up`, a partial index is the cheapest plan for any
        // statistics.
        String::new()
    }

    fn failed(&self) -> String {
        String::new()
    }

    fn pending(&self) -> &'static str {
        // PostgreSQL estimates a high cost for the index of pending rows if its dead entries make it large and its statistics
        // happen to contain a pending row. With `status IN (..)` it would then read all rows of `idx_status_time`, dead ones
        // included, and sort them. It cannot search that index by a disjunction whose terms differ.
        "(o.status = 'NEW' OR (o.status = 'RETRY' AND o.retry_count >= 0)) AND o.retry_count >= 0"
    }

    fn oldest_ready(&self) -> String {
        // With `queue = q.queue ORDER BY id`, PostgreSQL may read all messages in the order of the primary key. Only the index
        // of ready messages has this order.
        "SELECT CASE WHEN m.queue = q.queue THEN m.enqueued_at END FROM outbox_broker_messages m \
         WHERE m.queue >= q.queue AND m.session_id IS NULL ORDER BY m.queue, m.id LIMIT 1"
            .to_owned()
    }

    fn or_replace(&self, key: &str, columns: &[&str]) -> String {
        let sets: Vec<String> =
            columns.iter().map(|column| format!("{column} = excluded.{column}")).collect();
        format!("ON CONFLICT ({key}) DO UPDATE SET {}", sets.join(", "))
    }

    fn sum(&self, of: &str) -> String {
        format!("CAST(sum({of}) AS BIGINT)")
    }

    fn position_in(&self, column: &str) -> String {
        format!("strpos({column}, ?)")
    }

    fn unindexed(&self, column: &str) -> String {
        format!("COALESCE({column}, {column})")
    }

    fn opaque_literal(&self, text: &str) -> String {
        format!("(SELECT '{text}')")
    }

    fn left_join_one(&self, table: &str, alias: &str, _key: &str, on: &str) -> String {
        // Without LIMIT the planner treats the subquery as an ordinary join, planned for the table size at prepare
        // time.
        format!("LEFT JOIN LATERAL (SELECT * FROM {table} {alias} WHERE {on} LIMIT 1) AS {alias} ON TRUE")
    }

    fn look_up(&self, by: LookUp<'_>) -> (String, Vec<Value>) {
        let LookUp { columns, from, joined, column, keys, conditions, values, order, lock } = by;
        let (join, join_values) = joined;
        let order = if order.is_empty() { String::new() } else { format!("ORDER BY {order}") };
        // Sorted keys give a fixed lock order. OFFSET 0 prevents the planner from merging the lateral subquery into the
        // outer query.
        let sql = format!(
            "SELECT r.* FROM (SELECT DISTINCT k FROM unnest(?) AS listed (k) ORDER BY k) AS listed \
             CROSS JOIN LATERAL (SELECT {columns} FROM {from} {join} WHERE {column} = listed.k AND {conditions} \
             OFFSET 0 {lock}) AS r {order}",
        );
        let bound = [Value::List(keys)].into_iter().chain(join_values).chain(values).collect();
        (sql, bound)
    }

    fn insert(
        &self,
        into: &str,
        columns: usize,
        values: Vec<Value>,
        after: &str,
    ) -> Vec<(String, Vec<Value>)> {
        if values.len() <= columns {
            return insert_values(into, columns, values, after);
        }
        // Each column is bound as one array, so that a single statement with few parameters inserts any number of rows.
        let mut lists = vec![Vec::with_capacity(values.len() / columns); columns];
        for (index, value) in values.into_iter().enumerate() {
            lists[index % columns].push(value);
        }
        let sql = format!("{into} SELECT * FROM unnest({}) {after}", placeholders(columns));
        vec![(sql, lists.into_iter().map(Value::List).collect())]
    }
}

fn to_store_error(error: sqlx::Error) -> StoreError {
    store_error(error, classify)
}

fn migration_error(error: MigrateError) -> StoreError {
    crate::error::migration_error(error, classify)
}

/// Unknown user or database, wrong password, or missing privileges on the database or a table.
pub(super) fn refuses_access(error: &dyn DatabaseError) -> bool {
    let code = error.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::code);
    matches!(code, Some("28000" | "28P01" | "3D000" | "42501"))
}

pub(crate) fn classify(error: &dyn DatabaseError) -> ErrorClass {
    if error.is_unique_violation() {
        return ErrorClass::UniqueViolation;
    }
    error.code().as_deref().map_or(ErrorClass::Permanent, class_of)
}

/// Class of an SQLSTATE.
fn class_of(code: &str) -> ErrorClass {
    match code {
        // Serialization failure, deadlock, lock not available.
        "40001" | "40P01" | "55P03" => ErrorClass::Transient,
        // Refused login, unknown database, missing privileges.
        "28000" | "28P01" | "3D000" | "42501" => ErrorClass::RolledBack(SystemFaultKind::Rights),
        // Unknown table, column, function or schema.
        "42P01" | "42703" | "42883" | "3F000" => ErrorClass::RolledBack(SystemFaultKind::Schema),
        // A standby, or a transaction that is read-only by default.
        "25006" => ErrorClass::RolledBack(SystemFaultKind::ReadOnly),
        // Full disk, out of memory.
        "53100" | "53200" => ErrorClass::Fault(SystemFaultKind::Storage),
        // Idle-in-transaction timeout: the server closed the connection.
        "25P03" => ErrorClass::Unavailable,
        // Too many connections, configuration limit exceeded.
        _ if code.starts_with("53") => ErrorClass::Fault(SystemFaultKind::Limit),
        // Failed reads and writes of files.
        _ if code.starts_with("58") => ErrorClass::Fault(SystemFaultKind::Storage),
        // Connection lost, shutdown, cancelled (also by `statement_timeout`).
        _ if code.starts_with("08") || code.starts_with("57") => ErrorClass::Unavailable,
        _ => ErrorClass::Permanent,
    }
}

fn bind(arguments: &mut PgArguments, value: Value) -> Result<(), sqlx::error::BoxDynError> {
    use sqlx::Arguments as _;
    match value {
        Value::Int(value) => arguments.add(value),
        Value::Text(value) => arguments.add(value),
        Value::Time(value) => arguments.add(value),
        Value::List(values) => match values.first() {
            Some(Value::Int(_)) | None => arguments
                .add(list(values, |value| if let Value::Int(value) = value { Some(value) } else { None })?),
            Some(Value::Text(_)) => arguments
                .add(list(values, |value| if let Value::Text(value) = value { Some(value) } else { None })?),
            Some(Value::Time(_)) => arguments
                .add(list(values, |value| if let Value::Time(value) = value { Some(value) } else { None })?),
            Some(Value::List(_)) => Err("arrays of arrays are not supported".into()),
        },
    }
}

/// The elements of an array; fails if they differ in type.
fn list<T>(values: Vec<Value>, of: impl Fn(Value) -> Option<T>) -> Result<Vec<T>, sqlx::error::BoxDynError> {
    let members: Option<Vec<T>> = values.into_iter().map(of).collect();
    members.ok_or_else(|| "the elements of an array differ in type".into())
}

fn decode(row: &PgRow, index: usize) -> Result<Value, sqlx::Error> {
    let raw = row.try_get_raw(index)?;
    if raw.is_null() {
        return Ok(Value::Text(None));
    }
    Ok(match raw.type_info().name() {
        "INT8" => Value::Int(Some(row.try_get_unchecked(index)?)),
        "INT4" => Value::Int(Some(i64::from(row.try_get::<i32, _>(index)?))),
        "INT2" => Value::Int(Some(i64::from(row.try_get::<i16, _>(index)?))),
        "BOOL" => Value::Int(Some(i64::from(row.try_get::<bool, _>(index)?))),
        "TIMESTAMPTZ" => Value::Time(Some(time(&raw)?)),
        "TEXT" | "VARCHAR" => Value::Text(Some(row.try_get_unchecked(index)?)),
        _ => Value::Text(Some(row.try_get(index)?)),
    })
}

/// The PostgreSQL epoch, 2000-01-01, in microseconds since 1970-01-01.
const EPOCH_US: i64 = 946_684_800_000_000;

/// Decodes a timestamp. The driver's own conversion panics at `infinity` and at years outside chrono's range.
fn time(raw: &PgValueRef<'_>) -> Result<DateTime<Utc>, sqlx::Error> {
    let bytes = raw.as_bytes().map_err(sqlx::Error::Decode)?;
    // Statements that return rows are prepared, so a timestamp arrives in binary format: eight bytes.
    let bytes = <[u8; 8]>::try_from(bytes).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    let micros = i64::from_be_bytes(bytes).checked_add(EPOCH_US);
    micros
        .and_then(DateTime::from_timestamp_micros)
        .ok_or_else(|| sqlx::Error::Decode("the timestamp is infinite or out of range".into()))
}

crate::engine::connection!(
    Postgres, sqlx::PgConnection, PgArguments, bind: bind, decode: decode, classify: classify, text: numbered
);
crate::engine::server_connection!(Postgres, classify);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_distinguished_from_errors_of_a_statement() {
        let rolled_back = ErrorClass::RolledBack;
        let fault = ErrorClass::Fault;
        for (codes, class) in [
            (&["42501", "28P01", "3D000"][..], rolled_back(SystemFaultKind::Rights)),
            (&["42P01", "42703", "42883", "3F000"], rolled_back(SystemFaultKind::Schema)),
            (&["25006"], rolled_back(SystemFaultKind::ReadOnly)),
            (&["53100", "53200", "58030"], fault(SystemFaultKind::Storage)),
            (&["53300", "53400"], fault(SystemFaultKind::Limit)),
            (&["40001", "40P01", "55P03"], ErrorClass::Transient),
            (&["08006", "57P01", "57014", "25P03"], ErrorClass::Unavailable),
            // String too long, out of range, a violated check, a syntax error.
            (&["22001", "22003", "23514", "42601"], ErrorClass::Permanent),
        ] {
            assert!(codes.iter().all(|code| class_of(code) == class), "{codes:?}");
        }
    }
}
