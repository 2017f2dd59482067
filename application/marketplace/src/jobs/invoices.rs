//! Generation of invoices: bills every tenant for each closed month, and catches up on missed months.
//!
//! **Invariant:** the job keeps no state. Each run begins with the first month that is invoiced, and continues from one
//! month with completed orders to the next by an index, so that its cost depends on the number of invoices, not of orders.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::TenantId;
use marketplace_domain::BillingPeriod;
use tracing::warn;

use super::InvoiceSettings;
use crate::use_cases::{Invoicing, UseCaseError};
use handover_outbox::jobs::{Job, Leader, Periodic, Progress, RunBy};
use handover_outbox::ports::{Leadership, StoreError};

pub struct Invoices {
    pub invoicing: Invoicing,
    pub settings: InvoiceSettings,
}

impl Invoices {
    /// Starts the job on the leader: the jobs of several processes would read the same orders. The unique key of invoices
    /// is the guarantee against a second invoice.
    pub fn start(self, leader: &Leader) {
        let tx = self.invoicing.tx.outbox();
        Periodic::new("Invoices", self.settings.interval, RunBy::Leader(leader.clone())).start(&tx, self);
    }

    /// Generates every due invoice that does not exist.
    ///
    /// # Errors
    /// The last error of the run. A tenant whose invoice is not generated holds back no other.
    pub async fn generate_due(&self) -> Result<(), StoreError> {
        let tx = &self.invoicing.tx;
        let since = match self.settings.from {
            Some(first) => first,
            None => tx.view().await?.first_invoice_period().await?,
        };
        let Some(until) = self.due_until() else { return Ok(()) };
        let mut failed = None;
        let mut tenant = None;
        loop {
            tenant = tx.view().await?.tenant_with_orders(tenant).await?;
            let Some(of) = tenant else { break };
            if let Err(error) = self.generate_due_of(of, since, until).await {
                failed = Some(error);
            }
            if tx.stopping().is_cancelled() {
                return Ok(());
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The first month whose invoices are not due yet.
    fn due_until(&self) -> Option<BillingPeriod> {
        let now = self.invoicing.tx.now();
        let after = TimeDelta::from_std(self.settings.generate_after).ok()?;
        let ended_by = now.checked_sub_signed(after)?;
        let until = BillingPeriod::containing(ended_by).ok()?;
        let last = until.previous()?;
        // With a short `invoice.generate-after`, the last month may not be closed yet.
        Some(if last.require_closed(now).is_ok() { until } else { last })
    }

    async fn generate_due_of(
        &self,
        tenant: TenantId,
        since: BillingPeriod,
        until: BillingPeriod,
    ) -> Result<(), StoreError> {
        let tx = &self.invoicing.tx;
        let mut failed = Ok(());
        let mut from: DateTime<Utc> = since.start();
        while !tx.stopping().is_cancelled() {
            let next = tx.view().await?.completed_orders(tenant, from, until.start(), None, 1).await?;
            let Some(first) = next.first() else { return failed };
            let Ok(period) = BillingPeriod::containing(first.complete_time) else { return failed };
            from = period.end();
            // Most months have their invoice: they need no unit of work.
            if tx.view().await?.invoice_of_period(tenant, period).await?.is_some() {
                continue;
            }
            match self.invoicing.generate_due(tenant, period).await {
                Ok(_) => {}
                Err(UseCaseError::Store(error)) => {
                    report(tenant, period, &error);
                    failed = Err(error);
                }
                Err(error) => report(tenant, period, &error),
            }
        }
        failed
    }
}

fn report<E: std::fmt::Display>(tenant: TenantId, period: BillingPeriod, error: &E) {
    warn!(code = "invoice.not-generated", %error, tenantId = %tenant, %period,
        "[Invoices] invoice not generated; retrying in the next run");
}

#[async_trait]
impl Job for Invoices {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        self.generate_due().await?;
        Ok(Progress::Done)
    }
}
