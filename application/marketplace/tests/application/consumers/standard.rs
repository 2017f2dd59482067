//! The service's own consumers and its topology.

use std::collections::BTreeSet;

use handover_events::*;
use handover_outbox::ConsumerSettings;
use handover_outbox::ports::*;
use handover_outbox::topology::topic_matches;
use marketplace::Settings;
use marketplace::ports::*;
use marketplace::queues::{self, DEAD_LETTER_KEY, DEFAULT_TIMEOUT, timeout_delay_key};
use marketplace::service::{self, Roles};
use marketplace::use_cases::{cancel_order, complete_order, ship_order};
use marketplace_domain::*;

use crate::support::{BUYER, SELLER, TENANT, World, by, eventually, pass, secs};

fn routing_key(event_type: EventType, timeout: std::time::Duration) -> String {
    if event_type == EventType::OrderTimeout {
        timeout_delay_key(timeout)
    } else {
        event_type.routing_key().to_owned()
    }
}

#[test]
fn every_event_type_has_a_queue() {
    for timeout in [DEFAULT_TIMEOUT, secs(30)] {
        let topology = queues::topology(timeout);
        for event_type in EventType::ALL {
            let key = routing_key(*event_type, timeout);
            let taking = topology
                .queues
                .iter()
                .filter(|queue| queue.bindings.iter().any(|it| topic_matches(it, &key)));
            assert!(taking.count() > 0, "no queue takes {key}");
        }
    }
}

#[test]
fn every_dead_letter_key_leads_to_a_queue() {
    let topology = queues::topology(DEFAULT_TIMEOUT);
    for queue in &topology.queues {
        let Some(key) = &queue.dead_letter_key else { continue };
        let takes = |other: &&_| -> bool {
            let other: &&handover_outbox::topology::QueueSpec = other;
            other.bindings.iter().any(|binding| topic_matches(binding, key))
        };
        assert_eq!(topology.queues.iter().filter(takes).count(), 1, "{} dies by {key}", queue.name);
    }
    assert!(topic_matches("order.dlq", DEAD_LETTER_KEY));
}

#[tokio::test]
async fn each_consumer_has_its_own_queue_which_brings_it_only_what_it_takes() {
    let world = World::new().await;
    let process = world.process();
    let topology = queues::topology(DEFAULT_TIMEOUT);
    let subscribers = marketplace::handlers::standard(&process.app);
    let queues: BTreeSet<&str> = subscribers.iter().map(|it| it.queue).collect();
    let names: BTreeSet<&str> = subscribers.iter().map(|it| it.handler.name()).collect();
    assert_eq!((queues.len(), names.len()), (subscribers.len(), subscribers.len()));
    for subscriber in &subscribers {
        let queue = topology.queues.iter().find(|queue| queue.name == subscriber.queue).unwrap();
        let brings = |key: &str| queue.bindings.iter().any(|binding| topic_matches(binding, key));
        for event_type in EventType::ALL {
            let takes = subscriber.handler.takes().contains(&event_type.as_str());
            // A timeout arrives under the key that it is dead-lettered with.
            let key = if *event_type == EventType::OrderTimeout {
                "order.timeout"
            } else {
                event_type.routing_key()
            };
            assert_eq!(brings(key), takes, "{} and {event_type}", subscriber.queue);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_whole_service_brings_every_event_of_two_orders_to_every_consumer() {
    let world = World::new().await;
    let process = world.process();
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, Roles::ALL, &Settings::default());
    let sold = process.paid().await;
    let shipment = Shipment::new("SF".into(), "SF1".into()).unwrap();
    ship_order(&process.app, &by(SELLER), sold.id, shipment).await.unwrap();
    complete_order(&process.app, &by(BUYER), sold.id).await.unwrap();
    let cancelled = process.ordered().await;
    cancel_order(&process.app, &by(BUYER), cancelled.id).await.unwrap();
    pass(secs(2)).await;
    let rows = world.rows().await;
    assert!(rows.iter().all(|row| row.status == OutboxStatus::Sent));
    for subscriber in marketplace::handlers::standard(&process.app) {
        for row in &rows {
            let takes = subscriber.handler.takes().contains(&row.event_type.as_str());
            let expected = (takes && row.event_type != "ORDER_TIMEOUT").then_some(ConsumeStatus::Success);
            let (name, id) = (subscriber.handler.name(), row.event_id.as_str());
            assert_eq!(world.log_status(name, id).await, expected, "{name} and {}", row.event_type);
        }
    }
    let mut view = world.view().await;
    let kinds = async |view: &mut dyn MarketView, order: &Order| -> Vec<ListingChangeKind> {
        let changes = view.listing_changes(TENANT, order.id).await.unwrap();
        changes.iter().map(|change| change.kind).collect()
    };
    assert_eq!(kinds(view.as_mut(), &sold).await, [ListingChangeKind::Occupied]);
    assert_eq!(
        kinds(view.as_mut(), &cancelled).await,
        [ListingChangeKind::Occupied, ListingChangeKind::Released]
    );
    assert_eq!(view.shipment_tasks(TENANT, sold.id).await.unwrap().len(), 1);
    let listing = view.listing_of(TENANT, SELLER.try_into().unwrap()).await.unwrap();
    let taken: Vec<Option<OrderId>> = listing.iter().map(|entry| entry.taken_by).collect();
    assert_eq!(taken, [Some(sold.id), None]);
    let told = view.notifications_about(TENANT, sold.id).await.unwrap();
    let told: Vec<_> = told.iter().map(|it| (it.side, it.recipient.get(), it.new_status)).collect();
    let both = |status| [(OrderSide::Buyer, BUYER, status), (OrderSide::Seller, SELLER, status)];
    assert_eq!(told, [both(OrderStatus::Shipped), both(OrderStatus::Completed)].concat());
    assert_eq!(view.notifications_about(TENANT, cancelled.id).await.unwrap(), []);
    for (order, step) in [(&sold, CreditStep::Completed), (&cancelled, CreditStep::CancelledByBuyer)] {
        let changes = view.credit_changes(TENANT, order.id).await.unwrap();
        assert_eq!(changes.iter().map(|it| it.step).collect::<Vec<_>>(), [step]);
    }
    let credit = view.credit_of(TENANT, BUYER.try_into().unwrap()).await.unwrap().unwrap();
    assert_eq!(credit.score, 99);
    process.app.tx.tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_release_does_not_undo_a_newer_hold() {
    let world = World::new().await;
    let process = world.process();
    let subscribers = marketplace::handlers::standard(&process.app);
    let inventory = subscribers.into_iter().find(|it| it.handler.name() == "inventory").unwrap();
    process.start_consumer(&inventory, ConsumerSettings::default()).await;
    let old = process.ordered().await;
    cancel_order(&process.app, &by(BUYER), old.id).await.unwrap();
    let command = marketplace::use_cases::PlaceOrder::of(old.product);
    let new = marketplace::use_cases::place_order(&process.app, &by(11), command).await.unwrap();
    let rows = world.rows().await;
    let id = |order: &Order, event_type: &str| {
        let is = |row: &&OutboxRow| row.aggregate.id == order.id.get() && row.event_type == event_type;
        rows.iter().find(is).unwrap().event_id.to_string()
    };
    // The cancellation failed to be published; it comes when the product is another order's.
    for (order, event_type) in [(&old, "ORDER_CREATED"), (&new, "ORDER_CREATED"), (&old, "ORDER_CANCELLED")] {
        world.deliver(inventory.queue, &id(order, event_type)).await;
        eventually(secs(1), async || world.is_drained(inventory.queue).await).await;
    }
    let listing = world.view().await.listing_of(TENANT, SELLER.try_into().unwrap()).await.unwrap();
    assert_eq!(listing[0].taken_by, Some(new.id));
}
