//! A process's way to the store that a test can cut: away for a while, or commits whose answer is lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::*;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

/// What happens to one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitFault {
    /// Nothing.
    None,
    /// It is committed, and its answer is lost.
    AnswerLost,
    /// It is not committed, and nobody can tell.
    Lost,
    /// It takes a second.
    Slow,
    /// The database asks to try again.
    Transient,
    /// The database goes away, for good.
    GoesAway,
}

/// The body of a dead letter that the store refuses for a reason of its own.
pub(crate) const UNSTORABLE: &str = "unstorable";

/// The switches of one process's way to the store.
#[derive(Clone, Default)]
pub(crate) struct StoreFaults(Arc<Mutex<Switches>>);

#[derive(Default)]
struct Switches {
    away: bool,
    commits: VecDeque<CommitFault>,
    begun: u64,
    asked: u64,
    set_back: BTreeMap<IdKind, i64>,
}

impl StoreFaults {
    /// Blocks of ids of this kind begin so much lower, as after a restored backup, until they are raised.
    pub(crate) fn set_ids_back(&self, kind: IdKind, by: i64) {
        self.switches().set_back.insert(kind, by);
    }

    /// Cuts or mends the way to the store: nothing new can begin.
    pub(crate) fn set_away(&self, away: bool) {
        self.switches().away = away;
    }

    /// What the next commits meet, in order; those after them are fine.
    pub(crate) fn next_commits(&self, faults: impl IntoIterator<Item = CommitFault>) {
        self.switches().commits.extend(faults);
    }

    /// How many units have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.switches().begun
    }

    /// How often anything was asked of the store, also while it was away.
    pub(crate) fn asked(&self) -> u64 {
        self.switches().asked
    }

    fn set_back(&self, kind: IdKind, id: i64) -> i64 {
        (id - self.switches().set_back.get(&kind).copied().unwrap_or(0)).max(1)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.switches().asked += 1;
        if self.switches().away { Err(StoreError::Unavailable("no connection".into())) } else { Ok(()) }
    }

    fn switches(&self) -> MutexGuard<'_, Switches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<MarketStore>,
    pub(crate) faults: StoreFaults,
}

#[async_trait]
impl Store for FaultyStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        self.faults.check()?;
        self.faults.switches().begun += 1;
        Ok(Box::new(FaultyUnit { inner: self.inner.begin().await?, faults: self.faults.clone() }))
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        self.faults.check()?;
        self.inner.view().await
    }
}

struct FaultyUnit {
    inner: Box<Work>,
    faults: StoreFaults,
}

impl FaultyUnit {
    fn inner(&mut self) -> &mut Work {
        self.inner.as_mut()
    }

    fn inner_outbox(&mut self) -> &mut dyn OutboxUnit {
        self.inner.outbox()
    }
}

impl View for FaultyUnit {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self
    }
}

#[async_trait]
impl UnitOfWork for FaultyUnit {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.faults.check()?;
        let fault = self.faults.switches().commits.pop_front().unwrap_or(CommitFault::None);
        match fault {
            CommitFault::None => self.inner.commit().await,
            CommitFault::AnswerLost => {
                self.inner.commit().await?;
                Err(StoreError::CommitUnknown("the connection was lost in COMMIT".into()))
            }
            CommitFault::Lost => Err(StoreError::CommitUnknown("the connection was lost in COMMIT".into())),
            CommitFault::Slow => {
                super::pass(super::secs(1)).await;
                self.inner.commit().await
            }
            CommitFault::Transient => Err(StoreError::Transient("serialization failure".into())),
            CommitFault::GoesAway => {
                self.faults.set_away(true);
                Err(StoreError::Unavailable("no connection".into()))
            }
        }
    }
}

/// Hands every method of a port to the unit inside, or to its outbox.
macro_rules! passes_on {
    ($port:ident { $($methods:tt)* }) => { passes_on!($port of inner { $($methods)* }); };
    ($port:ident of $half:ident { $(fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)* }) => {
        #[async_trait]
        impl $port for FaultyUnit {
            $(async fn $name(&mut self, $($arg: $ty),*) -> Result<$out, StoreError> {
                self.$half().$name($($arg),*).await
            })*
        }
    };
}

passes_on!(ProductQueries {
    fn product_by_id(tenant: TenantId, id: ProductId) -> Option<Product>;
    fn products_page(tenant: TenantId, status: Option<ProductStatus>, before: Option<ProductId>, limit: u32) -> Vec<Product>;
});
passes_on!(ProductRepo {
    fn insert_product(product: &Product) -> ();
    fn advance_product(after: &Product) -> Changed;
});
passes_on!(OrderQueries {
    fn order_by_id(tenant: TenantId, id: OrderId) -> Option<Order>;
    fn order_of_party(tenant: TenantId, id: OrderId, user: UserId) -> Option<Order>;
    fn orders_page(tenant: TenantId, user: UserId, side: OrderSide, status: Option<OrderStatus>, before: Option<OrderId>, limit: u32) -> Vec<Order>;
    fn orders_by_id(tenant: TenantId, ids: &[OrderId]) -> Vec<Order>;
    fn orders_changed(tenant: Option<TenantId>, since: DateTime<Utc>, until: DateTime<Utc>, after: Option<(DateTime<Utc>, OrderId)>, limit: u32) -> Vec<Order>;
    fn orders_overdue(created_by: DateTime<Utc>, limit: u32) -> Vec<(TenantId, OrderId)>;
});
passes_on!(OrderRepo {
    fn insert_order(order: &Order) -> ();
    fn advance_order(after: &Order) -> Changed;
});
passes_on!(PaymentQueries {
    fn payment_by_id(id: PaymentId) -> Option<Payment>;
    fn payment_in_processing(tenant: TenantId, order: OrderId) -> Option<Payment>;
    fn payments_of(tenant: TenantId, order: OrderId) -> Vec<Payment>;
});
passes_on!(PaymentRepo {
    fn insert_payment(payment: &Payment) -> ();
    fn advance_payment(after: &Payment) -> Changed;
});
passes_on!(OutboxQueries of inner_outbox {
    fn outbox_due(query: &DueQuery) -> Vec<OutboxRow>;
    fn outbox_next_due(partitions: PartitionSet, now: DateTime<Utc>) -> Option<DateTime<Utc>>;
    fn outbox_by_event(events: &[EventId]) -> Vec<OutboxRow>;
    fn outbox_page(filter: &OutboxFilter, before: Option<i64>, limit: u32) -> Vec<OutboxRow>;
    fn outbox_after(filter: &OutboxFilter, after: Option<i64>, limit: u32) -> Vec<OutboxRow>;
    fn outbox_about(aggregates: &[AggregateRef]) -> Vec<OutboxRow>;
    fn blocked_page(unordered: &UnorderedTypes, tenant: Option<TenantId>, before: Option<i64>, limit: u32) -> Vec<Numbered<Blocked>>;
    fn waiting_page(unordered: &UnorderedTypes, tenant: Option<TenantId>, now: DateTime<Utc>, before: Option<i64>, limit: u32) -> Vec<Numbered<Blocked>>;
    fn outbox_counts(tenant: Option<TenantId>) -> OutboxCounts;
});
passes_on!(OutboxRepo of inner_outbox {
    fn append(events: &[NewEvent]) -> ();
    fn fence(owner: &RelayId, holds: &[PartitionHold]) -> PartitionSet;
    fn mark_sent(confirmed: &[&Confirmed], now: DateTime<Utc>) -> u64;
    fn mark_failed(failed: &[FailedPublish], now: DateTime<Utc>) -> u64;
    fn redrive(rows: &[Redrive], now: DateTime<Utc>) -> Vec<RedrivenRow>;
    fn release(aggregate: &AggregateRef, unordered: &UnorderedTypes, now: DateTime<Utc>) -> u64;
});
passes_on!(HistoryQueries of inner_outbox {
    fn history_of(events: &[EventId]) -> Vec<HistoryEntry>;
});
passes_on!(HistoryRepo of inner_outbox {
    fn add_history(entries: &[HistoryEntry]) -> ();
});
passes_on!(ConsumeQueries of inner_outbox {
    fn consumption(consumer: &str, event: &EventId) -> Option<ConsumeRecord>;
    fn unapplied(consumer: &str, types: &[&str], after_id: i64, aggregates: &[AggregateRef]) -> Vec<Unapplied>;
    fn leftovers(consumer: &str, idle_since: DateTime<Utc>, now: DateTime<Utc>, limit: u32) -> Vec<EventId>;
    fn unseen(consumer: &str, types: &[&str], after_id: i64, after: DateTime<Utc>, until: DateTime<Utc>, limit: u32) -> Vec<OutboxRow>;
    fn consumer_subscription(consumer: &str) -> Option<ConsumerSubscription>;
    fn consumed_page(filter: &ConsumedFilter, before: Option<i64>, limit: u32) -> Vec<Numbered<Consumed>>;
    fn consumed_of(events: &[EventId]) -> Vec<Consumed>;
    fn consumed_about(aggregates: &[AggregateRef]) -> Vec<Consumed>;
    fn consume_counts(tenant: Option<TenantId>) -> Vec<ConsumeCount>;
});
passes_on!(ConsumeLog of inner_outbox {
    fn record(consumptions: &[Consumption]) -> ();
    fn subscribe_consumer(consumer: &str, now: DateTime<Utc>) -> ConsumerSubscription;
    fn set_checked_until(consumer: &str, until: DateTime<Utc>) -> ();
});
passes_on!(DeadLetterQueries of inner_outbox {
    fn dead_letter(queue: &str, key: &str) -> Option<DeadLetter>;
    fn dead_letters_page(filter: &DeadLetterFilter, before: Option<i64>, limit: u32) -> Vec<Numbered<DeadLetter>>;
    fn dead_letters_of(keys: &[String]) -> Vec<DeadLetter>;
    fn undecided_dead_letters(tenant: Option<TenantId>) -> u64;
});
#[async_trait]
impl DeadLetterRepo for FaultyUnit {
    /// Refuses a body that contains [`UNSTORABLE`].
    async fn park(&mut self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        if letters.iter().any(|letter| letter.body.contains(UNSTORABLE)) {
            return Err(StoreError::Backend("it cannot be stored".into()));
        }
        self.inner.outbox().park(letters).await
    }

    async fn decide(&mut self, decision: &Decision) -> Result<Changed, StoreError> {
        self.inner.outbox().decide(decision).await
    }
}
passes_on!(AuditQueries of inner_outbox {
    fn audit_page(filter: &AuditFilter, before: Option<i64>, limit: u32) -> Vec<Numbered<AuditEntry>>;
});
passes_on!(AuditRepo of inner_outbox {
    fn audit(entry: &AuditEntry) -> ();
});
passes_on!(EffectQueries {
    fn listing_changes(tenant: TenantId, order: OrderId) -> Vec<ListingChange>;
    fn effects_of(kind: EffectKind, tenant: TenantId, orders: &[OrderId]) -> Vec<EffectOfFact>;
    fn effects_without_order(kind: EffectKind, tenant: Option<TenantId>, newest: u32) -> Vec<EffectOfFact>;
    fn listing_of(tenant: TenantId, seller: UserId) -> Vec<ListingEntry>;
    fn shipment_tasks(tenant: TenantId, order: OrderId) -> Vec<ShipmentTask>;
    fn listings_page(tenant: TenantId, seller: UserId, before: Option<ProductId>, limit: u32) -> Vec<ListingEntry>;
    fn shipments_page(tenant: TenantId, user: UserId, side: OrderSide, before: Option<i64>, limit: u32) -> Vec<Numbered<ShipmentTask>>;
});
passes_on!(NotificationQueries {
    fn notifications_about(tenant: TenantId, order: OrderId) -> Vec<Notification>;
    fn notifications_page(tenant: TenantId, recipient: UserId, before: Option<i64>, limit: u32) -> Vec<Numbered<Notification>>;
});
passes_on!(NotificationRepo {
    fn notify(notifications: &[Notification]) -> ();
});
passes_on!(CreditQueries {
    fn credit_of(tenant: TenantId, buyer: UserId) -> Option<BuyerCredit>;
    fn credit_changes(tenant: TenantId, order: OrderId) -> Vec<CreditChange>;
});
passes_on!(CreditRepo {
    fn change_credit(changes: &[CreditChange]) -> ();
});
passes_on!(EffectRepo {
    fn change_listings(changes: &[ListingChange]) -> ();
    fn open_shipments(tasks: &[NewShipmentTask]) -> ();
});
passes_on!(LeaseQueries of inner_outbox {
    fn database_now() -> DateTime<Utc>;
    fn heartbeats() -> Vec<Heartbeat>;
    fn partition_leases() -> Vec<PartitionLease>;
});
passes_on!(LeaseRepo of inner_outbox {
    fn heartbeat(relay: &RelayId, for_ms: u32) -> ();
    fn forget_relay(relay: &RelayId) -> ();
    fn take_partition(relay: &RelayId, seen: &PartitionLease, for_ms: u32) -> Changed;
    fn renew_partitions(relay: &RelayId, holds: &[PartitionHold], for_ms: u32) -> Vec<PartitionHold>;
    fn give_back(relay: &RelayId, holds: &[PartitionHold]) -> ();
    fn end_all_leases() -> ();
});
#[async_trait]
impl IdQueries for FaultyUnit {
    async fn id_state(&mut self, kind: IdKind) -> Result<IdState, StoreError> {
        let state = self.inner.id_state(kind).await?;
        Ok(IdState { next: self.faults.set_back(kind, state.next), ..state })
    }

    async fn id_is_taken(&mut self, kind: IdKind, id: i64) -> Result<bool, StoreError> {
        self.inner.id_is_taken(kind, id).await
    }
}

#[async_trait]
impl IdBlocks for FaultyUnit {
    async fn raise_id_block(&mut self, kind: IdKind, next: i64) -> Result<(), StoreError> {
        self.faults.switches().set_back.remove(&kind);
        self.inner.raise_id_block(kind, next).await
    }

    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError> {
        let first = self.inner.take_id_block(kind, size).await?;
        Ok(self.faults.set_back(kind, first))
    }
}
passes_on!(AssetQueries {
    fn coupon_by_id(tenant: TenantId, id: CouponId) -> Option<Coupon>;
    fn coupons_page(tenant: TenantId, user: UserId, before: Option<CouponId>, limit: u32) -> Vec<Coupon>;
    fn coupons_expired(now: DateTime<Utc>, limit: u32) -> Vec<Coupon>;
    fn balance_of(tenant: TenantId, user: UserId, purse: Purse) -> Option<Balance>;
    fn holds_of(tenant: TenantId, order: OrderId) -> Vec<Hold>;
    fn holds_of_user(tenant: TenantId, user: UserId, asset: Asset) -> Vec<Hold>;
    fn holds_frozen(created_by: DateTime<Utc>, after: Option<(DateTime<Utc>, OrderId, Asset)>, limit: u32) -> Vec<Hold>;
    fn operations_by_key(tenant: TenantId, keys: &[OperationKey]) -> Vec<AssetOperation>;
    fn entries_by_key(tenant: TenantId, keys: &[OperationKey]) -> Vec<(OperationKey, Entry)>;
    fn operations_of(tenant: TenantId, order: OrderId) -> Vec<AssetOperation>;
    fn entries_page(tenant: TenantId, user: UserId, purse: Purse, before: Option<i64>, limit: u32) -> Vec<Numbered<LedgerEntry>>;
    fn account_totals(tenant: Option<TenantId>) -> Vec<AccountTotal>;
    fn ledger_flaws(tenant: Option<TenantId>, limit: u32) -> Vec<LedgerFlaw>;
});
passes_on!(AssetRepo {
    fn insert_coupon(coupon: &Coupon) -> ();
    fn advance_coupon(after: &Coupon) -> Changed;
    fn lock_holds(asset: Asset, orders: &[(TenantId, OrderId)]) -> Vec<Hold>;
    fn put_holds(holds: &[Hold]) -> ();
    fn lock_balances(purse: Purse, users: &[(TenantId, UserId)], now: DateTime<Utc>) -> Vec<Balance>;
    fn put_balances(balances: &[Balance]) -> ();
    fn post(postings: &[Posting]) -> ();
});
passes_on!(RefundQueries {
    fn refund_by_id(id: RefundId) -> Option<Refund>;
    fn refunds_of(tenant: TenantId, order: OrderId) -> Vec<Refund>;
    fn refunds_due(now: DateTime<Utc>, limit: u32) -> Vec<Refund>;
});
passes_on!(RefundRepo {
    fn insert_refund(refund: &Refund) -> ();
    fn advance_refund(after: &Refund) -> Changed;
});
passes_on!(RequestQueries {
    fn request_of(scope: &RequestScope) -> Option<KeptRequest>;
});
passes_on!(RequestRepo {
    fn insert_request(request: &KeptRequest) -> ();
    fn advance_request(token: &str, after: &KeptRequest) -> Changed;
    fn drop_request(scope: &RequestScope, token: &str) -> Changed;
    fn sweep_requests(now: DateTime<Utc>, limit: u32) -> u64;
});
