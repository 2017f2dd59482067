//! Repair of lost events: appends the events that the state of an order requires and that
//! are missing in the outbox.
//!
//! **Invariant:** no event takes effect twice. If consumers applied an event before its outbox row was lost, the event
//! is appended with its old id, so these consumers ignore it.

use async_trait::async_trait;
use chrono::TimeDelta;
use tracing::{info, warn};

use super::ConsistencySettings;
use crate::consistency::{
    MoneyMismatch, OrderMoney, OrderRows, announce_missing, confirmed_mismatches, read_rows,
};
use crate::context::{Actor, CommandContext};
use crate::use_cases::{FinishPayment, Finished, Payments};
use handover_events::{TenantId, Trace};
use handover_outbox::jobs::{Job, Leader, Periodic, Progress, RunBy};
use handover_outbox::ports::{Leadership, StoreError};
use marketplace_domain::OrderId;

pub struct ConsistencyRepair {
    pub payments: Payments,
    pub settings: ConsistencySettings,
}

impl ConsistencyRepair {
    /// Starts the repair on the leader: the repairs of several processes would read the same orders.
    pub fn start(self, leader: &Leader) {
        let tx = &self.payments.tx;
        let tx = tx.outbox();
        Periodic::new("OrderAssetConsistency", self.settings.scan_interval, RunBy::Leader(leader.clone()))
            .start(&tx, self);
    }

    /// Checks the orders that changed within the window. Ends early when the process stops. Returns the number of
    /// appended events and finished payments and refunds.
    pub async fn repair(&self) -> Result<u64, StoreError> {
        let tx = &self.payments.tx;
        let source = &self.payments.events;
        let now = tx.now();
        let since = TimeDelta::from_std(self.settings.scan_window)
            .ok()
            .and_then(|window| now.checked_sub_signed(window))
            .unwrap_or_default();
        let mut after = None;
        let mut repaired = 0;
        loop {
            let mut view = tx.view().await?;
            let orders = view.orders_changed(None, since, now, after, self.settings.batch.get()).await?;
            let Some(last) = orders.last() else { return Ok(repaired) };
            after = Some((last.update_time, last.id));
            let mut lost = Vec::new();
            let mut mismatches = Vec::new();
            for rows in read_rows(view.as_mut(), &orders).await? {
                let OrderRows { order, payments, captures, refunds, .. } = &rows;
                if !(OrderMoney { order, payments, captures, refunds }).mismatches().is_empty() {
                    let confirmed = confirmed_mismatches(view.as_mut(), order).await?;
                    mismatches.extend(confirmed.into_iter().map(|found| (order.tenant, order.id, found)));
                }
                let missing = rows.missing_events().len() as u64;
                if missing > 0 {
                    lost.push((rows.order.tenant, rows.order.id, missing));
                }
            }
            // Release the view before a unit of work begins: a task uses at most one connection of the store.
            drop(view);
            for (tenant, order, missing) in lost {
                metrics::counter!("consistency.event.missing").increment(missing);
                for (id, event) in announce_missing(tx, source, (tenant, order), None).await? {
                    repaired += 1;
                    metrics::counter!("consistency.event.repaired").increment(1);
                    warn!(code = "consistency.event-appended", orderId = %order, eventId = %id, eventType = %event.event_type(),
                        "[OrderAssetConsistency] [ALERT] event was missing in the outbox; appended");
                }
            }
            for (tenant, order, (mismatch, what)) in mismatches {
                repaired += u64::from(self.finish(tenant, order, mismatch, &what).await?);
            }
            if tx.stopping().is_cancelled() {
                return Ok(repaired);
            }
        }
    }

    /// Finishes a payment or refund if its outcome is certain. Returns whether it was finished.
    async fn finish(
        &self,
        tenant: TenantId,
        order: OrderId,
        mismatch: MoneyMismatch,
        what: &str,
    ) -> Result<bool, StoreError> {
        let context = CommandContext {
            actor: Actor::System("order-asset-consistency"),
            tenant,
            trace: Trace { trace_id: format!("repair-{order}"), traceparent: None },
            request_id: None,
        };
        let command = FinishPayment { tenant, order, mismatch, entry: None };
        let finished = self.payments.finish(&context, command).await?;
        let repair = match finished {
            Some(Finished::OrderPaid) => "order paid",
            Some(Finished::RefundStarted) => "refund started",
            Some(Finished::OrderRefunded) => "order refunded",
            Some(Finished::RefundAbandoned) => "failed refund abandoned",
            None => "not repaired; see `handover reconcile`",
        };
        warn!(code = "consistency.payment-differs", orderId = %order, what, repair, "[OrderAssetConsistency] [ALERT] order and payment differ");
        Ok(finished.is_some())
    }
}

#[async_trait]
impl Job for ConsistencyRepair {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        let repaired = self.repair().await?;
        if repaired > 0 {
            info!(code = "consistency.repaired", repaired, "[OrderAssetConsistency] lost events appended");
        }
        Ok(Progress::Done)
    }
}
