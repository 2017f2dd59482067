//! `doctor`: checks what `serve` needs. It leaves no changes and does not disturb a serving process.
//!
//! **Invariant:** a problem is a result of a check and never an error of the command. Every result that is not ok
//! states what is wrong, why it matters and what to do.

mod broker;
mod database;
mod gateway;
mod port;
mod redis;
mod report;
mod secrets;

use std::io::Write as _;
use std::path::Path;

use handover_outbox::ports::Clock;
use handover_system::SystemClock;

use crate::cli::DoctorArgs;
use marketplace_wiring::config::{Config, Origin, Sources};
use marketplace_wiring::failure::folder_remedy;
use marketplace_wiring::terminal::warn;
use marketplace_wiring::{DatabaseLock, Failure};
use report::Check;
pub(crate) use report::Report;

const CONFIGURATION: &str = "configuration";

/// Runs all checks.
pub(crate) async fn examine(arguments: &DoctorArgs) -> Report {
    let sources = arguments.common.sources(&[arguments.address.flag()]);
    warn(&sources);
    let config = match Config::load(&sources) {
        Ok(config) => config,
        // Without a valid configuration the other checks would test the wrong systems.
        Err(errors) => {
            return Report::of(errors.iter().map(|error| Check::refused(CONFIGURATION, error)).collect());
        }
    };
    let now = SystemClock.now();
    let mut checks = vec![configuration(&sources)];
    let served = match config.database.file() {
        Some(file) => {
            let (lock, holder) = lock(file);
            checks.extend([folder(file), lock]);
            port::Served::Here(holder)
        }
        None => port::Served::Anywhere,
    };
    checks.extend(database::checks(&config, now).await);
    for listen in config.listens() {
        checks.push(port::check(listen, &served).await);
    }
    checks.extend(secrets::checks(&config, &sources));
    checks.push(gateway::check(&config).await);
    checks.extend(redis::check(&config).await);
    Report::of(checks)
}

fn configuration(sources: &Sources) -> Check {
    let mut origins: Vec<String> = Vec::new();
    for setting in Config::describe(sources).settings {
        let origin = match setting.origin {
            Origin::Default => continue,
            Origin::File(path) => path.display().to_string(),
            Origin::Variable(name) => name,
            Origin::Flag(flag) => flag.to_owned(),
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
    let probe =
        marketplace_wiring::sibling_file::sibling_file(database, &format!("doctor-{}", std::process::id()));
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
            "all orders and events are stored in the database file".to_owned(),
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
            let path = marketplace_wiring::sibling_file::sibling_file(database, "lock");
            (Check::failed(NAME, &Failure::LockFile { path, cause }), None)
        }
    }
}
