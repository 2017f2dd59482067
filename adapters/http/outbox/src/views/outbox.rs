//! Outbox rows and blocked aggregates.

use chrono::SecondsFormat;
use handover_events::{AggregateId, EventId, Json, OutboxStatus, TenantId};
use handover_outbox::operations::{ListedEvent, Outage};
use handover_outbox::ports::{ArchivedEvent, Blocked, Numbered};
use serde::Serialize;
use utoipa::ToSchema;

use super::Listed;
use super::time::{Time, json_or_text};
use crate::openapi::kinds;

crate::views! {
    /// An event of the outbox.
    pub EventView as Event {
        event_id: EventId,
        event_type: String,
        aggregate_type: String,
        aggregate_id: AggregateId = kinds::AnyAggregateId,
        aggregate_seq: i64,
        tenant_id: TenantId,
        status: OutboxStatus,
        retry_count: u32,
        max_retry_count: u32,
        next_retry_time: Option<Time>,
        last_error: Option<String>,
        create_time: Time,
        update_time: Time,
        sent_time: Option<Time>,
        released_time: Option<Time>,
        /// Time at which texts of the event were masked, because a person was erased.
        erased_time: Option<Time>,
        /// Why the person was erased.
        erased_reason: Option<String>,
        /// Time at which the event returned from the archive; its retention time counts from then.
        restored_time: Option<Time>,
        /// Consumers that have no work with the event; it is not delivered to them.
        idle_consumers: Vec<String>,
        /// Why the event is not published yet, while the broker is unavailable; null otherwise.
        waits_for: Option<String>,
        /// Name of the archive's file that contains the event; null: it is in the outbox.
        archive_file: Option<String>,
        trace_id: String,
        payload: Json,
    }
}

crate::views! {
    /// An event in the archive, without its content.
    pub ArchivedEventView as ArchivedEvent {
        event_id: EventId,
        event_type: String,
        aggregate_type: String,
        aggregate_id: AggregateId = kinds::AnyAggregateId,
        aggregate_seq: i64,
        tenant_id: TenantId,
        create_time: Time,
    }
}

impl Listed for ArchivedEventView {
    const COLUMNS: &'static [&'static str] =
        &["eventId", "eventType", "aggregateType", "aggregateId", "tenantId", "createTime"];
}

impl From<ArchivedEvent> for ArchivedEventView {
    fn from(event: ArchivedEvent) -> ArchivedEventView {
        ArchivedEventView {
            event_id: event.event_id,
            event_type: event.event_type,
            aggregate_type: event.aggregate.kind,
            aggregate_id: event.aggregate.id,
            aggregate_seq: event.aggregate_seq,
            tenant_id: event.aggregate.tenant,
            create_time: Time(event.create_time),
        }
    }
}

impl Listed for EventView {
    const COLUMNS: &'static [&'static str] = &[
        "eventId",
        "eventType",
        "aggregateType",
        "aggregateId",
        "status",
        "retryCount",
        "createTime",
        "lastError",
        "waitsFor",
    ];
}

impl From<ListedEvent> for EventView {
    fn from(ListedEvent { row, broker_outage, archive_file }: ListedEvent) -> EventView {
        let waits_for = broker_outage.map(|Outage { since, error }| {
            format!("broker, unavailable since {}: {error}", since.to_rfc3339_opts(SecondsFormat::Secs, true))
        });
        EventView {
            trace_id: row.trace_id().to_owned(),
            payload: json_or_text(row.payload),
            event_id: row.event_id,
            event_type: row.event_type,
            aggregate_type: row.aggregate.kind,
            aggregate_id: row.aggregate.id,
            aggregate_seq: row.aggregate_seq,
            tenant_id: row.aggregate.tenant,
            status: row.status,
            retry_count: row.retry_count,
            max_retry_count: row.max_retry_count,
            next_retry_time: row.next_retry_time.map(Time),
            last_error: row.last_error,
            create_time: Time(row.create_time),
            update_time: Time(row.update_time),
            sent_time: row.sent_time.map(Time),
            released_time: row.released_time.map(Time),
            erased_time: row.erased_time.map(Time),
            erased_reason: row.erased_reason,
            restored_time: row.restored_time.map(Time),
            waits_for,
            archive_file,
            idle_consumers: row.idle_consumers.names().map(str::to_owned).collect(),
        }
    }
}

/// Reason why the next event of an aggregate waits.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schema(as = WaitsFor)]
pub(crate) enum WaitsForView {
    /// The aggregate waits until its next event is due, at `until`.
    Time,
    /// The aggregate waits for an operator, who has to redrive the failed event or release the aggregate.
    Decision,
}

crate::views! {
    /// A blocked aggregate: its next event waits for a time or for the decision of an operator.
    pub BlockedView as Blocked {
        aggregate_type: String,
        aggregate_id: AggregateId = kinds::AnyAggregateId,
        tenant_id: TenantId,
        event_id: EventId,
        event_type: String,
        last_error: Option<String>,
        since: Time,
        waits_for: WaitsForView,
        until: Option<Time>,
        held: u64,
    }
}

impl Listed for BlockedView {
    const COLUMNS: &'static [&'static str] = &[
        "aggregateType",
        "aggregateId",
        "tenantId",
        "eventType",
        "waitsFor",
        "until",
        "held",
        "since",
        "lastError",
    ];
}

impl From<Numbered<Blocked>> for BlockedView {
    fn from(Numbered { effect: blocked, .. }: Numbered<Blocked>) -> BlockedView {
        BlockedView {
            aggregate_type: blocked.aggregate.kind,
            aggregate_id: blocked.aggregate.id,
            tenant_id: blocked.aggregate.tenant,
            event_id: blocked.event_id,
            event_type: blocked.event_type,
            last_error: blocked.last_error,
            since: Time(blocked.since),
            waits_for: blocked.until.map_or(WaitsForView::Decision, |_| WaitsForView::Time),
            until: blocked.until.map(Time),
            held: blocked.held,
        }
    }
}
