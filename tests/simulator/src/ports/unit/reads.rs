//! What is read.

use chrono::{DateTime, Utc};
use handover_events::*;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::passes_on;
use crate::faults::CrashPoint;

passes_on! { impl ProductQueries for MarketView {
    fn product_by_id(tenant: TenantId, id: ProductId) -> Option<Product>;
    fn products_page(tenant: TenantId, status: Option<ProductStatus>, before: Option<ProductId>, limit: u32) -> Vec<Product>;
} }
passes_on! { impl OrderQueries for MarketView {
    fn order_by_id(tenant: TenantId, id: OrderId) -> Option<Order>;
    fn order_of_party(tenant: TenantId, id: OrderId, user: UserId) -> Option<Order>;
    fn orders_page(tenant: TenantId, user: UserId, side: OrderSide, status: Option<OrderStatus>, before: Option<OrderId>, limit: u32) -> Vec<Order>;
    fn orders_by_id(tenant: TenantId, ids: &[OrderId]) -> Vec<Order>;
    fn orders_changed(tenant: Option<TenantId>, since: DateTime<Utc>, until: DateTime<Utc>, after: Option<(DateTime<Utc>, OrderId)>, limit: u32) -> Vec<Order>;
    fn orders_overdue(created_by: DateTime<Utc>, limit: u32) -> Vec<(TenantId, OrderId)>,
        then |view, overdue| {
            if !overdue.is_empty() {
                view.process.may_die(CrashPoint::InSweep).await;
            }
        };
} }
passes_on! { impl PaymentQueries for MarketView {
    fn payment_by_id(id: PaymentId) -> Option<Payment>;
    fn payment_in_processing(tenant: TenantId, order: OrderId) -> Option<Payment>;
    fn payments_of(tenant: TenantId, order: OrderId) -> Vec<Payment>;
} }
passes_on! { impl RefundQueries for MarketView {
    fn refund_by_id(id: RefundId) -> Option<Refund>;
    fn refunds_of(tenant: TenantId, order: OrderId) -> Vec<Refund>;
    fn refunds_due(now: DateTime<Utc>, limit: u32) -> Vec<Refund>;
} }
passes_on! { impl AssetQueries for MarketView {
    fn coupon_by_id(tenant: TenantId, id: CouponId) -> Option<Coupon>;
    fn coupons_page(tenant: TenantId, user: UserId, before: Option<CouponId>, limit: u32) -> Vec<Coupon>;
    fn coupons_expired(now: DateTime<Utc>, limit: u32) -> Vec<Coupon>;
    fn balance_of(tenant: TenantId, user: UserId, purse: Purse) -> Option<Balance>;
    fn holds_of(tenant: TenantId, order: OrderId) -> Vec<Hold>;
    fn holds_of_user(tenant: TenantId, user: UserId, asset: Asset) -> Vec<Hold>;
    fn holds_frozen(created_by: DateTime<Utc>, after: Option<(DateTime<Utc>, OrderId, Asset)>, limit: u32) -> Vec<Hold>,
        then |view, holds| {
            if !holds.is_empty() {
                view.process.may_die(CrashPoint::InReaper).await;
            }
        };
    fn operations_by_key(tenant: TenantId, keys: &[OperationKey]) -> Vec<AssetOperation>;
    fn entries_by_key(tenant: TenantId, keys: &[OperationKey]) -> Vec<(OperationKey, Entry)>;
    fn operations_of(tenant: TenantId, order: OrderId) -> Vec<AssetOperation>;
    fn entries_page(tenant: TenantId, user: UserId, purse: Purse, before: Option<i64>, limit: u32) -> Vec<Numbered<LedgerEntry>>;
    fn account_totals(tenant: Option<TenantId>) -> Vec<AccountTotal>;
    fn ledger_flaws(tenant: Option<TenantId>, limit: u32) -> Vec<LedgerFlaw>;
} }
passes_on! { impl OutboxQueries of inner_outbox_view for MarketView {
    fn outbox_due(query: &DueQuery) -> Vec<OutboxRow>;
    fn outbox_next_due(partitions: PartitionSet, now: DateTime<Utc>) -> Option<DateTime<Utc>>;
    fn outbox_by_event(events: &[EventId]) -> Vec<OutboxRow>;
    fn outbox_page(filter: &OutboxFilter, before: Option<i64>, limit: u32) -> Vec<OutboxRow>;
    fn outbox_after(filter: &OutboxFilter, after: Option<i64>, limit: u32) -> Vec<OutboxRow>;
    fn outbox_about(aggregates: &[AggregateRef]) -> Vec<OutboxRow>;
    fn blocked_page(unordered: &UnorderedTypes, tenant: Option<TenantId>, before: Option<i64>, limit: u32) -> Vec<Numbered<Blocked>>;
    fn waiting_page(unordered: &UnorderedTypes, tenant: Option<TenantId>, now: DateTime<Utc>, before: Option<i64>, limit: u32) -> Vec<Numbered<Blocked>>;
    fn outbox_counts(tenant: Option<TenantId>) -> OutboxCounts;
} }
passes_on! { impl HistoryQueries of inner_outbox_view for MarketView {
    fn history_of(events: &[EventId]) -> Vec<HistoryEntry>;
} }
passes_on! { impl ConsumeQueries of inner_outbox_view for MarketView {
    fn consumption(consumer: &str, event: &EventId) -> Option<ConsumeRecord>;
    fn unapplied(consumer: &str, types: &[&str], after_id: i64, aggregates: &[AggregateRef]) -> Vec<Unapplied>;
    fn leftovers(consumer: &str, idle_since: DateTime<Utc>, now: DateTime<Utc>, limit: u32) -> Vec<EventId>,
        then |view, left| {
            if !left.is_empty() {
                view.process.may_die(CrashPoint::InSweep).await;
            }
        };
    fn unseen(consumer: &str, types: &[&str], after_id: i64, after: DateTime<Utc>, until: DateTime<Utc>, limit: u32) -> Vec<OutboxRow>,
        then |view, lost| {
            if !lost.is_empty() {
                view.cover("a lost event found by the sweep");
                view.process.may_die(CrashPoint::InSweep).await;
            }
        };
    fn consumer_subscription(consumer: &str) -> Option<ConsumerSubscription>;
    fn consumed_page(filter: &ConsumedFilter, before: Option<i64>, limit: u32) -> Vec<Numbered<Consumed>>;
    fn consumed_of(events: &[EventId]) -> Vec<Consumed>;
    fn consumed_about(aggregates: &[AggregateRef]) -> Vec<Consumed>;
    fn consume_counts(tenant: Option<TenantId>) -> Vec<ConsumeCount>;
} }
passes_on! { impl DeadLetterQueries of inner_outbox_view for MarketView {
    fn dead_letter(queue: &str, key: &str) -> Option<DeadLetter>;
    fn dead_letters_page(filter: &DeadLetterFilter, before: Option<i64>, limit: u32) -> Vec<Numbered<DeadLetter>>;
    fn dead_letters_of(keys: &[String]) -> Vec<DeadLetter>;
    fn undecided_dead_letters(tenant: Option<TenantId>) -> u64;
} }
passes_on! { impl AuditQueries of inner_outbox_view for MarketView {
    fn audit_page(filter: &AuditFilter, before: Option<i64>, limit: u32) -> Vec<Numbered<AuditEntry>>;
} }
passes_on! { impl EffectQueries for MarketView {
    fn listing_changes(tenant: TenantId, order: OrderId) -> Vec<ListingChange>;
    fn effects_of(kind: EffectKind, tenant: TenantId, orders: &[OrderId]) -> Vec<EffectOfFact>;
    fn effects_without_order(kind: EffectKind, tenant: Option<TenantId>, newest: u32) -> Vec<EffectOfFact>;
    fn listing_of(tenant: TenantId, seller: UserId) -> Vec<ListingEntry>;
    fn shipment_tasks(tenant: TenantId, order: OrderId) -> Vec<ShipmentTask>;
    fn listings_page(tenant: TenantId, seller: UserId, before: Option<ProductId>, limit: u32) -> Vec<ListingEntry>;
    fn shipments_page(tenant: TenantId, user: UserId, side: OrderSide, before: Option<i64>, limit: u32) -> Vec<Numbered<ShipmentTask>>;
} }
passes_on! { impl NotificationQueries for MarketView {
    fn notifications_about(tenant: TenantId, order: OrderId) -> Vec<Notification>;
    fn notifications_page(tenant: TenantId, recipient: UserId, before: Option<i64>, limit: u32) -> Vec<Numbered<Notification>>;
} }
passes_on! { impl CreditQueries for MarketView {
    fn credit_of(tenant: TenantId, buyer: UserId) -> Option<BuyerCredit>;
    fn credit_changes(tenant: TenantId, order: OrderId) -> Vec<CreditChange>;
} }
passes_on! { impl LeaseQueries of inner_outbox_view for MarketView {
    fn database_now() -> DateTime<Utc>;
    fn heartbeats() -> Vec<Heartbeat>;
    fn partition_leases() -> Vec<PartitionLease>;
} }
passes_on! { impl IdQueries for MarketView {
    fn id_state(kind: IdKind) -> IdState;
    fn id_is_taken(kind: IdKind, id: i64) -> bool;
} }
passes_on! { impl RequestQueries for MarketView {
    fn request_of(scope: &RequestScope) -> Option<KeptRequest>;
} }
