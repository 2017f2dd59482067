//! The events that the marketplace needs although every consumer has settled them.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_events::{EventId, TenantId};
use handover_outbox::archive::NeededEvents;
use handover_outbox::ports::{OutboxRow, StoreError};
use marketplace_domain::{AggregateType, FindingState, HoldStatus, OrderId, RecordedFinding, RefundStatus};
use serde::Deserialize;

use crate::app::App;
use crate::ports::{FindingFilter, MarketTransactor, MarketView};

/// Open findings per page.
const FINDINGS: u32 = 500;

/// Events of orders with a pending hold or refund, and events that an open finding names: operators and reconciliations
/// still read them.
pub struct EventsOfOpenCases {
    tx: MarketTransactor,
}

impl EventsOfOpenCases {
    /// The events that the marketplace of this process needs.
    pub fn of(app: &App) -> EventsOfOpenCases {
        EventsOfOpenCases { tx: app.for_background_tasks().tx }
    }
}

/// The field by which events of payments, refunds and invoices name their order.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedOrder {
    order_id: OrderId,
}

/// The order that an event is about.
fn order_of(row: &OutboxRow) -> Option<OrderId> {
    if row.aggregate.kind == AggregateType::Order.as_str() {
        return OrderId::try_from(&row.aggregate.id).ok();
    }
    serde_json::from_str::<NamedOrder>(&row.payload).ok().map(|named| named.order_id)
}

#[async_trait]
impl NeededEvents for EventsOfOpenCases {
    async fn needed(&self, rows: &[OutboxRow]) -> Result<BTreeSet<EventId>, StoreError> {
        let mut orders: BTreeMap<TenantId, BTreeSet<OrderId>> = BTreeMap::new();
        for row in rows {
            orders.entry(row.aggregate.tenant).or_default().extend(order_of(row));
        }
        let mut view = self.tx.view().await?;
        let mut open_orders = BTreeSet::new();
        for (tenant, ids) in orders {
            let ids: Vec<OrderId> = ids.into_iter().collect();
            let holds = view.holds_of(tenant, &ids).await?;
            let frozen = holds.iter().filter(|hold| hold.status == HoldStatus::Frozen);
            open_orders.extend(frozen.map(|hold| (tenant, hold.order)));
            let refunds = view.refunds_of(tenant, &ids).await?;
            let processing = refunds.iter().filter(|refund| refund.status == RefundStatus::Processing);
            open_orders.extend(processing.filter_map(|refund| Some((tenant, refund.of.order()?))));
        }
        let findings = open_findings(&mut *view).await?;
        let is_needed = |row: &&OutboxRow| {
            let order = order_of(row);
            order.is_some_and(|order| open_orders.contains(&(row.aggregate.tenant, order)))
                || findings.iter().any(|finding| names(finding, row, order))
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

/// Whether a finding is about this event or its order. An event whose id is the beginning of the id in a finding counts as
/// named, too: it stays longer than necessary.
fn names(finding: &RecordedFinding, row: &OutboxRow, order: Option<OrderId>) -> bool {
    let is_of_order =
        finding.order.is_some() && finding.order == order && finding.tenant == Some(row.aggregate.tenant);
    is_of_order || finding.subject.contains(&format!("event:{}", row.event_id))
}
