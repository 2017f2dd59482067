//! Declaring: again is harmless, otherwise is refused.

use std::time::Duration;

use handover_outbox::ports::BrokerError;
use handover_outbox::topology::QueueSpec;

use super::super::within;
use super::{
    BrokerRig, KEY, QUEUE, ack, dead_lettered, declare, declare_one, drain, expiring, ids, publish, queue,
    receive, standard, stays_empty, subscribe, topology,
};

/// Declares a queue that exists with other arguments, and returns what the broker says.
async fn refusal(rig: &dyn BrokerRig, spec: QueueSpec) -> String {
    match within("declare", rig.broker().declare(&topology(&[spec]))).await {
        Err(BrokerError::Refused { what }) => what,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// The same declared again changes nothing: not the messages, not who consumes them, not how often they come.
pub async fn the_same_declared_again_changes_nothing(rig: &dyn BrokerRig) {
    let specs = [
        dead_lettered(expiring(queue(QUEUE, &[KEY]), Duration::from_secs(900)), "dead"),
        queue("dead.queue", &["dead"]),
    ];
    declare(rig, &specs).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 1).await;
    let held = receive(consumer.as_ref(), 1).await;
    declare(rig, &specs).await;
    declare(rig, &specs).await;
    publish(rig, &["c"]).await;
    ack(consumer.as_ref(), &held).await;
    for id in ["b", "c"] {
        let held = receive(consumer.as_ref(), 1).await;
        assert_eq!(ids(&held), [id]);
        ack(consumer.as_ref(), &held).await;
    }
    stays_empty(rig, consumer.as_ref()).await;
}

/// The standard topology can be declared again and again.
pub async fn the_standard_topology_can_be_declared_again(rig: &dyn BrokerRig) {
    for seconds in [900, 30, 900, 30] {
        let standard = standard(Duration::from_secs(seconds));
        within("declare", rig.broker().declare(&standard))
            .await
            .expect("delay queues of two settings live side by side");
    }
}

/// Another TTL is refused with queue and both values.
pub async fn another_ttl_is_refused_with_both_values(rig: &dyn BrokerRig) {
    declare(rig, &[expiring(queue(QUEUE, &[KEY]), Duration::from_secs(61))]).await;
    let what = refusal(rig, expiring(queue(QUEUE, &[KEY]), Duration::from_secs(37))).await;
    for part in [QUEUE, "ttl", "61", "37"] {
        assert!(what.to_lowercase().contains(part), "{part} is not in: {what}");
    }
}

/// Another dead-letter key is refused with queue and both values.
pub async fn another_dead_letter_key_is_refused_with_both_values(rig: &dyn BrokerRig) {
    declare(rig, &[dead_lettered(queue(QUEUE, &[KEY]), "first.dead")]).await;
    let what = refusal(rig, dead_lettered(queue(QUEUE, &[KEY]), "second.dead")).await;
    for part in [QUEUE, "dead", "first.dead", "second.dead"] {
        assert!(what.contains(part), "{part} is not in: {what}");
    }
}

/// An argument that is new, or missing, is another argument.
pub async fn an_argument_that_comes_or_goes_is_refused(rig: &dyn BrokerRig) {
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
        assert!(what.contains(&name), "{name} is not in: {what}");
    }
}

/// A refusal deletes nothing: messages, bindings and consumers of the queue are as they were.
pub async fn a_refused_declaration_deletes_nothing(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a", "b"]).await;
    let consumer = subscribe(rig, QUEUE, 1).await;
    let held = receive(consumer.as_ref(), 1).await;
    refusal(rig, dead_lettered(queue(QUEUE, &["another.key"]), "dead")).await;
    publish(rig, &["c"]).await;
    ack(consumer.as_ref(), &held).await;
    for id in ["b", "c"] {
        let held = receive(consumer.as_ref(), 1).await;
        assert_eq!(ids(&held), [id]);
        ack(consumer.as_ref(), &held).await;
    }
    declare_one(rig).await;
}

/// What is left out of a later declaration stays.
pub async fn a_queue_left_out_of_a_later_declaration_stays(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    publish(rig, &["a"]).await;
    declare(rig, &[queue("another.queue", &["another"])]).await;
    publish(rig, &["b"]).await;
    assert_eq!(ids(&drain(rig, QUEUE, 2).await), ["a", "b"]);
}

/// A queue that was never declared cannot be subscribed to.
pub async fn a_queue_that_was_never_declared_cannot_be_subscribed_to(rig: &dyn BrokerRig) {
    declare_one(rig).await;
    let outcome = within("subscribe", rig.broker().subscribe("never.declared", 1.try_into().unwrap())).await;
    assert!(outcome.is_err(), "there is no such queue");
    publish(rig, &["a"]).await;
    assert_eq!(ids(&drain(rig, QUEUE, 1).await), ["a"], "the broker works on");
}
