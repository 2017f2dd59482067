//! State of the marketplace as metrics.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::TimeDelta;
use handover_outbox::Metric;
use handover_outbox::ports::StoreError;
use handover_outbox::state::{Sample, StateSource};
use marketplace_domain::{FindingKind, RefundStatus};

use crate::app::App;
use crate::consumer::HandlerContext;
use crate::jobs::ConsistencySettings;
use crate::ports::MarketTransactor;

/// Rows of one kind that are counted; more are in no alert of interest, and the cost stays bounded.
const MAX_COUNTED: u32 = 1_000;

pub(crate) const REFUNDS: Metric = Metric::state(
    "handover.refunds",
    "Refunds by state: PROCESSING; FAILED, if the money is still to be returned",
)
.by(&["state"]);
pub(crate) const OLDEST_REFUND: Metric = Metric::state(
    "handover.refund.oldest.seconds",
    "Age of the oldest attempt at a refund in PROCESSING, in seconds; 0: none",
);
pub(crate) const OVERDUE: Metric =
    Metric::state("handover.orders.overdue", "Pending orders past their timeout, at most 1,000");
pub(crate) const OVERDUE_HOLDS: Metric = Metric::state(
    "handover.holds.overdue",
    "Locks of assets past their timeout that the reaper has not released yet, at most 1,000",
);
pub(crate) const OPEN_REPORTS: Metric = Metric::state(
    "handover.gateway.reports.open",
    "Reports of the gateway that an operator must decide, at most 1,000",
);
pub(crate) const OPEN_FINDINGS: Metric = Metric::state(
    "handover.reconciliation.findings.open",
    "Findings of reconciliations that are neither acknowledged nor closed, by kind",
)
.by(&["kind"]);

/// Reads refunds, orders, locks of assets, reports of the gateway and findings of reconciliations.
pub struct MarketState {
    tx: MarketTransactor,
    handlers: HandlerContext,
    lock_timeout: TimeDelta,
}

impl MarketState {
    /// The state, with the timeout of locks in these settings.
    pub fn of(app: &App, settings: &ConsistencySettings) -> MarketState {
        let app = app.for_background_tasks();
        let lock_timeout = TimeDelta::from_std(settings.lock_timeout).unwrap_or(TimeDelta::MAX);
        MarketState { tx: app.tx, handlers: app.handlers, lock_timeout }
    }
}

#[async_trait]
impl StateSource for MarketState {
    async fn read(&self) -> Result<Vec<Sample>, StoreError> {
        let now = self.tx.now();
        let mut view = self.tx.view().await?;
        let refunds = view.open_refunds().await?;
        let overdue = view.orders_overdue(self.handlers.overdue_cutoff(now), None, MAX_COUNTED).await?;
        let reports = view.open_gateway_reports(MAX_COUNTED).await?;
        let locked_by = now.checked_sub_signed(self.lock_timeout).unwrap_or_default();
        let holds = view.holds_frozen(locked_by, None, MAX_COUNTED).await?;
        let oldest = refunds.oldest_processing;
        let age =
            oldest.map_or(0.0, |oldest| (now - oldest).to_std().unwrap_or_default().as_secs_f64().floor());
        let findings: BTreeMap<FindingKind, u64> = view.open_findings().await?.into_iter().collect();
        let mut samples = vec![
            REFUNDS.sample([RefundStatus::Processing.as_str()], count(refunds.processing)),
            REFUNDS.sample([RefundStatus::Failed.as_str()], count(refunds.failed)),
            OLDEST_REFUND.sample([], age),
            OVERDUE.sample([], count(overdue.len() as u64)),
            OVERDUE_HOLDS.sample([], count(holds.len() as u64)),
            OPEN_REPORTS.sample([], count(reports)),
        ];
        samples.extend(FindingKind::ALL.iter().map(|kind| {
            let open = findings.get(kind).copied().unwrap_or_default();
            OPEN_FINDINGS.sample([kind.as_str()], count(open))
        }));
        Ok(samples)
    }
}

#[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn count(count: u64) -> f64 {
    count as f64
}
