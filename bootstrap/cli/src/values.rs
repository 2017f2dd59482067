//! Parsers of command-line values. Unlike errors of the standard library, their errors name the accepted values.

use std::ffi::OsStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};
use handover_events::{
    AggregateId, ConsumeStatus, EventId, IdError, OutboxStatus, TenantId, TimeError, parse_time,
};
use handover_outbox::archive::MIN_RETENTION;
use handover_outbox::operations::{Reason, RedriveRate};
use handover_outbox::ports::{DeadLetterStatus, DeliveryState, EndpointId};

pub use handover_runtime::terminal::whole;

/// Parser of one of several names, in any case. Shell completion offers the names.
#[derive(Debug, Clone)]
pub struct OneOf<T> {
    names: Vec<&'static str>,
    /// Parses a name in lower case; `None` for an unknown one.
    parse: fn(&str) -> Option<T>,
}

/// A parser of these names, in lower case.
pub fn one_of<T>(names: impl IntoIterator<Item = &'static str>, parse: fn(&str) -> Option<T>) -> OneOf<T> {
    OneOf { names: names.into_iter().collect(), parse }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let parse = self.parse;
        let allowed = format!("allowed values: {}", self.names.join(", "));
        let parser = move |text: &str| parse(&text.to_ascii_lowercase()).ok_or_else(|| allowed.clone());
        TypedValueParser::parse_ref(&parser, command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}

/// Parser of a status of events.
pub(crate) fn status() -> OneOf<OutboxStatus> {
    one_of(["new", "retry", "sent", "failed"], |name| name.to_ascii_uppercase().parse().ok())
}

/// Parser of a status of consume-log records.
pub(crate) fn consume_status() -> OneOf<ConsumeStatus> {
    let names = ["processing", "waiting", "success", "failed", "dead"];
    one_of(names, |name| name.to_ascii_uppercase().parse().ok())
}

/// Parser of a status of dead letters.
pub(crate) fn dead_letter_status() -> OneOf<DeadLetterStatus> {
    let names = ["open", "replaying", "replayed", "discarded"];
    one_of(names, |name| DeadLetterStatus::named(&name.to_ascii_uppercase()))
}

/// Parser of a state of webhook deliveries.
pub(crate) fn delivery_state() -> OneOf<DeliveryState> {
    let names = ["pending", "delivered", "dead", "cancelled"];
    one_of(names, |name| DeliveryState::named(&name.to_ascii_uppercase()))
}

/// Parser of the id of a webhook endpoint.
pub(crate) fn endpoint(text: &str) -> Result<EndpointId, String> {
    let id = text.parse().map(EndpointId);
    id.map_err(|_| "write the `endpointId` of `webhook list`, a UUID".to_owned())
}

/// Parser of a request header.
pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| "write it as 'NAME: VALUE'".to_owned())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Parses the lines of a file that are not empty; there MUST be one.
pub(crate) fn lines_of_file<T>(path: &str, parse: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let parsed = lines.map(parse).collect::<Result<Vec<_>, _>>()?;
    if parsed.is_empty() { Err("the file is empty".to_owned()) } else { Ok(parsed) }
}

/// Parser of a tenant's id.
pub fn tenant(text: &str) -> Result<TenantId, String> {
    text.parse().map_err(|error: IdError| error.to_string())
}

/// Parser of an event's id.
pub(crate) fn event(text: &str) -> Result<EventId, String> {
    text.parse().map_err(|error: IdError| error.to_string())
}

/// Parser of an aggregate's id: an integer, or a text key.
pub(crate) fn aggregate_id(text: &str) -> Result<AggregateId, String> {
    AggregateId::parse(text).map_err(|error| error.to_string())
}

/// Parser of the text key of an aggregate.
pub(crate) fn aggregate_key(text: &str) -> Result<AggregateId, String> {
    AggregateId::text(text).map_err(|error| error.to_string())
}

/// Parser of a time (RFC 3339) in the years 1 to 9999 in UTC.
pub fn time(text: &str) -> Result<DateTime<Utc>, String> {
    parse_time(text).map_err(|error| match error {
        TimeError::Format => "write it as 2026-01-31T08:00:00Z".to_owned(),
        TimeError::OutOfRange => error.to_string(),
    })
}

/// Parser of a cursor.
pub fn cursor(text: &str) -> Result<i64, String> {
    text.parse()
        .ok()
        .filter(|id| *id > 0)
        .ok_or_else(|| "write the `nextCursor` of an earlier page".to_owned())
}

/// Longest duration: 1,000 years of 365.25 days, as humantime counts them. The present plus or minus a longer one may be
/// outside the years that every database can store.
const MAX_DURATION: Duration = Duration::from_secs(1_000 * 31_557_600);

/// Parser of a duration of at most 1,000 years.
pub fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text);
    let duration = duration.map_err(|_| "write a number and its unit: 15m, 1h or 7d".to_owned())?;
    if duration > MAX_DURATION {
        return Err("write at most 1000y".to_owned());
    }
    Ok(duration)
}

/// Parser of a retention time.
pub(crate) fn retention(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration < MIN_RETENTION {
        return Err("it must be at least 1h: younger events may still be sent again".to_owned());
    }
    Ok(duration)
}

/// Parser of a number of events per second.
pub(crate) fn pace(text: &str) -> Result<RedriveRate, String> {
    let pace = text.parse().ok().and_then(RedriveRate::new);
    pace.ok_or_else(|| format!("write a whole number from 1 to {}", RedriveRate::MAX))
}

/// Parser of a reason.
pub fn reason(text: &str) -> Result<Reason, String> {
    Reason::new(text.to_owned()).map_err(|error| error.to_string())
}
