//! Rules for claiming keys.

use std::sync::Arc;

use handover_contract::samples::SPECIAL_CHARACTERS;
use handover_events::TenantId;
use handover_outbox::ports::Changed;
use marketplace::ports::{RequestRecord, RequestScope, StoredResponse};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{ClaimOutcome, KeysRig, claim, claim_of, claim_outcome, fresh_scope};
use crate::samples::{completed_request, user};

/// The first request claims the key; after its response is stored, later requests get exactly this response.
pub async fn key_is_claimed_once_and_response_is_replayed_exactly(rig: &dyn KeysRig) {
    for data in [
        "null".to_owned(),
        format!("{{\"text\":{SPECIAL_CHARACTERS:?},\"amount\":88.50}}"),
        "d".repeat(200_000),
    ] {
        let first = claim_of(rig, &fresh_scope(), "t1");
        assert_eq!(claim(rig, &first).await, ClaimOutcome::First);
        let answered = RequestRecord { token: "t2".into(), ..completed_request(&first, &data) };
        assert_eq!(rig.keys().store_response("t1", &answered).await.unwrap(), Changed::One);
        for token in ["t3", "t4"] {
            let again = claim(rig, &claim_of(rig, &first.scope, token)).await;
            assert_eq!(again, ClaimOutcome::Completed(StoredResponse { code: 201, text: data.clone() }));
        }
    }
}

/// A claim may be repeated with the same token, for example after an unknown commit outcome.
pub async fn repeated_claim_with_same_token_succeeds(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    for _ in 0..2 {
        assert_eq!(claim(rig, &first).await, ClaimOutcome::First);
    }
    assert_eq!(claim(rig, &claim_of(rig, &first.scope, "t2")).await, ClaimOutcome::InProgress);
}

/// While the first request is in progress, other claims get `InProgress` and change nothing.
pub async fn claim_is_refused_while_request_is_in_progress(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, ClaimOutcome::First);
    for token in ["t2", "t3"] {
        assert_eq!(claim(rig, &claim_of(rig, &first.scope, token)).await, ClaimOutcome::InProgress);
    }
    let answered = RequestRecord { token: "t4".into(), ..completed_request(&first, "1") };
    assert_eq!(rig.keys().store_response("t1", &answered).await.unwrap(), Changed::One);
}

/// A claim with another body gets `KeyReused`, while the first request is in progress and after its response.
pub async fn claim_with_different_body_is_refused(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, ClaimOutcome::First);
    let other = || RequestRecord { body_hash: "b".repeat(64), ..claim_of(rig, &first.scope, "t2") };
    assert_eq!(claim(rig, &other()).await, ClaimOutcome::KeyReused);
    let answered = RequestRecord { token: "t3".into(), ..completed_request(&first, "1") };
    assert_eq!(rig.keys().store_response("t1", &answered).await.unwrap(), Changed::One);
    assert_eq!(claim(rig, &other()).await, ClaimOutcome::KeyReused);
}

/// A released key is free again: the next request with this key, with any body, is treated as the first.
pub async fn released_key_is_free(rig: &dyn KeysRig) {
    let first = claim_of(rig, &fresh_scope(), "t1");
    assert_eq!(claim(rig, &first).await, ClaimOutcome::First);
    assert_eq!(rig.keys().release(&first.scope, "t0").await.unwrap(), Changed::None);
    assert_eq!(claim(rig, &claim_of(rig, &first.scope, "t2")).await, ClaimOutcome::InProgress);
    assert_eq!(rig.keys().release(&first.scope, "t1").await.unwrap(), Changed::One);
    assert_eq!(rig.keys().release(&first.scope, "t1").await.unwrap(), Changed::None);
    let other = RequestRecord { body_hash: "b".repeat(64), ..claim_of(rig, &first.scope, "t2") };
    assert_eq!(claim(rig, &other).await, ClaimOutcome::First);
}

/// Requests are distinguished by every part of their scope, byte by byte, even if the concatenated parts are equal.
pub async fn scopes_differ_by_tenant_user_route_and_key(rig: &dyn KeysRig) {
    let of = |tenant: i64, user_id: i64, route: &str, key: &str| RequestScope {
        tenant: TenantId::try_from(tenant).unwrap(),
        user: user(user_id),
        route: route.to_owned(),
        key: key.to_owned(),
    };
    let unique = fresh_scope().user.get();
    let scopes = [
        of(1, unique, "POST /a", "key"),
        of(2, unique, "POST /a", "key"),
        of(1, unique * 10 + 1, "POST /a", "key"),
        of(11, unique, "POST /a", "key"),
        of(1, unique, "POST /A", "key"),
        of(1, unique, "POST /a", "KEY"),
        of(1, unique, "POST /a", "key:"),
        of(1, unique, "POST /a:key", "key"),
        of(1, unique, "POST /a", "key:key"),
        of(1, unique, "POST /ak", "ey"),
        of(1, unique, "POST /", "akey"),
        of(1, unique, &format!("POST /{}", "r".repeat(RequestScope::MAX_ROUTE_CHARS - 6)), "k"),
        of(1, unique, "POST /a", &"~".repeat(RequestScope::MAX_KEY_CHARS)),
    ];
    for (n, scope) in scopes.iter().enumerate() {
        let first = claim_of(rig, scope, "t1");
        assert_eq!(claim(rig, &first).await, ClaimOutcome::First, "{scope:?}");
        let answered = RequestRecord { token: "t2".into(), ..completed_request(&first, &n.to_string()) };
        assert_eq!(rig.keys().store_response("t1", &answered).await.unwrap(), Changed::One, "{scope:?}");
    }
    for (n, scope) in scopes.iter().enumerate() {
        let answer = StoredResponse { code: 201, text: n.to_string() };
        assert_eq!(
            claim(rig, &claim_of(rig, scope, "t3")).await,
            ClaimOutcome::Completed(answer),
            "{scope:?}"
        );
    }
}

/// If a hundred requests claim one key concurrently, exactly one succeeds; all others get `InProgress`.
pub async fn concurrent_claims_succeed_exactly_once(rig: &dyn KeysRig) {
    let scope = fresh_scope();
    exactly_one_claims(rig, &scope, 0).await;
}

/// Claims a key concurrently, asserts that exactly one claim succeeds, and returns the token of that claim. The tokens
/// are numbered from `from`.
pub(super) async fn exactly_one_claims(rig: &dyn KeysRig, scope: &RequestScope, from: usize) -> String {
    const REQUESTS: usize = 100;
    let ready = Arc::new(Barrier::new(REQUESTS));
    let mut requests = JoinSet::new();
    for n in from..from + REQUESTS {
        let keys = rig.keys();
        let ready = Arc::clone(&ready);
        let claim = claim_of(rig, scope, &format!("request-{n}"));
        requests.spawn(async move {
            ready.wait().await;
            (claim_outcome(keys.claim(&claim).await), claim.token)
        });
    }
    let (first, others): (Vec<_>, Vec<_>) =
        requests.join_all().await.into_iter().partition(|(outcome, _)| *outcome == ClaimOutcome::First);
    assert!(others.iter().all(|(outcome, _)| *outcome == ClaimOutcome::InProgress), "{others:?}");
    let [(_, token)] = first.as_slice() else { panic!("{} claims succeeded (expected 1)", first.len()) };
    token.clone()
}
