//! Idempotency stores with one fault each.

use std::collections::BTreeSet;

use handover_tests::faulty::keys::{Fault, FaultyKeysRig};
use marketplace_contract::keys::RULES;

use super::broken;

fn broken_by(fault: Fault, expected: &[&str]) -> BTreeSet<&'static str> {
    broken(RULES, expected, || Box::new(FaultyKeysRig::new(fault)))
}

faults! { broken_by(Fault) {
    correct_keys_break_no_rule: None breaks []
    tenants_share_keys: TenantsShareKeys breaks ["scopes_differ_by_tenant_user_route_and_key"]
    users_share_keys: UsersShareKeys breaks ["scopes_differ_by_tenant_user_route_and_key"]
    routes_share_keys: RoutesShareKeys breaks ["scopes_differ_by_tenant_user_route_and_key"]
    keys_ignore_case: KeysIgnoreCase breaks ["scopes_differ_by_tenant_user_route_and_key"]
    scope_parts_are_not_separated: ScopePartsAreNotSeparated breaks ["scopes_differ_by_tenant_user_route_and_key"]
    concurrent_claims_both_succeed: ConcurrentClaimsBothSucceed breaks ["concurrent_claims_succeed_exactly_once"]
    concurrent_takeovers_both_succeed: ConcurrentTakeoversBothSucceed breaks ["concurrent_takeovers_succeed_exactly_once"]
    repeated_claim_is_in_progress: RepeatedClaimIsInProgress breaks ["repeated_claim_with_same_token_succeeds"]
    different_body_is_replayed: DifferentBodyIsReplayed breaks [
        "valid_lease_blocks_claims_until_it_expires",
        "claim_with_different_body_is_refused",
    ]
    leases_end_immediately: LeasesEndImmediately breaks [
        "expired_claim_frees_its_key",
        "repeated_claim_with_same_token_succeeds",
        "released_key_is_free",
        "valid_lease_blocks_claims_until_it_expires",
        "concurrent_claims_succeed_exactly_once",
        "concurrent_takeovers_succeed_exactly_once",
        "claim_is_refused_while_request_is_in_progress",
        "late_owner_changes_nothing_after_takeover",
    ]
    leases_never_end: LeasesNeverEnd breaks [
        "valid_lease_blocks_claims_until_it_expires",
        "concurrent_takeovers_succeed_exactly_once",
        "late_owner_changes_nothing_after_takeover",
    ]
    late_owner_stores_response: LateOwnerStoresResponse breaks [
        "stored_response_is_not_replaced_or_released",
        "late_owner_changes_nothing_after_takeover",
    ]
    late_owner_releases_key: LateOwnerReleasesKey breaks [
        "expired_claim_frees_its_key",
        "released_key_is_free",
        "late_owner_changes_nothing_after_takeover",
    ]
    response_keeps_token_of_claim: ResponseKeepsTokenOfClaim breaks [
        "stored_response_is_not_replaced_or_released",
    ]
    responses_are_released: ResponsesAreReleased breaks ["stored_response_is_not_replaced_or_released"]
    responses_are_truncated: ResponsesAreTruncated breaks ["key_is_claimed_once_and_response_is_replayed_exactly"]
    responses_expire_with_lease: ResponsesExpireWithLease breaks [
        "stored_response_expires_at_time_of_its_claim",
    ]
    retention_starts_at_response: RetentionStartsAtResponse breaks [
        "stored_response_expires_at_time_of_its_claim",
    ]
    expiry_is_ignored: ExpiryIsIgnored breaks [
        "expired_claim_frees_its_key",
        "stored_response_expires_at_time_of_its_claim",
    ]
    unclaimed_responses_are_stored: UnclaimedResponsesAreStored breaks ["unclaimed_key_cannot_be_completed_or_released"]
}}
