//! Errors of stores, classified by how the caller can react, and the result of conditional writes.

use crate::archive::ArchiveStorageError;
use crate::error_kind::ErrorKind;

use super::relay_id::OlderRelay;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Store errors, classified by how the caller can react.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique key exists already, or a row changed concurrently. The unit of work cannot be committed; start again
    /// with current data.
    #[error("conflict on {what}")]
    Conflict {
        /// Unique key or row that caused the conflict.
        what: String,
    },
    /// Deadlock, lock timeout, serialization failure or busy: the whole unit of work may be retried immediately.
    #[error("transient database error: {0}")]
    Transient(#[source] Cause),
    /// The database is unreachable, no connection became free in time, or the database refuses statements for a reason
    /// that concerns the system (see [`SystemFault`]). Or a running process of an older version cannot publish an event of a
    /// text key ([`OlderRelay`]), or the storage of the archive failed ([`ArchiveStorageError`]). Nothing was changed.
    #[error("{}", unavailable(.0))]
    Unavailable(#[source] Cause),
    /// The connection was lost during COMMIT: the unit of work may be committed or not. Repeat it with the same ids.
    #[error("the outcome of the commit is unknown: {0}")]
    CommitUnknown(#[source] Cause),
    /// A stored value violates the rules of its column. An operator has to correct it.
    #[error("{table}.{column} of {key} is corrupt: {why}")]
    Corrupt {
        /// Table that contains the value.
        table: &'static str,
        /// Column that contains the value.
        column: &'static str,
        /// Key of the row that contains the value.
        key: String,
        /// Reason why the value is invalid.
        why: String,
    },
    /// An id that was chosen for a new row belongs to another row: the id sequence was reset. Repeat the command with
    /// another id.
    #[error("{kind} id {id} is already in use: the id sequence was reset, for example by a restored backup")]
    IdInUse {
        /// Kind of the row.
        kind: &'static str,
        /// The id in use.
        id: i64,
    },
    /// Any other error of the database, or a panic: a defect of this program.
    #[error("unexpected database error or panic: {0}")]
    Backend(#[source] Cause),
}

impl StoreError {
    /// Whether an immediate retry of the whole unit of work may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StoreError::Transient(_) | StoreError::CommitUnknown(_) | StoreError::Conflict { .. })
    }

    /// Whether the error is an outage or a transient error of the database; neither counts as an attempt.
    pub fn is_outage(&self) -> bool {
        matches!(self, StoreError::Transient(_) | StoreError::CommitUnknown(_) | StoreError::Unavailable(_))
    }

    /// The kind of this error, for the breaker of a consumer.
    pub fn kind(&self) -> ErrorKind {
        match self {
            StoreError::Corrupt { table, column, .. } => {
                ErrorKind::of(&format!("{table}.{column} is corrupt"))
            }
            StoreError::Conflict { .. }
            | StoreError::Transient(_)
            | StoreError::Unavailable(_)
            | StoreError::CommitUnknown(_)
            | StoreError::IdInUse { .. }
            | StoreError::Backend(_) => ErrorKind::of(&self.to_string()),
        }
    }

    /// The fault of the system, if the database answered and refused the statement because of one.
    pub fn system_fault(&self) -> Option<&SystemFault> {
        match self {
            StoreError::Unavailable(cause) | StoreError::CommitUnknown(cause) => cause.downcast_ref(),
            StoreError::Conflict { .. }
            | StoreError::Transient(_)
            | StoreError::Corrupt { .. }
            | StoreError::IdInUse { .. }
            | StoreError::Backend(_) => None,
        }
    }
}

fn unavailable(cause: &Cause) -> String {
    if let Some(older) = cause.downcast_ref::<OlderRelay>() {
        return older.to_string();
    }
    if let Some(storage) = cause.downcast_ref::<ArchiveStorageError>() {
        return storage.to_string();
    }
    match cause.downcast_ref::<SystemFault>() {
        Some(fault) => format!("the database refuses statements: {fault}"),
        None => format!("database unavailable: {cause}"),
    }
}

/// Cause of [`StoreError::Unavailable`] if the database answers, but cannot execute a statement for a reason that
/// concerns the system and not the data of the statement. It lasts until an administrator corrects it, so it never
/// counts as an attempt at an event.
#[derive(Debug, thiserror::Error)]
#[error("{kind}: {cause}")]
pub struct SystemFault {
    /// What has to be corrected.
    pub kind: SystemFaultKind,
    /// Whether a COMMIT that fails with this error has certainly committed nothing.
    pub is_rolled_back: bool,
    /// The error of the driver.
    #[source]
    pub cause: Cause,
}

/// What has to be corrected so that the database executes statements again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemFaultKind {
    /// The user lacks a privilege, or the server refuses the login or has no such database.
    Rights,
    /// A table, column or function does not exist.
    Schema,
    /// The server, the database, the user or the file is read-only.
    ReadOnly,
    /// Disk space, memory, or access to files of the database.
    Storage,
    /// A limit of the server, such as its number of connections.
    Limit,
}

impl SystemFaultKind {
    /// What an administrator has to do.
    pub const fn remedy(self) -> &'static str {
        match self {
            SystemFaultKind::Rights => "grant the rights to the database user of the service",
            SystemFaultKind::Schema => "restore the table or column, or run the version that fits the schema",
            SystemFaultKind::ReadOnly => "make the database writable, or connect to the primary server",
            SystemFaultKind::Storage => "free disk space or memory, and check the disk of the database",
            SystemFaultKind::Limit => "raise the limit of the server, or use fewer connections",
        }
    }
}

impl std::fmt::Display for SystemFaultKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SystemFaultKind::Rights => "missing rights",
            SystemFaultKind::Schema => "changed schema",
            SystemFaultKind::ReadOnly => "read-only database",
            SystemFaultKind::Storage => "disk or memory",
            SystemFaultKind::Limit => "limit of the server",
        })
    }
}

/// Number of rows changed by a conditional write. One changed row is the only proof that a transition happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only `Changed::One` proves that the transition happened"]
pub enum Changed {
    /// Exactly one row was changed.
    One,
    /// No row was changed: the row does not exist or has changed since it was read.
    None,
}

impl Changed {
    /// Converts the number of changed rows, zero or one.
    pub fn of(rows: u64) -> Changed {
        if rows == 0 { Changed::None } else { Changed::One }
    }

    /// Requires that one row changed. Otherwise the unit of work is based on stale data and fails with a conflict.
    pub fn or_conflict(self, what: &str) -> Result<(), StoreError> {
        match self {
            Changed::One => Ok(()),
            Changed::None => Err(StoreError::Conflict { what: what.to_owned() }),
        }
    }
}
