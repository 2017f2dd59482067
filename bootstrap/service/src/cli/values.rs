//! Parsers of command-line values. Unlike errors of the standard library, their errors name the accepted values.

use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{EventId, IdError, OutboxStatus, TenantId};
use handover_outbox::operations::{Reason, RedriveRate};
use handover_outbox::ports::DeadLetterStatus;
use marketplace_domain::{OrderId, RefundId, RefundStatus, ReportState};

pub(super) use handover_runtime::terminal::whole;

pub(super) fn status(name: &str) -> Result<OutboxStatus, String> {
    name.to_ascii_uppercase().parse().map_err(|_| "allowed values: new, retry, sent, failed".to_owned())
}

pub(super) fn dead_letter_status(name: &str) -> Result<DeadLetterStatus, String> {
    DeadLetterStatus::named(&name.to_ascii_uppercase())
        .ok_or_else(|| "allowed values: open, replaying, replayed, discarded".to_owned())
}

pub(super) fn tenant(text: &str) -> Result<TenantId, String> {
    text.parse().map_err(|error: IdError| error.to_string())
}

pub(super) fn event(text: &str) -> Result<EventId, String> {
    text.parse().map_err(|error: IdError| error.to_string())
}

pub(super) fn order(text: &str) -> Result<OrderId, String> {
    text.parse().map_err(|error: IdError| error.to_string())
}

pub(super) fn refund(text: &str) -> Result<RefundId, String> {
    text.parse().map_err(|error: IdError| error.to_string())
}

pub(super) fn refund_status(name: &str) -> Result<RefundStatus, String> {
    name.to_ascii_uppercase().parse().map_err(|_| "allowed values: processing, success, failed".to_owned())
}

pub(super) fn report_state(name: &str) -> Result<ReportState, String> {
    name.to_ascii_uppercase().parse().map_err(|_| "allowed values: open, done, closed".to_owned())
}

pub(super) fn time(text: &str) -> Result<DateTime<Utc>, String> {
    let time = DateTime::parse_from_rfc3339(text);
    time.map(|time| time.to_utc()).map_err(|_| "write it as 2026-01-31T08:00:00Z".to_owned())
}

pub(super) fn cursor(text: &str) -> Result<i64, String> {
    text.parse()
        .ok()
        .filter(|id| *id > 0)
        .ok_or_else(|| "write the `nextCursor` of an earlier page".to_owned())
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a number and its unit: 15m, 1h or 7d".to_owned())
}

pub(super) fn pace(text: &str) -> Result<RedriveRate, String> {
    let pace = text.parse().ok().and_then(RedriveRate::new);
    pace.ok_or_else(|| format!("write a whole number from 1 to {}", RedriveRate::MAX))
}

pub(super) fn reason(text: &str) -> Result<Reason, String> {
    Reason::new(text.to_owned()).map_err(|error| error.to_string())
}
