//! Advice that depends on the cause of a failure.

use std::io;
use std::path::Path;

use handover_outbox::ports::{BrokerError, StoreError, SystemFaultKind};

use crate::settings::DatabaseChoice;

pub(super) fn database_remedy(database: &DatabaseChoice, cause: &StoreError) -> &'static str {
    match database {
        DatabaseChoice::Server(_) if let Some(fault) = cause.system_fault() => fault.kind.remedy(),
        DatabaseChoice::Server(_) if cause.is_outage() => {
            "check that the server runs, and the host and port in database.url"
        }
        DatabaseChoice::Server(_) => {
            "check that this user may read and write the tables of handover, and that no other program changed them"
        }
        DatabaseChoice::File(path) if path.is_dir() => {
            "the path is a folder: name a file in it with --database"
        }
        DatabaseChoice::File(_)
            if matches!(cause, StoreError::Backend(_) | StoreError::Corrupt { .. })
                || cause.system_fault().is_some_and(|fault| fault.kind == SystemFaultKind::Schema) =>
        {
            "check that the file is an intact, writable database of handover, or name another one with --database"
        }
        DatabaseChoice::File(_) => "check that the folder exists, is writable, and has free space",
    }
}

/// Whether rights or the schema of the database have to be corrected: no later start succeeds by itself.
pub(super) fn needs_correction(cause: &StoreError) -> bool {
    let kind = cause.system_fault().map(|fault| fault.kind);
    matches!(kind, Some(SystemFaultKind::Rights | SystemFaultKind::Schema))
}

pub(super) fn broker_remedy(error: &BrokerError) -> &'static str {
    match error {
        BrokerError::Refused { .. } => {
            "correct the cause that the broker reports, or user, password and vhost in broker.url"
        }
        BrokerError::Unreachable(_) | BrokerError::Closed { .. } => {
            "check that the broker runs, and check broker.url"
        }
    }
}

/// Advice for a file that cannot be created in its folder.
pub fn folder_remedy(file: &Path, cause: &io::Error) -> String {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.display().to_string(),
        Some(_) | None => "this folder".to_owned(),
    };
    let is = |kinds: &[io::ErrorKind]| kinds.contains(&cause.kind());
    if is(&[io::ErrorKind::NotFound]) {
        format!("create the folder {folder}, or name another file with --database")
    } else if is(&[io::ErrorKind::NotADirectory]) {
        format!("{folder} is not a folder: name another file with --database")
    } else if is(&[io::ErrorKind::IsADirectory]) {
        "the path is a folder: name a file in it with --database".to_owned()
    } else if is(&[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded]) {
        format!("free disk space in {folder}")
    } else if is(&[io::ErrorKind::ReadOnlyFilesystem]) {
        format!("mount the file system of {folder} writable; the system log says why it is read-only")
    } else {
        format!("give this user write permission in {folder}, or name another file with --database")
    }
}

/// Advice for an address that cannot be bound.
pub(super) fn listen_remedy(port: u16, cause: io::ErrorKind) -> &'static str {
    if cause == io::ErrorKind::AddrInUse {
        "stop the process that listens there, or choose another address with --listen (port 0 selects a free one)"
    } else if cause == io::ErrorKind::PermissionDenied && port < 1024 {
        "ports below 1024 need privileges: choose another port with --listen"
    } else if cause == io::ErrorKind::AddrNotAvailable {
        "this machine has no such address: choose another with --listen (0.0.0.0 is every IPv4 address)"
    } else {
        "choose another address with --listen (port 0 selects a free one)"
    }
}

/// Advice for an address of `metrics.listen` that cannot be bound.
pub(super) fn metrics_listen_remedy(port: u16, cause: io::ErrorKind) -> &'static str {
    if cause == io::ErrorKind::AddrInUse {
        "stop the process that listens there, or set metrics.listen to another address for each process on this machine \
         (port 0 selects a free one)"
    } else if cause == io::ErrorKind::PermissionDenied && port < 1024 {
        "ports below 1024 need privileges: set another port in metrics.listen"
    } else if cause == io::ErrorKind::AddrNotAvailable {
        "this machine has no such address: set another in metrics.listen (0.0.0.0 is every IPv4 address)"
    } else {
        "set another address in metrics.listen (port 0 selects a free one)"
    }
}
