//! Webhooks of other tenants: an endpoint and its deliveries are read and changed only with their own tenant.

use handover_events::TenantId;
use handover_outbox::ports::{
    AfterAttempt, AttemptCounts, DeadDeliveries, DeliveryFilter, EndpointHealth, EndpointKey, EndpointStatus,
    NewWebhookDelivery, WebhookEndpoint,
};

use super::webhook_claims::claimed;
use super::webhook_deliveries::{only, write};
use super::webhook_endpoints::{add, change, found, stored};
use super::webhook_settling::settle;
use super::{StoreRig, in_unit, view};
use crate::samples::webhooks::{
    claim, dead_deliveries, delivery, endpoint, endpoint_id, endpoint_key, settled,
};
use crate::samples::{later, start, tenant};
use crate::work::changes_none;

/// The id of endpoint 1 with a tenant that does not have it.
fn foreign() -> EndpointKey {
    EndpointKey { tenant: tenant(2), ..endpoint_key(1) }
}

/// An endpoint is neither found nor locked with another tenant.
pub async fn another_tenant_finds_no_endpoint(rig: &dyn StoreRig) {
    let of_other = WebhookEndpoint { tenant: tenant(2), ..endpoint(2) };
    add(rig, &[endpoint(1), of_other.clone()]).await;
    assert_eq!(found(rig, Some(tenant(2)), endpoint_id(1)).await, [None, None]);
    assert_eq!(found(rig, Some(TenantId::DEFAULT), endpoint_id(2)).await, [None, None]);
    assert_eq!(found(rig, Some(tenant(2)), endpoint_id(2)).await, [Some(of_other.clone()), Some(of_other)]);
}

/// An endpoint is neither replaced nor gets another health with another tenant.
pub async fn another_tenant_changes_no_endpoint(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1)]).await;
    let url = "https://other.example".to_owned();
    let after = WebhookEndpoint { tenant: tenant(2), version: 2, url, ..endpoint(1) };
    let health = EndpointHealth { failures: 3, paused_until: Some(later(60)), ..EndpointHealth::default() };
    in_unit!(rig, |unit| {
        changes_none(unit.outbox().replace_webhook_endpoint(&after).await);
        unit.outbox().set_webhook_health(foreign(), &health).await.expect("no endpoint is no error");
    });
    assert_eq!(stored(rig, 1).await, endpoint(1));
}

/// A delivery to an endpoint and its attempts are neither found nor counted with another tenant, nor with another endpoint
/// of the tenant.
pub async fn another_tenant_finds_no_delivery(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1), endpoint(2)]).await;
    write(rig, &[delivery(1, "a")]).await;
    let in_flight = claimed(rig, &claim("c", start())).await;
    settle(rig, &[settled(&in_flight[0], AfterAttempt::Dead)]).await;
    let dead = only(rig, "a").await;
    for key in [foreign(), endpoint_key(2)] {
        let mut view = view(rig).await;
        let view = view.outbox_view();
        assert_eq!(view.webhook_delivery(key, dead.id).await.unwrap(), None, "{key:?}");
        let page = view.webhook_deliveries_page(key, &DeliveryFilter::default(), None, 9).await;
        assert_eq!(page.unwrap(), [], "{key:?}");
        assert_eq!(view.webhook_attempts(key, dead.id).await.unwrap(), [], "{key:?}");
        let counts = view.webhook_attempt_counts(key, start()).await.unwrap();
        assert_eq!(counts, AttemptCounts::default(), "{key:?}");
        let counted = DeadDeliveries { endpoint: key, ..dead_deliveries(1) };
        assert_eq!(view.count_dead_webhook_deliveries(&counted, 9).await.unwrap(), 0, "{key:?}");
    }
}

/// The deliveries to an endpoint are neither sent again nor cancelled with another tenant.
pub async fn another_tenant_changes_no_delivery(rig: &dyn StoreRig) {
    add(rig, &[endpoint(1)]).await;
    let dead = NewWebhookDelivery { dead_because: Some("no".into()), ..delivery(1, "dead") };
    write(rig, &[dead, delivery(1, "pending")]).await;
    change(rig, 1, |endpoint| {
        endpoint.status = EndpointStatus::Deleted;
        endpoint.slot = None;
    })
    .await;
    let before = [only(rig, "dead").await, only(rig, "pending").await];
    in_unit!(rig, |unit| {
        let dead = DeadDeliveries { endpoint: foreign(), ..dead_deliveries(1) };
        let resent = unit.outbox().resend_webhook_deliveries(&dead, later(5), 9).await;
        let cancelled = unit.outbox().cancel_webhook_deliveries(Some(foreign()), None, later(5), 9).await;
        assert_eq!((resent.unwrap(), cancelled.unwrap()), (0, 0));
    });
    assert_eq!([only(rig, "dead").await, only(rig, "pending").await], before);
}
