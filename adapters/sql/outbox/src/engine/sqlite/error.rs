//! Classification of the errors of SQLite.

use handover_outbox::ports::{StoreError, SystemFaultKind};
use sqlx::error::{DatabaseError, ErrorKind};

use crate::error::{ErrorClass, store_error};

pub(super) fn to_store_error(error: sqlx::Error) -> StoreError {
    store_error(error, classify)
}

pub(crate) fn classify(error: &dyn DatabaseError) -> ErrorClass {
    if matches!(error.kind(), ErrorKind::UniqueViolation) {
        return ErrorClass::UniqueViolation;
    }
    let code: i64 = error.code().and_then(|code| code.parse().ok()).unwrap_or(0);
    // The low byte is the primary result code: SQLITE_BUSY_SNAPSHOT is 517, 5 + 2 * 256.
    class_of(code & 0xff, error.message())
}

/// Class of a primary result code. SQLITE_ERROR stands for many errors, which only the message distinguishes.
pub(super) fn class_of(code: i64, message: &str) -> ErrorClass {
    match code {
        // SQLITE_BUSY, SQLITE_LOCKED
        5 | 6 => ErrorClass::Transient,
        // SQLITE_PERM, SQLITE_AUTH
        3 | 23 => ErrorClass::RolledBack(SystemFaultKind::Rights),
        // SQLITE_READONLY
        8 => ErrorClass::RolledBack(SystemFaultKind::ReadOnly),
        // SQLITE_FULL: the transaction is rolled back before the connection is used again.
        13 => ErrorClass::RolledBack(SystemFaultKind::Storage),
        // SQLITE_NOMEM, SQLITE_IOERR, SQLITE_CANTOPEN: the end of the log may have been written.
        7 | 10 | 14 => ErrorClass::Fault(SystemFaultKind::Storage),
        1 if ["no such table", "no such column"].iter().any(|missing| message.starts_with(missing)) => {
            ErrorClass::RolledBack(SystemFaultKind::Schema)
        }
        _ => ErrorClass::Permanent,
    }
}
