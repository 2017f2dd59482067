//! Claims of due deliveries.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use handover_outbox::ports::{
    AfterAttempt, ClaimedDelivery, EndpointHealth, EndpointStatus, NewWebhookDelivery, WebhookCapacity,
    WebhookClaim, WebhookDelivery, WebhookEndpoint,
};

use super::webhook_deliveries::{only, write};
use super::webhook_endpoints::{add, change, end_of_rollback, set_health, stored};
use super::webhook_settling::settle;
use super::{StoreRig, begin, in_unit};
use crate::concurrency::race;
use crate::samples::webhooks::{claim, delivery, endpoint, endpoint_id, endpoint_key, settled};
use crate::samples::{later, start, tenant};
use crate::work::commit;

pub(super) async fn claimed(rig: &dyn StoreRig, claim: &WebhookClaim) -> Vec<ClaimedDelivery> {
    in_unit!(rig, |unit| unit
        .outbox()
        .claim_webhook_deliveries(claim)
        .await
        .expect("cannot claim deliveries"))
}

/// Events of claimed deliveries.
pub(super) fn events(claimed: &[ClaimedDelivery]) -> Vec<&str> {
    claimed.iter().map(|claimed| claimed.delivery.event_id.as_str()).collect()
}

/// A delivery that is due at this time.
fn at(number: u32, event: &str, seconds: i64) -> NewWebhookDelivery {
    NewWebhookDelivery { at: later(seconds), ..delivery(number, event) }
}

/// `count` deliveries to an endpoint that are due at [`start`].
async fn write_many(rig: &dyn StoreRig, number: u32, count: usize) {
    let new: Vec<_> = (0..count).map(|n| delivery(number, &format!("e{number}-{n}"))).collect();
    write(rig, &new).await;
}

/// Deliveries are claimed when they are due, the longest due first, also of different endpoints, and not more than the
/// limit.
pub async fn due_deliveries_are_claimed_the_longest_due_first(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2), endpoint(3)]).await;
    write(rig, &[at(1, "d", 4), at(2, "b", 2), at(1, "a", 1), at(3, "c", 3), at(1, "e", 5), at(2, "f", 6)])
        .await;
    assert_eq!(events(&claimed(rig, &claim("none", start())).await), [""; 0]);
    let limited = WebhookClaim { limit: 2, ..claim("limited", later(5)) };
    assert_eq!(events(&claimed(rig, &limited).await), ["a", "b"]);
    let nothing = WebhookClaim { limit: 0, ..claim("nothing", later(5)) };
    assert_eq!(events(&claimed(rig, &nothing).await), [""; 0]);
    assert_eq!(events(&claimed(rig, &claim("due", later(5))).await), ["c", "d", "e"]);
    assert_eq!(events(&claimed(rig, &claim("last", later(6))).await), ["f"]);
}

/// A claimed delivery has the claim, its end as due time, and one more claim. It is returned with its endpoint. After the
/// end of the claim it can be claimed again.
pub async fn a_claim_lasts_until_its_end(rig: &dyn StoreRig) {
    add(rig, &[WebhookEndpoint { per_second: Some(9), ..endpoint(1) }]).await;
    write(rig, &[delivery(1, "a")]).await;
    let written = only(rig, "a").await;
    for (number, now) in [(1, 0), (2, 60)] {
        let claim = claim(&format!("claim-{number}"), later(now));
        let expected = WebhookDelivery {
            claim: Some(claim.id.clone()),
            claims: number,
            due_time: claim.until,
            ..written.clone()
        };
        let found = claimed(rig, &claim).await;
        assert_eq!(found, [ClaimedDelivery { delivery: expected.clone(), endpoint: stored(rig, 1).await }]);
        assert_eq!(only(rig, "a").await, expected);
        let just_before = WebhookClaim { now: claim.until - TimeDelta::microseconds(1), ..claim };
        assert_eq!(claimed(rig, &just_before).await, [], "the claim has not ended");
    }
}

/// A claim that is repeated, because its commit may have failed, returns the deliveries of its first call again, unchanged,
/// and claims further ones up to the limit.
pub async fn a_repeated_claim_returns_the_deliveries_of_its_first_call(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    write(rig, &[at(1, "a", 0), at(2, "b", 0)]).await;
    let request = WebhookClaim { limit: 3, ..claim("a", start()) };
    let first = claimed(rig, &request).await;
    assert_eq!(first.len(), 2);
    write(rig, &[at(1, "c", 0), at(2, "d", 0)]).await;
    let repeated = WebhookClaim { is_repeated: true, ..request };
    let mut again = claimed(rig, &repeated).await;
    assert_eq!(events(&again).len(), 3);
    let third = again.remove(2);
    again.sort_by_key(|claimed| claimed.delivery.id);
    assert_eq!(again, first);
    assert_eq!((third.delivery.event_id.as_str(), third.delivery.claims), ("c", 1));
    settle(rig, &[settled(&first[0], AfterAttempt::Delivered)]).await;
    assert_eq!(events(&claimed(rig, &repeated).await).len(), 3, "two of the first calls, and the last one");
    let other = WebhookClaim { is_repeated: true, ..claim("other", start()) };
    assert_eq!(claimed(rig, &other).await, []);
}

/// Endpoints that are disabled, deleted or paused are not used. A pause ends at its time.
pub async fn only_enabled_endpoints_that_are_not_paused_are_used(rig: &dyn StoreRig) {
    let with_status = |number, status, slot| WebhookEndpoint { status, slot, ..endpoint(number) };
    let health = EndpointHealth { paused_until: Some(later(10)), ..EndpointHealth::default() };
    add(
        rig,
        &[
            endpoint(1),
            with_status(2, EndpointStatus::Disabled, Some(2)),
            with_status(3, EndpointStatus::Deleted, None),
            WebhookEndpoint { health, ..endpoint(4) },
        ],
    )
    .await;
    write(rig, &[at(1, "used", 9), delivery(2, "disabled"), delivery(3, "deleted"), delivery(4, "paused")])
        .await;
    assert_eq!(events(&claimed(rig, &claim("a", later(9))).await), ["used"]);
    assert_eq!(events(&claimed(rig, &claim("b", later(10))).await), ["paused"]);
    change(rig, 2, |endpoint| endpoint.status = EndpointStatus::Enabled).await;
    assert_eq!(events(&claimed(rig, &claim("c", later(10))).await), ["disabled"]);
}

/// An endpoint never has more claims than its limit, in one unit of work or several. A claim counts until it ends or its
/// result is recorded.
pub async fn an_endpoint_has_at_most_as_many_claims_as_its_limit(rig: &dyn StoreRig) {
    add(rig, &[WebhookEndpoint { max_in_flight: 3, ..endpoint(1) }]).await;
    write_many(rig, 1, 20).await;
    let mut unit = begin(rig).await;
    let two = WebhookClaim { limit: 2, ..claim("a", start()) };
    let mut in_flight = unit.outbox().claim_webhook_deliveries(&two).await.unwrap();
    assert_eq!(in_flight.len(), 2);
    in_flight.extend(unit.outbox().claim_webhook_deliveries(&claim("b", later(30))).await.unwrap());
    assert_eq!(in_flight.len(), 3);
    commit(unit).await;
    assert_eq!(claimed(rig, &claim("c", later(30))).await, []);
    let results = [
        settled(&in_flight[0], AfterAttempt::Delivered),
        settled(&in_flight[2], AfterAttempt::Retry(later(5_000))),
    ];
    settle(rig, &results).await;
    assert_eq!(claimed(rig, &claim("d", later(30))).await.len(), 2);
    assert_eq!(claimed(rig, &claim("e", later(59))).await, []);
    assert_eq!(claimed(rig, &claim("f", later(60))).await.len(), 1, "one claim of the first call has ended");
}

/// Concurrent claims together do not exceed the limit of an endpoint, and no delivery is claimed twice.
pub async fn concurrent_claims_do_not_exceed_the_limit_of_an_endpoint(rig: &dyn StoreRig) {
    let limits = [5, 1, 30];
    for (number, max_in_flight) in (1..).zip(limits) {
        add(rig, &[WebhookEndpoint { max_in_flight, ..endpoint(number) }]).await;
        write_many(rig, number, 40).await;
    }
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move {
            let claim = WebhookClaim { limit: 7, ..claim(&format!("claim-{n}"), start()) };
            unit.outbox().claim_webhook_deliveries(&claim).await
        })
    })
    .await;
    let mut all: Vec<ClaimedDelivery> =
        outcomes.into_iter().flat_map(|outcome| outcome.expect("no error")).collect();
    all.extend(claimed(rig, &claim("rest", start())).await);
    for (number, limit) in (1..).zip(limits) {
        let of = all.iter().filter(|claimed| claimed.endpoint.id == endpoint_id(number)).count();
        assert_eq!(of, limit as usize, "endpoint {number}");
    }
    let ids: BTreeSet<i64> = all.iter().map(|claimed| claimed.delivery.id).collect();
    assert_eq!(ids.len(), all.len(), "a delivery was claimed twice");
}

/// An endpoint that fails gets one attempt at a time.
pub async fn a_failing_endpoint_gets_one_attempt_at_a_time(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1)]).await;
    write_many(rig, 1, 5).await;
    let failing = EndpointHealth { failing_since: Some(start()), failures: 1, ..EndpointHealth::default() };
    set_health(rig, 1, &failing).await;
    let first = claimed(rig, &claim("a", start())).await;
    assert_eq!(first.len(), 1);
    assert_eq!(claimed(rig, &claim("b", start())).await, []);
    settle(rig, &[settled(&first[0], AfterAttempt::Retry(later(5_000)))]).await;
    assert_eq!(claimed(rig, &claim("c", start())).await.len(), 1);
    set_health(rig, 1, &EndpointHealth::default()).await;
    assert_eq!(claimed(rig, &claim("d", start())).await.len(), 3);
}

/// At most `per_second` attempts begin at once, then one per interval, whichever unit of work claims them. Attempts that
/// have ended still count.
pub async fn attempts_per_second_are_limited(rig: &dyn StoreRig) {
    add(rig, &[WebhookEndpoint { per_second: Some(4), max_in_flight: 100, ..endpoint(1) }]).await;
    write_many(rig, 1, 40).await;
    let at = |milliseconds| start() + TimeDelta::milliseconds(milliseconds);
    let mut unit = begin(rig).await;
    let three = WebhookClaim { limit: 3, ..claim("a", at(0)) };
    let mut all = unit.outbox().claim_webhook_deliveries(&three).await.unwrap();
    all.extend(unit.outbox().claim_webhook_deliveries(&claim("b", at(0))).await.unwrap());
    commit(unit).await;
    assert_eq!(all.len(), 4);
    let results: Vec<_> = all.iter().map(|claimed| settled(claimed, AfterAttempt::Delivered)).collect();
    settle(rig, &results).await;
    for (now, expected) in
        [(0, 0), (249, 0), (250, 1), (499, 0), (1_000, 3), (1_100, 0), (1_250, 1), (9_000, 4)]
    {
        let found = claimed(rig, &claim(&format!("at-{now}"), at(now))).await;
        assert_eq!(found.len(), expected, "after {now} ms");
    }
}

/// Concurrent claims together do not exceed the attempts per second of an endpoint.
pub async fn concurrent_claims_do_not_exceed_the_attempts_per_second(rig: &dyn StoreRig) {
    add(rig, &[WebhookEndpoint { per_second: Some(3), max_in_flight: 100, ..endpoint(1) }]).await;
    write_many(rig, 1, 20).await;
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move {
            let claim = WebhookClaim { limit: 2, ..claim(&format!("claim-{n}"), start()) };
            unit.outbox().claim_webhook_deliveries(&claim).await
        })
    })
    .await;
    let begun: usize = outcomes.into_iter().map(|outcome| outcome.expect("no error").len()).sum();
    let rest = claimed(rig, &claim("rest", start())).await.len();
    assert_eq!(begun + rest, 3);
}

/// Endpoints from which nothing can be claimed do not use up the limit of a claim, however long their deliveries are due.
pub async fn unavailable_endpoints_do_not_use_up_the_limit(rig: &dyn StoreRig) {
    let paused = EndpointHealth { paused_until: Some(later(90)), ..EndpointHealth::default() };
    add(
        rig,
        &[
            WebhookEndpoint { max_in_flight: 1, ..endpoint(1) },
            WebhookEndpoint { per_second: Some(1), ..endpoint(2) },
            WebhookEndpoint { health: paused, ..endpoint(3) },
            WebhookEndpoint { status: EndpointStatus::Disabled, ..endpoint(4) },
            WebhookEndpoint { max_in_flight: 0, ..endpoint(5) },
            endpoint(6),
        ],
    )
    .await;
    for number in 1..=5 {
        write_many(rig, number, 3).await;
    }
    write(rig, &[at(6, "late-1", 1), at(6, "late-2", 1)]).await;
    assert_eq!(claimed(rig, &claim("a", start())).await.len(), 2, "endpoints 1 and 2 are now saturated");
    for (id, event) in [("b", "late-1"), ("c", "late-2")] {
        // Another claim at the same rate: endpoint 2 has had its attempt of this second.
        let now = start() + TimeDelta::milliseconds(999);
        let one = WebhookClaim { limit: 1, now, ..claim(id, later(1)) };
        assert_eq!(events(&claimed(rig, &one).await), [""; 0]);
        change(rig, 2, |endpoint| endpoint.status = EndpointStatus::Disabled).await;
        let one = WebhookClaim { limit: 1, ..claim(&format!("{id}-late"), later(1)) };
        assert_eq!(events(&claimed(rig, &one).await), [event]);
        change(rig, 2, |endpoint| endpoint.status = EndpointStatus::Enabled).await;
    }
}

/// A claim does not wait for an endpoint that another unit of work has locked: it uses the others.
pub async fn a_claim_skips_endpoints_that_are_locked(rig: &dyn StoreRig) {
    if !rig.capabilities().concurrent_units {
        return;
    }
    add(rig, &[endpoint(1), endpoint(2)]).await;
    write_many(rig, 1, 5).await;
    write(rig, &[at(2, "late", 1)]).await;
    let mut locking = begin(rig).await;
    assert_eq!(locking.outbox().claim_webhook_deliveries(&claim("a", start())).await.unwrap().len(), 5);
    let one = WebhookClaim { limit: 1, ..claim("b", later(1)) };
    assert_eq!(events(&claimed(rig, &one).await), ["late"]);
    drop(locking);
    end_of_rollback(rig, 1).await;
    assert_eq!(claimed(rig, &claim("c", later(1))).await.len(), 5);
}

/// One claim takes the deliveries of many endpoints.
pub async fn deliveries_of_many_endpoints_are_claimed(rig: &dyn StoreRig) {
    let numbers: Vec<u32> = (1..=150).collect();
    let endpoints: Vec<_> = numbers.iter().map(|number| endpoint(*number)).collect();
    add(rig, &endpoints).await;
    let new: Vec<_> = (0..450).map(|n| at(n % 150 + 1, &format!("e-{n}"), i64::from(n))).collect();
    write(rig, &new).await;
    let most = WebhookClaim { limit: 400, ..claim("a", later(1_000)) };
    let found = claimed(rig, &most).await;
    let expected: Vec<String> = (0..400).map(|n| format!("e-{n}")).collect();
    assert_eq!(events(&found), expected);
    let found = claimed(rig, &WebhookClaim { limit: 400, ..claim("b", later(1_000)) }).await;
    assert_eq!(found.len(), 50);
}

/// Of an endpoint and of a tenant, a claim takes only as many deliveries as the capacity of the process has room for. One that
/// has no room does not prevent claims of others, however long its deliveries are due.
pub async fn a_claim_leaves_capacity_to_other_endpoints_and_tenants(rig: &dyn StoreRig) {
    let of_other_tenant = WebhookEndpoint { tenant: tenant(2), ..endpoint(3) };
    add(rig, &[endpoint(1), endpoint(2), of_other_tenant]).await;
    write_many(rig, 1, 8).await;
    write_many(rig, 2, 8).await;
    write(rig, &[NewWebhookDelivery { tenant: tenant(2), ..at(3, "other", 1) }]).await;
    let one = WebhookClaim {
        limit: 1,
        capacity: WebhookCapacity::new(1, &[(endpoint_key(1), 9)].into()),
        ..claim("a", later(1))
    };
    assert_eq!(events(&claimed(rig, &one).await), ["other"]);
    let shared = WebhookClaim {
        limit: 8,
        capacity: WebhookCapacity::new(8, &BTreeMap::new()),
        ..claim("b", later(1))
    };
    let shared = claimed(rig, &shared).await;
    let mut events = events(&shared);
    events.sort_unstable();
    assert_eq!(events, ["e1-0", "e1-1", "e1-2", "e2-0", "e2-1"]);
}
