//! Locks and time-outs of one delivery: the others do not wait for them.

use handover_events::*;
use handover_outbox::consumers::Subscriber;
use handover_outbox::ports::*;
use marketplace::handlers::standard;
use marketplace::ports::*;
use marketplace::queues::CREDIT_QUEUE;
use marketplace::use_cases::{PlaceOrder, cancel_order, place_order};
use marketplace_domain::*;

use super::scripted::{Act, NAME, consuming};
use crate::support::{BUYER, Process, TENANT, World, by, event_id, eventually, pass, secs};

const CREDIT: &str = "buyer-credit";
const OTHER: i64 = BUYER + 1;

/// The event of an order that this buyer placed and cancelled; its message arrives.
async fn cancelled(world: &World, process: &Process, buyer: i64) -> String {
    let product = process.listed().await.id;
    let order = place_order(&process.app, &by(buyer), PlaceOrder::of(product)).await.unwrap();
    cancel_order(&process.app, &by(buyer), order.id).await.unwrap();
    let rows = world.rows().await;
    let is_it = |row: &&OutboxRow| row.event_type == "ORDER_CANCELLED" && row.aggregate.id == order.id.get();
    let id = rows.iter().find(is_it).unwrap().event_id.to_string();
    world.deliver(CREDIT_QUEUE, &id).await;
    id
}

fn credit_of(process: &Process) -> Subscriber<Work> {
    standard(&process.app).into_iter().find(|it| it.handler.name() == CREDIT).unwrap()
}

/// Somebody else's transaction that has locked the row of [`BUYER`].
async fn holder(world: &World) -> Box<Work> {
    let mut holder = world.store.begin().await.unwrap();
    let change = CreditChange {
        tenant: TENANT,
        buyer: BUYER.try_into().unwrap(),
        order: 999.try_into().unwrap(),
        aggregate_seq: 1,
        step: CreditStep::Completed,
        event_id: event_id("of-the-holder"),
        at: world.now(),
    };
    holder.change_credit(&[change]).await.unwrap();
    holder
}

async fn counted(world: &World, buyer: i64) -> u32 {
    let credit = world.view().await.credit_of(TENANT, buyer.try_into().unwrap()).await.unwrap();
    credit.map_or(0, |credit| credit.counts.cancelled_by_buyer)
}

/// More events of the buyer whose row is locked than a consumer has in hand at a time, and others between and behind them.
#[tokio::test(start_paused = true)]
async fn events_that_need_a_locked_row_hold_up_no_other_and_are_applied_after_it() {
    let world = World::new().await;
    let process = world.process();
    process.start_consumer(&credit_of(&process), Default::default()).await;
    let holder = holder(&world).await;
    let mut events = Vec::new();
    for number in 1..=60 {
        let buyer = if number % 6 == 0 { OTHER } else { BUYER };
        events.push(cancelled(&world, &process, buyer).await);
    }
    eventually(secs(10), async || counted(&world, OTHER).await == 10).await;
    pass(secs(50)).await;
    assert_eq!(counted(&world, BUYER).await, 0);
    holder.commit().await.unwrap();
    eventually(secs(20), async || counted(&world, BUYER).await == 50).await;
    for event in events {
        let record = world.log(CREDIT, &event).await.unwrap();
        assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 1), "{event}");
    }
    assert!(world.is_drained(CREDIT_QUEUE).await && world.letters().await.is_empty());
}

/// The process that had the event before may have been killed by it, so its attempt is counted before it runs; a lock
/// that somebody else keeps for minutes is still no attempt.
#[tokio::test(start_paused = true)]
async fn a_redelivered_event_that_needs_a_locked_row_spends_no_attempt() {
    let world = World::new().await;
    let process = world.process();
    process.start_consumer(&credit_of(&process), Default::default()).await;
    process.kill().await;
    let process = world.process();
    let event = cancelled(&world, &process, BUYER).await;
    let subscription = world.broker.subscribe(CREDIT_QUEUE, 1.try_into().unwrap()).await.unwrap();
    let tags: Vec<DeliveryTag> = subscription.next().await.unwrap().iter().map(|it| it.tag).collect();
    subscription.nack(&tags, Requeue::Yes).await.unwrap();
    drop(subscription);
    let holder = holder(&world).await;
    process.start_consumer(&credit_of(&process), Default::default()).await;
    pass(secs(300)).await;
    assert_eq!(world.log(CREDIT, &event).await.unwrap().attempts, 0);
    drop(holder);
    eventually(secs(20), async || counted(&world, BUYER).await == 1).await;
    assert_eq!(world.log(CREDIT, &event).await.unwrap().attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_with_one_event_holds_up_no_other() {
    let act = |ids: &[String], _| if ids.iter().any(|id| id == "bad") { Act::Hang } else { Act::Apply };
    let (world, process, _) = consuming(act).await;
    for (id, order) in [("good-1", 1), ("bad", 2), ("good-2", 3)] {
        world.arrived(&process, id, order, 1).await;
    }
    eventually(secs(3), async || world.effects(1).await.len() + world.effects(3).await.len() == 2).await;
    // And those that come later are not asked to wait for it in a group.
    world.arrived(&process, "good-3", 4, 1).await;
    eventually(secs(1), async || world.effects(4).await.len() == 1).await;
    pass(secs(60)).await;
    assert_eq!(world.log_status(NAME, "bad").await, Some(ConsumeStatus::Dead));
}
