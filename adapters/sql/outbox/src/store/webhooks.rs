//! Webhooks: endpoints, deliveries and attempts.

mod claim;
mod deliveries;
mod due;
mod settle;
mod tables;

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use handover_outbox::ports::{
    AttemptCounts, AttemptOutcome, BodyForm, Changed, ClaimedDelivery, DeadDeliveries, DeletedDeliveries,
    DeliveryFilter, EndpointHealth, EndpointId, EndpointKey, EndpointStatus, NewWebhookDelivery,
    OldDeliveries, SettledDelivery, StoreError, WebhookAttempt, WebhookClaim, WebhookCounts, WebhookDelivery,
    WebhookEndpoint, WebhookQueries, WebhookRepo,
};

use crate::dialect::{Dialect, LookUp, MAX_ROWS, padded};
use crate::session::Session;
use crate::table::Table;
use crate::value::{Value, values};

use deliveries::{OF_ENDPOINT, page, pending, redelivered, sendable};
use tables::{
    AttemptTable, DeliveryTable, EndpointTable, endpoint_id, health, health_values, id_value, key_values,
    readable,
};

fn select_endpoint() -> String {
    format!("SELECT {} FROM webhook_endpoints", EndpointTable::COLUMNS)
}

/// The condition for an endpoint; its parameters are [`key_values`]. Statements that lock the endpoint MUST find it by the
/// primary key: with an index of tenants, they lock in another order than others (a deadlock on MySQL).
fn by_key(dialect: &dyn Dialect) -> String {
    format!("id = ? AND {} = ?", dialect.unindexed("tenant_id"))
}

impl Session {
    async fn endpoint_by_id(
        &mut self,
        tenant: Option<TenantId>,
        id: EndpointId,
        lock: &str,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        let condition = if tenant.is_some() { by_key(self.dialect) } else { "id = ?".to_owned() };
        let index = self.dialect.lock_index("PRIMARY");
        let sql = format!("{} {index} WHERE {condition} {lock}", select_endpoint());
        let tenant = tenant.map(|tenant| Value::from(tenant.get()));
        let values = [id_value(id)].into_iter().chain(tenant).collect();
        let row = self.fetch_one(&sql, values).await?;
        row.as_ref().map(EndpointTable::read).transpose()
    }

    /// Number of pending deliveries of endpoints that are not deleted, and [`WebhookCounts::oldest_due`].
    async fn pending_deliveries(
        &mut self,
        now: DateTime<Utc>,
    ) -> Result<(u64, Option<DateTime<Utc>>), StoreError> {
        // The subqueries are run for each endpoint, and every key matches: so PostgreSQL has one index to choose.
        let sql = format!(
            "SELECT COALESCE({sum}, 0) AS pending, min(c.oldest_due) AS oldest_due FROM (SELECT (\
             SELECT count(*) FROM webhook_deliveries d {order} WHERE d.endpoint_id = e.id AND d.state = 'PENDING' \
             AND d.order_key >= '') AS pending, \
             CASE WHEN e.status = 'ENABLED' AND (e.paused_until IS NULL OR e.paused_until <= ?) THEN (\
             SELECT d.due_time FROM webhook_deliveries d {due} WHERE d.endpoint_id = e.id AND d.state = 'PENDING' \
             AND d.is_blocked = 0 ORDER BY d.due_time LIMIT 1) END AS oldest_due \
             FROM webhook_endpoints e WHERE e.status IN ('ENABLED', 'DISABLED')) c",
            sum = self.dialect.sum("c.pending"),
            order = self.dialect.index("idx_webhook_deliveries_order"),
            due = self.dialect.index("idx_webhook_deliveries_due"),
        );
        let Some(row) = self.fetch_one(&sql, values![now]).await? else { return Ok((0, None)) };
        let row = DeliveryTable::fields(&row);
        Ok((row.id("pending")?, row.opt_time("oldest_due")?))
    }

    /// Number of dead deliveries of endpoints that are not deleted, without a later redelivery of the event.
    async fn dead_deliveries(&mut self) -> Result<u64, StoreError> {
        let sql = format!(
            "SELECT COALESCE({sum}, 0) AS dead FROM (SELECT (SELECT count(*) FROM webhook_deliveries d {dead} \
             WHERE d.endpoint_id = e.id AND d.state = 'DEAD' AND NOT {redelivered}) AS dead \
             FROM webhook_endpoints e WHERE e.status IN ('ENABLED', 'DISABLED')) c",
            sum = self.dialect.sum("c.dead"),
            dead = self.dialect.index("idx_webhook_deliveries_dead"),
            redelivered = redelivered(self.dialect),
        );
        let row = self.fetch_one(&sql, Vec::new()).await?;
        row.map_or(Ok(0), |row| DeliveryTable::fields(&row).id("dead"))
    }
}

#[async_trait]
impl WebhookQueries for Session {
    async fn webhook_endpoint(
        &mut self,
        tenant: Option<TenantId>,
        id: EndpointId,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        self.endpoint_by_id(tenant, id, "").await
    }

    async fn webhook_health(
        &mut self,
        ids: &[EndpointId],
    ) -> Result<Vec<(EndpointId, EndpointHealth)>, StoreError> {
        let mut found = Vec::new();
        for ids in ids.chunks(MAX_ROWS) {
            let (sql, values) = self.dialect.look_up(LookUp {
                columns: "id, failing_since, failures, last_success_time, paused_until",
                from: format!("webhook_endpoints {}", self.dialect.lock_index("PRIMARY")),
                column: "id",
                keys: padded(ids).into_iter().map(id_value).collect(),
                conditions: "version >= 0".to_owned(),
                ..LookUp::default()
            });
            for row in &self.fetch(&sql, values).await? {
                let row = EndpointTable::fields(row);
                found.push((endpoint_id(row, "id")?, health(row)?));
            }
        }
        found.sort_by_key(|(id, _)| *id);
        found.dedup_by_key(|(id, _)| *id);
        Ok(found)
    }

    async fn webhook_endpoints(&mut self, tenants: &[TenantId]) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let tenants: Vec<TenantId> = BTreeSet::from_iter(tenants.iter().copied()).into_iter().collect();
        let mut found = Vec::new();
        for tenants in tenants.chunks(MAX_ROWS) {
            let (sql, values) = self.dialect.look_up(LookUp {
                columns: EndpointTable::COLUMNS,
                from: format!("webhook_endpoints {}", self.dialect.index("uk_webhook_endpoints_slot")),
                column: "tenant_id",
                keys: padded(tenants).into_iter().map(|tenant| Value::from(tenant.get())).collect(),
                conditions: "status <> 'DELETED'".to_owned(),
                ..LookUp::default()
            });
            for row in &self.fetch(&sql, values).await? {
                found.extend(readable::<EndpointTable>(row)?);
            }
        }
        found.sort_by_key(|endpoint: &WebhookEndpoint| (endpoint.tenant, endpoint.id));
        Ok(found)
    }

    async fn webhook_endpoints_after(
        &mut self,
        after: Option<EndpointId>,
        limit: u32,
    ) -> Result<Vec<WebhookEndpoint>, StoreError> {
        let mut after = after.map(|id| id.to_string()).unwrap_or_default();
        let sql = format!("{} WHERE id > ? AND status <> 'DELETED' ORDER BY id LIMIT ?", select_endpoint());
        let mut found = Vec::new();
        // A page without a readable endpoint is not the end.
        while found.is_empty() {
            let rows = self.fetch(&sql, values![after.as_str(), limit]).await?;
            let Some(last) = rows.last() else { break };
            after = EndpointTable::fields(last).string("id")?;
            for row in &rows {
                found.extend(readable::<EndpointTable>(row)?);
            }
        }
        Ok(found)
    }

    async fn webhook_delivery(
        &mut self,
        endpoint: EndpointKey,
        id: i64,
    ) -> Result<Option<WebhookDelivery>, StoreError> {
        let sql = format!(
            "SELECT {} FROM webhook_deliveries WHERE id = ? AND {OF_ENDPOINT}",
            DeliveryTable::COLUMNS
        );
        let values = [values![id], key_values(endpoint)].concat();
        self.fetch_one(&sql, values).await?.as_ref().map(DeliveryTable::read).transpose()
    }

    async fn webhook_deliveries_page(
        &mut self,
        endpoint: EndpointKey,
        filter: &DeliveryFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<WebhookDelivery>, StoreError> {
        let (sql, values) = page(self.dialect, endpoint, filter, before, limit);
        self.fetch(&sql, values).await?.iter().map(DeliveryTable::read).collect()
    }

    async fn has_pending_webhook_deliveries(
        &mut self,
        endpoint: EndpointKey,
        body_form: Option<BodyForm>,
    ) -> Result<bool, StoreError> {
        let (sql, values) = pending(self.dialect, endpoint, body_form);
        Ok(self.fetch_one(&sql, values).await?.is_some())
    }

    async fn webhook_deliveries_of(
        &mut self,
        events: &[EventId],
    ) -> Result<Vec<WebhookDelivery>, StoreError> {
        let mut found = Vec::new();
        for events in events.chunks(MAX_ROWS) {
            let (sql, values) = self.dialect.look_up(LookUp {
                columns: DeliveryTable::COLUMNS,
                from: format!("webhook_deliveries {}", self.dialect.index("uk_webhook_deliveries")),
                column: "event_id",
                keys: padded(events).iter().map(Value::from).collect(),
                conditions: "redelivery >= 0".to_owned(),
                ..LookUp::default()
            });
            for row in &self.fetch(&sql, values).await? {
                found.push(DeliveryTable::read(row)?);
            }
        }
        // Removes duplicates: the deliveries of an event id that occurs in two chunks are read twice.
        found.sort_by_key(|delivery| delivery.id);
        found.dedup_by_key(|delivery| delivery.id);
        Ok(found)
    }

    async fn count_dead_webhook_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let (sql, values) = sendable(self.dialect, dead, limit);
        Ok(self.fetch(&sql, values).await?.len() as u64)
    }

    async fn webhook_attempts(
        &mut self,
        endpoint: EndpointKey,
        delivery: i64,
    ) -> Result<Vec<WebhookAttempt>, StoreError> {
        // An attempt has no tenant of its own. SQLite joins the table of an EXISTS, and then may scan it.
        let sql = format!(
            "SELECT {} FROM webhook_attempts WHERE delivery_id = ? AND (\
             SELECT tenant_id FROM webhook_deliveries WHERE id = ? AND endpoint_id = ?) = ? ORDER BY id",
            AttemptTable::COLUMNS
        );
        let values = [values![delivery, delivery], key_values(endpoint)].concat();
        self.fetch(&sql, values).await?.iter().map(AttemptTable::read).collect()
    }

    async fn webhook_attempt_counts(
        &mut self,
        endpoint: EndpointKey,
        since: DateTime<Utc>,
    ) -> Result<AttemptCounts, StoreError> {
        let sql = format!(
            "SELECT outcome, count(*) AS attempts FROM webhook_attempts {} \
             WHERE endpoint_id = ? AND attempt_time >= ? AND (\
             SELECT tenant_id FROM webhook_endpoints WHERE id = ?) = ? GROUP BY outcome",
            self.dialect.index("idx_webhook_attempts_endpoint")
        );
        let mut counts = AttemptCounts::default();
        let values = [vec![id_value(endpoint.id), since.into()], key_values(endpoint)].concat();
        for row in &self.fetch(&sql, values).await? {
            let row = AttemptTable::fields(row);
            let attempts = row.id("attempts")?;
            match AttemptOutcome::named(row.text("outcome")?) {
                Some(AttemptOutcome::Delivered) => counts.delivered = attempts,
                Some(AttemptOutcome::Failed) => counts.failed = attempts,
                Some(AttemptOutcome::Interrupted) | None => {}
            }
        }
        Ok(counts)
    }

    async fn webhook_counts(&mut self, now: DateTime<Utc>) -> Result<WebhookCounts, StoreError> {
        let (pending, oldest_due) = self.pending_deliveries(now).await?;
        let dead = self.dead_deliveries().await?;
        let sql = "SELECT count(*) AS disabled, count(failing_since) AS failing FROM webhook_endpoints WHERE status = ?";
        let row = self.fetch_one(sql, values![EndpointStatus::Disabled.as_str()]).await?;
        let count = |column| row.as_ref().map_or(Ok(0), |row| EndpointTable::fields(row).id(column));
        let (disabled_endpoints, disabled_failing) = (count("disabled")?, count("failing")?);
        Ok(WebhookCounts { pending, dead, disabled_endpoints, disabled_failing, oldest_due })
    }
}

#[async_trait]
impl WebhookRepo for Session {
    async fn insert_webhook_endpoint(&mut self, endpoint: &WebhookEndpoint) -> Result<(), StoreError> {
        self.insert_into::<EndpointTable>(EndpointTable::values(endpoint), "").await
    }

    async fn replace_webhook_endpoint(&mut self, after: &WebhookEndpoint) -> Result<Changed, StoreError> {
        let sql = format!(
            "UPDATE webhook_endpoints {index} SET {set} WHERE {by_key} AND version = ?",
            index = self.dialect.lock_index("PRIMARY"),
            set = EndpointTable::SET,
            by_key = by_key(self.dialect),
        );
        let mut values = EndpointTable::updated_values(after);
        values.extend(key_values(after.key()));
        values.push(Value::from(after.version - 1));
        let changed = Changed::of(self.execute(&sql, values).await?);
        if changed == Changed::One && !after.is_ordered {
            self.unblock_all(after.key()).await?;
        }
        Ok(changed)
    }

    async fn lock_webhook_endpoint(
        &mut self,
        tenant: Option<TenantId>,
        id: EndpointId,
    ) -> Result<Option<WebhookEndpoint>, StoreError> {
        self.endpoint_by_id(tenant, id, self.dialect.for_update()).await
    }

    async fn set_webhook_health(
        &mut self,
        endpoint: EndpointKey,
        health: &EndpointHealth,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "UPDATE webhook_endpoints {index} SET failing_since = ?, failures = ?, last_success_time = ?, \
             paused_until = ? WHERE {by_key}",
            index = self.dialect.lock_index("PRIMARY"),
            by_key = by_key(self.dialect),
        );
        let mut values = health_values(health);
        values.extend(key_values(endpoint));
        self.execute(&sql, values).await.map(drop)
    }

    async fn insert_webhook_deliveries(
        &mut self,
        deliveries: &[NewWebhookDelivery],
    ) -> Result<u64, StoreError> {
        self.insert_deliveries(deliveries).await
    }

    async fn claim_webhook_deliveries(
        &mut self,
        claim: &WebhookClaim,
    ) -> Result<Vec<ClaimedDelivery>, StoreError> {
        self.claim_deliveries(claim).await
    }

    async fn settle_webhook_deliveries(
        &mut self,
        settled: &[SettledDelivery],
    ) -> Result<Vec<i64>, StoreError> {
        self.settle_deliveries(settled).await
    }

    async fn cancel_webhook_deliveries(
        &mut self,
        endpoint: Option<EndpointKey>,
        disabled_before: Option<DateTime<Utc>>,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.cancel_deliveries(endpoint, disabled_before, at, limit).await
    }

    async fn delete_webhook_deliveries(
        &mut self,
        old: &OldDeliveries,
    ) -> Result<DeletedDeliveries, StoreError> {
        self.delete_deliveries(old).await
    }

    async fn resend_webhook_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        self.resend_deliveries(dead, at, limit).await
    }
}
