//! The database file, its schema, the broker in it, and the clock that its rows were written by.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_application::ports::{OutboxFilter, Store, StoreError};
use handover_application::topology::Topology;

use super::report::Check;
use crate::Failure;
use crate::config::{BrokerChoice, Config};
use crate::wiring::{Looked, Schema};

/// A database that does not answer within this is away.
const WITHIN: Duration = Duration::from_secs(10);
/// Clocks of one machine differ by no more than a correction.
const TOLERANCE: TimeDelta = TimeDelta::seconds(5);
/// No clock is right before this program was written, or a lifetime later.
const FIRST_YEAR: i32 = 2026;
const LAST_YEAR: i32 = 2100;

const DATABASE: &str = "database";
const SCHEMA: &str = "schema";
const BROKER: &str = "broker";
const CLOCK: &str = "clock";

/// Looks at all of it.
pub(super) async fn checks(config: &Config, now: DateTime<Utc>) -> Vec<Check> {
    match tokio::time::timeout(WITHIN, examine(config, now)).await {
        Ok(checks) => checks,
        Err(_) => {
            let cause = StoreError::Unavailable(format!("no answer within {WITHIN:?}").into());
            vec![Check::failed(DATABASE, &Failure::database(&config.database)(cause)), clock(now, None)]
        }
    }
}

async fn examine(config: &Config, now: DateTime<Utc>) -> Vec<Check> {
    let looked = match Looked::open(&config.database).await {
        Ok(looked) => looked,
        Err(Failure::NoDatabase { .. }) => {
            let what =
                format!("{} is not there yet; `serve` or `migrate` makes it", config.database.display());
            return vec![Check::ok(DATABASE, what), clock(now, None)];
        }
        Err(failure) => return vec![Check::failed(DATABASE, &failure), clock(now, None)],
    };
    let schema = match looked.schema().await {
        Ok(schema) => schema,
        Err(failure) => return vec![Check::failed(DATABASE, &failure), clock(now, None)],
    };
    let mut checks = vec![Check::ok(DATABASE, format!("{} answers", config.database.display()))];
    checks.push(schema_check(config, schema));
    if schema == Schema::Current {
        checks.push(broker(config, &looked).await);
        checks.push(match newest_event(&looked).await {
            Ok(newest) => clock(now, newest),
            Err(cause) => Check::failed(CLOCK, &Failure::database(&config.database)(cause)),
        });
    } else {
        checks.push(clock(now, None));
    }
    looked.store.close().await;
    checks
}

fn schema_check(config: &Config, schema: Schema) -> Check {
    let database = config.database.clone();
    match schema {
        Schema::Current => Check::ok(SCHEMA, "its version is the one that this program needs".to_owned()),
        Schema::Older { found, needed } => Check::warn(
            SCHEMA,
            format!("version {found}, and this program needs {needed}"),
            "it was made by an older handover; the way back is a copy of the file from before",
            "copy the file, then `handover migrate` or the next `handover serve` brings it up to date",
        ),
        Schema::Newer { found, needed } => {
            Check::failed(SCHEMA, &Failure::SchemaNewer { database, found, needed })
        }
    }
}

async fn broker(config: &Config, looked: &Looked) -> Check {
    if config.broker == BrokerChoice::Memory {
        return Check::warn(
            BROKER,
            "memory: keeps its queues in the process that serves".to_owned(),
            "nobody else sees them, and each start sends again what was on its way",
            "set broker.url = \"database:\" for anything but tests",
        );
    }
    let queues = match looked.broker(config.broker) {
        Ok(broker) => broker.queues().await.map_err(Failure::from),
        Err(failure) => Err(failure),
    };
    let queues = match queues {
        Ok(queues) => queues,
        Err(failure) => return Check::failed(BROKER, &failure),
    };
    let topology = Topology::standard(config.rules.pending_timeout);
    let is_there = |name: &str| queues.iter().any(|queue| queue.name == name);
    let missing: Vec<&str> =
        topology.queues.iter().map(|queue| queue.name.as_str()).filter(|name| !is_there(name)).collect();
    match missing.as_slice() {
        [] => Check::ok(BROKER, format!("it answers, and has all {} queues", topology.queues.len())),
        _ if queues.is_empty() => {
            Check::ok(BROKER, "it answers; `serve` declares its queues at the first start".to_owned())
        }
        missing => Check::warn(
            BROKER,
            format!("it answers, and has no {}", missing.join(", ")),
            "they came with another version or with another order.timeout.pending-minutes",
            "nothing, if the next `handover serve` is to use this configuration: it declares them",
        ),
    }
}

async fn newest_event(looked: &Looked) -> Result<Option<DateTime<Utc>>, StoreError> {
    let mut view = looked.store.view().await?;
    let rows = view.outbox_page(&OutboxFilter::default(), None, 1).await?;
    Ok(rows.first().map(|row| row.create_time))
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
