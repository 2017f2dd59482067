//! Lock waits and timeouts of one delivery do not delay other deliveries.

use handover_events::*;
use handover_outbox::consumers::Subscriber;
use handover_outbox::ports::*;
use marketplace::consumers::CREDIT_QUEUE;
use marketplace::ports::*;
use marketplace::use_cases::PlaceOrder;
use marketplace_domain::*;

use super::scripted::{Act, NAME, consuming};
use crate::support::{BUYER, Process, TENANT, World, by, event_id, eventually, pass, secs};

const CREDIT: &str = "buyer-credit";
const OTHER: i64 = BUYER + 1;

/// Places and cancels an order of this buyer, delivers the cancellation event and returns its id.
async fn cancelled_order_event(world: &World, process: &Process, buyer: i64) -> String {
    let product = process.listed().await.id;
    let order = process.app.ordering.place(&by(buyer), PlaceOrder::of(product)).await.unwrap();
    process.app.ordering.cancel(&by(buyer), order.id).await.unwrap();
    let rows = world.rows().await;
    let is_it = |row: &&OutboxRow| row.event_type == "ORDER_CANCELLED" && row.aggregate.id == order.id.get();
    let id = rows.iter().find(is_it).unwrap().event_id.to_string();
    world.deliver(CREDIT_QUEUE, &id).await;
    id
}

fn credit_consumer(process: &Process) -> Subscriber<Work> {
    process.app.subscribers().into_iter().find(|it| it.name() == CREDIT).unwrap()
}

/// Begins another transaction that locks the credit row of [`BUYER`].
async fn lock_holder(world: &World) -> Box<Work> {
    let mut unit = world.store.begin().await.unwrap();
    let change = CreditChange {
        tenant: TENANT,
        buyer: BUYER.try_into().unwrap(),
        order: 999.try_into().unwrap(),
        aggregate_seq: 1,
        step: CreditOutcome::Completed,
        event_id: event_id("of-the-lock-holder"),
        at: world.now(),
    };
    unit.change_credit(&[change]).await.unwrap();
    unit
}

async fn cancellation_count(world: &World, buyer: i64) -> u32 {
    let credit = world.view().await.credit_of(TENANT, buyer.try_into().unwrap()).await.unwrap();
    credit.map_or(0, |credit| credit.counts.cancelled_by_buyer)
}

/// The buyer whose row is locked has more events than a consumer processes at a time, mixed with events of another
/// buyer.
#[tokio::test(start_paused = true)]
async fn events_blocked_by_a_row_lock_do_not_delay_others_and_are_applied_when_the_lock_ends() {
    let world = World::new().await;
    let process = world.process();
    process.start_consumer(&credit_consumer(&process), Default::default()).await;
    let lock_holder = lock_holder(&world).await;
    let mut events = Vec::new();
    for number in 1..=60 {
        let buyer = if number % 6 == 0 { OTHER } else { BUYER };
        events.push(cancelled_order_event(&world, &process, buyer).await);
    }
    eventually(secs(10), async || cancellation_count(&world, OTHER).await == 10).await;
    pass(secs(50)).await;
    assert_eq!(cancellation_count(&world, BUYER).await, 0);
    lock_holder.commit().await.unwrap();
    eventually(secs(20), async || cancellation_count(&world, BUYER).await == 50).await;
    for event in events {
        let record = world.log(CREDIT, &event).await.unwrap();
        assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 1), "{event}");
    }
    assert!(world.is_drained(CREDIT_QUEUE).await && world.dead_letters().await.is_empty());
}

/// A redelivered event may have killed the previous process, so an attempt is normally counted before it runs. An
/// attempt that only waits for a lock MUST NOT be counted.
#[tokio::test(start_paused = true)]
async fn redelivered_event_blocked_by_a_row_lock_spends_no_attempt() {
    let world = World::new().await;
    let process = world.process();
    process.start_consumer(&credit_consumer(&process), Default::default()).await;
    process.kill().await;
    let process = world.process();
    let event = cancelled_order_event(&world, &process, BUYER).await;
    let subscription = world.broker.subscribe(CREDIT_QUEUE, 1.try_into().unwrap()).await.unwrap();
    let tags: Vec<DeliveryTag> = subscription.next().await.unwrap().iter().map(|it| it.tag).collect();
    subscription.nack(&tags, Requeue::Yes).await.unwrap();
    drop(subscription);
    let lock_holder = lock_holder(&world).await;
    process.start_consumer(&credit_consumer(&process), Default::default()).await;
    pass(secs(300)).await;
    assert_eq!(world.log(CREDIT, &event).await.unwrap().attempts, 0);
    drop(lock_holder);
    eventually(secs(20), async || cancellation_count(&world, BUYER).await == 1).await;
    assert_eq!(world.log(CREDIT, &event).await.unwrap().attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn hanging_event_does_not_delay_others() {
    let act = |ids: &[String], _| if ids.iter().any(|id| id == "bad") { Act::Hang } else { Act::Apply };
    let (world, process, _) = consuming(act).await;
    for (id, order) in [("good-1", 1), ("bad", 2), ("good-2", 3)] {
        world.commit_and_deliver(&process, id, order, 1).await;
    }
    eventually(secs(3), async || world.effects(1).await.len() + world.effects(3).await.len() == 2).await;
    // A delivery that arrives while the handler hangs in the event `bad` does not wait for that event.
    world.commit_and_deliver(&process, "good-3", 4, 1).await;
    eventually(secs(1), async || world.effects(4).await.len() == 1).await;
    pass(secs(60)).await;
    assert_eq!(world.log_status(NAME, "bad").await, Some(ConsumeStatus::Dead));
}
