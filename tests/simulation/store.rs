//! The store with everything that databases do: away, busy, slow, commits lost and commits of unknown outcome.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::ports::*;
use handover_domain::*;

use super::faults::{Faults, Viewing};
use super::mutants::Mutant;

/// A store whose faults come from the run's dice.
pub struct FaultyStore {
    pub inner: Arc<dyn Store>,
    pub faults: Faults,
}

#[async_trait]
impl Store for FaultyStore {
    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        self.faults.delay().await;
        if self.faults.strikes(self.faults.rates.store_away) {
            return Err(StoreError::Unavailable("no connection".into()));
        }
        let inner = self.inner.begin().await?;
        Ok(Box::new(Faulty {
            inner,
            faults: self.faults.clone(),
            after_commit: Vec::new(),
            stale: None,
            _viewing: None,
            store: Arc::clone(&self.inner),
        }))
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.faults.delay().await;
        if self.faults.strikes(self.faults.rates.store_away) {
            return Err(StoreError::Unavailable("no connection".into()));
        }
        let viewing = self.faults.opens_view();
        let inner = self.inner.view().await?;
        Ok(Box::new(Faulty {
            inner,
            faults: self.faults.clone(),
            after_commit: Vec::new(),
            stale: None,
            _viewing: viewing,
            store: Arc::clone(&self.inner),
        }))
    }
}

/// A unit of work or a view that may fail at any statement.
struct Faulty<I: ?Sized> {
    inner: Box<I>,
    faults: Faults,
    /// What [`Mutant::DedupeOutsideTransaction`] writes once the unit is committed.
    after_commit: Vec<Consumption>,
    /// A relay that settles here although it no longer owns what it settles.
    stale: Option<RelayId>,
    /// A view is open for as long as this lives.
    _viewing: Option<Viewing>,
    store: Arc<dyn Store>,
}

impl<I: ?Sized> Faulty<I> {
    fn statement(&self) -> Result<(), StoreError> {
        if self.faults.strikes(self.faults.rates.store_transient) {
            return Err(StoreError::Transient("deadlock found when trying to get lock".into()));
        }
        if self.faults.strikes(self.faults.rates.statement_refused) {
            return Err(StoreError::Backend("the disk is full".into()));
        }
        Ok(())
    }
}

/// Writes each method of a port once: a fault, or the inner call.
macro_rules! passes_on {
    (impl $port:ident for $bound:ident { $(fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)* }) => {
        #[async_trait]
        impl<I: $bound + ?Sized> $port for Faulty<I> {
            $(async fn $name(&mut self, $($arg: $ty),*) -> Result<$out, StoreError> {
                self.statement()?;
                self.inner.$name($($arg),*).await
            })*
        }
    };
}

passes_on! { impl ProductQueries for View {
    fn product_by_id(tenant: TenantId, id: ProductId) -> Option<Product>;
    fn products_page(tenant: TenantId, status: Option<ProductStatus>, before: Option<ProductId>, limit: u32) -> Vec<Product>;
} }
passes_on! { impl ProductRepo for UnitOfWork {
    fn insert_product(product: &Product) -> ();
    fn advance_product(after: &Product) -> Changed;
} }
passes_on! { impl OrderQueries for View {
    fn order_by_id(tenant: TenantId, id: OrderId) -> Option<Order>;
    fn order_of_party(tenant: TenantId, id: OrderId, user: UserId) -> Option<Order>;
    fn orders_page(tenant: TenantId, user: UserId, side: OrderSide, status: Option<OrderStatus>, before: Option<OrderId>, limit: u32) -> Vec<Order>;
    fn orders_overdue(created_by: DateTime<Utc>, limit: u32) -> Vec<(TenantId, OrderId)>;
} }
passes_on! { impl OrderRepo for UnitOfWork {
    fn insert_order(order: &Order) -> ();
    fn advance_order(after: &Order) -> Changed;
} }
passes_on! { impl PaymentQueries for View {
    fn payment_by_id(id: PaymentId) -> Option<Payment>;
    fn payment_in_processing(tenant: TenantId, order: OrderId) -> Option<Payment>;
    fn payments_of(tenant: TenantId, order: OrderId) -> Vec<Payment>;
} }
passes_on! { impl PaymentRepo for UnitOfWork {
    fn insert_payment(payment: &Payment) -> ();
    fn advance_payment(after: &Payment) -> Changed;
} }
passes_on! { impl OutboxQueries for View {
    fn outbox_due(partitions: PartitionSet, now: DateTime<Utc>, on_failed: OnFailed, limit: u32) -> Vec<OutboxRow>;
    fn outbox_next_due(partitions: PartitionSet, now: DateTime<Utc>) -> Option<DateTime<Utc>>;
    fn outbox_by_event(events: &[EventId]) -> Vec<OutboxRow>;
    fn outbox_page(filter: &OutboxFilter, before: Option<i64>, limit: u32) -> Vec<OutboxRow>;
    fn outbox_after(filter: &OutboxFilter, after: Option<i64>, limit: u32) -> Vec<OutboxRow>;
    fn outbox_about(aggregates: &[AggregateRef]) -> Vec<OutboxRow>;
    fn blocked_page(tenant: Option<TenantId>, before: Option<i64>, limit: u32) -> Vec<Numbered<Blocked>>;
    fn outbox_counts(tenant: Option<TenantId>) -> OutboxCounts;
} }
passes_on! { impl DeadLetterQueries for View {
    fn dead_letter(queue: &str, key: &str) -> Option<DeadLetter>;
    fn dead_letters_page(filter: &DeadLetterFilter, before: Option<i64>, limit: u32) -> Vec<Numbered<DeadLetter>>;
    fn dead_letters_of(keys: &[String]) -> Vec<DeadLetter>;
    fn undecided_dead_letters(tenant: Option<TenantId>) -> u64;
} }
passes_on! { impl DeadLetterRepo for UnitOfWork {
    fn park(letters: &[DeadLetter]) -> ();
    fn decide(decision: &Decision) -> Changed;
} }
passes_on! { impl AuditQueries for View {
    fn audit_page(tenant: Option<TenantId>, before: Option<i64>, limit: u32) -> Vec<Numbered<AuditEntry>>;
} }
passes_on! { impl AuditRepo for UnitOfWork {
    fn audit(entry: &AuditEntry) -> ();
} }
passes_on! { impl EffectQueries for View {
    fn listing_changes(tenant: TenantId, order: OrderId) -> Vec<ListingChange>;
    fn listing_of(tenant: TenantId, seller: UserId) -> Vec<ListingEntry>;
    fn shipment_tasks(tenant: TenantId, order: OrderId) -> Vec<ShipmentTask>;
    fn listings_page(tenant: TenantId, seller: UserId, before: Option<ProductId>, limit: u32) -> Vec<ListingEntry>;
    fn shipments_page(tenant: TenantId, user: UserId, side: OrderSide, before: Option<i64>, limit: u32) -> Vec<Numbered<ShipmentTask>>;
} }
passes_on! { impl NotificationQueries for View {
    fn notifications_about(tenant: TenantId, order: OrderId) -> Vec<Notification>;
    fn notifications_page(tenant: TenantId, recipient: UserId, before: Option<i64>, limit: u32) -> Vec<Numbered<Notification>>;
} }
passes_on! { impl CreditQueries for View {
    fn credit_of(tenant: TenantId, buyer: UserId) -> Option<BuyerCredit>;
    fn credit_changes(tenant: TenantId, order: OrderId) -> Vec<CreditChange>;
} }
passes_on! { impl NotificationRepo for UnitOfWork {
    fn notify(notifications: &[Notification]) -> ();
} }
passes_on! { impl CreditRepo for UnitOfWork {
    fn change_credit(changes: &[CreditChange]) -> ();
} }
passes_on! { impl LeaseQueries for View {
    fn database_now() -> DateTime<Utc>;
    fn live_relays() -> Vec<RelayId>;
    fn partition_leases() -> Vec<PartitionLease>;
} }
passes_on! { impl LeaseRepo for UnitOfWork {
    fn heartbeat(relay: &RelayId, for_ms: u32) -> ();
    fn forget_relay(relay: &RelayId) -> ();
    fn take_partition(relay: &RelayId, partition: Partition, seen_epoch: i64, for_ms: u32) -> Changed;
    fn renew_partitions(relay: &RelayId, holds: &[PartitionHold], for_ms: u32) -> Vec<PartitionHold>;
    fn give_back(relay: &RelayId, holds: &[PartitionHold]) -> ();
    fn end_all_leases() -> ();
} }
passes_on! { impl IdBlocks for UnitOfWork {
    fn take_id_block(kind: IdKind, size: u32) -> i64;
} }

#[async_trait]
impl<I: View + ?Sized> ConsumeQueries for Faulty<I> {
    async fn consumption(
        &mut self,
        consumer: &str,
        event: &EventId,
    ) -> Result<Option<ConsumeRecord>, StoreError> {
        self.statement()?;
        self.inner.consumption(consumer, event).await
    }

    async fn unapplied(
        &mut self,
        consumer: &str,
        types: &[&str],
        since: DateTime<Utc>,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError> {
        self.statement()?;
        if self.faults.is(Mutant::NoGate) {
            // Each event is looked up by itself; what is open before it is not seen.
            return Ok(Vec::new());
        }
        self.inner.unapplied(consumer, types, since, aggregates).await
    }

    async fn leftovers(
        &mut self,
        consumer: &str,
        idle_since: DateTime<Utc>,
        now: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<EventId>, StoreError> {
        self.statement()?;
        self.inner.leftovers(consumer, idle_since, now, limit).await
    }

    async fn unseen(
        &mut self,
        consumer: &str,
        types: &[&str],
        since: DateTime<Utc>,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        self.statement()?;
        self.inner.unseen(consumer, types, since, after, until, limit).await
    }

    async fn consumer_subscription(
        &mut self,
        consumer: &str,
    ) -> Result<Option<ConsumerSubscription>, StoreError> {
        self.statement()?;
        self.inner.consumer_subscription(consumer).await
    }

    async fn consumed_page(
        &mut self,
        filter: &ConsumedFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Consumed>>, StoreError> {
        self.statement()?;
        self.inner.consumed_page(filter, before, limit).await
    }

    async fn consumed_of(&mut self, events: &[EventId]) -> Result<Vec<Consumed>, StoreError> {
        self.statement()?;
        self.inner.consumed_of(events).await
    }

    async fn consume_counts(&mut self, tenant: Option<TenantId>) -> Result<Vec<ConsumeCount>, StoreError> {
        self.statement()?;
        self.inner.consume_counts(tenant).await
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> EffectRepo for Faulty<I> {
    async fn change_listings(&mut self, changes: &[ListingChange]) -> Result<(), StoreError> {
        self.statement()?;
        if changes.iter().any(|change| self.faults.is_poisoned(change.order)) {
            return Err(StoreError::Backend("value out of range".into()));
        }
        self.inner.change_listings(changes).await
    }

    async fn open_shipments(&mut self, tasks: &[NewShipmentTask]) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.open_shipments(tasks).await
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> ConsumeLog for Faulty<I> {
    async fn record(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError> {
        self.statement()?;
        if consumptions.iter().any(|consumption| consumption.status == ConsumeStatus::Waiting) {
            self.faults.reach("an event that waits for an earlier one");
        }
        if self.faults.is(Mutant::DedupeOutsideTransaction) {
            self.after_commit.extend_from_slice(consumptions);
            return Ok(());
        }
        self.inner.record(consumptions).await
    }

    async fn subscribe_consumer(
        &mut self,
        consumer: &str,
        now: DateTime<Utc>,
    ) -> Result<ConsumerSubscription, StoreError> {
        self.statement()?;
        self.inner.subscribe_consumer(consumer, now).await
    }

    async fn set_checked_until(&mut self, consumer: &str, until: DateTime<Utc>) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.set_checked_until(consumer, until).await
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> OutboxRepo for Faulty<I> {
    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.append(events).await
    }

    async fn fence(&mut self, owner: &RelayId, holds: &[PartitionHold]) -> Result<PartitionSet, StoreError> {
        self.statement()?;
        let ours = self.inner.fence(owner, holds).await?;
        if holds.iter().any(|hold| !ours.contains(hold.partition)) {
            self.faults.reach("a partition lost in the middle of a window");
        }
        let claimed = if self.faults.is(Mutant::NoEpochCheck) {
            holds.iter().map(|hold| hold.partition).collect()
        } else {
            ours
        };
        // Asked of the leases themselves, not of the fence.
        let leases = self.inner.partition_leases().await?;
        let is_owned = |hold: &PartitionHold| {
            leases.iter().any(|lease| {
                lease.partition == hold.partition
                    && lease.owner.as_ref() == Some(owner)
                    && lease.epoch == hold.epoch
            })
        };
        let stale = holds.iter().any(|hold| claimed.contains(hold.partition) && !is_owned(hold));
        self.stale = stale.then(|| owner.clone());
        Ok(claimed)
    }

    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.statement()?;
        self.inner.mark_sent(confirmed, now).await
    }

    async fn mark_failed(&mut self, failed: &[FailedPublish], now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.statement()?;
        self.inner.mark_failed(failed, now).await
    }

    async fn redrive(&mut self, rows: &[Redrive], now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.statement()?;
        self.inner.redrive(rows, now).await
    }

    async fn release(&mut self, aggregate: &AggregateRef, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.statement()?;
        self.inner.release(aggregate, now).await
    }
}

#[async_trait]
impl UnitOfWork for Faulty<dyn UnitOfWork> {
    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        let Faulty { inner, faults, after_commit, stale, store, _viewing: _ } = *self;
        faults.delay().await;
        if faults.strikes(faults.rates.commit_lost) {
            return Err(StoreError::Transient("serialization failure".into()));
        }
        if faults.strikes(faults.rates.commit_unknown) {
            if faults.dice.permille(500) {
                inner.commit().await?;
            }
            return Err(StoreError::CommitUnknown("the connection was lost in COMMIT".into()));
        }
        inner.commit().await?;
        if let Some(relay) = stale {
            faults.violation(format!("{relay} settled what it no longer owns"));
        }
        faults.delay().await;
        if !after_commit.is_empty() {
            let mut unit = store.begin().await?;
            unit.record(&after_commit).await?;
            unit.commit().await?;
        }
        Ok(())
    }
}
