//! Statements that an application runs on the connection of a unit of work, with the types of sqlx.

use async_trait::async_trait;
use handover_outbox::ports::{StoreError, SystemFaultKind};
use sqlx::error::DatabaseError;
#[cfg(feature = "postgres")]
use sqlx::postgres::{PgDatabaseError, PgSeverity};

#[cfg(feature = "postgres")]
use crate::engine::postgres;
#[cfg(feature = "sqlite")]
use crate::engine::sqlite;
#[cfg(feature = "mysql")]
use crate::engine::{mysql, mysql_error};
use crate::error::{ErrorClass, is_unavailable, store_error, system_fault};

/// A unit of work that lends its connection: `C` is a connection of sqlx, such as `PgConnection`.
#[async_trait]
pub trait HasConnection<C>: Send {
    /// Lends the connection for statements in the transaction of the unit of work, until its next use. An error if the
    /// database is of another kind, after a failed statement, or outside of a transaction.
    ///
    /// - The statements run under the session settings of the server, the database, the user and the connection options;
    ///   the planner settings and time limits of the store are not in force. The isolation level is READ COMMITTED.
    /// - A transaction that is begun on the connection is a savepoint. The unit of work does not commit if such a
    ///   transaction is still open, or if COMMIT or ROLLBACK was run as text; after COMMIT the changes remain.
    /// - After a failed statement PostgreSQL commits nothing, even if the error is ignored. MySQL, MariaDB and SQLite keep
    ///   the changes of the other statements; after a deadlock, MySQL and MariaDB commit nothing, either.
    /// - A statement that ends the transaction MUST NOT be run. MySQL and MariaDB commit before and after each `CREATE`, `ALTER`,
    ///   `DROP` and `TRUNCATE`: what was changed before it is committed, although the unit of work fails.
    /// - Session settings MUST NOT be changed: the connection is reused. On PostgreSQL, `SET LOCAL` of `search_path` and `role`
    ///   holds until the next use of the unit of work.
    async fn connection(&mut self) -> Result<&mut C, StoreError>;
}

/// Converts the error of a statement of the application. An outage, a deadlock and a serialization failure do not count as
/// an attempt at an event. An unknown table or column counts: the mistake is probably in the statement. So does a statement that
/// exceeds the time limit of the server, the user or the connection options, or that has a wrong number of parameters: it
/// would fail again.
pub fn lent_error(error: sqlx::Error) -> StoreError {
    if is_of_statement(&error) {
        return StoreError::Backend(Box::new(error));
    }
    let error = store_error(error, classify);
    match error.system_fault() {
        Some(fault) if fault.kind == SystemFaultKind::Schema => StoreError::Backend(error.to_string().into()),
        Some(_) | None => error,
    }
}

/// What [`lent_error`] returns for an error that an application has wrapped in its own, which this text describes: `None` if it
/// counts as an attempt.
pub fn lent_outage(error: &sqlx::Error, text: &str) -> Option<StoreError> {
    if is_of_statement(error) {
        return None;
    }
    match error.as_database_error() {
        Some(reported) => match classify(reported) {
            ErrorClass::Transient => Some(StoreError::Transient(text.into())),
            ErrorClass::Unavailable => Some(StoreError::Unavailable(text.into())),
            ErrorClass::Fault(SystemFaultKind::Schema) | ErrorClass::RolledBack(SystemFaultKind::Schema) => {
                None
            }
            ErrorClass::Fault(kind) => Some(system_fault(kind, false, text.into())),
            ErrorClass::RolledBack(kind) => Some(system_fault(kind, true, text.into())),
            ErrorClass::UniqueViolation | ErrorClass::Permanent => None,
        },
        None => is_unavailable(error).then(|| StoreError::Unavailable(text.into())),
    }
}

/// Whether an error that would be an outage after a statement of the store is a defect of this statement.
fn is_of_statement(error: &sqlx::Error) -> bool {
    // A wrong number of parameters (MySQL), too many parameters (PostgreSQL), or a kind of parameter that sqlx does not support
    // (SQLite). A lost connection is an error of I/O.
    matches!(error, sqlx::Error::Protocol(_))
        || error
            .as_database_error()
            .is_some_and(|error| exceeds_time_limit(error) || has_wrong_parameters(error))
}

/// Whether PostgreSQL refused the parameters of a statement (SQLSTATE 08P01). With the severity FATAL, the error is the end of the
/// connection: a connection pooler sends it when it has lost the server.
#[cfg_attr(not(feature = "postgres"), allow(unused_variables, reason = "other drivers find out themselves"))]
fn has_wrong_parameters(error: &dyn DatabaseError) -> bool {
    #[cfg(feature = "postgres")]
    if let Some(error) = error.try_downcast_ref::<PgDatabaseError>() {
        return error.code() == "08P01" && error.severity() == PgSeverity::Error;
    }
    false
}

/// Whether a statement was ended by `statement_timeout` (PostgreSQL), `max_statement_time` (MariaDB) or `max_execution_time`
/// (MySQL).
fn exceeds_time_limit(error: &dyn DatabaseError) -> bool {
    #[cfg(feature = "mysql")]
    if let Some(number) = mysql_error::number(error) {
        return matches!(number, 1969 | 3024);
    }
    error.code().as_deref() == Some("57014")
}

/// Class of an error of any engine.
fn classify(error: &dyn DatabaseError) -> ErrorClass {
    #[cfg(feature = "mysql")]
    if mysql_error::number(error).is_some() {
        return mysql::classify(error);
    }
    #[cfg(feature = "postgres")]
    if error.try_downcast_ref::<PgDatabaseError>().is_some() {
        return postgres::classify(error);
    }
    #[cfg(feature = "sqlite")]
    if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        return sqlite::classify(error);
    }
    ErrorClass::Permanent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_number_of_parameters_counts_as_an_attempt_and_a_lost_connection_does_not() {
        let wrong = || {
            let text = "prepared statement expected 2 parameters but 1 parameters were provided";
            sqlx::Error::Protocol(text.to_owned())
        };
        let counted = lent_error(wrong());
        assert!(matches!(counted, StoreError::Backend(_)), "{counted:?}");
        assert!(lent_outage(&wrong(), "the reminder cannot be written").is_none());
        let lost = || sqlx::Error::Io(std::io::ErrorKind::UnexpectedEof.into());
        let outage = lent_error(lost());
        assert!(matches!(outage, StoreError::Unavailable(_)), "{outage:?}");
        let outage = lent_outage(&lost(), "the reminder cannot be written");
        assert!(matches!(outage, Some(StoreError::Unavailable(_))), "{outage:?}");
    }
}
