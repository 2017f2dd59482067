//! Deliveries: insert, results, cancellation, resending.

use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    AfterAttempt, BodyForm, DeadDeliveries, DeletedDeliveries, DeliveryState, EndpointKey, EndpointStatus,
    NewWebhookDelivery, OldDeliveries, SettledDelivery, StoreError, WebhookDelivery,
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

/// The pending deliveries of deleted and long disabled endpoints: of one endpoint, or of all.
fn pending_of_ended(
    statement: &Statement<'_>,
    endpoint: Option<EndpointKey>,
    disabled_before: Option<DateTime<Utc>>,
) -> Vec<i64> {
    let is_ended = |row: &&EndpointRow| {
        let ended = match row.endpoint.status {
            EndpointStatus::Enabled => false,
            EndpointStatus::Disabled => {
                disabled_before.is_some_and(|before| row.endpoint.update_time < before)
            }
            EndpointStatus::Deleted => true,
        };
        ended && endpoint.is_none_or(|key| row.endpoint.key() == key)
    };
    let endpoints = statement.webhook_endpoints().all().filter(is_ended);
    endpoints.flat_map(|row| pending(statement, row.endpoint.id)).map(|delivery| delivery.id).collect()
}

/// Whether there is a later redelivery of the event of the delivery.
pub(super) fn is_redelivered(statement: &Statement<'_>, delivery: &WebhookDelivery) -> bool {
    of_event(statement, &delivery.event_id)
        .any(|other| other.endpoint == delivery.endpoint && other.redelivery > delivery.redelivery)
}

/// Whether the delivery ended well before `before`. A redelivery of a `DEAD` delivery is needed as long as that one is there.
fn is_old(statement: &Statement<'_>, delivery: &WebhookDelivery, before: DateTime<Utc>) -> bool {
    let has_ended = match delivery.state {
        DeliveryState::Delivered | DeliveryState::Cancelled => true,
        DeliveryState::Pending | DeliveryState::Dead => false,
    };
    has_ended
        && delivery.settle_time.is_some_and(|at| at < before)
        && !of_event(statement, &delivery.event_id).any(|other| {
            other.endpoint == delivery.endpoint
                && other.redelivery < delivery.redelivery
                && other.state == DeliveryState::Dead
        })
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
        disabled_before: Option<DateTime<Utc>>,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let mut ids =
            self.read_outbox(|statement| pending_of_ended(statement, endpoint, disabled_before)).await?;
        ids.truncate(limited(limit));
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

    pub(super) async fn delete_deliveries(
        &mut self,
        old: &OldDeliveries,
    ) -> Result<DeletedDeliveries, StoreError> {
        let mut done = DeletedDeliveries::default();
        let (examined, ids) = self
            .read_outbox(|statement| {
                let next = statement.webhook_deliveries().all().filter(|delivery| delivery.id > old.after);
                let next = next.take_while(|delivery| delivery.create_time < old.before);
                let examined: Vec<&WebhookDelivery> = next.take(limited(old.limit)).collect();
                let ids = examined.iter().filter(|delivery| is_old(statement, delivery, old.before));
                let ids: Vec<i64> = ids.map(|delivery| delivery.id).collect();
                (examined.iter().map(|delivery| delivery.id).collect::<Vec<_>>(), ids)
            })
            .await?;
        done.last = examined.last().copied().filter(|_| examined.len() == limited(old.limit));
        self.write_outbox(locks_of(ids.clone()), |statement| {
            for id in &ids {
                let attempts: Vec<i64> = statement
                    .webhook_attempts()
                    .all()
                    .filter(|row| row.delivery == *id)
                    .map(|row| row.id)
                    .collect();
                attempts.iter().for_each(|attempt| statement.own.webhook_attempts.remove(attempt));
                if statement.webhook_deliveries().get(id).is_some() {
                    statement.own.webhook_deliveries.remove(id);
                    done.deleted += 1;
                }
            }
            Ok(done)
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
