//! Leases and answers end.

use handover_outbox::ports::Changed;
use marketplace::ports::{KeptRequest, StoredAnswer};

use super::claiming::exactly_one_of_a_crowd;
use super::{Became, KEEP, KeysRig, LEASE, MARGIN, claim, claim_of, fresh_scope};
use crate::samples::answered_request;

/// As long as the lease lasts nobody else gets the key; then the next one does, for a lease of its own.
pub async fn a_lease_keeps_others_away_until_it_ends(rig: &dyn KeysRig) {
    let scope = fresh_scope();
    assert_eq!(claim(rig, &claim_of(rig, &scope, "t1")).await, Became::First);
    rig.advance(LEASE - MARGIN);
    assert_eq!(claim(rig, &claim_of(rig, &scope, "t2")).await, Became::InProgress);
    rig.advance(MARGIN);
    let other_body = KeptRequest { body_hash: "b".repeat(64), ..claim_of(rig, &scope, "t3") };
    assert_eq!(claim(rig, &other_body).await, Became::KeyTaken, "it is still the same request");
    assert_eq!(claim(rig, &claim_of(rig, &scope, "t4")).await, Became::First);
    rig.advance(LEASE - MARGIN);
    assert_eq!(claim(rig, &claim_of(rig, &scope, "t5")).await, Became::InProgress);
}

/// Neither its answer nor its refusal counts any more, before and after the one that took over is answered.
pub async fn whoever_was_overtaken_changes_nothing(rig: &dyn KeysRig) {
    let late = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &late).await, Became::First);
    rig.advance(LEASE);
    let taken = claim_of(rig, &late.scope, "t2");
    assert_eq!(claim(rig, &taken).await, Became::First);
    let too_late = KeptRequest { token: "t3".into(), ..answered_request(&late, "1") };
    let nothing = async || {
        assert_eq!(rig.keys().conclude("t1", &too_late).await.unwrap(), Changed::None);
        assert_eq!(rig.keys().release(&late.scope, "t1").await.unwrap(), Changed::None);
    };
    nothing().await;
    assert_eq!(claim(rig, &claim_of(rig, &late.scope, "t4")).await, Became::InProgress);
    let answered = KeptRequest { token: "t5".into(), ..answered_request(&taken, "2") };
    assert_eq!(rig.keys().conclude("t2", &answered).await.unwrap(), Changed::One);
    nothing().await;
    let answer = StoredAnswer { status: 201, data: "2".to_owned() };
    assert_eq!(claim(rig, &claim_of(rig, &late.scope, "t6")).await, Became::Before(answer));
}

/// Of a hundred that find an ended lease one takes over.
pub async fn of_many_that_take_over_exactly_one_does(rig: &dyn KeysRig) {
    let late = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &late).await, Became::First);
    rig.advance(LEASE);
    let token = exactly_one_of_a_crowd(rig, &late.scope, 0).await;
    assert_eq!(rig.keys().release(&late.scope, &token).await.unwrap(), Changed::One);
}

/// Whoever knows the token of the claim cannot touch the answer, and nobody can release it.
pub async fn an_answer_has_a_token_of_its_own(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, Became::First);
    let answered = KeptRequest { token: "t2".into(), ..answered_request(&first, "1") };
    assert_eq!(rig.keys().conclude("t1", &answered).await.unwrap(), Changed::One);
    let other = KeptRequest { token: "t3".into(), ..answered_request(&first, "2") };
    assert_eq!(rig.keys().conclude("t1", &other).await.unwrap(), Changed::None);
    for token in ["t1", "t2"] {
        assert_eq!(rig.keys().release(&first.scope, token).await.unwrap(), Changed::None);
    }
    let answer = StoredAnswer { status: 201, data: "1".to_owned() };
    assert_eq!(claim(rig, &claim_of(rig, &first.scope, "t4")).await, Became::Before(answer));
}

/// An answer stands beyond the lease, until the time that its claim named; then the key is new, for any body.
pub async fn an_answer_lasts_as_long_as_was_claimed_and_no_longer(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, Became::First);
    rig.advance(LEASE - MARGIN);
    let answered = KeptRequest { token: "t2".into(), ..answered_request(&first, "1") };
    assert_eq!(rig.keys().conclude("t1", &answered).await.unwrap(), Changed::One);
    rig.advance(KEEP - LEASE);
    let answer = StoredAnswer { status: 201, data: "1".to_owned() };
    assert_eq!(claim(rig, &claim_of(rig, &first.scope, "t3")).await, Became::Before(answer));
    rig.advance(MARGIN);
    let other = KeptRequest { body_hash: "b".repeat(64), ..claim_of(rig, &first.scope, "t4") };
    assert_eq!(claim(rig, &other).await, Became::First);
    assert_eq!(rig.keys().release(&first.scope, "t4").await.unwrap(), Changed::One);
}

/// What nobody ever answered is forgotten too, and whoever claimed it changes nothing of what came after.
pub async fn a_claim_that_expired_is_as_if_it_had_never_come(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, Became::First);
    rig.advance(KEEP);
    let other = KeptRequest { body_hash: "b".repeat(64), ..claim_of(rig, &first.scope, "t2") };
    assert_eq!(claim(rig, &other).await, Became::First);
    assert_eq!(rig.keys().release(&first.scope, "t1").await.unwrap(), Changed::None);
    assert_eq!(claim(rig, &KeptRequest { token: "t3".into(), ..other }).await, Became::InProgress);
}

/// An answer or a refusal of what nobody claimed leaves nothing.
pub async fn nothing_is_changed_where_nothing_stands(rig: &dyn KeysRig) {
    let never = claim_of(rig, &fresh_scope(), "t1");
    let answered = KeptRequest { token: "t2".into(), ..answered_request(&never, "1") };
    assert_eq!(rig.keys().conclude("t1", &answered).await.unwrap(), Changed::None);
    assert_eq!(rig.keys().release(&never.scope, "t1").await.unwrap(), Changed::None);
    assert_eq!(claim(rig, &never).await, Became::First);
}
