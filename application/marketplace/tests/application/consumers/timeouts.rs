//! Unpaid orders are closed at their deadline: by the timeout message or by the sweep.

use handover_events::*;
use handover_outbox::RelaySettings;
use handover_outbox::consumers::Subscriber;
use handover_outbox::jobs::{LEADER_LEASE_MS, Leader};
use handover_outbox::ports::*;
use marketplace::TimeoutSettings;
use marketplace::consumers::TIMEOUT_QUEUE;
use marketplace::jobs::TimeoutSweep;
use marketplace::ports::*;
use marketplace::queues::TIMEOUT_DELAY_QUEUE;
use marketplace::use_cases::PlaceOrder;
use marketplace_domain::*;

use crate::support::{
    BUYER, CommitFault, Process, TENANT, World, by, event_id, eventually, millis, pass, sample, secs,
};

const TIMEOUT_CONSUMER: &str = "order-timeout";
const DEADLINE: std::time::Duration = secs(15 * 60);

fn timeout_consumer(process: &Process) -> Subscriber<Work> {
    process.app.subscribers().into_iter().find(|it| it.name() == TIMEOUT_CONSUMER).unwrap()
}

/// A process that consumes timeout messages.
async fn consuming_timeouts(world: &World) -> Process {
    let process = world.process();
    let subscriber = timeout_consumer(&process);
    process.start_drainer(std::slice::from_ref(&subscriber));
    process.start_consumer(&subscriber, Default::default()).await;
    process
}

fn sweep_of(process: &Process, settings: TimeoutSettings) -> TimeoutSweep {
    TimeoutSweep::new(process.app.tx.clone(), process.app.handlers.clone(), settings)
}

async fn timeout_of(world: &World, order: &Order) -> String {
    let rows = world.rows().await;
    let is = |row: &&OutboxRow| row.event_type == "ORDER_TIMEOUT" && row.aggregate.id == order.id.get();
    rows.iter().find(is).unwrap().event_id.to_string()
}

#[tokio::test(start_paused = true)]
async fn due_timeout_message_closes_the_order_and_frees_its_product() {
    let world = World::new().await;
    let process = consuming_timeouts(&world).await;
    process.start_relay("relay-1", RelaySettings::default());
    let order = process.ordered().await;
    pass(DEADLINE - secs(1)).await;
    assert_eq!(world.order(order.id).await.status, OrderStatus::Pending);
    pass(secs(2)).await;
    let closed = world.order(order.id).await;
    assert_eq!((closed.status, closed.cancel_reason), (OrderStatus::Cancelled, Some(CancelReason::Timeout)));
    assert_eq!(world.product(order.product).await.status, ProductStatus::OnSale);
    assert_eq!(world.history(order.id).await.last().unwrap(), &(2, "ORDER_CANCELLED".to_owned()));
    let rows = world.rows().await;
    let cancelled = rows.iter().find(|row| row.event_type == "ORDER_CANCELLED").unwrap();
    assert_eq!(cancelled.trace_id(), rows[0].trace_id(), "the cancellation must have the trace of the order");
    assert!(world.is_drained(TIMEOUT_QUEUE).await && world.is_drained(TIMEOUT_DELAY_QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn deadline_passed_during_downtime_closes_the_order_after_the_next_start() {
    let world = World::new().await;
    let killed = consuming_timeouts(&world).await;
    killed.start_relay("relay-1", RelaySettings::default());
    let order = killed.ordered().await;
    eventually(secs(10), async || world.depth(TIMEOUT_DELAY_QUEUE).await.ready == 1).await;
    killed.kill().await;
    pass(DEADLINE + secs(60)).await;
    assert_eq!(world.order(order.id).await.status, OrderStatus::Pending);
    let _process = consuming_timeouts(&world).await;
    pass(secs(1)).await;
    let closed = world.order(order.id).await;
    assert_eq!((closed.status, closed.cancel_reason), (OrderStatus::Cancelled, Some(CancelReason::Timeout)));
}

#[tokio::test(start_paused = true)]
async fn early_timeout_message_leaves_the_order_to_the_sweep() {
    let world = World::new().await;
    let process = consuming_timeouts(&world).await;
    let order = process.ordered().await;
    let event = timeout_of(&world, &order).await;
    pass(DEADLINE - secs(1)).await;
    world.deliver(TIMEOUT_QUEUE, &event).await;
    pass(millis(100)).await;
    assert_eq!(world.order(order.id).await, order);
    assert_eq!(world.log_status(TIMEOUT_CONSUMER, &event).await, Some(ConsumeStatus::Success));
    pass(secs(1)).await;
    let sweep = sweep_of(&process, TimeoutSettings::default());
    assert_eq!(sweep.sweep().await.unwrap(), 1);
    assert_eq!(world.order(order.id).await.cancel_reason, Some(CancelReason::Timeout));
    world.deliver(TIMEOUT_QUEUE, &event).await;
    pass(millis(100)).await;
    assert_eq!(world.history(order.id).await.len(), 3, "closed once");
}

#[tokio::test(start_paused = true)]
async fn timeout_message_does_not_change_a_paid_order() {
    let world = World::new().await;
    let process = consuming_timeouts(&world).await;
    let order = process.paid().await;
    let event = timeout_of(&world, &order).await;
    pass(DEADLINE + secs(1)).await;
    world.deliver(TIMEOUT_QUEUE, &event).await;
    pass(millis(100)).await;
    assert_eq!(world.order(order.id).await, order);
    assert_eq!(world.log_status(TIMEOUT_CONSUMER, &event).await, Some(ConsumeStatus::Success));
    assert_eq!(world.product(order.product).await.status, ProductStatus::Sold);
}

#[tokio::test(start_paused = true)]
async fn timeout_message_for_a_missing_order_is_unrecoverable() {
    let world = World::new().await;
    let process = consuming_timeouts(&world).await;
    process.commit(vec![world.event("t-1", 1, &sample::timeout(404, world.now()))]).await;
    world.deliver(TIMEOUT_QUEUE, "t-1").await;
    pass(millis(700)).await;
    let record = world.log(TIMEOUT_CONSUMER, "t-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Dead, 1));
    assert_eq!(world.dead_letters().await[0].reason, "消息消费失败: no such order");
}

#[tokio::test(start_paused = true)]
async fn concurrent_message_and_sweep_close_an_order_once() {
    let world = World::new().await;
    let process = consuming_timeouts(&world).await;
    process.start_relay("relay-1", RelaySettings::default());
    let mut orders = Vec::new();
    for _ in 0..20 {
        orders.push(process.ordered().await);
    }
    let sweeper = world.process();
    pass(DEADLINE).await;
    let sweep = sweep_of(&sweeper, TimeoutSettings::default());
    sweep.sweep().await.unwrap();
    pass(secs(10)).await;
    for order in orders {
        assert_eq!(world.order(order.id).await.cancel_reason, Some(CancelReason::Timeout));
        assert_eq!(world.history(order.id).await.len(), 3, "{}", order.id);
    }
    assert!(world.dead_letters().await.is_empty());
}

fn start(process: &Process, sweep: TimeoutSweep) {
    sweep.start(&Leader::start(&process.app.outbox.tx, "jobs", LEADER_LEASE_MS));
}

/// An older order of a product that does not exist.
async fn without_product(world: &World, order: &Order, id: i64) -> Order {
    let order = Order {
        id: id.try_into().unwrap(),
        product: id.try_into().unwrap(),
        create_time: order.create_time - chrono::TimeDelta::seconds(60),
        ..order.clone()
    };
    let mut unit = world.store.begin().await.unwrap();
    unit.insert_order(&order).await.unwrap();
    unit.commit().await.unwrap();
    order
}

#[tokio::test(start_paused = true)]
async fn sweep_closes_overdue_orders_despite_an_order_that_cannot_be_closed() {
    let world = World::new().await;
    let process = world.process();
    let good = process.ordered().await;
    // The product of an order is unreadable; that of another one is missing. The service never creates such orders.
    let bad = without_product(&world, &good, 9_999).await;
    let lost = without_product(&world, &good, 9_998).await;
    process.faults.corrupt_product(bad.product);
    let sweep = sweep_of(&process, TimeoutSettings::default());
    start(&process, sweep);
    pass(DEADLINE - secs(1)).await;
    assert_eq!(world.order(good.id).await.status, OrderStatus::Pending);
    eventually(secs(32), async || world.order(good.id).await.status == OrderStatus::Cancelled).await;
    assert_eq!(world.order(lost.id).await.status, OrderStatus::Cancelled);
    assert_eq!(world.order(bad.id).await, bad);
    let young = process.ordered().await;
    pass(secs(60)).await;
    assert_eq!(world.order(young.id).await.status, OrderStatus::Pending);
}

#[tokio::test(start_paused = true)]
async fn sweep_ends_during_an_outage_and_continues_after_the_order_of_its_error() {
    let world = World::new().await;
    let process = world.process();
    let [first, second, third] =
        [process.ordered().await.id, process.ordered().await.id, process.ordered().await.id];
    pass(DEADLINE + secs(1)).await;
    let sweep = sweep_of(&process, TimeoutSettings::default());
    process.faults.next_commits([CommitFault::None, CommitFault::Unavailable]);
    let before = process.faults.begun_units();
    let error = sweep.sweep().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert_eq!(process.faults.begun_units() - before, 2);
    process.faults.set_unavailable(false);
    assert_eq!(sweep.sweep().await.unwrap(), 1, "the third order");
    assert_eq!(sweep.sweep().await.unwrap(), 1, "the second order");
    for order in [first, second, third] {
        assert_eq!(world.order(order).await.status, OrderStatus::Cancelled);
    }
}

#[tokio::test(start_paused = true)]
async fn sweep_continues_at_once_while_batches_are_full() {
    let world = World::new().await;
    let process = world.process();
    for _ in 0..25 {
        process.ordered().await;
    }
    pass(DEADLINE + secs(1)).await;
    let settings = TimeoutSettings { sweep_batch: 10.try_into().unwrap(), ..TimeoutSettings::default() };
    start(&process, sweep_of(&process, settings));
    pass(secs(1)).await;
    assert!(world.view().await.orders_overdue(world.now(), None, 100).await.unwrap().is_empty());
}

/// Batches of 10, 10 and 5 orders follow without a pause. After the pause, the sweep begins with the oldest order again.
#[tokio::test(start_paused = true)]
async fn sweep_continues_at_once_after_a_full_batch_with_an_order_that_cannot_be_closed() {
    let world = World::new().await;
    let process = world.process();
    let mut orders = Vec::new();
    for _ in 0..24 {
        orders.push(process.ordered().await.id);
    }
    let first = world.order(orders[0]).await;
    let bad = without_product(&world, &first, 9_999).await;
    process.faults.corrupt_product(bad.product);
    pass(DEADLINE + secs(1)).await;
    let settings = TimeoutSettings { sweep_batch: 10.try_into().unwrap(), ..TimeoutSettings::default() };
    start(&process, sweep_of(&process, settings));
    pass(secs(1)).await;
    for order in orders {
        assert_eq!(world.order(order).await.status, OrderStatus::Cancelled);
    }
    assert_eq!(world.order(bad.id).await, bad);
    let old = without_product(&world, &first, 9_998).await;
    eventually(secs(32), async || world.order(old.id).await.status == OrderStatus::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn sweep_resumes_after_a_store_outage() {
    let world = World::new().await;
    let process = world.process();
    let order = process.ordered().await;
    start(&process, sweep_of(&process, TimeoutSettings::default()));
    process.faults.set_unavailable(true);
    pass(DEADLINE + secs(60)).await;
    process.faults.set_unavailable(false);
    eventually(secs(31), async || world.order(order.id).await.status == OrderStatus::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn product_freed_by_a_timeout_can_be_bought_and_a_duplicate_timeout_changes_nothing() {
    let world = World::new().await;
    let process = consuming_timeouts(&world).await;
    let order = process.ordered().await;
    let event = timeout_of(&world, &order).await;
    pass(DEADLINE).await;
    world.deliver(TIMEOUT_QUEUE, &event).await;
    pass(millis(100)).await;
    let again = process.app.ordering.place(&by(BUYER), PlaceOrder::of(order.product)).await.unwrap();
    world.deliver(TIMEOUT_QUEUE, &event).await;
    pass(secs(1)).await;
    assert_eq!(world.order(again.id).await.status, OrderStatus::Pending);
    let record = world
        .view()
        .await
        .outbox_view()
        .consumption(TIMEOUT_CONSUMER, &event_id(&event))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(record.attempts, 1);
    assert_eq!(TENANT, again.tenant);
}
