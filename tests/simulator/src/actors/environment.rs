//! Faults of the environment: broker, database and clocks.

use handover_events::{ConsumeStatus, OutboxStatus};
use handover_memory::MemoryBroker;
use handover_outbox::ports::{Message, OutboxFilter, Store};
use marketplace::App;
use marketplace::consumers::{
    COUPON_QUEUE, CREDIT_QUEUE, FULFILLMENT_QUEUE, INVENTORY_QUEUE, POINTS_QUEUE, STATUS_SYNC_QUEUE,
    TIMEOUT_QUEUE, WALLET_QUEUE, WEBHOOK_QUEUE,
};
use marketplace_domain::EventKind;
use marketplace_memory::MemoryStore;
use tokio::time::Instant;

use super::invoices::closed_month;
use crate::fault_kinds::Fault;
use crate::faults::Faults;
use crate::ports::clock::FaultyClock;

/// Injects faults of the broker. Never returns.
pub(crate) async fn disturb_broker(faults: &Faults, broker: &MemoryBroker) {
    let random = &faults.random;
    loop {
        faults.sleep(random.millis(500..4_000)).await;
        if faults.occurs(Fault::Unreachable) {
            faults.note("environment", || "the broker becomes unreachable".into());
            broker.set_reachable(false);
            faults.sleep(random.millis(200..5_000)).await;
            broker.set_reachable(true);
            faults.note("environment", || "the broker is reachable again".into());
        }
        if faults.occurs(Fault::Blocked) {
            faults.note("environment", || "the broker blocks publishers".into());
            broker.set_blocked(Some("low on memory"));
            faults.sleep(random.millis(200..5_000)).await;
            broker.set_blocked(None);
        }
        if faults.occurs(Fault::Unroutable) {
            faults.note("environment", || "the bindings are removed".into());
            faults.set_unroutable(true);
            faults.sleep(random.millis(50..5_000)).await;
            faults.set_unroutable(false);
        }
        if faults.occurs(Fault::ForeignMessage) {
            inject_foreign_message(faults, broker);
        }
        if faults.occurs(Fault::Purged) {
            purge_queue(faults, broker);
        }
    }
}

const CONSUMED: [&str; 9] = [
    INVENTORY_QUEUE,
    FULFILLMENT_QUEUE,
    STATUS_SYNC_QUEUE,
    COUPON_QUEUE,
    WALLET_QUEUE,
    POINTS_QUEUE,
    CREDIT_QUEUE,
    TIMEOUT_QUEUE,
    WEBHOOK_QUEUE,
];

/// Puts a foreign message, which is not an event of the application, into a queue.
fn inject_foreign_message(faults: &Faults, broker: &MemoryBroker) {
    let number = faults.random.below(1_000_000);
    let bodies = [
        format!("no JSON at all {number}"),
        format!("{{\"eventId\":\"stray-{number}\"}}"),
        format!(
            "{{\"eventId\":\"stray-{number}\",\"eventType\":\"ORDER_LOST\",\"aggregateType\":\"Order\",\
             \"aggregateId\":1,\"occurredAt\":\"2026-02-04T10:30:00Z\",\"traceId\":\"t\",\"payload\":{{}}}}"
        ),
    ];
    if let (Some(body), Some(queue)) = (faults.random.pick(&bodies), faults.random.pick(&CONSUMED)) {
        faults.note("environment", || format!("foreign message in {queue}: {body}"));
        faults.observed(|observed| observed.foreign_bodies.push(body.clone()));
        broker.inject(queue, Message { body: body.clone(), ..Message::default() });
    }
}

/// Removes the ready messages of a queue. The outbox still has all events, but foreign messages are lost.
fn purge_queue(faults: &Faults, broker: &MemoryBroker) {
    // The dead-letter queue is never purged: its messages are not in any table yet, so they would be lost.
    if let Some(queue) = faults.random.pick(&CONSUMED) {
        let lost = broker.purge(queue);
        faults.note("environment", || format!("{queue} loses {lost} messages"));
        if lost > 0 {
            faults.observed(|observed| observed.purged_foreign_bodies.append(&mut observed.foreign_bodies));
        }
    }
}

/// Deletes outbox rows that all consumers have applied. Returns only if the run does not enable this fault.
pub(crate) async fn delete_rows(plain: &App, faults: &Faults, store: &MemoryStore) {
    let paid = EventKind::OrderPaid.as_str();
    let filter = OutboxFilter {
        event_type: Some(paid.to_owned()),
        status: Some(OutboxStatus::Sent),
        ..OutboxFilter::default()
    };
    let subscribers = plain.subscribers();
    let takers: Vec<&str> =
        subscribers.iter().filter(|it| it.event_types().contains(&paid)).map(|it| it.name()).collect();
    if !faults.has(Fault::RowDeleted) {
        return;
    }
    loop {
        faults.sleep(faults.random.millis(500..2_500)).await;
        let Ok(mut view) = store.view().await else { continue };
        let Ok(rows) = view.outbox_view().outbox_page(&filter, None, 20).await else { continue };
        // The repair job looks only at orders that changed recently.
        let recent = rows.into_iter().filter(|row| row.create_time >= closed_month().end());
        for row in recent {
            let consumed =
                view.outbox_view().consumed_of(std::slice::from_ref(&row.event_id)).await.unwrap_or_default();
            let consumers = takers.iter().filter(|name| !row.idle_consumers.contains(name)).count();
            let applied = consumed.iter().filter(|it| it.record.status == ConsumeStatus::Success).count();
            if applied == consumers
                && faults.occurs(Fault::RowDeleted)
                && store.delete_sent_event(&row.event_id)
            {
                faults.note("environment", || format!("the row of {} is deleted", row.event_id));
                faults.observed(|observed| observed.deleted.insert(row.event_id));
                break;
            }
        }
    }
}

/// Injects faults of the clocks of processes and database. Never returns.
pub(crate) async fn disturb_clocks(faults: &Faults, clocks: &[FaultyClock], store: &MemoryStore) {
    let random = &faults.random;
    for clock in clocks {
        if faults.occurs(Fault::Skew) {
            clock.set_skew(random_offset(faults, 2_000));
        }
    }
    loop {
        faults.sleep(random.millis(500..4_000)).await;
        let Some(clock) = random.pick(clocks) else { return };
        if faults.occurs(Fault::Step) {
            let by = random_offset(faults, 5_000);
            faults.note("environment", || format!("a clock steps by {by} ms"));
            clock.set_skew(by);
        }
        if faults.occurs(Fault::Freeze) {
            faults.note("environment", || "a clock stops".into());
            clock.set_stopped(true);
            faults.sleep(random.millis(100..4_000)).await;
            clock.set_stopped(false);
        }
        if faults.occurs(Fault::DatabaseStep) {
            let by = random_offset(faults, 300_000);
            faults.note("environment", || format!("the clock of the database steps by {by} ms"));
            store.move_database_clock(chrono::TimeDelta::milliseconds(by));
            faults.observed(|observed| observed.database_clock_set = Some(Instant::now()));
        }
    }
}

fn random_offset(faults: &Faults, most: i64) -> i64 {
    i64::try_from(faults.random.below(2 * most.unsigned_abs())).unwrap_or(0) - most
}
