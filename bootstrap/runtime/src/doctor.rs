//! The checks of `doctor`: what a serving process needs. They leave no changes and do not disturb a serving process.
//!
//! **Invariant:** a problem is a result of a check and never an error of the command. Every result that is not ok
//! states what is wrong, why it matters and what to do.

mod broker;
mod database;
mod jobs;
mod port;
mod report;
mod schema;
mod subject;

use std::io::Write as _;
use std::path::Path;

use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use indicatif::HumanBytes;

use crate::config::{Description, Origin};
use crate::failure::{Failure, folder_remedy};
use crate::lock::DatabaseLock;
use crate::sibling_file::sibling_file;

pub(crate) use port::is_handover;
pub use report::{Check, Report, Status};
pub use subject::{ApplicationChecks, Subject};

/// Name of the check of the configuration.
pub const CONFIGURATION: &str = "configuration";

/// Runs all checks of a process with a valid configuration.
pub async fn examine(subject: &Subject<'_>) -> Report {
    let mut checks = vec![configuration(&subject.description)];
    let served = match subject.database.file() {
        Some(file) => {
            let (lock, holder) = lock(file);
            checks.extend([folder(file), lock]);
            port::Served::Here(holder)
        }
        None => port::Served::Anywhere,
    };
    checks.extend(database::checks(subject, SystemClock.now()).await);
    for listen in &subject.listens {
        checks.push(port::check(*listen, &served).await);
    }
    checks.extend(subject.application.others().await);
    Report::of(checks)
}

fn configuration(description: &Description) -> Check {
    let mut origins: Vec<String> = Vec::new();
    for setting in &description.settings {
        let origin = match &setting.origin {
            Origin::Default => continue,
            Origin::File(path) => path.display().to_string(),
            Origin::Variable(name) => name.clone(),
            Origin::Flag(flag) => (*flag).to_owned(),
        };
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    let origins = if origins.is_empty() { "built-in defaults".to_owned() } else { origins.join(", ") };
    Check::ok(CONFIGURATION, format!("every value is valid; set by {origins}"))
}

/// More than the blocks that a full file system gives to a small file.
const PROBE_BYTES: usize = 64 * 1024;

/// With less free space, the database is full soon.
const LOW_SPACE: u64 = 1 << 30;

/// Checks that the database file can be written, that files can be created next to it, and how much space is free.
fn folder(database: &Path) -> Check {
    const NAME: &str = "folder";
    let written = match std::fs::metadata(database) {
        Ok(file) if file.is_dir() => Err(std::io::ErrorKind::IsADirectory.into()),
        Ok(_) => std::fs::File::options().write(true).open(database).map(drop),
        Err(_) => Ok(()),
    };
    // SQLite, the lock and the secrets create files next to the database.
    let probe = sibling_file(database, &format!("doctor-{}", std::process::id()));
    let written = written.and_then(|()| {
        // An empty file can be created on a full disk.
        let written = std::fs::File::create_new(&probe).and_then(|mut file| {
            file.write_all(&[0; PROBE_BYTES])?;
            file.sync_all()
        });
        written.and(std::fs::remove_file(&probe))
    });
    match written {
        Ok(()) => space(NAME, database, free_space(database)),
        Err(cause) => Check::fail(
            NAME,
            format!("{} or files next to it cannot be written: {cause}", database.display()),
            "all events are stored in the database file".to_owned(),
            folder_remedy(database, &cause),
        ),
    }
}

/// The result for a folder that can be written.
fn space(name: &'static str, database: &Path, free: Option<u64>) -> Check {
    let what = format!("{} and files next to it can be written", database.display());
    match free {
        None => Check::ok(name, what),
        Some(free) if free < LOW_SPACE => Check::warn(
            name,
            format!("only {} are free in the file system of {}", HumanBytes(free), database.display()),
            "on a full disk nothing is stored: requests that change something are answered with 503",
            "free disk space, or move the database to a larger file system",
        ),
        Some(free) => Check::ok(name, format!("{what}; {} are free", HumanBytes(free))),
    }
}

/// Bytes that this user can still write in the folder of the file; `None` if the system does not say.
#[cfg(unix)]
fn free_space(file: &Path) -> Option<u64> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let system = rustix::fs::statvfs(folder).ok()?;
    system.f_bavail.checked_mul(system.f_frsize)
}

/// Bytes that this user can still write in the folder of the file: unknown on this platform.
#[cfg(not(unix))]
fn free_space(_file: &Path) -> Option<u64> {
    None
}

fn lock(database: &Path) -> (Check, Option<String>) {
    const NAME: &str = "lock";
    match DatabaseLock::holder(database) {
        Ok(None) => (Check::ok(NAME, "no process serves this database".to_owned()), None),
        Ok(Some(holder)) => (
            Check::ok(
                NAME,
                format!("process {holder} serves this database; a second process would be refused"),
            ),
            Some(holder),
        ),
        Err(cause) => {
            let path = sibling_file(database, "lock");
            (Check::failed(NAME, &Failure::LockFile { path, cause }), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_free_space_is_a_warning_with_the_number_of_bytes() {
        let check = |free| space("folder", Path::new("shop.db"), free);
        assert_eq!(check(None).status, Status::Ok);
        assert_eq!(check(Some(LOW_SPACE)).status, Status::Ok);
        let low = check(Some(LOW_SPACE / 2));
        assert_eq!(low.status, Status::Warn);
        assert!(low.what.starts_with("only 512.00 MiB are free"), "{}", low.what);
    }

    #[test]
    fn free_space_of_a_folder_is_known() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_space(&folder.path().join("shop.db")).is_some());
    }
}
