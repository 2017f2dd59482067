//! Deliveries: insert, results, cancellation, resending.

use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    AfterAttempt, BodyForm, DeadDeliveries, DeliveryState, EndpointKey, EndpointStatus, NewWebhookDelivery,
    SettledDelivery, StoreError, WebhookDelivery,
};

use super::super::locks::Lock;
use super::super::outbox_tables::{OutboxRows as _, Statement};
use super::super::rows::{AttemptRow, EndpointRow};
use super::super::statement::{Tables, next};
use super::super::tables::limited;
use super::super::unit::MemoryUnit;
use super::rows::{of_endpoint, of_event, pending};

/// The row of a new delivery.
fn row(id: i64, new: &NewWebhookDelivery) -> WebhookDelivery {
    let state = if new.dead_because.is_some() { DeliveryState::Dead } else { DeliveryState::Pending };
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
        state,
        due_time: new.at,
        claim: None,
        claims: 0,
        attempts: 0,
        last_status: None,
        last_error: new.dead_because.clone(),
        create_time: new.at,
        settle_time: new.dead_because.as_ref().map(|_| new.at),
    }
}

fn exists(statement: &Statement<'_>, new: &NewWebhookDelivery) -> bool {
    of_event(statement, &new.event_id)
        .any(|delivery| delivery.endpoint == new.endpoint && delivery.redelivery == new.redelivery)
}

/// Records the result in the row of the delivery.
fn record(delivery: &mut WebhookDelivery, settled: &SettledDelivery) {
    match settled.after {
        AfterAttempt::Delivered => delivery.state = DeliveryState::Delivered,
        AfterAttempt::Retry(due) => {
            delivery.due_time = due;
            delivery.attempts += u32::from(settled.attempt.is_some());
        }
        AfterAttempt::Dead => {
            delivery.state = DeliveryState::Dead;
            delivery.attempts += u32::from(settled.attempt.is_some());
        }
        AfterAttempt::Released(due) => delivery.due_time = due,
    }
    delivery.claim = None;
    delivery.claims = 0;
    let status = settled.attempt.as_ref().and_then(|attempt| attempt.status);
    delivery.last_status = status.or(delivery.last_status);
    delivery.last_error = settled.error.clone().or(delivery.last_error.take());
    delivery.settle_time = (delivery.state != DeliveryState::Pending).then_some(settled.at);
}

/// The locks of deliveries, in the order of their ids.
fn locks_of(mut ids: Vec<i64>) -> Vec<Lock> {
    ids.sort_unstable();
    ids.into_iter().map(Lock::WebhookDelivery).collect()
}

/// The pending deliveries of deleted endpoints: of one endpoint, or of all.
fn pending_of_deleted(statement: &Statement<'_>, endpoint: Option<EndpointKey>) -> Vec<i64> {
    let is_deleted = |row: &&EndpointRow| {
        row.endpoint.status == EndpointStatus::Deleted && endpoint.is_none_or(|key| row.endpoint.key() == key)
    };
    let endpoints = statement.webhook_endpoints().all().filter(is_deleted);
    endpoints.flat_map(|row| pending(statement, row.endpoint.id)).map(|delivery| delivery.id).collect()
}

/// Whether there is a later redelivery of the event of the delivery.
pub(super) fn is_redelivered(statement: &Statement<'_>, delivery: &WebhookDelivery) -> bool {
    of_event(statement, &delivery.event_id)
        .any(|other| other.endpoint == delivery.endpoint && other.redelivery > delivery.redelivery)
}

/// The `DEAD` deliveries that can be sent again, the oldest first. A delivery whose body is too large has none.
fn sendable<'s>(
    statement: &'s Statement<'_>,
    dead: &DeadDeliveries,
) -> impl Iterator<Item = &'s WebhookDelivery> {
    of_endpoint(statement, dead.endpoint.id).filter(|delivery| {
        delivery.endpoint_key() == dead.endpoint
            && delivery.state == DeliveryState::Dead
            && (dead.from..dead.to).contains(&delivery.create_time)
            && !delivery.body.is_empty()
            && dead.is_unmasked.is_none_or(|it| it == (delivery.body_form == BodyForm::Unmasked))
            && !is_redelivered(statement, delivery)
    })
}

impl<X: Tables> MemoryUnit<X> {
    pub(super) async fn insert_deliveries(
        &mut self,
        deliveries: &[NewWebhookDelivery],
    ) -> Result<u64, StoreError> {
        let key =
            |new: &NewWebhookDelivery| Lock::WebhookKey(new.event_id.clone(), new.endpoint, new.redelivery);
        self.write_outbox(deliveries.iter().map(key).collect(), |statement| {
            let mut inserted = 0;
            for new in deliveries {
                if !exists(statement, new) {
                    let id = next(&mut statement.sequences.webhook_deliveries);
                    statement.own.webhook_deliveries.put(row(id, new));
                    inserted += 1;
                }
            }
            Ok(inserted)
        })
        .await
    }

    pub(super) async fn settle_deliveries(
        &mut self,
        settled: &[SettledDelivery],
    ) -> Result<Vec<i64>, StoreError> {
        let mut in_order: Vec<&SettledDelivery> = settled.iter().collect();
        in_order.sort_by_key(|settled| settled.delivery);
        let ids = in_order.iter().map(|settled| settled.delivery).collect();
        self.write_outbox(locks_of(ids), |statement| {
            let mut recorded = Vec::new();
            for settled in in_order {
                let is_current = |delivery: &WebhookDelivery| {
                    delivery.state == DeliveryState::Pending
                        && delivery.claim.as_ref() == Some(&settled.claim)
                };
                let found = statement.webhook_deliveries().get(&settled.delivery).cloned();
                let Some(mut delivery) = found.filter(is_current) else { continue };
                record(&mut delivery, settled);
                statement.own.webhook_deliveries.put(delivery);
                recorded.push(settled.delivery);
                if let Some(attempt) = settled.attempt.clone() {
                    let id = next(&mut statement.sequences.webhook_attempts);
                    let (delivery, endpoint) = (settled.delivery, settled.endpoint.id);
                    statement.own.webhook_attempts.put(AttemptRow { id, delivery, endpoint, attempt });
                }
            }
            Ok(recorded)
        })
        .await
    }

    pub(super) async fn cancel_deliveries(
        &mut self,
        endpoint: Option<EndpointKey>,
        at: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let ids = self.read_outbox(|statement| pending_of_deleted(statement, endpoint)).await?;
        self.write_outbox(locks_of(ids.clone()), |statement| {
            let mut cancelled = 0;
            for id in &ids {
                let found = statement.webhook_deliveries().get(id).cloned();
                let pending = found.filter(|delivery| delivery.state == DeliveryState::Pending);
                let Some(mut delivery) = pending else { continue };
                delivery.state = DeliveryState::Cancelled;
                delivery.claim = None;
                delivery.claims = 0;
                delivery.settle_time = Some(at);
                statement.own.webhook_deliveries.put(delivery);
                cancelled += 1;
            }
            Ok(cancelled)
        })
        .await
    }

    pub(super) async fn count_dead_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let found =
            self.read_outbox(|statement| sendable(statement, dead).take(limited(limit)).count()).await?;
        Ok(found as u64)
    }

    pub(super) async fn resend_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let is_dead = |delivery: &WebhookDelivery| delivery.state == DeliveryState::Dead;
        let ids: Vec<i64> = self
            .read_outbox(|statement| sendable(statement, dead).take(limited(limit)).map(|it| it.id).collect())
            .await?;
        self.write_outbox(locks_of(ids.clone()), |statement| {
            let mut resent = 0;
            for id in &ids {
                let Some(mut delivery) = statement.webhook_deliveries().get(id).cloned().filter(is_dead)
                else {
                    continue;
                };
                delivery.state = DeliveryState::Pending;
                delivery.due_time = at;
                delivery.attempts = 0;
                delivery.claims = 0;
                delivery.settle_time = None;
                statement.own.webhook_deliveries.put(delivery);
                resent += 1;
            }
            Ok(resent)
        })
        .await
    }
}
