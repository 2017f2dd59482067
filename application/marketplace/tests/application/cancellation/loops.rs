//! One window of the relay and one delivery to a consumer, interrupted at every await.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use handover_events::{ConsumeStatus, OutboxStatus};
use handover_outbox::consumers::{Consumer, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::relay::Relay;
use handover_outbox::{ConsumerSettings, RelaySettings, WakeupNotifier};
use marketplace::App;
use marketplace::consumers::{FULFILLMENT_QUEUE, INVENTORY_QUEUE, WEBHOOK_QUEUE};
use marketplace::ports::*;
use marketplace_domain::Order;

use super::world::*;
use super::{Interruption, interrupt_at_every_poll, poll_up_to};
use crate::support::pass;

fn relay(app: &App, wake: &WakeupNotifier, name: &str) -> Relay {
    Relay::new(app.outbox.clone(), wake.clone(), RelayId(name.to_owned()), RelaySettings::default())
}

/// Runs a loop for this number of polls and interrupts it: its future is dropped or its process is killed.
async fn run_and_interrupt(
    app: &App,
    interruption: Interruption,
    polls: usize,
    work: impl Future<Output = ()> + Send + 'static,
) {
    match interruption {
        Interruption::CallerCancelled => {
            let mut work: Pin<Box<dyn Future<Output = ()>>> = Box::pin(work);
            assert!(poll_up_to(&mut work, polls).await.is_none(), "the loop ended before it was stopped");
            drop(work);
            app.tx.tasks().stop().await;
        }
        Interruption::ProcessKilled => {
            drop(app.tx.spawn(work));
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
            app.tx.tasks().kill();
            app.tx.tasks().ended().await;
        }
    }
}

#[test]
fn interrupted_relay_window_is_settled_completely_or_not_at_all() {
    interrupt_at_every_poll("relay window", async |interruption, polls| {
        let world = World::new().await;
        let (app, wake) = world.process();
        // Six independent events: one window contains all of them.
        for _ in 0..3 {
            ordered(&world.process().0).await;
        }
        run_and_interrupt(&app, interruption, polls, relay(&app, &wake, "interrupted").run()).await;
        let sent = world.rows().await.iter().filter(|row| row.status == OutboxStatus::Sent).count();
        assert!(
            sent == 0 || sent == 6,
            "{interruption:?} after {polls} polls: {sent} of 6 rows are SENT, expected 0 or 6"
        );
        let published = world.depth(INVENTORY_QUEUE).await.0;
        assert!(
            published >= sent as u64 / 2,
            "{interruption:?} after {polls} polls: rows became SENT without a publish"
        );
        // The next relay takes over when the lease ends and publishes the remaining rows.
        let (next, wake) = world.process();
        drop(next.tx.spawn(relay(&next, &wake, "next").run()));
        pass(Duration::from_secs(8)).await;
        let rows = world.rows().await;
        assert!(rows.iter().all(|row| row.status == OutboxStatus::Sent && row.retry_count == 0), "{rows:#?}");
        let (ready, _) = world.depth(INVENTORY_QUEUE).await;
        assert!(
            ready == 3 || (ready == 6 && sent == 0),
            "{interruption:?} after {polls} polls: {ready} messages in the queue, expected 3, or 6 if no row was SENT"
        );
        assert_eq!(world.depth(WEBHOOK_QUEUE).await.0, 0, "no endpoint asks for these events");
        ordered(&next).await;
        pass(Duration::from_secs(6)).await;
        assert_eq!(world.depth(INVENTORY_QUEUE).await.0, ready + 1);
        next.tx.tasks().stop().await;
        sent == 6
    });
}

fn fulfillment(app: &App) -> Subscriber<Work> {
    app.subscribers().into_iter().find(|it| it.queue == FULFILLMENT_QUEUE).unwrap()
}

fn consumer(app: &App) -> Consumer {
    Consumer::new(
        app.outbox.clone(),
        fulfillment(app).bind(app.tx.store()),
        Arc::new(ConsumerSettings::default()),
    )
}

/// A paid order and the outbox row of its ORDER_PAID event, whose message is in the queue of the consumer
/// `fulfillment`.
async fn delivered(world: &World) -> (Order, OutboxRow) {
    let (app, wake) = world.process();
    marketplace::service::prepare(&app).await.unwrap();
    let order = paid(&app).await;
    drop(app.tx.spawn(relay(&app, &wake, "before").run()));
    pass(Duration::from_secs(1)).await;
    app.tx.tasks().stop().await;
    let row = world.rows().await.into_iter().find(|row| row.event_type == "ORDER_PAID").unwrap();
    assert_eq!(world.depth(FULFILLMENT_QUEUE).await, (1, 0));
    (order, row)
}

async fn effect_and_log(world: &World, order: &Order, row: &OutboxRow) -> (usize, Option<ConsumeStatus>) {
    let mut view = world.view().await;
    let tasks = view.shipment_tasks(TENANT, &[order.id]).await.unwrap();
    let record = view.outbox_view().consumption("fulfillment", &row.event_id).await.unwrap();
    (tasks.len(), record.map(|record| record.status))
}

#[test]
fn interrupted_delivery_takes_effect_once_with_its_consume_record() {
    interrupt_at_every_poll("delivery", async |interruption, polls| {
        let world = World::new().await;
        let (order, row) = delivered(&world).await;
        let (app, _) = world.process();
        run_and_interrupt(&app, interruption, polls, consumer(&app).run()).await;
        let (effects, status) = effect_and_log(&world, &order, &row).await;
        assert_eq!(
            effects == 1,
            status == Some(ConsumeStatus::Success),
            "{interruption:?} after {polls} polls: {effects} effects and status {status:?}, \
             expected 1 effect exactly if the status is SUCCESS"
        );
        let (ready, unacked) = world.depth(FULFILLMENT_QUEUE).await;
        assert_eq!(
            unacked, 0,
            "{interruption:?} after {polls} polls: deliveries of the ended subscription were not requeued"
        );
        assert!(effects == 1 || ready == 1, "{interruption:?} after {polls} polls: acked before the commit");
        finish(&world, &order, &row).await;
        effects == 1 && ready == 0
    });
}

#[test]
fn interrupted_redelivery_takes_effect_once_with_its_consume_record() {
    interrupt_at_every_poll("redelivery", async |interruption, polls| {
        let world = World::new().await;
        let (order, row) = delivered(&world).await;
        let subscription = world.broker().subscribe(FULFILLMENT_QUEUE, 1.try_into().unwrap()).await.unwrap();
        assert_eq!(subscription.next().await.unwrap().len(), 1);
        drop(subscription);
        let (app, _) = world.process();
        run_and_interrupt(&app, interruption, polls, consumer(&app).run()).await;
        let (effects, status) = effect_and_log(&world, &order, &row).await;
        assert_eq!(
            effects == 1,
            status == Some(ConsumeStatus::Success),
            "{interruption:?} after {polls} polls: {effects} effects and status {status:?}, \
             expected 1 effect exactly if the status is SUCCESS"
        );
        let (ready, unacked) = world.depth(FULFILLMENT_QUEUE).await;
        assert_eq!(unacked, 0);
        assert!(effects == 1 || ready == 1, "{interruption:?} after {polls} polls: acked before the commit");
        finish(&world, &order, &row).await;
        effects == 1 && ready == 0
    });
}

/// Checks that the event is applied once after the next process has run for 40 s, longer than the lease of an attempt.
async fn finish(world: &World, order: &Order, row: &OutboxRow) {
    let (next, _) = world.process();
    drop(next.tx.spawn(consumer(&next).run()));
    pass(Duration::from_secs(40)).await;
    assert_eq!(effect_and_log(world, order, row).await, (1, Some(ConsumeStatus::Success)));
    assert_eq!(world.depth(FULFILLMENT_QUEUE).await, (0, 0));
    assert_eq!(world.view().await.outbox_view().undecided_dead_letters(None).await.unwrap(), []);
    next.tx.tasks().stop().await;
}
