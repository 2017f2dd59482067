//! A unit of work or a view that may fail at any statement, and remembers what it wrote.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::OnOutage;
use handover_application::ports::*;
use handover_domain::*;

use super::Process;
use super::store::Flavour;
use super::wrote::Wrote;
use crate::faults::{CrashPoint, Fault, Viewing};
use crate::machines::NOTHING;

/// A unit or a view, whichever `I` is.
pub(super) struct Faulty<I: ?Sized> {
    inner: Box<I>,
    process: Process,
    flavour: Flavour,
    failed: bool,
    wrote: Wrote,
    /// A view is open for as long as this lives.
    _viewing: Option<Viewing>,
}

impl<I: ?Sized> Faulty<I> {
    pub(super) fn new(
        inner: Box<I>,
        process: Process,
        flavour: Flavour,
        viewing: Option<Viewing>,
    ) -> Faulty<I> {
        Faulty { inner, process, flavour, failed: false, wrote: Wrote::default(), _viewing: viewing }
    }

    fn step(&mut self, step: (&'static str, &'static str, &'static str), what: impl FnOnce() -> String) {
        self.wrote.step(&self.process, step, what);
    }

    fn statement(&mut self) -> Result<(), StoreError> {
        if self.failed && self.flavour == Flavour::Postgres {
            return Err(StoreError::Backend("the transaction is aborted".into()));
        }
        let faults = &self.process.faults;
        let error = if faults.strikes(Fault::Deadlock) {
            StoreError::Transient("deadlock found when trying to get lock".into())
        } else if faults.strikes(Fault::LockTimeout) {
            StoreError::Transient("lock wait timeout exceeded".into())
        } else if faults.strikes(Fault::Refused) {
            StoreError::Backend("the disk is full".into())
        } else {
            return Ok(());
        };
        self.failed = true;
        Err(error)
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
passes_on! { impl PaymentQueries for View {
    fn payment_by_id(id: PaymentId) -> Option<Payment>;
    fn payment_in_processing(tenant: TenantId, order: OrderId) -> Option<Payment>;
    fn payments_of(tenant: TenantId, order: OrderId) -> Vec<Payment>;
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
passes_on! { impl AuditQueries for View {
    fn audit_page(tenant: Option<TenantId>, before: Option<i64>, limit: u32) -> Vec<Numbered<AuditEntry>>;
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
passes_on! { impl LeaseQueries for View {
    fn database_now() -> DateTime<Utc>;
    fn live_relays() -> Vec<RelayId>;
    fn partition_leases() -> Vec<PartitionLease>;
} }
passes_on! { impl IdBlocks for UnitOfWork {
    fn take_id_block(kind: IdKind, size: u32) -> i64;
} }

#[async_trait]
impl<I: View + ?Sized> OrderQueries for Faulty<I> {
    async fn order_by_id(&mut self, tenant: TenantId, id: OrderId) -> Result<Option<Order>, StoreError> {
        self.statement()?;
        self.inner.order_by_id(tenant, id).await
    }

    async fn order_of_party(
        &mut self,
        tenant: TenantId,
        id: OrderId,
        user: UserId,
    ) -> Result<Option<Order>, StoreError> {
        self.statement()?;
        self.inner.order_of_party(tenant, id, user).await
    }

    async fn orders_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        status: Option<OrderStatus>,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Order>, StoreError> {
        self.statement()?;
        self.inner.orders_page(tenant, user, side, status, before, limit).await
    }

    async fn orders_overdue(
        &mut self,
        created_by: DateTime<Utc>,
        limit: u32,
    ) -> Result<Vec<(TenantId, OrderId)>, StoreError> {
        self.statement()?;
        let overdue = self.inner.orders_overdue(created_by, limit).await?;
        if !overdue.is_empty() {
            self.process.may_die(CrashPoint::InSweep).await;
        }
        Ok(overdue)
    }
}

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
        let left = self.inner.leftovers(consumer, idle_since, now, limit).await?;
        if !left.is_empty() {
            self.process.may_die(CrashPoint::InSweep).await;
        }
        Ok(left)
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
        let lost = self.inner.unseen(consumer, types, since, after, until, limit).await?;
        if !lost.is_empty() {
            self.process.faults.cover(|coverage| coverage.place("a lost event found by the sweep"));
            self.process.may_die(CrashPoint::InSweep).await;
        }
        Ok(lost)
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
impl<I: UnitOfWork + ?Sized> AuditRepo for Faulty<I> {
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.statement()?;
        self.wrote.audited = true;
        self.inner.audit(entry).await
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> ProductRepo for Faulty<I> {
    async fn insert_product(&mut self, product: &Product) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.insert_product(product).await?;
        self.step(("a product", NOTHING, product.status.as_str()), || format!("product {}", product.id));
        Ok(())
    }

    async fn advance_product(&mut self, after: &Product) -> Result<Changed, StoreError> {
        self.statement()?;
        let before = self.inner.product_by_id(after.tenant, after.id).await?;
        let changed = self.inner.advance_product(after).await?;
        if let (Changed::One, Some(before)) = (changed, before) {
            let step = ("a product", before.status.as_str(), after.status.as_str());
            self.step(step, || format!("product {}", after.id));
        }
        Ok(changed)
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> OrderRepo for Faulty<I> {
    async fn insert_order(&mut self, order: &Order) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.insert_order(order).await?;
        let what = || format!("order {} of product {}", order.id, order.product);
        self.step(("an order", NOTHING, order.status.as_str()), what);
        Ok(())
    }

    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError> {
        self.statement()?;
        let before = self.inner.order_by_id(after.tenant, after.id).await?;
        let changed = self.inner.advance_order(after).await?;
        if let (Changed::One, Some(before)) = (changed, before) {
            let step = ("an order", before.status.as_str(), after.status.as_str());
            self.step(step, || format!("order {}", after.id));
        }
        Ok(changed)
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> PaymentRepo for Faulty<I> {
    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.insert_payment(payment).await?;
        let what = || format!("payment {} of order {}", payment.id, payment.order);
        self.step(("a payment", NOTHING, payment.status.as_str()), what);
        Ok(())
    }

    async fn advance_payment(&mut self, after: &Payment) -> Result<Changed, StoreError> {
        self.statement()?;
        let before = self.inner.payment_by_id(after.id).await?;
        let changed = self.inner.advance_payment(after).await?;
        if let (Changed::One, Some(before)) = (changed, before) {
            let step = ("a payment", before.status.as_str(), after.status.as_str());
            self.step(step, || format!("payment {} of order {}", after.id, after.order));
        }
        Ok(changed)
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> DeadLetterRepo for Faulty<I> {
    async fn park(&mut self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        self.statement()?;
        for letter in letters {
            let before = self.inner.dead_letter(&letter.queue, &letter.key).await?;
            let from = before.map_or(NOTHING, |before| before.status.as_str());
            if from != DeadLetterStatus::Open.as_str() {
                let what = || format!("dead letter {} at {}", letter.key, letter.queue);
                self.step(("a dead letter", from, DeadLetterStatus::Open.as_str()), what);
            }
        }
        self.inner.park(letters).await
    }

    async fn decide(&mut self, decision: &Decision) -> Result<Changed, StoreError> {
        self.statement()?;
        let before = self.inner.dead_letter(&decision.queue, &decision.key).await?;
        let changed = self.inner.decide(decision).await?;
        if let (Changed::One, Some(before)) = (changed, before) {
            self.wrote.replays |= decision.to == DeadLetterStatus::Replaying;
            self.wrote.by_operator |= decision.to == DeadLetterStatus::Discarded;
            if decision.to == DeadLetterStatus::Replayed {
                self.check_replayed(decision).await?;
            }
            let what = || format!("dead letter {} at {}", decision.key, decision.queue);
            self.step(("a dead letter", before.status.as_str(), decision.to.as_str()), what);
        }
        Ok(changed)
    }
}

impl<I: UnitOfWork + ?Sized> Faulty<I> {
    /// A letter is replayed only when its event is back at its consumer, or has had its effect.
    async fn check_replayed(&mut self, decision: &Decision) -> Result<(), StoreError> {
        let Ok(event) = decision.key.parse::<EventId>() else { return Ok(()) };
        let back = (decision.queue.clone(), event.clone());
        if self.process.faults.seen(|seen| seen.sent_back.contains(&back)) {
            return Ok(());
        }
        let consumed = ConsumeQueries::consumed_of(self.inner.as_mut(), std::slice::from_ref(&event)).await?;
        let Some(consumer) = self.process.consumers.get(decision.queue.as_str()) else { return Ok(()) };
        let applied = |it: &&Consumed| it.consumer == *consumer && it.record.status == ConsumeStatus::Success;
        if !consumed.iter().any(|it| applied(&it)) {
            self.wrote
                .broken
                .push(format!("the letter {event} at {consumer} is closed, and it is not back there"));
        }
        Ok(())
    }
}

impl<I: ?Sized> Faulty<I> {
    /// What handlers run into when they write: a bug, bad data, a slow plan.
    async fn effects<'a>(
        &mut self,
        consumer: &'static str,
        effects: impl Iterator<Item = (OrderId, &'a EventId)> + Send,
    ) -> Result<(), StoreError> {
        self.statement()?;
        let faults = self.process.faults.clone();
        let effects: Vec<(OrderId, &EventId)> = effects.collect();
        let poisoned = consumer == "inventory" && effects.iter().any(|(order, _)| order.get() % 4 == 0);
        if (poisoned && faults.is_poisoned()) || faults.strikes(Fault::Fails) {
            self.failed = true;
            return Err(StoreError::Backend("value out of range".into()));
        }
        if faults.strikes(Fault::TooSlow) {
            faults.sleep(faults.dice.millis(4_000..7_000)).await;
        }
        self.wrote.effects.extend(effects.into_iter().map(|(_, event)| (consumer, event.clone())));
        Ok(())
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> EffectRepo for Faulty<I> {
    async fn change_listings(&mut self, changes: &[ListingChange]) -> Result<(), StoreError> {
        self.effects("inventory", changes.iter().map(|it| (it.order, &it.event_id))).await?;
        self.inner.change_listings(changes).await
    }

    async fn open_shipments(&mut self, tasks: &[NewShipmentTask]) -> Result<(), StoreError> {
        self.effects("fulfillment", tasks.iter().map(|it| (it.order, &it.event_id))).await?;
        self.inner.open_shipments(tasks).await
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> NotificationRepo for Faulty<I> {
    async fn notify(&mut self, notifications: &[Notification]) -> Result<(), StoreError> {
        self.effects("status-sync", notifications.iter().map(|it| (it.order, &it.event_id))).await?;
        self.inner.notify(notifications).await
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> CreditRepo for Faulty<I> {
    async fn change_credit(&mut self, changes: &[CreditChange]) -> Result<(), StoreError> {
        self.effects("buyer-credit", changes.iter().map(|it| (it.order, &it.event_id))).await?;
        self.inner.change_credit(changes).await
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> ConsumeLog for Faulty<I> {
    async fn record(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.record(consumptions).await?;
        for it in consumptions {
            let (from, before) = match it.expected {
                Expected::Absent => (NOTHING, 0),
                Expected::At(status, attempts) => (status.as_str(), attempts),
            };
            let what = || format!("{} {} at {}", it.event_type, it.event_id, it.consumer);
            let failed = (it.status == ConsumeStatus::Failed).then_some(from);
            let counted = match failed {
                Some("PROCESSING") => before,
                Some("DEAD") => 0,
                Some(_) => before + 1,
                None => it.attempts,
            };
            let rest =
                Duration::from_millis(200 << it.attempts.clamp(1, 5).saturating_sub(1)).min(CONSUMER_REST);
            let due = it.next_retry_time.map(|due| (due - it.consume_time).to_std().unwrap_or_default());
            if failed.is_some_and(|from| from != "DEAD") && due.is_none_or(|due| due < rest) {
                self.wrote.broken.push(format!(
                    "{} failed {} times and rests for {due:?}",
                    what(),
                    it.attempts
                ));
            }
            if it.attempts != counted {
                self.wrote.broken.push(format!(
                    "{}: {before} attempts, one more failed, {} counted",
                    what(),
                    it.attempts
                ));
            }
            if it.status == ConsumeStatus::Waiting {
                self.process
                    .faults
                    .cover(|coverage| coverage.place("an event that waits for an earlier one"));
            }
            self.wrote.counts |= it.status == ConsumeStatus::Processing;
            self.wrote.fails |= failed.is_some() || it.status == ConsumeStatus::Dead;
            if it.status == ConsumeStatus::Dead {
                self.wrote.given_up.push(it.event_id.clone());
            }
            if it.status == ConsumeStatus::Success {
                self.wrote.applied.insert((it.consumer.clone(), it.event_id.clone()));
            }
            self.step(("a consumption", from, it.status.as_str()), what);
        }
        Ok(())
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
impl<I: UnitOfWork + ?Sized> LeaseRepo for Faulty<I> {
    async fn heartbeat(&mut self, relay: &RelayId, for_ms: u32) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.heartbeat(relay, for_ms).await
    }

    async fn forget_relay(&mut self, relay: &RelayId) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.forget_relay(relay).await
    }

    async fn take_partition(
        &mut self,
        relay: &RelayId,
        partition: Partition,
        seen_epoch: i64,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        self.statement()?;
        let changed = self.inner.take_partition(relay, partition, seen_epoch, for_ms).await?;
        self.wrote.takes |= changed == Changed::One;
        Ok(changed)
    }

    async fn renew_partitions(
        &mut self,
        relay: &RelayId,
        holds: &[PartitionHold],
        for_ms: u32,
    ) -> Result<Vec<PartitionHold>, StoreError> {
        self.statement()?;
        self.inner.renew_partitions(relay, holds, for_ms).await
    }

    async fn give_back(&mut self, relay: &RelayId, holds: &[PartitionHold]) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.give_back(relay, holds).await
    }

    async fn end_all_leases(&mut self) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.end_all_leases().await
    }
}

/// The longest that a consumer waits before it tries an event again.
const CONSUMER_REST: Duration = Duration::from_secs(3);
/// How long the relay waits after the first, second and third refusal of an event.
pub(crate) const RELAY_RESTS: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// A row of the outbox in the words of the story.
fn named(row: &OutboxRow) -> String {
    format!(
        "{} {} of {} {}",
        row.event_type,
        row.event_id,
        row.aggregate.kind.to_lowercase(),
        row.aggregate.id
    )
}

impl<I: UnitOfWork + ?Sized> Faulty<I> {
    async fn rows(&mut self, events: &[EventId]) -> Result<Vec<OutboxRow>, StoreError> {
        OutboxQueries::outbox_by_event(self.inner.as_mut(), events).await
    }

    /// Whoever is sent has passed nothing that was on its way, nor what holds it.
    async fn check_order(&mut self, sent: &[OutboxRow]) -> Result<(), StoreError> {
        let aggregates: Vec<AggregateRef> = sent.iter().map(|row| row.aggregate.clone()).collect();
        let all = OutboxQueries::outbox_about(self.inner.as_mut(), &aggregates).await?;
        let faults = self.process.faults.clone();
        for row in sent.iter().filter(|row| row.is_ordered()) {
            let earlier = all.iter().filter(|it| {
                it.aggregate == row.aggregate && it.is_ordered() && it.aggregate_seq < row.aggregate_seq
            });
            for it in earlier {
                let (confirmed, given_up, released) = faults.seen(|seen| {
                    let id = &it.event_id;
                    (
                        seen.confirmed.contains(id),
                        seen.given_up.contains(id),
                        seen.released.contains(&it.aggregate),
                    )
                });
                let passed = it.status.is_pending() && !given_up;
                let holds = self.process.on_failed == OnFailed::Hold && it.status == OutboxStatus::Failed;
                if !confirmed && (passed || (holds && !released)) {
                    self.wrote.broken.push(format!(
                        "{} was sent before {}, which is {}",
                        named(row),
                        named(it),
                        it.status
                    ));
                }
            }
        }
        Ok(())
    }

    /// The steps of rows that still stood where they may be moved from.
    fn moved(&mut self, rows: &[OutboxRow], pending: bool, to: &BTreeMap<&EventId, OutboxStatus>) {
        for row in rows.iter().filter(|row| row.status.is_pending() == pending) {
            let Some(to) = to.get(&row.event_id) else { continue };
            self.step(("an outbox row", row.status.as_str(), to.as_str()), || named(row));
            if *to == OutboxStatus::Failed {
                self.wrote.given_up.push(row.event_id.clone());
            }
            if pending {
                self.wrote.settled.insert(row.partition());
            }
        }
        self.wrote.marks |= pending;
    }
}

#[async_trait]
impl<I: UnitOfWork + ?Sized> OutboxRepo for Faulty<I> {
    async fn append(&mut self, events: &[NewEvent]) -> Result<(), StoreError> {
        self.statement()?;
        self.inner.append(events).await?;
        for event in events {
            let what = || {
                let aggregate = event.aggregate.kind.to_lowercase();
                format!("{} {} of {aggregate} {}", event.event_type, event.event_id, event.aggregate.id)
            };
            self.step(("an outbox row", NOTHING, OutboxStatus::New.as_str()), what);
        }
        self.wrote.announces |= !events.is_empty();
        Ok(())
    }

    async fn fence(&mut self, owner: &RelayId, holds: &[PartitionHold]) -> Result<PartitionSet, StoreError> {
        self.process.may_die(CrashPoint::AfterConfirmBeforeMark).await;
        self.statement()?;
        let ours = self.inner.fence(owner, holds).await?;
        self.wrote.settler = Some((owner.clone(), holds.to_vec()));
        if holds.iter().any(|hold| !ours.contains(hold.partition)) {
            self.process
                .faults
                .cover(|coverage| coverage.place("a partition lost in the middle of a window"));
        }
        Ok(ours)
    }

    async fn mark_sent(&mut self, confirmed: &[&Confirmed], now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.statement()?;
        let ids: Vec<EventId> = confirmed.iter().map(|it| it.event_id().clone()).collect();
        let rows = self.rows(&ids).await?;
        for row in
            rows.iter().filter(|row| !self.process.faults.seen(|seen| seen.confirmed.contains(&row.event_id)))
        {
            self.wrote.broken.push(format!("{} became SENT, and no broker ever confirmed it", named(row)));
        }
        self.check_order(&rows).await?;
        self.moved(&rows, true, &ids.iter().map(|id| (id, OutboxStatus::Sent)).collect());
        self.inner.mark_sent(confirmed, now).await
    }

    async fn mark_failed(&mut self, failed: &[FailedPublish], now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.statement()?;
        let ids: Vec<EventId> = failed.iter().map(|it| it.event_id.clone()).collect();
        let rows = self.rows(&ids).await?;
        let to: BTreeMap<&EventId, &FailedPublish> = failed.iter().map(|it| (&it.event_id, it)).collect();
        for row in rows.iter().filter(|row| row.status.is_pending()) {
            let Some(after) = to.get(&row.event_id) else { continue };
            if (row.retry_count, row.next_retry_time) == (after.retry_count, after.next_retry_time) {
                // The same settlement again, after a commit of unknown outcome; or it waits as before.
                continue;
            }
            let charged = after.status == OutboxStatus::Failed || after.next_retry_time.is_some();
            if after.retry_count != row.retry_count + u32::from(charged) {
                let broken =
                    format!("{} failed {} times, then {}", named(row), row.retry_count, after.retry_count);
                self.wrote.broken.push(broken);
            }
            let refused = self.process.faults.seen(|seen| seen.was_refused(&row.event_id));
            if charged && !refused && self.process.on_outage == OnOutage::Wait {
                self.wrote
                    .broken
                    .push(format!("{} is charged with what the broker never refused", named(row)));
            }
            if let Some(rest) = RELAY_RESTS.get(row.retry_count as usize).filter(|_| charged) {
                self.wrote.charged.push((row.event_id.clone(), *rest));
            }
            let spent = after.retry_count > row.max_retry_count;
            if spent != (after.status == OutboxStatus::Failed) {
                let broken =
                    format!("{} is {} after {} failures", named(row), after.status, after.retry_count);
                self.wrote.broken.push(broken);
            }
        }
        self.moved(&rows, true, &failed.iter().map(|it| (&it.event_id, it.status)).collect());
        self.inner.mark_failed(failed, now).await
    }

    async fn redrive(&mut self, redriven: &[Redrive], now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.statement()?;
        let ids: Vec<EventId> = redriven.iter().map(|it| it.event_id.clone()).collect();
        let rows = self.rows(&ids).await?;
        let changed = self.inner.redrive(redriven, now).await?;
        let movable = rows.iter().filter(|row| !row.status.is_pending()).count();
        // Another operator may have been faster with some of them: which, is not told.
        if changed == movable as u64 {
            self.moved(&rows, false, &ids.iter().map(|id| (id, OutboxStatus::Retry)).collect());
        }
        (self.wrote.announces, self.wrote.by_operator) = (changed > 0, changed > 0);
        self.wrote.redriven.extend(ids);
        Ok(changed)
    }

    async fn release(&mut self, aggregate: &AggregateRef, now: DateTime<Utc>) -> Result<u64, StoreError> {
        self.statement()?;
        let released = self.inner.release(aggregate, now).await?;
        if released > 0 {
            self.wrote.by_operator = true;
            self.wrote.released.push(aggregate.clone());
        }
        Ok(released)
    }
}

#[async_trait]
impl UnitOfWork for Faulty<dyn UnitOfWork> {
    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        let Faulty { mut inner, process, failed, mut wrote, .. } = *self;
        process.faults.delay().await;
        if failed {
            return Err(StoreError::Transient("an earlier statement failed".into()));
        }
        if process.faults.strikes(Fault::CommitLost) {
            return Err(StoreError::Transient("serialization failure".into()));
        }
        let unknown = || StoreError::CommitUnknown("the connection was lost in COMMIT".into());
        if process.faults.strikes(Fault::CommitUnknownLost) {
            return Err(unknown());
        }
        wrote.check_owner(inner.as_mut()).await?;
        inner.commit().await?;
        wrote.happened(&process);
        for point in wrote.crash_points() {
            process.may_die(point).await;
        }
        if process.faults.strikes(Fault::CommitUnknownApplied) {
            return Err(unknown());
        }
        process.faults.delay().await;
        Ok(())
    }
}
