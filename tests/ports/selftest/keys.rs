//! Idempotency stores with one fault each.

use std::collections::BTreeSet;

use handover_tests::flawed::keys::{Flaw, FlawedKeysRig};
use marketplace_contract::keys::RULES;

use super::broken;

fn broken_by(fault: Flaw) -> BTreeSet<&'static str> {
    broken(RULES, || Box::new(FlawedKeysRig::new(fault)))
}

faults! { broken_by(Flaw) {
    correct_keys_break_no_rule: None breaks []
    tenants_share_keys: TenantsShareKeys breaks ["every_tenant_user_route_and_key_is_for_itself"]
    users_share_keys: UsersShareKeys breaks ["every_tenant_user_route_and_key_is_for_itself"]
    routes_share_keys: RoutesShareKeys breaks ["every_tenant_user_route_and_key_is_for_itself"]
    keys_ignore_case: KeysIgnoreCase breaks ["every_tenant_user_route_and_key_is_for_itself"]
    scope_parts_are_not_separated: ScopesAreRunTogether breaks ["every_tenant_user_route_and_key_is_for_itself"]
    concurrent_claims_both_succeed: TwoAtOnceClaimOne breaks ["of_many_at_once_exactly_one_claims_a_key"]
    concurrent_takeovers_both_succeed: TwoAtOnceTakeOver breaks ["of_many_that_take_over_exactly_one_does"]
    repeated_claim_is_in_progress: OwnClaimsAreInProgress breaks ["a_claim_that_is_written_again_stands"]
    different_body_is_replayed: AnotherBodyIsARepeat breaks [
        "a_lease_keeps_others_away_until_it_ends",
        "another_body_is_another_request",
    ]
    leases_end_immediately: LeasesEndAtOnce breaks [
        "a_claim_that_expired_is_as_if_it_had_never_come",
        "a_claim_that_is_written_again_stands",
        "a_key_that_was_released_is_free",
        "a_lease_keeps_others_away_until_it_ends",
        "of_many_at_once_exactly_one_claims_a_key",
        "of_many_that_take_over_exactly_one_does",
        "while_one_is_at_work_others_are_told_so",
        "whoever_was_overtaken_changes_nothing",
    ]
    leases_never_end: LeasesNeverEnd breaks [
        "a_lease_keeps_others_away_until_it_ends",
        "of_many_that_take_over_exactly_one_does",
        "whoever_was_overtaken_changes_nothing",
    ]
    late_owner_stores_response: OvertakenOnesAnswer breaks [
        "an_answer_has_a_token_of_its_own",
        "whoever_was_overtaken_changes_nothing",
    ]
    late_owner_releases_key: OvertakenOnesRelease breaks [
        "a_claim_that_expired_is_as_if_it_had_never_come",
        "a_key_that_was_released_is_free",
        "whoever_was_overtaken_changes_nothing",
    ]
    response_keeps_token_of_claim: AnswersKeepTheTokenOfTheClaim breaks [
        "an_answer_has_a_token_of_its_own",
    ]
    responses_are_released: AnswersAreReleased breaks ["an_answer_has_a_token_of_its_own"]
    responses_are_truncated: AnswersAreCut breaks ["a_key_is_claimed_once_and_then_answered_as_it_was"]
    responses_expire_with_lease: AnswersEndWithTheLease breaks [
        "an_answer_lasts_as_long_as_was_claimed_and_no_longer",
    ]
    retention_starts_at_response: AnswersLastFromWhenTheyCame breaks [
        "an_answer_lasts_as_long_as_was_claimed_and_no_longer",
    ]
    expiry_is_ignored: NothingExpires breaks [
        "a_claim_that_expired_is_as_if_it_had_never_come",
        "an_answer_lasts_as_long_as_was_claimed_and_no_longer",
    ]
    unclaimed_responses_are_stored: UnclaimedAnswersAreKept breaks ["nothing_is_changed_where_nothing_stands"]
}}
