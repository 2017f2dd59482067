//! Who gets a key, and what the others are told.

use std::sync::Arc;

use handover_contract::samples::AWKWARD;
use handover_events::TenantId;
use handover_outbox::ports::Changed;
use marketplace::ports::{KeptRequest, RequestScope, StoredAnswer};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{Became, KeysRig, became, claim, claim_of, fresh_scope};
use crate::samples::{answered_request, user};

/// The first claims it; whoever comes after its answer gets that, to the letter.
pub async fn a_key_is_claimed_once_and_then_answered_as_it_was(rig: &dyn KeysRig) {
    for data in ["null".to_owned(), format!("{{\"text\":{AWKWARD:?},\"amount\":88.50}}"), "d".repeat(200_000)]
    {
        let first = claim_of(rig, &fresh_scope(), "t1");
        assert_eq!(claim(rig, &first).await, Became::First);
        let answered = KeptRequest { token: "t2".into(), ..answered_request(&first, &data) };
        assert_eq!(rig.keys().conclude("t1", &answered).await.unwrap(), Changed::One);
        for token in ["t3", "t4"] {
            let again = claim(rig, &claim_of(rig, &first.scope, token)).await;
            assert_eq!(again, Became::Before(StoredAnswer { status: 201, data: data.clone() }));
        }
    }
}

/// Whoever writes a claim and does not hear of it may write it again: it is the same one.
pub async fn a_claim_that_is_written_again_stands(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    for _ in 0..2 {
        assert_eq!(claim(rig, &first).await, Became::First);
    }
    assert_eq!(claim(rig, &claim_of(rig, &first.scope, "t2")).await, Became::InProgress);
}

/// Nobody else gets it, however often they ask, and asking changes nothing.
pub async fn while_one_is_at_work_others_are_told_so(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, Became::First);
    for token in ["t2", "t3"] {
        assert_eq!(claim(rig, &claim_of(rig, &first.scope, token)).await, Became::InProgress);
    }
    let answered = KeptRequest { token: "t4".into(), ..answered_request(&first, "1") };
    assert_eq!(rig.keys().conclude("t1", &answered).await.unwrap(), Changed::One);
}

/// Under one key another body is refused, while the first is at work and when it is answered.
pub async fn another_body_is_another_request(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, Became::First);
    let other = || KeptRequest { body_hash: "b".repeat(64), ..claim_of(rig, &first.scope, "t2") };
    assert_eq!(claim(rig, &other()).await, Became::KeyTaken);
    let answered = KeptRequest { token: "t3".into(), ..answered_request(&first, "1") };
    assert_eq!(rig.keys().conclude("t1", &answered).await.unwrap(), Changed::One);
    assert_eq!(claim(rig, &other()).await, Became::KeyTaken);
}

/// A request that was refused leaves nothing: whatever comes next under its key is the first.
pub async fn a_key_that_was_released_is_free(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, Became::First);
    assert_eq!(rig.keys().release(&first.scope, "t0").await.unwrap(), Changed::None);
    assert_eq!(claim(rig, &claim_of(rig, &first.scope, "t2")).await, Became::InProgress);
    assert_eq!(rig.keys().release(&first.scope, "t1").await.unwrap(), Changed::One);
    assert_eq!(rig.keys().release(&first.scope, "t1").await.unwrap(), Changed::None);
    let other = KeptRequest { body_hash: "b".repeat(64), ..claim_of(rig, &first.scope, "t2") };
    assert_eq!(claim(rig, &other).await, Became::First);
}

/// Requests are told apart by all of their scope, byte by byte, also where it reads the same when it is written in one line.
pub async fn every_tenant_user_route_and_key_is_for_itself(rig: &dyn KeysRig) {
    let of = |tenant: i64, user_id: i64, route: &str, key: &str| RequestScope {
        tenant: TenantId::try_from(tenant).unwrap(),
        user: user(user_id),
        route: route.to_owned(),
        key: key.to_owned(),
    };
    let mine = fresh_scope().user.get();
    let scopes = [
        of(1, mine, "POST /a", "key"),
        of(2, mine, "POST /a", "key"),
        of(1, mine * 10 + 1, "POST /a", "key"),
        of(11, mine, "POST /a", "key"),
        of(1, mine, "POST /A", "key"),
        of(1, mine, "POST /a", "KEY"),
        of(1, mine, "POST /a", "key:"),
        of(1, mine, "POST /a:key", "key"),
        of(1, mine, "POST /a", "key:key"),
        of(1, mine, "POST /ak", "ey"),
        of(1, mine, "POST /", "akey"),
        of(1, mine, &format!("POST /{}", "r".repeat(RequestScope::MAX_ROUTE_CHARS - 6)), "k"),
        of(1, mine, "POST /a", &"~".repeat(RequestScope::MAX_KEY_CHARS)),
    ];
    for (n, scope) in scopes.iter().enumerate() {
        let first = claim_of(rig, scope, "t1");
        assert_eq!(claim(rig, &first).await, Became::First, "{scope:?}");
        let answered = KeptRequest { token: "t2".into(), ..answered_request(&first, &n.to_string()) };
        assert_eq!(rig.keys().conclude("t1", &answered).await.unwrap(), Changed::One, "{scope:?}");
    }
    for (n, scope) in scopes.iter().enumerate() {
        let answer = StoredAnswer { status: 201, data: n.to_string() };
        assert_eq!(claim(rig, &claim_of(rig, scope, "t3")).await, Became::Before(answer), "{scope:?}");
    }
}

/// Of a hundred at the same moment one gets it, and all others are told to come again.
pub async fn of_many_at_once_exactly_one_claims_a_key(rig: &dyn KeysRig) {
    let scope = fresh_scope();
    exactly_one_of_a_crowd(rig, &scope, 0).await;
}

/// A crowd claims a key; the token of the one that gets it.
pub(super) async fn exactly_one_of_a_crowd(rig: &dyn KeysRig, scope: &RequestScope, from: usize) -> String {
    const CROWD: usize = 100;
    let (ready, mut crowd) = (Arc::new(Barrier::new(CROWD)), JoinSet::new());
    for n in from..from + CROWD {
        let (keys, ready) = (rig.keys(), Arc::clone(&ready));
        let claim = claim_of(rig, scope, &format!("crowd-{n}"));
        crowd.spawn(async move {
            ready.wait().await;
            (became(keys.claim(&claim).await), claim.token)
        });
    }
    let (first, others): (Vec<_>, Vec<_>) =
        crowd.join_all().await.into_iter().partition(|(became, _)| *became == Became::First);
    assert!(others.iter().all(|(became, _)| *became == Became::InProgress), "{others:?}");
    let [(_, token)] = first.as_slice() else { panic!("{} claimed it: {first:?}", first.len()) };
    token.clone()
}
