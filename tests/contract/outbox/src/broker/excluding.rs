//! Messages that exclude queues.

use handover_outbox::ports::{PublishOutcome, Requeue};
use handover_outbox::topology::{QueueSpec, Topology};

use super::super::within;
use super::{
    BrokerRig, DEAD_LETTER_KEY, KEY, NOWHERE, base_topology, dead_lettered, declare, drain, ids, queue,
    receive, stays_empty, subscribe, tags, topology,
};
use crate::samples::outgoing;

const PLAIN: &str = "plain.queue";
const CHOOSY: &str = "choosy.queue";
const OTHER: &str = "other.queue";

fn selective(name: &str) -> QueueSpec {
    QueueSpec { is_selective: true, ..dead_lettered(queue(name, &[KEY, "contract.*.more"]), DEAD_LETTER_KEY) }
}

/// Publishes messages, each with the queues that it excludes, in one window.
async fn publish(rig: &dyn BrokerRig, key: &str, window: &[(&str, &[&str])]) -> Vec<PublishOutcome> {
    let message = |(id, excluded): &(&str, &[&str])| {
        outgoing(id, key).excluding(excluded.iter().map(|queue| (*queue).to_owned()).collect())
    };
    let window = window.iter().map(message).collect();
    within("publish", rig.broker().publish(window)).await.expect("the broker publishes")
}

/// A message enters every queue that matches it, except those that it excludes.
pub async fn a_message_does_not_enter_a_queue_that_it_excludes(rig: &dyn BrokerRig) {
    declare(rig, &[queue(PLAIN, &[KEY]), selective(CHOOSY), selective(OTHER)]).await;
    let window: &[(&str, &[&str])] =
        &[("for-all", &[]), ("not-choosy", &[CHOOSY]), ("plain-only", &[CHOOSY, OTHER]), ("again", &[])];
    for outcome in publish(rig, KEY, window).await {
        assert!(matches!(outcome, PublishOutcome::Confirmed(_)), "{outcome:?}");
    }
    assert_eq!(ids(&drain(rig, PLAIN, 4).await), ["for-all", "not-choosy", "plain-only", "again"]);
    assert_eq!(ids(&drain(rig, CHOOSY, 2).await), ["for-all", "again"]);
    assert_eq!(ids(&drain(rig, OTHER, 3).await), ["for-all", "not-choosy", "again"]);
}

/// A selective queue gets a message by each of its patterns, and none that they do not match.
pub async fn a_selective_queue_gets_what_its_bindings_match(rig: &dyn BrokerRig) {
    declare(rig, &[queue(PLAIN, &["#"]), selective(CHOOSY)]).await;
    for key in ["contract.much.more", NOWHERE, KEY] {
        publish(rig, key, &[(key, &[])]).await;
    }
    assert_eq!(ids(&drain(rig, CHOOSY, 2).await), ["contract.much.more", KEY]);
}

/// A message that excludes every queue that matches it is confirmed: nobody needs it. One that nothing matches is returned,
/// whatever it excludes.
pub async fn a_message_that_excludes_every_matching_queue_is_confirmed(rig: &dyn BrokerRig) {
    declare(rig, &[selective(CHOOSY), selective(OTHER)]).await;
    let outcomes = publish(rig, KEY, &[("for-none", &[CHOOSY, OTHER]), ("for-one", &[OTHER])]).await;
    assert!(outcomes.iter().all(|it| matches!(it, PublishOutcome::Confirmed(_))), "{outcomes:?}");
    let outcomes = publish(rig, NOWHERE, &[("lost", &[CHOOSY])]).await;
    assert!(matches!(outcomes.as_slice(), [PublishOutcome::Returned { .. }]), "{outcomes:?}");
    assert_eq!(ids(&drain(rig, CHOOSY, 1).await), ["for-one"]);
    drain(rig, OTHER, 0).await;
}

/// A message that a consumer of a selective queue rejects moves to the dead letters, and enters no selective queue again.
pub async fn a_message_rejected_in_a_selective_queue_moves_only_to_the_dead_letters(rig: &dyn BrokerRig) {
    declare(rig, &[selective(CHOOSY), selective(OTHER), queue("dead.queue", &[DEAD_LETTER_KEY])]).await;
    publish(rig, KEY, &[("bad", &[OTHER])]).await;
    let consumer = subscribe(rig, CHOOSY, 1).await;
    let deliveries = receive(consumer.as_ref(), 1).await;
    within("nack", consumer.nack(&tags(&deliveries), Requeue::No)).await.expect("the delivery is rejected");
    let dead = drain(rig, "dead.queue", 1).await;
    assert_eq!((ids(&dead), dead[0].died_in.as_deref()), (vec!["bad".to_owned()], Some(CHOOSY)));
    stays_empty(rig, consumer.as_ref()).await;
    drain(rig, OTHER, 0).await;
}

/// A queue becomes selective by a later declaration, also while relays of an older version are live. Messages in it stay.
pub async fn a_queue_becomes_selective(rig: &dyn BrokerRig) {
    let plain = QueueSpec { is_selective: false, ..selective(CHOOSY) };
    declare(rig, &[queue(PLAIN, &[KEY]), plain]).await;
    publish(rig, KEY, &[("before", &[])]).await;
    for has_older_relays in [true, false] {
        let queues = topology(&[queue(PLAIN, &[KEY]), selective(CHOOSY)]).queues;
        let topology = Topology { queues, has_older_relays, ..base_topology() };
        within("declare", rig.broker().declare(&topology)).await.expect("the topology is declared");
        publish(rig, KEY, &[("for-all", &[])]).await;
    }
    publish(rig, KEY, &[("not-choosy", &[CHOOSY])]).await;
    assert_eq!(ids(&drain(rig, PLAIN, 4).await), ["before", "for-all", "for-all", "not-choosy"]);
    assert_eq!(ids(&drain(rig, CHOOSY, 3).await), ["before", "for-all", "for-all"]);
}
