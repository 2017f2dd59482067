//! Session settings on MySQL and MariaDB, and settings that a connection cannot change.

use sqlx::mysql::MySqlConnection;

use super::mysql_error::number;
use super::pooled::{IDLE_IN_TRANSACTION_S, LOCK_WAIT_S, STATEMENT_S};
use crate::engine_info::UnsuitableSetting;

/// ER_OPTION_PREVENTS_STATEMENT.
const OPTION_PREVENTS: u16 = 1290;
/// The server closes connections that are idle for longer, in seconds; its default.
const WAIT_S: u32 = 28_800;
/// Smallest `max_allowed_packet` with which every statement and row can be transferred.
const MIN_PACKET: u64 = 1_048_576;

/// Session settings of every connection, independent of the server's defaults and of `init_connect`.
pub(super) async fn set_up(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let settings = format!(
        // READ COMMITTED, because REPEATABLE READ (the default) mixes snapshot reads with current locked rows, and
        // locks gaps. Strict mode, because without it strings and numbers that do not fit are truncated silently.
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; SET NAMES utf8mb4; \
         SET SESSION autocommit = 1, completion_type = 0, \
         sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
         sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_safe_updates = 0, sql_auto_is_null = 0, \
         foreign_key_checks = 1, unique_checks = 1, wait_timeout = {WAIT_S}, \
         innodb_lock_wait_timeout = {LOCK_WAIT_S}, lock_wait_timeout = {LOCK_WAIT_S} \
         /*M! , idle_transaction_timeout = {IDLE_IN_TRANSACTION_S}, max_statement_time = {STATEMENT_S} */ \
         /*!50708 , max_execution_time = {STATEMENT_S}000 */"
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

/// Settings of the server under which the store cannot write.
pub(super) async fn unsuitable(
    connection: &mut MySqlConnection,
) -> Result<Vec<UnsuitableSetting>, sqlx::Error> {
    let mut found = Vec::new();
    let packet: u64 = sqlx::query_scalar("SELECT @@max_allowed_packet").fetch_one(&mut *connection).await?;
    if packet < MIN_PACKET {
        found.push(UnsuitableSetting {
            setting: "max_allowed_packet",
            value: packet.to_string(),
            why: "the server rejects statements that write many events or long texts",
            remedy: "set max_allowed_packet to 1M or more (the default is 16M)",
        });
    }
    // Only users who may write in spite of `read_only` may begin such a transaction.
    match sqlx::raw_sql("START TRANSACTION READ WRITE; ROLLBACK").execute(connection).await {
        Ok(_) => {}
        Err(sqlx::Error::Database(error)) if number(error.as_ref()) == Some(OPTION_PREVENTS) => {
            found.push(UnsuitableSetting {
                setting: "read_only",
                value: "ON".to_owned(),
                why: "the server refuses writes of this user",
                remedy: "name the primary server in database.url, or set read_only = OFF",
            });
        }
        Err(error) => return Err(error),
    }
    Ok(found)
}
