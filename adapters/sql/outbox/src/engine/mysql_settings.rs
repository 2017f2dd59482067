//! Session settings on MySQL and MariaDB, and settings that a connection cannot change.

use std::sync::LazyLock;

use sqlx::mysql::MySqlConnection;

use super::mysql_error::number;
use super::pooled::{IDLE_IN_TRANSACTION_S, LOCK_WAIT_S, Lending, STATEMENT_S};
use crate::engine_info::UnsuitableSetting;

/// ER_OPTION_PREVENTS_STATEMENT.
const OPTION_PREVENTS: u16 = 1290;
/// The server closes connections that are idle for longer, in seconds; its default.
const WAIT_S: u32 = 28_800;
/// Smallest `max_allowed_packet` with which every statement and row can be transferred.
const MIN_PACKET: u64 = 1_048_576;

/// Session settings for the statements of the store. The statements of an application on a lent connection run without
/// them. Strict mode, because without it strings and numbers that do not fit are truncated silently.
fn of_statements() -> [(&'static str, String); 9] {
    [
        ("sql_mode", "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'".to_owned()),
        ("sql_select_limit", "18446744073709551615".to_owned()),
        ("sql_big_selects", "1".to_owned()),
        ("sql_safe_updates", "0".to_owned()),
        ("sql_auto_is_null", "0".to_owned()),
        ("foreign_key_checks", "1".to_owned()),
        ("unique_checks", "1".to_owned()),
        ("innodb_lock_wait_timeout", LOCK_WAIT_S.to_string()),
        ("lock_wait_timeout", LOCK_WAIT_S.to_string()),
    ]
}

/// `SET SESSION` with one assignment for each of these settings, for the time limit of a statement, which has another
/// name and unit on MariaDB than on MySQL, and for that of an idle transaction, which MySQL does not have.
fn set(assignment: impl Fn(&str, &str) -> String) -> String {
    let assignments = of_statements().map(|(name, value)| assignment(name, &value)).join(", ");
    let on_mariadb =
        [("max_statement_time", STATEMENT_S), ("idle_transaction_timeout", IDLE_IN_TRANSACTION_S)]
            .map(|(name, seconds)| assignment(name, &seconds.to_string()))
            .join(", ");
    let on_mysql = assignment("max_execution_time", &format!("{STATEMENT_S}000"));
    format!("SET {assignments} /*M! , {on_mariadb} */ /*!50708 , {on_mysql} */")
}

fn set_own() -> String {
    set(|name, value| format!("SESSION {name} = {value}"))
}

/// Ends the effect of `autocommit = 0`. In a transaction it would commit.
const AUTOCOMMIT: &str = "SET SESSION autocommit = 1";

/// MySQL reverts no setting at the end of a transaction, so [`set_up`] keeps those of the server in variables. The end of a
/// transaction removes every savepoint.
///
/// A deadlock rolls back the whole transaction. With autocommit, each statement that an application runs after it, because it
/// ignores the error, would be committed; without, they are a transaction that is rolled back.
pub(super) static LENDING: LazyLock<Lending> = LazyLock::new(|| {
    let of_server = set(|name, _| format!("SESSION {name} = @handover_{name}"));
    Lending {
        lend: format!("SAVEPOINT handover_lent; SET SESSION autocommit = 0; {of_server}"),
        reclaim: format!("RELEASE SAVEPOINT handover_lent; {}", set_own()),
        reclaimed_rows: 0,
        after_commit: Some(AUTOCOMMIT),
        after_rollback: Some(format!("{AUTOCOMMIT}; {}", set_own())),
    }
});

/// Sets the session settings of the store, independent of the server's defaults and of `init_connect`.
pub(super) async fn set_up(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let settings = format!(
        // READ COMMITTED, because REPEATABLE READ (the default) mixes snapshot reads with current locked rows, and
        // locks gaps.
        "{kept}; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; SET NAMES utf8mb4; {own}; \
         SET SESSION autocommit = 1, completion_type = 0, wait_timeout = {WAIT_S}",
        kept = set(|name, _| format!("@handover_{name} = @@SESSION.{name}")),
        own = set_own(),
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
                remedy: "connect to the primary server, or set read_only = OFF",
            });
        }
        Err(error) => return Err(error),
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_of_the_store_are_not_in_force_while_a_connection_is_lent() {
        let after_rollback = LENDING.after_rollback.as_deref().unwrap_or_default();
        for (name, seconds) in [
            ("innodb_lock_wait_timeout", 2),
            ("max_statement_time", 14),
            ("max_execution_time", 14_000),
            ("idle_transaction_timeout", 15),
        ] {
            let lent = format!("SESSION {name} = @handover_{name}");
            assert!(LENDING.lend.contains(&lent), "{lent}: {}", LENDING.lend);
            let own = format!("SESSION {name} = {seconds}");
            assert!(LENDING.reclaim.contains(&own), "{own}: {}", LENDING.reclaim);
            assert!(after_rollback.contains(&own), "{own}: {after_rollback}");
        }
    }
}
