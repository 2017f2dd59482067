//! Request bodies: each field is defined once, with its description, the type that a route reads and the kind of value in the
//! OpenAPI document. The kind of value defines the limits.

mod archive;
mod webhooks;

pub(crate) use archive::{ArchiveRequest, RestoreRequest, restored};
pub(crate) use webhooks::{
    DisableRequest, NewWebhook, RecoverRequest, RotateSecretRequest, TestRequest, WebhookChange,
};

use chrono::{DateTime, Utc};
use handover_events::{AggregateId, EventId, OutboxStatus, TenantId};
use handover_outbox::operations::{
    DeadLetterSelection, InvalidRedriveFilter, MAX_NAMED, Named, Reason, RedriveFilter, RedriveRate,
};
use handover_outbox::ports::OutboxFilter;

use crate::fields::{Fields, ReadField};
use crate::messages::{self, Text};
use crate::openapi::kinds;

// `max_items` below is the literal 900, because utoipa accepts only literals as limits of a list.
const _: () = assert!(MAX_NAMED == 900);

crate::bodies! {
    /// Events to redrive; exactly one of `eventIds` and `filter` is required.
    #[schema(example = json!({ "filter": { "status": "FAILED", "eventType": "ACCOUNT_OPENED" }, "dryRun": true }))]
    RedriveRequest {
        /// Event ids, 1 to 900.
        #[schema(min_items = 1, max_items = 900)]
        event_ids: Option<Named<EventId>> = Option<Vec<kinds::EventId>>,
        /// Selects all matching events, at most 10,000 per call.
        filter: Option<RedriveFilter> = Option<RedriveEventFilter>,
        /// With `filter`: `nextCursor` of an earlier call; this call continues where the earlier call ended.
        cursor: Option<i64> = Option<kinds::Cursor>,
        /// `true`: report what would be done without changing anything.
        dry_run: Option<bool> = Option<bool>,
        /// Number of events that become due per second; default: 100.
        per_second: Option<RedriveRate> = Option<kinds::PerSecond>,
        /// Reason, for the audit log.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
    }

    /// Selects events; at least one field is required.
    RedriveEventFilter {
        /// Outbox status.
        status: Option<OutboxStatus> = Option<kinds::RedrivenStatus>,
        /// Event type.
        event_type: Option<String> = Option<kinds::EventType>,
        /// Aggregate type; without it, `aggregateId` selects the events of every aggregate with this id.
        aggregate_type: Option<String> = Option<kinds::AggregateType>,
        /// Aggregate id.
        aggregate_id: Option<i64> = Option<kinds::AggregateId>,
        /// Text key of the aggregate; not together with `aggregateId`.
        aggregate_key: Option<AggregateId> = Option<kinds::AggregateKey>,
        /// Tenant; default: the operator's own.
        tenant_id: Option<TenantId> = Option<kinds::Id>,
        /// Earliest commit time (inclusive).
        from: Option<DateTime<Utc>> = Option<kinds::Time>,
        /// Latest commit time (exclusive).
        to: Option<DateTime<Utc>> = Option<kinds::Time>,
    }

    /// Releases a blocked aggregate.
    #[schema(example = json!({ "reason": "the consumer is fixed" }))]
    ReleaseRequest {
        /// Reason, for the audit log.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
        /// Tenant; default: the operator's own.
        tenant_id: Option<TenantId> = Option<kinds::Id>,
    }

    /// Acknowledges an alert.
    #[schema(example = json!({ "until": "2026-01-31T18:00:00Z", "reason": "the gateway is under maintenance" }))]
    AcknowledgeRequest {
        /// Time until which nobody is notified.
        until: DateTime<Utc> = kinds::Time,
        /// Reason, for the audit log.
        reason: Reason = kinds::OperatorReason,
    }

    /// Dead letters to replay; exactly one of `keys` and `filter` is required.
    #[schema(example = json!({ "filter": { "queue": "inventory.update.queue" }, "dryRun": true }))]
    ReplayRequest {
        /// Keys of dead letters, 1 to 900.
        #[schema(min_items = 1, max_items = 900)]
        keys: Option<Named<String>> = Option<Vec<kinds::DeadLetterKey>>,
        /// With `keys`: only dead letters of this queue.
        queue: Option<String> = Option<kinds::QueueName>,
        /// Selects all matching dead letters in status `OPEN`, at most 1,000 per call.
        filter: Option<DeadLetterSelection> = Option<DeadLetterSelectionBody>,
        /// `true`: report what would be done without changing anything.
        dry_run: Option<bool> = Option<bool>,
        /// Reason, for the audit log.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
    }

    /// Dead letters to discard; exactly one of `keys` and `filter` is required.
    #[schema(example = json!({ "keys": ["0192f0c1-0000-7000-8000-000000000001"], "reason": "a test message" }))]
    DiscardRequest {
        /// Keys of dead letters, 1 to 900.
        #[schema(min_items = 1, max_items = 900)]
        keys: Option<Named<String>> = Option<Vec<kinds::DeadLetterKey>>,
        /// With `keys`: only dead letters of this queue.
        queue: Option<String> = Option<kinds::QueueName>,
        /// Selects all matching dead letters in status `OPEN`, at most 1,000 per call.
        filter: Option<DeadLetterSelection> = Option<DeadLetterSelectionBody>,
        /// `true`: report what would be done without changing anything.
        dry_run: Option<bool> = Option<bool>,
        /// Reason, for the audit log.
        reason: Reason = kinds::OperatorReason,
    }

    /// Selects open dead letters of a tenant; an empty filter selects all of them.
    DeadLetterSelectionBody {
        /// Queue of the consumer that failed.
        queue: Option<String> = Option<kinds::QueueName>,
        /// Event type.
        event_type: Option<String> = Option<kinds::EventType>,
        /// Tenant; default: the operator's own.
        tenant_id: Option<TenantId> = Option<kinds::Id>,
        /// Earliest time of the last failure (inclusive).
        from: Option<DateTime<Utc>> = Option<kinds::Time>,
        /// Latest time of the last failure (exclusive).
        to: Option<DateTime<Utc>> = Option<kinds::Time>,
    }
}

/// Name of the field for a text key.
pub(crate) const AGGREGATE_KEY: &str = "aggregateKey";

/// The id of an aggregate that is named by an integer or by a text key. The error is about [`AGGREGATE_KEY`].
pub(crate) fn id_or_key(id: Option<i64>, key: Option<AggregateId>) -> Result<Option<AggregateId>, Text> {
    match (id, key) {
        (Some(_), Some(_)) => Err(messages::ID_OR_KEY),
        (id, key) => Ok(key.or(id.map(AggregateId::from))),
    }
}

impl ReadField<Option<RedriveFilter>> for Option<RedriveEventFilter> {
    fn read(fields: &mut Fields, name: &str) -> Option<Option<RedriveFilter>> {
        fields.object(name, |body: RedriveEventFilter, fields| {
            let aggregate_id = match id_or_key(body.aggregate_id?, body.aggregate_key?) {
                Ok(id) => id,
                Err(both) => return fields.reject(AGGREGATE_KEY, both),
            };
            let filter = RedriveFilter::new(OutboxFilter {
                tenant: body.tenant_id?,
                status: body.status?,
                event_type: body.event_type?,
                aggregate_type: body.aggregate_type?,
                aggregate_id,
                from: body.from?,
                to: body.to?,
                ..OutboxFilter::default()
            });
            match filter {
                Ok(filter) => Some(filter),
                Err(error @ InvalidRedriveFilter::Empty) => fields.reject("", error),
                Err(error @ InvalidRedriveFilter::Pending) => fields.reject("status", error),
            }
        })
    }
}

impl ReadField<Option<DeadLetterSelection>> for Option<DeadLetterSelectionBody> {
    fn read(fields: &mut Fields, name: &str) -> Option<Option<DeadLetterSelection>> {
        fields.object(name, |body: DeadLetterSelectionBody, _| {
            Some(DeadLetterSelection::Filter {
                queue: body.queue?,
                event_type: body.event_type?,
                tenant: body.tenant_id?,
                from: body.from?,
                to: body.to?,
            })
        })
    }
}
