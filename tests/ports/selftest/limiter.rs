//! Rate limiters with one fault each.

use std::collections::BTreeSet;

use handover_tests::flawed::limiter::{Flaw, FlawedLimiterRig};
use marketplace_contract::limiter::RULES;

use super::broken;

fn broken_by(fault: Flaw) -> BTreeSet<&'static str> {
    broken(RULES, || Box::new(FlawedLimiterRig::new(fault)))
}

faults! { broken_by(Flaw) {
    correct_limiter_breaks_no_rule: None breaks []
    one_token_too_many: OneTokenTooMany breaks [
        "a_bucket_holds_what_it_says_and_no_more",
        "a_clock_set_back_keeps_no_bucket_empty",
        "every_party_and_route_has_a_bucket_of_its_own",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
        "of_many_at_once_no_more_are_let_in_than_the_bucket_holds",
    ]
    routes_share_bucket: RoutesShareABucket breaks [
        "every_party_and_route_has_a_bucket_of_its_own",
    ]
    tenants_share_bucket: TenantsShareABucket breaks [
        "every_party_and_route_has_a_bucket_of_its_own",
    ]
    addresses_share_bucket: AddressesShareABucket breaks [
        "every_party_and_route_has_a_bucket_of_its_own",
    ]
    retry_after_too_short: WaitsAreTooShort breaks [
        "a_clock_set_back_keeps_no_bucket_empty",
        "a_refusal_costs_nothing",
        "a_refusal_says_when_there_is_a_token",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    retry_after_too_long: WaitsAreTooLong breaks [
        "a_clock_set_back_keeps_no_bucket_empty",
        "a_refusal_costs_nothing",
        "a_refusal_says_when_there_is_a_token",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    refusal_delays_refill: RefusalsCost breaks [
        "a_refusal_costs_nothing",
        "a_refusal_says_when_there_is_a_token",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    refills_twice_as_fast: FillsTwiceAsFast breaks [
        "a_bucket_fills_at_its_pace_and_no_further_than_full",
        "a_refusal_costs_nothing",
        "a_refusal_says_when_there_is_a_token",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    refills_beyond_capacity: FillsBeyondFull breaks [
        "a_bucket_fills_at_its_pace_and_no_further_than_full",
        "a_clock_set_forward_gives_one_full_bucket_at_most",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    concurrent_takes_share_token: TwoAtOnceTakeOneToken breaks [
        "of_many_at_once_no_more_are_let_in_than_the_bucket_holds",
    ]
    waits_after_clock_set_back: WaitsForAClockThatWasSetBack breaks [
        "a_clock_set_back_keeps_no_bucket_empty",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    refills_when_clock_set_back: AClockSetBackFills breaks [
        "a_clock_set_back_gives_nothing",
        "a_clock_set_back_keeps_no_bucket_empty",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
}}
