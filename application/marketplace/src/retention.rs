//! The events that the marketplace needs although every consumer has settled them.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_events::{EventId, TenantId};
use handover_outbox::archive::NeededEvents;
use handover_outbox::ports::{OutboxRow, StoreError};
use marketplace_domain::{AggregateType, HoldStatus, InvoiceId, OrderId, PayableId, Refund, RefundStatus};
use serde::Deserialize;

use crate::ports::{FindingSubject, MarketTransactor, MarketView};

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
        let mut open = OpenCases::default();
        for (tenant, ids) in orders {
            let ids: Vec<OrderId> = ids.into_iter().collect();
            let holds = view.holds_of(tenant, &ids).await?;
            let frozen = holds.iter().filter(|hold| hold.status == HoldStatus::Frozen);
            open.payables.extend(frozen.map(|hold| (tenant, hold.order.into())));
            open.payables.extend(refunding(&view.refunds_of(tenant, &ids).await?));
        }
        for (tenant, invoice) in invoices {
            open.payables.extend(refunding(&view.payments_of_invoice(tenant, invoice).await?.refunds));
        }
        open.add_findings(&mut *view).await?;
        let is_needed = |row: &&OutboxRow| {
            let payable = payable_of(row).map(|payable| (row.aggregate.tenant, payable));
            payable.is_some_and(|payable| open.payables.contains(&payable))
                || open.events.contains(&row.event_id)
        };
        Ok(rows.iter().filter(is_needed).map(|row| row.event_id.clone()).collect())
    }
}

/// The orders, invoices and events with an open case.
#[derive(Default)]
struct OpenCases {
    payables: BTreeSet<(TenantId, PayableId)>,
    events: BTreeSet<EventId>,
}

impl OpenCases {
    async fn add_findings(&mut self, view: &mut dyn MarketView) -> Result<(), StoreError> {
        let mut before = None;
        loop {
            let page = view.subjects_of_open_findings(before, FINDINGS).await?;
            let is_last = page.len() < FINDINGS as usize;
            before = page.last().map(|finding| finding.id);
            page.iter().for_each(|finding| self.add(&finding.effect));
            if is_last {
                return Ok(());
            }
        }
    }

    /// Adds the order of a finding, and the events and invoices that its subject names: `event:ID`, `invoice:ID` or
    /// `invoice:ID:..`.
    fn add(&mut self, finding: &FindingSubject) {
        let order = finding.order.map(PayableId::Order);
        self.payables.extend(finding.tenant.zip(order));
        for part in finding.subject.split(' ') {
            match part.split_once(':') {
                Some(("event", id)) => self.events.extend(id.parse::<EventId>()),
                Some(("invoice", key)) => {
                    let id = key.split(':').next().and_then(|id| id.parse().ok());
                    self.payables.extend(finding.tenant.zip(id.map(PayableId::Invoice)));
                }
                Some(_) | None => {}
            }
        }
    }
}
