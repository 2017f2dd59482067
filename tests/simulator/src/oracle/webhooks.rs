//! Webhooks when no work is pending: each event that an endpoint asked for has one delivery, the receivers got every event
//! that is DELIVERED, and attempts are recorded and counted as they happened.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::{AggregateRef, ConsumeStatus, EventId};
use handover_outbox::ports::{
    AttemptOutcome, DeliveryFilter, DeliveryState, EndpointId, EndpointStatus, OutboxRow, StoreError,
    WebhookAttempt, WebhookDelivery, WebhookEndpoint,
};
use handover_outbox::webhooks::DeliveryWriter;

use super::{ALL, Checker, Evidence};
use crate::actors;
use crate::ports::webhook_writes::is_for;

/// The deliveries of enabled endpoints that are pending. An endpoint that is paused by its receiver is not included,
/// because an operator ends its pause.
pub(super) async fn due(evidence: &Evidence) -> Result<Vec<String>, StoreError> {
    let mut view = evidence.store.view().await?;
    let mut found = Vec::new();
    let now = evidence.app.tx.now();
    for endpoint in view.outbox_view().webhook_endpoints(&actors::tenants()).await? {
        let is_paused = endpoint.health.paused_until.is_some_and(|until| until > now);
        if endpoint.status != EndpointStatus::Enabled || (is_paused && !evidence.recovered) {
            continue;
        }
        let filter = DeliveryFilter { state: Some(DeliveryState::Pending), ..DeliveryFilter::default() };
        for it in view.outbox_view().webhook_deliveries_page(endpoint.key(), &filter, None, 3).await? {
            let due = it.due_time;
            found.push(format!(
                "delivery {} of {} to endpoint {} is due {due}",
                it.id, it.event_id, it.endpoint
            ));
        }
    }
    Ok(found)
}

/// The pending deliveries of deleted endpoints.
pub(super) async fn of_deleted(checker: &mut Checker<'_>) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    for it in deliveries(checker).await? {
        if it.state == DeliveryState::Pending
            && endpoint(checker, it.endpoint).await?.is_some_and(|it| it.status == EndpointStatus::Deleted)
        {
            found.push(format!("delivery {} of the deleted endpoint {} is PENDING", it.id, it.endpoint));
        }
    }
    Ok(found)
}

async fn deliveries(checker: &mut Checker<'_>) -> Result<Vec<WebhookDelivery>, StoreError> {
    let of_log = checker.log.keys().cloned();
    let of_rows = checker.rows.iter().map(|row| row.event_id.clone());
    let events: BTreeSet<EventId> = of_log.chain(of_rows).collect();
    let events: Vec<EventId> = events.into_iter().collect();
    checker.view.outbox_view().webhook_deliveries_of(&events).await
}

/// The endpoint of any tenant: the tenants are compared here.
async fn endpoint(checker: &mut Checker<'_>, id: EndpointId) -> Result<Option<WebhookEndpoint>, StoreError> {
    checker.view.outbox_view().webhook_endpoint(None, id).await
}

pub(super) async fn check(checker: &mut Checker<'_>) -> Result<(), StoreError> {
    let deliveries = deliveries(checker).await?;
    let mut by_endpoint: BTreeMap<EndpointId, Vec<&WebhookDelivery>> = BTreeMap::new();
    for delivery in &deliveries {
        by_endpoint.entry(delivery.endpoint).or_default().push(delivery);
    }
    for (id, deliveries) in &by_endpoint {
        let Some(endpoint) = endpoint(checker, *id).await? else {
            checker.violation(format!("endpoint {id} has deliveries, but does not exist"));
            continue;
        };
        for delivery in deliveries {
            let attempts =
                checker.view.outbox_view().webhook_attempts(delivery.endpoint_key(), delivery.id).await?;
            let is_latest =
                !deliveries.iter().any(|other| other.event_id == delivery.event_id && other.id > delivery.id);
            check_delivery(checker, &endpoint, (delivery, is_latest), &attempts);
        }
        check_received(checker, deliveries).await?;
        check_order(checker, *id, deliveries);
    }
    let initial = checker.evidence.faults.observed(|observed| observed.webhooks.initial.clone());
    let all = checker.view.outbox_view().webhook_endpoints_after(None, ALL).await?;
    let is_unchanged = |endpoint: &&WebhookEndpoint| endpoint.version == 1 && initial.contains(&endpoint.id);
    for endpoint in all.iter().filter(is_unchanged) {
        check_unchanged(checker, endpoint, by_endpoint.get(&endpoint.id).map_or(&[][..], Vec::as_slice));
    }
    Ok(())
}

fn check_delivery(
    checker: &mut Checker<'_>,
    endpoint: &WebhookEndpoint,
    (delivery, is_latest): (&WebhookDelivery, bool),
    attempts: &[WebhookAttempt],
) {
    let WebhookDelivery { id, event_id, tenant, state, .. } = delivery;
    let what = format!("delivery {id} of {event_id} to endpoint {}", endpoint.id);
    let row = checker.rows.iter().find(|row| row.event_id == *event_id);
    if *tenant != endpoint.tenant || row.is_some_and(|row| row.aggregate.tenant != *tenant) {
        checker.violation(format!("{what} is of another tenant"));
    }
    let failed = attempts.iter().filter(|attempt| attempt.outcome == AttemptOutcome::Failed).count();
    if delivery.attempts as usize > failed {
        checker.violation(format!("{what} has {} attempts, but {failed} failed", delivery.attempts));
    }
    let is_open = match state {
        DeliveryState::Pending | DeliveryState::Dead => true,
        DeliveryState::Delivered | DeliveryState::Cancelled => false,
    };
    // A DEAD delivery stays as it is when an operator sent its event again.
    if checker.evidence.recovered && is_open && is_latest && endpoint.status == EndpointStatus::Enabled {
        checker.violation(format!(
            "{what} was recovered after the end of the faults, but is {}",
            state.as_str()
        ));
    }
}

/// The receiver got at least the recorded attempts and responses, and accepted each event that is DELIVERED.
async fn check_received(
    checker: &mut Checker<'_>,
    deliveries: &[&WebhookDelivery],
) -> Result<(), StoreError> {
    let mut of_event: BTreeMap<&EventId, Vec<&WebhookDelivery>> = BTreeMap::new();
    for delivery in deliveries {
        of_event.entry(&delivery.event_id).or_default().push(delivery);
    }
    for (event, deliveries) in of_event {
        let Some(endpoint) = deliveries.first().map(|delivery| delivery.endpoint) else { continue };
        let received =
            checker.evidence.faults.observed(|observed| observed.webhooks.received(endpoint, event));
        let (mut requests, mut responses) = (0, BTreeMap::new());
        for delivery in &deliveries {
            for attempt in
                checker.view.outbox_view().webhook_attempts(delivery.endpoint_key(), delivery.id).await?
            {
                requests += usize::from(attempt.outcome != AttemptOutcome::Interrupted);
                if let Some(status) = attempt.status {
                    *responses.entry(status).or_insert(0_usize) += 1;
                }
            }
        }
        let is_invented = responses
            .iter()
            .any(|(status, count)| *count > received.responses.get(status).copied().unwrap_or(0));
        if requests > received.requests || is_invented {
            checker.violation(format!(
                "{event} has {requests} attempts at endpoint {endpoint} with the responses {responses:?}; the \
                 receiver got {received:?}"
            ));
        }
        let delivered = deliveries.iter().filter(|it| it.state == DeliveryState::Delivered).count();
        if delivered > received.accepted() {
            checker
                .violation(format!("{event} is DELIVERED to endpoint {endpoint}, which did not accept it"));
        }
        let mut redeliveries: Vec<u32> = deliveries.iter().map(|delivery| delivery.redelivery).collect();
        redeliveries.sort_unstable();
        redeliveries.dedup();
        if redeliveries.len() < deliveries.len() || redeliveries.first() != Some(&0) {
            checker.violation(format!("{event} has the deliveries {redeliveries:?} to endpoint {endpoint}"));
        }
    }
    Ok(())
}

/// The deliveries of an aggregate have ids in the order of its events, so that an ordered endpoint gets them in this
/// order; except events that were FAILED or DEAD, or recovered by an operator.
fn check_order(checker: &mut Checker<'_>, id: EndpointId, deliveries: &[&WebhookDelivery]) {
    let (is_recovered, failed_or_dead) = checker
        .evidence
        .faults
        .observed(|observed| (observed.webhooks.recovered.contains(&id), observed.failed_or_dead.clone()));
    if is_recovered {
        return;
    }
    let rows: BTreeMap<&EventId, &OutboxRow> = checker.rows.iter().map(|row| (&row.event_id, row)).collect();
    let mut last: BTreeMap<&AggregateRef, (i64, &EventId)> = BTreeMap::new();
    let mut violations = Vec::new();
    for delivery in deliveries.iter().filter(|delivery| delivery.redelivery == 0) {
        let Some(row) = rows.get(&delivery.event_id) else { continue };
        if failed_or_dead.contains(&row.event_id)
            || !super::is_ordered(row)
            || super::is_manual(&row.event_id)
        {
            continue;
        }
        if let Some((seq, event)) = last.insert(&row.aggregate, (row.aggregate_seq, &row.event_id))
            && seq > row.aggregate_seq
        {
            violations
                .push(format!("endpoint {id} has the delivery of {event} before that of {}", row.event_id));
        }
    }
    violations.into_iter().for_each(|violation| checker.violation(violation));
}

/// An endpoint that exists since before the first event and was never changed has one delivery of each event that it asked for.
fn check_unchanged(checker: &mut Checker<'_>, endpoint: &WebhookEndpoint, deliveries: &[&WebhookDelivery]) {
    let delivered: BTreeSet<&EventId> = deliveries.iter().map(|delivery| &delivery.event_id).collect();
    let mut violations = Vec::new();
    for row in checker.rows.iter().filter(|row| is_for(endpoint, &row.event_type, &row.aggregate)) {
        let record = checker.record(DeliveryWriter::NAME, &row.event_id);
        let is_applied = record.is_some_and(|record| record.status == ConsumeStatus::Success);
        if is_applied && !delivered.contains(&row.event_id) {
            violations.push(format!("{} was never delivered to endpoint {}", row.event_id, endpoint.id));
        }
    }
    violations.into_iter().for_each(|violation| checker.violation(violation));
}
