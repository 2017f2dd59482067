//! Webhooks.

use handover_contract::samples::webhooks::{claim, dead_deliveries, endpoint_id, endpoint_key, settled};
use handover_contract::samples::{event_id, later, start, tenant};
use handover_events::TenantId;
use handover_outbox::ports::Store as _;
use handover_outbox::ports::{
    AfterAttempt, DeliveryFilter, DeliveryState, EndpointHealth, OldDeliveries, WebhookClaim,
};

use super::{Case, unit, view};

const WEBHOOKS: [&str; 9] = [
    "idx_webhook_endpoints_status",
    "webhook_endpoints_pkey",
    "webhook_deliveries_pkey",
    "PRIMARY",
    "idx_webhook_deliveries_due",
    "idx_webhook_deliveries_claimed",
    "idx_webhook_deliveries_order",
    "idx_webhook_deliveries_dead",
    "uk_webhook_deliveries",
];

pub(super) const CASES: &[Case] = &[
    unit!("attempts at webhooks", WEBHOOKS, |unit| async {
        // The claims end at once, so that the next run claims the same deliveries.
        let request = WebhookClaim { until: later(60), ..claim("claim", later(60)) };
        let outbox = unit.outbox();
        let claimed = outbox.claim_webhook_deliveries(&request).await?;
        let results: Vec<_> = claimed.iter().map(|claimed| settled(claimed, AfterAttempt::Dead)).collect();
        outbox.settle_webhook_deliveries(&results).await?;
        for number in 1..=3 {
            outbox.resend_webhook_deliveries(&dead_deliveries(number), start(), 100).await?;
        }
        outbox.claim_webhook_deliveries(&request).await
    }),
    unit!(
        "deleting old deliveries",
        ["webhook_deliveries_pkey", "PRIMARY", "uk_webhook_deliveries"],
        |unit| async {
            let old = OldDeliveries { after: 0, before: start(), limit: 100 };
            unit.outbox().delete_webhook_deliveries(&old).await.map(|_| None::<()>)
        }
    ),
    unit!(
        "deleting old audit entries of reads",
        ["idx_outbox_audit_reads", "outbox_audit_log_pkey", "PRIMARY"],
        |unit| async { unit.outbox().delete_audit_reads(start(), 50).await.map(|_| None::<()>) }
    ),
    view!("endpoints of tenants", ["uk_webhook_endpoints_slot"], |view| view
        .outbox_view()
        .webhook_endpoints(&[TenantId::DEFAULT, tenant(2)])),
    view!(
        "a page of deliveries",
        ["idx_webhook_deliveries_endpoint", "webhook_deliveries_pkey"],
        |view| async {
            let all = DeliveryFilter::default();
            view.outbox_view().webhook_deliveries_page(endpoint_key(1), &all, None, 100).await
        }
    ),
    view!("a page of dead deliveries", ["idx_webhook_deliveries_dead"], |view| async {
        let dead = DeliveryFilter { state: Some(DeliveryState::Dead), ..DeliveryFilter::default() };
        view.outbox_view().webhook_deliveries_page(endpoint_key(1), &dead, None, 100).await
    }),
    view!(
        "a pending delivery",
        ["idx_webhook_deliveries_order", "idx_webhook_deliveries_due"],
        |view| async {
            view.outbox_view().has_pending_webhook_deliveries(endpoint_key(1), None).await.map(Some)
        }
    ),
    view!(
        "pages of the cancelled and of the pending deliveries",
        ["idx_webhook_deliveries_endpoint", "idx_webhook_deliveries_dead", "webhook_deliveries_pkey"],
        |view| async {
            let deliveries = view.outbox_view();
            let all = DeliveryFilter::default();
            let newest = deliveries.webhook_deliveries_page(endpoint_key(1), &all, None, 1).await?;
            let cancelled = DeliveryFilter {
                state: Some(DeliveryState::Cancelled),
                above_id: Some(newest.first().map_or(0, |delivery| delivery.id - 50)),
                ..all
            };
            let pending = DeliveryFilter { state: Some(DeliveryState::Pending), ..cancelled.clone() };
            deliveries.webhook_deliveries_page(endpoint_key(1), &cancelled, None, 100).await?;
            deliveries.webhook_deliveries_page(endpoint_key(1), &pending, None, 100).await
        }
    ),
    view!("number of dead deliveries that can be sent again", WEBHOOKS, |view| async {
        view.outbox_view().count_dead_webhook_deliveries(&dead_deliveries(1), 100).await.map(Some)
    }),
    view!("health of endpoints", ["webhook_endpoints_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .webhook_health(&[endpoint_id(1), endpoint_id(2)])),
    view!("deliveries of events", ["uk_webhook_deliveries"], |view| view
        .outbox_view()
        .webhook_deliveries_of(&[event_id("due"), event_id("sent-7")])),
    view!("an endpoint", ["webhook_endpoints_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .webhook_endpoint(Some(TenantId::DEFAULT), endpoint_id(1))),
    unit!(
        "locking an endpoint and setting its health",
        ["webhook_endpoints_pkey", "PRIMARY"],
        |unit| async {
            let outbox = unit.outbox();
            outbox.lock_webhook_endpoint(Some(TenantId::DEFAULT), endpoint_id(1)).await?;
            outbox.set_webhook_health(endpoint_key(1), &EndpointHealth::default()).await
        }
    ),
    view!("a delivery", ["webhook_deliveries_pkey", "PRIMARY", "idx_webhook_deliveries_endpoint"], |view| {
        view.outbox_view().webhook_delivery(endpoint_key(1), 7)
    }),
    view!(
        "attempts at a delivery",
        [
            "idx_webhook_attempts_delivery",
            "webhook_deliveries_pkey",
            "PRIMARY",
            "idx_webhook_deliveries_endpoint"
        ],
        |view| view.outbox_view().webhook_attempts(endpoint_key(1), 7)
    ),
    view!(
        "number of attempts at an endpoint",
        ["idx_webhook_attempts_endpoint", "webhook_endpoints_pkey", "PRIMARY"],
        |view| async {
            view.outbox_view().webhook_attempt_counts(endpoint_key(2), later(-60)).await.map(Some)
        }
    ),
    view!("number of deliveries", WEBHOOKS, |view| async {
        view.outbox_view().webhook_counts(later(60)).await.map(Some)
    }),
];
