//! Runs a query and formats its result without store-specific values.

use chrono::{DateTime, TimeDelta, Utc};
use handover_contract::samples::{due_at, event_id, start, tenant, unordered};
use handover_events::{AggregateRef, OutboxStatus, Partition, PartitionSet};
use handover_outbox::ports::{
    AuditFilter, ConsumeRecord, Consumed, ConsumedFilter, ConsumerSubscription, DeadLetterFilter, DueQuery,
    Numbered, OutboxFilter, OutboxRow, PartitionLease, RelayId, StoreError, Unapplied,
};
use marketplace::ports::{MarketView, OrderSide};
use marketplace_contract::samples::{order_id, payment_id, product_id, shipment_task, user};

use super::super::steps::{Query, Small};
use super::{aggregate_of, moment, partition_of, rendered};

fn set(partitions: &[Small]) -> PartitionSet {
    let both = |number: &Small| [partition_of(*number), Partition::of(tenant(2), *number)];
    partitions.iter().flat_map(both).collect()
}

fn all(aggregates: &[(Small, &str, Small)]) -> Vec<AggregateRef> {
    aggregates.iter().map(|(of, kind, id)| aggregate_of(*of, kind, *id)).collect()
}

pub(super) async fn run_query<V: MarketView + ?Sized>(view: &mut V, query: &Query) -> String {
    match query.clone() {
        Query::Product(t, id) => rendered(view.product_by_id(tenant(t), product_id(id)).await),
        Query::Products { tenant: t, status, before, limit } => {
            rendered(view.products_page(tenant(t), status, before.map(product_id), limit).await)
        }
        Query::Order(t, id) => rendered(view.order_by_id(tenant(t), order_id(id)).await),
        Query::OrderOfParty(t, id, who) => {
            rendered(view.order_of_party(tenant(t), order_id(id), user(who)).await)
        }
        Query::Orders { tenant: t, user: who, side, status, before, limit } => {
            rendered(view.orders_page(tenant(t), user(who), side, status, before.map(order_id), limit).await)
        }
        Query::Shipped { by, after, limit } => {
            let after = after.map(|(at, id)| (moment(at), order_id(id)));
            rendered(view.orders_shipped(moment(by), after, limit).await)
        }
        Query::Overdue { by, after, limit } => {
            let after = after.map(|(at, id)| (moment(at), order_id(id)));
            rendered(view.orders_overdue(moment(by), after, limit).await)
        }
        Query::Payment(id) => rendered(view.payment_by_id(payment_id(id)).await),
        Query::Processing(t, order) => rendered(view.payment_in_processing(tenant(t), order_id(order)).await),
        Query::Payments(t, order) => rendered(view.payments_of(tenant(t), &[order_id(order)]).await),
        Query::Due { partitions, at, on_failed, limit } => rendered(
            view.outbox_view()
                .outbox_due(&DueQuery {
                    partitions: set(&partitions),
                    on_failed,
                    limit,
                    ..due_at(moment(at))
                })
                .await
                .map(|due| (without_ids(due.rows), due.next)),
        ),
        Query::ByEvent(events) => {
            let wanted: Vec<_> = events.iter().map(|id| event_id(id)).collect();
            let rows = view.outbox_view().outbox_by_event(&wanted).await;
            rendered(rows.map(|mut rows| {
                rows.sort_by_key(|row| row.id);
                without_ids(rows)
            }))
        }
        Query::Page { tenant: t, status, aggregate, from, to, skip, limit } => {
            let filter = OutboxFilter {
                tenant: t.map(tenant),
                status,
                event_type: None,
                aggregate_type: None,
                aggregate_id: aggregate.map(Into::into),
                from: from.map(moment),
                to: to.map(moment),
                above_id: None,
                below_id: None,
            };
            rendered(page(view, &filter, skip, limit).await)
        }
        Query::About(aggregates) => {
            rendered(view.outbox_view().outbox_about(&all(&aggregates)).await.map(without_ids))
        }
        Query::Blocked { tenant: t, skip, limit } => {
            let all = view
                .outbox_view()
                .blocked_page(&unordered(), None, None, 1_000)
                .await
                .expect("cannot read the blocked aggregates");
            rendered(
                view.outbox_view()
                    .blocked_page(&unordered(), t.map(tenant), number_before(&all, skip), limit)
                    .await
                    .map(without_numbers),
            )
        }
        Query::OutboxCounts(t) => rendered(view.outbox_view().outbox_counts(t.map(tenant), i64::MAX).await),
        Query::Backlog { at } => {
            let backlog = view.outbox_view().outbox_backlog(0..i64::MAX, moment(at)).await;
            let failed = view.outbox_view().unreleased_failed_rows().await;
            rendered(backlog.and_then(|backlog| Ok((backlog, failed?))))
        }
        Query::Consumed { tenant: t, event, consumer, status, skip, limit } => {
            let filter = ConsumedFilter {
                tenant: t.map(tenant),
                event_id: event.map(event_id),
                consumer: consumer.map(str::to_owned),
                status,
                ..ConsumedFilter::default()
            };
            let any = ConsumedFilter::default();
            let all = view
                .outbox_view()
                .consumed_page(&any, None, 1_000)
                .await
                .expect("cannot read the consume log");
            let page = view.outbox_view().consumed_page(&filter, number_before(&all, skip), limit).await;
            rendered(
                page.map(|page| {
                    without_numbers(page).into_iter().map(with_rounded_lease).collect::<Vec<_>>()
                }),
            )
        }
        Query::ConsumedOf(events) => {
            let events: Vec<_> = events.into_iter().map(event_id).collect();
            rendered(
                view.outbox_view()
                    .consumed_of(&events)
                    .await
                    .map(|rows| rows.into_iter().map(with_rounded_lease).collect::<Vec<_>>()),
            )
        }
        Query::HistoryOf(events) => {
            let events: Vec<_> = events.into_iter().map(event_id).collect();
            rendered(view.outbox_view().history_of(&events).await)
        }
        Query::ConsumeCounts(t) => rendered(view.outbox_view().consume_counts(t.map(tenant), i64::MAX).await),
        Query::Consumption(consumer, event) => rendered(
            view.outbox_view().consumption(consumer, &event_id(event)).await.map(|found| found.map(rounded)),
        ),
        Query::Unapplied { consumer, types, skip, aggregates } => {
            let after_id = position(view, skip).await;
            let aggregates = all(&aggregates);
            let found = view.outbox_view().unapplied(consumer, &types, after_id, &aggregates).await;
            rendered(found.map(|found| found.into_iter().map(comparable).collect::<Vec<_>>()))
        }
        Query::Leftovers { consumer, idle_since, now, limit } => rendered(
            view.outbox_view()
                .stale_consumptions(consumer, &[], moment(idle_since), moment(now), limit)
                .await,
        ),
        Query::Unseen { consumer, types, skip, after, until, limit } => {
            let after_id = position(view, skip).await;
            let found = view
                .outbox_view()
                .unconsumed_events(consumer, &types, after_id, moment(after), moment(until), limit)
                .await;
            rendered(found.map(without_ids))
        }
        Query::Subscription(consumer) => rendered(subscription(view, consumer).await),
        Query::DeadLetter(queue, key) => rendered(view.outbox_view().dead_letter(queue, key).await),
        Query::DeadLetters { tenant: t, queue, status, skip, limit } => {
            let queue = queue.map(str::to_owned);
            let filter =
                DeadLetterFilter { tenant: t.map(tenant), queue, status, ..DeadLetterFilter::default() };
            let any = DeadLetterFilter::default();
            let all = view
                .outbox_view()
                .dead_letters_page(&any, None, 1_000)
                .await
                .expect("cannot read the dead letters");
            rendered(
                view.outbox_view()
                    .dead_letters_page(&filter, number_before(&all, skip), limit)
                    .await
                    .map(without_numbers),
            )
        }
        Query::DeadLettersOf(keys) => {
            let keys: Vec<_> = keys.into_iter().map(str::to_owned).collect();
            rendered(view.outbox_view().dead_letters_of(&keys).await)
        }
        Query::Undecided(t) => rendered(view.outbox_view().undecided_dead_letters(t.map(tenant)).await),
        Query::Audit { tenant: t, skip, limit } => {
            let all = view
                .outbox_view()
                .audit_page(&AuditFilter::default(), None, 1_000)
                .await
                .expect("cannot read the audit log");
            rendered(
                view.outbox_view()
                    .audit_page(
                        &AuditFilter {
                            tenant: t.map(tenant),
                            changes: limit % 2 == 1,
                            ..AuditFilter::default()
                        },
                        number_before(&all, skip),
                        limit,
                    )
                    .await
                    .map(without_numbers),
            )
        }
        Query::ListingChanges(t, order) => {
            rendered(view.listing_changes(tenant(t), &[order_id(order)]).await)
        }
        Query::Listing(t, seller) => rendered(view.listing_of(tenant(t), user(seller)).await),
        Query::Shipments(t, order) => rendered(view.shipment_tasks(tenant(t), &[order_id(order)]).await),
        Query::ListingPage { tenant: t, before, limit } => {
            rendered(view.listings_page(tenant(t), user(20), before.map(product_id), limit).await)
        }
        Query::ShipmentPage { tenant: t, side, state, skip, limit } => {
            let who = shipment_task(1, "e1");
            let who = if side == OrderSide::Buyer { who.buyer } else { who.seller };
            let all = view
                .shipments_page(tenant(t), who, side, None, None, 1_000)
                .await
                .expect("cannot read the shipments");
            rendered(
                view.shipments_page(tenant(t), who, side, state, number_before(&all, skip), limit)
                    .await
                    .map(without_numbers),
            )
        }
        Query::Notifications(t, order) => {
            rendered(view.notifications_about(tenant(t), &[order_id(order)]).await)
        }
        Query::NotificationPage { tenant: t, user: who, skip, limit } => {
            let who = user(who);
            let all = view
                .notifications_page(tenant(t), who, None, 1_000)
                .await
                .expect("cannot read the notifications");
            rendered(
                view.notifications_page(tenant(t), who, number_before(&all, skip), limit)
                    .await
                    .map(without_numbers),
            )
        }
        Query::CreditChanges(t, order) => rendered(view.credit_changes(tenant(t), &[order_id(order)]).await),
        Query::Credit(t, buyer) => rendered(view.credit_of(tenant(t), user(buyer)).await),
        Query::Relays => rendered(relays(view).await),
        Query::Leases => rendered(leases(view).await),
    }
}

/// Clears the store-specific values of outbox rows: row ids, and the update time of new rows.
fn without_ids(rows: Vec<OutboxRow>) -> Vec<OutboxRow> {
    rows.into_iter()
        .map(|row| OutboxRow {
            id: 0,
            update_time: if row.status == OutboxStatus::New { start() } else { row.update_time },
            ..row
        })
        .collect()
}

/// Rounds the end of a lease to 10 s, because it depends on a running clock.
fn rounded(record: ConsumeRecord) -> ConsumeRecord {
    let tens = |until: DateTime<Utc>| {
        start() + TimeDelta::seconds((until - start() + TimeDelta::seconds(5)).num_seconds() / 10 * 10)
    };
    ConsumeRecord { lease_until: record.lease_until.map(tens), ..record }
}

fn with_rounded_lease(row: Consumed) -> Consumed {
    Consumed { record: rounded(row.record), ..row }
}

fn comparable(unapplied: Unapplied) -> (Vec<OutboxRow>, Option<ConsumeRecord>) {
    (without_ids(vec![unapplied.event]), unapplied.record.map(rounded))
}

/// The row number to pass as `before` so that a page skips `skip` rows.
fn number_before<E>(all: &[Numbered<E>], skip: usize) -> Option<i64> {
    skip.checked_sub(1).and_then(|above| all.get(above)).map(|row| row.id)
}

/// Removes row numbers, which differ between stores.
fn without_numbers<E>(rows: Vec<Numbered<E>>) -> Vec<E> {
    rows.into_iter().map(|row| row.effect).collect()
}

/// A page that skips `skip` rows.
async fn page<V: MarketView + ?Sized>(
    view: &mut V,
    filter: &OutboxFilter,
    skip: usize,
    limit: u32,
) -> Result<Vec<OutboxRow>, StoreError> {
    let all = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 1_000).await?;
    let before = skip.checked_sub(1).and_then(|above| all.get(above)).map(|row| row.id);
    Ok(without_ids(view.outbox_view().outbox_page(filter, before, limit).await?))
}

/// The id of the nth outbox row. Ids have different gaps on each engine.
async fn position<V: MarketView + ?Sized>(view: &mut V, nth: Small) -> i64 {
    let ids = ids(view).await.expect("cannot read the outbox");
    let nth = usize::try_from(nth).expect("a small number");
    nth.checked_sub(1).map_or(0, |before| ids.get(before).or(ids.last()).copied().unwrap_or(0))
}

/// A subscription whose `after_id` is replaced by the number of outbox rows with an id up to `after_id`.
async fn subscription<V: MarketView + ?Sized>(
    view: &mut V,
    consumer: &str,
) -> Result<Option<ConsumerSubscription>, StoreError> {
    let ids = ids(view).await?;
    let rows_up_to = |after_id: i64| ids.iter().filter(|id| **id <= after_id).count() as i64;
    let found = view.outbox_view().consumer_subscription(consumer).await?;
    Ok(found.map(|found| ConsumerSubscription { after_id: rows_up_to(found.after_id), ..found }))
}

/// The ids of the outbox, ascending.
async fn ids<V: MarketView + ?Sized>(view: &mut V) -> Result<Vec<i64>, StoreError> {
    let rows = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 1_000).await?;
    Ok(rows.iter().rev().map(|row| row.id).collect())
}

/// The relays with the remaining time of their heartbeats, rounded to 10 s.
async fn relays<V: MarketView + ?Sized>(view: &mut V) -> Result<Vec<(RelayId, i64)>, StoreError> {
    let now = view.outbox_view().database_now().await?;
    let heartbeats = view.outbox_view().heartbeats().await?;
    Ok(heartbeats.into_iter().map(|beat| (beat.relay, remaining(beat.alive_until, now))).collect())
}

/// The partition leases with their remaining time, rounded to 10 s, without partitions that never had an owner.
async fn leases<V: MarketView + ?Sized>(
    view: &mut V,
) -> Result<Vec<(PartitionLease, Option<i64>)>, StoreError> {
    let now = view.outbox_view().database_now().await?;
    let leases = view.outbox_view().partition_leases().await?.into_iter().filter(|lease| lease.epoch > 0);
    Ok(leases
        .map(|lease| {
            let remaining = lease.lease_until.map(|until| remaining(until, now));
            (PartitionLease { lease_until: None, ..lease }, remaining)
        })
        .collect())
}

/// Remaining seconds, rounded to 10; zero after the end.
fn remaining(until: DateTime<Utc>, now: DateTime<Utc>) -> i64 {
    ((until - now + TimeDelta::seconds(5)).num_seconds() / 10 * 10).max(0)
}
