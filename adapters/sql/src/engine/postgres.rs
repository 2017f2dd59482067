//! PostgreSQL: a pool of connections, `FOR UPDATE SKIP LOCKED`, numbered parameters.
//!
//! It has no migrations yet. That it compiles proves that an engine needs a dialect and no new repository.

use std::time::Duration;

use async_trait::async_trait;
use handover_application::ports::StoreError;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgArguments, PgPoolOptions, PgRow};
use sqlx::{Pool, Postgres, Row as _, TypeInfo as _, ValueRef as _};

use crate::connection::{Connection, Engine};
use crate::dialect::{Claiming, Dialect, numbered};
use crate::fault::{Meaning, store_error};
use crate::value::Value;

pub(crate) struct PostgresEngine {
    pool: Pool<Postgres>,
}

impl PostgresEngine {
    pub(crate) fn open(url: &str) -> Result<PostgresEngine, StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(8)
            .acquire_timeout(Duration::from_secs(5))
            // The rollback that the driver's own transactions forget when a future is dropped in `begin`;
            // outside of a transaction it is a warning.
            .after_release(|connection, _| {
                Box::pin(async move { Ok(sqlx::query("ROLLBACK").execute(connection).await.is_ok()) })
            })
            .connect_lazy(url)
            .map_err(fault)?;
        Ok(PostgresEngine { pool })
    }
}

#[async_trait]
impl Engine for PostgresEngine {
    fn dialect(&self) -> &'static dyn Dialect {
        &PostgresDialect
    }

    async fn writer(&self) -> Result<Box<dyn Connection>, StoreError> {
        Ok(Box::new(self.pool.acquire().await.map_err(fault)?))
    }

    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError> {
        self.writer().await
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        Err(StoreError::Backend("there are no migrations for PostgreSQL yet".into()))
    }

    async fn schema_version(&self) -> Result<(Option<i64>, i64), StoreError> {
        Ok((None, 0))
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

pub(crate) struct PostgresDialect;

impl Dialect for PostgresDialect {
    fn begin(&self) -> &'static str {
        "BEGIN"
    }

    fn now(&self) -> &'static str {
        "SELECT clock_timestamp() AS now"
    }

    fn for_update(&self) -> &'static str {
        "FOR UPDATE"
    }

    fn claiming(&self) -> Claiming {
        Claiming::SkipLocked
    }

    fn index(&self, _name: &str) -> String {
        String::new()
    }

    fn or_replace(&self, key: &str, columns: &[&str]) -> String {
        let sets: Vec<String> =
            columns.iter().map(|column| format!("{column} = excluded.{column}")).collect();
        format!("ON CONFLICT ({key}) DO UPDATE SET {}", sets.join(", "))
    }
}

fn fault(error: sqlx::Error) -> StoreError {
    store_error(error, meaning)
}

fn meaning(error: &dyn DatabaseError) -> Meaning {
    if error.is_unique_violation() {
        return Meaning::Taken;
    }
    match error.code().as_deref() {
        // Serialization failure, deadlock, lock not available.
        Some("40001" | "40P01" | "55P03") => Meaning::TryAgain,
        // Connection lost, out of resources, shutting down.
        Some(code) if ["08", "53", "57"].iter().any(|class| code.starts_with(class)) => Meaning::Away,
        Some(_) | None => Meaning::Refused,
    }
}

crate::engine::bind_natively!(PgArguments);

fn decode(row: &PgRow, index: usize) -> Result<Value, sqlx::Error> {
    let raw = row.try_get_raw(index)?;
    if raw.is_null() {
        return Ok(Value::Text(None));
    }
    Ok(match raw.type_info().name() {
        "INT8" => Value::Int(Some(row.try_get(index)?)),
        "INT4" => Value::Int(Some(i64::from(row.try_get::<i32, _>(index)?))),
        "INT2" => Value::Int(Some(i64::from(row.try_get::<i16, _>(index)?))),
        "BOOL" => Value::Int(Some(i64::from(row.try_get::<bool, _>(index)?))),
        "TIMESTAMPTZ" => Value::Time(Some(row.try_get(index)?)),
        _ => Value::Text(Some(row.try_get(index)?)),
    })
}

crate::engine::connection!(
    Postgres, PgArguments, bind: bind, decode: decode, meaning: meaning, text: numbered
);
