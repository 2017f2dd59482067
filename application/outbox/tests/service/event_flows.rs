//! Which consumer takes which event type, and the report about it at the start.

use std::sync::Arc;

use handover_outbox::consumers::{Guarantee, Subscriber};
use handover_outbox::topology::QueueSpec;
use handover_outbox::{EventFlow, EventSpec, Outbox};

use crate::library::{Library, QUEUE};
use crate::{Loans, lent, log};

#[tokio::test]
async fn event_types_and_queues_without_a_consumer_are_reported() {
    log::capture();
    let lost = EventSpec::new("BOOK_LOST", "book.lost").unordered();
    let library = Library::sending([lent(), lost]).with(&Subscriber::new(QUEUE, Arc::new(Loans)));
    let flows = library.outbox.event_flows();
    let of_lent = EventFlow {
        event_type: "BOOK_LENT".to_owned(),
        routing_key: "book.lent".to_owned(),
        is_ordered: true,
        consumer: Some("loans".to_owned()),
        queue: Some(QUEUE.to_owned()),
        guarantee: Some(Guarantee::ExactlyOnce),
        is_selective: false,
    };
    let of_lost = EventFlow {
        event_type: "BOOK_LOST".to_owned(),
        routing_key: "book.lost".to_owned(),
        is_ordered: false,
        consumer: None,
        queue: None,
        guarantee: None,
        is_selective: false,
    };
    assert_eq!(flows, [of_lent.clone(), of_lost.clone()]);
    let selective = library.outbox.clone().with_selective_queue(QUEUE).event_flows();
    assert_eq!(selective, [EventFlow { is_selective: true, ..of_lent }, of_lost]);

    let unread = QueueSpec {
        name: "unread".to_owned(),
        bindings: vec!["book.*".to_owned()],
        ttl: None,
        dead_letter_key: None,
        is_selective: false,
        receives_from: None,
    };
    let topology = library.outbox.topology().as_ref().clone().with_queue(unread);
    let outbox = Outbox::new(library.outbox.tx.clone(), Arc::clone(&library.outbox.broker), topology)
        .with_registry(Arc::clone(&library.outbox.registry))
        .with_handler_of(&Subscriber::new(QUEUE, Arc::new(Loans)))
        .with_selective_queue(QUEUE);
    assert_eq!(outbox.queues_without_consumer(), ["unread"]);
    outbox.log_event_flows();
    let lines = log::lines();
    for parts in [
        ["[Outbox] consumer", "consumer=\"loans\"", "selective=true"],
        ["no consumer of this program takes events", "BOOK_LOST", "book.lost"],
        ["no consumer of this program takes messages", "unread", "they stay in it"],
    ] {
        let has = |line: &String| parts.iter().all(|part| line.contains(part));
        assert_eq!(lines.iter().filter(|line| has(line)).count(), 1, "{parts:?}: {lines:#?}");
    }
}
