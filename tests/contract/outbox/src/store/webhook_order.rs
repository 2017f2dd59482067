//! Order of the deliveries to ordered endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use handover_outbox::ports::{
    AfterAttempt, ClaimId, ClaimedDelivery, DeliveryState, EndpointStatus, NewWebhookDelivery, OutboxStore,
    StoreError, WebhookClaim, WebhookEndpoint,
};

use super::webhook_claims::{claimed, events};
use super::webhook_deliveries::{only, write};
use super::webhook_endpoints::{add, change};
use super::webhook_settling::settle;
use super::{StoreRig, in_unit, view};
use crate::samples::webhooks::{claim, dead_deliveries, delivery, endpoint, settled};
use crate::samples::{event_id, later, start};
use crate::within;

fn ordered(number: u32) -> WebhookEndpoint {
    WebhookEndpoint { is_ordered: true, max_in_flight: 100, ..endpoint(number) }
}

/// A delivery of the aggregate with this key.
fn of(key: &str, event: &str) -> NewWebhookDelivery {
    NewWebhookDelivery { order_key: key.to_owned(), ..delivery(1, event) }
}

async fn claimed_at(rig: &dyn StoreRig, id: &str, seconds: i64) -> Vec<ClaimedDelivery> {
    claimed(rig, &claim(id, later(seconds))).await
}

async fn end(rig: &dyn StoreRig, claimed: &ClaimedDelivery, after: AfterAttempt) {
    assert_eq!(settle(rig, &[settled(claimed, after)]).await, [claimed.delivery.id]);
}

/// An ordered endpoint gets the deliveries of a key one after another, in the order of their ids. Keys are compared byte by
/// byte.
pub async fn an_ordered_endpoint_gets_one_delivery_of_a_key_at_a_time(rig: &dyn StoreRig) {
    add(rig, &[ordered(1)]).await;
    write(rig, &[of("k", "a1"), of("l", "b1"), of("k", "a2"), of("K", "c1"), of("k", "a3"), of("k ", "d1")])
        .await;
    let first = claimed_at(rig, "1", 0).await;
    assert_eq!(events(&first), ["a1", "b1", "c1", "d1"]);
    assert_eq!(claimed_at(rig, "2", 0).await, []);
    end(rig, &first[0], AfterAttempt::Delivered).await;
    let second = claimed_at(rig, "3", 0).await;
    assert_eq!(events(&second), ["a2"]);
    assert_eq!(claimed_at(rig, "4", 0).await, []);
    end(rig, &second[0], AfterAttempt::Delivered).await;
    assert_eq!(events(&claimed_at(rig, "5", 0).await), ["a3"]);
}

/// A delivery that is retried or released blocks the later ones of its key only, until it is delivered or dead.
pub async fn a_pending_delivery_blocks_later_ones_of_its_key(rig: &dyn StoreRig) {
    add(rig, &[ordered(1)]).await;
    write(rig, &[of("k", "a1"), of("k", "a2"), of("l", "b1"), of("k", "a3"), of("l", "b2")]).await;
    let first = claimed_at(rig, "1", 0).await;
    assert_eq!(events(&first), ["a1", "b1"]);
    end(rig, &first[0], AfterAttempt::Retry(later(50))).await;
    end(rig, &first[1], AfterAttempt::Delivered).await;
    let second = claimed_at(rig, "2", 5).await;
    assert_eq!(events(&second), ["b2"]);
    let third = claimed_at(rig, "3", 50).await;
    assert_eq!(events(&third), ["a1"]);
    end(rig, &third[0], AfterAttempt::Released(later(60))).await;
    assert_eq!(claimed_at(rig, "4", 55).await, []);
    let fourth = claimed_at(rig, "5", 60).await;
    assert_eq!(events(&fourth), ["a1"]);
    end(rig, &fourth[0], AfterAttempt::Dead).await;
    let fifth = claimed_at(rig, "6", 60).await;
    assert_eq!(events(&fifth), ["a2"], "a dead delivery blocks nothing");
    // The claims have ended without a result.
    assert_eq!(events(&claimed_at(rig, "7", 200).await), ["b2", "a2"]);
}

/// A batch of the retention may end within a key of a disabled endpoint, which is then enabled again.
pub async fn a_cancelled_delivery_blocks_nothing(rig: &dyn StoreRig) {
    add(rig, &[ordered(1)]).await;
    write(rig, &[of("k", "a1"), of("k", "a2"), of("k", "a3")]).await;
    let first = claimed_at(rig, "1", 0).await;
    assert_eq!(events(&first), ["a1"]);
    end(rig, &first[0], AfterAttempt::Retry(later(50))).await;
    change(rig, 1, |endpoint| {
        endpoint.status = EndpointStatus::Disabled;
        endpoint.update_time = later(5);
    })
    .await;
    let cancelled = in_unit!(rig, |unit| {
        unit.outbox().cancel_webhook_deliveries(None, Some(later(10)), later(10), 1).await.unwrap()
    });
    assert_eq!(cancelled, 1);
    change(rig, 1, |endpoint| endpoint.status = EndpointStatus::Enabled).await;
    assert_eq!(events(&claimed_at(rig, "2", 20).await), ["a2"]);
}

/// Blocked deliveries do not use up the limit of a claim, however many they are.
pub async fn blocked_deliveries_do_not_use_up_the_limit(rig: &dyn StoreRig) {
    add(rig, &[ordered(1), endpoint(2)]).await;
    let backlog: Vec<_> = (0..600).map(|n| of("k", &format!("a{n}"))).collect();
    write(rig, &backlog).await;
    let first = claimed_at(rig, "1", 0).await;
    assert_eq!(events(&first), ["a0"]);
    end(rig, &first[0], AfterAttempt::Retry(later(5_000))).await;
    let late = |new: NewWebhookDelivery| NewWebhookDelivery { at: later(1), ..new };
    write(rig, &[late(of("l", "b1")), late(of("l", "b2")), late(delivery(2, "other"))]).await;
    for event in ["b1", "other"] {
        let one = WebhookClaim { limit: 1, ..claim(event, later(2)) };
        assert_eq!(events(&claimed(rig, &one).await), [event]);
    }
    assert_eq!(claimed_at(rig, "rest", 2).await, []);
    assert_eq!(events(&claimed_at(rig, "retry", 5_000).await), ["b1", "other", "a0"]);
}

/// Without order, the deliveries of a key are sent at the same time, also those that were blocked before the endpoint
/// changed.
pub async fn an_endpoint_that_is_not_ordered_gets_every_due_delivery(rig: &dyn StoreRig) {
    add(rig, &[ordered(1)]).await;
    write(rig, &[of("k", "a1"), of("k", "a2"), of("k", "a3")]).await;
    assert_eq!(events(&claimed_at(rig, "1", 0).await), ["a1"]);
    change(rig, 1, |endpoint| endpoint.is_ordered = false).await;
    assert_eq!(events(&claimed_at(rig, "2", 0).await), ["a2", "a3"]);
    change(rig, 1, |endpoint| endpoint.is_ordered = true).await;
    write(rig, &[of("k", "a4")]).await;
    assert_eq!(claimed_at(rig, "3", 0).await, []);
    // All claims have ended.
    assert_eq!(events(&claimed_at(rig, "4", 60).await), ["a1"]);
}

/// A delivery that is sent again blocks the later ones of its key that are pending.
pub async fn a_delivery_that_is_sent_again_precedes_later_ones_of_its_key(rig: &dyn StoreRig) {
    add(rig, &[ordered(1)]).await;
    let first = NewWebhookDelivery { dead_because: Some("no".into()), ..of("k", "a1") };
    write(rig, &[first, of("k", "a2"), of("k", "a3")]).await;
    let second = claimed_at(rig, "1", 0).await;
    assert_eq!(events(&second), ["a2"]);
    in_unit!(rig, |unit| {
        let resent = unit.outbox().resend_webhook_deliveries(&dead_deliveries(1), later(1), 10).await;
        assert_eq!(resent.unwrap(), 1);
    });
    end(rig, &second[0], AfterAttempt::Retry(later(2))).await;
    let first = claimed_at(rig, "2", 9).await;
    assert_eq!(events(&first), ["a1"]);
    end(rig, &first[0], AfterAttempt::Delivered).await;
    assert_eq!(events(&claimed_at(rig, "3", 9).await), ["a2"]);
}

/// A claim in its own unit of work; repeated if the database refuses it because of a conflict with others.
async fn repeat_claim(store: &OutboxStore, request: &WebhookClaim) -> Vec<ClaimedDelivery> {
    loop {
        let work = async {
            let mut unit = store.begin().await?;
            let claimed = unit.outbox().claim_webhook_deliveries(request).await?;
            unit.commit().await?;
            Ok(claimed)
        };
        match work.await {
            Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
            outcome => return outcome.expect("cannot claim deliveries"),
        }
    }
}

async fn repeat_settle(store: &OutboxStore, claimed: &[ClaimedDelivery]) {
    let results: Vec<_> = claimed.iter().map(|claimed| settled(claimed, AfterAttempt::Delivered)).collect();
    loop {
        let work = async {
            let mut unit = store.begin().await?;
            let recorded = unit.outbox().settle_webhook_deliveries(&results).await?;
            unit.commit().await?;
            Ok(recorded)
        };
        match work.await {
            Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("cannot record results: {error}"),
            Ok(recorded) => return assert_eq!(recorded.len(), results.len()),
        }
    }
}

/// Concurrent dispatchers deliver each key in order and complete all deliveries.
pub async fn concurrent_dispatchers_deliver_every_key_in_order(rig: &dyn StoreRig) {
    const KEYS: usize = 5;
    const PER_KEY: usize = 8;
    add(rig, &[ordered(1)]).await;
    let new: Vec<_> = (0..KEYS * PER_KEY).map(|n| of(&format!("k{}", n % KEYS), &format!("e-{n}"))).collect();
    write(rig, &new).await;
    let delivered: Arc<std::sync::Mutex<Vec<(String, i64)>>> = Arc::default();
    let mut dispatchers = Vec::new();
    for dispatcher in 0..4 {
        let store = rig.store();
        let delivered = delivered.clone();
        dispatchers.push(tokio::spawn(async move {
            let mut number = 0;
            while delivered.lock().unwrap().len() < KEYS * PER_KEY {
                number += 1;
                let id = ClaimId(format!("d{dispatcher}-{number}"));
                let request = WebhookClaim { id, limit: 3, ..claim("", start()) };
                let claimed = repeat_claim(store.as_ref(), &request).await;
                let keys = claimed.iter().map(|of| (of.delivery.order_key.clone(), of.delivery.id));
                delivered.lock().unwrap().extend(keys);
                if claimed.is_empty() {
                    tokio::task::yield_now().await;
                } else {
                    repeat_settle(store.as_ref(), &claimed).await;
                }
            }
        }));
    }
    for dispatcher in dispatchers {
        within("delivering", dispatcher).await.expect("a dispatcher does not panic");
    }
    let mut by_key: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (key, id) in delivered.lock().unwrap().drain(..) {
        by_key.entry(key).or_default().push(id);
    }
    assert_eq!(by_key.len(), KEYS);
    for (key, ids) in by_key {
        assert!(ids.len() == PER_KEY && ids.is_sorted(), "{key}: {ids:?}");
    }
    let mut view = view(rig).await;
    let last = view.outbox_view().webhook_deliveries_of(&[event_id("e-39")]).await.unwrap();
    assert_eq!(last[0].state, DeliveryState::Delivered);
    drop(view);
    assert_eq!(only(rig, "e-0").await.state, DeliveryState::Delivered);
}
