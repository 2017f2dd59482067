//! Reads, with the crash points that follow them.

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, TenantId};
use handover_outbox::ports::{
    ArchiveQueriesWrapper, AuditQueriesWrapper, ConsumeQueriesWrapper, DeadLetterQueriesWrapper,
    HistoryQueriesWrapper, JobQueriesWrapper, LeaseQueriesWrapper, MonitoringQueriesWrapper,
    OperatorQueriesWrapper, OutboxQueriesWrapper, OutboxRow, StoreError, Unapplied, WebhookEndpoint,
    WebhookQueriesWrapper,
};
use marketplace::ports::{
    AssetQueriesWrapper, CreditQueriesWrapper, DueOrder, EffectQueriesWrapper, FindingQueriesWrapper,
    FrozenHold, GatewayReportQueriesWrapper, IdQueriesWrapper, InvoiceQueriesWrapper, MarketView,
    NotificationQueriesWrapper, OrderQueriesWrapper, PaymentQueriesWrapper, PersonalTextQueriesWrapper,
    ProductQueriesWrapper, RefundQueriesWrapper, RequestQueriesWrapper,
};
use marketplace_domain::{Asset, OrderId};

use super::Faulty;
use crate::fault_kinds::CrashPoint;

impl<I: MarketView + ?Sized> OrderQueriesWrapper for Faulty<I> {
    async fn orders_overdue(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError> {
        self.process.check_leader("timeout sweep");
        let overdue = self.inner.orders_overdue(created_by, after, limit).await?;
        if !overdue.is_empty() {
            self.process.maybe_crash(CrashPoint::InSweep).await;
        }
        Ok(overdue)
    }

    async fn orders_shipped(
        &mut self,
        shipped_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError> {
        self.process.check_leader("automatic completion");
        let shipped = self.inner.orders_shipped(shipped_by, after, limit).await?;
        if !shipped.is_empty() {
            self.process.maybe_crash(CrashPoint::InSweep).await;
        }
        Ok(shipped)
    }
}

impl<I: MarketView + ?Sized> AssetQueriesWrapper for Faulty<I> {
    async fn holds_frozen(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId, Asset)>,
        limit: u32,
    ) -> Result<Vec<FrozenHold>, StoreError> {
        self.process.check_leader("reaper");
        let holds = self.inner.holds_frozen(created_by, after, limit).await?;
        if !holds.is_empty() {
            self.process.maybe_crash(CrashPoint::InReaper).await;
        }
        Ok(holds)
    }
}

impl<I: MarketView + ?Sized> ConsumeQueriesWrapper for Faulty<I> {
    async fn unapplied(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError> {
        let unapplied = self.inner.outbox_view().unapplied(consumer, types, after_id, aggregates).await?;
        self.writes.read_unapplied(consumer, &unapplied);
        Ok(unapplied)
    }

    async fn unapplied_from(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[(AggregateRef, i64)],
        limit: u32,
    ) -> Result<Vec<Unapplied>, StoreError> {
        let view = self.inner.outbox_view();
        let unapplied = view.unapplied_from(consumer, types, after_id, aggregates, limit).await?;
        self.writes.read_unapplied(consumer, &unapplied);
        Ok(unapplied)
    }

    async fn stale_consumptions(
        &mut self,
        consumer: &str,
        except: &[&str],
        idle_since: DateTime<Utc>,
        now: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<EventId>, StoreError> {
        let left =
            self.inner.outbox_view().stale_consumptions(consumer, except, idle_since, now, limit).await?;
        if !left.is_empty() {
            self.process.maybe_crash(CrashPoint::InSweep).await;
        }
        Ok(left)
    }

    async fn unconsumed_events(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let lost = self
            .inner
            .outbox_view()
            .unconsumed_events(consumer, types, after_id, after, until, limit)
            .await?;
        if !lost.is_empty() {
            self.cover("lost event found by the sweep");
            self.process.maybe_crash(CrashPoint::InSweep).await;
        }
        Ok(lost)
    }
}

impl<I: MarketView + ?Sized> ProductQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> PaymentQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> RefundQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> GatewayReportQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> FindingQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> InvoiceQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> OutboxQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> OperatorQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> HistoryQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> DeadLetterQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> ArchiveQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> AuditQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> EffectQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> NotificationQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> CreditQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> LeaseQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> JobQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> MonitoringQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> WebhookQueriesWrapper for Faulty<I> {
    async fn webhook_endpoints(&mut self, tenants: &[TenantId]) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let endpoints = self.inner.outbox_view().webhook_endpoints(tenants).await?;
        self.writes.webhooks.record_read(&endpoints);
        Ok(endpoints)
    }
}

impl<I: MarketView + ?Sized> IdQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> RequestQueriesWrapper for Faulty<I> {}
impl<I: MarketView + ?Sized> PersonalTextQueriesWrapper for Faulty<I> {}
