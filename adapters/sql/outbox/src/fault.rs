//! What a driver's error means to the caller.

use handover_outbox::ports::StoreError;
use sqlx::error::DatabaseError;

/// What an error of the database itself means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A unique key is taken.
    Taken,
    /// The unit may be tried again at once.
    TryAgain,
    /// The database cannot work now.
    Away,
    /// Our fault.
    Refused,
}

/// Translates an error; `meaning` is the engine's word for its codes.
pub(crate) fn store_error(error: sqlx::Error, meaning: fn(&dyn DatabaseError) -> Meaning) -> StoreError {
    if let Some(refusal) = error.as_database_error() {
        return match meaning(refusal) {
            Meaning::Taken => StoreError::Conflict { what: taken(refusal) },
            Meaning::TryAgain => StoreError::Transient(Box::new(error)),
            Meaning::Away => StoreError::Unavailable(Box::new(error)),
            Meaning::Refused => StoreError::Backend(Box::new(error)),
        };
    }
    let away = matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
    );
    if away { StoreError::Unavailable(Box::new(error)) } else { StoreError::Backend(Box::new(error)) }
}

/// What the server said when it refused this user, this password, this database or the rights on it; `None`: the error is
/// another one. Waiting does not help: the configuration is wrong, or the server's.
pub fn access_refusal(error: &StoreError) -> Option<String> {
    let (StoreError::Unavailable(cause) | StoreError::Backend(cause)) = error else { return None };
    let refusal = cause.downcast_ref::<sqlx::Error>()?.as_database_error()?;
    let refuses = crate::engine::refuses_access(refusal);
    refuses.then(|| refusal.message().to_owned())
}

/// The key that is taken. SQLite: `UNIQUE constraint failed: orders.id`.
fn taken(refusal: &dyn DatabaseError) -> String {
    match (refusal.constraint(), refusal.message().rsplit_once(": ")) {
        (Some(constraint), _) => constraint.to_owned(),
        (None, Some((_, key))) => key.to_owned(),
        (None, None) => refusal.message().to_owned(),
    }
}

/// The error after which a COMMIT may have happened.
pub(crate) fn of_commit(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(cause) => StoreError::CommitUnknown(cause),
        StoreError::Conflict { .. }
        | StoreError::Transient(_)
        | StoreError::CommitUnknown(_)
        | StoreError::Corrupt { .. }
        | StoreError::Backend(_) => error,
    }
}
