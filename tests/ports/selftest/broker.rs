//! Brokers with one fault each.

use std::collections::BTreeSet;

use handover_contract::broker::RULES;
use handover_tests::faulty::broker::{Fault, FaultyBrokerRig};

use super::broken;

fn broken_by(fault: Fault, expected: &[&str]) -> BTreeSet<&'static str> {
    broken(RULES, expected, || Box::new(FaultyBrokerRig::new(fault)))
}

faults! { broken_by(Fault) {
    correct_broker_breaks_no_rule: None breaks []
    unroutable_message_is_confirmed: UnroutableMessageIsConfirmed breaks [
        "an_unroutable_message_is_returned",
        "a_queue_without_bindings_receives_nothing",
        "only_unroutable_messages_of_a_window_are_returned",
    ]
    return_is_attached_to_neighbour: ReturnIsAttachedToNeighbour breaks [
        "a_message_for_a_missing_queue_is_returned",
        "only_unroutable_messages_of_a_window_are_returned",
    ]
    long_windows_are_reversed: LongWindowsAreReversed breaks [
        "messages_are_delivered_in_queue_order",
        "messages_enter_a_queue_in_the_order_of_their_window",
        "messages_for_one_queue_keep_their_position_in_the_window",
    ]
    headers_are_lost: HeadersAreLost breaks [
        "a_message_is_delivered_as_it_was_published",
        "a_message_for_one_queue_reaches_only_that_queue",
        "a_message_is_dead_lettered_when_it_expires_and_not_before",
    ]
    routing_keys_ignore_case: RoutingKeysIgnoreCase breaks [
        "a_plain_binding_matches_only_its_own_key",
    ]
    star_matches_any_number_of_words: StarMatchesAnyNumberOfWords breaks [
        "a_star_and_a_hash_wildcard_match_at_least_one_word",
        "a_star_wildcard_matches_exactly_one_word",
        "a_star_wildcard_works_at_any_position",
    ]
    prefetch_is_ignored: PrefetchIsIgnored breaks [
        "a_closed_subscription_returns_its_unsettled_messages",
        "a_dropped_subscription_returns_its_unsettled_messages",
        "a_consumer_at_its_prefetch_limit_continues_after_an_ack",
        "a_message_is_counted_by_its_state",
        "the_load_of_queues_is_counted_up_to_a_limit",
        "a_refused_declaration_deletes_nothing",
        "a_rejected_message_frees_its_prefetch_slot",
        "a_requeued_message_precedes_waiting_messages",
        "a_consumer_at_its_prefetch_limit_leaves_messages_to_another",
        "messages_requeued_together_keep_their_order",
        "unsettled_deliveries_never_exceed_the_prefetch",
        "closing_a_subscription_does_not_affect_others",
        "a_repeated_declaration_changes_nothing",
    ]
    requeued_message_is_lost: RequeuedMessageIsLost breaks [
        "the_oldest_ready_message_has_the_time_at_which_it_entered_its_queue",
        "a_message_is_counted_by_its_state",
        "a_redelivered_message_is_dead_lettered_like_any_other",
        "a_requeued_message_is_marked_as_redelivered",
        "a_requeued_message_precedes_waiting_messages",
        "a_requeued_message_may_be_delivered_to_another_consumer",
        "messages_requeued_together_keep_their_order",
    ]
    redelivered_flag_is_missing: RedeliveredFlagIsMissing breaks [
        "a_closed_subscription_returns_its_unsettled_messages",
        "a_waiting_consumer_receives_the_messages_of_a_dropped_consumer",
        "a_dropped_subscription_returns_its_unsettled_messages",
        "a_requeued_message_is_marked_as_redelivered",
        "a_requeued_message_precedes_waiting_messages",
        "a_requeued_message_may_be_delivered_to_another_consumer",
        "messages_requeued_together_keep_their_order",
    ]
    rejected_message_is_requeued: RejectedMessageIsRequeued breaks [
        "the_oldest_ready_message_has_the_time_at_which_it_entered_its_queue",
        "a_waiting_consumer_is_woken_by_a_dead_letter",
        "a_dead_letter_reaches_every_queue_that_matches_its_key",
        "a_message_published_after_its_dead_lettering_has_no_died_in",
        "a_message_dead_lettered_twice_names_the_last_queue",
        "a_redelivered_message_is_dead_lettered_like_any_other",
        "a_rejected_message_is_dropped_without_a_dead_letter_key",
        "a_rejected_message_frees_its_prefetch_slot",
        "a_rejected_message_moves_to_the_dead_letters",
        "a_settled_message_is_not_dead_lettered",
        "an_expired_message_that_is_rejected_names_the_rejecting_queue",
        "dead_letters_keep_their_order_and_are_not_redelivered",
    ]
    dead_letters_lose_their_origin: DeadLettersLoseTheirOrigin breaks [
        "a_dead_letter_reaches_every_queue_that_matches_its_key",
        "a_message_dead_lettered_twice_names_the_last_queue",
        "a_rejected_message_moves_to_the_dead_letters",
        "an_expired_message_that_is_rejected_names_the_rejecting_queue",
    ]
    messages_never_expire: MessagesNeverExpire breaks [
        "a_waiting_consumer_is_woken_by_an_expiry",
        "a_message_for_one_queue_expires_like_any_other",
        "a_message_is_dead_lettered_when_it_expires_and_not_before",
        "an_expired_message_is_dropped_without_a_dead_letter_key",
        "an_expired_message_that_is_rejected_names_the_rejecting_queue",
        "an_unroutable_expired_message_is_dropped",
        "each_message_expires_at_its_own_time",
        "messages_expired_without_a_consumer_are_delivered",
    ]
    messages_expire_early: MessagesExpireEarly breaks [
        "a_message_for_one_queue_expires_like_any_other",
        "a_message_is_dead_lettered_when_it_expires_and_not_before",
        "each_message_expires_at_its_own_time",
    ]
    closed_subscription_acks_its_deliveries: ClosedSubscriptionAcksItsDeliveries breaks [
        "a_closed_subscription_returns_its_unsettled_messages",
        "a_closed_subscription_settles_nothing",
        "a_waiting_consumer_receives_the_messages_of_a_closed_consumer",
        "a_rejected_message_is_dropped_without_a_dead_letter_key",
        "settling_a_settled_delivery_changes_nothing",
        "a_subscription_can_be_closed_twice",
        "an_acked_message_is_deleted",
        "deliveries_are_settled_in_any_order",
        "messages_are_delivered_in_queue_order",
        "closing_a_subscription_does_not_affect_others",
    ]
    dropped_subscription_keeps_its_deliveries: DroppedSubscriptionKeepsItsDeliveries breaks [
        "a_waiting_consumer_receives_the_messages_of_a_dropped_consumer",
        "a_dropped_subscription_returns_its_unsettled_messages",
        "live_subscriptions_are_counted",
    ]
    closed_subscription_accepts_acks: ClosedSubscriptionAcceptsAcks breaks [
        "a_closed_subscription_settles_nothing",
    ]
    different_arguments_are_accepted: DifferentArgumentsAreAccepted breaks [
        "a_refused_declaration_deletes_nothing",
        "an_added_or_removed_argument_is_refused",
        "a_different_dead_letter_key_is_refused_with_old_and_new_key",
        "a_different_ttl_is_refused_with_old_and_new_ttl",
    ]
    oldest_ready_is_unknown: OldestReadyIsUnknown breaks [
        "the_oldest_ready_message_has_the_time_at_which_it_entered_its_queue",
    ]
    load_is_counted_below_limit: LoadIsCountedBelowLimit breaks [
        "the_load_of_queues_is_counted_up_to_a_limit",
    ]
    load_has_no_consumers: LoadHasNoConsumers breaks [
        "the_load_of_queues_is_counted_up_to_a_limit",
    ]
    unsettled_messages_are_not_seen: UnsettledMessagesAreNotSeen breaks [
        "a_queue_has_messages_until_the_last_one_is_settled",
    ]
    queues_are_listed_in_reverse: QueuesAreListedInReverse breaks [
        "every_declared_queue_is_listed_by_name",
    ]
    message_for_queue_reaches_queues_bound_to_its_name: MessageForQueueReachesQueuesBoundToItsName breaks [
        "a_message_for_a_missing_queue_is_returned",
        "a_message_for_one_queue_reaches_only_that_queue",
    ]
    message_for_missing_queue_is_confirmed: MessageForMissingQueueIsConfirmed breaks [
        "a_message_for_a_missing_queue_is_returned",
    ]
    excluded_queues_get_the_message: ExcludedQueuesGetTheMessage breaks [
        "a_message_does_not_enter_a_queue_that_it_excludes",
        "a_message_rejected_in_a_selective_queue_moves_only_to_the_dead_letters",
        "a_queue_becomes_selective",
        "a_message_that_excludes_every_matching_queue_is_confirmed",
    ]
    message_for_nobody_is_returned: MessageForNobodyIsReturned breaks [
        "a_message_that_excludes_every_matching_queue_is_confirmed",
        "a_message_does_not_enter_a_queue_that_it_excludes",
    ]
}}
