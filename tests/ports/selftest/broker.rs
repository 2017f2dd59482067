//! Brokers with one fault each.

use std::collections::BTreeSet;

use handover_contract::broker::RULES;
use handover_tests::flawed::broker::{Flaw, FlawedBrokerRig};

use super::broken;

fn broken_by(fault: Flaw) -> BTreeSet<&'static str> {
    broken(RULES, || Box::new(FlawedBrokerRig::new(fault)))
}

faults! { broken_by(Flaw) {
    correct_broker_breaks_no_rule: None breaks []
    unroutable_message_is_confirmed: UnroutableIsConfirmed breaks [
        "a_message_that_no_queue_takes_is_returned",
        "a_queue_without_bindings_gets_nothing",
        "of_a_window_only_what_no_queue_takes_is_returned",
    ]
    return_is_attached_to_neighbour: ReturnsAreAttachedToANeighbour breaks [
        "a_message_for_a_queue_that_is_not_there_is_returned",
        "of_a_window_only_what_no_queue_takes_is_returned",
    ]
    long_windows_are_reversed: LongWindowsLoseTheirOrder breaks [
        "messages_come_in_the_order_of_the_queue",
        "messages_enter_a_queue_in_the_order_of_their_window",
        "messages_for_one_queue_keep_their_place_in_the_window",
    ]
    headers_are_lost: HeadersAreLost breaks [
        "a_message_arrives_as_it_was_published",
        "a_message_for_one_queue_reaches_it_alone",
        "a_message_is_routed_on_when_it_expires_and_not_before",
    ]
    routing_keys_ignore_case: KeysIgnoreCase breaks [
        "a_plain_binding_takes_its_own_key_only",
    ]
    star_matches_any_number_of_words: AStarTakesAnyNumberOfWords breaks [
        "a_star_and_a_hash_stand_for_at_least_one_word",
        "a_star_stands_for_exactly_one_word",
        "a_star_stands_in_any_place",
    ]
    prefetch_is_ignored: PrefetchIsIgnored breaks [
        "a_closed_subscription_returns_what_it_had",
        "a_dropped_subscription_returns_what_it_had",
        "a_full_consumer_goes_on_once_something_is_settled",
        "a_message_is_counted_where_it_is",
        "a_refused_declaration_deletes_nothing",
        "a_rejected_message_makes_room",
        "a_requeued_message_comes_before_those_behind_it",
        "both_consumers_get_their_share",
        "messages_requeued_together_keep_their_order",
        "no_more_are_unsettled_than_the_prefetch_allows",
        "other_subscriptions_live_on",
        "the_same_declared_again_changes_nothing",
    ]
    requeued_message_is_lost: RequeuedIsLost breaks [
        "a_message_is_counted_where_it_is",
        "a_redelivered_message_dies_like_any_other",
        "a_requeued_message_comes_again_marked",
        "a_requeued_message_comes_before_those_behind_it",
        "a_requeued_message_may_come_to_another_consumer",
        "messages_requeued_together_keep_their_order",
    ]
    redelivered_flag_is_missing: RequeuedGoesUnmarked breaks [
        "a_closed_subscription_returns_what_it_had",
        "a_consumer_that_waits_gets_what_a_dropped_one_had",
        "a_dropped_subscription_returns_what_it_had",
        "a_requeued_message_comes_again_marked",
        "a_requeued_message_comes_before_those_behind_it",
        "a_requeued_message_may_come_to_another_consumer",
        "messages_requeued_together_keep_their_order",
    ]
    rejected_message_is_requeued: RejectedIsRequeued breaks [
        "a_consumer_of_dead_letters_is_woken_by_one",
        "a_dead_letter_reaches_every_queue_that_takes_its_key",
        "a_message_published_anew_has_not_died",
        "a_message_that_dies_again_tells_where_it_died_last",
        "a_redelivered_message_dies_like_any_other",
        "a_rejected_message_is_dropped_where_the_queue_says_nothing",
        "a_rejected_message_makes_room",
        "a_rejected_message_moves_to_the_dead_letters",
        "a_settled_message_is_not_dead_lettered",
        "an_expired_message_that_is_rejected_died_where_it_was_rejected",
        "dead_letters_keep_their_order_and_are_not_redelivered",
    ]
    dead_letters_lose_their_origin: DeadLettersForgetWhereTheyDied breaks [
        "a_dead_letter_reaches_every_queue_that_takes_its_key",
        "a_message_that_dies_again_tells_where_it_died_last",
        "a_rejected_message_moves_to_the_dead_letters",
        "an_expired_message_that_is_rejected_died_where_it_was_rejected",
    ]
    messages_never_expire: ExpiryNeverComes breaks [
        "a_consumer_that_waits_is_woken_by_an_expiry",
        "a_message_for_one_queue_expires_like_any_other",
        "a_message_is_routed_on_when_it_expires_and_not_before",
        "an_expired_message_is_dropped_where_the_queue_says_nothing",
        "an_expired_message_that_is_rejected_died_where_it_was_rejected",
        "an_expiry_into_nowhere_disturbs_nobody",
        "each_message_has_its_own_time",
        "what_expired_while_nobody_listened_is_delivered",
    ]
    messages_expire_early: ExpiryIsEarly breaks [
        "a_message_for_one_queue_expires_like_any_other",
        "a_message_is_routed_on_when_it_expires_and_not_before",
        "each_message_has_its_own_time",
    ]
    closed_subscription_acks_its_deliveries: ClosedSubscriptionsLoseWhatTheyHad breaks [
        "a_closed_subscription_returns_what_it_had",
        "a_closed_subscription_settles_nothing",
        "a_consumer_that_waits_gets_what_a_closed_one_had",
        "a_rejected_message_is_dropped_where_the_queue_says_nothing",
        "a_settled_tag_is_ignored",
        "a_subscription_can_be_closed_again",
        "an_acked_message_is_gone",
        "deliveries_are_settled_in_any_order",
        "messages_come_in_the_order_of_the_queue",
        "other_subscriptions_live_on",
    ]
    dropped_subscription_keeps_its_deliveries: DroppedSubscriptionsKeepWhatTheyHad breaks [
        "a_consumer_that_waits_gets_what_a_dropped_one_had",
        "a_dropped_subscription_returns_what_it_had",
        "live_subscriptions_are_counted",
    ]
    closed_subscription_accepts_acks: ClosedSubscriptionsAckOn breaks [
        "a_closed_subscription_settles_nothing",
    ]
    different_arguments_are_accepted: OtherArgumentsAreAccepted breaks [
        "a_refused_declaration_deletes_nothing",
        "an_argument_that_comes_or_goes_is_refused",
        "another_dead_letter_key_is_refused_with_both_values",
        "another_ttl_is_refused_with_both_values",
    ]
    queues_are_listed_in_reverse: QueuesAreListedBackwards breaks [
        "every_declared_queue_is_listed_by_name",
    ]
    message_for_queue_reaches_queues_bound_to_its_name: MessagesForOneQueueReachThoseBoundToItsNameToo breaks [
        "a_message_for_a_queue_that_is_not_there_is_returned",
        "a_message_for_one_queue_reaches_it_alone",
    ]
    message_for_missing_queue_is_confirmed: MessagesForNoQueueAreConfirmed breaks [
        "a_message_for_a_queue_that_is_not_there_is_returned",
    ]
}}
