//! The contract of [`Broker`]: one file per concern.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, PublishOutcome, QueueDepth, Subscription,
};
use handover_outbox::topology::{QueueSpec, Topology};

use super::{eventually, within};
use crate::samples::outgoing;

pub mod addressed;
pub mod dead_lettering;
pub mod declaring;
pub mod delivering;
pub mod depths;
pub mod ending;
pub mod publishing;
pub mod routing;
pub mod settling;
pub mod ttl;

/// A fresh broker with nothing declared, and what surrounds it.
#[async_trait]
pub trait BrokerRig: Send + Sync {
    /// The broker; every call gives the same.
    fn broker(&self) -> Arc<dyn Broker>;

    /// Lets time pass for the broker. A rig whose broker follows the real clock waits.
    async fn advance(&self, by: Duration);

    /// What the adapter offers where adapters differ by nature.
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities::default()
    }

    /// The same queues as a process finds them that starts anew; `None` where there is no such thing.
    async fn reopened(&self) -> Option<Arc<dyn Broker>> {
        None
    }
}

/// What brokers do not have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerCapabilities {
    /// `queues` counts what is delivered and not settled.
    pub counts_unacked: bool,
    /// A nacked message is requeued near the head. RabbitMQ 3.10 puts it at the end of a quorum queue without a
    /// delivery limit.
    pub requeues_near_the_head: bool,
    /// Time passes for the broker only when the rig lets it. A real broker's goes on meanwhile.
    pub stands_still: bool,
}

impl Default for BrokerCapabilities {
    fn default() -> Self {
        BrokerCapabilities { counts_unacked: true, requeues_near_the_head: true, stands_still: true }
    }
}

// The one list of the rules: add a rule here, under the file it is in.
crate::rules! { broker_rules: BrokerRig;
    routing: [
        a_plain_binding_takes_its_own_key_only,
        a_star_stands_for_exactly_one_word,
        a_star_stands_in_any_place,
        a_hash_stands_for_any_number_of_words,
        a_hash_stands_in_any_place,
        a_star_and_a_hash_stand_for_at_least_one_word,
        a_message_reaches_every_queue_that_takes_it,
        a_message_that_two_bindings_of_a_queue_take_arrives_once,
        a_hash_alone_takes_every_message,
        a_queue_without_bindings_gets_nothing,
        the_standard_topology_brings_each_event_to_its_queues,
    ]
    publishing: [
        every_message_is_answered_in_the_order_given,
        an_empty_window_is_answered_with_nothing,
        a_message_that_is_confirmed_is_in_its_queue,
        a_confirm_is_proof_of_its_own_event,
        a_message_that_no_queue_takes_is_returned,
        of_a_window_only_what_no_queue_takes_is_returned,
        a_confirmed_message_is_in_every_queue_that_takes_it,
        messages_enter_a_queue_in_the_order_of_their_window,
        a_message_arrives_as_it_was_published,
        a_message_published_twice_arrives_twice,
        windows_published_at_once_all_arrive_in_their_own_order,
        a_confirmed_message_survives_a_restart,
    ]
    delivering: [
        messages_come_in_the_order_of_the_queue,
        no_more_are_unsettled_than_the_prefetch_allows,
        a_consumer_that_waits_is_woken_by_a_message,
        a_consumer_gets_the_messages_of_its_own_queue_only,
        a_full_consumer_goes_on_once_something_is_settled,
        two_consumers_share_without_overlap,
        both_consumers_get_their_share,
        a_next_cut_at_any_point_loses_nothing,
        a_consumer_that_keeps_giving_up_misses_nothing,
        a_publish_cut_at_any_point_leaves_the_broker_working,
        every_delivery_has_a_tag_of_its_own,
        what_a_consumer_holds_stays_with_it,
    ]
    addressed: [
        a_message_for_one_queue_reaches_it_alone,
        a_message_for_a_queue_that_is_not_there_is_returned,
        messages_for_one_queue_keep_their_place_in_the_window,
        a_consumer_that_waits_is_woken_by_a_message_for_its_queue,
        a_message_for_one_queue_expires_like_any_other,
    ]
    settling: [
        an_acked_message_is_gone,
        a_settled_tag_is_ignored,
        deliveries_are_settled_in_any_order,
        a_requeued_message_comes_again_marked,
        a_requeued_message_comes_before_those_behind_it,
        messages_requeued_together_keep_their_order,
        a_requeued_message_may_come_to_another_consumer,
        a_rejected_message_is_dropped_where_the_queue_says_nothing,
        a_rejected_message_makes_room,
    ]
    dead_lettering: [
        a_rejected_message_moves_to_the_dead_letters,
        dead_letters_keep_their_order_and_are_not_redelivered,
        a_dead_letter_reaches_every_queue_that_takes_its_key,
        a_message_that_dies_again_tells_where_it_died_last,
        a_redelivered_message_dies_like_any_other,
        a_consumer_of_dead_letters_is_woken_by_one,
        a_settled_message_is_not_dead_lettered,
        a_message_published_anew_has_not_died,
    ]
    ttl: [
        a_message_is_routed_on_when_it_expires_and_not_before,
        a_consumer_that_waits_is_woken_by_an_expiry,
        what_expired_while_nobody_listened_is_delivered,
        each_message_has_its_own_time,
        an_expired_message_is_dropped_where_the_queue_says_nothing,
        an_expiry_into_nowhere_disturbs_nobody,
        without_a_ttl_nothing_expires,
        an_expired_message_that_is_rejected_died_where_it_was_rejected,
    ]
    declaring: [
        the_same_declared_again_changes_nothing,
        the_standard_topology_can_be_declared_again,
        another_ttl_is_refused_with_both_values,
        another_dead_letter_key_is_refused_with_both_values,
        an_argument_that_comes_or_goes_is_refused,
        a_refused_declaration_deletes_nothing,
        a_queue_left_out_of_a_later_declaration_stays,
        a_queue_that_was_never_declared_cannot_be_subscribed_to,
    ]
    ending: [
        a_closed_subscription_returns_what_it_had,
        a_dropped_subscription_returns_what_it_had,
        a_consumer_that_waits_gets_what_a_dropped_one_had,
        a_consumer_that_waits_gets_what_a_closed_one_had,
        a_closed_subscription_delivers_no_more,
        a_call_that_waits_ends_with_its_subscription,
        a_closed_subscription_settles_nothing,
        a_subscription_can_be_closed_again,
        other_subscriptions_live_on,
    ]
    depths: [
        every_declared_queue_is_listed_by_name,
        where_nothing_is_declared_nothing_is_listed,
        a_message_is_counted_where_it_is,
        live_subscriptions_are_counted,
    ]
}

/// The queue every rule works on, bound to [`KEY`], with neither TTL nor dead letters.
const QUEUE: &str = "contract.queue";
/// The key of [`QUEUE`].
const KEY: &str = "contract.key";
/// The key that dead letters are routed with, where a rule names no other.
const DEAD_LETTER_KEY: &str = "contract.dlq";
/// A key that no queue takes.
const NOWHERE: &str = "contract.nowhere";
/// A queue on which rules pass the time: see [`stays_pending`].
const CONTROL: &str = "control.queue";

fn queue(name: &str, bindings: &[&str]) -> QueueSpec {
    QueueSpec {
        name: name.to_owned(),
        bindings: bindings.iter().map(|pattern| (*pattern).to_owned()).collect(),
        ttl: None,
        dead_letter_key: None,
    }
}

fn dead_lettered(spec: QueueSpec, key: &str) -> QueueSpec {
    QueueSpec { dead_letter_key: Some(key.to_owned()), ..spec }
}

fn expiring(spec: QueueSpec, after: Duration) -> QueueSpec {
    QueueSpec { ttl: Some(after), ..spec }
}

/// An exchange with the queue of dead letters alone.
fn bare() -> Topology {
    Topology::new("contract.events.exchange", "contract.dlq.queue", DEAD_LETTER_KEY)
}

/// A topology as a service has it: queues of consumers, one of which is bound with wildcards, and a queue that delays its
/// messages, named after its TTL.
fn standard(delay: Duration) -> Topology {
    let delayed = format!("book.overdue.delay.{}ms", delay.as_millis());
    let delay = QueueSpec {
        dead_letter_key: Some("book.overdue".to_owned()),
        ..expiring(queue(&format!("{delayed}.queue"), &[&delayed]), delay)
    };
    bare()
        .with("shelf.update.queue", &["book.added", "book.lent", "book.returned"])
        .with("book.lending.queue", &["book.lent"])
        .with_queue(delay)
        .with("book.overdue.queue", &["book.overdue"])
        .with("webhook.dispatch.queue", &["book.lent", "book.returned", "loan.*", "fine.*"])
}

fn topology(queues: &[QueueSpec]) -> Topology {
    let mut queues = queues.to_vec();
    queues.push(queue(CONTROL, &["control"]));
    Topology { queues, ..bare() }
}

async fn declare(rig: &dyn BrokerRig, queues: &[QueueSpec]) {
    within("declare", rig.broker().declare(&topology(queues))).await.expect("the topology is declared");
}

async fn declare_one(rig: &dyn BrokerRig) {
    declare(rig, &[queue(QUEUE, &[KEY])]).await;
}

/// Publishes messages with these ids and keys in one window.
async fn publish_as(rig: &dyn BrokerRig, window: &[(&str, &str)]) -> Vec<PublishOutcome> {
    let window = window.iter().map(|(id, key)| outgoing(id, key)).collect();
    within("publish", rig.broker().publish(window)).await.expect("the broker answers")
}

/// Publishes messages with these ids and one key in one window, and sees them confirmed.
async fn publish_with(rig: &dyn BrokerRig, key: &str, ids: &[&str]) {
    let window: Vec<_> = ids.iter().map(|id| (*id, key)).collect();
    for outcome in publish_as(rig, &window).await {
        assert!(matches!(outcome, PublishOutcome::Confirmed(_)), "{outcome:?}");
    }
}

/// As [`publish_with`], to [`QUEUE`].
async fn publish(rig: &dyn BrokerRig, ids: &[&str]) {
    publish_with(rig, KEY, ids).await;
}

async fn subscribe(rig: &dyn BrokerRig, queue: &str, prefetch: u16) -> Box<dyn Subscription> {
    let prefetch = NonZeroU16::new(prefetch).expect("a prefetch");
    within("subscribe", rig.broker().subscribe(queue, prefetch))
        .await
        .expect("the queue can be subscribed to")
}

async fn next(subscription: &dyn Subscription) -> Vec<Delivery> {
    let deliveries = within("next", subscription.next()).await.expect("the subscription lives");
    assert!(!deliveries.is_empty(), "next waits for at least one delivery");
    deliveries
}

/// Takes deliveries until there are so many.
async fn receive(subscription: &dyn Subscription, count: usize) -> Vec<Delivery> {
    let mut received = Vec::new();
    while received.len() < count {
        received.extend(next(subscription).await);
    }
    assert_eq!(received.len(), count, "{:?}", ids(&received));
    received
}

async fn ack(subscription: &dyn Subscription, deliveries: &[Delivery]) {
    within("ack", subscription.ack(&tags(deliveries))).await.expect("deliveries are acked");
}

fn tags(deliveries: &[Delivery]) -> Vec<DeliveryTag> {
    deliveries.iter().map(|delivery| delivery.tag).collect()
}

fn ids(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|delivery| delivery.message.message_id.clone().unwrap_or_default()).collect()
}

/// What a queue holds, in its order: takes it all with a consumer of its own, and settles it.
async fn drain(rig: &dyn BrokerRig, queue: &str, count: usize) -> Vec<Delivery> {
    let consumer = subscribe(rig, queue, 1000).await;
    let deliveries = receive(consumer.as_ref(), count).await;
    ack(consumer.as_ref(), &deliveries).await;
    stays_empty(rig, consumer.as_ref()).await;
    within("close", consumer.close()).await.expect("a consumer can be closed");
    deliveries
}

/// Asserts that nothing more comes.
async fn stays_empty(rig: &dyn BrokerRig, subscription: &dyn Subscription) {
    stays_pending(rig, subscription.next()).await;
}

/// Asserts that a call stays unanswered while other messages pass through the broker, which is time enough.
async fn stays_pending<T: std::fmt::Debug>(
    rig: &dyn BrokerRig,
    call: impl Future<Output = Result<T, BrokerError>>,
) {
    // Polled together: a call that is left unpolled may hold what the others need.
    let time_enough = async {
        let control = subscribe(rig, CONTROL, 1).await;
        for round in 0..3 {
            publish_with(rig, "control", &[&format!("control-{round}")]).await;
            let deliveries = next(control.as_ref()).await;
            ack(control.as_ref(), &deliveries).await;
        }
        within("close", control.close()).await.expect("a consumer can be closed");
    };
    tokio::select! {
        biased;
        answer = call => panic!("expected nothing to come, got {answer:?}"),
        () = time_enough => {}
    }
}

/// The depth of a queue.
async fn depth(rig: &dyn BrokerRig, name: &str) -> QueueDepth {
    let depths = within("queues", rig.broker().queues()).await.expect("queues can be counted");
    depths.into_iter().find(|depth| depth.name == name).expect("a declared queue is listed")
}

/// Waits until so many messages of a queue are ready and so many unsettled; counts may lag behind.
async fn settles_at(rig: &dyn BrokerRig, name: &str, ready: u64, unacked: u64) {
    let unacked = if rig.capabilities().counts_unacked { Some(unacked) } else { None };
    let what = format!("{name} has {ready} ready and {unacked:?} unsettled");
    eventually(&what, || async {
        let depth = depth(rig, name).await;
        (depth.ready == ready && unacked.is_none_or(|unacked| depth.unacked == unacked)).then_some(())
    })
    .await;
}
