//! Checks of the database, its schema and the clock.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::{OutboxFilter, Store, StoreError, View};

use super::broker;
use super::jobs::{self, JOBS};
use super::report::Check;
use super::schema;
use super::subject::Subject;
use crate::failure::Failure;
use crate::lock::DatabaseLock;
use crate::settings::DatabaseChoice;
use crate::stores::{AttachedDatabase, Schema};

/// A database that does not answer within this time counts as unavailable.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Accepted clock difference: clocks that NTP synchronizes differ by less.
const TOLERANCE: TimeDelta = TimeDelta::seconds(5);
/// Plausible years of a correct clock: not before this program was written.
const FIRST_YEAR: i32 = 2026;
const LAST_YEAR: i32 = 2100;

const DATABASE: &str = "database";
const SETTINGS: &str = "settings";
const CLOCK: &str = "clock";
const AUDIT: &str = "audit log";

/// Checks the database, and the broker, which may be in the database.
pub(super) async fn checks(subject: &Subject<'_>, now: DateTime<Utc>) -> Vec<Check> {
    let mut found = Found::default();
    if tokio::time::timeout(TIMEOUT, examine(subject, now, &mut found)).await.is_err() {
        let cause = StoreError::Unavailable(format!("no answer within {TIMEOUT:?}").into());
        found.checks =
            vec![Check::failed(DATABASE, &Failure::database(subject.database)(cause)), clock(now, None)];
        found.database = None;
    }
    let Found { mut checks, database } = found;
    let clock = checks.pop();
    checks.extend(broker::checks(subject, database.as_ref()).await);
    checks.extend(clock);
    if let Some(database) = database {
        database.store.close().await;
    }
    checks
}

/// Results of the checks; the last result is that of the clock check. `database` is set if the database can be read.
#[derive(Default)]
struct Found {
    checks: Vec<Check>,
    database: Option<AttachedDatabase>,
}

async fn examine(subject: &Subject<'_>, now: DateTime<Utc>, found: &mut Found) {
    let Found { checks, database: readable } = found;
    let failed = |failure: &Failure| [Check::failed(DATABASE, failure), clock(now, None)];
    let database = match AttachedDatabase::open(subject.database, subject.parts).await {
        Ok(database) => database,
        Err(failure @ Failure::NoDatabase { .. }) if is_served(subject.database) => {
            return checks.extend(failed(&failure));
        }
        Err(Failure::NoDatabase { .. }) => {
            let what =
                format!("{} does not exist yet; the service or `migrate` creates it", subject.database);
            return checks.extend([Check::ok(DATABASE, what), clock(now, None)]);
        }
        Err(failure) => return checks.extend(failed(&failure)),
    };
    let (versions, facts) = match (database.schema().await, database.store.server_info().await) {
        (Ok(versions), Ok(facts)) => (versions, facts),
        (Err(failure), _) => return checks.extend(failed(&failure)),
        (_, Err(cause)) => return checks.extend(failed(&Failure::database(subject.database)(cause))),
    };
    match &facts {
        Some(facts) => {
            checks.push(Check::ok(DATABASE, format!("{} is reachable: {}", subject.database, facts.version)))
        }
        None => checks.push(Check::ok(DATABASE, format!("{} is reachable", subject.database))),
    }
    checks.extend(facts.iter().flat_map(|facts| &facts.unsafe_settings).map(durability));
    match database.store.unsuitable_settings().await {
        Ok(settings) => checks.extend(settings.into_iter().map(|setting| {
            Check::failed(SETTINGS, &Failure::Setting { database: subject.database.clone(), setting })
        })),
        Err(cause) => checks.push(Check::failed(SETTINGS, &Failure::database(subject.database)(cause))),
    }
    checks.push(schema::versions(subject.database, versions));
    if versions != Schema::Current {
        return checks.push(clock(now, None));
    }
    checks.extend(schema::tables(&database).await);
    match database.store.guards_audit_log().await {
        Ok(true) => {}
        Ok(false) => checks.push(audit_log()),
        Err(cause) => checks.push(Check::failed(AUDIT, &Failure::database(subject.database)(cause))),
    }
    match jobs::check(&database.store).await {
        Ok(check) => checks.extend(check),
        Err(cause) => checks.push(Check::failed(JOBS, &Failure::database(subject.database)(cause))),
    }
    checks.extend(subject.application.of_tables(&database.store).await);
    checks.push(match times(&database).await {
        Ok((newest, theirs)) if facts.is_some() => server_clock(now, newest, theirs),
        Ok((newest, _)) => clock(now, newest),
        Err(cause) => Check::failed(CLOCK, &Failure::database(subject.database)(cause)),
    });
    *readable = Some(database);
}

/// Whether a process serves the database file, which then was deleted or moved if it does not exist.
fn is_served(database: &DatabaseChoice) -> bool {
    database.file().is_some_and(|file| matches!(DatabaseLock::holder(file), Ok(Some(_))))
}

fn durability(setting: &String) -> Check {
    Check::warn(
        "durability",
        format!("unsafe setting of the database server: {setting}"),
        "a crash of the server's machine can lose acknowledged commits",
        "change it so that a commit is on disk before it is confirmed: fsync, full_page_writes and synchronous_commit on; \
         innodb_flush_log_at_trx_commit = 1, innodb_doublewrite = ON, sync_binlog = 1",
    )
}

fn audit_log() -> Check {
    Check::warn(
        AUDIT,
        "the database user can change the audit log".to_owned(),
        "an attacker who controls the service could hide actions",
        "use one user for `migrate` and another for the service, who may only SELECT and INSERT in outbox_audit_log",
    )
}

/// Creation time of the newest event, and the database's current time.
async fn times(database: &AttachedDatabase) -> Result<(Option<DateTime<Utc>>, DateTime<Utc>), StoreError> {
    let theirs = database.store.database_now().await?;
    let mut view = database.store.view().await?;
    let rows = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 1).await?;
    Ok((rows.first().map(|row| row.create_time), theirs))
}

/// Checks the clock of a database server: deadlines follow it, while tokens and callbacks are checked with this
/// machine's clock.
fn server_clock(now: DateTime<Utc>, newest_event: Option<DateTime<Utc>>, theirs: DateTime<Utc>) -> Check {
    let difference = theirs - now;
    if difference.abs() <= TOLERANCE {
        return clock(theirs, newest_event);
    }
    let by = humantime::format_duration(Duration::from_secs(difference.num_seconds().unsigned_abs()));
    let direction = if difference > TimeDelta::zero() { "behind" } else { "ahead of" };
    Check::warn(
        CLOCK,
        format!("the clock of this machine is {by} {direction} the database's"),
        "deadlines follow the database's clock, but tokens and callbacks are checked with this machine's clock",
        "set the clocks of both machines (NTP)",
    )
}

/// Checks that the time is plausible and not before the newest event.
fn clock(now: DateTime<Utc>, newest_event: Option<DateTime<Utc>>) -> Check {
    let why = "event times, ids, retries, timeouts and the expiry of tokens depend on the clock";
    let remedy = "set the clock of this machine (NTP), then start";
    let year = chrono::Datelike::year(&now);
    if !(FIRST_YEAR..=LAST_YEAR).contains(&year) {
        return Check::fail(CLOCK, format!("the time is {now:.0}"), why.to_owned(), remedy.to_owned());
    }
    match newest_event.map(|newest| newest - now) {
        Some(behind) if behind > TOLERANCE => {
            let behind = Duration::from_secs(behind.num_seconds().unsigned_abs());
            let what = format!("the clock is {} behind the newest event", humantime::format_duration(behind));
            Check::warn(CLOCK, what, why, remedy)
        }
        Some(_) | None => Check::ok(CLOCK, format!("the time is {}", now.format("%Y-%m-%d %H:%M:%S UTC"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    fn status(now: &str, newest: Option<&str>) -> Status {
        clock(now.parse().unwrap(), newest.map(|newest| newest.parse().unwrap())).status
    }

    #[test]
    fn clock_check_reports_implausible_years_and_times_before_the_newest_event() {
        let now = "2026-11-21T03:00:00Z";
        assert_eq!(status(now, None), Status::Ok);
        assert_eq!(status(now, Some("2026-11-21T03:00:05Z")), Status::Ok);
        assert_eq!(status(now, Some("2020-01-01T00:00:00Z")), Status::Ok);
        assert_eq!(status(now, Some("2026-11-21T03:00:06Z")), Status::Warn);
        assert_eq!(status("1970-01-01T00:00:09Z", None), Status::Fail);
        assert_eq!(status("2101-01-01T00:00:00Z", Some(now)), Status::Fail);
    }
}
