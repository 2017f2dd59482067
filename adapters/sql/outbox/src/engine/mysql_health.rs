//! Health of a MySQL or MariaDB server.

use std::time::Duration;

use handover_outbox::ports::DatabaseHealth;
use sqlx::MySqlConnection;

use super::mysql_error::number;

/// InnoDB shows the begin of a transaction in the time zone of the operating system.
const OLDEST_MS: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, CONVERT_TZ(MIN(trx_started), 'SYSTEM', '+00:00'), \
     UTC_TIMESTAMP(6)) DIV 1000 FROM information_schema.innodb_trx WHERE trx_mysql_thread_id <> CONNECTION_ID()";
const HISTORY_LENGTH: &str = "SELECT CAST(`COUNT` AS SIGNED) FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'";

/// ER_SPECIFIC_ACCESS_DENIED_ERROR: the user does not have the privilege PROCESS.
const DENIED: u16 = 1227;

pub(super) async fn read(connection: &mut MySqlConnection) -> Result<DatabaseHealth, sqlx::Error> {
    let oldest_ms = if_allowed(sqlx::query_scalar(OLDEST_MS).fetch_one(&mut *connection).await)?;
    let length = if_allowed(sqlx::query_scalar(HISTORY_LENGTH).fetch_one(&mut *connection).await)?;
    // Without an open transaction the age is NULL.
    let millis = |ms: Option<i64>| Duration::from_millis(ms.unwrap_or_default().max(0).unsigned_abs());
    Ok(DatabaseHealth {
        oldest_transaction: oldest_ms.map(millis),
        dead_rows: None,
        history_length: length.flatten().map(i64::unsigned_abs),
    })
}

/// A value that the server does not show to this user, or does not have, is no error.
fn if_allowed(value: Result<Option<i64>, sqlx::Error>) -> Result<Option<Option<i64>>, sqlx::Error> {
    match value {
        Ok(value) => Ok(Some(value)),
        Err(sqlx::Error::Database(error)) if number(error.as_ref()) == Some(DENIED) => Ok(None),
        Err(sqlx::Error::RowNotFound) => Ok(None),
        Err(error) => Err(error),
    }
}
