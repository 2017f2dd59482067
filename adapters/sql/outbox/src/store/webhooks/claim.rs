//! Claims of due deliveries.
//!
//! **Invariant:** a transaction claims deliveries of an endpoint only while it has the endpoint's row locked, and it counts
//! the endpoint's claims in a statement after the one that locked the row: so it counts the claims of every other process.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    AttemptRate, ClaimedDelivery, EndpointId, EndpointKey, StoreError, WebhookClaim, WebhookDelivery,
    WebhookEndpoint,
};

use super::deliveries::id;
use super::due::Due;
use super::tables::{DeliveryTable, EndpointTable, Opening, endpoint_id, id_value, readable};
use crate::dialect::{Dialect, LookUp, MAX_ROWS, padded};
use crate::session::Session;
use crate::table::Table;
use crate::value::{Value, values};

/// Minimum number of endpoints that one statement finds: many of them may be of tenants without room, and a claim with little
/// capacity left must not search them one by one.
const MIN_CANDIDATES: u32 = 256;

/// An endpoint that may have deliveries to claim, and the due time of the one that is due for the longest time.
#[derive(Clone, Copy)]
struct Candidate {
    endpoint: EndpointKey,
    due: DateTime<Utc>,
}

/// The rate of an endpoint's attempts.
fn rate(endpoint: &WebhookEndpoint, next_attempt: Option<DateTime<Utc>>) -> Option<AttemptRate> {
    endpoint.per_second.map(|per_second| AttemptRate { per_second, next_attempt })
}

/// The endpoints with due deliveries that are neither paused nor saturated, the longest due first. Saturated means that the
/// limit of concurrent attempts or of attempts per second is reached.
pub(super) fn candidates(
    dialect: &dyn Dialect,
    now: DateTime<Utc>,
    after: Option<(DateTime<Utc>, EndpointId)>,
    limit: u32,
) -> (String, Vec<Value>) {
    let mut sql = format!(
        "SELECT c.id, c.tenant_id, c.due FROM (SELECT e.id, e.tenant_id, (SELECT d.due_time FROM webhook_deliveries d {due} \
         WHERE d.endpoint_id = e.id AND d.state = 'PENDING' AND d.is_blocked = 0 AND d.due_time <= ? \
         ORDER BY d.due_time LIMIT 1) AS due FROM webhook_endpoints e {enabled} WHERE e.status = 'ENABLED' \
         AND (e.paused_until IS NULL OR e.paused_until <= ?) \
         AND (e.per_second IS NULL OR e.next_attempt_time IS NULL OR e.next_attempt_time <= ?) \
         AND (SELECT count(*) FROM webhook_deliveries f {claimed} WHERE f.endpoint_id = e.id \
         AND {is_claimed} AND f.due_time > ?) \
         < CASE WHEN e.failing_since IS NULL THEN e.max_in_flight ELSE 1 END) c WHERE c.due IS NOT NULL",
        due = dialect.index("idx_webhook_deliveries_due"),
        enabled = dialect.index("idx_webhook_endpoints_status"),
        claimed = dialect.index("idx_webhook_deliveries_claimed"),
        is_claimed = dialect.claimed(),
    );
    let mut values = values![now, now, now, now];
    if let Some((due, endpoint)) = after {
        sql.push_str(" AND (c.due > ? OR (c.due = ? AND c.id > ?))");
        values.extend([due.into(), due.into(), id_value(endpoint)]);
    }
    sql.push_str(" ORDER BY c.due, c.id LIMIT ?");
    values.push(limit.into());
    (sql, values)
}

impl Session {
    pub(super) async fn claim_deliveries(
        &mut self,
        claim: &WebhookClaim,
    ) -> Result<Vec<ClaimedDelivery>, StoreError> {
        let mut claimed = if claim.is_repeated { self.claimed_before(claim).await? } else { Vec::new() };
        let mut left = claim.limit.saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX));
        let mut capacity = claim.capacity.clone();
        for claimed in &claimed {
            capacity.take(claimed.endpoint.key());
        }
        let mut after = None;
        while left > 0 {
            let page = left.max(MIN_CANDIDATES);
            let mut candidates = self.candidates(claim.now, after, page).await?;
            let mut are_last = candidates.len() < usize::try_from(page).unwrap_or(usize::MAX);
            after = candidates.last().map(|last| (last.due, last.endpoint.id));
            candidates.retain(|candidate| capacity.has_room(candidate.endpoint));
            // No more endpoints are locked than the claim can use.
            let usable = usize::try_from(left).unwrap_or(usize::MAX);
            if candidates.len() > usable {
                candidates.truncate(usable);
                after = candidates.last().map(|last| (last.due, last.endpoint.id));
                are_last = false;
            }
            let openings = self.openings(&candidates, claim.now).await?;
            let due = self.choose(&openings, claim.now, left, &mut capacity).await?;
            let taken = self.take(claim, &openings, &due).await?;
            left = left.saturating_sub(u32::try_from(taken.len()).unwrap_or(u32::MAX));
            claimed.extend(taken);
            // Otherwise there may be more candidates: other processes had locked some of these, their due deliveries were
            // blocked, or this process has no room for them.
            if are_last {
                break;
            }
        }
        Ok(claimed)
    }

    async fn candidates(
        &mut self,
        now: DateTime<Utc>,
        after: Option<(DateTime<Utc>, EndpointId)>,
        limit: u32,
    ) -> Result<Vec<Candidate>, StoreError> {
        let (sql, values) = candidates(self.dialect, now, after, limit);
        let rows = self.fetch(&sql, values).await?;
        let read = rows.iter().map(|row| {
            let row = row.of("webhook_endpoints", "id");
            let endpoint = EndpointKey { tenant: row.id("tenant_id")?, id: endpoint_id(row, "id")? };
            Ok(Candidate { endpoint, due: row.time("due")? })
        });
        read.collect()
    }

    /// Locks the candidates that no other transaction has locked, and checks them again.
    async fn openings(
        &mut self,
        candidates: &[Candidate],
        now: DateTime<Utc>,
    ) -> Result<Vec<Opening>, StoreError> {
        let mut openings: BTreeMap<EndpointId, Opening> = BTreeMap::new();
        for candidates in candidates.chunks(MAX_ROWS) {
            let keys: Vec<Value> =
                candidates.iter().map(|candidate| id_value(candidate.endpoint.id)).collect();
            let (sql, values) = self.dialect.look_up(LookUp {
                columns: &format!("{}, next_attempt_time", EndpointTable::COLUMNS),
                from: format!("webhook_endpoints {}", self.dialect.lock_index("PRIMARY")),
                column: "id",
                keys: padded(&keys),
                conditions: "status = 'ENABLED'".to_owned(),
                lock: self.dialect.skip_locked(),
                ..LookUp::default()
            });
            for row in &self.fetch(&sql, values).await? {
                let Some(endpoint) = readable::<EndpointTable>(row)? else { continue };
                if endpoint.health.paused_until.is_some_and(|until| until > now) {
                    continue;
                }
                let rate = rate(&endpoint, EndpointTable::fields(row).opt_time("next_attempt_time")?);
                let permitted = rate.map_or(u32::MAX, |rate| rate.permitted(now));
                let room = permitted.min(endpoint.in_flight_limit());
                openings.insert(endpoint.id, Opening { endpoint, room, rate });
            }
        }
        for (endpoint, claims) in self.claims(openings.keys().copied().collect(), now).await? {
            if let Some(opening) = openings.get_mut(&endpoint) {
                let free = opening.endpoint.in_flight_limit().saturating_sub(claims);
                opening.room = opening.room.min(free);
            }
        }
        Ok(openings.into_values().filter(|opening| opening.room > 0).collect())
    }

    /// Number of claims of each endpoint that have not ended.
    async fn claims(
        &mut self,
        endpoints: Vec<EndpointId>,
        now: DateTime<Utc>,
    ) -> Result<BTreeMap<EndpointId, u32>, StoreError> {
        let mut claims = BTreeMap::new();
        for endpoints in endpoints.chunks(MAX_ROWS) {
            let (sql, values) = self.dialect.look_up(LookUp {
                columns: "endpoint_id",
                from: format!("webhook_deliveries {}", self.dialect.index("idx_webhook_deliveries_claimed")),
                column: "endpoint_id",
                keys: padded(endpoints).into_iter().map(id_value).collect(),
                conditions: format!("{} AND due_time > ?", self.dialect.claimed()),
                values: values![now],
                ..LookUp::default()
            });
            for row in &self.fetch(&sql, values).await? {
                *claims.entry(endpoint_id(DeliveryTable::fields(row), "endpoint_id")?).or_insert(0) += 1;
            }
        }
        Ok(claims)
    }

    /// Claims these deliveries, except those whose results were recorded in the meantime.
    async fn take(
        &mut self,
        claim: &WebhookClaim,
        openings: &[Opening],
        due: &[Due],
    ) -> Result<Vec<ClaimedDelivery>, StoreError> {
        let ids: Vec<i64> = due.iter().map(|due| due.id).collect();
        let set = "claim_id = ?, due_time = ?, claims = claims + 1";
        let is_due = "state = 'PENDING' AND due_time <= ?";
        self.update_deliveries(&ids, (set, values![&claim.id.0, claim.until]), (is_due, values![claim.now]))
            .await?;
        let mut deliveries = self.claimed_by(&ids, claim).await?;
        let endpoints: BTreeMap<EndpointId, &WebhookEndpoint> =
            openings.iter().map(|opening| (opening.endpoint.id, &opening.endpoint)).collect();
        let mut started: BTreeMap<EndpointId, u32> = BTreeMap::new();
        let mut claimed = Vec::with_capacity(due.len());
        for id in &ids {
            let Some(delivery) = deliveries.remove(id) else { continue };
            let Some(endpoint) = endpoints.get(&delivery.endpoint) else { continue };
            *started.entry(delivery.endpoint).or_insert(0) += 1;
            claimed.push(ClaimedDelivery { delivery, endpoint: (*endpoint).clone() });
        }
        for opening in openings {
            if let (Some(rate), Some(started)) = (opening.rate, started.get(&opening.endpoint.id)) {
                let sql = "UPDATE webhook_endpoints SET next_attempt_time = ? WHERE id = ?";
                let next = rate.after(*started, claim.now);
                self.execute(sql, vec![next.into(), id_value(opening.endpoint.id)]).await?;
            }
        }
        Ok(claimed)
    }

    /// The deliveries that an earlier call of this claim has claimed.
    async fn claimed_before(&mut self, claim: &WebhookClaim) -> Result<Vec<ClaimedDelivery>, StoreError> {
        let sql = format!(
            "SELECT d.id FROM webhook_endpoints e JOIN webhook_deliveries d {index} ON d.endpoint_id = e.id \
             WHERE {is_claimed} AND d.due_time = ? AND d.claim_id = ? AND d.state = 'PENDING'",
            index = self.dialect.index("idx_webhook_deliveries_claimed"),
            is_claimed = self.dialect.claimed(),
        );
        let rows = self.fetch(&sql, values![claim.until, &claim.id.0]).await?;
        let ids = rows.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        let mut claimed = Vec::with_capacity(ids.len());
        for delivery in self.claimed_by(&ids, claim).await?.into_values() {
            if let Some(endpoint) = self.endpoint_by_id(Some(delivery.tenant), delivery.endpoint, "").await? {
                claimed.push(ClaimedDelivery { delivery, endpoint });
            }
        }
        Ok(claimed)
    }

    /// Those of the deliveries that have this claim.
    async fn claimed_by(
        &mut self,
        ids: &[i64],
        claim: &WebhookClaim,
    ) -> Result<BTreeMap<i64, WebhookDelivery>, StoreError> {
        let mut deliveries = BTreeMap::new();
        for ids in ids.chunks(MAX_ROWS) {
            let (sql, values) = self.dialect.look_up(LookUp {
                columns: DeliveryTable::COLUMNS,
                from: format!("webhook_deliveries {}", self.dialect.lock_index("PRIMARY")),
                column: "id",
                keys: padded(ids).into_iter().map(Value::from).collect(),
                conditions: "claim_id = ?".to_owned(),
                values: values![&claim.id.0],
                ..LookUp::default()
            });
            for row in &self.fetch(&sql, values).await? {
                let delivery = readable::<DeliveryTable>(row)?;
                deliveries.extend(delivery.map(|delivery| (delivery.id, delivery)));
            }
        }
        Ok(deliveries)
    }
}
