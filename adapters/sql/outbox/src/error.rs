//! Conversion of driver errors to [`StoreError`].

use handover_outbox::ports::StoreError;
use sqlx::error::DatabaseError;

/// Class of an error that the database reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// A unique constraint is violated.
    UniqueViolation,
    /// The unit of work can be retried immediately.
    Transient,
    /// The database cannot serve requests now.
    Unavailable,
    /// A defect in the statement or the schema; a retry does not help.
    Permanent,
}

/// Converts an error of the driver; `classify` maps the engine's error codes.
pub(crate) fn store_error(error: sqlx::Error, classify: fn(&dyn DatabaseError) -> ErrorClass) -> StoreError {
    if let Some(reported) = error.as_database_error() {
        return match classify(reported) {
            ErrorClass::UniqueViolation => StoreError::Conflict { what: violated_key(reported) },
            ErrorClass::Transient => StoreError::Transient(Box::new(error)),
            ErrorClass::Unavailable => StoreError::Unavailable(Box::new(error)),
            ErrorClass::Permanent => StoreError::Backend(Box::new(error)),
        };
    }
    let is_unavailable = matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
    );
    if is_unavailable {
        StoreError::Unavailable(Box::new(error))
    } else {
        StoreError::Backend(Box::new(error))
    }
}

/// The violated unique key. SQLite names it only in the message: `UNIQUE constraint failed: orders.id`.
fn violated_key(error: &dyn DatabaseError) -> String {
    match (error.constraint(), error.message().rsplit_once(": ")) {
        (Some(constraint), _) => constraint.to_owned(),
        (None, Some((_, key))) => key.to_owned(),
        (None, None) => error.message().to_owned(),
    }
}

/// Converts the error of a COMMIT: after a lost connection the outcome of the commit is unknown.
pub(crate) fn commit_error(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(cause) => StoreError::CommitUnknown(cause),
        StoreError::Conflict { .. }
        | StoreError::Transient(_)
        | StoreError::CommitUnknown(_)
        | StoreError::Corrupt { .. }
        | StoreError::Backend(_) => error,
    }
}
