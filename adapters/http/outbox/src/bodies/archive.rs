//! Bodies of the routes that move events between the outbox and the archive.

use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{AggregateId, AggregateRef, EventId, TenantId};
use handover_outbox::operations::{Named, Reason, RestoreSelection};

use super::{AGGREGATE_KEY, id_or_key};
use crate::fields::{Fields, ReadField};
use crate::messages;
use crate::openapi::kinds;

crate::bodies! {
    /// Which events to archive.
    #[schema(example = json!({ "olderThan": "7d", "dryRun": true }))]
    ArchiveRequest {
        /// Only events that were confirmed this long ago; default: `archive.after`.
        older_than: Option<Duration> = Option<kinds::RetentionTime>,
        /// `true`: report what would be done without changing anything.
        dry_run: Option<bool> = Option<bool>,
    }

    /// Archived events to restore; exactly one of `eventIds`, `aggregate`, and `from` with `to` is required.
    #[schema(example = json!({ "aggregate": { "aggregateType": "Account", "aggregateId": 900_001 }, "reason": "a customer asked" }))]
    RestoreRequest {
        /// Event ids, 1 to 900.
        #[schema(min_items = 1, max_items = 900)]
        event_ids: Option<Named<EventId>> = Option<Vec<kinds::EventId>>,
        /// Selects all events of an aggregate.
        aggregate: Option<NamedAggregate> = Option<RestoredAggregate>,
        /// Earliest commit time (inclusive).
        from: Option<DateTime<Utc>> = Option<kinds::Time>,
        /// Latest commit time (exclusive).
        to: Option<DateTime<Utc>> = Option<kinds::Time>,
        /// Reason, for the audit log.
        reason: Reason = kinds::OperatorReason,
    }

    /// An aggregate; exactly one of `aggregateId` and `aggregateKey` is required.
    RestoredAggregate {
        /// Aggregate type.
        aggregate_type: String = kinds::AggregateType,
        /// Aggregate id.
        aggregate_id: Option<i64> = Option<kinds::AggregateId>,
        /// Text key of the aggregate.
        aggregate_key: Option<AggregateId> = Option<kinds::AggregateKey>,
        /// Tenant; default: the operator's own.
        tenant_id: Option<TenantId> = Option<kinds::Id>,
    }
}

/// An aggregate; without a tenant, of the operator's own.
pub(crate) struct NamedAggregate {
    kind: String,
    id: AggregateId,
    tenant: Option<TenantId>,
}

impl ReadField<Option<NamedAggregate>> for Option<RestoredAggregate> {
    fn read(fields: &mut Fields, name: &str) -> Option<Option<NamedAggregate>> {
        fields.object(name, |body: RestoredAggregate, fields| {
            let kind = body.aggregate_type?;
            let tenant = body.tenant_id?;
            match id_or_key(body.aggregate_id?, body.aggregate_key?) {
                Ok(Some(id)) => Some(NamedAggregate { kind, id, tenant }),
                Ok(None) => fields.reject("aggregateId", messages::REQUIRED),
                Err(both) => fields.reject(AGGREGATE_KEY, both),
            }
        })
    }
}

/// The selection of a [`RestoreRequest`]; `None`: not exactly one is given.
pub(crate) fn restored(
    events: Option<Named<EventId>>,
    aggregate: Option<NamedAggregate>,
    period: (Option<DateTime<Utc>>, Option<DateTime<Utc>>),
    own: TenantId,
) -> Option<RestoreSelection> {
    match (events, aggregate, period) {
        (Some(events), None, (None, None)) => Some(RestoreSelection::Events(events)),
        (None, Some(NamedAggregate { kind, id, tenant }), (None, None)) => {
            Some(RestoreSelection::Aggregate(AggregateRef { tenant: tenant.unwrap_or(own), kind, id }))
        }
        (None, None, (Some(from), Some(to))) => Some(RestoreSelection::Period { from, to }),
        (Some(_) | None, Some(_) | None, (Some(_) | None, Some(_) | None)) => None,
    }
}
