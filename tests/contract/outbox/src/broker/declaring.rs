//! Declarations: a repeated declaration has no effect; a declaration with different arguments is rejected.

use std::time::Duration;

use handover_outbox::ports::BrokerError;
use handover_outbox::topology::QueueSpec;

use super::super::within;
use super::{
    BrokerRig, KEY, QUEUE, ack, dead_lettered, declare, declare_one, drain, expiring, ids, publish, queue,
    receive, standard, stays_empty, subscribe, topology,
};

/// Declares an existing queue with other arguments, and returns the text of the broker's error.
async fn refusal(rig: &dyn BrokerRig, spec: QueueSpec) -> String {
    match within("declare", rig.broker().declare(&topology(&[spec]))).await {
        Err(BrokerError::Refused { what }) => what,
        other => panic!("expected `Refused`, got {other:?}"),
    }
}

/// Declaring the same topology again does not affect messages, consumers or delivery counts.
pub async fn a_repeated_declaration_changes_nothing(rig: &dyn BrokerRig) {
    let specs = [
        dead_lettered(expiring(queue(QUEUE, &[KEY]), Duration::from_secs(900)), "dead"),
        queue("dead.queue", &["dead"]),
    ];
    declare(rig, &specs).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 1).await;
    let unsettled = receive(consumer.as_ref(), 1).await;
    declare(rig, &specs).await;
    declare(rig, &specs).await;
    publish(rig, &["c"]).await;
    ack(consumer.as_ref(), &unsettled).await;
    for id in ["b", "c"] {
        let unsettled = receive(consumer.as_ref(), 1).await;
        assert_eq!(ids(&unsettled), [id]);
        ack(consumer.as_ref(), &unsettled).await;
    }
    stays_empty(rig, consumer.as_ref()).await;
}

/// The standard topology can be declared repeatedly, even with another delay.
pub async fn the_standard_topology_can_be_declared_again(rig: &dyn BrokerRig) {
    for seconds in [900, 30, 900, 30] {
        let standard = standard(Duration::from_secs(seconds));
        within("declare", rig.broker().declare(&standard))
            .await
            .expect("cannot declare delay queues with different TTLs");
    }
}

/// A different TTL is rejected; the error contains the name of the queue and both values.
pub async fn a_different_ttl_is_refused_with_old_and_new_ttl(rig: &dyn BrokerRig) {
    declare(rig, &[expiring(queue(QUEUE, &[KEY]), Duration::from_secs(61))]).await;
    let what = refusal(rig, expiring(queue(QUEUE, &[KEY]), Duration::from_secs(37))).await;
    for part in [QUEUE, "ttl", "61", "37"] {
        assert!(what.to_lowercase().contains(part), "{part} is not in the error: {what}");
    }
}

/// A different dead-letter key is rejected; the error contains the name of the queue and both values.
pub async fn a_different_dead_letter_key_is_refused_with_old_and_new_key(rig: &dyn BrokerRig) {
    declare(rig, &[dead_lettered(queue(QUEUE, &[KEY]), "first.dead")]).await;
    let what = refusal(rig, dead_lettered(queue(QUEUE, &[KEY]), "second.dead")).await;
    for part in [QUEUE, "dead", "first.dead", "second.dead"] {
        assert!(what.contains(part), "{part} is not in the error: {what}");
    }
}

/// A declaration that adds or removes an argument is rejected; the error contains the name of the queue.
pub async fn an_added_or_removed_argument_is_refused(rig: &dyn BrokerRig) {
    let plain = queue(QUEUE, &[KEY]);
    let full = dead_lettered(expiring(queue("full.queue", &["full"]), Duration::from_secs(61)), "dead");
    declare(rig, &[plain.clone(), full.clone()]).await;
    let changed = [
        expiring(plain.clone(), Duration::from_secs(61)),
        dead_lettered(plain, "dead"),
        QueueSpec { ttl: None, ..full.clone() },
        QueueSpec { dead_letter_key: None, ..full },
    ];
    for spec in changed {
        let name = spec.name.clone();
        let what = refusal(rig, spec).await;
        assert!(what.contains(&name), "{name} is not in the error: {what}");
    }
}

/// A rejected declaration changes nothing: messages, bindings and consumers of the queue are kept.
pub async fn a_refused_declaration_deletes_nothing(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 1).await;
    let unsettled = receive(consumer.as_ref(), 1).await;
    refusal(rig, dead_lettered(queue(QUEUE, &["another.key"]), "dead")).await;
    publish(rig, &["c"]).await;
    ack(consumer.as_ref(), &unsettled).await;
    for id in ["b", "c"] {
        let unsettled = receive(consumer.as_ref(), 1).await;
        assert_eq!(ids(&unsettled), [id]);
        ack(consumer.as_ref(), &unsettled).await;
    }
    declare_one(rig).await;
}

/// A queue that a later declaration omits continues to exist.
pub async fn a_queue_omitted_from_a_later_declaration_is_kept(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a"]).await;
    declare(rig, &[queue("another.queue", &["another"])]).await;
    publish(rig, &["b"]).await;
    assert_eq!(ids(&drain(rig, QUEUE, 2).await), ["a", "b"]);
}

/// A queue that was never declared cannot be subscribed to.
pub async fn an_undeclared_queue_cannot_be_subscribed_to(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let outcome = within("subscribe", rig.broker().subscribe("never.declared", 1.try_into().unwrap())).await;
    assert!(outcome.is_err(), "a subscription to an undeclared queue must fail");
    publish(rig, &["a"]).await;
    assert_eq!(ids(&drain(rig, QUEUE, 1).await), ["a"], "the broker must still deliver messages");
}
