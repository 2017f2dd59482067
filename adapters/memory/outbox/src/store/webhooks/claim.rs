//! Claims of due deliveries.
//!
//! **Invariant:** a unit of work claims deliveries of an endpoint only while it has the endpoint locked, so that concurrent
//! claims count each other.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    AttemptRate, ClaimedDelivery, DeliveryState, EndpointId, EndpointStatus, StoreError, WebhookCapacity,
    WebhookClaim, WebhookDelivery,
};

use super::super::locks::Lock;
use super::super::outbox_tables::{OutboxRows as _, Statement};
use super::super::rows::EndpointRow;
use super::super::statement::Tables;
use super::super::tables::limited;
use super::super::unit::MemoryUnit;
use super::rows::pending;

fn rate(row: &EndpointRow) -> Option<AttemptRate> {
    row.endpoint.per_second.map(|per_second| AttemptRate { per_second, next_attempt: row.next_attempt })
}

/// The number of attempts at the endpoint that may begin now.
fn room(statement: &Statement<'_>, row: &EndpointRow, now: DateTime<Utc>) -> usize {
    let endpoint = &row.endpoint;
    let is_paused = endpoint.health.paused_until.is_some_and(|until| until > now);
    if endpoint.status != EndpointStatus::Enabled || is_paused {
        return 0;
    }
    let claims = pending(statement, endpoint.id).filter(|delivery| is_claimed(delivery, now)).count();
    let free = limited(endpoint.in_flight_limit()).saturating_sub(claims);
    let permitted = rate(row).map_or(u32::MAX, |rate| rate.permitted(now));
    free.min(limited(permitted))
}

fn is_claimed(delivery: &WebhookDelivery, now: DateTime<Utc>) -> bool {
    delivery.claim.is_some() && delivery.due_time > now
}

/// The deliveries of the endpoint that may be claimed now, the longest due first.
fn claimable(statement: &Statement<'_>, row: &EndpointRow, now: DateTime<Utc>) -> Vec<(DateTime<Utc>, i64)> {
    let mut keys = BTreeSet::new();
    // A key that occurs before belongs to an earlier delivery that is pending.
    let is_free = |delivery: &&WebhookDelivery| {
        let is_first = keys.insert(delivery.order_key.clone());
        is_first || !row.endpoint.is_ordered
    };
    let free = pending(statement, row.endpoint.id).filter(is_free);
    let due = free.filter(|delivery| delivery.due_time <= now);
    let mut due: Vec<_> = due.map(|delivery| (delivery.due_time, delivery.id)).collect();
    due.sort_unstable();
    due.truncate(room(statement, row, now));
    due
}

/// The endpoints with deliveries that may be claimed now.
fn candidates(statement: &Statement<'_>, now: DateTime<Utc>) -> Vec<Lock> {
    let endpoints = statement.webhook_endpoints();
    let with_due = endpoints.all().filter(|row| !claimable(statement, row, now).is_empty());
    with_due.map(|row| Lock::WebhookEndpoint(row.endpoint.id)).collect()
}

/// The ids of the deliveries of these endpoints that a claim takes, the longest due first.
fn chosen(
    statement: &Statement<'_>,
    endpoints: &[Lock],
    claim: &WebhookClaim,
    mut capacity: WebhookCapacity,
    limit: usize,
) -> Vec<i64> {
    let rows = statement.webhook_endpoints();
    let rows = rows.all().filter(|row| endpoints.contains(&Lock::WebhookEndpoint(row.endpoint.id)));
    let of = |row: &EndpointRow| {
        let endpoint = row.endpoint.key();
        claimable(statement, row, claim.now).into_iter().map(move |(due, id)| (due, id, endpoint))
    };
    let mut due: Vec<_> = rows.flat_map(of).collect();
    due.sort_unstable();
    due.retain(|(_, _, endpoint)| capacity.take(*endpoint));
    due.truncate(limit);
    due.into_iter().map(|(_, id, _)| id).collect()
}

/// The deliveries that an earlier call of this claim has claimed.
fn claimed_before(statement: &Statement<'_>, claim: &WebhookClaim) -> Vec<ClaimedDelivery> {
    let endpoints = statement.webhook_endpoints();
    let of = |row: &EndpointRow| {
        let endpoint = row.endpoint.clone();
        let ours =
            pending(statement, endpoint.id).filter(|delivery| delivery.claim.as_ref() == Some(&claim.id));
        ours.map(|delivery| ClaimedDelivery { delivery: delivery.clone(), endpoint: endpoint.clone() })
            .collect::<Vec<_>>()
    };
    endpoints.all().flat_map(of).collect()
}

impl<X: Tables> MemoryUnit<X> {
    pub(super) async fn claim_deliveries(
        &mut self,
        claim: &WebhookClaim,
    ) -> Result<Vec<ClaimedDelivery>, StoreError> {
        let mut claimed = if claim.is_repeated {
            self.read_outbox(|statement| claimed_before(statement, claim)).await?
        } else {
            Vec::new()
        };
        let left = limited(claim.limit).saturating_sub(claimed.len());
        let mut capacity = claim.capacity.clone();
        for claimed in &claimed {
            capacity.take(claimed.endpoint.key());
        }
        let candidates = self.read_outbox(|statement| candidates(statement, claim.now)).await?;
        let endpoints = self.lock_free(candidates).await?;
        let ids = self.read_outbox(|statement| chosen(statement, &endpoints, claim, capacity, left)).await?;
        let mut locks: Vec<Lock> = ids.iter().copied().map(Lock::WebhookDelivery).collect();
        locks.sort_unstable();
        self.write_outbox(locks, |statement| {
            let mut started: BTreeMap<EndpointId, u32> = BTreeMap::new();
            for id in &ids {
                let found = statement.webhook_deliveries().get(id).cloned();
                // The result of an earlier claim may have been recorded in the meantime.
                let is_due = |delivery: &WebhookDelivery| {
                    delivery.state == DeliveryState::Pending && delivery.due_time <= claim.now
                };
                let Some(mut delivery) = found.filter(is_due) else { continue };
                let row = statement.webhook_endpoints().get(&delivery.endpoint);
                let Some(endpoint) = row.map(|row| row.endpoint.clone()) else { continue };
                delivery.claim = Some(claim.id.clone());
                delivery.due_time = claim.until;
                delivery.claims += 1;
                statement.own.webhook_deliveries.put(delivery.clone());
                *started.entry(delivery.endpoint).or_default() += 1;
                claimed.push(ClaimedDelivery { delivery, endpoint });
            }
            for (endpoint, started) in started {
                let Some(mut row) = statement.webhook_endpoints().get(&endpoint).cloned() else { continue };
                row.next_attempt = rate(&row).map(|rate| rate.after(started, claim.now)).or(row.next_attempt);
                statement.own.webhook_endpoints.put(row);
            }
            Ok(claimed)
        })
        .await
    }
}
