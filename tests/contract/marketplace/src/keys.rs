//! The contract of [`IdempotencyStore`].

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use marketplace::ports::{
    IdempotencyError, IdempotencyStore, RequestRecord, RequestScope, RequestState, StoredResponse,
};

use crate::samples::{processing_request, user};

pub mod claiming;
pub mod expiry;

/// A store of idempotency keys under test, and control of its clock.
pub trait KeysRig: Send + Sync {
    /// The store; every call returns the same instance.
    fn keys(&self) -> Arc<dyn IdempotencyStore>;

    /// The current time for claims.
    fn now(&self) -> DateTime<Utc>;

    /// Advances the time of [`KeysRig::now`] and of the store, in addition to the real time that passes.
    fn advance(&self, by: Duration);
}

// The list of all rules: add each rule here, under the name of its file.
handover_contract::rules! { keys_rules: KeysRig;
    claiming: [
        key_is_claimed_once_and_response_is_replayed_exactly,
        repeated_claim_with_same_token_succeeds,
        claim_is_refused_while_request_is_in_progress,
        claim_with_different_body_is_refused,
        released_key_is_free,
        scopes_differ_by_tenant_user_route_and_key,
        concurrent_claims_succeed_exactly_once,
    ]
    expiry: [
        valid_lease_blocks_claims_until_it_expires,
        late_owner_changes_nothing_after_takeover,
        concurrent_takeovers_succeed_exactly_once,
        stored_response_is_not_replaced_or_released,
        stored_response_expires_at_time_of_its_claim,
        expired_claim_frees_its_key,
        unclaimed_key_cannot_be_completed_or_released,
    ]
}

/// Duration of the lease of a claim: so long that the run time of a rule is negligible.
pub const LEASE: Duration = Duration::from_secs(400);
/// Retention of a stored response.
pub const RETENTION: Duration = Duration::from_secs(4_000);
pub(crate) const MARGIN: Duration = Duration::from_secs(100);

/// The scope of a request that no other rule uses.
pub(crate) fn fresh_scope() -> RequestScope {
    static USED: AtomicI64 = AtomicI64::new(1_000);
    let number = USED.fetch_add(1, Ordering::Relaxed);
    RequestScope { user: user(number), ..processing_request(&format!("key-{number}"), "").scope }
}

/// A claim of this scope, made now.
pub(crate) fn claim_of(rig: &dyn KeysRig, scope: &RequestScope, token: &str) -> RequestRecord {
    let now = rig.now();
    RequestRecord {
        scope: scope.clone(),
        state: RequestState::Processing { until: now + LEASE },
        create_time: now,
        expire_time: now + RETENTION,
        ..processing_request("", token)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimOutcome {
    First,
    Completed(StoredResponse),
    InProgress,
    KeyReused,
}

pub(crate) async fn claim(rig: &dyn KeysRig, claim: &RequestRecord) -> ClaimOutcome {
    claim_outcome(rig.keys().claim(claim).await)
}

pub(crate) fn claim_outcome(claimed: Result<Option<StoredResponse>, IdempotencyError>) -> ClaimOutcome {
    match claimed {
        Ok(None) => ClaimOutcome::First,
        Ok(Some(answer)) => ClaimOutcome::Completed(answer),
        Err(IdempotencyError::InProgress) => ClaimOutcome::InProgress,
        Err(IdempotencyError::KeyReused) => ClaimOutcome::KeyReused,
        Err(error @ (IdempotencyError::Store(_) | IdempotencyError::Unavailable(_))) => panic!("{error}"),
    }
}
