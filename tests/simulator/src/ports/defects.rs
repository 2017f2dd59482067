//! Adapters with one defect each, between the application and the observed ports: the simulator observes what the ports
//! did, and the application gets a wrong result. The simulator must detect each defect.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, Partition, PartitionSet, TenantId};
use handover_outbox::ports::{
    ArchiveQueriesWrapper, ArchiveRepoWrapper, AuditEntry, AuditQueriesWrapper, AuditRepoWrapper, Broker,
    BrokerError, Changed, Confirmed, ConsumeLogWrapper, ConsumeQueriesWrapper, DeadLetterQueriesWrapper,
    DeadLetterRepoWrapper, Delivery, DeliveryTag, Due, DueQuery, ErasureRepoWrapper, HistoryQueriesWrapper,
    HistoryRepoWrapper, JobQueriesWrapper, JobRepoWrapper, LeaderRepoWrapper, LeaseQueriesWrapper,
    LeaseRepoWrapper, MonitoringQueriesWrapper, MonitoringRepoWrapper, OnFailed, OperatorQueriesWrapper,
    OperatorRepoWrapper, OutboxQueriesWrapper, OutboxRepoWrapper, OutboxRow, Outgoing, OwnedPartition,
    PublishOutcome, QueueDepth, RelayId, Requeue, Store, StoreError, Subscription, WebhookQueriesWrapper,
    WebhookRepoWrapper,
};
use handover_outbox::topology::Topology;
use handover_outbox::wrap::{UnitWrapper, Wrapped, Wraps};
use marketplace::ports::{
    AssetQueriesWrapper, AssetRepoWrapper, CreditQueriesWrapper, CreditRepoWrapper, EffectQueriesWrapper,
    EffectRepoWrapper, FindingQueriesWrapper, FindingRepoWrapper, GatewayReportQueriesWrapper,
    GatewayReportRepoWrapper, IdBlocksWrapper, IdQueriesWrapper, InvoiceQueriesWrapper, InvoiceRepoWrapper,
    MarketView, NotificationQueriesWrapper, NotificationRepoWrapper, OrderQueriesWrapper, OrderRepoWrapper,
    PaymentQueriesWrapper, PaymentRepoWrapper, PersonalTextQueriesWrapper, PersonalTextRepoWrapper,
    ProductQueriesWrapper, ProductRepoWrapper, RefundQueriesWrapper, RefundRepoWrapper,
    RequestQueriesWrapper, RequestRepoWrapper, Work,
};
use marketplace_domain::{Order, OrderId, Payment, Product, Refund, UserId};

use super::broker::{FaultyBroker, copy};
use super::store::FaultyStore;

/// Declares the defects with their names.
macro_rules! defects {
    ($($(#[$doc:meta])* $defect:ident => $name:literal,)+) => {
        /// A defect of an adapter.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Defect { $($(#[$doc])* $defect,)+ }

        impl Defect {
            /// Every defect.
            pub const ALL: &'static [Defect] = &[$(Defect::$defect,)+];

            /// Name of the defect in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Defect::$defect => $name,)+ }
            }
        }
    };
}

defects! {
    /// Broker: a message that was returned is reported as confirmed.
    ///
    /// Observable as: an event is SENT although the broker returned every publish of it.
    ReturnReportedAsConfirm => "return-reported-as-confirm",
    /// Broker: a publish of unknown outcome is reported as confirmed.
    ///
    /// Observable as: an event is SENT although the broker never confirmed it.
    UnknownReportedAsConfirm => "unknown-reported-as-confirm",
    /// Broker: each publish is reported as confirmed, even if it failed.
    ///
    /// Observable as: an event is SENT although the broker never confirmed it.
    EverythingConfirmed => "everything-confirmed",
    /// Broker: deliveries are acknowledged when they arrive.
    ///
    /// Observable as: a delivery is acknowledged while the consume log has no record of its event.
    AckOnDelivery => "ack-on-delivery",
    /// Store: the fence confirms partitions that another relay owns.
    ///
    /// Observable as: a unit of work records publish results in a partition whose lease its relay does not own.
    NoFence => "no-fence",
    /// Store: leases are reported as renewed, but are not renewed.
    ///
    /// Observable as: a relay publishes a row without a valid lease of its partition.
    LeaseNotRenewed => "lease-not-renewed",
    /// Store: the relay's query ignores `on-failed = hold`.
    ///
    /// Observable as: with `hold`, an event is published while an earlier event of its aggregate is FAILED.
    HoldIgnored => "hold-ignored",
    /// Store: a commit of unknown outcome is reported as done.
    ///
    /// Observable as: a client received a success response for a change that is not in the database.
    UnknownCommitReportedAsDone => "unknown-commit-reported-as-done",
    /// Store: a conditional update that matched no row reports one row.
    ///
    /// Observable as: two live orders of one product; two events with one `aggregate_seq`.
    ConflictHidden => "conflict-hidden",
    /// Store: an order is returned to a user who is not its party.
    ///
    /// Observable as: a user reads an order that it neither bought nor sold.
    PartyIgnored => "party-ignored",
    /// Store: audit entries are not written.
    ///
    /// Observable as: a unit of work redrives rows and writes no audit entry.
    AuditDropped => "audit-dropped",
    /// Store: the query for stale events returns none.
    ///
    /// Observable as: an event stays WAITING, FAILED or PROCESSING after its lease has ended.
    LeftoversHidden => "leftovers-hidden",
    /// Store: the query for events that no consumer received returns none.
    ///
    /// Observable as: a SENT event is missing from the consume log permanently.
    LostEventsHidden => "lost-events-hidden",
}

/// A broker with a defect.
pub(crate) struct DefectiveBroker {
    pub(crate) inner: FaultyBroker,
    pub(crate) defect: Defect,
}

#[async_trait]
impl Broker for DefectiveBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.inner.declare(topology).await
    }

    #[allow(clippy::disallowed_methods, reason = "a defective broker creates false confirms")]
    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let copies: Vec<Outgoing> = window.iter().map(copy).collect();
        let outcomes = self.inner.publish(window).await;
        if self.defect == Defect::EverythingConfirmed {
            return Ok(copies.into_iter().map(Outgoing::confirmed).collect());
        }
        let forged = outcomes?.into_iter().zip(copies).map(|(outcome, copy)| match (self.defect, &outcome) {
            (Defect::ReturnReportedAsConfirm, PublishOutcome::Returned { .. })
            | (Defect::UnknownReportedAsConfirm, PublishOutcome::Unknown { .. }) => copy.confirmed(),
            _ => outcome,
        });
        Ok(forged.collect())
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        let inner = self.inner.subscribe(queue, prefetch).await?;
        if self.defect == Defect::AckOnDelivery {
            return Ok(Box::new(AckingSubscription(inner)));
        }
        Ok(inner)
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.inner.queues().await
    }

    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        self.inner.has_messages(queue).await
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}

/// Acknowledges deliveries when they arrive.
struct AckingSubscription(Box<dyn Subscription>);

#[async_trait]
impl Subscription for AckingSubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        let deliveries = self.0.next().await?;
        let tags: Vec<DeliveryTag> = deliveries.iter().map(|delivery| delivery.tag).collect();
        self.0.ack(&tags).await?;
        Ok(deliveries)
    }

    async fn ack(&self, _tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn nack(&self, _tags: &[DeliveryTag], _requeue: Requeue) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.0.close().await
    }
}

/// A store with a defect.
pub(crate) struct DefectiveStore {
    pub(crate) inner: FaultyStore,
    pub(crate) defect: Defect,
}

#[async_trait]
impl Store for DefectiveStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        let inner = self.inner.begin().await?;
        Ok(Box::new(Wrapped(Defective { inner, defect: self.defect })))
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        let inner = self.inner.view().await?;
        Ok(Box::new(Wrapped(Defective { inner, defect: self.defect })))
    }

    fn has_single_writer(&self) -> bool {
        self.inner.has_single_writer()
    }
}

/// A unit of work or a view with a defect.
struct Defective<I: ?Sized> {
    inner: Box<I>,
    defect: Defect,
}

type Unit = Defective<Work>;

impl<I: MarketView + ?Sized> Wraps for Defective<I> {
    type Inner = I;

    fn inner(&mut self) -> &mut I {
        &mut self.inner
    }
}

impl UnitWrapper for Unit {
    async fn commit(self) -> Result<(), StoreError> {
        match self.inner.commit().await {
            Err(StoreError::CommitUnknown(_)) if self.defect == Defect::UnknownCommitReportedAsDone => Ok(()),
            committed => committed,
        }
    }
}

impl Unit {
    fn hide_conflict(&self, changed: Changed) -> Changed {
        if self.defect == Defect::ConflictHidden { Changed::One } else { changed }
    }
}

impl OutboxRepoWrapper for Unit {
    async fn fence(&mut self, owner: &RelayId, holds: &[OwnedPartition]) -> Result<PartitionSet, StoreError> {
        let owned = self.inner.outbox().fence(owner, holds).await?;
        if self.defect == Defect::NoFence {
            return Ok(holds.iter().map(|hold| hold.partition).collect());
        }
        Ok(owned)
    }

    async fn mark_sent_if_owned(
        &mut self,
        owner: &RelayId,
        holds: &[OwnedPartition],
        confirmed: &BTreeMap<Partition, Vec<Confirmed>>,
        now: DateTime<Utc>,
    ) -> Result<PartitionSet, StoreError> {
        if self.defect == Defect::NoFence {
            let all: Vec<&Confirmed> = confirmed.values().flatten().collect();
            self.inner.outbox().mark_sent(&all, now).await?;
            return Ok(holds.iter().map(|hold| hold.partition).collect());
        }
        self.inner.outbox().mark_sent_if_owned(owner, holds, confirmed, now).await
    }
}

impl OperatorRepoWrapper for Unit {}

impl LeaseRepoWrapper for Unit {
    async fn renew_partitions(
        &mut self,
        relay: &RelayId,
        holds: &[OwnedPartition],
        for_ms: u32,
    ) -> Result<Vec<OwnedPartition>, StoreError> {
        if self.defect == Defect::LeaseNotRenewed {
            return Ok(holds.to_vec());
        }
        self.inner.outbox().renew_partitions(relay, holds, for_ms).await
    }
}

impl WebhookRepoWrapper for Unit {}

impl AuditRepoWrapper for Unit {
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        if self.defect == Defect::AuditDropped {
            return Ok(());
        }
        self.inner.outbox().audit(entry).await
    }
}

impl OrderRepoWrapper for Unit {
    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError> {
        let changed = self.inner.advance_order(after).await?;
        Ok(self.hide_conflict(changed))
    }
}

impl ProductRepoWrapper for Unit {
    async fn advance_product(&mut self, after: &Product) -> Result<Changed, StoreError> {
        let changed = self.inner.advance_product(after).await?;
        Ok(self.hide_conflict(changed))
    }
}

impl PaymentRepoWrapper for Unit {
    async fn advance_payment(&mut self, after: &Payment) -> Result<Changed, StoreError> {
        let changed = self.inner.advance_payment(after).await?;
        Ok(self.hide_conflict(changed))
    }
}

impl RefundRepoWrapper for Unit {
    async fn advance_refund(&mut self, after: &Refund) -> Result<Changed, StoreError> {
        let changed = self.inner.advance_refund(after).await?;
        Ok(self.hide_conflict(changed))
    }
}

impl GatewayReportRepoWrapper for Unit {}
impl FindingRepoWrapper for Unit {}
impl InvoiceRepoWrapper for Unit {}
impl HistoryRepoWrapper for Unit {}
impl LeaderRepoWrapper for Unit {}
impl ArchiveRepoWrapper for Unit {}
impl ErasureRepoWrapper for Unit {}
impl JobRepoWrapper for Unit {}
impl MonitoringRepoWrapper for Unit {}
impl IdBlocksWrapper for Unit {}
impl RequestRepoWrapper for Unit {}
impl PersonalTextRepoWrapper for Unit {}
impl ConsumeLogWrapper for Unit {}
impl DeadLetterRepoWrapper for Unit {}
impl AssetRepoWrapper for Unit {}
impl CreditRepoWrapper for Unit {}
impl EffectRepoWrapper for Unit {}
impl NotificationRepoWrapper for Unit {}

impl<I: MarketView + ?Sized> OrderQueriesWrapper for Defective<I> {
    async fn order_of_party(
        &mut self,
        tenant: TenantId,
        id: OrderId,
        user: UserId,
    ) -> Result<Option<Order>, StoreError> {
        if self.defect == Defect::PartyIgnored {
            return self.inner.order_by_id(tenant, id).await;
        }
        self.inner.order_of_party(tenant, id, user).await
    }
}

impl<I: MarketView + ?Sized> OutboxQueriesWrapper for Defective<I> {
    async fn outbox_due(&mut self, query: &DueQuery) -> Result<Due, StoreError> {
        let mut query = query.clone();
        if self.defect == Defect::HoldIgnored {
            query.on_failed = OnFailed::Continue;
        }
        self.inner.outbox_view().outbox_due(&query).await
    }
}

impl<I: MarketView + ?Sized> OperatorQueriesWrapper for Defective<I> {}

impl<I: MarketView + ?Sized> ConsumeQueriesWrapper for Defective<I> {
    async fn stale_consumptions(
        &mut self,
        consumer: &str,
        except: &[&str],
        idle_since: DateTime<Utc>,
        now: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<EventId>, StoreError> {
        if self.defect == Defect::LeftoversHidden {
            return Ok(Vec::new());
        }
        self.inner.outbox_view().stale_consumptions(consumer, except, idle_since, now, limit).await
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
        if self.defect == Defect::LostEventsHidden {
            return Ok(Vec::new());
        }
        self.inner.outbox_view().unconsumed_events(consumer, types, after_id, after, until, limit).await
    }
}

impl<I: MarketView + ?Sized> AssetQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> ProductQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> PaymentQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> RefundQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> GatewayReportQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> FindingQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> InvoiceQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> HistoryQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> DeadLetterQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> ArchiveQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> AuditQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> EffectQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> NotificationQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> CreditQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> LeaseQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> JobQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> MonitoringQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> WebhookQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> IdQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> RequestQueriesWrapper for Defective<I> {}
impl<I: MarketView + ?Sized> PersonalTextQueriesWrapper for Defective<I> {}
