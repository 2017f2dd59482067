//! Rate limiters with one fault each.

use std::collections::BTreeSet;

use handover_tests::faulty::limiter::{Fault, FaultyLimiterRig};
use marketplace_contract::limiter::RULES;

use super::broken;

fn broken_by(fault: Fault, expected: &[&str]) -> BTreeSet<&'static str> {
    broken(RULES, expected, || Box::new(FaultyLimiterRig::new(fault)))
}

faults! { broken_by(Fault) {
    correct_limiter_breaks_no_rule: None breaks []
    one_token_too_many: OneTokenTooMany breaks [
        "bucket_grants_exactly_its_capacity",
        "clock_set_back_does_not_stop_refill",
        "each_party_and_route_has_a_separate_bucket",
        "granted_tokens_never_exceed_capacity_and_rate",
        "concurrent_requests_get_at_most_the_capacity",
    ]
    routes_share_bucket: RoutesShareBucket breaks [
        "each_party_and_route_has_a_separate_bucket",
    ]
    tenants_share_bucket: TenantsShareBucket breaks [
        "each_party_and_route_has_a_separate_bucket",
    ]
    addresses_share_bucket: AddressesShareBucket breaks [
        "each_party_and_route_has_a_separate_bucket",
    ]
    retry_after_too_short: RetryAfterTooShort breaks [
        "clock_set_back_does_not_stop_refill",
        "refusal_does_not_delay_next_token",
        "refusal_reports_wait_for_next_token",
        "granted_tokens_never_exceed_capacity_and_rate",
    ]
    retry_after_too_long: RetryAfterTooLong breaks [
        "clock_set_back_does_not_stop_refill",
        "refusal_does_not_delay_next_token",
        "refusal_reports_wait_for_next_token",
        "granted_tokens_never_exceed_capacity_and_rate",
    ]
    refusal_delays_refill: RefusalDelaysRefill breaks [
        "refusal_does_not_delay_next_token",
        "refusal_reports_wait_for_next_token",
        "granted_tokens_never_exceed_capacity_and_rate",
    ]
    refills_twice_as_fast: RefillsTwiceAsFast breaks [
        "bucket_refills_at_its_rate_up_to_capacity",
        "refusal_does_not_delay_next_token",
        "refusal_reports_wait_for_next_token",
        "granted_tokens_never_exceed_capacity_and_rate",
    ]
    refills_beyond_capacity: RefillsBeyondCapacity breaks [
        "bucket_refills_at_its_rate_up_to_capacity",
        "clock_set_forward_adds_at_most_one_full_bucket",
        "granted_tokens_never_exceed_capacity_and_rate",
    ]
    concurrent_takes_share_token: ConcurrentTakesShareToken breaks [
        "concurrent_requests_get_at_most_the_capacity",
    ]
    waits_after_clock_set_back: WaitsAfterClockSetBack breaks [
        "clock_set_back_does_not_stop_refill",
        "granted_tokens_never_exceed_capacity_and_rate",
    ]
    refills_when_clock_set_back: RefillsWhenClockSetBack breaks [
        "clock_set_back_adds_no_tokens",
        "clock_set_back_does_not_stop_refill",
        "granted_tokens_never_exceed_capacity_and_rate",
    ]
}}
