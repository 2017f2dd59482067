//! Consume log, dead letters and audit log.

use handover_events::{AggregateId, ConsumeStatus, EventId, Json, TenantId};
use handover_outbox::operations::ParkedDeadLetter;
use handover_outbox::ports::{AuditEntry, Consumed, Numbered};

use super::Listed;
use super::time::{Time, json_or_text};
use crate::openapi::kinds;

crate::views! {
    /// A dead letter: a message that a consumer could not process.
    pub DeadLetterView as DeadLetter {
        queue: String,
        key: String,
        /// Id of the event; null if the message is not an event of this service.
        event_id: Option<EventId>,
        tenant_id: TenantId,
        event_type: Option<String>,
        trace_id: Option<String>,
        reason: String,
        died_at: Time,
        status: &'static str = kinds::DeadLetterStatus,
        decided_at: Option<Time>,
        note: Option<String>,
        body: Json,
    }
}

impl Listed for DeadLetterView {
    const COLUMNS: &'static [&'static str] = &["key", "queue", "eventType", "status", "diedAt", "reason"];
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

crate::views! {
    /// A record of the consume log.
    pub ConsumptionView as Consumption {
        consumer: String,
        event_id: EventId,
        event_type: String,
        aggregate_type: String,
        aggregate_id: AggregateId = kinds::AnyAggregateId,
        aggregate_seq: i64,
        tenant_id: TenantId,
        status: ConsumeStatus,
        attempts: u32,
        next_retry_time: Option<Time>,
        lease_until: Option<Time>,
        error_message: Option<String>,
        idempotency_key: Option<String>,
        consume_result: Option<String>,
        payload_hash: String,
        trace_id: String,
        cost_ms: i64,
        consume_time: Time,
    }
}

impl Listed for ConsumptionView {
    const COLUMNS: &'static [&'static str] = &[
        "eventId",
        "consumer",
        "eventType",
        "aggregateId",
        "status",
        "attempts",
        "consumeTime",
        "costMs",
        "consumeResult",
        "errorMessage",
    ];
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

crate::views! {
    /// An entry of the audit log: a read or a change by an operator.
    pub AuditView as AuditEntry {
        audit_id: i64,
        tenant_id: TenantId,
        actor: String,
        action: String,
        selection: Json,
        /// Number of rows shown or selected for the change.
        matched: u64,
        /// Number of rows changed.
        changed: u64,
        reason: Option<String>,
        trace_id: String,
        create_time: Time,
    }
}

impl Listed for AuditView {
    const COLUMNS: &'static [&'static str] =
        &["createTime", "actor", "action", "matched", "changed", "reason", "selection"];
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
