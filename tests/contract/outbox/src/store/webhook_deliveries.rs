//! Deliveries of webhooks: writes and reads.

use handover_outbox::ports::{
    AfterAttempt, BodyForm, DeadDeliveries, DeliveryFilter, DeliveryState, EndpointHealth, EndpointStatus,
    NewWebhookDelivery, WebhookCounts, WebhookDelivery, WebhookEndpoint,
};

use super::webhook_claims::claimed;
use super::webhook_endpoints::{add, end_of_rollback};
use super::webhook_settling::settle;
use super::{StoreRig, begin, in_unit, view};
use crate::concurrency::{RACERS, race};
use crate::samples::webhooks::{
    claim, dead_deliveries, delivery, endpoint, endpoint_id, endpoint_key, settled,
};
use crate::samples::{SPECIAL_CHARACTERS, event_id, later, start, tenant};

pub(super) async fn write(rig: &dyn StoreRig, deliveries: &[NewWebhookDelivery]) -> u64 {
    in_unit!(rig, |unit| {
        unit.outbox().insert_webhook_deliveries(deliveries).await.expect("cannot insert deliveries")
    })
}

/// The deliveries of this event.
pub(super) async fn of_event(rig: &dyn StoreRig, event: &str) -> Vec<WebhookDelivery> {
    let found = view(rig).await.outbox_view().webhook_deliveries_of(&[event_id(event)]).await;
    found.expect("cannot read deliveries")
}

/// The only delivery of this event.
pub(super) async fn only(rig: &dyn StoreRig, event: &str) -> WebhookDelivery {
    let mut found = of_event(rig, event).await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Events of a page of the deliveries of endpoint 1.
async fn page(rig: &dyn StoreRig, filter: &DeliveryFilter, before: Option<i64>, limit: u32) -> Vec<String> {
    let mut view = view(rig).await;
    let page = view.outbox_view().webhook_deliveries_page(endpoint_key(1), filter, before, limit).await;
    let page = page.expect("cannot read a page of deliveries");
    assert!(page.is_sorted_by(|a, b| a.id > b.id), "{page:?}");
    page.into_iter().map(|delivery| delivery.event_id.into()).collect()
}

/// The delivery as it is read before a claim.
fn as_written(new: &NewWebhookDelivery, id: i64) -> WebhookDelivery {
    let is_dead = new.dead_because.is_some();
    WebhookDelivery {
        id,
        endpoint: new.endpoint,
        tenant: new.tenant,
        event_id: new.event_id.clone(),
        redelivery: new.redelivery,
        event_type: new.event_type.clone(),
        order_key: new.order_key.clone(),
        body: new.body.clone(),
        body_form: new.body_form,
        state: if is_dead { DeliveryState::Dead } else { DeliveryState::Pending },
        due_time: new.at,
        claim: None,
        claims: 0,
        attempts: 0,
        last_status: None,
        last_error: new.dead_because.clone(),
        create_time: new.at,
        settle_time: is_dead.then_some(new.at),
    }
}

/// A delivery is read back as it was written, with each form of the body; one with a reason is `DEAD` from the beginning.
pub async fn a_delivery_is_read_back_as_it_was_written(rig: &dyn StoreRig) {
    add(rig, &[WebhookEndpoint { tenant: tenant(2), ..endpoint(1) }]).await;
    let delivery = |event| NewWebhookDelivery { tenant: tenant(2), ..delivery(1, event) };
    let full = NewWebhookDelivery {
        redelivery: 3,
        event_type: "book.lent-to.member".into(),
        order_key: format!("2/Book/{SPECIAL_CHARACTERS}"),
        body: format!("{{\"title\":\"{}\"}}", "长".repeat(20_000)),
        body_form: BodyForm::Full,
        at: later(7),
        ..delivery("a")
    };
    let dead = NewWebhookDelivery { dead_because: Some("the body is too large".into()), ..delivery("b") };
    let unmasked = NewWebhookDelivery { body_form: BodyForm::Unmasked, ..delivery("d") };
    let all = [full, dead, delivery("c"), unmasked];
    assert_eq!(write(rig, &all).await, 4);
    for written in all {
        let read = only(rig, written.event_id.as_str()).await;
        assert_eq!(read, as_written(&written, read.id));
        let key = read.endpoint_key();
        let by_id = view(rig).await.outbox_view().webhook_delivery(key, read.id).await.unwrap();
        assert_eq!(by_id.as_ref(), Some(&read));
        assert_eq!(view(rig).await.outbox_view().webhook_attempts(key, read.id).await.unwrap(), []);
    }
    let missing = view(rig).await.outbox_view().webhook_delivery(endpoint_key(1), i64::MAX).await;
    assert_eq!(missing.unwrap(), None);
}

/// A delivery with the endpoint, event and redelivery number of an existing one is ignored and not counted, also within
/// one call.
pub async fn a_delivery_that_exists_is_ignored(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    let first = delivery(1, "a");
    assert_eq!(write(rig, &[first.clone(), first.clone()]).await, 1);
    let stored = only(rig, "a").await;
    let again = NewWebhookDelivery { body: "other".into(), at: later(5), ..first.clone() };
    let redelivery = NewWebhookDelivery { redelivery: 1, ..first.clone() };
    let dead = NewWebhookDelivery { dead_because: Some("no".into()), ..again.clone() };
    assert_eq!(write(rig, &[again, dead, delivery(2, "a"), redelivery, delivery(1, "A")]).await, 3);
    assert_eq!(write(rig, &[]).await, 0);
    let found = of_event(rig, "a").await;
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0], stored, "an existing delivery is unchanged");
    assert_eq!((found[1].endpoint, found[2].redelivery), (endpoint_id(2), 1));
}

/// Concurrent units of work insert each delivery once, and count it once.
pub async fn concurrent_deliveries_of_an_event_are_inserted_once(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move {
            let own = delivery(1, &format!("own-{n}"));
            let new = [delivery(1, "a"), delivery(2, "a"), own, delivery(1, "b")];
            unit.outbox().insert_webhook_deliveries(&new).await
        })
    })
    .await;
    let inserted: u64 = outcomes.into_iter().map(|outcome| outcome.expect("duplicates are no error")).sum();
    assert_eq!(inserted, 3 + RACERS as u64);
    assert_eq!(of_event(rig, "a").await.len(), 2);
    assert_eq!(of_event(rig, "b").await.len(), 1);
}

/// Many deliveries, also large ones, get increasing ids in the order given.
pub async fn many_deliveries_are_inserted_in_order(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1)]).await;
    let new: Vec<_> = (0..300)
        .map(|n| {
            let body = "x".repeat(if n % 50 == 0 { 200_000 } else { 10 });
            NewWebhookDelivery { body, ..delivery(1, &format!("e-{n}")) }
        })
        .collect();
    assert_eq!(write(rig, &new).await, 300);
    let events: Vec<_> = new.iter().rev().map(|new| new.event_id.clone()).collect();
    let found = view(rig).await.outbox_view().webhook_deliveries_of(&events).await.unwrap();
    assert!(found.is_sorted_by(|a, b| a.id < b.id));
    let read: Vec<_> = found.iter().map(|delivery| (&delivery.event_id, delivery.body.len())).collect();
    assert_eq!(read, new.iter().map(|new| (&new.event_id, new.body.len())).collect::<Vec<_>>());
}

/// Pages contain the deliveries of one endpoint, greatest id first.
pub async fn pages_of_deliveries_are_ordered_by_descending_id(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    write(rig, &["a", "b", "c", "d"].map(|event| delivery(1, event))).await;
    write(rig, &[delivery(2, "e")]).await;
    let all = DeliveryFilter::default();
    assert_eq!(page(rig, &all, None, 3).await, ["d", "c", "b"]);
    let cursor = only(rig, "b").await.id;
    assert_eq!(page(rig, &all, Some(cursor), 3).await, ["a"]);
    for state in [None, Some(DeliveryState::Pending)] {
        let newer = DeliveryFilter { state, above_id: Some(cursor), ..all.clone() };
        let expected = "only deliveries with ids above the bound may be returned";
        assert_eq!(page(rig, &newer, None, 9).await, ["d", "c"], "{expected}");
    }
    assert_eq!(page(rig, &all, Some(only(rig, "a").await.id), 3).await, [""; 0]);
}

/// Pending deliveries are those of one endpoint and, if it is given, with one content of the body.
pub async fn pending_deliveries_of_an_endpoint_are_found(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    let has_pending = async |number: u32, form| {
        let mut view = view(rig).await;
        view.outbox_view().has_pending_webhook_deliveries(endpoint_key(number), form).await.unwrap()
    };
    assert!(!has_pending(1, None).await);
    write(rig, &[NewWebhookDelivery { body_form: BodyForm::Full, ..delivery(1, "a") }]).await;
    let found = [has_pending(1, None).await, has_pending(1, Some(BodyForm::Full)).await];
    assert_eq!(found, [true, true]);
    let found = [has_pending(1, Some(BodyForm::Unmasked)).await, has_pending(2, None).await];
    assert_eq!(found, [false, false]);
    let attempted = claimed(rig, &claim("c", start())).await;
    let results: Vec<_> = attempted.iter().map(|claimed| settled(claimed, AfterAttempt::Delivered)).collect();
    settle(rig, &results).await;
    assert!(!has_pending(1, None).await);
}

/// Every part of a filter narrows the page; the start of a period is included, and its end excluded.
pub async fn every_part_of_a_filter_narrows_the_page_of_deliveries(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    let returned = NewWebhookDelivery {
        event_type: "book.returned".into(),
        body_form: BodyForm::Full,
        ..delivery(1, "returned")
    };
    let late = NewWebhookDelivery { at: later(10), ..delivery(1, "late") };
    write(rig, &[delivery(1, "sent"), delivery(1, "refused"), delivery(1, "failed"), delivery(2, "x")]).await;
    let results = claimed(rig, &claim("c", start())).await;
    let result = |event: &str, after| {
        let of = results.iter().find(|claimed| claimed.delivery.event_id == event_id(event));
        settled(of.expect("the delivery is claimed"), after)
    };
    settle(
        rig,
        &[
            result("sent", AfterAttempt::Delivered),
            result("refused", AfterAttempt::Dead),
            result("failed", AfterAttempt::Retry(later(60))),
        ],
    )
    .await;
    write(rig, &[returned, late]).await;
    let all = DeliveryFilter::default();
    let state = |state| DeliveryFilter { state: Some(state), ..all.clone() };
    let of_type = DeliveryFilter { event_type: Some("book.returned".into()), ..all.clone() };
    let status = |status| DeliveryFilter { status: Some(status), ..all.clone() };
    let of_form = DeliveryFilter { body_form: Some(BodyForm::Full), ..all.clone() };
    let from = DeliveryFilter { from: Some(later(10)), ..all.clone() };
    let to = DeliveryFilter { to: Some(later(10)), ..all.clone() };
    let both = DeliveryFilter { status: Some(500), ..state(DeliveryState::Pending) };
    for (filter, expected) in [
        (&all, &["late", "returned", "failed", "refused", "sent"][..]),
        (&state(DeliveryState::Pending), &["late", "returned", "failed"]),
        (&state(DeliveryState::Delivered), &["sent"]),
        (&state(DeliveryState::Dead), &["refused"]),
        (&state(DeliveryState::Cancelled), &[]),
        (&of_type, &["returned"]),
        (&of_form, &["returned"]),
        (&status(500), &["failed", "refused"]),
        (&status(204), &["sent"]),
        (&from, &["late"]),
        (&to, &["returned", "failed", "refused", "sent"]),
        (&both, &["failed"]),
    ] {
        assert_eq!(page(rig, filter, None, 100).await, expected, "{filter:?}");
    }
}

async fn resend(rig: &dyn StoreRig, from: i64, to: i64, limit: u32) -> u64 {
    in_unit!(rig, |unit| {
        let dead = DeadDeliveries { from: later(from), to: later(to), ..dead_deliveries(1) };
        unit.outbox().resend_webhook_deliveries(&dead, later(100), limit).await.unwrap()
    })
}

/// `DEAD` deliveries of one endpoint that were written in a period are due again, without attempts, the oldest first.
pub async fn dead_deliveries_of_a_period_are_sent_again(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    let at = |event: &str, seconds| NewWebhookDelivery { at: later(seconds), ..delivery(1, event) };
    write(rig, &[at("a", 0), at("b", 1), at("c", 2), at("d", 3), delivery(2, "x")]).await;
    let attempted = claimed(rig, &claim("c", later(5))).await;
    let results: Vec<_> = attempted.iter().map(|claimed| settled(claimed, AfterAttempt::Dead)).collect();
    assert_eq!(settle(rig, &results).await.len(), 5);
    write(rig, &[at("pending", 2)]).await;
    let dead = only(rig, "b").await;
    assert_eq!(dead.attempts, 1);
    assert_eq!(resend(rig, 1, 3, 1).await, 1);
    let expected = WebhookDelivery {
        state: DeliveryState::Pending,
        due_time: later(100),
        attempts: 0,
        settle_time: None,
        ..dead
    };
    assert_eq!(only(rig, "b").await, expected);
    assert_eq!(resend(rig, 1, 3, 10).await, 1);
    for (event, state) in [
        ("a", DeliveryState::Dead),
        ("c", DeliveryState::Pending),
        ("d", DeliveryState::Dead),
        ("x", DeliveryState::Dead),
    ] {
        assert_eq!(only(rig, event).await.state, state, "{event}");
    }
    assert_eq!(claimed(rig, &claim("d", later(100))).await.len(), 3);
}

/// Sends again which of the `DEAD` deliveries can be; returns the events of those that are pending afterwards.
async fn resend_of(rig: &dyn StoreRig, is_unmasked: Option<bool>) -> Vec<String> {
    let dead = DeadDeliveries { is_unmasked, ..dead_deliveries(1) };
    let count = async |limit| {
        let mut view = view(rig).await;
        view.outbox_view().count_dead_webhook_deliveries(&dead, limit).await.expect("cannot count deliveries")
    };
    let (counted, limited) = (count(100).await, count(1).await);
    let resent = in_unit!(rig, |unit| {
        unit.outbox().resend_webhook_deliveries(&dead, later(5), 100).await.expect("cannot send again")
    });
    assert_eq!(
        (counted, limited),
        (resent, resent.min(1)),
        "the number of deliveries that can be sent again"
    );
    let pending = DeliveryFilter { state: Some(DeliveryState::Pending), ..DeliveryFilter::default() };
    page(rig, &pending, None, 100).await
}

/// A `DEAD` delivery without a body, or with a later redelivery of its event, is not sent again. Deliveries can be
/// selected by whether their payload is unmasked.
pub async fn only_dead_deliveries_that_can_be_sent_are_sent_again(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    let dead = |event: &str| NewWebhookDelivery { dead_because: Some("no".into()), ..delivery(1, event) };
    let of_form = |event: &str, body_form| NewWebhookDelivery { body_form, ..dead(event) };
    let redelivered = NewWebhookDelivery { redelivery: 1, ..dead("redelivered") };
    let of_other = NewWebhookDelivery { endpoint: endpoint_id(2), redelivery: 1, ..dead("thin") };
    write(
        rig,
        &[
            NewWebhookDelivery { body: String::new(), ..dead("too-large") },
            dead("redelivered"),
            dead("thin"),
            of_form("full", BodyForm::Full),
            of_form("unmasked", BodyForm::Unmasked),
            of_other,
        ],
    )
    .await;
    // Outside of the period.
    write(rig, &[NewWebhookDelivery { at: later(1), ..redelivered }]).await;
    assert_eq!(resend_of(rig, Some(false)).await, ["full", "thin"]);
    assert_eq!(resend_of(rig, Some(true)).await, ["unmasked", "full", "thin"]);
    assert_eq!(resend_of(rig, None).await, ["unmasked", "full", "thin"]);
    let states = async |event| {
        let found = of_event(rig, event).await;
        found.into_iter().map(|delivery| delivery.state).collect::<Vec<_>>()
    };
    assert_eq!(states("too-large").await, [DeliveryState::Dead]);
    assert_eq!(states("redelivered").await, [DeliveryState::Dead, DeliveryState::Dead]);
}

/// Concurrent units of work send each `DEAD` delivery again once.
pub async fn a_dead_delivery_is_sent_again_by_one_of_concurrent_units_of_work(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1)]).await;
    let dead = |event: &str| NewWebhookDelivery { dead_because: Some("no".into()), ..delivery(1, event) };
    write(rig, &["a", "b", "c"].map(dead)).await;
    let outcomes = race(&rig.store(), |unit, _| {
        Box::pin(async move {
            let outbox = unit.outbox();
            outbox.resend_webhook_deliveries(&dead_deliveries(1), later(5), 10).await
        })
    })
    .await;
    let resent: u64 = outcomes.into_iter().map(|outcome| outcome.expect("no error")).sum();
    assert_eq!(resent, 3);
}

/// Deliveries and endpoints of all tenants are counted, except those of deleted endpoints.
pub async fn webhooks_of_all_tenants_are_counted(rig: &dyn StoreRig) {
    let counts = async || view(rig).await.outbox_view().webhook_counts(later(10)).await.unwrap();
    assert_eq!(counts().await, WebhookCounts::default());
    let disabled = WebhookEndpoint { status: EndpointStatus::Disabled, tenant: tenant(2), ..endpoint(2) };
    let deleted = WebhookEndpoint { status: EndpointStatus::Deleted, slot: None, ..endpoint(3) };
    let health = EndpointHealth { failing_since: Some(later(1)), ..EndpointHealth::default() };
    let failing = WebhookEndpoint { health: health.clone(), ..disabled.clone() };
    let failing = WebhookEndpoint { id: endpoint(4).id, slot: endpoint(4).slot, ..failing };
    add(rig, &[WebhookEndpoint { health, ..endpoint(1) }, disabled, deleted, failing]).await;
    let dead = |number, event: &str| NewWebhookDelivery {
        dead_because: Some("no".into()),
        ..delivery(number, event)
    };
    let at =
        |number, event: &str, seconds| NewWebhookDelivery { at: later(seconds), ..delivery(number, event) };
    let redelivered = NewWebhookDelivery { redelivery: 1, ..at(1, "b", 8) };
    write(rig, &[dead(1, "a"), dead(1, "b"), dead(2, "c"), dead(3, "d"), redelivered]).await;
    write(rig, &[at(1, "e", 5), at(2, "f", 2), at(3, "g", 1), dead(2, "b")]).await;
    let expected = WebhookCounts {
        pending: 3,
        dead: 3,
        disabled_endpoints: 2,
        disabled_failing: 1,
        oldest_due: Some(later(5)),
    };
    assert_eq!(counts().await, expected);
}

/// The oldest due delivery is one that could be sent now: not one of a paused endpoint, nor one that waits for an earlier
/// delivery with the same key.
pub async fn the_oldest_due_delivery_is_neither_paused_nor_blocked(rig: &dyn StoreRig) {
    let oldest_due =
        async |now| view(rig).await.outbox_view().webhook_counts(later(now)).await.unwrap().oldest_due;
    let health = EndpointHealth { paused_until: Some(later(50)), ..EndpointHealth::default() };
    let ordered = WebhookEndpoint { is_ordered: true, ..endpoint(2) };
    add(rig, &[WebhookEndpoint { health, ..endpoint(1) }, ordered]).await;
    let with_key = |event| NewWebhookDelivery { order_key: "Book/1".into(), ..delivery(2, event) };
    write(rig, &[with_key("first"), with_key("second")]).await;
    assert_eq!(oldest_due(10).await, Some(start()));
    let first = claimed(rig, &claim("a", later(1))).await;
    settle(rig, &[settled(&first[0], AfterAttempt::Retry(later(90)))]).await;
    // A store may notice that a delivery is blocked when it looks for one to claim.
    assert_eq!(claimed(rig, &claim("b", later(2))).await, []);
    write(rig, &[NewWebhookDelivery { at: later(5), ..delivery(1, "paused") }]).await;
    assert_eq!(oldest_due(10).await, Some(later(90)));
    assert_eq!(oldest_due(50).await, Some(later(5)));
}

/// A dropped unit of work changes no endpoint, delivery or attempt, and claims nothing.
pub async fn a_dropped_unit_of_work_changes_no_webhook(rig: &dyn StoreRig) {
    add(rig, &[WebhookEndpoint { per_second: Some(1), ..endpoint(1) }, endpoint(2)]).await;
    write(rig, &[delivery(1, "a"), delivery(2, "b")]).await;
    let in_flight = claimed(rig, &claim("c", start())).await;
    assert_eq!(in_flight.len(), 2);
    let before = (only(rig, "a").await, only(rig, "b").await);
    let mut unit = begin(rig).await;
    let outbox = unit.outbox();
    outbox.insert_webhook_endpoint(&endpoint(3)).await.unwrap();
    outbox.insert_webhook_deliveries(&[delivery(1, "c")]).await.unwrap();
    let results: Vec<_> = in_flight.iter().map(|claimed| settled(claimed, AfterAttempt::Delivered)).collect();
    outbox.settle_webhook_deliveries(&results).await.unwrap();
    drop(unit);
    let mut unit = begin(rig).await;
    let dropped = unit.outbox().claim_webhook_deliveries(&claim("dropped", later(100))).await.unwrap();
    assert_eq!(dropped.len(), 2);
    drop(unit);
    end_of_rollback(rig, 1).await;
    assert_eq!((only(rig, "a").await, only(rig, "b").await), before);
    assert_eq!(of_event(rig, "c").await, []);
    let mut view = view(rig).await;
    assert_eq!(view.outbox_view().webhook_endpoint(None, endpoint_id(3)).await.unwrap(), None);
    assert_eq!(view.outbox_view().webhook_attempts(endpoint_key(2), before.1.id).await.unwrap(), []);
    drop(view);
    assert_eq!(
        claimed(rig, &claim("next", later(100))).await.len(),
        2,
        "the attempt at endpoint 1 was not counted"
    );
}
