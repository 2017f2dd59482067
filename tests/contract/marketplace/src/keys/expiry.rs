//! Rules for the expiry of leases and stored responses.

use handover_outbox::ports::Changed;
use marketplace::ports::{RequestRecord, StoredResponse};

use super::claiming::exactly_one_claims;
use super::{ClaimOutcome, KeysRig, LEASE, MARGIN, RETENTION, claim, claim_of, fresh_scope};
use crate::samples::completed_request;

/// Until the lease expires, other requests do not get the key. After that, the next request with the same body gets it,
/// with a new lease.
pub async fn valid_lease_blocks_claims_until_it_expires(rig: &dyn KeysRig) {
    let scope = fresh_scope();
    assert_eq!(claim(rig, &claim_of(rig, &scope, "t1")).await, ClaimOutcome::First);
    rig.advance(LEASE - MARGIN);
    assert_eq!(claim(rig, &claim_of(rig, &scope, "t2")).await, ClaimOutcome::InProgress);
    rig.advance(MARGIN);
    let other_body = RequestRecord { body_hash: "b".repeat(64), ..claim_of(rig, &scope, "t3") };
    assert_eq!(
        claim(rig, &other_body).await,
        ClaimOutcome::KeyReused,
        "after the lease, the key must still be bound to the first body"
    );
    assert_eq!(claim(rig, &claim_of(rig, &scope, "t4")).await, ClaimOutcome::First);
    rig.advance(LEASE - MARGIN);
    assert_eq!(claim(rig, &claim_of(rig, &scope, "t5")).await, ClaimOutcome::InProgress);
}

/// After a takeover, the previous owner can neither store a response nor release the key, even before the new owner has
/// stored its response.
pub async fn late_owner_changes_nothing_after_takeover(rig: &dyn KeysRig) {
    let late = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &late).await, ClaimOutcome::First);
    rig.advance(LEASE);
    let takeover = claim_of(rig, &late.scope, "t2");
    assert_eq!(claim(rig, &takeover).await, ClaimOutcome::First);
    let too_late = RequestRecord { token: "t3".into(), ..completed_request(&late, "1") };
    let late_calls_change_nothing = async || {
        assert_eq!(rig.keys().store_response("t1", &too_late).await.unwrap(), Changed::None);
        assert_eq!(rig.keys().release(&late.scope, "t1").await.unwrap(), Changed::None);
    };
    late_calls_change_nothing().await;
    assert_eq!(claim(rig, &claim_of(rig, &late.scope, "t4")).await, ClaimOutcome::InProgress);
    let answered = RequestRecord { token: "t5".into(), ..completed_request(&takeover, "2") };
    assert_eq!(rig.keys().store_response("t2", &answered).await.unwrap(), Changed::One);
    late_calls_change_nothing().await;
    let answer = StoredResponse { code: 201, text: "2".to_owned() };
    assert_eq!(claim(rig, &claim_of(rig, &late.scope, "t6")).await, ClaimOutcome::Completed(answer));
}

/// If a hundred concurrent requests find an expired lease, exactly one of them takes over the key.
pub async fn concurrent_takeovers_succeed_exactly_once(rig: &dyn KeysRig) {
    let late = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &late).await, ClaimOutcome::First);
    rig.advance(LEASE);
    let token = exactly_one_claims(rig, &late.scope, 0).await;
    assert_eq!(rig.keys().release(&late.scope, &token).await.unwrap(), Changed::One);
}

/// A stored response is final: the token of its claim cannot replace it, and neither this token nor the token of the
/// response can release its key.
pub async fn stored_response_is_not_replaced_or_released(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, ClaimOutcome::First);
    let answered = RequestRecord { token: "t2".into(), ..completed_request(&first, "1") };
    assert_eq!(rig.keys().store_response("t1", &answered).await.unwrap(), Changed::One);
    let other = RequestRecord { token: "t3".into(), ..completed_request(&first, "2") };
    assert_eq!(rig.keys().store_response("t1", &other).await.unwrap(), Changed::None);
    for token in ["t1", "t2"] {
        assert_eq!(rig.keys().release(&first.scope, token).await.unwrap(), Changed::None);
    }
    let answer = StoredResponse { code: 201, text: "1".to_owned() };
    assert_eq!(claim(rig, &claim_of(rig, &first.scope, "t4")).await, ClaimOutcome::Completed(answer));
}

/// A response is kept after the lease has expired, until the expiry time of its claim; then the key is free for any
/// body.
pub async fn stored_response_expires_at_time_of_its_claim(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, ClaimOutcome::First);
    rig.advance(LEASE - MARGIN);
    let answered = RequestRecord { token: "t2".into(), ..completed_request(&first, "1") };
    assert_eq!(rig.keys().store_response("t1", &answered).await.unwrap(), Changed::One);
    rig.advance(RETENTION - LEASE);
    let answer = StoredResponse { code: 201, text: "1".to_owned() };
    assert_eq!(claim(rig, &claim_of(rig, &first.scope, "t3")).await, ClaimOutcome::Completed(answer));
    rig.advance(MARGIN);
    let other = RequestRecord { body_hash: "b".repeat(64), ..claim_of(rig, &first.scope, "t4") };
    assert_eq!(claim(rig, &other).await, ClaimOutcome::First);
    assert_eq!(rig.keys().release(&first.scope, "t4").await.unwrap(), Changed::One);
}

/// A claim without a response expires too, and its owner cannot change a later claim.
pub async fn expired_claim_frees_its_key(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, ClaimOutcome::First);
    rig.advance(RETENTION);
    let other = RequestRecord { body_hash: "b".repeat(64), ..claim_of(rig, &first.scope, "t2") };
    assert_eq!(claim(rig, &other).await, ClaimOutcome::First);
    assert_eq!(rig.keys().release(&first.scope, "t1").await.unwrap(), Changed::None);
    assert_eq!(claim(rig, &RequestRecord { token: "t3".into(), ..other }).await, ClaimOutcome::InProgress);
}

/// A key that was not claimed cannot be released, and no response can be stored for it.
pub async fn unclaimed_key_cannot_be_completed_or_released(rig: &dyn KeysRig) {
    let never = claim_of(rig, &fresh_scope(), "t1");
    let answered = RequestRecord { token: "t2".into(), ..completed_request(&never, "1") };
    assert_eq!(rig.keys().store_response("t1", &answered).await.unwrap(), Changed::None);
    assert_eq!(rig.keys().release(&never.scope, "t1").await.unwrap(), Changed::None);
    assert_eq!(claim(rig, &never).await, ClaimOutcome::First);
}
