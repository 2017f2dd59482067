//! Endpoints and deliveries of webhooks with values that cannot be read.

use handover_contract::samples::webhooks::{claim, delivery, endpoint, endpoint_id};
use handover_contract::samples::{event_id, start, tenant};
use handover_events::TenantId;
use handover_outbox::ports::{
    BodyForm, DeliveryFilter, EndpointKey, NewWebhookDelivery, Store, StoreError, WebhookEndpoint,
};
use sqlx::Executor;

use super::{Fixture, fixture};

/// Two endpoints of different tenants with two deliveries each. The endpoint 1 and the delivery `unreadable` cannot be read.
async fn with_unreadable() -> Fixture {
    let fixture = fixture().await;
    let mut unit = fixture.store.begin().await.unwrap();
    let outbox = unit.outbox();
    outbox.insert_webhook_endpoint(&endpoint(1)).await.unwrap();
    let of_other_tenant = WebhookEndpoint { tenant: tenant(2), ..endpoint(2) };
    outbox.insert_webhook_endpoint(&of_other_tenant).await.unwrap();
    let of_other_tenant = |event| NewWebhookDelivery { tenant: tenant(2), ..delivery(2, event) };
    let deliveries =
        [delivery(1, "a"), delivery(1, "b"), of_other_tenant("unreadable"), of_other_tenant("c")];
    outbox.insert_webhook_deliveries(&deliveries).await.unwrap();
    unit.commit().await.unwrap();
    let mut direct = fixture.direct_connection().await;
    let unreadable = endpoint_id(1);
    let update = format!("UPDATE webhook_endpoints SET event_types = 'no JSON' WHERE id = '{unreadable}'");
    direct.execute(sqlx::AssertSqlSafe(update)).await.unwrap();
    direct
        .execute("UPDATE webhook_deliveries SET body_form = 'LARGE' WHERE event_id = 'unreadable'")
        .await
        .unwrap();
    fixture
}

#[tokio::test]
async fn unreadable_endpoint_or_delivery_does_not_stop_the_others() {
    let fixture = with_unreadable().await;
    let mut unit = fixture.store.begin().await.unwrap();
    let claimed = unit.outbox().claim_webhook_deliveries(&claim("c", start())).await.unwrap();
    unit.commit().await.unwrap();
    let events: Vec<_> = claimed.iter().map(|claimed| claimed.delivery.event_id.clone()).collect();
    assert_eq!(events, [event_id("c")]);
    let mut view = fixture.store.view().await.unwrap();
    let view = view.outbox_view();
    let ids = |found: Vec<WebhookEndpoint>| found.into_iter().map(|it| it.id).collect::<Vec<_>>();
    let of_tenants = view.webhook_endpoints(&[TenantId::DEFAULT, tenant(2)]).await.unwrap();
    assert_eq!(ids(of_tenants), [endpoint_id(2)]);
    assert_eq!(ids(view.webhook_endpoints_after(None, 1).await.unwrap()), [endpoint_id(2)]);
    assert_eq!(view.webhook_health(&[endpoint_id(1), endpoint_id(2)]).await.unwrap().len(), 2);
    let by_id = view.webhook_endpoint(Some(TenantId::DEFAULT), endpoint_id(1)).await;
    assert!(matches!(by_id, Err(StoreError::Corrupt { table: "webhook_endpoints", .. })), "{by_id:?}");
}

/// A process of the version without the column wrote NULL. Its bodies may contain personal data.
#[tokio::test]
async fn body_of_a_version_without_forms_is_treated_like_an_unmasked_one() {
    let fixture = with_unreadable().await;
    let mut direct = fixture.direct_connection().await;
    direct.execute("UPDATE webhook_deliveries SET body_form = NULL").await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    let unmasked = DeliveryFilter { body_form: Some(BodyForm::Unmasked), ..DeliveryFilter::default() };
    let endpoint = EndpointKey { tenant: tenant(2), id: endpoint_id(2) };
    let page = view.outbox_view().webhook_deliveries_page(endpoint, &unmasked, None, 9).await.unwrap();
    assert_eq!(page.iter().map(|delivery| delivery.body_form).collect::<Vec<_>>(), [BodyForm::Unmasked; 2]);
}
