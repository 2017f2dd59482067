//! The database, its schema, and the clock that its rows were written by.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::{OutboxFilter, Store, StoreError};
use marketplace::ports::{IdKind, IdState};

use super::broker;
use super::report::Check;
use marketplace_wiring::Failure;
use marketplace_wiring::adapters::{Looked, Schema};
use marketplace_wiring::config::{Config, DatabaseChoice};

/// A database that does not answer within this is away.
const WITHIN: Duration = Duration::from_secs(10);
/// Clocks of one machine differ by no more than a correction.
const TOLERANCE: TimeDelta = TimeDelta::seconds(5);
/// No clock is right before this program was written, or a lifetime later.
const FIRST_YEAR: i32 = 2026;
const LAST_YEAR: i32 = 2100;

const DATABASE: &str = "database";
const SCHEMA: &str = "schema";
const CLOCK: &str = "clock";
const AUDIT: &str = "audit log";
const IDS: &str = "ids";

/// Looks at all of it, and at the broker, which may be in it.
pub(super) async fn checks(config: &Config, now: DateTime<Utc>) -> Vec<Check> {
    let mut found = Found::default();
    if tokio::time::timeout(WITHIN, examine(config, now, &mut found)).await.is_err() {
        let cause = StoreError::Unavailable(format!("no answer within {WITHIN:?}").into());
        found.checks =
            vec![Check::failed(DATABASE, &Failure::database(&config.database)(cause)), clock(now, None)];
        found.looked = None;
    }
    let Found { mut checks, looked } = found;
    let clock = checks.pop();
    checks.extend(broker::checks(config, looked.as_ref()).await);
    checks.extend(clock);
    if let Some(looked) = looked {
        looked.store.close().await;
    }
    checks
}

/// What was found in a database: the checks, the clock's last, and the database itself if it can be read.
#[derive(Default)]
struct Found {
    checks: Vec<Check>,
    looked: Option<Looked>,
}

async fn examine(config: &Config, now: DateTime<Utc>, found: &mut Found) {
    let Found { checks, looked: readable } = found;
    let failed = |failure: &Failure| [Check::failed(DATABASE, failure), clock(now, None)];
    let looked = match Looked::open(&config.database).await {
        Ok(looked) => looked,
        Err(Failure::NoDatabase { .. }) => {
            let what = format!("{} is not there yet; `serve` or `migrate` makes it", config.database);
            return checks.extend([Check::ok(DATABASE, what), clock(now, None)]);
        }
        Err(failure) => return checks.extend(failed(&failure)),
    };
    let (schema, facts) = match (looked.schema().await, looked.store.server_facts().await) {
        (Ok(schema), Ok(facts)) => (schema, facts),
        (Err(failure), _) => return checks.extend(failed(&failure)),
        (_, Err(cause)) => return checks.extend(failed(&Failure::database(&config.database)(cause))),
    };
    match &facts {
        Some(facts) => {
            checks.push(Check::ok(DATABASE, format!("{} answers: {}", config.database, facts.version)))
        }
        None => checks.push(Check::ok(DATABASE, format!("{} answers", config.database))),
    }
    checks.extend(facts.iter().flat_map(|facts| &facts.unsafe_settings).map(durability));
    checks.push(schema_check(&config.database, schema));
    if schema != Schema::Current {
        return checks.push(clock(now, None));
    }
    match looked.store.guards_audit_log().await {
        Ok(true) => {}
        Ok(false) => checks.push(audit_log()),
        Err(cause) => checks.push(Check::failed(AUDIT, &Failure::database(&config.database)(cause))),
    }
    match ids_behind(&looked).await {
        Ok(behind) => checks.extend(behind.into_iter().map(ids)),
        Err(cause) => checks.push(Check::failed(IDS, &Failure::database(&config.database)(cause))),
    }
    checks.push(match times(&looked).await {
        Ok((newest, theirs)) if facts.is_some() => server_clock(now, newest, theirs),
        Ok((newest, _)) => clock(now, newest),
        Err(cause) => Check::failed(CLOCK, &Failure::database(&config.database)(cause)),
    });
    *readable = Some(looked);
}

fn durability(setting: &String) -> Check {
    Check::warn(
        "durability",
        format!("the database server is set to {setting}"),
        "a commit that was answered may be gone after a crash of its machine",
        "set it as bootstrap/docs/operations.md says under \"Settings of the servers\"",
    )
}

fn audit_log() -> Check {
    Check::warn(
        AUDIT,
        "this user of the database can change what the audit log says".to_owned(),
        "whoever gets hold of the service can hide what was done",
        "let one user migrate and another serve, with the rights of .deploy/mysql-rights.sql",
    )
}

/// The kinds of ids whose next block lies below the largest id of their table.
async fn ids_behind(looked: &Looked) -> Result<Vec<(IdKind, IdState)>, StoreError> {
    let mut view = looked.store.view().await?;
    let mut behind = Vec::new();
    for kind in IdKind::ALL {
        let state = view.id_state(kind).await?;
        if state.is_behind() {
            behind.push((kind, state));
        }
    }
    Ok(behind)
}

fn ids((kind, state): (IdKind, IdState)) -> Check {
    Check::warn(
        IDS,
        format!(
            "the next {} id is {}, and there is one of {} already",
            kind.as_str(),
            state.next,
            state.largest
        ),
        "the database was restored or lost commits, and other rows may be missing too",
        "start `handover serve`: it continues above the largest id; then run `handover reconcile`",
    )
}

fn schema_check(database: &DatabaseChoice, schema: Schema) -> Check {
    match (schema, database) {
        (Schema::Current, _) => {
            Check::ok(SCHEMA, "its versions are those that this program needs".to_owned())
        }
        (Schema::Older { part, found, needed }, DatabaseChoice::File(_)) => Check::warn(
            SCHEMA,
            format!("version {found} of the {part} schema, and this program needs {needed}"),
            "it was made by an older handover; the way back is a copy of the file from before",
            "copy the file, then `handover migrate` or the next `handover serve` brings it up to date",
        ),
        // `serve` migrates a file, and nothing else.
        (older @ Schema::Older { .. }, DatabaseChoice::Server(_)) => refused(older, database),
        (newer @ Schema::Newer { .. }, _) => refused(newer, database),
    }
}

fn refused(schema: Schema, database: &DatabaseChoice) -> Check {
    match schema.current(database) {
        Ok(()) => Check::ok(SCHEMA, String::new()),
        Err(failure) => Check::failed(SCHEMA, &failure),
    }
}

/// When the newest event was made, and the database's own now.
async fn times(looked: &Looked) -> Result<(Option<DateTime<Utc>>, DateTime<Utc>), StoreError> {
    let theirs = looked.store.database_now().await?;
    let mut view = looked.store.view().await?;
    let rows = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 1).await?;
    Ok((rows.first().map(|row| row.create_time), theirs))
}

/// On a server its clock is what counts; tokens and callbacks are judged by this machine's.
fn server_clock(now: DateTime<Utc>, newest_event: Option<DateTime<Utc>>, theirs: DateTime<Utc>) -> Check {
    let apart = theirs - now;
    if apart.abs() <= TOLERANCE {
        return clock(theirs, newest_event);
    }
    let by = humantime::format_duration(Duration::from_secs(apart.num_seconds().unsigned_abs()));
    let where_to = if apart > TimeDelta::zero() { "behind" } else { "ahead of" };
    Check::warn(
        CLOCK,
        format!("this machine's is {by} {where_to} the database's"),
        "deadlines follow the database's, but tokens and callbacks are judged by this machine's",
        "set the clocks of both machines (NTP)",
    )
}

/// Whether the time can be true, and does not lie before what is written already.
fn clock(now: DateTime<Utc>, newest_event: Option<DateTime<Utc>>) -> Check {
    let why = "event times and ids come from it, and retries, timeouts and tokens wait for it";
    let remedy = "set the clock of this machine (NTP), then start";
    let year = chrono::Datelike::year(&now);
    if !(FIRST_YEAR..=LAST_YEAR).contains(&year) {
        return Check::fail(CLOCK, format!("it says {now:.0}"), why.to_owned(), remedy.to_owned());
    }
    match newest_event.map(|newest| newest - now) {
        Some(behind) if behind > TOLERANCE => {
            let behind = Duration::from_secs(behind.num_seconds().unsigned_abs());
            let what = format!("it is {} behind the newest event", humantime::format_duration(behind));
            Check::warn(CLOCK, what, why, remedy)
        }
        Some(_) | None => Check::ok(CLOCK, format!("it says {}", now.format("%Y-%m-%d %H:%M:%S UTC"))),
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
    fn a_clock_is_doubted_out_of_its_century_and_behind_its_own_events() {
        let now = "2026-11-21T03:00:00Z";
        assert_eq!(status(now, None), Status::Ok);
        assert_eq!(status(now, Some("2026-11-21T03:00:05Z")), Status::Ok);
        assert_eq!(status(now, Some("2020-01-01T00:00:00Z")), Status::Ok);
        assert_eq!(status(now, Some("2026-11-21T03:00:06Z")), Status::Warn);
        assert_eq!(status("1970-01-01T00:00:09Z", None), Status::Fail);
        assert_eq!(status("2101-01-01T00:00:00Z", Some(now)), Status::Fail);
    }
}
