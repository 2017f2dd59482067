//! The consumers of the service and its topology.

use std::collections::BTreeSet;

use handover_events::*;
use handover_outbox::ConsumerSettings;
use handover_outbox::ports::*;
use handover_outbox::topology::topic_matches;
use marketplace::Settings;
use marketplace::consumers;
use marketplace::ports::*;
use marketplace::queues::{DEAD_LETTER_KEY, DEFAULT_TIMEOUT, timeout_delay_key};
use marketplace::service;
use marketplace_domain::*;

use crate::support::{BUYER, SELLER, TENANT, World, by, eventually, pass, secs};

fn routing_key(event_type: EventKind, timeout: std::time::Duration) -> String {
    if event_type == EventKind::OrderTimeout {
        timeout_delay_key(timeout)
    } else {
        event_type.routing_key().to_owned()
    }
}

#[test]
fn every_event_type_has_a_queue() {
    for timeout in [DEFAULT_TIMEOUT, secs(30)] {
        let topology = consumers::topology(timeout);
        for event_type in EventKind::ALL {
            let key = routing_key(*event_type, timeout);
            let matching_queues = topology
                .queues
                .iter()
                .filter(|queue| queue.bindings.iter().any(|it| topic_matches(it, &key)));
            assert!(matching_queues.count() > 0, "no queue is bound to {key}");
        }
    }
}

#[test]
fn every_dead_letter_key_routes_to_one_queue() {
    let topology = consumers::topology(DEFAULT_TIMEOUT);
    for queue in &topology.queues {
        let Some(key) = &queue.dead_letter_key else { continue };
        let is_bound = |other: &&_| -> bool {
            let other: &&handover_outbox::topology::QueueSpec = other;
            other.bindings.iter().any(|binding| topic_matches(binding, key))
        };
        assert_eq!(
            topology.queues.iter().filter(is_bound).count(),
            1,
            "number of queues bound to {key}, the dead-letter key of {}",
            queue.name
        );
    }
    assert!(topic_matches("order.dlq", DEAD_LETTER_KEY));
}

#[test]
fn documented_consumers_are_the_consumers_of_the_service() {
    const PAGE: &str = include_str!("../../../../../bootstrap/docs/order-processing.md");
    let rows = consumers::standard();
    let rows = rows.iter().map(|consumer| {
        let queue = consumer.queue(DEFAULT_TIMEOUT).name;
        format!("| {} | `{queue}` | {} |\n", consumer.name(), consumer.effect())
    });
    let table = format!("| consumer | its queue | effect |\n|---|---|---|\n{}\n", rows.collect::<String>());
    assert!(PAGE.contains(&table), "the page must contain this table:\n{table}");
}

#[tokio::test]
async fn each_consumer_has_its_own_queue_bound_only_to_its_event_types() {
    let world = World::new().await;
    let process = world.process();
    let topology = consumers::topology(DEFAULT_TIMEOUT);
    let subscribers = process.app.subscribers();
    let queues: BTreeSet<&str> = subscribers.iter().map(|it| it.queue.as_ref()).collect();
    let names: BTreeSet<&str> = subscribers.iter().map(|it| it.name()).collect();
    assert_eq!((queues.len(), names.len()), (subscribers.len(), subscribers.len()));
    for subscriber in &subscribers {
        let queue = topology.queues.iter().find(|queue| queue.name == subscriber.queue).unwrap();
        let is_bound_to = |key: &str| queue.bindings.iter().any(|binding| topic_matches(binding, key));
        for event_type in EventKind::ALL {
            let handles = subscriber.event_types().contains(&event_type.as_str());
            // A timeout message arrives with the dead-letter routing key of the delay queue.
            let key = if *event_type == EventKind::OrderTimeout {
                "order.timeout"
            } else {
                event_type.routing_key()
            };
            assert_eq!(is_bound_to(key), handles, "{} and {event_type}", subscriber.queue);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn service_delivers_every_event_of_two_orders_to_its_consumers() {
    let world = World::new().await;
    let process = world.process();
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, &Settings::default());
    let sold = process.paid().await;
    let shipment = Shipment::new("SF".into(), "SF1".into()).unwrap();
    process.app.ordering.ship(&by(SELLER), sold.id, shipment).await.unwrap();
    process.app.ordering.complete(&by(BUYER), sold.id).await.unwrap();
    let cancelled = process.ordered().await;
    process.app.ordering.cancel(&by(BUYER), cancelled.id).await.unwrap();
    pass(secs(2)).await;
    let rows = world.rows().await;
    assert!(rows.iter().all(|row| row.status == OutboxStatus::Sent));
    for subscriber in process.app.subscribers() {
        for row in &rows {
            let takes = subscriber.event_types().contains(&row.event_type.as_str());
            let handles = takes && !row.idle_consumers.contains(subscriber.name());
            let expected = (handles && row.event_type != "ORDER_TIMEOUT").then_some(ConsumeStatus::Success);
            let name = subscriber.name();
            let id = row.event_id.as_str();
            assert_eq!(world.log_status(name, id).await, expected, "{name} and {}", row.event_type);
        }
    }
    let idle = |event_type: &str| {
        let row = rows.iter().find(|row| row.event_type == event_type).unwrap();
        row.idle_consumers.names().collect::<Vec<_>>()
    };
    let all = ["coupon", "points", "wallet", "webhooks"];
    assert_eq!((idle("ORDER_CREATED"), idle("ORDER_CANCELLED")), (all.to_vec(), all.to_vec()));
    assert_eq!(idle("ORDER_PAID"), ["coupon", "wallet", "webhooks"]);
    assert_eq!((idle("ORDER_TIMEOUT"), idle("ORDER_STATUS_CHANGED")), (vec![], vec!["webhooks"]));
    let mut view = world.view().await;
    let kinds = async |view: &mut dyn MarketView, order: &Order| -> Vec<ListingChangeKind> {
        let changes = view.listing_changes(TENANT, &[order.id]).await.unwrap();
        changes.iter().map(|change| change.kind).collect()
    };
    assert_eq!(kinds(view.as_mut(), &sold).await, [ListingChangeKind::Occupied]);
    assert_eq!(
        kinds(view.as_mut(), &cancelled).await,
        [ListingChangeKind::Occupied, ListingChangeKind::Released]
    );
    assert_eq!(view.shipment_tasks(TENANT, &[sold.id]).await.unwrap().len(), 1);
    let listing = view.listing_of(TENANT, SELLER.try_into().unwrap()).await.unwrap();
    let occupants: Vec<Option<OrderId>> = listing.iter().map(|entry| entry.taken_by).collect();
    assert_eq!(occupants, [Some(sold.id), None]);
    let notifications = view.notifications_about(TENANT, &[sold.id]).await.unwrap();
    let notifications: Vec<_> =
        notifications.iter().map(|it| (it.side, it.recipient.get(), it.new_status)).collect();
    let both = |status| [(OrderSide::Buyer, BUYER, status), (OrderSide::Seller, SELLER, status)];
    assert_eq!(notifications, [both(OrderStatus::Shipped), both(OrderStatus::Completed)].concat());
    assert_eq!(view.notifications_about(TENANT, &[cancelled.id]).await.unwrap(), []);
    for (order, step) in [(&sold, CreditOutcome::Completed), (&cancelled, CreditOutcome::CancelledByBuyer)] {
        let changes = view.credit_changes(TENANT, &[order.id]).await.unwrap();
        assert_eq!(changes.iter().map(|it| it.step).collect::<Vec<_>>(), [step]);
    }
    let credit = view.credit_of(TENANT, BUYER.try_into().unwrap()).await.unwrap().unwrap();
    assert_eq!(credit.score, 99);
    process.app.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn late_release_does_not_free_a_product_taken_by_a_newer_order() {
    let world = World::new().await;
    let process = world.process();
    let subscribers = process.app.subscribers();
    let inventory = subscribers.into_iter().find(|it| it.name() == "inventory").unwrap();
    process.start_consumer(&inventory, ConsumerSettings::default()).await;
    let old = process.ordered().await;
    process.app.ordering.cancel(&by(BUYER), old.id).await.unwrap();
    let command = marketplace::use_cases::PlaceOrder::of(old.product);
    let new = process.app.ordering.place(&by(11), command).await.unwrap();
    let rows = world.rows().await;
    let id = |order: &Order, event_type: &str| {
        let is = |row: &&OutboxRow| row.aggregate.id == order.id.get() && row.event_type == event_type;
        rows.iter().find(is).unwrap().event_id.to_string()
    };
    // The cancellation is delivered late, after another order for the product was placed.
    for (order, event_type) in [(&old, "ORDER_CREATED"), (&new, "ORDER_CREATED"), (&old, "ORDER_CANCELLED")] {
        world.deliver(&inventory.queue, &id(order, event_type)).await;
        eventually(secs(1), async || world.is_drained(&inventory.queue).await).await;
    }
    let listing = world.view().await.listing_of(TENANT, SELLER.try_into().unwrap()).await.unwrap();
    assert_eq!(listing[0].taken_by, Some(new.id));
}
