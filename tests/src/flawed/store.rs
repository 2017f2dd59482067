//! A store that keeps every promise but one.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use crate::contract::store::StoreRig;
use crate::rigs::MemoryStoreRig;
use async_trait::async_trait;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use handover_application::Wake;
use handover_application::ports::*;
use handover_domain::{
    AggregateRef, CreditCounts, EventId, EventType, Order, OrderId, OrderStatus, OutboxStatus, Partition,
    PartitionSet, Payment, PaymentId, Product, ProductId, ProductStatus, TenantId, Title, UserId,
};

/// The promise that is broken; `None` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    EventsAreAppendedAfterTheCommit,
    AppendKeepsTheFirstHundredOnly,
    AppendIgnoresCase,
    AppendReformatsPayloads,
    RetriesAreCutToMilliseconds,
    InsertIgnoresTakenIds,
    SecondPaymentInProcessingIsIgnored,
    TitlesAreTrimmed,
    OrdersLeakToOtherTenants,
    PagesRepeatTheirLastRow,
    OverdueLeavesOutTheDeadline,
    UpdatesIgnoreTheVersion,
    DueIgnoresHeldRows,
    DueCountsHeldRowsAgainstTheLimit,
    NextDueIsNotAfterNow,
    SentMovesFailedRows,
    TheFenceSaysYes,
    RecordIgnoresWhatIsExpected,
    UnappliedForgetsFailed,
    EffectsAreDeduplicated,
    NotificationsAreDeduplicated,
    NotificationsLeakToOtherTenants,
    CreditIsCountedOncePerEvent,
    CreditIsCountedFromAnOldRead,
    CreditLeaksToOtherTenants,
    ScoresHaveNoUpperLimit,
    IdBlocksOverlap,
    ForgottenRelaysLiveOn,
    EndedLeasesAreNotRenewed,
    CommitReportsSuccessAfterAFailure,
    CommitRingsNobody,
    DroppedUnitsCommit,
    ProductsAreWrittenOutsideTheUnit,
    ACutBeginSwallowsTheNextUnit,
}

struct Shared {
    inner: Arc<dyn Store>,
    flaw: Flaw,
    /// Events that were marked as sent, for [`Flaw::SentMovesFailedRows`].
    marked: Mutex<BTreeSet<EventId>>,
    /// Keeps units apart where a flaw would otherwise show only now and then.
    one_at_a_time: Arc<tokio::sync::Mutex<()>>,
    /// A transaction was left open, for [`Flaw::ACutBeginSwallowsTheNextUnit`].
    left_open: AtomicBool,
}

/// The store in memory with one flaw.
pub struct FlawedStoreRig {
    sound: MemoryStoreRig,
    shared: Arc<Shared>,
}

impl FlawedStoreRig {
    /// A fresh rig with this flaw.
    pub fn new(flaw: Flaw) -> FlawedStoreRig {
        let sound = MemoryStoreRig::new();
        let inner = sound.store();
        let shared = Shared {
            inner,
            flaw,
            marked: Mutex::default(),
            one_at_a_time: Arc::default(),
            left_open: AtomicBool::new(false),
        };
        FlawedStoreRig { sound, shared: Arc::new(shared) }
    }
}

#[async_trait]
impl StoreRig for FlawedStoreRig {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(FlawedStore(self.shared.clone()))
    }

    fn wake(&self) -> Wake {
        if self.shared.flaw == Flaw::CommitRingsNobody { Wake::default() } else { self.sound.wake() }
    }

    fn move_database_clock(&self, by: TimeDelta) {
        self.sound.move_database_clock(by);
    }
}

struct FlawedStore(Arc<Shared>);

/// Left in a `begin` that may be dropped.
struct Begun<'a> {
    shared: &'a Shared,
    cut: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if self.cut {
            self.shared.left_open.store(true, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl Store for FlawedStore {
    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        let swallows = self.0.flaw == Flaw::ACutBeginSwallowsTheNextUnit;
        let mut begun = Begun { shared: &self.0, cut: swallows };
        let inner = self.0.inner.begin().await?;
        begun.cut = false;
        Ok(Box::new(Flawed {
            inner: Some(inner),
            shared: self.0.clone(),
            failed: false,
            events: Vec::new(),
            alone: None,
        }))
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        let inner = self.0.inner.view().await?;
        Ok(Box::new(Flawed {
            inner: Some(inner),
            shared: self.0.clone(),
            failed: false,
            events: Vec::new(),
            alone: None,
        }))
    }
}

/// A unit or a view with the flaw.
struct Flawed<U: ?Sized + Send + 'static> {
    inner: Option<Box<U>>,
    shared: Arc<Shared>,
    /// A flaw refused a statement.
    failed: bool,
    /// For [`Flaw::EventsAreAppendedAfterTheCommit`].
    events: Vec<NewEvent>,
    alone: Option<tokio::sync::OwnedMutexGuard<()>>,
}

/// Long enough for anyone who watches.
async fn linger() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

type Unit = Flawed<dyn UnitOfWork>;

impl<U: ?Sized + Send> Flawed<U> {
    fn inner(&mut self) -> &mut U {
        self.inner.as_mut().expect("a unit is used until it ends")
    }

    /// From here to the end of the unit.
    async fn be_alone(&mut self) {
        if self.alone.is_none() {
            self.alone = Some(self.shared.one_at_a_time.clone().lock_owned().await);
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.shared.flaw == flaw
    }

    /// Where a page begins.
    fn first_below(&self, before: Option<i64>) -> Option<i64> {
        before.map(|id| id + i64::from(self.has(Flaw::PagesRepeatTheirLastRow)))
    }
}

impl<U: ?Sized + Send> Drop for Flawed<U> {
    fn drop(&mut self) {
        if self.has(Flaw::DroppedUnitsCommit)
            && let Some(inner) = self.inner.take()
            && let Some(unit) =
                (Box::new(inner) as Box<dyn std::any::Any>).downcast::<Box<dyn UnitOfWork>>().ok()
        {
            // The store in memory needs nothing but to be polled.
            let mut commit = pin!(unit.commit());
            let mut context = Context::from_waker(Waker::noop());
            while commit.as_mut().poll(&mut context).is_pending() {}
        }
    }
}

macro_rules! reads {
    ($port:ident { $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)* } $($rest:tt)*) => {
        #[async_trait]
        impl<U: View + ?Sized> $port for Flawed<U> {
            $(async fn $name(&mut self, $($arg: $ty),*) -> Result<$ret, StoreError> {
                self.inner().$name($($arg),*).await
            })*
            $($rest)*
        }
    };
}

macro_rules! writes {
    ($port:ident { $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;)* } $($rest:tt)*) => {
        #[async_trait]
        impl $port for Unit {
            $(async fn $name(&mut self, $($arg: $ty),*) -> Result<$ret, StoreError> {
                self.inner().$name($($arg),*).await
            })*
            $($rest)*
        }
    };
}

reads! {
    ProductQueries {
        fn product_by_id(tenant: TenantId, id: ProductId) -> Option<Product>;
    }

    async fn products_page(
        &mut self,
        tenant: TenantId,
        status: Option<ProductStatus>,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<Product>, StoreError> {
        let repeats = self.has(Flaw::PagesRepeatTheirLastRow);
        let before = before.map(|id| if repeats { ProductId::try_from(id.get() + 1).unwrap_or(id) } else { id });
        self.inner().products_page(tenant, status, before, limit).await
    }
}

reads! {
    OrderQueries {
        fn order_of_party(tenant: TenantId, id: OrderId, user: UserId) -> Option<Order>;
        fn orders_page(
            tenant: TenantId,
            user: UserId,
            side: OrderSide,
            status: Option<OrderStatus>,
            before: Option<OrderId>,
            limit: u32
        ) -> Vec<Order>;
    }

    async fn order_by_id(&mut self, tenant: TenantId, id: OrderId) -> Result<Option<Order>, StoreError> {
        let found = self.inner().order_by_id(tenant, id).await?;
        if found.is_none() && self.has(Flaw::OrdersLeakToOtherTenants) {
            return self.inner().order_by_id(TenantId::DEFAULT, id).await;
        }
        Ok(found)
    }

    async fn orders_overdue(
        &mut self,
        created_by: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<(TenantId, OrderId)>, StoreError> {
        let cut = self.has(Flaw::OverdueLeavesOutTheDeadline);
        let created_by = if cut { created_by - TimeDelta::microseconds(1) } else { created_by };
        self.inner().orders_overdue(created_by, limit).await
    }
}

reads! {
    PaymentQueries {
        fn payment_by_id(id: PaymentId) -> Option<Payment>;
        fn payment_in_processing(tenant: TenantId, order: OrderId) -> Option<Payment>;
    }
}

impl<U: View + ?Sized> Flawed<U> {
    /// What would be due if nothing were held back, smallest id first.
    async fn pending(
        &mut self,
        partitions: PartitionSet,
        now: DateTime<Utc>,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let mut rows = self.inner().outbox_page(&OutboxFilter::default(), None, u32::MAX).await?;
        rows.retain(|row| {
            let is_due = row.next_retry_time.is_none_or(|due| due <= now);
            row.status.is_pending() && is_due && partitions.contains(row.partition())
        });
        rows.sort_by_key(|row| row.id);
        Ok(rows)
    }
}

reads! {
    OutboxQueries {
        fn outbox_page(filter: &OutboxFilter, before: Option<i64>, limit: u32) -> Vec<OutboxRow>;
    }

    async fn outbox_due(
        &mut self,
        partitions: PartitionSet,
        now: DateTime<Utc>,
        on_failed: OnFailed,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let limit_of = usize::try_from(limit).unwrap_or(usize::MAX);
        if self.has(Flaw::DueIgnoresHeldRows) {
            let mut rows = self.pending(partitions, now).await?;
            // In order within each aggregate: that promise is kept.
            let slots: Vec<_> = rows.iter().map(|row| row.aggregate.clone()).collect();
            rows.sort_by_key(|row| (row.aggregate_seq, row.id));
            let mut ordered = Vec::new();
            for slot in slots {
                let at = rows.iter().position(|row| row.aggregate == slot).expect("as many rows as slots");
                ordered.push(rows.remove(at));
            }
            ordered.truncate(limit_of);
            return Ok(ordered);
        }
        if self.has(Flaw::DueCountsHeldRowsAgainstTheLimit) {
            let mut first = self.pending(partitions, now).await?;
            let due = self.inner().outbox_due(partitions, now, on_failed, u32::MAX).await?;
            if first.len() != due.len() {
                first.truncate(limit_of);
                first.retain(|row| due.contains(row));
                return Ok(first);
            }
        }
        self.inner().outbox_due(partitions, now, on_failed, limit).await
    }

    async fn outbox_next_due(
        &mut self,
        partitions: PartitionSet,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, StoreError> {
        let early = self.has(Flaw::NextDueIsNotAfterNow);
        let now = if early { now - TimeDelta::microseconds(1) } else { now };
        self.inner().outbox_next_due(partitions, now).await
    }

    async fn outbox_by_event(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError> {
        let mut rows = self.inner().outbox_by_event(events).await?;
        if self.has(Flaw::SentMovesFailedRows) {
            let marked = self.shared.marked.lock().unwrap_or_else(PoisonError::into_inner);
            for row in rows.iter_mut().filter(|row| row.status == OutboxStatus::Failed) {
                if marked.contains(&row.event_id) {
                    row.status = OutboxStatus::Sent;
                }
            }
        }
        Ok(rows)
    }
}

reads! {
    ConsumeQueries {
        fn consumption(consumer: &str, event: &EventId) -> Option<ConsumeRecord>;
        fn leftovers(consumer: &str, idle_since: DateTime<Utc>, now: DateTime<Utc>, limit: u32) -> Vec<EventId>;
        fn unseen(
            consumer: &str,
            types: &[EventType],
            since: DateTime<Utc>,
            after: DateTime<Utc>,
            until: DateTime<Utc>,
            limit: u32
        ) -> Vec<OutboxRow>;
        fn consumer_subscription(consumer: &str) -> Option<ConsumerSubscription>;
    }

    async fn unapplied(
        &mut self,
        consumer: &str,
        types: &[EventType],
        since: DateTime<Utc>,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError> {
        let forgets = self.has(Flaw::UnappliedForgetsFailed);
        let mut found = self.inner().unapplied(consumer, types, since, aggregates).await?;
        found.retain(|unapplied| {
            let failed = handover_domain::ConsumeStatus::Failed;
            !forgets || unapplied.record.as_ref().is_none_or(|record| record.status != failed)
        });
        Ok(found)
    }
}

reads! {
    DeadLetterQueries {
        fn dead_letter(queue: &str, key: &str) -> Option<DeadLetter>;
        fn dead_letters(queue: Option<&str>, limit: u32) -> Vec<DeadLetter>;
    }
}

reads! {
    EffectQueries {
        fn listing_changes(tenant: TenantId, order: OrderId) -> Vec<ListingChange>;
        fn listing_of(tenant: TenantId, seller: UserId) -> Vec<ListingEntry>;
        fn shipment_tasks(tenant: TenantId, order: OrderId) -> Vec<ShipmentTask>;
    }

    async fn listings_page(
        &mut self,
        tenant: TenantId,
        seller: UserId,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<ListingEntry>, StoreError> {
        let repeats = self.has(Flaw::PagesRepeatTheirLastRow);
        let before = before.map(|id| if repeats { ProductId::try_from(id.get() + 1).unwrap_or(id) } else { id });
        self.inner().listings_page(tenant, seller, before, limit).await
    }

    async fn shipments_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<ShipmentTask>>, StoreError> {
        let before = self.first_below(before);
        self.inner().shipments_page(tenant, user, side, before, limit).await
    }
}

reads! {
    NotificationQueries {}

    async fn notifications_about(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Vec<Notification>, StoreError> {
        let found = self.inner().notifications_about(tenant, order).await?;
        if found.is_empty() && self.has(Flaw::NotificationsLeakToOtherTenants) {
            return self.inner().notifications_about(TenantId::DEFAULT, order).await;
        }
        Ok(found)
    }

    async fn notifications_page(
        &mut self,
        tenant: TenantId,
        recipient: UserId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Notification>>, StoreError> {
        let before = self.first_below(before);
        self.inner().notifications_page(tenant, recipient, before, limit).await
    }
}

reads! {
    CreditQueries {
        fn credit_changes(tenant: TenantId, order: OrderId) -> Vec<CreditChange>;
    }

    async fn credit_of(&mut self, tenant: TenantId, buyer: UserId) -> Result<Option<BuyerCredit>, StoreError> {
        let mut found = self.inner().credit_of(tenant, buyer).await?;
        if found.is_none() && self.has(Flaw::CreditLeaksToOtherTenants) {
            found = self.inner().credit_of(TenantId::DEFAULT, buyer).await?;
        }
        if let Some(credit) = &mut found
            && self.has(Flaw::ScoresHaveNoUpperLimit)
            && credit.score == CreditCounts::GREATEST_SCORE
        {
            credit.score = CreditCounts::FIRST_SCORE + credit.counts.completed;
        }
        Ok(found)
    }
}

reads! {
    LeaseQueries {
        fn database_now() -> DateTime<Utc>;
        fn live_relays() -> Vec<RelayId>;
        fn partition_leases() -> Vec<PartitionLease>;
    }
}

writes! {
    ProductRepo {
        fn advance_product(after: &Product) -> Changed;
    }

    async fn insert_product(&mut self, product: &Product) -> Result<(), StoreError> {
        if self.has(Flaw::InsertIgnoresTakenIds)
            && self.inner().product_by_id(product.tenant, product.id).await?.is_some()
        {
            return Ok(());
        }
        if self.has(Flaw::ProductsAreWrittenOutsideTheUnit) {
            let mut own = self.shared.inner.begin().await?;
            if let Err(error) = own.insert_product(product).await {
                self.failed = true;
                return Err(error);
            }
            own.commit().await?;
            linger().await;
            return Ok(());
        }
        if self.has(Flaw::TitlesAreTrimmed) {
            let title = Title::try_from(product.title.as_str().trim().to_owned()).expect("as legal as before");
            return self.inner().insert_product(&Product { title, ..product.clone() }).await;
        }
        self.inner().insert_product(product).await
    }
}

writes! {
    OrderRepo {
        fn insert_order(order: &Order) -> ();
    }

    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError> {
        while self.has(Flaw::UpdatesIgnoreTheVersion)
            && let Some(now) = self.inner().order_by_id(after.tenant, after.id).await?
        {
            let blind = Order { version: now.version + 1, ..after.clone() };
            if self.inner().advance_order(&blind).await? == Changed::One {
                return Ok(Changed::One);
            }
        }
        self.inner().advance_order(after).await
    }
}

writes! {
    PaymentRepo {
        fn advance_payment(after: &Payment) -> Changed;
    }

    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError> {
        if self.has(Flaw::SecondPaymentInProcessingIsIgnored) {
            self.be_alone().await;
            if self.inner().payment_by_id(payment.id).await?.is_none()
                && self.inner().payment_in_processing(payment.tenant, payment.order).await?.is_some()
            {
                return Ok(());
            }
        }
        self.inner().insert_payment(payment).await
    }
}

writes! {
    OutboxRepo {}

    async fn mark_failed(&mut self, failed: &[FailedPublish], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut failed = failed.to_vec();
        if self.has(Flaw::RetriesAreCutToMilliseconds) {
            for publish in &mut failed {
                publish.next_retry_time = publish.next_retry_time.map(|due| due.trunc_subsecs(3));
            }
        }
        self.inner().mark_failed(&failed, now).await
    }

    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError> {
        let mut events = events.to_vec();
        if self.has(Flaw::EventsAreAppendedAfterTheCommit) {
            self.events.extend(events);
            return Ok(());
        }
        if self.has(Flaw::AppendKeepsTheFirstHundredOnly) {
            events.truncate(100);
        }
        if self.has(Flaw::AppendIgnoresCase) {
            let rows = self.inner().outbox_page(&OutboxFilter::default(), None, u32::MAX).await?;
            let mut taken: BTreeSet<_> = rows.iter().map(|row| row.event_id.as_str().to_lowercase()).collect();
            for event in &events {
                if !taken.insert(event.event_id.as_str().to_lowercase()) {
                    self.failed = true;
                    return Err(StoreError::Conflict { what: "event_id".into() });
                }
            }
        }
        for event in &mut events {
            if self.has(Flaw::AppendReformatsPayloads) {
                let value: Result<serde_json::Value, _> = serde_json::from_str(&event.payload);
                event.payload = value.map_or_else(|_| event.payload.clone(), |value| format!("{value:#}"));
            }
        }
        self.inner().append(&events).await
    }

    async fn fence(&mut self, owner: &RelayId, holds: &[PartitionHold]) -> Result<PartitionSet, StoreError> {
        let good = self.inner().fence(owner, holds).await?;
        let all = holds.iter().map(|hold| hold.partition).collect();
        Ok(if self.has(Flaw::TheFenceSaysYes) { all } else { good })
    }

    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError> {
        let ids = confirmed.iter().map(|proof| proof.event_id().clone());
        self.shared.marked.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
        self.inner().mark_sent(confirmed, now).await
    }
}

writes! {
    ConsumeLog {
        fn subscribe_consumer(consumer: &str, now: DateTime<Utc>) -> ConsumerSubscription;
        fn set_checked_until(consumer: &str, until: DateTime<Utc>) -> ();
    }

    async fn record(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError> {
        if !self.has(Flaw::RecordIgnoresWhatIsExpected) {
            return self.inner().record(consumptions).await;
        }
        self.be_alone().await;
        for row in consumptions {
            let now = self.inner().consumption(&row.consumer, &row.event_id).await?;
            let expected = now.map_or(Expected::Absent, |now| Expected::At(now.status, now.attempts));
            self.inner().record(&[Consumption { expected, ..row.clone() }]).await?;
        }
        Ok(())
    }
}

writes! {
    DeadLetterRepo {
        fn park(letters: &[DeadLetter]) -> ();
    }
}

writes! {
    EffectRepo {
        fn open_shipments(tasks: &[NewShipmentTask]) -> ();
    }

    async fn change_listings(&mut self, changes: &[ListingChange]) -> Result<(), StoreError> {
        if !self.has(Flaw::EffectsAreDeduplicated) {
            return self.inner().change_listings(changes).await;
        }
        for change in changes {
            if !self.inner().listing_changes(change.tenant, change.order).await?.contains(change) {
                self.inner().change_listings(std::slice::from_ref(change)).await?;
            }
        }
        Ok(())
    }
}

writes! {
    NotificationRepo {}

    async fn notify(&mut self, notifications: &[Notification]) -> Result<(), StoreError> {
        if !self.has(Flaw::NotificationsAreDeduplicated) {
            return self.inner().notify(notifications).await;
        }
        for one in notifications {
            if !self.inner().notifications_about(one.tenant, one.order).await?.contains(one) {
                self.inner().notify(std::slice::from_ref(one)).await?;
            }
        }
        Ok(())
    }
}

writes! {
    CreditRepo {}

    async fn change_credit(&mut self, changes: &[CreditChange]) -> Result<(), StoreError> {
        if self.has(Flaw::CreditIsCountedFromAnOldRead)
            && let [change] = changes
        {
            let read = self.inner().credit_of(change.tenant, change.buyer).await?;
            linger().await;
            self.be_alone().await;
            if self.inner().credit_of(change.tenant, change.buyer).await? != read {
                // What was written since is written over: one of the two is not counted.
                return Ok(());
            }
        }
        if !self.has(Flaw::CreditIsCountedOncePerEvent) {
            return self.inner().change_credit(changes).await;
        }
        for change in changes {
            if !self.inner().credit_changes(change.tenant, change.order).await?.contains(change) {
                self.inner().change_credit(std::slice::from_ref(change)).await?;
            }
        }
        Ok(())
    }
}

writes! {
    LeaseRepo {
        fn heartbeat(relay: &RelayId, for_ms: u32) -> ();
        fn take_partition(relay: &RelayId, partition: Partition, seen_epoch: i64, for_ms: u32) -> Changed;
        fn give_back(relay: &RelayId, holds: &[PartitionHold]) -> ();
        fn end_all_leases() -> ();
    }

    async fn forget_relay(&mut self, relay: &RelayId) -> Result<(), StoreError> {
        if self.has(Flaw::ForgottenRelaysLiveOn) { Ok(()) } else { self.inner().forget_relay(relay).await }
    }

    async fn renew_partitions(
        &mut self,
        relay: &RelayId,
        holds: &[PartitionHold],
        for_ms: u32,
    ) -> Result<Vec<PartitionHold>, StoreError> {
        let mut holds = holds.to_vec();
        if self.has(Flaw::EndedLeasesAreNotRenewed) {
            let now = self.inner().database_now().await?;
            let leases = self.inner().partition_leases().await?;
            let ended = |hold: &PartitionHold| {
                let lease = &leases[usize::from(hold.partition.number())];
                lease.lease_until.is_none_or(|until| until <= now)
            };
            holds.retain(|hold| !ended(hold));
        }
        self.inner().renew_partitions(relay, &holds, for_ms).await
    }
}

writes! {
    IdBlocks {}

    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError> {
        let first = self.inner().take_id_block(kind, size).await?;
        Ok(if self.has(Flaw::IdBlocksOverlap) && first > 1 { first - 1 } else { first })
    }
}

#[async_trait]
impl UnitOfWork for Unit {
    async fn commit(mut self: Box<Self>) -> Result<(), StoreError> {
        let inner = self.inner.take().expect("a unit is committed once");
        if self.failed {
            return Err(StoreError::Backend("a statement failed".into()));
        }
        if self.has(Flaw::ACutBeginSwallowsTheNextUnit)
            && self.shared.left_open.swap(false, Ordering::Relaxed)
        {
            return Ok(());
        }
        let committed = inner.commit().await;
        if committed.is_ok() && !self.events.is_empty() {
            linger().await;
            let mut second = self.shared.inner.begin().await?;
            second.append(&self.events).await?;
            second.commit().await?;
        }
        if self.has(Flaw::CommitReportsSuccessAfterAFailure) { Ok(()) } else { committed }
    }
}
