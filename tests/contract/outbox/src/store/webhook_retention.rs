//! The end of webhook deliveries: cancelled with their endpoint, deleted when they are old.

use handover_outbox::ports::{
    AfterAttempt, DeletedDeliveries, DeliveryState, EndpointStatus, NewWebhookDelivery, OldDeliveries,
};

use super::webhook_claims::claimed;
use super::webhook_deliveries::{of_event, only, write};
use super::webhook_endpoints::{add, change};
use super::webhook_settling::settle;
use super::{StoreRig, in_unit, view};
use crate::samples::webhooks::{claim, delivery, endpoint, endpoint_key, settled};
use crate::samples::{later, start};

async fn cancel(rig: &dyn StoreRig, number: Option<u32>) -> u64 {
    let endpoint = number.map(endpoint_key);
    in_unit!(rig, |unit| unit.outbox().cancel_webhook_deliveries(endpoint, None, later(9), 9).await.unwrap())
}

async fn delete_endpoint(rig: &dyn StoreRig, number: u32) {
    change(rig, number, |endpoint| {
        endpoint.status = EndpointStatus::Deleted;
        endpoint.slot = None;
    })
    .await;
}

/// With a time, the pending deliveries of endpoints that are disabled and were last changed before it are cancelled, too.
pub async fn pending_deliveries_of_long_disabled_endpoints_are_cancelled(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2), endpoint(3)]).await;
    write(rig, &[delivery(1, "a"), delivery(2, "b"), delivery(3, "c")]).await;
    for (number, at) in [(1, 20), (2, 30)] {
        change(rig, number, |endpoint| {
            endpoint.status = EndpointStatus::Disabled;
            endpoint.update_time = later(at);
        })
        .await;
    }
    let cancel_disabled = async |number: Option<u32>, before| {
        let endpoint = number.map(endpoint_key);
        in_unit!(rig, |unit| {
            let outbox = unit.outbox();
            outbox.cancel_webhook_deliveries(endpoint, Some(later(before)), later(40), 9).await.unwrap()
        })
    };
    assert_eq!(cancel(rig, None).await, 0, "disabled is not deleted");
    assert_eq!(cancel_disabled(None, 20).await, 0, "changed at that time, not before");
    assert_eq!(cancel_disabled(Some(2), 21).await, 0);
    assert_eq!(cancel_disabled(None, 21).await, 1);
    let cancelled = only(rig, "a").await;
    assert_eq!((cancelled.state, cancelled.settle_time), (DeliveryState::Cancelled, Some(later(40))));
    assert_eq!(cancel_disabled(Some(2), 31).await, 1);
    assert_eq!(cancel_disabled(Some(3), 100).await, 0, "the endpoint is enabled");
    assert_eq!(only(rig, "c").await.state, DeliveryState::Pending);
}

/// At most `limit` deliveries are cancelled at a time, also of several endpoints.
pub async fn many_pending_deliveries_are_cancelled_in_batches(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    write(rig, &[delivery(1, "a"), delivery(1, "b"), delivery(1, "c"), delivery(2, "d")]).await;
    for number in [1, 2] {
        delete_endpoint(rig, number).await;
    }
    let cancel_two = async |endpoint| {
        in_unit!(rig, |unit| {
            unit.outbox().cancel_webhook_deliveries(endpoint, None, later(9), 2).await.unwrap()
        })
    };
    assert_eq!(cancel_two(Some(endpoint_key(1))).await, 2);
    assert_eq!(cancel_two(None).await, 2);
    assert_eq!(cancel_two(None).await, 0);
    for event in ["a", "b", "c", "d"] {
        assert_eq!(only(rig, event).await.state, DeliveryState::Cancelled, "{event}");
    }
}

async fn delete(rig: &dyn StoreRig, after: i64, before: i64, limit: u32) -> DeletedDeliveries {
    let old = OldDeliveries { after, before: later(before), limit };
    in_unit!(rig, |unit| unit.outbox().delete_webhook_deliveries(&old).await.unwrap())
}

/// Deliveries that were delivered or cancelled before a time are deleted with their attempts, at most `limit` are examined
/// at a time. Pending, dead and younger ones stay.
pub async fn old_deliveries_are_deleted_with_their_attempts(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    let at = |event: &str, seconds| NewWebhookDelivery { at: later(seconds), ..delivery(1, event) };
    write(rig, &[at("sent", 0), at("dead", 0), at("late", 3), delivery(2, "cancelled")]).await;
    let attempted = claimed(rig, &claim("c", later(5))).await;
    for attempt in &attempted {
        let after = match attempt.delivery.event_id.as_str() {
            "dead" => AfterAttempt::Dead,
            "cancelled" => continue,
            _ => AfterAttempt::Delivered,
        };
        settle(rig, &[settled(attempt, after)]).await;
    }
    delete_endpoint(rig, 2).await;
    assert_eq!(cancel(rig, None).await, 1);
    write(rig, &[at("pending", 0), at("young", 300)]).await;
    let [sent, dead] = [only(rig, "sent").await, only(rig, "dead").await];
    assert_eq!(delete(rig, 0, 0, 10).await, DeletedDeliveries { deleted: 0, last: None }, "none is that old");
    assert_eq!(delete(rig, 0, 255, 1).await, DeletedDeliveries { deleted: 1, last: Some(sent.id) });
    assert_eq!(of_event(rig, "sent").await, []);
    let attempts = view(rig).await.outbox_view().webhook_attempts(sent.endpoint_key(), sent.id).await;
    assert_eq!(attempts.unwrap(), []);
    assert_eq!(delete(rig, sent.id, 255, 1).await, DeletedDeliveries { deleted: 0, last: Some(dead.id) });
    assert_eq!(delete(rig, dead.id, 255, 10).await, DeletedDeliveries { deleted: 2, last: None });
    for (event, count) in [("dead", 1), ("late", 0), ("cancelled", 0), ("pending", 1), ("young", 1)] {
        assert_eq!(of_event(rig, event).await.len(), count, "{event}");
    }
    let attempts = view(rig).await.outbox_view().webhook_attempts(dead.endpoint_key(), dead.id).await;
    assert_eq!(attempts.unwrap().len(), 1, "the attempts of a delivery that stays");
}

/// A redelivery stays while the event has a `DEAD` delivery to the endpoint, which would otherwise count as not sent again.
pub async fn a_redelivery_of_a_dead_delivery_is_not_deleted(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1)]).await;
    let dead = NewWebhookDelivery { dead_because: Some("no".into()), ..delivery(1, "a") };
    let again = NewWebhookDelivery { redelivery: 1, ..delivery(1, "a") };
    let other = NewWebhookDelivery { redelivery: 1, ..delivery(1, "b") };
    write(rig, &[dead, again, other, delivery(1, "b")]).await;
    let attempted = claimed(rig, &claim("c", later(5))).await;
    let results: Vec<_> = attempted.iter().map(|claimed| settled(claimed, AfterAttempt::Delivered)).collect();
    assert_eq!(settle(rig, &results).await.len(), 3);
    assert_eq!(delete(rig, 0, 255, 10).await, DeletedDeliveries { deleted: 2, last: None });
    assert_eq!(of_event(rig, "a").await.len(), 2);
}

/// The pending deliveries of deleted endpoints are cancelled: of one endpoint, or of all. Others are unchanged.
pub async fn pending_deliveries_of_deleted_endpoints_are_cancelled(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2), endpoint(3)]).await;
    let dead = NewWebhookDelivery { dead_because: Some("no".into()), ..delivery(1, "dead") };
    write(rig, &[delivery(1, "a"), delivery(1, "b"), dead, delivery(2, "c"), delivery(3, "d")]).await;
    let in_flight = claimed(rig, &claim("c", start())).await;
    for number in [1, 2] {
        assert_eq!(cancel(rig, Some(number)).await, 0, "the endpoint is not deleted");
        delete_endpoint(rig, number).await;
    }
    assert_eq!(cancel(rig, Some(1)).await, 2);
    for (event, state) in
        [("a", DeliveryState::Cancelled), ("dead", DeliveryState::Dead), ("c", DeliveryState::Pending)]
    {
        assert_eq!(only(rig, event).await.state, state, "{event}");
    }
    let cancelled = only(rig, "b").await;
    assert_eq!((cancelled.claim, cancelled.claims, cancelled.settle_time), (None, 0, Some(later(9))));
    assert_eq!(cancel(rig, None).await, 1);
    assert_eq!(cancel(rig, None).await, 0);
    assert_eq!(only(rig, "c").await.state, DeliveryState::Cancelled);
    assert_eq!(only(rig, "d").await.state, DeliveryState::Pending);
    let results: Vec<_> = in_flight.iter().map(|claimed| settled(claimed, AfterAttempt::Delivered)).collect();
    assert_eq!(settle(rig, &results).await, [only(rig, "d").await.id], "results after the cancellation");
}
