//! Rules for requests with idempotency keys.

use chrono::TimeDelta;
use handover_contract::concurrency::{one_changed, one_succeeded, race};
use handover_contract::samples::{SPECIAL_CHARACTERS, later, tenant};
use handover_contract::work::{changes_none, changes_one};
use handover_contract::{eventually, within};
use handover_outbox::ports::StoreError;
use marketplace::ports::{RequestClaim, RequestRecord, RequestScope, RequestState};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{completed_request, processing_request, scope, user};

async fn add(rig: &dyn MarketRig, requests: &[RequestRecord]) {
    in_unit!(rig, |unit| {
        for request in requests {
            assert_eq!(unit.claim_request(request).await.unwrap(), RequestClaim::Inserted);
        }
    });
}

async fn stored(rig: &dyn MarketRig, scope: &RequestScope) -> Option<RequestRecord> {
    view(rig).await.request_of(scope).await.expect("cannot read a request")
}

/// A request is read as it was written, in every state, with the longest route and key.
pub async fn request_is_read_as_written(rig: &dyn MarketRig) {
    let longest = RequestScope {
        route: format!("POST /{}", "r".repeat(RequestScope::MAX_ROUTE_CHARS - 6)),
        key: "~".repeat(RequestScope::MAX_KEY_CHARS),
        ..scope("")
    };
    let micro = TimeDelta::microseconds(1);
    let processing = processing_request("a", "t1");
    let mut written = vec![
        processing.clone(),
        completed_request(&processing_request("b", "t2"), "null"),
        completed_request(
            &processing_request("c", "t3"),
            &format!("{{\"text\":{SPECIAL_CHARACTERS:?},\"amount\":88.50}}"),
        ),
        completed_request(&processing_request("d", "t4"), &"d".repeat(200_000)),
        RequestRecord { scope: longest, ..processing.clone() },
    ];
    written.push(RequestRecord {
        scope: scope("e"),
        state: RequestState::Processing { until: later(3) + micro },
        create_time: later(1) - micro,
        expire_time: later(2) + micro,
        ..processing
    });
    add(rig, &written).await;
    for request in written {
        assert_eq!(stored(rig, &request.scope).await, Some(request));
    }
    assert_eq!(stored(rig, &scope("z")).await, None);
}

/// The claim of a scope with a record returns that record, also while other units of work claim it; the same key with
/// another tenant, user or route is another request.
pub async fn claim_of_taken_scope_returns_its_record(rig: &dyn MarketRig) {
    let first = processing_request("key", "t1");
    add(rig, std::slice::from_ref(&first)).await;
    // Such a claim locks nothing.
    let mut open = Vec::new();
    for _ in 0..if rig.capabilities().concurrent_units { 3 } else { 1 } {
        let mut unit = begin(rig).await;
        let claimed = unit.claim_request(&processing_request("key", "t2")).await.unwrap();
        assert_eq!(claimed, RequestClaim::Exists(first.clone()));
        open.push(unit);
    }
    drop(open);
    let others = [
        RequestScope { tenant: tenant(2), ..scope("key") },
        RequestScope { user: user(11), ..scope("key") },
        RequestScope { route: "POST /api/v1/products".into(), ..scope("key") },
    ]
    .map(|scope| RequestRecord { scope, token: "t3".into(), ..first.clone() });
    add(rig, &others).await;
    for request in [&[first][..], &others].concat() {
        assert_eq!(stored(rig, &request.scope).await, Some(request));
    }
}

pub async fn idempotency_keys_are_compared_byte_by_byte(rig: &dyn MarketRig) {
    let requests = ["key", "KEY", "Key", "key.", "\"key\""].map(|key| processing_request(key, key));
    add(rig, &requests).await;
    for request in requests {
        assert_eq!(stored(rig, &request.scope).await, Some(request));
    }
}

/// A request is replaced only with its token; writing the same state again is accepted.
pub async fn request_advances_only_with_its_token(rig: &dyn MarketRig) {
    let first = processing_request("key", "t1");
    let other = processing_request("other", "t1");
    add(rig, &[first.clone(), other.clone()]).await;
    let takeover = RequestRecord {
        token: "t2".into(),
        body_hash: "b".repeat(64),
        state: RequestState::Processing { until: later(99) },
        trace_id: "trace-2".into(),
        create_time: later(50),
        expire_time: later(90_000),
        ..first.clone()
    };
    in_unit!(rig, |unit| changes_none(unit.advance_request("t0", &takeover).await));
    in_unit!(rig, |unit| changes_one(unit.advance_request("t1", &takeover).await));
    assert_eq!(stored(rig, &first.scope).await.as_ref(), Some(&takeover));
    let late = completed_request(&first, "1");
    in_unit!(rig, |unit| changes_none(unit.advance_request("t1", &late).await));
    let answered = completed_request(&takeover, "2");
    for _ in 0..2 {
        in_unit!(rig, |unit| changes_one(unit.advance_request("t2", &answered).await));
    }
    in_unit!(rig, |unit| changes_none(
        unit.advance_request("t2", &processing_request("missing", "t2")).await
    ));
    assert_eq!(stored(rig, &first.scope).await, Some(answered));
    assert_eq!(stored(rig, &other.scope).await, Some(other));
}

/// A request is removed only with its token, and only if it has no response.
pub async fn request_without_response_is_dropped_with_its_token(rig: &dyn MarketRig) {
    let answered = completed_request(&processing_request("b", "t1"), "1");
    add(rig, &[processing_request("a", "t1"), answered.clone()]).await;
    in_unit!(rig, |unit| {
        changes_none(unit.drop_request(&scope("a"), "t2").await);
        changes_none(unit.drop_request(&scope("b"), "t1").await);
        changes_one(unit.drop_request(&scope("a"), "t1").await);
        changes_none(unit.drop_request(&scope("a"), "t1").await);
    });
    assert_eq!(stored(rig, &scope("a")).await, None);
    assert_eq!(stored(rig, &scope("b")).await, Some(answered));
    add(rig, &[processing_request("a", "t3")]).await;
}

/// Expired requests are removed in every state and tenant, earliest expiry first, up to the limit.
pub async fn expired_requests_are_removed_earliest_first(rig: &dyn MarketRig) {
    let expiring = |key: &str, seconds: i64| {
        let request = processing_request(key, "t");
        RequestRecord { expire_time: later(seconds), ..request }
    };
    let foreign = RequestScope { tenant: tenant(2), ..scope("c") };
    let requests = [
        expiring("a", 30),
        completed_request(&expiring("b", 10), "1"),
        RequestRecord { scope: foreign.clone(), ..expiring("c", 20) },
        RequestRecord { expire_time: later(30) + TimeDelta::microseconds(1), ..expiring("d", 0) },
    ];
    add(rig, &requests).await;
    in_unit!(rig, |unit| assert_eq!(unit.delete_expired_requests(later(9), 10).await.unwrap(), 0));
    in_unit!(rig, |unit| assert_eq!(unit.delete_expired_requests(later(30), 2).await.unwrap(), 2));
    assert_eq!((stored(rig, &scope("b")).await, stored(rig, &foreign).await), (None, None));
    in_unit!(rig, |unit| assert_eq!(unit.delete_expired_requests(later(30), 10).await.unwrap(), 1));
    assert_eq!(stored(rig, &scope("a")).await, None);
    assert!(stored(rig, &scope("d")).await.is_some());
}

/// A scope that another unit of work has claimed and not committed is locked: the claim does not wait. If that unit of work
/// is rolled back, the scope is free.
pub async fn uncommitted_claim_locks_its_scope(rig: &dyn MarketRig) {
    if !rig.capabilities().concurrent_units {
        return;
    }
    let mut first = begin(rig).await;
    assert_eq!(first.claim_request(&processing_request("key", "t1")).await.unwrap(), RequestClaim::Inserted);
    for _ in 0..2 {
        let mut second = begin(rig).await;
        let locked = within("a claim", second.claim_request(&processing_request("key", "t2"))).await.unwrap();
        assert_eq!(locked, RequestClaim::Locked);
    }
    add(rig, &[processing_request("other", "t2")]).await;
    drop(first);
    // The rollback of a dropped unit of work may take a moment.
    let claimed = eventually("a claim after a rollback", async || {
        let mut third = begin(rig).await;
        match third.claim_request(&processing_request("key", "t3")).await.unwrap() {
            RequestClaim::Locked => None,
            claimed @ (RequestClaim::Inserted | RequestClaim::Exists(_)) => {
                Some(third.commit().await.map(|()| claimed))
            }
        }
    })
    .await;
    assert_eq!(claimed.unwrap(), RequestClaim::Inserted);
    assert_eq!(stored(rig, &scope("key")).await.map(|request| request.token).as_deref(), Some("t3"));
}

pub async fn concurrent_request_claims_succeed_exactly_once(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move {
            match unit.claim_request(&processing_request("key", &format!("t{n}"))).await? {
                RequestClaim::Inserted => Ok(()),
                RequestClaim::Exists(_) | RequestClaim::Locked => {
                    Err(StoreError::Conflict { what: "key".to_owned() })
                }
            }
        })
    })
    .await;
    let winner = one_succeeded(outcomes);
    let token = stored(rig, &scope("key")).await.map(|request| request.token);
    assert_eq!(token, Some(format!("t{winner}")));
}

pub async fn concurrent_request_takeovers_succeed_exactly_once(rig: &dyn MarketRig) {
    add(rig, &[processing_request("key", "t")]).await;
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move { unit.advance_request("t", &processing_request("key", &format!("t{n}"))).await })
    })
    .await;
    let winner = one_changed(outcomes);
    let token = stored(rig, &scope("key")).await.map(|request| request.token);
    assert_eq!(token, Some(format!("t{winner}")));
}
