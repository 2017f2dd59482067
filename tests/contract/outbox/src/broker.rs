//! The contract of [`Broker`], one file per topic.

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

pub mod dead_lettering;
pub mod declaring;
pub mod delivering;
pub mod excluding;
pub mod publishing;
pub mod queue_addressed;
pub mod queue_depths;
pub mod routing;
pub mod settling;
pub mod subscription_end;
pub mod ttl;

/// A fresh broker without declarations, and its environment.
#[async_trait]
pub trait BrokerRig: Send + Sync {
    /// The broker; every call returns the same instance.
    fn broker(&self) -> Arc<dyn Broker>;

    /// Advances the broker's clock. If the broker uses the real clock, waits for this duration.
    async fn advance(&self, by: Duration);

    /// Capabilities in which adapters may differ.
    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities::default()
    }

    /// The same broker, opened as a restarted process would; `None` if its messages do not survive a restart.
    async fn reopened(&self) -> Option<Arc<dyn Broker>> {
        None
    }
}

/// Capabilities in which brokers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerCapabilities {
    /// `queues` counts unsettled deliveries.
    pub counts_unacked: bool,
    /// A message nacked with requeue is requeued near the head of its queue. RabbitMQ 3.10 requeues it at the end of a
    /// quorum queue without a delivery limit.
    pub requeues_near_the_head: bool,
    /// The broker's clock advances only through [`BrokerRig::advance`].
    pub simulated_clock: bool,
    /// `queues` shows the time at which the first ready message entered a queue.
    pub shows_oldest_ready: bool,
}

impl Default for BrokerCapabilities {
    fn default() -> Self {
        BrokerCapabilities {
            counts_unacked: true,
            requeues_near_the_head: true,
            simulated_clock: true,
            shows_oldest_ready: true,
        }
    }
}

// The list of all rules: add each rule here, under its module.
crate::rules! { broker_rules: BrokerRig;
    routing: [
        a_plain_binding_matches_only_its_own_key,
        a_star_wildcard_matches_exactly_one_word,
        a_star_wildcard_works_at_any_position,
        a_hash_wildcard_matches_any_number_of_words,
        a_hash_wildcard_works_at_any_position,
        a_star_and_a_hash_wildcard_match_at_least_one_word,
        a_message_reaches_every_matching_queue,
        a_message_matched_by_two_bindings_of_a_queue_is_delivered_once,
        a_binding_with_only_a_hash_wildcard_matches_every_key,
        a_queue_without_bindings_receives_nothing,
        the_standard_topology_routes_each_event_to_its_queues,
    ]
    publishing: [
        outcomes_are_returned_in_the_order_given,
        an_empty_window_has_no_outcomes,
        a_confirmed_message_is_in_its_queue,
        a_confirm_is_proof_of_its_own_event,
        an_unroutable_message_is_returned,
        only_unroutable_messages_of_a_window_are_returned,
        a_confirmed_message_is_in_every_matching_queue,
        messages_enter_a_queue_in_the_order_of_their_window,
        a_message_is_delivered_as_it_was_published,
        a_message_published_twice_is_delivered_twice,
        concurrently_published_windows_arrive_in_their_own_order,
        a_confirmed_message_survives_a_restart,
    ]
    delivering: [
        messages_are_delivered_in_queue_order,
        unsettled_deliveries_never_exceed_the_prefetch,
        a_waiting_consumer_is_woken_by_a_message,
        a_consumer_receives_only_messages_of_its_own_queue,
        a_consumer_at_its_prefetch_limit_continues_after_an_ack,
        two_consumers_share_messages_without_overlap,
        a_consumer_at_its_prefetch_limit_leaves_messages_to_another,
        a_next_cancelled_at_any_point_loses_no_message,
        a_consumer_with_cancelled_calls_misses_no_message,
        a_publish_cancelled_at_any_point_does_not_affect_the_broker,
        every_delivery_has_a_different_tag,
        unsettled_deliveries_stay_with_their_consumer,
    ]
    excluding: [
        a_message_does_not_enter_a_queue_that_it_excludes,
        a_selective_queue_gets_what_its_bindings_match,
        a_message_that_excludes_every_matching_queue_is_confirmed,
        a_message_rejected_in_a_selective_queue_moves_only_to_the_dead_letters,
        a_queue_becomes_selective,
    ]
    queue_addressed: [
        a_message_for_one_queue_reaches_only_that_queue,
        a_message_for_a_missing_queue_is_returned,
        messages_for_one_queue_keep_their_position_in_the_window,
        a_waiting_consumer_is_woken_by_a_message_for_its_queue,
        a_message_for_one_queue_expires_like_any_other,
    ]
    settling: [
        an_acked_message_is_deleted,
        settling_a_settled_delivery_changes_nothing,
        deliveries_are_settled_in_any_order,
        a_requeued_message_is_marked_as_redelivered,
        a_requeued_message_precedes_waiting_messages,
        messages_requeued_together_keep_their_order,
        a_requeued_message_may_be_delivered_to_another_consumer,
        a_rejected_message_is_dropped_without_a_dead_letter_key,
        a_rejected_message_frees_its_prefetch_slot,
    ]
    dead_lettering: [
        a_rejected_message_moves_to_the_dead_letters,
        dead_letters_keep_their_order_and_are_not_redelivered,
        a_dead_letter_reaches_every_queue_that_matches_its_key,
        a_message_dead_lettered_twice_names_the_last_queue,
        a_redelivered_message_is_dead_lettered_like_any_other,
        a_waiting_consumer_is_woken_by_a_dead_letter,
        a_settled_message_is_not_dead_lettered,
        a_message_published_after_its_dead_lettering_has_no_died_in,
    ]
    ttl: [
        a_message_is_dead_lettered_when_it_expires_and_not_before,
        a_waiting_consumer_is_woken_by_an_expiry,
        messages_expired_without_a_consumer_are_delivered,
        each_message_expires_at_its_own_time,
        an_expired_message_is_dropped_without_a_dead_letter_key,
        an_unroutable_expired_message_is_dropped,
        without_a_ttl_nothing_expires,
        an_expired_message_that_is_rejected_names_the_rejecting_queue,
    ]
    declaring: [
        a_repeated_declaration_changes_nothing,
        the_standard_topology_can_be_declared_again,
        a_different_ttl_is_refused_with_old_and_new_ttl,
        a_different_dead_letter_key_is_refused_with_old_and_new_key,
        an_added_or_removed_argument_is_refused,
        a_refused_declaration_deletes_nothing,
        a_queue_omitted_from_a_later_declaration_is_kept,
        an_undeclared_queue_cannot_be_subscribed_to,
    ]
    subscription_end: [
        a_closed_subscription_returns_its_unsettled_messages,
        a_dropped_subscription_returns_its_unsettled_messages,
        a_waiting_consumer_receives_the_messages_of_a_dropped_consumer,
        a_waiting_consumer_receives_the_messages_of_a_closed_consumer,
        a_closed_subscription_delivers_nothing,
        a_waiting_call_ends_when_its_subscription_is_closed,
        a_closed_subscription_settles_nothing,
        a_subscription_can_be_closed_twice,
        closing_a_subscription_does_not_affect_others,
    ]
    queue_depths: [
        every_declared_queue_is_listed_by_name,
        no_queue_is_listed_before_a_declaration,
        a_message_is_counted_by_its_state,
        the_oldest_ready_message_has_the_time_at_which_it_entered_its_queue,
        live_subscriptions_are_counted,
        the_load_of_queues_is_counted_up_to_a_limit,
        a_queue_has_messages_until_the_last_one_is_settled,
    ]
}

/// The queue that most rules use, bound to [`KEY`], without TTL and dead-letter key.
const QUEUE: &str = "contract.queue";
/// Routing key of [`QUEUE`].
const KEY: &str = "contract.key";
/// Routing key of the dead-letter queue in [`base_topology`].
const DEAD_LETTER_KEY: &str = "contract.dlq";
/// A key that no binding matches.
const NOWHERE: &str = "contract.nowhere";
/// A queue for control messages: see [`stays_pending`].
const CONTROL: &str = "control.queue";

fn queue(name: &str, bindings: &[&str]) -> QueueSpec {
    QueueSpec {
        name: name.to_owned(),
        bindings: bindings.iter().map(|pattern| (*pattern).to_owned()).collect(),
        ttl: None,
        dead_letter_key: None,
        is_selective: false,
        receives_from: None,
    }
}

fn dead_lettered(spec: QueueSpec, key: &str) -> QueueSpec {
    QueueSpec { dead_letter_key: Some(key.to_owned()), ..spec }
}

fn expiring(spec: QueueSpec, after: Duration) -> QueueSpec {
    QueueSpec { ttl: Some(after), ..spec }
}

/// A topology with an exchange and only the dead-letter queue.
fn base_topology() -> Topology {
    Topology::new("contract.events.exchange", "contract.dlq.queue", DEAD_LETTER_KEY)
}

/// A typical topology: queues of consumers, one of them with wildcard bindings, and a delay queue named after its
/// TTL.
fn standard(delay: Duration) -> Topology {
    let delayed = format!("book.overdue.delay.{}ms", delay.as_millis());
    let delay = QueueSpec {
        dead_letter_key: Some("book.overdue".to_owned()),
        ..expiring(queue(&format!("{delayed}.queue"), &[&delayed]), delay)
    };
    base_topology()
        .with("shelf.update.queue", &["book.added", "book.lent", "book.returned"])
        .with("book.lending.queue", &["book.lent"])
        .with_queue(delay)
        .with("book.overdue.queue", &["book.overdue"])
        .with("webhook.dispatch.queue", &["book.lent", "book.returned", "loan.*", "fine.*"])
}

fn topology(queues: &[QueueSpec]) -> Topology {
    let mut queues = queues.to_vec();
    queues.push(queue(CONTROL, &["control"]));
    Topology { queues, ..base_topology() }
}

async fn declare(rig: &dyn BrokerRig, queues: &[QueueSpec]) {
    within("declare", rig.broker().declare(&topology(queues))).await.expect("cannot declare the topology");
}

async fn declare_one(rig: &dyn BrokerRig) {
    declare(rig, &[queue(QUEUE, &[KEY])]).await;
}

/// Publishes messages with these ids and keys in one window.
async fn publish_as(rig: &dyn BrokerRig, window: &[(&str, &str)]) -> Vec<PublishOutcome> {
    let window = window.iter().map(|(id, key)| outgoing(id, key)).collect();
    within("publish", rig.broker().publish(window)).await.expect("the broker publishes")
}

/// Publishes messages with these ids and one key in one window, and asserts that they are confirmed.
async fn publish_with(rig: &dyn BrokerRig, key: &str, ids: &[&str]) {
    let window: Vec<_> = ids.iter().map(|id| (*id, key)).collect();
    for outcome in publish_as(rig, &window).await {
        assert!(matches!(outcome, PublishOutcome::Confirmed(_)), "{outcome:?}");
    }
}

/// Like [`publish_with`], to [`QUEUE`].
async fn publish(rig: &dyn BrokerRig, ids: &[&str]) {
    publish_with(rig, KEY, ids).await;
}

async fn subscribe(rig: &dyn BrokerRig, queue: &str, prefetch: u16) -> Box<dyn Subscription> {
    let prefetch = NonZeroU16::new(prefetch).expect("a prefetch");
    within("subscribe", rig.broker().subscribe(queue, prefetch))
        .await
        .expect("cannot subscribe to this queue")
}

async fn next(subscription: &dyn Subscription) -> Vec<Delivery> {
    let deliveries = within("next", subscription.next()).await.expect("cannot receive deliveries");
    assert!(!deliveries.is_empty(), "`next` returned without a delivery");
    deliveries
}

/// Receives exactly `count` deliveries.
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

/// Receives and acks all messages of a queue, in order, with a separate consumer; asserts their number.
async fn drain(rig: &dyn BrokerRig, queue: &str, count: usize) -> Vec<Delivery> {
    let consumer = subscribe(rig, queue, 1000).await;
    let deliveries = receive(consumer.as_ref(), count).await;
    ack(consumer.as_ref(), &deliveries).await;
    stays_empty(rig, consumer.as_ref()).await;
    within("close", consumer.close()).await.expect("cannot close the consumer");
    deliveries
}

/// Asserts that no further delivery arrives.
async fn stays_empty(rig: &dyn BrokerRig, subscription: &dyn Subscription) {
    stays_pending(rig, subscription.next()).await;
}

/// Asserts that a call stays pending while several other messages pass through the broker.
async fn stays_pending<T: std::fmt::Debug>(
    rig: &dyn BrokerRig,
    call: impl Future<Output = Result<T, BrokerError>>,
) {
    // Both futures are polled together, because an unpolled future may hold a resource that the other one needs.
    let time_enough = async {
        let control = subscribe(rig, CONTROL, 1).await;
        for round in 0..3 {
            publish_with(rig, "control", &[&format!("control-{round}")]).await;
            let deliveries = next(control.as_ref()).await;
            ack(control.as_ref(), &deliveries).await;
        }
        within("close", control.close()).await.expect("cannot close the consumer");
    };
    tokio::select! {
        biased;
        result = call => panic!("expected the call to stay pending, got {result:?}"),
        () = time_enough => {}
    }
}

async fn depth(rig: &dyn BrokerRig, name: &str) -> QueueDepth {
    let depths = within("queues", rig.broker().queues()).await.expect("cannot read the queue depths");
    depths.into_iter().find(|depth| depth.name == name).expect("the declared queue is not listed")
}

/// Waits until the queue has these numbers of ready and unsettled messages, because a broker may report counts late.
/// Unsettled messages are checked only if the broker counts them.
async fn settles_at(rig: &dyn BrokerRig, name: &str, ready: u64, unacked: u64) {
    let unacked = if rig.capabilities().counts_unacked { Some(unacked) } else { None };
    let what = format!("{name} with {ready} ready and {unacked:?} unsettled messages");
    eventually(&what, || async {
        let depth = depth(rig, name).await;
        (depth.ready == ready && unacked.is_none_or(|unacked| depth.unacked == unacked)).then_some(())
    })
    .await;
}
