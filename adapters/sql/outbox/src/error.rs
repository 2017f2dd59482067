//! Conversion of driver errors to [`StoreError`].

use handover_outbox::ports::{StoreError, SystemFault, SystemFaultKind};
use sqlx::error::DatabaseError;

/// Class of an error that the database reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// A unique constraint is violated.
    UniqueViolation,
    /// The unit of work can be retried immediately.
    Transient,
    /// The database cannot serve requests now; the connection may be lost.
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres")),
        allow(dead_code, reason = "SQLite has no server that becomes unreachable")
    )]
    Unavailable,
    /// The database refuses the statement for a reason that concerns the system. A COMMIT that fails with such an error
    /// may have committed.
    Fault(SystemFaultKind),
    /// The same; a COMMIT that fails with this error has committed nothing.
    RolledBack(SystemFaultKind),
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
            ErrorClass::Fault(kind) => system_fault(kind, false, Box::new(error)),
            ErrorClass::RolledBack(kind) => system_fault(kind, true, Box::new(error)),
            ErrorClass::Permanent => StoreError::Backend(Box::new(error)),
        };
    }
    if is_unavailable(&error) {
        StoreError::Unavailable(Box::new(error))
    } else {
        StoreError::Backend(Box::new(error))
    }
}

/// Whether an error that the database did not report means that it cannot be reached now.
pub(crate) fn is_unavailable(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
    )
}

/// Converts the error of a migration. An outage is returned as an outage. If a statement of a migration failed for
/// another reason, the error contains the version of the migration.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) fn migration_error(
    error: sqlx::migrate::MigrateError,
    classify: fn(&dyn DatabaseError) -> ErrorClass,
) -> StoreError {
    use sqlx::migrate::MigrateError;

    // Missing rights and a changed schema are errors of this migration: a later attempt fails in the same way.
    let is_outage = |cause: &StoreError| {
        let kind = cause.system_fault().map(|fault| fault.kind);
        cause.is_outage() && !matches!(kind, Some(SystemFaultKind::Rights | SystemFaultKind::Schema))
    };
    if let MigrateError::Execute(cause) = error {
        let cause = store_error(cause, classify);
        return if is_outage(&cause) { cause } else { StoreError::Backend(cause.to_string().into()) };
    }
    if let MigrateError::ExecuteMigration(cause, version) = error {
        let cause = store_error(cause, classify);
        if is_outage(&cause) {
            return cause;
        }
        return StoreError::Backend(format!("migration {version}: {cause}").into());
    }
    StoreError::Backend(Box::new(error))
}

pub(crate) fn system_fault(
    kind: SystemFaultKind,
    is_rolled_back: bool,
    cause: Box<dyn std::error::Error + Send + Sync>,
) -> StoreError {
    StoreError::Unavailable(Box::new(SystemFault { kind, is_rolled_back, cause }))
}

/// The error of the driver in a store error.
pub(crate) fn driver_error(error: &StoreError) -> Option<&sqlx::Error> {
    if let Some(fault) = error.system_fault() {
        return fault.cause.downcast_ref();
    }
    match error {
        StoreError::Unavailable(cause) | StoreError::Backend(cause) => cause.downcast_ref(),
        StoreError::Conflict { .. }
        | StoreError::Transient(_)
        | StoreError::CommitUnknown(_)
        | StoreError::Corrupt { .. }
        | StoreError::IdInUse { .. } => None,
    }
}

/// The violated unique key. SQLite names it only in the message: `UNIQUE constraint failed: books.id`.
fn violated_key(error: &dyn DatabaseError) -> String {
    match (error.constraint(), error.message().rsplit_once(": ")) {
        (Some(constraint), _) => constraint.to_owned(),
        (None, Some((_, key))) => key.to_owned(),
        (None, None) => error.message().to_owned(),
    }
}

/// Converts the error of a COMMIT: after a lost connection the outcome of the commit is unknown.
pub(crate) fn commit_error(error: StoreError) -> StoreError {
    if error.system_fault().is_some_and(|fault| fault.is_rolled_back) {
        return error;
    }
    match error {
        StoreError::Unavailable(cause) => StoreError::CommitUnknown(cause),
        StoreError::Conflict { .. }
        | StoreError::Transient(_)
        | StoreError::CommitUnknown(_)
        | StoreError::Corrupt { .. }
        | StoreError::IdInUse { .. }
        | StoreError::Backend(_) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_is_known_to_be_rolled_back_only_after_errors_that_prove_it() {
        let error = || Box::new(sqlx::Error::PoolClosed);
        let refused = commit_error(system_fault(SystemFaultKind::ReadOnly, true, error()));
        assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
        let unknown = commit_error(system_fault(SystemFaultKind::Storage, false, error()));
        assert!(matches!(unknown, StoreError::CommitUnknown(_)), "{unknown:?}");
        assert_eq!(unknown.system_fault().unwrap().kind, SystemFaultKind::Storage);
        let lost = commit_error(StoreError::Unavailable("connection lost".into()));
        assert!(matches!(lost, StoreError::CommitUnknown(_)), "{lost:?}");
    }
}
