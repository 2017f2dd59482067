//! Event types and consumers in addition to those of the marketplace.

use std::sync::Arc;

use async_trait::async_trait;
use handover_events::AggregateRef;
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::{ConsumerSettings, EventSpec};
use marketplace::Settings;
use marketplace::ports::*;
use marketplace::service;
use marketplace_domain::UserId;

use super::scripted::write_effect;
use crate::support::{TENANT, World, event_id, eventually, secs};

const QUEUE: &str = "library.loans.queue";

/// Opens a shipment task for each BOOK_LENT event.
struct Loans;

#[derive(serde::Deserialize)]
struct Lent {
    reader: i64,
}

#[async_trait]
impl Handler<Work> for Loans {
    fn name(&self) -> &str {
        "loans"
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["BOOK_LENT"]
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        for event in events {
            let lent: Lent = event.payload()?;
            UserId::try_from(lent.reader)
                .map_err(|_| HandlerError::Unrecoverable("invalid reader".into()))?;
            write_effect(unit, event, event.row.create_time).await?;
        }
        Ok(events.iter().map(|_| Applied::default()).collect())
    }
}

fn book(world: &World, id: &str, event_type: &str, book: i64, seq: i64, payload: &str) -> NewEvent {
    NewEvent {
        event_id: event_id(id),
        event_type: event_type.to_owned(),
        aggregate: AggregateRef { tenant: TENANT, kind: "Book".to_owned(), id: book.into() },
        aggregate_seq: Some(seq),
        payload: payload.to_owned(),
        metadata: EventMetadata::default(),
        occurred_at: world.now(),
        max_retry_count: 0,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    }
}

#[tokio::test(start_paused = true)]
async fn custom_event_type_is_applied_once_and_in_order() {
    let world = World::new().await;
    let mut process = world.process();
    let loans = Subscriber::new(QUEUE, Arc::new(Loans));
    let outbox = process.app.outbox.clone().with_event(EventSpec::new("BOOK_LENT", "book.lent"));
    process.app.outbox = outbox.with_consumer(&loans, &["book.*"]);
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, &Settings::default());
    process.start_consumer(&loans, ConsumerSettings::default()).await;
    let lent = |id: &str, seq| book(&world, id, "BOOK_LENT", 7, seq, r#"{"reader":3}"#);
    process.commit(vec![lent("first", 1), lent("second", 2)]).await;
    eventually(secs(5), async || world.effects(7).await == ["first", "second"]).await;
    world.deliver(QUEUE, "first").await;
    eventually(secs(5), async || world.depth(QUEUE).await.ready == 0).await;
    assert_eq!(world.effects(7).await, ["first", "second"], "the duplicate message must have no effect");
    assert_eq!(process.app.outbox.topology().queues.len(), 12);
}
