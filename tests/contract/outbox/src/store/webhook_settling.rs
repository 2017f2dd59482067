//! Results of claimed deliveries.

use handover_outbox::ports::{
    AfterAttempt, AttemptCounts, AttemptOutcome, ClaimId, ClaimedDelivery, DeliveryState, SettledDelivery,
    WebhookAttempt, WebhookDelivery,
};

use super::webhook_claims::claimed;
use super::webhook_deliveries::{only, write};
use super::webhook_endpoints::add;
use super::{StoreRig, in_unit, view};
use crate::samples::webhooks::{attempt, claim, delivery, endpoint, endpoint_key, settled};
use crate::samples::{SPECIAL_CHARACTERS, later, start};

pub(super) async fn settle(rig: &dyn StoreRig, results: &[SettledDelivery]) -> Vec<i64> {
    in_unit!(rig, |unit| {
        let mut recorded =
            unit.outbox().settle_webhook_deliveries(results).await.expect("cannot record results");
        recorded.sort_unstable();
        recorded
    })
}

async fn attempts(rig: &dyn StoreRig, delivery: i64) -> Vec<WebhookAttempt> {
    view(rig)
        .await
        .outbox_view()
        .webhook_attempts(endpoint_key(1), delivery)
        .await
        .expect("cannot read attempts")
}

/// A claimed delivery of an event.
async fn claim_one(rig: &dyn StoreRig) -> ClaimedDelivery {
    add(rig, &[endpoint(1)]).await;
    write(rig, &[delivery(1, "a")]).await;
    claim_again(rig, "first", 0).await
}

async fn claim_again(rig: &dyn StoreRig, id: &str, seconds: i64) -> ClaimedDelivery {
    let mut found = claimed(rig, &claim(id, later(seconds))).await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Records a result and asserts the delivery after it.
async fn ends_as(rig: &dyn StoreRig, result: &SettledDelivery, expected: WebhookDelivery) {
    assert_eq!(settle(rig, std::slice::from_ref(result)).await, [expected.id]);
    assert_eq!(only(rig, "a").await, expected);
}

/// A delivered delivery has the status of the response and the time of the record. Its attempt is read back as it was
/// written.
pub async fn a_result_is_recorded_with_its_attempt(rig: &dyn StoreRig) {
    let claimed = claim_one(rig).await;
    let complete = WebhookAttempt {
        at: later(3),
        duration_ms: 1_234,
        error: Some(SPECIAL_CHARACTERS.into()),
        response: Some(SPECIAL_CHARACTERS.repeat(20)),
        ..attempt(AttemptOutcome::Delivered, Some(202))
    };
    let result = SettledDelivery {
        attempt: Some(complete.clone()),
        at: later(4),
        ..settled(&claimed, AfterAttempt::Delivered)
    };
    let expected = WebhookDelivery {
        state: DeliveryState::Delivered,
        claim: None,
        claims: 0,
        last_status: Some(202),
        settle_time: Some(later(4)),
        ..claimed.delivery.clone()
    };
    ends_as(rig, &result, expected).await;
    assert_eq!(attempts(rig, claimed.delivery.id).await, [complete]);
}

/// A failed attempt is counted and recorded, and the delivery is due at the time of the next one. An attempt without a
/// response keeps the status of the last response.
pub async fn a_failed_attempt_is_counted(rig: &dyn StoreRig) {
    let first = claim_one(rig).await;
    let expected = WebhookDelivery {
        due_time: later(30),
        claim: None,
        claims: 0,
        attempts: 1,
        last_status: Some(500),
        last_error: Some("HTTP 500".into()),
        ..first.delivery.clone()
    };
    ends_as(rig, &settled(&first, AfterAttempt::Retry(later(30))), expected.clone()).await;
    assert_eq!(claimed(rig, &claim("early", later(29))).await, []);
    let second = claim_again(rig, "second", 30).await;
    let without_response = SettledDelivery {
        attempt: Some(attempt(AttemptOutcome::Failed, None)),
        error: Some("connection refused".into()),
        ..settled(&second, AfterAttempt::Retry(later(90)))
    };
    let expected = WebhookDelivery {
        due_time: later(90),
        attempts: 2,
        last_error: Some("connection refused".into()),
        ..expected
    };
    ends_as(rig, &without_response, expected.clone()).await;
    let third = claim_again(rig, "third", 90).await;
    let expected = WebhookDelivery {
        state: DeliveryState::Delivered,
        due_time: third.delivery.due_time,
        last_status: Some(204),
        settle_time: Some(later(1)),
        ..expected
    };
    ends_as(rig, &settled(&third, AfterAttempt::Delivered), expected).await;
    let outcomes: Vec<_> = attempts(rig, first.delivery.id)
        .await
        .iter()
        .map(|attempt| (attempt.outcome, attempt.status))
        .collect();
    let failed = AttemptOutcome::Failed;
    assert_eq!(outcomes, [(failed, Some(500)), (failed, None), (AttemptOutcome::Delivered, Some(204))]);
}

/// After the last attempt the delivery is `DEAD`. Without an attempt, because claims ended without a result, no attempt is
/// counted or recorded.
pub async fn a_delivery_without_a_further_attempt_is_dead(rig: &dyn StoreRig) {
    let first = claim_one(rig).await;
    write(rig, &[delivery(1, "b")]).await;
    let second = claim_again(rig, "second", 0).await;
    let expected = WebhookDelivery {
        state: DeliveryState::Dead,
        claim: None,
        claims: 0,
        attempts: 1,
        last_status: Some(500),
        last_error: Some("HTTP 500".into()),
        settle_time: Some(later(1)),
        ..first.delivery.clone()
    };
    ends_as(rig, &settled(&first, AfterAttempt::Dead), expected).await;
    let without_attempt = SettledDelivery {
        attempt: None,
        error: Some("5 claims ended without a result".into()),
        ..settled(&second, AfterAttempt::Dead)
    };
    assert_eq!(settle(rig, &[without_attempt]).await, [second.delivery.id]);
    let dead = only(rig, "b").await;
    assert_eq!((dead.state, dead.attempts, dead.claims), (DeliveryState::Dead, 0, 0));
    assert_eq!(dead.last_error.as_deref(), Some("5 claims ended without a result"));
    assert_eq!(attempts(rig, dead.id).await, []);
    assert_eq!(claimed(rig, &claim("late", later(5_000))).await, []);
}

/// An interrupted attempt is recorded and not counted; the delivery is free at the given time.
pub async fn an_interrupted_attempt_is_not_counted(rig: &dyn StoreRig) {
    let first = claim_one(rig).await;
    let expected = WebhookDelivery { due_time: later(2), claim: None, claims: 0, ..first.delivery.clone() };
    ends_as(rig, &settled(&first, AfterAttempt::Released(later(2))), expected).await;
    assert_eq!(attempts(rig, first.delivery.id).await, [attempt(AttemptOutcome::Interrupted, None)]);
    assert_eq!(claim_again(rig, "second", 2).await.delivery.claims, 1);
}

/// Claims that end without a result are counted, until a result is recorded.
pub async fn a_recorded_result_resets_the_number_of_claims(rig: &dyn StoreRig) {
    let first = claim_one(rig).await;
    assert_eq!(first.delivery.claims, 1);
    for (number, id) in [(2, "second"), (3, "third")] {
        assert_eq!(claim_again(rig, id, 100 * i64::from(number)).await.delivery.claims, number);
    }
    let fourth = claim_again(rig, "fourth", 400).await;
    assert_eq!(fourth.delivery.claims, 4);
    settle(rig, &[settled(&fourth, AfterAttempt::Retry(later(400)))]).await;
    assert_eq!(only(rig, "a").await.claims, 0);
    assert_eq!(claim_again(rig, "fifth", 400).await.delivery.claims, 1);
}

/// A result is recorded only under the current claim, and only once.
pub async fn a_result_of_an_earlier_claim_is_ignored(rig: &dyn StoreRig) {
    let first = claim_one(rig).await;
    let second = claim_again(rig, "second", 60).await;
    let late = settled(&first, AfterAttempt::Delivered);
    let unknown = SettledDelivery { claim: ClaimId("unknown".into()), ..late.clone() };
    let of_other_case = SettledDelivery { claim: ClaimId("SECOND".into()), ..late.clone() };
    let missing = SettledDelivery { delivery: i64::MAX, ..late.clone() };
    assert_eq!(settle(rig, &[late.clone(), unknown, of_other_case, missing]).await, [0; 0]);
    assert_eq!(only(rig, "a").await, second.delivery);
    let current = settled(&second, AfterAttempt::Retry(later(70)));
    let again = settled(&second, AfterAttempt::Dead);
    assert_eq!(settle(rig, &[late.clone(), current.clone(), again.clone()]).await, [second.delivery.id]);
    let recorded = only(rig, "a").await;
    assert_eq!((recorded.state, recorded.attempts), (DeliveryState::Pending, 1));
    assert_eq!(settle(rig, &[late, current, again]).await, [0; 0]);
    assert_eq!(only(rig, "a").await, recorded);
    assert_eq!(attempts(rig, recorded.id).await.len(), 1);
}

/// The results of a group are recorded together; an outdated one does not prevent the others.
pub async fn results_of_a_group_are_recorded_together(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1)]).await;
    let new: Vec<_> = (0..10).map(|n| delivery(1, &format!("e-{n}"))).collect();
    write(rig, &new).await;
    assert_eq!(settle(rig, &[]).await, [0; 0]);
    let found = claimed(rig, &claim("c", start())).await;
    let results: Vec<_> = found
        .iter()
        .zip(0..)
        .map(|(claimed, n)| match n % 4 {
            0 => settled(claimed, AfterAttempt::Delivered),
            1 => settled(claimed, AfterAttempt::Retry(later(9))),
            2 => settled(claimed, AfterAttempt::Dead),
            _ => {
                SettledDelivery { claim: ClaimId("old".into()), ..settled(claimed, AfterAttempt::Delivered) }
            }
        })
        .collect();
    let expected: Vec<i64> = (0..10).filter(|n| n % 4 != 3).map(|n: usize| found[n].delivery.id).collect();
    let reversed: Vec<_> = results.into_iter().rev().collect();
    assert_eq!(settle(rig, &reversed).await, expected);
    for (n, state) in [(0, DeliveryState::Delivered), (1, DeliveryState::Pending), (2, DeliveryState::Dead)] {
        assert_eq!(only(rig, &format!("e-{n}")).await.state, state);
        assert_eq!(attempts(rig, found[n].delivery.id).await.len(), 1);
    }
    assert_eq!(only(rig, "e-3").await.claim, Some(ClaimId("c".into())));
    assert_eq!(attempts(rig, found[3].delivery.id).await, []);
}

/// Successful and failed attempts at an endpoint are counted from a time on; interrupted ones are not.
pub async fn attempts_at_an_endpoint_are_counted_since_a_time(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    let new: Vec<_> = (0..6).map(|n| delivery(1, &format!("e-{n}"))).collect();
    write(rig, &new).await;
    write(rig, &[delivery(2, "other")]).await;
    let found = claimed(rig, &claim("c", start())).await;
    let results: Vec<_> = found
        .iter()
        .zip(0..)
        .map(|(claimed, n)| {
            let mut result = match n {
                0..2 => settled(claimed, AfterAttempt::Retry(later(900))),
                2..5 => settled(claimed, AfterAttempt::Delivered),
                5 => settled(claimed, AfterAttempt::Released(later(900))),
                _ => settled(claimed, AfterAttempt::Dead),
            };
            result.attempt.iter_mut().for_each(|attempt| attempt.at = later(n));
            result
        })
        .collect();
    settle(rig, &results).await;
    for (number, since, delivered, failed) in
        [(1, 0, 3, 2), (1, 1, 3, 1), (1, 4, 1, 0), (1, 5, 0, 0), (2, 0, 0, 1)]
    {
        let mut view = view(rig).await;
        let counts =
            view.outbox_view().webhook_attempt_counts(endpoint_key(number), later(since)).await.unwrap();
        assert_eq!(counts, AttemptCounts { delivered, failed }, "endpoint {number} since {since}");
    }
}
