//! The events that the marketplace needs although every consumer has settled them.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_events::{EventId, TenantId};
use handover_outbox::archive::NeededEvents;
use handover_outbox::ports::{OutboxRow, StoreError};
use marketplace_domain::{
    AggregateType, FindingState, HoldStatus, InvoiceId, OrderId, PayableId, RecordedFinding, Refund,
    RefundStatus,
};
use serde::Deserialize;

use crate::ports::{FindingFilter, MarketTransactor, MarketView};

/// Open findings per page.
const FINDINGS: u32 = 500;

/// Events of orders and invoices with a pending hold or refund, and events that an open finding names: operators and reconciliations
/// still read them.
pub struct EventsOfOpenCases {
    tx: MarketTransactor,
}

impl EventsOfOpenCases {
    /// The events that the marketplace in this store needs.
    pub fn of(tx: &MarketTransactor) -> EventsOfOpenCases {
        EventsOfOpenCases { tx: tx.for_background_tasks() }
    }
}

/// The fields by which events of payments, refunds and invoices name their order or invoice.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedPayable {
    order_id: Option<OrderId>,
    invoice_id: Option<InvoiceId>,
}

/// The order or invoice that an event is about.
fn payable_of(row: &OutboxRow) -> Option<PayableId> {
    if row.aggregate.kind == AggregateType::Order.as_str() {
        return OrderId::try_from(&row.aggregate.id).ok().map(PayableId::Order);
    }
    let named: NamedPayable = serde_json::from_str(&row.payload).ok()?;
    named.order_id.map(PayableId::Order).or(named.invoice_id.map(PayableId::Invoice))
}

/// The orders and invoices whose refund is pending.
fn refunding(refunds: &[Refund]) -> impl Iterator<Item = (TenantId, PayableId)> {
    let processing = refunds.iter().filter(|refund| refund.status == RefundStatus::Processing);
    processing.map(|refund| (refund.tenant, refund.of))
}

#[async_trait]
impl NeededEvents for EventsOfOpenCases {
    async fn needed(&self, rows: &[OutboxRow]) -> Result<BTreeSet<EventId>, StoreError> {
        let mut orders: BTreeMap<TenantId, BTreeSet<OrderId>> = BTreeMap::new();
        let mut invoices: BTreeSet<(TenantId, InvoiceId)> = BTreeSet::new();
        for row in rows {
            let tenant = row.aggregate.tenant;
            match payable_of(row) {
                Some(PayableId::Order(order)) => drop(orders.entry(tenant).or_default().insert(order)),
                Some(PayableId::Invoice(invoice)) => drop(invoices.insert((tenant, invoice))),
                None => {}
            }
        }
        let mut view = self.tx.view().await?;
        let mut open: BTreeSet<(TenantId, PayableId)> = BTreeSet::new();
        for (tenant, ids) in orders {
            let ids: Vec<OrderId> = ids.into_iter().collect();
            let holds = view.holds_of(tenant, &ids).await?;
            let frozen = holds.iter().filter(|hold| hold.status == HoldStatus::Frozen);
            open.extend(frozen.map(|hold| (tenant, hold.order.into())));
            open.extend(refunding(&view.refunds_of(tenant, &ids).await?));
        }
        for (tenant, invoice) in invoices {
            open.extend(refunding(&view.payments_of_invoice(tenant, invoice).await?.refunds));
        }
        let findings = open_findings(&mut *view).await?;
        let is_needed = |row: &&OutboxRow| {
            let payable = payable_of(row);
            payable.is_some_and(|payable| open.contains(&(row.aggregate.tenant, payable)))
                || findings.iter().any(|finding| names(finding, row, payable))
        };
        Ok(rows.iter().filter(is_needed).map(|row| row.event_id.clone()).collect())
    }
}

async fn open_findings(view: &mut dyn MarketView) -> Result<Vec<RecordedFinding>, StoreError> {
    let filter = FindingFilter { state: Some(FindingState::Open), ..FindingFilter::default() };
    let mut open = Vec::new();
    let mut before = None;
    loop {
        let page = view.findings_page(filter, before, FINDINGS).await?;
        let is_last = page.len() < FINDINGS as usize;
        before = page.last().map(|finding| finding.id);
        open.extend(page.into_iter().map(|finding| finding.effect));
        if is_last {
            return Ok(open);
        }
    }
}

/// Whether a finding is about this event or its order or invoice. An event whose id is the beginning of the id in a finding counts as
/// named, too: it stays longer than necessary.
fn names(finding: &RecordedFinding, row: &OutboxRow, payable: Option<PayableId>) -> bool {
    let is_of_payable = match payable {
        Some(PayableId::Order(order)) => finding.order == Some(order),
        Some(PayableId::Invoice(invoice)) => {
            let name = format!("invoice:{invoice}");
            let key = format!("{name}:");
            finding.subject.split(' ').any(|part| part == name || part.starts_with(&key))
        }
        None => false,
    };
    (is_of_payable && finding.tenant == Some(row.aggregate.tenant))
        || finding.subject.contains(&format!("event:{}", row.event_id))
}
