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

/// A store of idempotency keys and its time.
pub trait KeysRig: Send + Sync {
    /// The store; every call gives the same.
    fn keys(&self) -> Arc<dyn IdempotencyStore>;

    /// Now, as claims say it.
    fn now(&self) -> DateTime<Utc>;

    /// Lets time pass, for the store too, beside what passes by itself.
    fn advance(&self, by: Duration);
}

// The one list of the rules: add a rule here, under the file it is in.
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

/// How long a claim is leased. Lengths of rules are such that what a rule takes by itself does not count.
pub const LEASE: Duration = Duration::from_secs(400);
/// How long an answer is kept.
pub const KEEP: Duration = Duration::from_secs(4_000);
pub(crate) const MARGIN: Duration = Duration::from_secs(100);

/// A request that nobody else makes.
pub(crate) fn fresh_scope() -> RequestScope {
    static USED: AtomicI64 = AtomicI64::new(1_000);
    let number = USED.fetch_add(1, Ordering::Relaxed);
    RequestScope { user: user(number), ..kept_request(&format!("key-{number}"), "").scope }
}

/// The claim of somebody who asks for it now.
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

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Became {
    First,
    Before(StoredAnswer),
    InProgress,
    KeyTaken,
}

pub(crate) async fn claim(rig: &dyn KeysRig, claim: &KeptRequest) -> Became {
    became(rig.keys().claim(claim).await)
}

pub(crate) fn became(claimed: Result<Option<StoredAnswer>, IdempotencyError>) -> Became {
    match claimed {
        Ok(None) => Became::First,
        Ok(Some(answer)) => Became::Before(answer),
        Err(IdempotencyError::InProgress) => Became::InProgress,
        Err(IdempotencyError::KeyTaken) => Became::KeyTaken,
        Err(error @ (IdempotencyError::Store(_) | IdempotencyError::Away(_))) => panic!("{error}"),
    }
}
