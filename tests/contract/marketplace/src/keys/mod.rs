//! The contract of [`IdempotencyStore`].

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use marketplace::ports::{
    IdempotencyError, IdempotencyStore, KeptRequest, RequestScope, RequestState, StoredAnswer,
};

use crate::samples::{kept_request, user};

pub mod claiming;
pub mod ending;

/// A store of idempotency keys under test, and control of its clock.
pub trait KeysRig: Send + Sync {
    /// The store; every call returns the same instance.
    fn keys(&self) -> Arc<dyn IdempotencyStore>;

    /// The current time for claims.
    fn now(&self) -> DateTime<Utc>;

    /// Advances the time, also of the store, in addition to real time.
    fn advance(&self, by: Duration);
}

// The list of all rules: add each rule here, under the name of its file.
handover_contract::rules! { keys_rules: KeysRig;
    claiming: [
        a_key_is_claimed_once_and_then_answered_as_it_was,
        a_claim_that_is_written_again_stands,
        while_one_is_at_work_others_are_told_so,
        another_body_is_another_request,
        a_key_that_was_released_is_free,
        every_tenant_user_route_and_key_is_for_itself,
        of_many_at_once_exactly_one_claims_a_key,
    ]
    ending: [
        a_lease_keeps_others_away_until_it_ends,
        whoever_was_overtaken_changes_nothing,
        of_many_that_take_over_exactly_one_does,
        an_answer_has_a_token_of_its_own,
        an_answer_lasts_as_long_as_was_claimed_and_no_longer,
        a_claim_that_expired_is_as_if_it_had_never_come,
        nothing_is_changed_where_nothing_stands,
    ]
}

/// Lease of a claim. The durations are so long that the run time of a rule is negligible.
pub const LEASE: Duration = Duration::from_secs(400);
/// Retention of a stored response.
pub const KEEP: Duration = Duration::from_secs(4_000);
pub(crate) const MARGIN: Duration = Duration::from_secs(100);

/// A unique scope.
pub(crate) fn fresh_scope() -> RequestScope {
    static USED: AtomicI64 = AtomicI64::new(1_000);
    let number = USED.fetch_add(1, Ordering::Relaxed);
    RequestScope { user: user(number), ..kept_request(&format!("key-{number}"), "").scope }
}

/// A claim of this scope, made now.
pub(crate) fn claim_of(rig: &dyn KeysRig, scope: &RequestScope, token: &str) -> KeptRequest {
    let now = rig.now();
    KeptRequest {
        scope: scope.clone(),
        state: RequestState::Processing { until: now + LEASE },
        create_time: now,
        expire_time: now + KEEP,
        ..kept_request("", token)
    }
}

/// The outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimOutcome {
    First,
    Completed(StoredAnswer),
    InProgress,
    KeyTaken,
}

pub(crate) async fn claim(rig: &dyn KeysRig, claim: &KeptRequest) -> ClaimOutcome {
    claim_outcome(rig.keys().claim(claim).await)
}

pub(crate) fn claim_outcome(claimed: Result<Option<StoredAnswer>, IdempotencyError>) -> ClaimOutcome {
    match claimed {
        Ok(None) => ClaimOutcome::First,
        Ok(Some(answer)) => ClaimOutcome::Completed(answer),
        Err(IdempotencyError::InProgress) => ClaimOutcome::InProgress,
        Err(IdempotencyError::KeyTaken) => ClaimOutcome::KeyTaken,
        Err(error @ (IdempotencyError::Store(_) | IdempotencyError::Away(_))) => panic!("{error}"),
    }
}
