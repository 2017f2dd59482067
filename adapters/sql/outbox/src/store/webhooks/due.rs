//! Choice of the due deliveries that a claim takes.
//!
//! A delivery of an ordered endpoint is blocked while an earlier one with the same `order_key` is pending. A claim marks
//! the blocked deliveries that it finds, so that later claims do not read them again: a backlog of 100,000 blocked
//! deliveries must not make each claim slow.
//!
//! **Invariant:** of the pending deliveries with one key, the earliest marked one is preceded by a pending one that is not
//! marked. A claim marks a delivery only while it has a pending earlier one locked. A transaction that settles a delivery
//! then unmarks the earliest marked one of the same key, which the next claim examines again.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{EndpointId, EndpointKey, StoreError, WebhookCapacity};

use super::deliveries::{OF_ENDPOINT, id};
use super::tables::{DeliveryTable, Opening, endpoint_id, id_value, key_values};
use crate::dialect::{Dialect, LookUp, MAX_ROWS, chunk, padded};
use crate::session::Session;
use crate::table::Table;
use crate::value::Value;

/// The first statement of a claim examines this number of due deliveries of an ordered endpoint, in addition to those that
/// the claim may take. Each further one examines four times as many, up to `MAX_EXAMINED`.
const EXAMINED: u32 = 16;
const MAX_EXAMINED: u32 = 1_024;
/// Number of these statements in one claim. The rest is left to later claims.
const EXAMINATIONS: u32 = 8;
/// Maximum number of endpoints in one statement.
const MAX_PARTS: usize = 32;

/// A due delivery.
#[derive(Clone, Copy)]
pub(super) struct Due {
    pub(super) id: i64,
    endpoint: EndpointId,
    due_time: DateTime<Utc>,
    /// The earliest pending delivery with the same key: the delivery itself, unless it is blocked.
    head: i64,
}

/// A limited query of the due deliveries of one endpoint, the longest due first. Its parameters are the endpoint, the
/// current time and the limit.
fn part(dialect: &dyn Dialect, head: &str) -> String {
    format!(
        "SELECT * FROM (SELECT d.id, d.endpoint_id, d.due_time, {head} AS head_id FROM webhook_deliveries d {index} \
         WHERE d.endpoint_id = ? AND d.state = 'PENDING' AND d.is_blocked = 0 AND d.due_time <= ? \
         ORDER BY d.due_time, d.id LIMIT ?) AS due",
        index = dialect.index("idx_webhook_deliveries_due"),
    )
}

/// The earliest pending delivery with the key of the delivery `d`.
fn head(dialect: &dyn Dialect) -> String {
    format!(
        "(SELECT p.id FROM webhook_deliveries p {index} WHERE p.endpoint_id = d.endpoint_id \
         AND p.state = 'PENDING' AND p.order_key = d.order_key ORDER BY p.id LIMIT 1)",
        index = dialect.index("idx_webhook_deliveries_order"),
    )
}

impl Session {
    /// The deliveries that a claim takes from these endpoints, the longest due first.
    pub(super) async fn choose(
        &mut self,
        openings: &[Opening],
        now: DateTime<Utc>,
        limit: u32,
        capacity: &mut WebhookCapacity,
    ) -> Result<Vec<Due>, StoreError> {
        let rooms = |is_ordered: bool| -> Vec<(EndpointId, u32)> {
            let openings = openings.iter().filter(|opening| opening.endpoint.is_ordered == is_ordered);
            openings.map(|opening| (opening.endpoint.id, opening.room.min(limit))).collect()
        };
        let mut chosen = self.due_deliveries(&part(self.dialect, "d.id"), now, &rooms(false)).await?;
        chosen.extend(self.choose_ordered(now, rooms(true)).await?);
        chosen.sort_by_key(|due| (due.due_time, due.id));
        let tenants: BTreeMap<EndpointId, TenantId> =
            openings.iter().map(|opening| (opening.endpoint.id, opening.endpoint.tenant)).collect();
        chosen.retain(|due| {
            let tenant = tenants.get(&due.endpoint);
            tenant.is_some_and(|tenant| capacity.take(EndpointKey { tenant: *tenant, id: due.endpoint }))
        });
        chosen.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(chosen)
    }

    /// The due deliveries of these endpoints; of each at most the given number.
    async fn due_deliveries(
        &mut self,
        part: &str,
        now: DateTime<Utc>,
        mut endpoints: &[(EndpointId, u32)],
    ) -> Result<Vec<Due>, StoreError> {
        let mut found = Vec::new();
        while !endpoints.is_empty() {
            let (these, later) = endpoints.split_at(chunk(endpoints.len().min(MAX_PARTS)));
            let sql = vec![part; these.len()].join(" UNION ALL ");
            let values = these
                .iter()
                .flat_map(|(endpoint, most)| [id_value(*endpoint), Value::from(now), Value::from(*most)]);
            for row in &self.fetch(&sql, values.collect()).await? {
                let row = DeliveryTable::fields(row);
                found.push(Due {
                    id: row.int("id")?,
                    endpoint: endpoint_id(row, "endpoint_id")?,
                    due_time: row.time("due_time")?,
                    head: row.int("head_id")?,
                });
            }
            endpoints = later;
        }
        Ok(found)
    }

    /// The due deliveries of ordered endpoints that are not blocked; of each endpoint at most the given number.
    async fn choose_ordered(
        &mut self,
        now: DateTime<Utc>,
        rooms: Vec<(EndpointId, u32)>,
    ) -> Result<Vec<Due>, StoreError> {
        let mut rooms: BTreeMap<EndpointId, u32> = rooms.into_iter().collect();
        let mut chosen: BTreeMap<EndpointId, Vec<Due>> = BTreeMap::new();
        let sql = part(self.dialect, &head(self.dialect));
        for examination in 0..EXAMINATIONS {
            let more = EXAMINED.saturating_mul(4_u32.saturating_pow(examination)).min(MAX_EXAMINED);
            let limits: Vec<_> =
                rooms.iter().map(|(endpoint, room)| (*endpoint, room.saturating_add(more))).collect();
            let mut examined: BTreeMap<EndpointId, Vec<Due>> = BTreeMap::new();
            for due in self.due_deliveries(&sql, now, &limits).await? {
                examined.entry(due.endpoint).or_default().push(due);
            }
            let blocked: Vec<Due> =
                examined.values().flatten().filter(|due| due.head != due.id).copied().collect();
            let marked = self.mark_blocked(&blocked).await?;
            for (endpoint, limit) in limits {
                let room = rooms.get(&endpoint).copied().unwrap_or_default();
                let all = examined.remove(&endpoint).unwrap_or_default();
                let has_more = all.len() == usize::try_from(limit).unwrap_or(usize::MAX);
                let is_marked = all.iter().any(|due| marked.contains(&due.id));
                let room = usize::try_from(room).unwrap_or(usize::MAX);
                let free: Vec<Due> = all.into_iter().filter(|due| due.head == due.id).take(room).collect();
                // The next statement reads the deliveries behind those that were marked.
                if free.len() == room || !has_more || !is_marked {
                    rooms.remove(&endpoint);
                }
                chosen.insert(endpoint, free);
            }
            if rooms.is_empty() {
                break;
            }
        }
        Ok(chosen.into_values().flatten().collect())
    }

    /// Marks the deliveries as blocked whose heads are pending and not locked by another transaction. Returns their ids.
    async fn mark_blocked(&mut self, blocked: &[Due]) -> Result<BTreeSet<i64>, StoreError> {
        let heads: Vec<i64> = BTreeSet::from_iter(blocked.iter().map(|due| due.head)).into_iter().collect();
        let mut pending = BTreeSet::new();
        for heads in heads.chunks(MAX_ROWS) {
            let (sql, values) = self.dialect.look_up(LookUp {
                columns: "id",
                from: format!("webhook_deliveries {}", self.dialect.lock_index("PRIMARY")),
                column: "id",
                keys: padded(heads).into_iter().map(Value::from).collect(),
                conditions: "state = 'PENDING'".to_owned(),
                lock: self.dialect.skip_locked(),
                ..LookUp::default()
            });
            for row in &self.fetch(&sql, values).await? {
                pending.insert(id(row)?);
            }
        }
        let marked: BTreeSet<i64> =
            blocked.iter().filter(|due| pending.contains(&due.head)).map(|due| due.id).collect();
        let ids: Vec<i64> = marked.iter().copied().collect();
        self.update_deliveries(&ids, ("is_blocked = 1", Vec::new()), ("state = 'PENDING'", Vec::new()))
            .await?;
        Ok(marked)
    }

    /// Unmarks the earliest marked delivery of the key of each of these settled deliveries.
    pub(super) async fn unblock_next(&mut self, settled: &[i64]) -> Result<(), StoreError> {
        let mut next = BTreeSet::new();
        for settled in settled.chunks(MAX_ROWS) {
            let marked = format!(
                "(SELECT p.id FROM webhook_deliveries p {index} WHERE p.endpoint_id = d.endpoint_id \
                 AND p.state = 'PENDING' AND p.order_key = d.order_key AND p.is_blocked = 1 ORDER BY p.id LIMIT 1)",
                index = self.dialect.index("idx_webhook_deliveries_order"),
            );
            let (in_ids, values) = super::deliveries::in_ids(settled);
            let sql = format!("SELECT {marked} AS id FROM webhook_deliveries d WHERE d.id {in_ids}");
            for row in &self.fetch(&sql, values).await? {
                next.extend(DeliveryTable::fields(row).opt_int("id")?);
            }
        }
        let next: Vec<i64> = next.into_iter().collect();
        self.update_deliveries(&next, ("is_blocked = 0", Vec::new()), ("is_blocked = 1", Vec::new()))
            .await
            .map(drop)
    }

    /// Unmarks every delivery of an endpoint that is not ordered.
    pub(super) async fn unblock_all(&mut self, endpoint: EndpointKey) -> Result<(), StoreError> {
        let sql = format!(
            "UPDATE webhook_deliveries {index} SET is_blocked = 0 \
             WHERE {OF_ENDPOINT} AND state = 'PENDING' AND is_blocked = 1",
            index = self.dialect.index("idx_webhook_deliveries_order"),
        );
        self.execute(&sql, key_values(endpoint)).await.map(drop)
    }
}
