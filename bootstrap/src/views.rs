//! What the commands show of the outbox, the dead letters and the queues, with the field names of the API.

use chrono::{DateTime, SecondsFormat, Utc};
use handover_application::ports::{DeadLetter, DeadLetterStatus, OutboxRow, QueueDepth};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// An outbox row.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventView {
    event_id: String,
    event_type: String,
    aggregate_type: String,
    aggregate_id: i64,
    aggregate_seq: i64,
    tenant_id: i64,
    status: &'static str,
    retry_count: u32,
    max_retry_count: u32,
    #[serde(serialize_with = "time_or_null")]
    next_retry_time: Option<DateTime<Utc>>,
    last_error: Option<String>,
    #[serde(serialize_with = "time")]
    create_time: DateTime<Utc>,
    #[serde(serialize_with = "time")]
    update_time: DateTime<Utc>,
    #[serde(serialize_with = "time_or_null")]
    sent_time: Option<DateTime<Utc>>,
    trace_id: String,
    payload: Value,
}

impl From<OutboxRow> for EventView {
    fn from(row: OutboxRow) -> EventView {
        EventView {
            trace_id: row.trace_id().to_owned(),
            event_id: row.event_id.into(),
            event_type: row.event_type,
            aggregate_type: row.aggregate.kind,
            aggregate_id: row.aggregate.id,
            aggregate_seq: row.aggregate_seq,
            tenant_id: row.aggregate.tenant.get(),
            status: row.status.as_str(),
            retry_count: row.retry_count,
            max_retry_count: row.max_retry_count,
            next_retry_time: row.next_retry_time,
            last_error: row.last_error,
            create_time: row.create_time,
            update_time: row.update_time,
            sent_time: row.sent_time,
            payload: json_or_text(row.payload),
        }
    }
}

impl EventView {
    /// The columns of a list.
    pub(crate) const HEADER: [&str; 7] =
        ["eventId", "eventType", "aggregateId", "status", "retryCount", "createTime", "lastError"];

    /// Its cells under [`EventView::HEADER`].
    pub(crate) fn row(&self) -> Vec<String> {
        vec![
            self.event_id.clone(),
            self.event_type.clone(),
            self.aggregate_id.to_string(),
            self.status.to_owned(),
            format!("{}/{}", self.retry_count, self.max_retry_count),
            shown(self.create_time),
            self.last_error.clone().unwrap_or_default(),
        ]
    }

    /// All of it.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let or_none = |time: Option<DateTime<Utc>>| time.map(shown).unwrap_or_default();
        vec![
            ("eventId", self.event_id.clone()),
            ("eventType", self.event_type.clone()),
            ("aggregateType", self.aggregate_type.clone()),
            ("aggregateId", self.aggregate_id.to_string()),
            ("aggregateSeq", self.aggregate_seq.to_string()),
            ("tenantId", self.tenant_id.to_string()),
            ("status", self.status.to_owned()),
            ("retryCount", self.retry_count.to_string()),
            ("maxRetryCount", self.max_retry_count.to_string()),
            ("nextRetryTime", or_none(self.next_retry_time)),
            ("lastError", self.last_error.clone().unwrap_or_default()),
            ("createTime", shown(self.create_time)),
            ("updateTime", shown(self.update_time)),
            ("sentTime", or_none(self.sent_time)),
            ("traceId", self.trace_id.clone()),
            ("payload", self.payload.to_string()),
        ]
    }
}

/// A dead letter: the columns of its row in camelCase.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetterView {
    queue: String,
    message_key: String,
    tenant_id: i64,
    event_type: Option<String>,
    trace_id: Option<String>,
    reason: String,
    #[serde(serialize_with = "time")]
    died_at: DateTime<Utc>,
    status: &'static str,
    body: Value,
}

impl From<DeadLetter> for DeadLetterView {
    fn from(letter: DeadLetter) -> DeadLetterView {
        DeadLetterView {
            queue: letter.queue,
            message_key: letter.key,
            tenant_id: letter.tenant.get(),
            event_type: letter.event_type,
            trace_id: letter.trace_id,
            reason: letter.reason,
            died_at: letter.died_at,
            status: match letter.status {
                DeadLetterStatus::Open => "OPEN",
                DeadLetterStatus::Replayed => "REPLAYED",
                DeadLetterStatus::Discarded => "DISCARDED",
            },
            body: json_or_text(letter.body),
        }
    }
}

impl DeadLetterView {
    /// The columns of a list.
    pub(crate) const HEADER: [&str; 6] = ["messageKey", "queue", "eventType", "status", "diedAt", "reason"];

    /// Its cells under [`DeadLetterView::HEADER`].
    pub(crate) fn row(&self) -> Vec<String> {
        vec![
            self.message_key.clone(),
            self.queue.clone(),
            self.event_type.clone().unwrap_or_default(),
            self.status.to_owned(),
            shown(self.died_at),
            self.reason.clone(),
        ]
    }
}

/// A queue.
#[derive(Debug, Serialize)]
pub(crate) struct QueueView {
    name: String,
    ready: u64,
    unacked: u64,
    consumers: u64,
}

impl From<QueueDepth> for QueueView {
    fn from(QueueDepth { name, ready, unacked, consumers }: QueueDepth) -> QueueView {
        QueueView { name, ready, unacked, consumers }
    }
}

impl QueueView {
    /// The columns of a list.
    pub(crate) const HEADER: [&str; 4] = ["name", "ready", "unacked", "consumers"];

    /// Its cells under [`QueueView::HEADER`].
    pub(crate) fn row(&self) -> Vec<String> {
        let numbers = [self.ready, self.unacked, self.consumers].map(|number| number.to_string());
        std::iter::once(self.name.clone()).chain(numbers).collect()
    }
}

/// A row inserted by hand, or a stranger's message, may hold what is not JSON; it is shown as it is.
fn json_or_text(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

fn shown(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn time<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown(*time))
}

fn time_or_null<S: Serializer>(time: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(shown).serialize(serializer)
}
