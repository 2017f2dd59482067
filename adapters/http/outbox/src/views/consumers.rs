//! Consume log, dead letters and audit log.

use handover_events::{AggregateId, ConsumeStatus, EventId, Json, TenantId};
use handover_outbox::operations::ParkedDeadLetter;
use handover_outbox::ports::{AuditEntry, Consumed, Numbered};
use serde::Serialize;
use utoipa::ToSchema;

use super::time::{Time, json_or_text};
use crate::openapi::kinds;

/// A dead letter: a message that a consumer could not process.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeadLetter)]
pub struct DeadLetterView {
    queue: String,
    key: String,
    /// Id of the event; null if the message is not an event of this service.
    #[schema(value_type = Option<kinds::EventId>, required)]
    event_id: Option<EventId>,
    #[schema(value_type = kinds::Id)]
    tenant_id: TenantId,
    #[schema(required)]
    event_type: Option<String>,
    #[schema(required)]
    trace_id: Option<String>,
    reason: String,
    died_at: Time,
    #[schema(value_type = kinds::DeadLetterStatus)]
    status: &'static str,
    #[schema(required)]
    decided_at: Option<Time>,
    #[schema(required)]
    note: Option<String>,
    #[schema(value_type = kinds::Json)]
    body: Json,
}

impl From<ParkedDeadLetter> for DeadLetterView {
    fn from(ParkedDeadLetter { dead_letter, event, .. }: ParkedDeadLetter) -> DeadLetterView {
        DeadLetterView {
            queue: dead_letter.queue,
            key: dead_letter.key,
            event_id: event,
            tenant_id: dead_letter.tenant,
            event_type: dead_letter.event_type,
            trace_id: dead_letter.trace_id,
            reason: dead_letter.reason,
            died_at: Time(dead_letter.died_at),
            status: dead_letter.status.as_str(),
            decided_at: dead_letter.decided_at.map(Time),
            note: dead_letter.note,
            body: json_or_text(dead_letter.body),
        }
    }
}

/// A record of the consume log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Consumption)]
pub struct ConsumptionView {
    consumer: String,
    #[schema(value_type = kinds::EventId)]
    event_id: EventId,
    event_type: String,
    aggregate_type: String,
    #[schema(value_type = kinds::AnyAggregateId)]
    aggregate_id: AggregateId,
    aggregate_seq: i64,
    #[schema(value_type = kinds::Id)]
    tenant_id: TenantId,
    #[schema(value_type = kinds::ConsumeStatus)]
    status: ConsumeStatus,
    attempts: u32,
    #[schema(required)]
    next_retry_time: Option<Time>,
    #[schema(required)]
    lease_until: Option<Time>,
    #[schema(required)]
    error_message: Option<String>,
    #[schema(required)]
    idempotency_key: Option<String>,
    #[schema(required)]
    consume_result: Option<String>,
    payload_hash: String,
    trace_id: String,
    cost_ms: i64,
    consume_time: Time,
}

impl From<Numbered<Consumed>> for ConsumptionView {
    fn from(Numbered { effect: consumed, .. }: Numbered<Consumed>) -> ConsumptionView {
        let record = consumed.record;
        ConsumptionView {
            consumer: consumed.consumer,
            event_id: consumed.event_id,
            event_type: consumed.event_type,
            aggregate_type: consumed.aggregate.kind,
            aggregate_id: consumed.aggregate.id,
            aggregate_seq: consumed.aggregate_seq,
            tenant_id: consumed.aggregate.tenant,
            status: record.status,
            attempts: record.attempts,
            next_retry_time: record.next_retry_time.map(Time),
            lease_until: record.lease_until.map(Time),
            error_message: record.error_message,
            idempotency_key: consumed.idempotency_key,
            consume_result: consumed.consume_result,
            payload_hash: consumed.payload_hash,
            trace_id: consumed.trace_id,
            cost_ms: consumed.cost_ms,
            consume_time: Time(record.consume_time),
        }
    }
}

/// An entry of the audit log: a read or a change by an operator.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
pub struct AuditView {
    audit_id: i64,
    #[schema(value_type = kinds::Id)]
    tenant_id: TenantId,
    actor: String,
    action: String,
    #[schema(value_type = kinds::Json)]
    selection: Json,
    /// Number of rows shown or selected for the change.
    matched: u64,
    /// Number of rows changed.
    changed: u64,
    #[schema(required)]
    reason: Option<String>,
    trace_id: String,
    create_time: Time,
}

impl From<Numbered<AuditEntry>> for AuditView {
    fn from(Numbered { id, effect: entry }: Numbered<AuditEntry>) -> AuditView {
        AuditView {
            audit_id: id,
            tenant_id: entry.tenant,
            actor: entry.actor,
            action: entry.action,
            selection: json_or_text(entry.selection),
            matched: entry.matched,
            changed: entry.changed,
            reason: entry.reason,
            trace_id: entry.trace_id,
            create_time: Time(entry.at),
        }
    }
}
