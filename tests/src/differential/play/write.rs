//! Runs a write in a unit of work.

use handover_contract::samples::{self, confirmed, relay, tenant, unordered};
use handover_outbox::ports::{
    AuditEntry, Consumption, DeadLetter, Decision, FailedPublish, HistoryEntry, NewEvent, OwnedPartition,
    PartitionLease, RelayId,
};
use marketplace::ports::{CreditChange, ListingChange, NewShipmentTask, Notification, Work};
use marketplace_contract::samples::{self as market_samples, order_id, order_moved_to, payment_id, user};
use marketplace_domain::{Order, Payment, Product};

use super::super::steps::{Event, Op, Row, Small};
use super::ask::run_query;
use super::{LEASE_MS, aggregate_of, moment, partition_of, rendered};

fn hold((partition, epoch): (Small, i64)) -> OwnedPartition {
    OwnedPartition { partition: partition_of(partition), epoch }
}

fn relay_of(number: Small) -> RelayId {
    relay(&format!("r{number}"))
}

fn new_event(event: &Event) -> NewEvent {
    NewEvent {
        aggregate: aggregate_of(event.tenant, event.kind, event.aggregate),
        occurred_at: moment(event.at),
        idle_consumers: (event.seq % 3 == 2).then_some("inventory").into_iter().collect(),
        routing_key: (event.seq % 2 == 1).then(|| event.event_type.to_lowercase()),
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
        aggregate: aggregate_of(row.tenant, samples::BOOK, 1),
        ..samples::consumption(row.consumer, &samples::event(row.event, 1, 1))
    }
}

pub(super) async fn apply(unit: &mut Work, op: &Op) -> String {
    match op.clone() {
        Op::InsertProduct { tenant: t, id, seller } => {
            let product = Product { tenant: tenant(t), seller: user(seller), ..market_samples::product(id) };
            rendered(unit.insert_product(&product).await)
        }
        Op::AdvanceProduct { tenant: t, id, version, status } => {
            let before = market_samples::product(id);
            let after =
                Product { tenant: tenant(t), version, status, update_time: moment(version), ..before };
            rendered(unit.advance_product(&after).await)
        }
        Op::InsertOrder { tenant: t, id, buyer, at } => {
            let order = Order {
                tenant: tenant(t),
                buyer: user(buyer),
                create_time: moment(at),
                ..market_samples::order(id)
            };
            rendered(unit.insert_order(&order).await)
        }
        Op::AdvanceOrder { tenant: t, id, version, status } => {
            let now = unit.order_by_id(tenant(t), order_id(id)).await.expect("cannot read an order");
            let now = now.unwrap_or_else(|| Order { tenant: tenant(t), ..market_samples::order(id) });
            let after = Order { version, ..order_moved_to(&now, status, moment(version)) };
            rendered(unit.advance_order(&after).await)
        }
        Op::InsertPayment { tenant: t, id, order } => rendered(
            unit.insert_payment(&Payment { tenant: tenant(t), ..market_samples::payment(id, order) }).await,
        ),
        Op::AdvancePayment { tenant: t, id, order, version, status, transaction } => {
            let now = unit.payment_by_id(payment_id(id)).await.expect("cannot read a payment");
            let now = now.unwrap_or_else(|| market_samples::payment(id, order));
            let settled = market_samples::settled(&now, status, transaction);
            rendered(unit.advance_payment(&Payment { tenant: tenant(t), version, ..settled }).await)
        }
        Op::Append(events) => {
            rendered(unit.outbox().append(&events.iter().map(new_event).collect::<Vec<_>>()).await)
        }
        Op::MarkSent { events, at } => {
            let proofs: Vec<_> = events.iter().map(|id| confirmed(id)).collect();
            rendered(unit.outbox().mark_sent(&proofs.iter().collect::<Vec<_>>(), moment(at)).await)
        }
        Op::MarkFailed { events, at } => {
            let failed: Vec<FailedPublish> = events.iter().map(failed_publish).collect();
            rendered(unit.outbox().mark_failed(&failed, moment(at)).await)
        }
        Op::Redrive { events, at } => {
            let rows: Vec<_> = events.iter().map(|(id, due)| samples::redrive(id, moment(*due))).collect();
            rendered(unit.outbox().redrive(&rows, moment(at)).await)
        }
        Op::AddHistory(entries) => {
            let entry =
                |(id, at): &(&str, Small)| HistoryEntry { at: moment(*at), ..samples::history_entry(id) };
            let entries: Vec<HistoryEntry> = entries.iter().map(entry).collect();
            rendered(unit.outbox().add_history(&entries).await)
        }
        Op::Release { tenant, kind, aggregate, at } => rendered(
            unit.outbox().release(&aggregate_of(tenant, kind, aggregate), &unordered(), moment(at)).await,
        ),
        Op::Take { relay, partition, epoch } => {
            let leases = unit.outbox().partition_leases().await.expect("cannot read leases");
            let seen = leases[usize::from(partition_of(partition).number())].clone();
            let seen = PartitionLease { epoch, ..seen };
            rendered(unit.outbox().acquire_partition(&relay_of(relay), &seen, LEASE_MS).await)
        }
        Op::Renew { relay, holds } => {
            let holds: Vec<_> = holds.into_iter().map(hold).collect();
            let renewed = unit.outbox().renew_partitions(&relay_of(relay), &holds, LEASE_MS).await;
            rendered(renewed.map(|mut holds| {
                holds.sort_by_key(|hold| (hold.partition, hold.epoch));
                holds
            }))
        }
        Op::GiveBack { relay, holds } => rendered(
            unit.outbox()
                .release_partitions(&relay_of(relay), &holds.into_iter().map(hold).collect::<Vec<_>>())
                .await,
        ),
        Op::Fence { relay, holds } => rendered(
            unit.outbox().fence(&relay_of(relay), &holds.into_iter().map(hold).collect::<Vec<_>>()).await,
        ),
        Op::Heartbeat(relay) => rendered(unit.outbox().heartbeat(&relay_of(relay), LEASE_MS).await),
        Op::Forget(relay) => rendered(unit.outbox().delete_heartbeat(&relay_of(relay)).await),
        Op::EndAllLeases => rendered(unit.outbox().release_all_leases().await),
        Op::Record(rows) => {
            rendered(unit.outbox().record(&rows.iter().map(consumption).collect::<Vec<_>>()).await)
        }
        Op::Subscribe { consumer, at } => {
            // The position of a subscription is an engine-specific id. `Query::Subscription` returns it as a number of
            // rows.
            let subscribed = unit.outbox().subscribe_consumer(consumer, moment(at)).await;
            rendered(subscribed.map(|subscribed| subscribed.checked_until))
        }
        Op::CheckedUntil { consumer, at } => {
            rendered(unit.outbox().set_checked_until(consumer, moment(at)).await)
        }
        Op::Park { tenant: t, queue, key, at } => {
            let dead_letter =
                DeadLetter { tenant: tenant(t), died_at: moment(at), ..samples::dead_letter(queue, key) };
            rendered(unit.outbox().park(&[dead_letter]).await)
        }
        Op::Decide { queue, key, from, to, note, at } => {
            let note = note.map(str::to_owned);
            let decision = Decision { from, note, at: moment(at), ..samples::decision(queue, key, to) };
            rendered(unit.outbox().decide(&decision).await)
        }
        Op::Audit { tenant: t, action } => rendered(
            unit.outbox()
                .audit(&AuditEntry {
                    tenant: tenant(t),
                    changed: u64::from(action == "a"),
                    ..samples::audit_entry(action)
                })
                .await,
        ),
        Op::ChangeListings(changes) => {
            let changes: Vec<ListingChange> = changes
                .into_iter()
                .map(|(product, order, kind)| market_samples::listing_change(product, order, kind, "e1"))
                .collect();
            rendered(unit.change_listings(&changes).await)
        }
        Op::OpenShipments(orders) => {
            let tasks: Vec<NewShipmentTask> =
                orders.into_iter().map(|order| market_samples::shipment_task(order, "e1")).collect();
            rendered(unit.open_shipments(&tasks).await)
        }
        Op::Notify(rows) => {
            let row = |(t, order, recipient)| Notification {
                tenant: tenant(t),
                ..market_samples::notification(order, recipient, "e1")
            };
            rendered(unit.notify(&rows.into_iter().map(row).collect::<Vec<_>>()).await)
        }
        Op::ChangeCredit(rows) => {
            let row = |(t, buyer, order, step)| CreditChange {
                tenant: tenant(t),
                ..market_samples::credit_change(buyer, order, step, "e1")
            };
            rendered(unit.change_credit(&rows.into_iter().map(row).collect::<Vec<_>>()).await)
        }
        Op::TakeIds { kind, size } => rendered(unit.take_id_block(kind, size).await),
        Op::Read(query) => run_query(unit, &query).await,
    }
}

fn failed_publish((id, due, last): &(&'static str, Option<Small>, bool)) -> FailedPublish {
    if *last { samples::to_failed(id) } else { samples::to_retry(id, due.map(moment)) }
}
