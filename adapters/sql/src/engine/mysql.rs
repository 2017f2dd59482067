//! MySQL and MariaDB: a pool of connections at READ COMMITTED, `FOR UPDATE SKIP LOCKED`.
//!
//! It has no migrations yet. That it compiles proves that an engine needs a dialect and no new repository.

use std::time::Duration;

use async_trait::async_trait;
use chrono::NaiveDateTime;
use handover_application::ports::StoreError;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlArguments, MySqlDatabaseError, MySqlPoolOptions, MySqlRow};
use sqlx::{MySql, Pool, Row as _, TypeInfo as _, ValueRef as _};

use crate::connection::{Connection, Engine};
use crate::dialect::{Claiming, Dialect};
use crate::fault::{Meaning, store_error};
use crate::value::Value;

pub(crate) struct MysqlEngine {
    pool: Pool<MySql>,
}

impl MysqlEngine {
    pub(crate) fn open(url: &str) -> Result<MysqlEngine, StoreError> {
        let pool = MySqlPoolOptions::new()
            .max_connections(8)
            .acquire_timeout(Duration::from_secs(5))
            // REPEATABLE READ, the default, reads old rows beside locked new ones and locks gaps.
            .after_connect(|connection, _| {
                Box::pin(async move {
                    let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
                    sqlx::query(level).execute(connection).await.map(|_| ())
                })
            })
            // The rollback that the driver's own transactions forget when a future is dropped in `begin`.
            .after_release(|connection, _| {
                Box::pin(async move { Ok(sqlx::query("ROLLBACK").execute(connection).await.is_ok()) })
            })
            .connect_lazy(url)
            .map_err(fault)?;
        Ok(MysqlEngine { pool })
    }
}

#[async_trait]
impl Engine for MysqlEngine {
    fn dialect(&self) -> &'static dyn Dialect {
        &MysqlDialect
    }

    async fn writer(&self) -> Result<Box<dyn Connection>, StoreError> {
        Ok(Box::new(self.pool.acquire().await.map_err(fault)?))
    }

    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError> {
        self.writer().await
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        Err(StoreError::Backend("there are no migrations for MySQL yet".into()))
    }

    async fn schema_version(&self) -> Result<(Option<i64>, i64), StoreError> {
        Ok((None, 0))
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

pub(crate) struct MysqlDialect;

impl Dialect for MysqlDialect {
    fn begin(&self) -> &'static str {
        "START TRANSACTION"
    }

    fn now(&self) -> &'static str {
        "SELECT UTC_TIMESTAMP(6) AS now"
    }

    fn for_update(&self) -> &'static str {
        "FOR UPDATE"
    }

    fn claiming(&self) -> Claiming {
        Claiming::SkipLocked
    }

    fn index(&self, _name: &str) -> String {
        // No partial indexes: the names are SQLite's.
        String::new()
    }

    fn or_replace(&self, _key: &str, columns: &[&str]) -> String {
        let sets: Vec<String> = columns.iter().map(|column| format!("{column} = VALUES({column})")).collect();
        format!("ON DUPLICATE KEY UPDATE {}", sets.join(", "))
    }
}

fn fault(error: sqlx::Error) -> StoreError {
    store_error(error, meaning)
}

fn meaning(error: &dyn DatabaseError) -> Meaning {
    if error.is_unique_violation() {
        return Meaning::Taken;
    }
    match error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number) {
        // Deadlock, lock wait timeout.
        Some(1213 | 1205) => Meaning::TryAgain,
        // Too many connections, shutting down, killed, gone.
        Some(1040 | 1053 | 1927 | 2006 | 2013) => Meaning::Away,
        Some(_) | None => Meaning::Refused,
    }
}

crate::engine::bind_natively!(MySqlArguments);

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
