//! Routing of messages to queues.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    BrokerRig, DEAD_LETTER_KEY, NOWHERE, declare, drain, ids, next, publish_as, publish_with, queue, receive,
    standard, subscribe,
};
use handover_outbox::ports::PublishOutcome;

/// Returns the keys whose messages reach a queue with this binding, in the order of delivery.
async fn matched_keys(rig: &dyn BrokerRig, pattern: &str, keys: &[&str]) -> Vec<String> {
    declare(rig, &[queue("some.queue", &[pattern, "the-last"])]).await;
    let window: Vec<_> = keys.iter().map(|key| (*key, *key)).collect();
    publish_as(rig, &window).await;
    publish_with(rig, "the-last", &["the-last"]).await;
    let consumer = subscribe(rig, "some.queue", 100).await;
    let mut received = Vec::new();
    while received.last().map(String::as_str) != Some("the-last") {
        received.extend(ids(&next(consumer.as_ref()).await));
    }
    received.pop();
    received
}

/// A binding without wildcards matches only its own key.
pub async fn a_plain_binding_matches_only_its_own_key(rig: &dyn BrokerRig) {
    let keys = ["book.lent", "book.lent.late", "book", "Book.Lent", "book_lent", "book.len", "xbook.lent"];
    assert_eq!(matched_keys(rig, "book.lent", &keys).await, ["book.lent"]);
}

/// `*` matches exactly one word.
pub async fn a_star_wildcard_matches_exactly_one_word(rig: &dyn BrokerRig) {
    let keys = ["loan.granted", "loan.refused", "loan", "loan.a.b", "fine.refused", "loans.a"];
    assert_eq!(matched_keys(rig, "loan.*", &keys).await, ["loan.granted", "loan.refused"]);
}

/// `*` works in the middle of a pattern.
pub async fn a_star_wildcard_works_at_any_position(rig: &dyn BrokerRig) {
    let keys = ["a.x.c", "a.c", "a.x.y.c", "b.x.c", "a.x.d"];
    assert_eq!(matched_keys(rig, "a.*.c", &keys).await, ["a.x.c"]);
}

/// `#` matches any number of words, including none.
pub async fn a_hash_wildcard_matches_any_number_of_words(rig: &dyn BrokerRig) {
    let keys = ["book", "book.lent", "book.a.b.c", "books.a", "a.book"];
    assert_eq!(matched_keys(rig, "book.#", &keys).await, ["book", "book.lent", "book.a.b.c"]);
}

/// `#` works in the middle of a pattern.
pub async fn a_hash_wildcard_works_at_any_position(rig: &dyn BrokerRig) {
    let keys = ["a.z", "a.b.z", "a.b.c.d.z", "a.b", "z", "a.b.z.c"];
    assert_eq!(matched_keys(rig, "a.#.z", &keys).await, ["a.z", "a.b.z", "a.b.c.d.z"]);
}

/// `#.*.c` requires at least one word before `c`.
pub async fn a_star_and_a_hash_wildcard_match_at_least_one_word(rig: &dyn BrokerRig) {
    assert_eq!(matched_keys(rig, "#.*.c", &["c", "b.c", "a.b.c", "a.b"]).await, ["b.c", "a.b.c"]);
}

/// A message reaches every queue with a matching binding, and no other.
pub async fn a_message_reaches_every_matching_queue(rig: &dyn BrokerRig) {
    let specs =
        [queue("a", &["book.lent", "book.returned"]), queue("b", &["book.*"]), queue("c", &["loan.#"])];
    declare(rig, &specs).await;
    publish_with(rig, "book.lent", &["lent"]).await;
    publish_with(rig, "book.added", &["added"]).await;
    publish_with(rig, "book.returned", &["returned"]).await;
    publish_with(rig, "loan.refused", &["failed"]).await;
    assert_eq!(ids(&drain(rig, "a", 2).await), ["lent", "returned"]);
    assert_eq!(ids(&drain(rig, "b", 3).await), ["lent", "added", "returned"]);
    assert_eq!(ids(&drain(rig, "c", 1).await), ["failed"]);
}

/// A queue with two matching bindings receives a message once.
pub async fn a_message_matched_by_two_bindings_of_a_queue_is_delivered_once(rig: &dyn BrokerRig) {
    declare(rig, &[queue("a", &["book.*", "book.lent", "book.#", "*.lent"])]).await;
    publish_with(rig, "book.lent", &["once"]).await;
    assert_eq!(ids(&drain(rig, "a", 1).await), ["once"]);
}

/// The binding `#` matches every message.
pub async fn a_binding_with_only_a_hash_wildcard_matches_every_key(rig: &dyn BrokerRig) {
    declare(rig, &[queue("a", &["#"])]).await;
    publish_with(rig, "book.lent", &["one"]).await;
    publish_with(rig, "x", &["two"]).await;
    let consumer = subscribe(rig, "a", 5).await;
    assert_eq!(ids(&receive(consumer.as_ref(), 2).await), ["one", "two"]);
}

/// A queue without bindings receives nothing.
pub async fn a_queue_without_bindings_receives_nothing(rig: &dyn BrokerRig) {
    declare(rig, &[queue("a", &[]), queue("b", &["book.lent"])]).await;
    publish_with(rig, "book.lent", &["one"]).await;
    let returned = publish_as(rig, &[("two", NOWHERE), ("three", "a")]).await;
    assert!(
        returned.iter().all(|outcome| matches!(outcome, PublishOutcome::Returned { .. })),
        "{returned:?}"
    );
    drain(rig, "a", 0).await;
    drain(rig, "b", 1).await;
}

/// In the standard topology, each queue without TTL receives the messages that match its bindings.
pub async fn the_standard_topology_routes_each_event_to_its_queues(rig: &dyn BrokerRig) {
    let topology = standard(Duration::from_secs(900));
    declare(rig, &topology.queues).await;
    let window = [
        ("BOOK_ADDED", "book.added"),
        ("BOOK_LENT", "book.lent"),
        ("BOOK_RETURNED", "book.returned"),
        ("BOOK_OVERDUE", "book.overdue"),
        ("LOAN_GRANTED", "loan.granted"),
        ("FINE_PAID", "fine.paid"),
        ("FINE_REFUSED", "fine.refused"),
        ("dead", DEAD_LETTER_KEY),
    ];
    publish_as(rig, &window).await;
    let mut expected: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for spec in &topology.queues {
        for (id, key) in &window {
            let takes = |pattern: &String| {
                pattern == key || pattern.strip_suffix('*').is_some_and(|p| key.starts_with(p))
            };
            if spec.ttl.is_none() && spec.bindings.iter().any(takes) {
                expected.entry(&spec.name).or_default().push(id);
            }
        }
    }
    assert_eq!(expected.get("book.lending.queue"), Some(&vec!["BOOK_LENT"]));
    for (name, expected_ids) in expected {
        assert_eq!(ids(&drain(rig, name, expected_ids.len()).await), expected_ids, "{name}");
    }
}
