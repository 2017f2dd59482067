//! Reconciliation results.

use handover_events::{EventId, TenantId};
use handover_http::views::Time;
use marketplace::use_cases::operations::{Finding, FindingKind, Reconciliation, Repair};
use marketplace_domain::OrderId;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::openapi::kinds;

/// Comparison of business rows, outbox, publisher confirms, consume log and effects over a time window.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Reconciliation)]
pub struct ReconciliationView {
    from: Time,
    to: Time,
    orders: u64,
    events: u64,
    confirmed: u64,
    consumed: u64,
    effects: u64,
    pending: u64,
    parked: u64,
    sound: bool,
    /// Number of findings of each kind, including kinds without findings.
    #[schema(value_type = kinds::Counts)]
    counts: Map<String, Value>,
    findings: Vec<FindingView>,
    more: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Finding)]
struct FindingView {
    #[schema(value_type = kinds::FindingName)]
    kind: &'static str,
    #[schema(value_type = kinds::Id)]
    tenant_id: TenantId,
    #[schema(value_type = Option<kinds::Id>, required)]
    order_id: Option<OrderId>,
    #[schema(value_type = Option<kinds::EventId>, required)]
    event_id: Option<EventId>,
    #[schema(required)]
    event_type: Option<String>,
    #[schema(required)]
    consumer: Option<String>,
    #[schema(required)]
    idempotency_key: Option<String>,
    what: String,
    #[serde(rename = "mended")]
    #[schema(value_type = Option<kinds::RepairName>, required)]
    repair: Option<&'static str>,
}

impl From<Reconciliation> for ReconciliationView {
    fn from(reconciliation: Reconciliation) -> ReconciliationView {
        let count = |kind: FindingKind| (kind.as_str().to_owned(), reconciliation.count(kind).into());
        ReconciliationView {
            from: Time(reconciliation.since),
            to: Time(reconciliation.until),
            orders: reconciliation.orders,
            events: reconciliation.events,
            confirmed: reconciliation.confirmed,
            consumed: reconciliation.consumed,
            effects: reconciliation.effects,
            pending: reconciliation.pending,
            parked: reconciliation.parked,
            sound: reconciliation.is_sound(),
            counts: FindingKind::ALL.into_iter().map(count).collect(),
            more: reconciliation.more,
            findings: reconciliation.findings.into_iter().map(FindingView::from).collect(),
        }
    }
}

impl From<Finding> for FindingView {
    fn from(finding: Finding) -> FindingView {
        let Finding { kind, tenant, order, event_id, event_type, consumer, key, what, repair, .. } = finding;
        FindingView {
            kind: kind.as_str(),
            tenant_id: tenant,
            order_id: order,
            event_id,
            event_type,
            consumer,
            idempotency_key: key,
            what,
            repair: repair.map(Repair::as_str),
        }
    }
}
