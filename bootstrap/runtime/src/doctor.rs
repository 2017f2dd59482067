//! The checks of `doctor`: what a serving process needs. They leave no changes and do not disturb a serving process.
//!
//! **Invariant:** a problem is a result of a check and never an error of the command. Every result that is not ok
//! states what is wrong, why it matters and what to do.

mod broker;
mod database;
mod jobs;
mod port;
mod report;
mod subject;

use std::io::Write as _;
use std::path::Path;

use handover_outbox::ports::Clock;
use handover_system::SystemClock;

use crate::config::{Description, Origin};
use crate::failure::{Failure, folder_remedy};
use crate::lock::DatabaseLock;
use crate::sibling_file::sibling_file;

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

/// Checks that the database file can be written, and that files can be created next to it.
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
        Ok(()) => Check::ok(NAME, format!("{} and files next to it can be written", database.display())),
        Err(cause) => Check::fail(
            NAME,
            format!("{} or files next to it cannot be written: {cause}", database.display()),
            "all events are stored in the database file".to_owned(),
            folder_remedy(database, &cause),
        ),
    }
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
