//! Outcomes of published windows.

use std::collections::BTreeSet;
use std::sync::Arc;

use handover_outbox::ports::{Message, Outgoing, PublishOutcome};
use tokio::sync::Barrier;

use super::super::within;
use super::{
    BrokerRig, KEY, NOWHERE, QUEUE, ack, declare, declare_one, drain, ids, publish, publish_as, queue,
    receive, settles_at, stays_empty, subscribe,
};
use crate::samples::{BOOK_LENT, SPECIAL_CHARACTERS, event_id, outgoing};

fn is_confirmed(outcome: &PublishOutcome) -> bool {
    matches!(outcome, PublishOutcome::Confirmed(_))
}

fn is_returned(outcome: &PublishOutcome) -> bool {
    matches!(outcome, PublishOutcome::Returned { .. })
}

/// A window has one outcome per message, in the order of its messages.
pub async fn outcomes_are_returned_in_the_order_given(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let names: Vec<String> = (0..50).map(|n| format!("e{}", (n * 37) % 50)).collect();
    let window: Vec<_> = names.iter().map(|id| (id.as_str(), KEY)).collect();
    let answered: Vec<_> =
        publish_as(rig, &window).await.iter().map(|outcome| outcome.event_id().to_string()).collect();
    assert_eq!(answered, names);
}

/// An empty window has no outcomes.
pub async fn an_empty_window_has_no_outcomes(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    assert_eq!(publish_as(rig, &[]).await, []);
}

/// A confirmed message is in its queue.
pub async fn a_confirmed_message_is_in_its_queue(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let outcomes = publish_as(rig, &[("a", KEY), ("b", KEY)]).await;
    assert!(outcomes.iter().all(is_confirmed), "{outcomes:?}");
    settles_at(rig, QUEUE, 2, 0).await;
    assert_eq!(ids(&drain(rig, QUEUE, 2).await), ["a", "b"]);
}

/// A confirm contains the id of its own event.
pub async fn a_confirm_is_proof_of_its_own_event(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let outcomes = publish_as(rig, &[("a", KEY), ("b", KEY)]).await;
    for (outcome, id) in outcomes.iter().zip(["a", "b"]) {
        match outcome {
            PublishOutcome::Confirmed(proof) => assert_eq!(proof.event_id(), &event_id(id)),
            PublishOutcome::Returned { .. }
            | PublishOutcome::Nacked { .. }
            | PublishOutcome::Unknown { .. } => {
                panic!("{outcome:?}")
            }
        }
    }
}

/// A message that no binding matches is returned with a reason and is in no queue.
pub async fn an_unroutable_message_is_returned(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    match publish_as(rig, &[("lost", NOWHERE)]).await.as_slice() {
        [PublishOutcome::Returned { event_id, reason }] => {
            assert_eq!(event_id.as_str(), "lost");
            assert!(!reason.is_empty());
        }
        other => panic!("expected one returned message, got {other:?}"),
    }
    drain(rig, QUEUE, 0).await;
}

/// Exactly the messages of a window that no binding matches are returned, at any position.
pub async fn only_unroutable_messages_of_a_window_are_returned(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    for modulus in [2, 3, 7, 50] {
        let names: Vec<String> = (0..50).map(|n| format!("m{modulus}-{n}")).collect();
        let lost = |n: usize| n % modulus == modulus - 1;
        let window: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(n, id)| (id.as_str(), if lost(n) { NOWHERE } else { KEY }))
            .collect();
        let outcomes = publish_as(rig, &window).await;
        for (n, outcome) in outcomes.iter().enumerate() {
            assert!(if lost(n) { is_returned(outcome) } else { is_confirmed(outcome) }, "{n}: {outcome:?}");
        }
        let routed: Vec<_> =
            names.iter().enumerate().filter(|(n, _)| !lost(*n)).map(|(_, id)| id.clone()).collect();
        assert_eq!(ids(&drain(rig, QUEUE, routed.len()).await), routed);
    }
}

/// A confirmed message is in every queue with a matching binding.
pub async fn a_confirmed_message_is_in_every_matching_queue(rig: &dyn BrokerRig) {
    declare(rig, &[queue("a", &["book.lent"]), queue("b", &["book.*"]), queue("c", &["book.#"])]).await;
    let outcomes = publish_as(rig, &[("lent", "book.lent"), ("added", "book.added")]).await;
    assert!(outcomes.iter().all(is_confirmed), "{outcomes:?}");
    settles_at(rig, "a", 1, 0).await;
    settles_at(rig, "b", 2, 0).await;
    settles_at(rig, "c", 2, 0).await;
}

/// Messages enter each queue in the order of their window, and windows in the order in which they were published.
pub async fn messages_enter_a_queue_in_the_order_of_their_window(rig: &dyn BrokerRig) {
    declare(rig, &[queue("a", &["even"]), queue("b", &["even", "odd"])]).await;
    let names: Vec<String> = (0..300).map(|n| format!("e{n:03}")).collect();
    for window in names.chunks(100) {
        let window: Vec<_> = window
            .iter()
            .enumerate()
            .map(|(n, id)| (id.as_str(), if n % 2 == 0 { "even" } else { "odd" }))
            .collect();
        publish_as(rig, &window).await;
    }
    assert_eq!(ids(&drain(rig, "b", 300).await), names);
    let even: Vec<_> = names.iter().step_by(2).cloned().collect();
    assert_eq!(ids(&drain(rig, "a", 150).await), even);
}

/// A message is delivered with unchanged body, headers and properties.
pub async fn a_message_is_delivered_as_it_was_published(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let full = Message {
        message_id: Some("x".repeat(64)),
        kind: Some(BOOK_LENT.into()),
        correlation_id: Some("trace-1".into()),
        headers: [
            ("tenantId", "9007199254740991"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("aggregateType", "Book"),
            ("aggregateId", "-7"),
            ("note", SPECIAL_CHARACTERS),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        body: format!(
            "{{ \"title\":\"{SPECIAL_CHARACTERS}\", \"amount\":88.50,\n\t\"long\":\"{}\"}}",
            "长".repeat(20_000)
        ),
    };
    let minimal = Message { body: "not even JSON".into(), ..Message::default() };
    // A single consumer for both messages: if a consumer of the first message were closed, it could still receive the
    // second message and return it marked as redelivered.
    let consumer = subscribe(rig, QUEUE, 1).await;
    for message in [full, minimal] {
        let window = vec![Outgoing::new(event_id("e"), KEY.into(), message.clone())];
        let outcomes = within("publish", rig.broker().publish(window)).await.unwrap();
        assert!(is_confirmed(&outcomes[0]), "{outcomes:?}");
        let deliveries = receive(consumer.as_ref(), 1).await;
        ack(consumer.as_ref(), &deliveries).await;
        assert_eq!(deliveries[0].message, message);
        assert_eq!((deliveries[0].redelivered, deliveries[0].died_in.as_deref()), (false, None));
    }
    stays_empty(rig, consumer.as_ref()).await;
}

/// An event published twice is delivered twice: a broker does not deduplicate.
pub async fn a_message_published_twice_is_delivered_twice(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["e", "e"]).await;
    publish(rig, &["e"]).await;
    assert_eq!(ids(&drain(rig, QUEUE, 3).await), ["e", "e", "e"]);
}

/// All windows of concurrent publishers arrive; the messages of each publisher keep their order.
pub async fn concurrently_published_windows_arrive_in_their_own_order(rig: &dyn BrokerRig) {
    const PUBLISHERS: usize = 6;
    declare_one(rig).await;
    let barrier = Arc::new(Barrier::new(PUBLISHERS));
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|p| {
            let broker = rig.broker();
            let barrier = barrier.clone();
            tokio::spawn(async move {
                barrier.wait().await;
                for window in 0..3 {
                    let window = (0..10).map(|n| outgoing(&format!("{p}-{window}{n}"), KEY)).collect();
                    let outcomes = broker.publish(window).await.unwrap();
                    assert!(outcomes.iter().all(is_confirmed), "{outcomes:?}");
                }
            })
        })
        .collect();
    for publisher in publishers {
        within("a publisher", publisher).await.expect("no publisher panics");
    }
    let arrived = ids(&drain(rig, QUEUE, PUBLISHERS * 30).await);
    assert_eq!(arrived.iter().collect::<BTreeSet<_>>().len(), PUBLISHERS * 30);
    for p in 0..PUBLISHERS {
        let own: Vec<_> = arrived.iter().filter(|id| id.starts_with(&format!("{p}-"))).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
}

/// A confirmed message survives a restart of the process that published it.
pub async fn a_confirmed_message_survives_a_restart(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let Some(reopened) = rig.reopened().await else { return };
    reopened.declare(&super::topology(&[queue(QUEUE, &[KEY])])).await.expect("nothing has changed");
    let consumer = reopened.subscribe(QUEUE, 9.try_into().unwrap()).await.unwrap();
    assert_eq!(ids(&super::receive(consumer.as_ref(), 2).await), ["a", "b"]);
}
