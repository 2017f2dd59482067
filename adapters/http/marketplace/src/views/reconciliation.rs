//! Reconciliation results.

use handover_events::{EventId, TenantId};
use handover_http::views;
use handover_http::views::Time;
use marketplace::use_cases::operations::{Finding, FindingKind, Reconciliation, Repair};
use marketplace_domain::OrderId;
use serde_json::{Map, Value};

use crate::openapi::kinds;

views! {
    /// Comparison of business rows, outbox, publisher confirms, consume log and effects over a time window.
    pub ReconciliationView as Reconciliation {
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
        counts: Map<String, Value> = kinds::Counts,
        findings: Vec<FindingView>,
        more: bool,
    }
}

views! {
    FindingView as Finding {
        kind: &'static str = kinds::FindingName,
        tenant_id: TenantId,
        order_id: Option<OrderId>,
        event_id: Option<EventId>,
        event_type: Option<String>,
        consumer: Option<String>,
        idempotency_key: Option<String>,
        what: String,
        repaired: Option<&'static str> = Option<kinds::RepairName>,
    }
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
            counts: FindingKind::ALL.iter().copied().map(count).collect(),
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
            repaired: repair.map(Repair::as_str),
        }
    }
}
