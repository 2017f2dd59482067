//! Problems of the database file: a full disk, a read-only file system, a file that was deleted or replaced.

use std::fmt::Display;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use handover_outbox::ports::{StoreError, SystemFault, SystemFaultKind};

use crate::error::driver_error;

/// SQLite result codes.
const READONLY: i64 = 8;
const IOERR: i64 = 10;
const FULL: i64 = 13;
const IOERR_WRITE: i64 = 778;

/// A problem of the database file. The text has no path: `/readyz` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("the disk is full")]
    Full,
    #[error("the database file cannot be written: it or its file system is read-only")]
    ReadOnly,
    #[error("the disk of the database file reports errors")]
    Io,
    #[error("the database file or its write-ahead log was deleted or replaced while it was open")]
    Replaced,
}

impl Problem {
    const fn kind(self) -> SystemFaultKind {
        match self {
            Problem::ReadOnly => SystemFaultKind::ReadOnly,
            Problem::Full | Problem::Io | Problem::Replaced => SystemFaultKind::Storage,
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Problem::Full => "free space; the service continues by itself",
            Problem::ReadOnly => "make it writable; the service continues by itself",
            Problem::Io => "check the disk and the system log",
            Problem::Replaced => {
                "stop this process, check which file has the newest rows, and start again; commits after the \
                 replacement are refused"
            }
        }
    }
}

/// The file as it was opened, and its last problem.
pub(super) struct Storage {
    database: PathBuf,
    log: PathBuf,
    opened_log: OpenedLog,
    state: Mutex<State>,
}

/// The log that is open, also if its path leads to another file by now. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct OpenedLog(Arc<Mutex<Option<File>>>);

impl OpenedLog {
    /// Blocks until the log is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        opened.as_ref().ok_or_else(|| io::Error::other("it is not open"))?.sync_data()
    }
}

#[derive(Default)]
struct State {
    opened: Opened,
    problem: Option<Problem>,
}

/// The files that are open; `None` if unknown.
#[derive(Default)]
struct Opened {
    database: Option<Identity>,
    log: Option<Identity>,
}

/// Device and inode of a file.
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(file: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(_file: &Metadata) -> Option<Identity> {
    None
}

fn identity_at(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().as_ref().and_then(identity)
}

impl Storage {
    pub(super) fn new(database: &Path, log: &Path) -> Storage {
        Storage {
            database: database.to_owned(),
            log: log.to_owned(),
            opened_log: OpenedLog::default(),
            state: Mutex::default(),
        }
    }

    /// Remembers which files are open. Called for each new connection that has the log open: SQLite deletes the log with
    /// the last connection.
    pub(super) fn opened(&self) {
        let Ok(mut state) = self.state.lock() else { return };
        state.opened.database = state.opened.database.or_else(|| identity_at(&self.database));
        state.opened.log = identity_at(&self.log);
        // The log has no locks that closing a handle would release.
        *self.opened_log.0.lock().unwrap_or_else(PoisonError::into_inner) = File::open(&self.log).ok();
    }

    pub(super) fn opened_log(&self) -> OpenedLog {
        self.opened_log.clone()
    }

    /// The error of a commit that is refused because the log cannot be flushed.
    pub(super) fn unflushed(&self, why: &str) -> StoreError {
        self.refused(Problem::Io, why)
    }

    /// Fails if the path leads to another file than the open one: commits would be lost with the open file.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.is_replaced() {
            Err(self.refused(Problem::Replaced, "the path leads to another file"))
        } else {
            Ok(())
        }
    }

    fn is_replaced(&self) -> bool {
        let Ok(state) = self.state.lock() else { return false };
        let differs = |opened: Option<Identity>, path| opened.is_some() && identity_at(path) != opened;
        differs(state.opened.database, &self.database) || differs(state.opened.log, &self.log)
    }

    /// Names the problem of the file in an error. After these problems nothing was committed: SQLite writes the frame
    /// that commits last, so a failed write to the log precedes it.
    pub(super) fn named(&self, error: StoreError) -> StoreError {
        let reported = driver_error(&error).and_then(sqlx::Error::as_database_error);
        match reported.and_then(|reported| reported.code()?.parse::<i64>().ok()) {
            Some(FULL) => self.refused(Problem::Full, &error),
            Some(code) if code & 0xff == READONLY => self.refused(Problem::ReadOnly, &error),
            Some(IOERR_WRITE) if self.is_read_only() => self.refused(Problem::ReadOnly, &error),
            Some(IOERR_WRITE) => self.refused(Problem::Io, &error),
            Some(code) if code & 0xff == IOERR => {
                self.report(Problem::Io);
                error
            }
            Some(_) | None => error,
        }
    }

    /// SQLite reports a read-only file system as a failed write.
    fn is_read_only(&self) -> bool {
        // The log is opened, not the file: closing the file would release the locks of SQLite's connections.
        let opened = std::fs::File::options().write(true).open(&self.log);
        opened.is_err_and(|error| {
            matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
        })
    }

    fn refused(&self, problem: Problem, cause: impl Display) -> StoreError {
        self.report(problem);
        let path = self.database.display();
        StoreError::Unavailable(Box::new(SystemFault {
            kind: problem.kind(),
            is_rolled_back: true,
            cause: format!("{problem} ({path}): {cause}; {}", problem.remedy()).into(),
        }))
    }

    /// Remembers the problem. The store logs the alert, as for every fault of the system.
    fn report(&self, problem: Problem) {
        if let Ok(mut state) = self.state.lock() {
            state.problem = Some(problem);
        }
    }

    /// The last problem of a write.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.state.lock().ok()?.problem
    }

    /// Records that a write succeeded after a problem.
    pub(super) fn recovered(&self) {
        let Ok(mut state) = self.state.lock() else { return };
        if let Some(problem) = state.problem.take() {
            tracing::info!(code = "sqlite.writable", "sqlite: writes succeed again after: {problem}");
        }
    }
}
