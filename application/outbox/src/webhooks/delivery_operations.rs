//! Operations on deliveries.

use handover_events::{Envelope, EventId, Json};

use super::access::{lock_version, may_send_unmasked};
use super::deliveries::new_delivery;
use super::endpoints::{InvalidEndpoint, WebhookError};
use super::operations::{Webhooks, audit};
use crate::event_id::uuid_v7;
use crate::operations::id_window::page_of;
use crate::operations::paged_filters::Deliveries;
use crate::operations::{
    OperationError, Operator, changed_by_earlier_attempt, count, present_fields, rfc3339,
};
use crate::page::Page;
use crate::ports::{
    AuditEntry, BodyForm, DeliveryFilter, EndpointId, NewWebhookDelivery, StoreError, WebhookAttempt,
    WebhookDelivery, WebhookEndpoint,
};
use crate::privacy::MASK;
use crate::transaction::with_tx;

/// A delivery with its attempts. Responses are masked for operators without access to personal data, and so is a body
/// with unmasked payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownDelivery {
    /// The delivery.
    pub delivery: WebhookDelivery,
    /// Its attempts.
    pub attempts: Vec<WebhookAttempt>,
}

impl Webhooks {
    /// Sends the example of an event type to an endpoint. Returns the delivery.
    pub async fn test(
        &self,
        operator: &Operator,
        id: EndpointId,
        name: &str,
    ) -> Result<WebhookDelivery, WebhookError> {
        let invalid = |why: String| WebhookError::from(InvalidEndpoint::new("type", why));
        self.offer.check_pattern(name).map_err(|error| invalid(format!("is invalid: {error}")))?;
        let offered = self.offer.named(name).ok_or_else(|| invalid("must name one event type".to_owned()))?;
        let endpoint = self.not_deleted(operator, id).await?;
        let now = self.outbox.now();
        let event_id = format!("test-{}", uuid_v7(now, self.outbox.random().as_ref()));
        let event_id: EventId = event_id.parse().map_err(|_| invalid("has no example".to_owned()))?;
        let example = Envelope {
            event_id,
            event_type: offered.event_type.clone(),
            aggregate_type: "Test".to_owned(),
            aggregate_id: 1_i64.into(),
            occurred_at: now,
            trace_id: operator.trace.trace_id.clone(),
            payload: offered.example.clone(),
        };
        let delivery =
            new_delivery(&self.outbox.registry, offered, &endpoint, &example, now).map_err(invalid)?;
        if let Some(why) = delivery.dead_because {
            return Err(invalid(format!("has an example that is not sent: {why}")));
        }
        // An ordered endpoint gets a test although earlier tests have failed.
        let delivery = NewWebhookDelivery { order_key: format!("test/{}", delivery.event_id), ..delivery };
        let fields = vec![("type".to_owned(), name.into())];
        self.add_delivery(operator, ("webhooks.test", fields), &endpoint, delivery).await
    }

    /// Deliveries of an endpoint, the newest first. If no index serves the filter, at most 100,000 ids are searched for a page:
    /// it may have fewer than `limit` deliveries although there is a next page.
    pub async fn deliveries(
        &self,
        operator: &Operator,
        id: EndpointId,
        filter: &DeliveryFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<WebhookDelivery>, WebhookError> {
        let endpoint = self.find_to_read("webhooks.deliveries", operator, id).await?;
        let mut view = self.outbox.view().await?;
        let listing = Deliveries(endpoint.key(), filter.clone());
        let mut page = page_of(view.outbox_view(), listing, before, limit).await?;
        drop(view);
        for delivery in &mut page.items {
            mask_body(operator, delivery);
        }
        let fields = present_fields([
            ("state", filter.state.map(|state| state.as_str().into())),
            ("type", filter.event_type.as_deref().map(Json::from)),
            ("status", filter.status.map(|status| i64::from(status).into())),
            ("from", filter.from.map(rfc3339)),
            ("to", filter.to.map(rfc3339)),
            ("cursor", before.map(Json::from)),
        ]);
        let matched = count(page.items.len());
        self.record_read("webhooks.deliveries", operator, &endpoint, fields, matched).await?;
        Ok(page)
    }

    /// A delivery with its attempts.
    pub async fn delivery(
        &self,
        operator: &Operator,
        id: EndpointId,
        delivery: i64,
    ) -> Result<ShownDelivery, WebhookError> {
        let endpoint = self.find_to_read("webhooks.delivery", operator, id).await?;
        let mut delivery = self.delivery_of(&endpoint, delivery).await?;
        let mut attempts =
            self.outbox.view().await?.outbox_view().webhook_attempts(endpoint.key(), delivery.id).await?;
        if !operator.sees_personal_data {
            for attempt in &mut attempts {
                attempt.response = attempt.response.take().map(|_| MASK.to_owned());
            }
        }
        mask_body(operator, &mut delivery);
        let fields = vec![("deliveryId".to_owned(), delivery.id.into())];
        self.record_read("webhooks.delivery", operator, &endpoint, fields, 1).await?;
        Ok(ShownDelivery { delivery, attempts })
    }

    /// Sends an event to an endpoint again, as a delivery of its own. Returns the new delivery.
    pub async fn redeliver(
        &self,
        operator: &Operator,
        id: EndpointId,
        delivery: i64,
    ) -> Result<WebhookDelivery, WebhookError> {
        let endpoint = self.not_deleted(operator, id).await?;
        let delivery = self.delivery_of(&endpoint, delivery).await?;
        let events = std::slice::from_ref(&delivery.event_id);
        let others = self.outbox.view().await?.outbox_view().webhook_deliveries_of(events).await?;
        let of_endpoint = others.iter().filter(|other| other.endpoint == id);
        let redelivery = of_endpoint.map(|other| other.redelivery).max().unwrap_or(0).saturating_add(1);
        let fields = vec![("deliveryId".to_owned(), delivery.id.into())];
        let new = NewWebhookDelivery {
            endpoint: id,
            tenant: endpoint.tenant,
            event_id: delivery.event_id,
            redelivery,
            event_type: delivery.event_type,
            // A redelivery is held back neither by earlier events nor by earlier redeliveries.
            order_key: format!("redelivery/{}/{redelivery}", delivery.id),
            body: delivery.body,
            body_form: delivery.body_form,
            dead_because: None,
            at: self.outbox.now(),
        };
        if new.body_form == BodyForm::Unmasked && !may_send_unmasked(operator, &endpoint) {
            let why = "has an unmasked payload, which the endpoint does not get any more: only an operator who may see personal \
                       data (pii) can send it again";
            return Err(InvalidEndpoint::new("delivery", why).into());
        }
        if new.body.is_empty() {
            return Err(InvalidEndpoint::new("delivery", "has no body: it was too large to be sent").into());
        }
        self.add_delivery(operator, ("webhooks.redeliver", fields), &endpoint, new).await
    }

    async fn delivery_of(
        &self,
        endpoint: &WebhookEndpoint,
        id: i64,
    ) -> Result<WebhookDelivery, WebhookError> {
        let found = self.outbox.view().await?.outbox_view().webhook_delivery(endpoint.key(), id).await?;
        found.ok_or_else(|| OperationError::NotFound { what: "webhook delivery" }.into())
    }

    async fn add_delivery(
        &self,
        operator: &Operator,
        (name, fields): (&'static str, Vec<(String, Json)>),
        endpoint: &WebhookEndpoint,
        delivery: NewWebhookDelivery,
    ) -> Result<WebhookDelivery, WebhookError> {
        let entry = audit(operator, name, endpoint.id, endpoint.tenant, fields, delivery.at);
        let input = (delivery, entry, operator.clone(), endpoint.version);
        let id = with_tx(&self.outbox.tx, input, |unit, (delivery, entry, operator, version), attempt| {
            Box::pin(async move {
                let unit = unit.outbox();
                if changed_by_earlier_attempt(unit, attempt, entry).await?.is_none() {
                    lock_version(unit, operator, delivery.endpoint, *version).await?;
                    let changed = unit.insert_webhook_deliveries(std::slice::from_ref(delivery)).await?;
                    unit.audit(&AuditEntry { matched: 1, changed, ..entry.clone() }).await?;
                }
                let of_event = unit.webhook_deliveries_of(std::slice::from_ref(&delivery.event_id)).await?;
                let ours = of_event.into_iter().find(|found| {
                    found.endpoint == delivery.endpoint && found.redelivery == delivery.redelivery
                });
                ours.ok_or_else(|| StoreError::Conflict { what: "webhook delivery".to_owned() }.into())
            })
        });
        id.await
    }
}

fn mask_body(operator: &Operator, delivery: &mut WebhookDelivery) {
    if delivery.body_form == BodyForm::Unmasked && !operator.sees_personal_data {
        MASK.clone_into(&mut delivery.body);
    }
}
