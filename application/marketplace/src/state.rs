//! State of the marketplace as metrics.

use std::collections::BTreeMap;

use async_trait::async_trait;
use handover_outbox::Metric;
use handover_outbox::ports::StoreError;
use handover_outbox::state::{Sample, StateSource};
use marketplace_domain::{FindingKind, RefundStatus, ReportState};

use crate::app::App;
use crate::consumer::HandlerContext;
use crate::ports::{GatewayReportFilter, MarketTransactor, RefundFilter};

/// Rows of one kind that are counted; more are in no alert of interest, and the cost stays bounded.
const MAX_COUNTED: u32 = 1_000;

pub(crate) const REFUNDS: Metric =
    Metric::state("handover.refunds", "Refunds by state: PROCESSING, FAILED; at most 1,000 of each")
        .by(&["state"]);
pub(crate) const OLDEST_REFUND: Metric = Metric::state(
    "handover.refund.oldest.seconds",
    "Age of the oldest of the latest 1,000 refunds in PROCESSING, in seconds; 0: none",
);
pub(crate) const OVERDUE: Metric =
    Metric::state("handover.orders.overdue", "Pending orders past their timeout, at most 1,000");
pub(crate) const OPEN_REPORTS: Metric = Metric::state(
    "handover.gateway.reports.open",
    "Reports of the gateway that an operator must decide, at most 1,000",
);
pub(crate) const OPEN_FINDINGS: Metric = Metric::state(
    "handover.reconciliation.findings.open",
    "Findings of reconciliations that are neither acknowledged nor closed, by kind",
)
.by(&["kind"]);

/// Reads refunds, orders, reports of the gateway and findings of reconciliations.
pub struct MarketState {
    tx: MarketTransactor,
    handlers: HandlerContext,
}

impl MarketState {
    pub fn of(app: &App) -> MarketState {
        let app = app.for_background_tasks();
        MarketState { tx: app.tx, handlers: app.handlers }
    }
}

#[async_trait]
impl StateSource for MarketState {
    async fn read(&self) -> Result<Vec<Sample>, StoreError> {
        let now = self.tx.now();
        let mut view = self.tx.view().await?;
        let of = |status| RefundFilter { tenant: None, status: Some(status) };
        let processing = view.refunds_page(of(RefundStatus::Processing), None, MAX_COUNTED).await?;
        let failed = view.refunds_page(of(RefundStatus::Failed), None, MAX_COUNTED).await?;
        let overdue = view.orders_overdue(self.handlers.overdue_cutoff(now), MAX_COUNTED).await?;
        let open = GatewayReportFilter { state: Some(ReportState::Open), ..GatewayReportFilter::default() };
        let reports = view.gateway_reports_page(open, None, MAX_COUNTED).await?;
        let oldest = processing.iter().map(|refund| refund.create_time).min();
        let age =
            oldest.map_or(0.0, |oldest| (now - oldest).to_std().unwrap_or_default().as_secs_f64().floor());
        let findings: BTreeMap<FindingKind, u64> = view.open_findings().await?.into_iter().collect();
        let mut samples = vec![
            REFUNDS.sample([RefundStatus::Processing.as_str()], count(processing.len())),
            REFUNDS.sample([RefundStatus::Failed.as_str()], count(failed.len())),
            OLDEST_REFUND.sample([], age),
            OVERDUE.sample([], count(overdue.len())),
            OPEN_REPORTS.sample([], count(reports.len())),
        ];
        samples.extend(FindingKind::ALL.iter().map(|kind| {
            let open = findings.get(kind).copied().unwrap_or_default();
            OPEN_FINDINGS.sample([kind.as_str()], number(open))
        }));
        Ok(samples)
    }
}

#[allow(clippy::cast_precision_loss, reason = "at most MAX_COUNTED")]
fn count(count: usize) -> f64 {
    count as f64
}

#[allow(clippy::cast_precision_loss, reason = "the numbers of a metric are far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}
