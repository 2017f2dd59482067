//! Idempotency stores that break one promise each.

use std::collections::BTreeSet;

use handover_tests::flawed::keys::{Flaw, FlawedKeysRig};
use marketplace_contract::keys::RULES;

use super::broken;

fn broken_by(flaw: Flaw) -> BTreeSet<&'static str> {
    broken(RULES, || Box::new(FlawedKeysRig::new(flaw)))
}

flaws! { broken_by(Flaw) {
    sound_keys_break_no_rule: None breaks []
    tenants_share_keys: TenantsShareKeys breaks ["every_tenant_user_route_and_key_is_for_itself"]
    users_share_keys: UsersShareKeys breaks ["every_tenant_user_route_and_key_is_for_itself"]
    routes_share_keys: RoutesShareKeys breaks ["every_tenant_user_route_and_key_is_for_itself"]
    idempotency_keys_ignore_case: KeysIgnoreCase breaks ["every_tenant_user_route_and_key_is_for_itself"]
    scopes_are_run_together: ScopesAreRunTogether breaks ["every_tenant_user_route_and_key_is_for_itself"]
    two_at_once_claim_one: TwoAtOnceClaimOne breaks ["of_many_at_once_exactly_one_claims_a_key"]
    two_at_once_take_over: TwoAtOnceTakeOver breaks ["of_many_that_take_over_exactly_one_does"]
    own_claims_are_in_progress: OwnClaimsAreInProgress breaks ["a_claim_that_is_written_again_stands"]
    another_body_is_a_repeat: AnotherBodyIsARepeat breaks [
        "a_lease_keeps_others_away_until_it_ends",
        "another_body_is_another_request",
    ]
    leases_end_at_once: LeasesEndAtOnce breaks [
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
    overtaken_ones_answer: OvertakenOnesAnswer breaks [
        "an_answer_has_a_token_of_its_own",
        "whoever_was_overtaken_changes_nothing",
    ]
    overtaken_ones_release: OvertakenOnesRelease breaks [
        "a_claim_that_expired_is_as_if_it_had_never_come",
        "a_key_that_was_released_is_free",
        "whoever_was_overtaken_changes_nothing",
    ]
    answers_keep_the_token_of_the_claim: AnswersKeepTheTokenOfTheClaim breaks [
        "an_answer_has_a_token_of_its_own",
    ]
    answers_are_released: AnswersAreReleased breaks ["an_answer_has_a_token_of_its_own"]
    answers_are_cut: AnswersAreCut breaks ["a_key_is_claimed_once_and_then_answered_as_it_was"]
    answers_end_with_the_lease: AnswersEndWithTheLease breaks [
        "an_answer_lasts_as_long_as_was_claimed_and_no_longer",
    ]
    answers_last_from_when_they_came: AnswersLastFromWhenTheyCame breaks [
        "an_answer_lasts_as_long_as_was_claimed_and_no_longer",
    ]
    nothing_expires: NothingExpires breaks [
        "a_claim_that_expired_is_as_if_it_had_never_come",
        "an_answer_lasts_as_long_as_was_claimed_and_no_longer",
    ]
    unclaimed_answers_are_kept: UnclaimedAnswersAreKept breaks ["nothing_is_changed_where_nothing_stands"]
}}
