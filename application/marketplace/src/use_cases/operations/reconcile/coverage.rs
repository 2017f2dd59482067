//! Which recorded findings a run has compared again: only these can be resolved because the run did not find them.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Numbered, StoreError};
use marketplace_domain::{FindingKind, Order, OrderId, RecordedFinding};

use crate::consistency::ReadableOrders;
use crate::ports::MarketView;

/// Tenant and id of an order.
pub(super) type OrderKey = (TenantId, OrderId);

/// The rows of a table that a run compared: those from an id upwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scanned(i64);

impl Scanned {
    pub(super) const NONE: Scanned = Scanned(i64::MAX);
    pub(super) const ALL: Scanned = Scanned(i64::MIN);

    pub(super) const fn down_to(id: i64) -> Scanned {
        Scanned(id)
    }

    fn includes(self, row_id: Option<i64>) -> bool {
        row_id.is_some_and(|id| id >= self.0)
    }
}

/// What a run compared.
pub(super) struct Coverage {
    /// Start of the run.
    pub(super) began: DateTime<Utc>,
    since: DateTime<Utc>,
    until: DateTime<Utc>,
    /// The grace period before the start of the run begins here.
    settled: DateTime<Utc>,
    /// Orders outside the window that were compared because a recorded finding names them.
    pub(super) orders: BTreeSet<OrderKey>,
    /// Orders that were not compared, because a row about them cannot be read.
    pub(super) unreadable: BTreeSet<OrderKey>,
    /// Ids of products that were not compared, because an order cannot be read.
    pub(super) left_out_products: BTreeSet<i64>,
    /// Whether every open report of the gateway and every ledger operation was compared.
    pub(super) has_reports_and_ledger: bool,
    pub(super) products: Scanned,
    pub(super) dead_letters: Scanned,
    pub(super) outbox_rows: Scanned,
    /// Ids of the compared invoices.
    pub(super) invoices: BTreeSet<i64>,
}

impl Coverage {
    /// Covers the orders that changed within the window, but not within the grace period before the start of the run: such a
    /// change may have been committed after its order was compared.
    pub(super) fn of_window(
        began: DateTime<Utc>,
        (since, until): (DateTime<Utc>, DateTime<Utc>),
        grace: TimeDelta,
    ) -> Coverage {
        let settled = began.checked_sub_signed(grace).unwrap_or(DateTime::<Utc>::MIN_UTC);
        Coverage {
            began,
            since,
            until,
            settled,
            orders: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            left_out_products: BTreeSet::new(),
            has_reports_and_ledger: false,
            products: Scanned::NONE,
            dead_letters: Scanned::NONE,
            outbox_rows: Scanned::NONE,
            invoices: BTreeSet::new(),
        }
    }

    /// Whether the order changed within the window.
    pub(super) fn is_in_window(&self, order: &Order) -> bool {
        self.since <= order.update_time && order.update_time < self.until
    }

    /// Returns the ids of those of these findings that the run compared again.
    pub(super) async fn covered(
        &self,
        view: &mut dyn MarketView,
        findings: &[Numbered<RecordedFinding>],
    ) -> Result<Vec<i64>, StoreError> {
        let mut orders: BTreeMap<TenantId, BTreeSet<OrderId>> = BTreeMap::new();
        for finding in findings {
            if let (Some(tenant), Some(order)) = (finding.effect.tenant, finding.effect.order) {
                orders.entry(tenant).or_default().insert(order);
            }
        }
        let mut compared = BTreeSet::new();
        for (tenant, ids) in orders {
            let ids: Vec<OrderId> = ids.into_iter().collect();
            let of_tenant = ReadableOrders::read(view, tenant, &ids).await?.orders.into_iter();
            let is_compared = |it: &Order| {
                it.update_time < self.settled
                    && (self.is_in_window(it) || self.orders.contains(&(tenant, it.id)))
                    && !self.unreadable.contains(&(tenant, it.id))
            };
            compared.extend(of_tenant.filter(is_compared).map(|order| (tenant, order.id)));
        }
        let of_compared_order = |finding: &RecordedFinding| {
            finding.tenant.zip(finding.order).is_some_and(|order| compared.contains(&order))
        };
        let of_compared_invoice =
            |finding: &RecordedFinding| finding.row_id.is_some_and(|id| self.invoices.contains(&id));
        let is_covered = |finding: &RecordedFinding| match finding.kind {
            // Every row of these tables is compared.
            FindingKind::GatewayReport | FindingKind::Unbalanced | FindingKind::Drifted => {
                self.has_reports_and_ledger
            }
            FindingKind::InvoiceDiffers => of_compared_invoice(finding),
            FindingKind::NotBooked | FindingKind::MissingEvent => {
                of_compared_order(finding) || of_compared_invoice(finding)
            }
            FindingKind::UnknownEvent => self.dead_letters.includes(finding.row_id),
            FindingKind::UnreadableRow => {
                self.outbox_rows.includes(finding.row_id) || of_compared_order(finding)
            }
            FindingKind::ProductNotSold | FindingKind::SoldTwice | FindingKind::SoldWithoutOrder => {
                let is_left_out = finding.row_id.is_some_and(|id| self.left_out_products.contains(&id));
                !is_left_out && (self.products.includes(finding.row_id) || of_compared_order(finding))
            }
            FindingKind::NotConfirmed
            | FindingKind::NotConsumed
            | FindingKind::MissingEffect
            | FindingKind::DoubledEffect
            | FindingKind::EffectWithoutFact
            | FindingKind::MissingHold
            | FindingKind::PaidWithoutPayment
            | FindingKind::PaymentFailed
            | FindingKind::PaymentNotApplied
            | FindingKind::RefundNotApplied
            | FindingKind::NotRefunded
            | FindingKind::NotReported
            | FindingKind::MissingDelivery => of_compared_order(finding),
        };
        Ok(findings.iter().filter(|it| is_covered(&it.effect)).map(|it| it.id).collect())
    }
}
