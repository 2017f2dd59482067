//! `doctor`: what serving needs, looked at one by one. Nothing is changed; whoever serves goes on.
//!
//! **Invariant:** every check answers, however broken what it looks at is, and every one that is not ok says what, why
//! and what to do.

mod broker;
mod database;
mod gateway;
mod port;
mod redis;
mod report;
mod secrets;

use std::path::Path;

use handover_outbox::ports::Clock;
use handover_system::SystemClock;

use crate::cli::DoctorArgs;
use marketplace_wiring::config::{Config, Origin, Sources};
use marketplace_wiring::failure::folder_remedy;
use marketplace_wiring::{DatabaseLock, Failure};
use report::Check;
pub(crate) use report::Report;

const CONFIGURATION: &str = "configuration";

/// Looks at everything.
pub(crate) async fn examine(arguments: &DoctorArgs) -> Report {
    let sources = arguments.common.sources(&[arguments.address.flag()]);
    let config = match Config::load(&sources) {
        Ok(config) => config,
        // The rest would be looked at in the wrong place.
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
    Check::ok(CONFIGURATION, format!("every value is good; set by {origins}"))
}

/// Whether the database file, and what lies beside it, can be written.
fn folder(database: &Path) -> Check {
    const NAME: &str = "folder";
    let written = match std::fs::metadata(database) {
        Ok(file) if file.is_dir() => Err(std::io::ErrorKind::IsADirectory.into()),
        Ok(_) => std::fs::File::options().write(true).open(database).map(drop),
        Err(_) => Ok(()),
    };
    // SQLite makes files beside the database, and so do the lock and the secrets.
    let probe = marketplace_wiring::beside::beside(database, &format!("doctor-{}", std::process::id()));
    let written = written.and_then(|()| {
        std::fs::File::create_new(&probe)?;
        std::fs::remove_file(&probe)
    });
    match written {
        Ok(()) => Check::ok(NAME, format!("{} and files beside it can be written", database.display())),
        Err(cause) => Check::fail(
            NAME,
            format!("{} or files beside it cannot be written: {cause}", database.display()),
            "every order and event is kept there".to_owned(),
            folder_remedy(database, &cause),
        ),
    }
}

fn lock(database: &Path) -> (Check, Option<String>) {
    const NAME: &str = "lock";
    match DatabaseLock::holder(database) {
        Ok(None) => (Check::ok(NAME, "no process serves this database".to_owned()), None),
        Ok(Some(holder)) => (
            Check::ok(NAME, format!("process {holder} serves this database; a second one would be refused")),
            Some(holder),
        ),
        Err(cause) => {
            let path = marketplace_wiring::beside::beside(database, "lock");
            (Check::failed(NAME, &Failure::LockFile { path, cause }), None)
        }
    }
}
