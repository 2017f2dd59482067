//! Session settings on PostgreSQL, and settings that a connection cannot change.

use std::sync::LazyLock;

use sqlx::postgres::PgConnection;

use super::pooled::{IDLE_IN_TRANSACTION_S, LOCK_WAIT_S, Lending, STATEMENT_S};
use crate::engine_info::UnsuitableSetting;

/// Session settings for the statements of the store, independent of those of the server, the database and the user. The
/// statements of an application on a lent connection run without them. JIT is off because the statements are short:
/// compilation costs more than it saves. Sequential and bitmap scans are off because a plan that was made for an empty
/// queue would scan the whole table and be reused when the queue is full; every statement can use an index.
fn of_statements() -> [(&'static str, String); 7] {
    [
        ("lock_timeout", format!("'{LOCK_WAIT_S}s'")),
        ("idle_in_transaction_session_timeout", format!("'{IDLE_IN_TRANSACTION_S}s'")),
        ("TimeZone", "'UTC'".to_owned()),
        ("jit", "off".to_owned()),
        ("enable_seqscan", "off".to_owned()),
        ("enable_bitmapscan", "off".to_owned()),
        ("enable_indexscan", "on".to_owned()),
    ]
}

/// Statements that set them; `set` is `SET` or `SET LOCAL`.
fn set_own(set: &str) -> String {
    of_statements().iter().map(|(name, value)| format!("{set} {name} = {value}; ")).collect()
}

/// Marks the transaction in which a connection is lent: the end of a transaction reverts the setting.
const MARK: &str = "handover.is_lent";

/// `SET LOCAL .. TO DEFAULT` sets the value at the start of the session: that of the server, the database, the user or the
/// connection options. A handler may set schema and role for its own statements: the store needs those of the session.
pub(super) static LENDING: LazyLock<Lending> = LazyLock::new(|| {
    let names = of_statements().map(|(name, _)| name);
    let names = names.iter().chain(&["statement_timeout"]);
    let lend: String = names.map(|name| format!("SET LOCAL {name} TO DEFAULT; ")).collect();
    let own = set_own("SET LOCAL");
    Lending {
        lend: format!("{lend} SET LOCAL {MARK} = 'on'"),
        reclaim: format!(
            "SET LOCAL search_path TO DEFAULT; SET LOCAL role TO DEFAULT; {own} \
             SET LOCAL statement_timeout = '{STATEMENT_S}s'; \
             SELECT 1 WHERE current_setting('{MARK}', true) = 'on'"
        ),
        reclaimed_rows: 1,
        after_commit: None,
        after_rollback: None,
    }
});

/// Sets the session settings of the store. Timeouts that only some versions have are switched off: they would close idle
/// connections.
pub(super) async fn set_up(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let own = set_own("SET");
    let settings = format!(
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; {own} \
         SELECT set_config(name, '0', false) FROM pg_settings \
         WHERE name IN ('idle_session_timeout', 'transaction_timeout')"
    );
    // A message of its own: a short `statement_timeout` of the user applies to a whole message.
    let limit = format!("SET statement_timeout = '{STATEMENT_S}s'");
    // Safe: the statements are constants.
    sqlx::raw_sql(sqlx::AssertSqlSafe(limit)).execute(&mut *connection).await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(settings)).execute(&mut *connection).await?;
    let level: String =
        sqlx::query_scalar("SHOW default_transaction_isolation").fetch_one(&mut *connection).await?;
    if level == "read committed" {
        Ok(())
    } else {
        Err(sqlx::Error::Configuration(
            format!("the isolation level is {level} instead of read committed").into(),
        ))
    }
}

/// Settings of the server, the database and the user under which the store cannot write.
pub(super) async fn unsuitable(connection: &mut PgConnection) -> Result<Vec<UnsuitableSetting>, sqlx::Error> {
    let (encoding, replication, in_recovery): (String, String, bool) = sqlx::query_as(
        "SELECT current_setting('server_encoding'), current_setting('session_replication_role'), \
         pg_is_in_recovery()",
    )
    .fetch_one(connection)
    .await?;
    Ok(settings(&encoding, &replication, in_recovery))
}

fn settings(encoding: &str, replication: &str, in_recovery: bool) -> Vec<UnsuitableSetting> {
    let mut found = Vec::new();
    if encoding != "UTF8" {
        found.push(UnsuitableSetting {
            setting: "server_encoding",
            value: encoding.to_owned(),
            why: "texts with other characters cannot be stored, and one of them would block the relay and the consumers",
            remedy: "create a database with ENCODING 'UTF8' TEMPLATE template0, and connect to it",
        });
    }
    if replication != "origin" {
        found.push(UnsuitableSetting {
            setting: "session_replication_role",
            value: replication.to_owned(),
            why: "the triggers that protect the audit log and the history do not run",
            remedy: "reset the setting of the role or database (ALTER ROLE ... RESET session_replication_role)",
        });
    }
    if in_recovery {
        found.push(UnsuitableSetting {
            setting: "pg_is_in_recovery()",
            value: "true".to_owned(),
            why: "the server is a standby, which is read-only",
            remedy: "connect to the primary server",
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_of_the_store_are_not_in_force_while_a_connection_is_lent() {
        for name in ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"] {
            assert!(LENDING.lend.contains(&format!("SET LOCAL {name} TO DEFAULT;")), "{}", LENDING.lend);
            assert!(LENDING.reclaim.contains(&format!("SET LOCAL {name} = '")), "{}", LENDING.reclaim);
        }
    }
}
