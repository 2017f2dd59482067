//! Plays steps on a store and writes down the answers, without what is each store's own: row ids, texts of errors,
//! and the last seconds of leases, which count from a clock that runs.

use std::fmt::Debug;

use chrono::{DateTime, TimeDelta, Utc};
use handover_application::ports::{
    ConsumeRecord, Consumption, CreditChange, DeadLetter, FailedPublish, ListingChange, NewEvent,
    NewShipmentTask, Notification, Numbered, OrderSide, OutboxFilter, OutboxRow, PartitionHold,
    PartitionLease, RelayId, StoreError, Unapplied, UnitOfWork, View,
};
use handover_domain::{AggregateRef, Order, OutboxStatus, Partition, PartitionSet, Payment, Product};
use handover_tests::contract::store::StoreRig;
use handover_tests::samples::{
    self, confirmed, event_id, later, order_id, order_moved_to, payment_id, product_id, relay, start, tenant,
    user,
};

use crate::steps::{Event, Op, Query, Row, Small, Step, everything};

/// How long leases and heartbeats last: never a sum of the clock's steps.
pub(crate) const LEASE: TimeDelta = TimeDelta::seconds(50);
const LEASE_MS: u32 = 50_000;
const CLOCK_STEP_S: i64 = 20;

/// Plays the steps, and looks at everything in the end.
pub(crate) async fn play(rig: &dyn StoreRig, steps: &[Step]) -> Vec<String> {
    let mut answers = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Clock(steps) => rig.move_database_clock(TimeDelta::seconds(steps * CLOCK_STEP_S)),
            Step::View(queries) => look(rig, number, queries, &mut answers).await,
            Step::Unit { ops, commit } => {
                let mut unit = rig.store().begin().await.expect("a unit begins");
                let mut failed = false;
                for op in ops {
                    let answer = apply(unit.as_mut(), op).await;
                    failed = answer.contains("Err(");
                    answers.push(format!("{number}: {op:?}: {answer}"));
                    if failed {
                        break;
                    }
                }
                if *commit {
                    // How a unit that failed refuses is its own affair.
                    let committed =
                        unit.commit().await.map_err(|error| if failed { "refused" } else { kind(&error) });
                    answers.push(format!("{number}: commit: {committed:?}"));
                }
            }
        }
    }
    look(rig, steps.len(), &everything(), &mut answers).await;
    answers.extend(renew_what_ended(rig).await);
    answers
}

/// In the end every lease runs out, and whoever had it asks for it back: too rare to happen by chance.
async fn renew_what_ended(rig: &dyn StoreRig) -> Vec<String> {
    rig.move_database_clock(LEASE * 2);
    let mut unit = rig.store().begin().await.expect("a unit begins");
    let mut answers = Vec::new();
    for relay in 1..=3 {
        let holds: Vec<_> =
            (1..=3).flat_map(|partition| (0..=3).map(move |epoch| (partition, epoch))).collect();
        for op in [Op::Fence { relay, holds: holds.clone() }, Op::Renew { relay, holds }] {
            answers.push(format!("in the end: {op:?}: {}", apply(unit.as_mut(), &op).await));
        }
    }
    answers
}

async fn look(rig: &dyn StoreRig, number: usize, queries: &[Query], answers: &mut Vec<String>) {
    let mut view = rig.store().view().await.expect("a view opens");
    for query in queries {
        let answer = ask(view.as_mut(), query).await;
        answers.push(format!("{number}: {query:?}: {answer}"));
    }
}

fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Conflict { .. } => "Conflict",
        StoreError::Transient(_) => "Transient",
        StoreError::Unavailable(_) => "Unavailable",
        StoreError::CommitUnknown(_) => "CommitUnknown",
        StoreError::Corrupt { .. } => "Corrupt",
        StoreError::Backend(_) => "Backend",
    }
}

fn told<T: Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Ok(value) => format!("Ok({value:?})"),
        Err(error) => format!("Err({})", kind(&error)),
    }
}

/// Moments far apart, so that what the running clock adds does not matter.
fn moment(number: Small) -> DateTime<Utc> {
    later(number * 100)
}

fn hold((partition, epoch): (Small, i64)) -> PartitionHold {
    PartitionHold { partition: partition_of(partition), epoch }
}

fn partition_of(number: Small) -> Partition {
    samples::partition(number)
}

fn relay_of(number: Small) -> RelayId {
    relay(&format!("r{number}"))
}

fn set(partitions: &[Small]) -> PartitionSet {
    let both = |number: &Small| [partition_of(*number), Partition::of(tenant(2), *number)];
    partitions.iter().flat_map(both).collect()
}

fn new_event(event: &Event) -> NewEvent {
    let aggregate =
        AggregateRef { tenant: tenant(event.tenant), kind: event.kind.into(), id: event.aggregate };
    NewEvent {
        aggregate,
        occurred_at: moment(event.at),
        ..samples::of_type(event.event_type, samples::event(event.id, event.aggregate, event.seq))
    }
}

fn consumption(row: &Row) -> Consumption {
    Consumption {
        expected: row.expected,
        status: row.status,
        attempts: row.attempts,
        next_retry_time: row.retry.map(moment),
        lease_until: row.lease.map(moment),
        consume_time: moment(row.at),
        ..samples::consumption(row.consumer, &samples::event(row.event, 1, 1))
    }
}

async fn apply(unit: &mut dyn UnitOfWork, op: &Op) -> String {
    match op.clone() {
        Op::InsertProduct { tenant: t, id, seller } => {
            let product = Product { tenant: tenant(t), seller: user(seller), ..samples::product(id) };
            told(unit.insert_product(&product).await)
        }
        Op::AdvanceProduct { tenant: t, id, version, status } => {
            let before = samples::product(id);
            let after =
                Product { tenant: tenant(t), version, status, update_time: moment(version), ..before };
            told(unit.advance_product(&after).await)
        }
        Op::InsertOrder { tenant: t, id, buyer, at } => {
            let order = Order {
                tenant: tenant(t),
                buyer: user(buyer),
                create_time: moment(at),
                ..samples::order(id)
            };
            told(unit.insert_order(&order).await)
        }
        Op::AdvanceOrder { tenant: t, id, version, status } => {
            let now = unit.order_by_id(tenant(t), order_id(id)).await.expect("an order can be read");
            let now = now.unwrap_or_else(|| Order { tenant: tenant(t), ..samples::order(id) });
            let after = Order { version, ..order_moved_to(&now, status, moment(version)) };
            told(unit.advance_order(&after).await)
        }
        Op::InsertPayment { tenant: t, id, order } => {
            told(unit.insert_payment(&Payment { tenant: tenant(t), ..samples::payment(id, order) }).await)
        }
        Op::AdvancePayment { tenant: t, id, order, version, status, transaction } => {
            let now = unit.payment_by_id(payment_id(id)).await.expect("a payment can be read");
            let now = now.unwrap_or_else(|| samples::payment(id, order));
            let settled = samples::settled(&now, status, transaction);
            told(unit.advance_payment(&Payment { tenant: tenant(t), version, ..settled }).await)
        }
        Op::Append(events) => told(unit.append(&events.iter().map(new_event).collect::<Vec<_>>()).await),
        Op::MarkSent { events, at } => {
            let proofs: Vec<_> = events.iter().map(|id| confirmed(id)).collect();
            told(unit.mark_sent(&proofs.iter().collect::<Vec<_>>(), moment(at)).await)
        }
        Op::MarkFailed { events, at } => {
            let failed: Vec<FailedPublish> = events.iter().map(failed_publish).collect();
            told(unit.mark_failed(&failed, moment(at)).await)
        }
        Op::Take { relay, partition, epoch } => {
            told(unit.take_partition(&relay_of(relay), partition_of(partition), epoch, LEASE_MS).await)
        }
        Op::Renew { relay, holds } => {
            let holds: Vec<_> = holds.into_iter().map(hold).collect();
            let renewed = unit.renew_partitions(&relay_of(relay), &holds, LEASE_MS).await;
            told(renewed.map(|mut holds| {
                holds.sort_by_key(|hold| (hold.partition, hold.epoch));
                holds
            }))
        }
        Op::GiveBack { relay, holds } => {
            told(unit.give_back(&relay_of(relay), &holds.into_iter().map(hold).collect::<Vec<_>>()).await)
        }
        Op::Fence { relay, holds } => {
            told(unit.fence(&relay_of(relay), &holds.into_iter().map(hold).collect::<Vec<_>>()).await)
        }
        Op::Heartbeat(relay) => told(unit.heartbeat(&relay_of(relay), LEASE_MS).await),
        Op::Forget(relay) => told(unit.forget_relay(&relay_of(relay)).await),
        Op::EndAllLeases => told(unit.end_all_leases().await),
        Op::Record(rows) => told(unit.record(&rows.iter().map(consumption).collect::<Vec<_>>()).await),
        Op::Subscribe { consumer, at } => told(unit.subscribe_consumer(consumer, moment(at)).await),
        Op::CheckedUntil { consumer, at } => told(unit.set_checked_until(consumer, moment(at)).await),
        Op::Park { queue, key, at } => {
            let letter = DeadLetter { died_at: moment(at), ..samples::dead_letter(queue, key) };
            told(unit.park(&[letter]).await)
        }
        Op::ChangeListings(changes) => {
            let changes: Vec<ListingChange> = changes
                .into_iter()
                .map(|(product, order, kind)| samples::listing_change(product, order, kind, "e1"))
                .collect();
            told(unit.change_listings(&changes).await)
        }
        Op::OpenShipments(orders) => {
            let tasks: Vec<NewShipmentTask> =
                orders.into_iter().map(|order| samples::shipment_task(order, "e1")).collect();
            told(unit.open_shipments(&tasks).await)
        }
        Op::Notify(rows) => {
            let row = |(t, order, recipient)| Notification {
                tenant: tenant(t),
                ..samples::notification(order, recipient, "e1")
            };
            told(unit.notify(&rows.into_iter().map(row).collect::<Vec<_>>()).await)
        }
        Op::ChangeCredit(rows) => {
            let row = |(t, buyer, order, step)| CreditChange {
                tenant: tenant(t),
                ..samples::credit_change(buyer, order, step, "e1")
            };
            told(unit.change_credit(&rows.into_iter().map(row).collect::<Vec<_>>()).await)
        }
        Op::TakeIds { kind, size } => told(unit.take_id_block(kind, size).await),
        Op::Read(query) => ask(unit, &query).await,
    }
}

fn failed_publish((id, due, last): &(&'static str, Option<Small>, bool)) -> FailedPublish {
    if *last { samples::to_failed(id) } else { samples::to_retry(id, due.map(moment)) }
}

async fn ask<V: View + ?Sized>(view: &mut V, query: &Query) -> String {
    match query.clone() {
        Query::Product(t, id) => told(view.product_by_id(tenant(t), product_id(id)).await),
        Query::Products { tenant: t, status, before, limit } => {
            told(view.products_page(tenant(t), status, before.map(product_id), limit).await)
        }
        Query::Order(t, id) => told(view.order_by_id(tenant(t), order_id(id)).await),
        Query::OrderOfParty(t, id, who) => {
            told(view.order_of_party(tenant(t), order_id(id), user(who)).await)
        }
        Query::Orders { tenant: t, user: who, side, status, before, limit } => {
            told(view.orders_page(tenant(t), user(who), side, status, before.map(order_id), limit).await)
        }
        Query::Overdue { at, limit } => told(view.orders_overdue(moment(at), limit).await),
        Query::Payment(id) => told(view.payment_by_id(payment_id(id)).await),
        Query::Processing(t, order) => told(view.payment_in_processing(tenant(t), order_id(order)).await),
        Query::Due { partitions, at, on_failed, limit } => {
            told(view.outbox_due(set(&partitions), moment(at), on_failed, limit).await.map(nameless))
        }
        Query::NextDue { partitions, at } => told(view.outbox_next_due(set(&partitions), moment(at)).await),
        Query::ByEvent(events) => {
            let wanted: Vec<_> = events.iter().map(|id| event_id(id)).collect();
            let rows = view.outbox_by_event(&wanted).await;
            told(rows.map(|mut rows| {
                rows.sort_by_key(|row| row.id);
                nameless(rows)
            }))
        }
        Query::Page { tenant: t, status, aggregate, from, to, skip, limit } => {
            let filter = OutboxFilter {
                tenant: t.map(tenant),
                status,
                event_type: None,
                aggregate_id: aggregate,
                from: from.map(moment),
                to: to.map(moment),
            };
            told(page(view, &filter, skip, limit).await)
        }
        Query::Consumption(consumer, event) => {
            told(view.consumption(consumer, &event_id(event)).await.map(|found| found.map(rounded)))
        }
        Query::Unapplied { consumer, types, since, aggregates } => {
            let aggregates: Vec<_> = aggregates
                .into_iter()
                .map(|(t, kind, id)| AggregateRef { tenant: tenant(t), kind: kind.into(), id })
                .collect();
            let found = view.unapplied(consumer, &types, moment(since), &aggregates).await;
            told(found.map(|found| found.into_iter().map(plain).collect::<Vec<_>>()))
        }
        Query::Leftovers { consumer, idle_since, now, limit } => {
            told(view.leftovers(consumer, moment(idle_since), moment(now), limit).await)
        }
        Query::Unseen { consumer, types, since, after, until, limit } => {
            let found =
                view.unseen(consumer, &types, moment(since), moment(after), moment(until), limit).await;
            told(found.map(nameless))
        }
        Query::Subscription(consumer) => told(view.consumer_subscription(consumer).await),
        Query::DeadLetter(queue, key) => told(view.dead_letter(queue, key).await),
        Query::DeadLetters(queue, limit) => told(view.dead_letters(queue, limit).await),
        Query::ListingChanges(t, order) => told(view.listing_changes(tenant(t), order_id(order)).await),
        Query::Listing(t, seller) => told(view.listing_of(tenant(t), user(seller)).await),
        Query::Shipments(t, order) => told(view.shipment_tasks(tenant(t), order_id(order)).await),
        Query::ListingPage { tenant: t, before, limit } => {
            told(view.listings_page(tenant(t), user(20), before.map(product_id), limit).await)
        }
        Query::ShipmentPage { tenant: t, side, skip, limit } => {
            let who = samples::shipment_task(1, "e1");
            let who = if side == OrderSide::Buyer { who.buyer } else { who.seller };
            let all =
                view.shipments_page(tenant(t), who, side, None, 1_000).await.expect("a page can be read");
            told(view.shipments_page(tenant(t), who, side, below(&all, skip), limit).await.map(unnumbered))
        }
        Query::Notifications(t, order) => told(view.notifications_about(tenant(t), order_id(order)).await),
        Query::NotificationPage { tenant: t, user: who, skip, limit } => {
            let who = user(who);
            let all = view.notifications_page(tenant(t), who, None, 1_000).await.expect("a page can be read");
            told(view.notifications_page(tenant(t), who, below(&all, skip), limit).await.map(unnumbered))
        }
        Query::CreditChanges(t, order) => told(view.credit_changes(tenant(t), order_id(order)).await),
        Query::Credit(t, buyer) => told(view.credit_of(tenant(t), user(buyer)).await),
        Query::LiveRelays => told(view.live_relays().await),
        Query::Leases => told(leases(view).await),
    }
}

/// Rows without what is the store's own: their ids, and when a row was added.
fn nameless(rows: Vec<OutboxRow>) -> Vec<OutboxRow> {
    rows.into_iter()
        .map(|row| OutboxRow {
            id: 0,
            update_time: if row.status == OutboxStatus::New { start() } else { row.update_time },
            ..row
        })
        .collect()
}

/// To 10 s: whole leases are ended by a clock that runs.
fn rounded(record: ConsumeRecord) -> ConsumeRecord {
    let tens = |until: DateTime<Utc>| {
        start() + TimeDelta::seconds((until - start() + TimeDelta::seconds(5)).num_seconds() / 10 * 10)
    };
    ConsumeRecord { lease_until: record.lease_until.map(tens), ..record }
}

fn plain(unapplied: Unapplied) -> (Vec<OutboxRow>, Option<ConsumeRecord>) {
    (nameless(vec![unapplied.event]), unapplied.record.map(rounded))
}

/// The number of the row that is so far down.
fn below<E>(all: &[Numbered<E>], skip: usize) -> Option<i64> {
    skip.checked_sub(1).and_then(|above| all.get(above)).map(|row| row.id)
}

/// Rows without their numbers, which are each store's own.
fn unnumbered<E>(rows: Vec<Numbered<E>>) -> Vec<E> {
    rows.into_iter().map(|row| row.effect).collect()
}

/// A page that begins below the row that is so far down.
async fn page<V: View + ?Sized>(
    view: &mut V,
    filter: &OutboxFilter,
    skip: usize,
    limit: u32,
) -> Result<Vec<OutboxRow>, StoreError> {
    let all = view.outbox_page(&OutboxFilter::default(), None, 1_000).await?;
    let before = skip.checked_sub(1).and_then(|above| all.get(above)).map(|row| row.id);
    Ok(nameless(view.outbox_page(filter, before, limit).await?))
}

/// The leases with what is left of them, to 10 s; those of partitions that nobody ever had are left out.
async fn leases<V: View + ?Sized>(view: &mut V) -> Result<Vec<(PartitionLease, Option<i64>)>, StoreError> {
    let now = view.database_now().await?;
    let leases = view.partition_leases().await?.into_iter().filter(|lease| lease.epoch > 0);
    let left = |until: DateTime<Utc>| (until - now + TimeDelta::seconds(5)).num_seconds() / 10 * 10;
    Ok(leases
        .map(|lease| {
            let left = lease.lease_until.map(left).map(|left| left.max(0));
            (PartitionLease { lease_until: None, ..lease }, left)
        })
        .collect())
}
