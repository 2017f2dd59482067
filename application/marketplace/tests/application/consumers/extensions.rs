//! Event types and consumers of a service that is built on these crates.

use std::sync::Arc;

use async_trait::async_trait;
use handover_application::ports::*;
use handover_application::service::{self, Roles};
use handover_application::{Extensions, Marketplace, Settings};
use handover_domain::UserId;
use handover_events::{AggregateRef, ConsumeStatus, OutboxStatus};
use handover_outbox::consumers::{Applied, Consumer, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::{EventSpec, RelaySettings};

use super::scripted::leave_effect;
use crate::support::{TENANT, World, event_id, eventually, millis, secs};

const QUEUE: &str = "library.loans.queue";

/// Opens a shipment task per lent book.
struct Loans;

#[derive(serde::Deserialize)]
struct Lent {
    reader: i64,
}

#[async_trait]
impl Handler<Work> for Loans {
    fn name(&self) -> &'static str {
        "loans"
    }

    fn takes(&self) -> &'static [&'static str] {
        &["BOOK_LENT", "ORDER_CREATED", "ORDER_TIMEOUT", "REMINDER"]
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        for event in events {
            let lent: Lent = event.payload()?;
            UserId::try_from(lent.reader).map_err(|_| HandlerError::Unrecoverable("who?".into()))?;
            leave_effect(unit, event, event.row.create_time).await?;
        }
        Ok(events.iter().map(|_| Applied::default()).collect())
    }
}

fn extensions(marketplace: Marketplace) -> Extensions {
    let loans = Subscriber { queue: QUEUE, handler: Arc::new(Loans) };
    Extensions::new(marketplace).event(EventSpec::new("BOOK_LENT", "book.lent")).consumer(loans, &["book.*"])
}

fn book(world: &World, id: &str, event_type: &str, book: i64, seq: i64, payload: &str) -> NewEvent {
    NewEvent {
        event_id: event_id(id),
        event_type: event_type.to_owned(),
        aggregate: AggregateRef { tenant: TENANT, kind: "Book".to_owned(), id: book },
        aggregate_seq: seq,
        payload: payload.to_owned(),
        metadata: EventMetadata::default(),
        occurred_at: world.now(),
        max_retry_count: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_an_added_type_take_the_whole_way_once_and_in_order() {
    for marketplace in [Marketplace::Runs, Marketplace::Absent] {
        let world = World::new().await;
        let mut process = world.process();
        process.app = process.app.clone().extended(extensions(marketplace));
        service::prepare(&process.app).await.unwrap();
        service::start(&process.app, &process.wake, Roles::ALL, &Settings::default());
        let lent = |id: &str, seq| book(&world, id, "BOOK_LENT", 7, seq, r#"{"reader":3}"#);
        process.commit(vec![lent("first", 1), lent("second", 2)]).await;
        eventually(secs(5), async || world.effects(7).await == ["first", "second"]).await;
        world.deliver(QUEUE, "first").await;
        eventually(secs(5), async || world.depth(QUEUE).await.ready == 0).await;
        assert_eq!(world.effects(7).await, ["first", "second"], "the second copy changes nothing");
        let queues = process.app.outbox.topology.queues.len();
        assert_eq!(queues, if marketplace == Marketplace::Runs { 12 } else { 2 }, "{marketplace:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_does_not_fit_and_a_type_without_a_route_are_parked_where_a_person_sees_them() {
    let world = World::new().await;
    let mut process = world.process();
    process.app = process.app.clone().extended(extensions(Marketplace::Absent));
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, Roles::ALL, &Settings::default());
    process
        .commit(vec![
            book(&world, "broken", "BOOK_LENT", 1, 1, r#"{"reader":"ann"}"#),
            book(&world, "burnt", "BOOK_BURNT", 2, 1, "{}"),
            book(&world, "fine", "BOOK_LENT", 3, 1, r#"{"reader":3}"#),
        ])
        .await;
    eventually(secs(5), async || world.effects(3).await == ["fine"]).await;
    eventually(secs(5), async || world.letters().await.len() == 1).await;
    let letters = world.letters().await;
    assert_eq!((letters[0].queue.as_str(), letters[0].key.as_str()), (QUEUE, "broken"));
    assert!(letters[0].reason.contains("the payload of BOOK_LENT does not fit"), "{}", letters[0].reason);
    assert_eq!(world.log_status("loans", "broken").await, Some(ConsumeStatus::Dead));
    eventually(millis(500), async || world.status("burnt").await == OutboxStatus::Failed).await;
    let error = world.row("burnt").await.last_error.unwrap_or_default();
    assert!(error.contains("事件类型不支持: BOOK_BURNT"), "{error}");
}

/// Names are the service's own: without the marketplace, ORDER_CREATED is whatever the service says.
#[tokio::test(start_paused = true)]
async fn a_type_of_another_service_may_have_a_name_of_the_marketplace() {
    let world = World::new().await;
    let mut process = world.process();
    let loans = Subscriber { queue: QUEUE, handler: Arc::new(Loans) };
    let added = EventSpec::new("ORDER_CREATED", "book.ordered");
    let extensions = Extensions::new(Marketplace::Absent).event(added).consumer(loans, &["book.*"]);
    process.app = process.app.clone().extended(extensions);
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, Roles::ALL, &Settings::default());
    let ordered =
        |id: &str, seq| book(&world, id, "ORDER_CREATED", 7, seq, r#"{"reader":3,"orderId":"A-1"}"#);
    process.commit(vec![ordered("first", 1), ordered("second", 2)]).await;
    eventually(secs(5), async || world.effects(7).await == ["first", "second"]).await;
    world.deliver(QUEUE, "first").await;
    eventually(secs(5), async || world.depth(QUEUE).await.ready == 0).await;
    assert_eq!(world.effects(7).await, ["first", "second"], "the second copy changes nothing");
    assert_eq!(world.letters().await, []);
}

/// So is the order: without the marketplace ORDER_TIMEOUT waits for earlier events like any other type, and REMINDER does
/// not, where the service says so.
#[tokio::test(start_paused = true)]
async fn which_types_have_a_place_in_the_order_is_the_services_to_say() {
    let world = World::new().await;
    let mut process = world.process();
    let extensions = extensions(Marketplace::Absent)
        .event(EventSpec::new("ORDER_TIMEOUT", "book.late"))
        .event(EventSpec::new("REMINDER", "book.reminder").unordered());
    process.app = process.app.clone().extended(extensions);
    service::prepare(&process.app).await.unwrap();
    let of = |id: &str, event_type: &str, seq| book(&world, id, event_type, 7, seq, r#"{"reader":3}"#);
    let due = world.now() + chrono::TimeDelta::seconds(60);
    let mut unit = process.app.tx.store.begin().await.unwrap();
    let events = [of("lent", "BOOK_LENT", 1), of("late", "ORDER_TIMEOUT", 2), of("reminder", "REMINDER", 3)];
    unit.outbox().append(&events).await.unwrap();
    let waits = FailedPublish {
        event_id: event_id("lent"),
        status: OutboxStatus::Retry,
        retry_count: 0,
        next_retry_time: Some(due),
        error: "the broker was away".into(),
    };
    assert_eq!(unit.outbox().mark_failed(&[waits], world.now()).await.unwrap(), 1);
    unit.commit().await.unwrap();
    service::start(&process.app, &process.wake, Roles::ALL, &Settings::default());
    eventually(secs(30), async || world.effects(7).await == ["reminder"]).await;
    assert_eq!(world.status("late").await, OutboxStatus::New);
    eventually(secs(60), async || world.effects(7).await == ["reminder", "lent", "late"]).await;
    assert_eq!(world.letters().await, []);
}

/// Appends an event for each that it applies: it needs nothing of its unit but the outbox.
struct Scribe;

#[async_trait]
impl Handler<dyn UnitOfWork> for Scribe {
    fn name(&self) -> &'static str {
        "scribe"
    }

    fn takes(&self) -> &'static [&'static str] {
        &["BOOK_LENT"]
    }

    async fn apply(
        &self,
        unit: &mut (dyn UnitOfWork + 'static),
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        let follow = |event: &Event| NewEvent {
            event_id: event_id(&format!("{}-noted", event.row.event_id)),
            event_type: "LOAN_NOTED".to_owned(),
            aggregate: event.row.aggregate.clone(),
            aggregate_seq: event.row.aggregate_seq,
            payload: event.row.payload.clone(),
            metadata: EventMetadata::default(),
            occurred_at: event.row.create_time,
            max_retry_count: 0,
        };
        let notes: Vec<NewEvent> = events.iter().map(follow).collect();
        unit.outbox().append(&notes).await?;
        Ok(events.iter().map(|_| Applied::default()).collect())
    }
}

/// What a handler appends is committed with its record, once, in a unit of which the outbox alone is known.
#[tokio::test(start_paused = true)]
async fn a_handler_works_in_units_of_which_the_outbox_alone_is_known() {
    let world = World::new().await;
    let mut process = world.process();
    process.app = process.app.clone().extended(extensions(Marketplace::Absent));
    service::prepare(&process.app).await.unwrap();
    let scribe = Subscriber { queue: QUEUE, handler: Arc::new(Scribe) };
    let outbox = process.app.outbox.clone();
    let bound = scribe.bind(&outbox.tx.store);
    process.start_relay("relay", RelaySettings::default());
    let consumer = Consumer::new(outbox.clone(), bound, Arc::default());
    drop(outbox.tx.tasks.spawn(consumer.run()));
    process.commit(vec![book(&world, "lent", "BOOK_LENT", 7, 1, r#"{"reader":3}"#)]).await;
    eventually(secs(5), async || world.log_status("scribe", "lent").await == Some(ConsumeStatus::Success))
        .await;
    assert_eq!(world.row("lent-noted").await.event_type, "LOAN_NOTED");
    world.deliver(QUEUE, "lent").await;
    eventually(secs(5), async || world.depth(QUEUE).await.ready == 0).await;
    let rows =
        outbox.view().await.unwrap().outbox_view().outbox_page(&OutboxFilter::default(), None, 10).await;
    assert_eq!(rows.unwrap().len(), 2, "the second copy notes nothing");
}
