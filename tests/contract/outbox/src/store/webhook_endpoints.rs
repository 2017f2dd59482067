//! Endpoints of webhooks.

use handover_events::TenantId;
use handover_outbox::ports::{
    BodyForm, Changed, EndpointHealth, EndpointId, EndpointStatus, StoreError, WebhookEndpoint,
};

use super::{StoreRig, begin, in_unit, view};
use crate::concurrency::{one_changed, one_succeeded, race};
use crate::samples::webhooks::{endpoint, endpoint_id, endpoint_key, headers, secret};
use crate::samples::{SPECIAL_CHARACTERS, later, tenant};
use crate::within;
use crate::work::{changes_none, changes_one, commit, is_conflict};

pub(super) async fn add(rig: &dyn StoreRig, endpoints: &[WebhookEndpoint]) {
    in_unit!(rig, |unit| for endpoint in endpoints {
        unit.outbox().insert_webhook_endpoint(endpoint).await.expect("cannot insert an endpoint");
    });
}

pub(super) async fn stored(rig: &dyn StoreRig, number: u32) -> WebhookEndpoint {
    let found = view(rig).await.outbox_view().webhook_endpoint(None, endpoint_id(number)).await;
    found.expect("cannot read an endpoint").expect("the endpoint exists")
}

/// The endpoint as it is read, and as it is locked.
pub(super) async fn found(
    rig: &dyn StoreRig,
    tenant: Option<TenantId>,
    id: EndpointId,
) -> [Option<WebhookEndpoint>; 2] {
    let read = view(rig).await.outbox_view().webhook_endpoint(tenant, id).await;
    let locked = in_unit!(rig, |unit| unit.outbox().lock_webhook_endpoint(tenant, id).await);
    [read, locked].map(|found| found.expect("cannot read an endpoint"))
}

/// Waits for the end of a rollback that begins when a unit of work is dropped: until then, the endpoint is locked, and claims
/// leave it out.
pub(super) async fn end_of_rollback(rig: &dyn StoreRig, number: u32) {
    let [_, locked] = found(rig, None, endpoint_id(number)).await;
    assert!(locked.is_some(), "endpoint {number} exists");
}

/// Changes an endpoint with the next version.
pub(super) async fn change(rig: &dyn StoreRig, number: u32, change: impl FnOnce(&mut WebhookEndpoint)) {
    let mut after = stored(rig, number).await;
    change(&mut after);
    after.version += 1;
    in_unit!(rig, |unit| changes_one(unit.outbox().replace_webhook_endpoint(&after).await));
}

pub(super) async fn set_health(rig: &dyn StoreRig, number: u32, health: &EndpointHealth) {
    in_unit!(rig, |unit| {
        let locked = unit.outbox().lock_webhook_endpoint(None, endpoint_id(number)).await;
        let key = locked.unwrap().expect("the endpoint exists").key();
        unit.outbox().set_webhook_health(key, health).await.expect("cannot set the health");
    });
}

fn health() -> EndpointHealth {
    EndpointHealth {
        failing_since: Some(later(1)),
        failures: 3,
        last_success: Some(later(-5)),
        paused_until: Some(later(60)),
    }
}

/// An endpoint with every optional value.
fn complete(number: u32) -> WebhookEndpoint {
    WebhookEndpoint {
        tenant: tenant(2),
        url: format!("https://receiver.example/{SPECIAL_CHARACTERS}"),
        description: Some(SPECIAL_CHARACTERS.into()),
        event_types: vec!["book.lent".into(), "member.*".into(), "*".into()],
        is_ordered: true,
        body_form: BodyForm::Unmasked,
        signs_asymmetrically: true,
        per_second: Some(7),
        max_in_flight: 3,
        headers: Some(headers()),
        secrets: vec![secret("new", None), secret("old \"secret\"", Some(later(3_600)))],
        status: EndpointStatus::Disabled,
        disabled_reason: Some("HTTP 410".into()),
        version: 4,
        update_time: later(9),
        health: health(),
        ..endpoint(number)
    }
}

/// An endpoint is read back as it was written, with and without optional values, and with each status and body form.
pub async fn an_endpoint_is_read_back_as_it_was_written(rig: &dyn StoreRig) {
    let mut endpoints = vec![endpoint(1), complete(2)];
    for (number, body_form) in (3..).zip(BodyForm::ALL) {
        endpoints.push(WebhookEndpoint { body_form: *body_form, ..endpoint(number) });
    }
    for (number, status) in (13..).zip(EndpointStatus::ALL) {
        endpoints.push(WebhookEndpoint { status: *status, slot: None, ..endpoint(number) });
    }
    add(rig, &endpoints).await;
    for written in &endpoints {
        for tenant in [None, Some(written.tenant)] {
            assert_eq!(found(rig, tenant, written.id).await, [Some(written.clone()), Some(written.clone())]);
        }
    }
    assert_eq!(found(rig, None, endpoint_id(99)).await, [None, None]);
}

/// An id in use, also by a deleted endpoint, is a conflict.
pub async fn an_endpoint_id_in_use_is_a_conflict(rig: &dyn StoreRig) {
    add(rig, &[WebhookEndpoint { status: EndpointStatus::Deleted, slot: None, ..endpoint(1) }]).await;
    let mut unit = begin(rig).await;
    is_conflict(unit.outbox().insert_webhook_endpoint(&endpoint(1)).await);
}

/// A slot has one endpoint per tenant. Any number of endpoints have no slot.
pub async fn a_slot_of_a_tenant_has_one_endpoint(rig: &dyn StoreRig) {
    let without_slot = |number| WebhookEndpoint { slot: None, ..endpoint(number) };
    let of_other_tenant = WebhookEndpoint { tenant: tenant(2), slot: Some(1), ..endpoint(4) };
    add(rig, &[endpoint(1), without_slot(2), without_slot(3), of_other_tenant]).await;
    let same_slot = WebhookEndpoint { slot: Some(1), ..endpoint(5) };
    let mut unit = begin(rig).await;
    is_conflict(unit.outbox().insert_webhook_endpoint(&same_slot).await);
    drop(unit);
    let mut unit = begin(rig).await;
    let moved = WebhookEndpoint { slot: Some(1), version: 2, ..endpoint(2) };
    is_conflict(unit.outbox().replace_webhook_endpoint(&moved).await);
    drop(unit);
    change(rig, 1, |endpoint| endpoint.slot = None).await;
    add(rig, &[same_slot]).await;
}

/// Number of the endpoint of a concurrent unit of work.
fn concurrent(unit: usize) -> u32 {
    10 + u32::try_from(unit).unwrap_or_default()
}

/// Of concurrent endpoints with one slot, exactly one is inserted.
pub async fn exactly_one_of_concurrent_endpoints_gets_a_slot(rig: &dyn StoreRig) {
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move {
            let new = WebhookEndpoint { slot: Some(1), ..endpoint(concurrent(n)) };
            unit.outbox().insert_webhook_endpoint(&new).await
        })
    })
    .await;
    let winner = one_succeeded(outcomes);
    assert_eq!(stored(rig, concurrent(winner)).await.slot, Some(1));
}

/// A replacement changes everything but the health, and only if the version is the one before.
pub async fn a_replacement_keeps_the_health_and_requires_the_version(rig: &dyn StoreRig) {
    add(rig, &[WebhookEndpoint { tenant: tenant(2), health: health(), ..endpoint(1) }]).await;
    let after = WebhookEndpoint { version: 2, health: EndpointHealth::default(), ..complete(1) };
    in_unit!(rig, |unit| changes_one(unit.outbox().replace_webhook_endpoint(&after).await));
    let stored_after = WebhookEndpoint { health: health(), ..after.clone() };
    assert_eq!(stored(rig, 1).await, stored_after);
    for version in [1, 2, 4] {
        let outdated = WebhookEndpoint { version, url: "https://other.example".into(), ..after.clone() };
        in_unit!(rig, |unit| changes_none(unit.outbox().replace_webhook_endpoint(&outdated).await));
    }
    let missing = WebhookEndpoint { version: 2, ..endpoint(2) };
    in_unit!(rig, |unit| changes_none(unit.outbox().replace_webhook_endpoint(&missing).await));
    assert_eq!(stored(rig, 1).await, stored_after);
    set_health(rig, 1, &EndpointHealth::default()).await;
    assert_eq!(stored(rig, 1).await, after);
}

/// Of concurrent replacements of one version, exactly one succeeds.
pub async fn exactly_one_of_concurrent_replacements_succeeds(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1)]).await;
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move {
            let url = format!("https://{n}.example");
            let after = WebhookEndpoint { version: 2, url, ..endpoint(1) };
            unit.outbox().replace_webhook_endpoint(&after).await
        })
    })
    .await;
    let winner = one_changed(outcomes);
    assert_eq!(stored(rig, 1).await.url, format!("https://{winner}.example"));
}

/// A locked endpoint is changed by others only after the unit of work has ended.
pub async fn a_locked_endpoint_is_not_changed_by_others(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1)]).await;
    let mut locking = begin(rig).await;
    assert!(
        locking
            .outbox()
            .lock_webhook_endpoint(Some(TenantId::DEFAULT), endpoint_id(1))
            .await
            .unwrap()
            .is_some()
    );
    let store = rig.store();
    let changing = tokio::spawn(async move {
        loop {
            let work = async {
                let mut unit = store.begin().await?;
                let after = WebhookEndpoint { version: 2, ..endpoint(1) };
                let changed = unit.outbox().replace_webhook_endpoint(&after).await?;
                unit.commit().await?;
                Ok(changed)
            };
            match work.await {
                Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
                outcome => return outcome,
            }
        }
    });
    for _ in 0..20 {
        assert_eq!(stored(rig, 1).await.version, 1);
        tokio::task::yield_now().await;
    }
    locking.outbox().set_webhook_health(endpoint_key(1), &health()).await.unwrap();
    commit(locking).await;
    let changed = within("changing the endpoint", changing).await.expect("the task does not panic");
    assert_eq!(changed.unwrap(), Changed::One);
    assert_eq!(stored(rig, 1).await.health, health());
}

async fn of_tenants(rig: &dyn StoreRig, tenants: &[i64]) -> Vec<EndpointId> {
    let tenants: Vec<_> = tenants.iter().map(|number| tenant(*number)).collect();
    let found = view(rig).await.outbox_view().webhook_endpoints(&tenants).await;
    found.expect("cannot read endpoints").into_iter().map(|endpoint| endpoint.id).collect()
}

/// The endpoints of a tenant do not include those of others, nor deleted ones. They are ordered by tenant and id.
pub async fn endpoints_belong_to_one_tenant(rig: &dyn StoreRig) {
    let of = |number: u32, of: i64| WebhookEndpoint { tenant: tenant(of), ..endpoint(number) };
    let deleted = WebhookEndpoint { status: EndpointStatus::Deleted, slot: None, ..endpoint(5) };
    let disabled = WebhookEndpoint { status: EndpointStatus::Disabled, ..endpoint(6) };
    add(rig, &[of(4, 1), of(3, 2), of(2, 3), of(1, 2), deleted, disabled]).await;
    assert_eq!(of_tenants(rig, &[1]).await, [4, 6].map(endpoint_id));
    assert_eq!(of_tenants(rig, &[2]).await, [1, 3].map(endpoint_id));
    assert_eq!(of_tenants(rig, &[3, 1, 3, 2]).await, [4, 6, 1, 3, 2].map(endpoint_id));
    assert_eq!(of_tenants(rig, &[4]).await, []);
    assert_eq!(of_tenants(rig, &[]).await, []);
}

/// Pages of endpoints contain the endpoints of all tenants that are not deleted, ordered by id.
pub async fn pages_of_endpoints_are_ordered_by_id(rig: &dyn StoreRig) {
    let deleted = WebhookEndpoint { status: EndpointStatus::Deleted, slot: None, ..endpoint(2) };
    let of_other_tenant = WebhookEndpoint { tenant: tenant(2), ..endpoint(0x1000_0000) };
    add(rig, &[endpoint(4), of_other_tenant, deleted, endpoint(1), endpoint(3)]).await;
    let page = async |after: Option<u32>, limit| {
        let page = view(rig).await.outbox_view().webhook_endpoints_after(after.map(endpoint_id), limit).await;
        page.unwrap().into_iter().map(|endpoint| endpoint.id).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, [1, 3].map(endpoint_id));
    assert_eq!(page(Some(3), 2).await, [4, 0x1000_0000].map(endpoint_id));
    assert_eq!(page(Some(0x1000_0000), 2).await, []);
}

/// The health of several endpoints is read at once; endpoints that do not exist are omitted.
pub async fn the_health_of_endpoints_is_read_at_once(rig: &dyn StoreRig) {
    let deleted = WebhookEndpoint { status: EndpointStatus::Deleted, slot: None, ..endpoint(3) };
    add(rig, &[endpoint(1), endpoint(2), deleted]).await;
    set_health(rig, 2, &health()).await;
    let of = async |numbers: &[u32]| {
        let ids: Vec<_> = numbers.iter().map(|number| endpoint_id(*number)).collect();
        let mut found =
            view(rig).await.outbox_view().webhook_health(&ids).await.expect("cannot read the health");
        found.sort_by_key(|(id, _)| *id);
        found
    };
    let expected = [(1, EndpointHealth::default()), (2, health()), (3, EndpointHealth::default())];
    let expected = expected.map(|(number, health)| (endpoint_id(number), health));
    assert_eq!(of(&[3, 2, 9, 1, 2]).await, expected);
    assert_eq!(of(&[2]).await, expected[1..2]);
    assert_eq!(of(&[]).await, []);
}
