//! What happens to broker, database and clocks by itself.

use handover_events::{ConsumeStatus, OutboxStatus};
use handover_memory::MemoryBroker;
use handover_outbox::ports::{Message, OutboxFilter, Store};
use marketplace::App;
use marketplace::handlers::standard;
use marketplace::queues::*;
use marketplace_domain::EventType;
use marketplace_memory::MemoryStore;

use crate::faults::{Fault, Faults};
use crate::ports::clock::FaultyClock;

/// Outages of the broker, and everything else that lasts for a while. Never ends.
pub(crate) async fn of_the_broker(faults: &Faults, broker: &MemoryBroker) {
    let dice = &faults.dice;
    loop {
        faults.sleep(dice.millis(500..4_000)).await;
        if faults.strikes(Fault::Away) {
            faults.note("weather", || "the broker goes away".into());
            broker.set_reachable(false);
            faults.sleep(dice.millis(200..5_000)).await;
            broker.set_reachable(true);
            faults.note("weather", || "the broker is back".into());
        }
        if faults.strikes(Fault::Blocked) {
            faults.note("weather", || "the broker takes no messages".into());
            broker.set_blocked(Some("low on memory"));
            faults.sleep(dice.millis(200..5_000)).await;
            broker.set_blocked(None);
        }
        if faults.strikes(Fault::Unroutable) {
            faults.note("weather", || "the bindings are gone".into());
            faults.set_unroutable(true);
            faults.sleep(dice.millis(50..5_000)).await;
            faults.set_unroutable(false);
        }
        if faults.strikes(Fault::Litter) {
            litter(faults, broker);
        }
        if faults.strikes(Fault::Purged) {
            purge(faults, broker);
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

/// Puts something into a queue that is no event of ours.
fn litter(faults: &Faults, broker: &MemoryBroker) {
    let number = faults.dice.below(1_000_000);
    let bodies = [
        format!("no JSON at all {number}"),
        format!("{{\"eventId\":\"stray-{number}\"}}"),
        format!(
            "{{\"eventId\":\"stray-{number}\",\"eventType\":\"ORDER_LOST\",\"aggregateType\":\"Order\",\
             \"aggregateId\":1,\"occurredAt\":\"2026-02-04T10:30:00Z\",\"traceId\":\"t\",\"payload\":{{}}}}"
        ),
    ];
    if let (Some(body), Some(queue)) = (faults.dice.pick(&bodies), faults.dice.pick(&CONSUMED)) {
        faults.note("weather", || format!("litter in {queue}: {body}"));
        faults.seen(|seen| seen.strays.push(body.clone()));
        broker.inject(queue, Message { body: body.clone(), ..Message::default() });
    }
}

/// A queue loses what nobody holds. The database has it all, but for what was no event of ours.
fn purge(faults: &Faults, broker: &MemoryBroker) {
    // Dead letters are only moved through their queue; one lost there is one that no table ever had.
    if let Some(queue) = faults.dice.pick(&CONSUMED) {
        let lost = broker.purge(queue);
        faults.note("weather", || format!("{queue} loses {lost} messages"));
        if lost > 0 {
            faults.seen(|seen| seen.lost_strays.append(&mut seen.strays));
        }
    }
}

/// Now and then somebody deletes a row of the outbox that everybody has consumed. Never ends.
pub(crate) async fn of_the_outbox(plain: &App, faults: &Faults, store: &MemoryStore) {
    let paid = EventType::OrderPaid.as_str();
    let filter = OutboxFilter {
        event_type: Some(paid.to_owned()),
        status: Some(OutboxStatus::Sent),
        ..OutboxFilter::default()
    };
    let takers = standard(plain).iter().filter(|it| it.handler.takes().contains(&paid)).count();
    if !faults.has(Fault::RowDeleted) {
        return;
    }
    loop {
        faults.sleep(faults.dice.millis(500..2_500)).await;
        let Ok(mut view) = store.view().await else { continue };
        let Ok(rows) = view.outbox_view().outbox_page(&filter, None, 20).await else { continue };
        for row in rows {
            let consumed =
                view.outbox_view().consumed_of(std::slice::from_ref(&row.event_id)).await.unwrap_or_default();
            let applied = consumed.iter().filter(|it| it.record.status == ConsumeStatus::Success).count();
            if applied == takers && faults.strikes(Fault::RowDeleted) && store.lose_event(&row.event_id) {
                faults.note("weather", || format!("the row of {} is deleted", row.event_id));
                faults.seen(|seen| seen.deleted.insert(row.event_id));
                break;
            }
        }
    }
}

/// What happens to the clocks of processes and of the database. Never ends.
pub(crate) async fn of_the_clocks(faults: &Faults, clocks: &[FaultyClock], store: &MemoryStore) {
    let dice = &faults.dice;
    for clock in clocks {
        if faults.strikes(Fault::Skew) {
            clock.set_skew(either_way(faults, 2_000));
        }
    }
    loop {
        faults.sleep(dice.millis(500..4_000)).await;
        let Some(clock) = dice.pick(clocks) else { return };
        if faults.strikes(Fault::Step) {
            let by = either_way(faults, 5_000);
            faults.note("weather", || format!("a clock steps by {by} ms"));
            clock.set_skew(by);
        }
        if faults.strikes(Fault::Freeze) {
            faults.note("weather", || "a clock stands".into());
            clock.set_standing(true);
            faults.sleep(dice.millis(100..4_000)).await;
            clock.set_standing(false);
        }
        if faults.strikes(Fault::DatabaseStep) {
            let by = either_way(faults, 300_000);
            faults.note("weather", || format!("the clock of the database steps by {by} ms"));
            store.move_database_clock(chrono::TimeDelta::milliseconds(by));
        }
    }
}

fn either_way(faults: &Faults, most: i64) -> i64 {
    i64::try_from(faults.dice.below(2 * most.unsigned_abs())).unwrap_or(0) - most
}
