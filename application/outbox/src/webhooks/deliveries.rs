//! Writes the deliveries of events.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{Envelope, EventId, TenantId};
use tracing::info;

use super::events::{Announcement, MAX_RETRY_COUNT, event_descriptions};
use super::offer::{LARGE_BODY_BYTES, MAX_BODY_BYTES, Offer, OfferedType};
use crate::event_id::uuid_v7;
use crate::handler::{Applied, Event, Handler, HandlerError, Subscriber};
use crate::metrics::{WEBHOOK_DEAD, append, count_on_commit};
use crate::outbox::Outbox;
use crate::ports::{
    Clock, EndpointId, NewEvent, NewWebhookDelivery, OutboxRow, OutboxUnit, OutboxView, RandomSource,
    StoreError, UnitOfWork, WebhookEndpoint,
};
use crate::registry::{EventRegistry, EventSpec};

impl Outbox {
    /// Adds the consumer of webhooks with a queue of this name, to which the offered event types are routed, and registers
    /// the event types about webhooks. The offered types of the application MUST be registered before, because the
    /// registry decides which fields are masked. Also returns the consumer, for the processes that run consumers.
    pub fn with_webhooks<U: UnitOfWork + ?Sized + 'static>(
        self,
        queue: impl Into<Cow<'static, str>>,
        offer: &Arc<Offer>,
    ) -> (Outbox, Subscriber<U>) {
        let about_webhooks = event_descriptions();
        let outbox =
            about_webhooks.iter().fold(self, |outbox, about| outbox.with_event(EventSpec::described(about)));
        let writer = DeliveryWriter {
            offer: Arc::clone(offer),
            registry: Arc::clone(&outbox.registry),
            clock: Arc::clone(outbox.tx.clock()),
            random: Arc::clone(outbox.tx.random()),
            max_retry_count: MAX_RETRY_COUNT,
        };
        let subscriber = Subscriber::new(queue, Arc::new(writer));
        let routing_keys: Vec<&str> = offer.types().map(|offered| offered.name.as_str()).collect();
        let outbox = outbox.with_consumer(&subscriber, &routing_keys);
        (outbox.with_selective_queue(&subscriber.queue), subscriber)
    }
}

impl Offer {
    /// Adds the consumer of webhooks to the idle consumers of those events that no endpoint of their tenant asks for. Call it
    /// in the unit of work that appends them. It reads the endpoints there: an endpoint gets the events of every unit of work
    /// that begins after the endpoint was committed.
    pub async fn exclude_without_receiver(
        &self,
        unit: &mut dyn OutboxUnit,
        events: &mut [NewEvent],
    ) -> Result<(), StoreError> {
        let mut tenants: Vec<TenantId> = events.iter().map(|event| event.aggregate.tenant).collect();
        tenants.sort_unstable();
        tenants.dedup();
        let endpoints = unit.webhook_endpoints(&tenants).await?;
        for event in events {
            let Some(offered) = self.of_row(&event.event_type) else { continue };
            if !endpoints.iter().any(|endpoint| self.is_receiver(endpoint, offered, &event.aggregate)) {
                event.idle_consumers.insert(DeliveryWriter::NAME);
            }
        }
        Ok(())
    }
}

/// Time between a change of an endpoint and an event that the consumer of webhooks applied: within it, another process may have
/// read the endpoint before the change was committed.
const CHANGE_VISIBLE_AFTER: TimeDelta = TimeDelta::seconds(60);

impl Offer {
    /// The missing deliveries of events that the consumer of webhooks has applied: the position of the event among `applied`,
    /// and the endpoint. `applied` has each row with the time of its consume-log record. An endpoint that was created or
    /// changed after that time, or shortly before it, is not compared: whether it was to get the event is not certain. Nor is
    /// an event that was applied before `deleted_before`, whose deliveries the retention may have deleted
    /// ([`WebhookRetention::deleted_before`](super::WebhookRetention::deleted_before)).
    pub async fn missing_deliveries(
        &self,
        view: &mut dyn OutboxView,
        applied: &[(&OutboxRow, DateTime<Utc>)],
        deleted_before: DateTime<Utc>,
    ) -> Result<Vec<(usize, EndpointId)>, StoreError> {
        let tenants: BTreeSet<TenantId> = applied.iter().map(|(row, _)| row.aggregate.tenant).collect();
        if tenants.is_empty() {
            return Ok(Vec::new());
        }
        let tenants: Vec<TenantId> = tenants.into_iter().collect();
        let endpoints = view.webhook_endpoints(&tenants).await?;
        if endpoints.is_empty() {
            return Ok(Vec::new());
        }
        let events: Vec<EventId> = applied.iter().map(|(row, _)| row.event_id.clone()).collect();
        let found = view.webhook_deliveries_of(&events).await?;
        let delivered: BTreeSet<(&EventId, EndpointId)> =
            found.iter().map(|delivery| (&delivery.event_id, delivery.endpoint)).collect();
        let mut missing = Vec::new();
        for (position, (row, applied_at)) in applied.iter().enumerate() {
            if *applied_at < deleted_before {
                continue;
            }
            let Some(offered) = self.of_row(&row.event_type) else { continue };
            let receivers = endpoints.iter().filter(|endpoint| {
                endpoint.update_time + CHANGE_VISIBLE_AFTER < *applied_at
                    && self.is_receiver(endpoint, offered, &row.aggregate)
            });
            let without = receivers.filter(|endpoint| !delivered.contains(&(&row.event_id, endpoint.id)));
            missing.extend(without.map(|endpoint| (position, endpoint.id)));
        }
        Ok(missing)
    }
}

/// Consumer that writes a delivery for each event and each endpoint that asked for its type. The dispatcher sends them.
#[derive(Clone)]
pub struct DeliveryWriter {
    /// The offered event types.
    pub offer: Arc<Offer>,
    /// Decides which fields of a payload are masked.
    pub registry: Arc<EventRegistry>,
    /// Clock of the deployment.
    pub clock: Arc<dyn Clock>,
    /// For the ids of events about deliveries that are `DEAD` from the beginning.
    pub random: Arc<dyn RandomSource>,
    /// Maximum number of publish retries of these events.
    pub max_retry_count: u32,
}

impl DeliveryWriter {
    /// Name of the consumer in the consume log.
    pub const NAME: &'static str = "webhooks";

    /// Writes the deliveries of these events in the unit of work of their consumer. Returns one result per event.
    pub async fn write(
        &self,
        unit: &mut dyn OutboxUnit,
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        let mut tenants: Vec<TenantId> = events.iter().map(|event| event.row.aggregate.tenant).collect();
        tenants.sort_unstable();
        tenants.dedup();
        let endpoints = unit.webhook_endpoints(&tenants).await?;
        if endpoints.is_empty() {
            return Ok(events.iter().map(|_| Applied::result("no endpoint")).collect());
        }
        let now = self.clock.now();
        let mut deliveries = Vec::new();
        let mut results = Vec::with_capacity(events.len());
        for event in events {
            let of_event = self.deliveries(&endpoints, event, now)?;
            results.push(match of_event.len() {
                0 => Applied::result("no endpoint"),
                1 => Applied::result("1 delivery"),
                count => Applied::result(format!("{count} deliveries")),
            });
            deliveries.extend(of_event);
        }
        if !deliveries.is_empty() {
            let deliveries = NewDeliveries::new(deliveries, now, self.random.as_ref(), self.max_retry_count);
            deliveries.insert(unit).await?;
        }
        Ok(results)
    }

    /// The deliveries of an event.
    fn deliveries(
        &self,
        endpoints: &[WebhookEndpoint],
        event: &Event,
        now: DateTime<Utc>,
    ) -> Result<Vec<NewWebhookDelivery>, HandlerError> {
        let Some(offered) = self.offer.of_row(&event.row.event_type) else { return Ok(Vec::new()) };
        let aggregate = &event.row.aggregate;
        let receivers =
            endpoints.iter().filter(|endpoint| self.offer.is_receiver(endpoint, offered, aggregate));
        let deliveries = receivers.map(|endpoint| {
            new_delivery(&self.registry, offered, endpoint, &event.envelope, now)
                .map_err(HandlerError::Unrecoverable)
        });
        deliveries.collect()
    }
}

/// The first deliveries of events, and the announcements of those that are `DEAD` from the beginning.
pub(super) struct NewDeliveries {
    deliveries: Vec<NewWebhookDelivery>,
    /// An id for each announcement, chosen before the first attempt at the unit of work.
    announced_as: Vec<EventId>,
    at: DateTime<Utc>,
    max_retry_count: u32,
}

impl NewDeliveries {
    pub(super) fn new(
        deliveries: Vec<NewWebhookDelivery>,
        at: DateTime<Utc>,
        random: &dyn RandomSource,
        max_retry_count: u32,
    ) -> NewDeliveries {
        let dead = deliveries.iter().filter(|delivery| delivery.dead_because.is_some());
        let announced_as = dead.map(|_| uuid_v7(at, random).into()).collect();
        NewDeliveries { deliveries, announced_as, at, max_retry_count }
    }

    /// Inserts the deliveries that do not exist. Returns their number, those that are `DEAD` included.
    pub(super) async fn insert(&self, unit: &mut dyn OutboxUnit) -> Result<u64, StoreError> {
        let dead: BTreeMap<(EndpointId, &EventId), &str> = self
            .deliveries
            .iter()
            .filter_map(|it| Some(((it.endpoint, &it.event_id), it.dead_because.as_deref()?)))
            .collect();
        if dead.is_empty() {
            return unit.insert_webhook_deliveries(&self.deliveries).await;
        }
        let events: BTreeSet<EventId> = dead.keys().map(|(_, event)| (*event).clone()).collect();
        let events: Vec<EventId> = events.into_iter().collect();
        let before = unit.webhook_deliveries_of(&events).await?;
        let before: BTreeSet<i64> = before.into_iter().map(|delivery| delivery.id).collect();
        let inserted = unit.insert_webhook_deliveries(&self.deliveries).await?;
        let after = unit.webhook_deliveries_of(&events).await?;
        let new = after.iter().filter(|delivery| !before.contains(&delivery.id));
        let new_dead =
            new.filter_map(|delivery| Some((delivery, *dead.get(&(delivery.endpoint, &delivery.event_id))?)));
        let mut announced = Vec::new();
        for ((delivery, reason), id) in new_dead.zip(&self.announced_as) {
            count_on_commit(metrics::counter!(WEBHOOK_DEAD), 1);
            let announcement = Announcement {
                id: id.clone(),
                endpoint: delivery.endpoint_key(),
                at: self.at,
                max_retry_count: self.max_retry_count,
            };
            announced.extend(announcement.dead(delivery, reason.to_owned())?);
        }
        if !announced.is_empty() {
            append(unit, &announced).await?;
        }
        Ok(inserted)
    }
}

/// The first delivery of an event to an endpoint. The error says why the event has no body.
pub(super) fn new_delivery(
    registry: &EventRegistry,
    offered: &OfferedType,
    endpoint: &WebhookEndpoint,
    event: &Envelope,
    now: DateTime<Utc>,
) -> Result<NewWebhookDelivery, String> {
    let body = offered.body(registry, endpoint.tenant, event, endpoint.body_form)?;
    let bytes = body.len();
    let (body, dead_because) = if bytes > MAX_BODY_BYTES {
        let why = format!("the body has {bytes} bytes; at most {MAX_BODY_BYTES} are sent");
        (String::new(), Some(why))
    } else {
        if bytes > LARGE_BODY_BYTES {
            info!(code = "webhook.large-body", eventId = %event.event_id, endpointId = %endpoint.id, bytes,
                "[Webhooks] large body; receivers may refuse it");
        }
        (body, None)
    };
    Ok(NewWebhookDelivery {
        endpoint: endpoint.id,
        tenant: endpoint.tenant,
        event_id: event.event_id.clone(),
        redelivery: 0,
        event_type: offered.name.clone(),
        order_key: format!("{}/{}", event.aggregate_type, event.aggregate_id),
        body,
        body_form: endpoint.body_form,
        dead_because,
        at: now,
    })
}

#[async_trait]
impl<U: UnitOfWork + ?Sized> Handler<U> for DeliveryWriter {
    fn name(&self) -> &str {
        DeliveryWriter::NAME
    }

    fn event_types(&self) -> Vec<&str> {
        self.offer.types().map(|offered| offered.event_type.as_str()).collect()
    }

    async fn apply(&self, unit: &mut U, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        self.write(unit.outbox(), events).await
    }
}

/// Those of these events that the endpoint has no delivery of.
pub(super) async fn without_delivery(
    unit: &mut (impl crate::ports::WebhookQueries + ?Sized),
    endpoint: EndpointId,
    events: &[EventId],
) -> Result<Vec<EventId>, StoreError> {
    let found = unit.webhook_deliveries_of(events).await?;
    let delivered: BTreeSet<&EventId> =
        found.iter().filter(|delivery| delivery.endpoint == endpoint).map(|it| &it.event_id).collect();
    Ok(events.iter().filter(|event| !delivered.contains(event)).cloned().collect())
}
