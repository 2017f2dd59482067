//! Deliveries: insert, page, cancellation, resending.

use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    BodyForm, DeadDeliveries, DeletedDeliveries, DeliveryFilter, DeliveryState, EndpointKey,
    NewWebhookDelivery, OldDeliveries, StoreError,
};

use super::super::page::Page;
use super::tables::{DeliveryTable, EndpointTable, endpoint_id, key_values};
use crate::dialect::{Dialect, MAX_ROWS, padded, placeholders};
use crate::row::Row;
use crate::session::Session;
use crate::table::Table;
use crate::value::{Value, values};

/// The condition for the deliveries to an endpoint; its parameters are [`key_values`].
pub(super) const OF_ENDPOINT: &str = "endpoint_id = ? AND tenant_id = ?";

/// The columns of a delivery that its event and its endpoint identify.
const KEY: &str = "event_id, endpoint_id, redelivery";

/// An insert is split when the bodies of its rows exceed this size, because MySQL limits the size of a statement
/// (`max_allowed_packet`).
const MAX_BODY_BYTES: usize = 262_144;

/// The number of deliveries at the beginning that one statement inserts: at least one.
fn insertable(deliveries: &[NewWebhookDelivery]) -> usize {
    let mut bytes = 0;
    let fits = deliveries.iter().take(MAX_ROWS).take_while(|delivery| {
        bytes += delivery.body.len();
        bytes <= MAX_BODY_BYTES
    });
    fits.count().max(1)
}

pub(super) fn page(
    dialect: &dyn Dialect,
    endpoint: EndpointKey,
    filter: &DeliveryFilter,
    before: Option<i64>,
    limit: u32,
) -> (String, Vec<Value>) {
    // MySQL has one index for all states, the other engines have a partial index for `DEAD`. Their partial index for `PENDING` has
    // another order.
    let of_state = dialect.lock_index("idx_webhook_deliveries_dead");
    let (index, state) = match filter.state {
        None => (dialect.lock_index("idx_webhook_deliveries_endpoint"), String::new()),
        Some(DeliveryState::Dead) => (dialect.index("idx_webhook_deliveries_dead"), "state".to_owned()),
        Some(DeliveryState::Pending) if of_state.is_empty() => {
            (dialect.index("idx_webhook_deliveries_endpoint"), dialect.unindexed("state"))
        }
        Some(DeliveryState::Pending | DeliveryState::Delivered | DeliveryState::Cancelled) => {
            (of_state, "state".to_owned())
        }
    };
    let select = format!("SELECT {} FROM webhook_deliveries {index}", DeliveryTable::COLUMNS);
    let page = Page::below(&select, "id", before).and(OF_ENDPOINT, key_values(endpoint));
    let page = match filter.state {
        // A literal, because only a literal matches the predicate of a partial index.
        Some(value) => page.and(&format!("{state} = '{}'", value.as_str()), []),
        None => page,
    };
    page.with("id > ?", filter.above_id)
        .with("event_type = ?", filter.event_type.as_ref())
        .with("last_status = ?", filter.status.map(i64::from))
        .with("COALESCE(body_form, 'UNMASKED') = ?", filter.body_form.map(BodyForm::as_str))
        .with("create_time >= ?", filter.from)
        .with("create_time < ?", filter.to)
        .limit(limit)
}

/// A pending delivery to the endpoint whose body has this content, in any order.
pub(super) fn pending(
    dialect: &dyn Dialect,
    endpoint: EndpointKey,
    body_form: Option<BodyForm>,
) -> (String, Vec<Value>) {
    let index = dialect.index("idx_webhook_deliveries_order");
    let mut sql =
        format!("SELECT 1 AS one FROM webhook_deliveries {index} WHERE {OF_ENDPOINT} AND state = 'PENDING'");
    let mut values = key_values(endpoint);
    if let Some(form) = body_form {
        sql.push_str(" AND COALESCE(body_form, 'UNMASKED') = ?");
        values.push(form.as_str().into());
    }
    sql.push_str(" LIMIT 1");
    (sql, values)
}

/// Whether there is a later redelivery of the event of the delivery `d`.
pub(super) fn redelivered(dialect: &dyn Dialect) -> String {
    format!(
        "EXISTS (SELECT 1 FROM webhook_deliveries r {key} WHERE r.event_id = d.event_id \
         AND {endpoint} = d.endpoint_id AND r.redelivery > d.redelivery)",
        key = dialect.index("uk_webhook_deliveries"),
        endpoint = dialect.unindexed("r.endpoint_id"),
    )
}

/// Ids of the `DEAD` deliveries that can be sent again, the oldest first. A delivery whose body is too large has none.
pub(super) fn sendable(dialect: &dyn Dialect, dead: &DeadDeliveries, limit: u32) -> (String, Vec<Value>) {
    let form = match dead.is_unmasked {
        None => "",
        Some(true) => "AND COALESCE(d.body_form, 'UNMASKED') = 'UNMASKED' ",
        Some(false) => "AND COALESCE(d.body_form, 'UNMASKED') <> 'UNMASKED' ",
    };
    let sql = format!(
        "SELECT d.id FROM webhook_deliveries d {index} WHERE d.endpoint_id = ? AND d.tenant_id = ? \
         AND d.state = 'DEAD' AND d.create_time >= ? AND d.create_time < ? AND d.body <> '' {form}\
         AND NOT {redelivered} ORDER BY d.id LIMIT ?",
        index = dialect.index("idx_webhook_deliveries_dead"),
        redelivered = redelivered(dialect),
    );
    (sql, [key_values(dead.endpoint), values![dead.from, dead.to, limit]].concat())
}

/// The next deliveries, whether each was written before `before`, and whether it can be deleted. Those that can be deleted
/// change no more, so that no lock is needed. The limit bounds the number of rows that are read.
pub(super) fn examined(dialect: &dyn Dialect, old: &OldDeliveries) -> (String, Vec<Value>) {
    let sql = format!(
        "SELECT d.id, CASE WHEN d.create_time < ? THEN 1 ELSE 0 END AS is_examined, \
         CASE WHEN d.state IN ('DELIVERED', 'CANCELLED') AND d.settle_time < ? AND (d.redelivery = 0 OR NOT EXISTS (\
         SELECT 1 FROM webhook_deliveries r {key} WHERE r.event_id = d.event_id AND {endpoint} = d.endpoint_id \
         AND r.redelivery < d.redelivery AND {state} = 'DEAD')) THEN 1 ELSE 0 END AS is_old \
         FROM webhook_deliveries d {primary} WHERE d.id > ? ORDER BY d.id LIMIT ?",
        key = dialect.index("uk_webhook_deliveries"),
        endpoint = dialect.unindexed("r.endpoint_id"),
        state = dialect.unindexed("r.state"),
        primary = dialect.lock_index("PRIMARY"),
    );
    (sql, values![old.before, old.before, old.after, old.limit])
}

/// `IN (?,?)` for these ids, and its parameters.
pub(super) fn in_ids(ids: &[i64]) -> (String, Vec<Value>) {
    let ids = padded(ids);
    (format!("IN ({})", placeholders(ids.len())), ids.into_iter().map(Value::from).collect())
}

pub(super) fn id(row: &Row) -> Result<i64, StoreError> {
    DeliveryTable::fields(row).int("id")
}

impl Session {
    /// Inserts deliveries that do not exist, in order. Returns their number.
    pub(super) async fn insert_deliveries(
        &mut self,
        mut deliveries: &[NewWebhookDelivery],
    ) -> Result<u64, StoreError> {
        let after = self.dialect.or_ignore(KEY);
        let mut inserted = 0;
        while !deliveries.is_empty() {
            let (now, later) = deliveries.split_at(insertable(deliveries));
            let rows = DeliveryTable::rows(now);
            let written = (rows.len() / DeliveryTable::INSERTED) as u64;
            let affected = self.insert(DeliveryTable::INSERT, DeliveryTable::INSERTED, rows, &after).await?;
            inserted += self.dialect.inserted(written, affected);
            deliveries = later;
        }
        Ok(inserted)
    }

    /// Changes the deliveries with these ids that meet the condition. Returns their number. The rows are locked in the
    /// order of their ids.
    pub(super) async fn update_deliveries(
        &mut self,
        ids: &[i64],
        set: (&str, Vec<Value>),
        condition: (&str, Vec<Value>),
    ) -> Result<u64, StoreError> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        let mut changed = 0;
        for ids in ids.chunks(MAX_ROWS) {
            let (in_ids, id_values) = in_ids(ids);
            let sql = format!(
                "UPDATE webhook_deliveries {index} {primary_key} SET {set} WHERE id {in_ids} AND {condition}",
                index = self.dialect.lock_index("PRIMARY"),
                primary_key = self.dialect.primary_key(),
                set = set.0,
                condition = condition.0,
            );
            let values = [set.1.as_slice(), &id_values, &condition.1].concat();
            changed += self.execute(&sql, values).await?;
        }
        Ok(changed)
    }

    pub(super) async fn cancel_deliveries(
        &mut self,
        endpoint: Option<EndpointKey>,
        disabled_before: Option<DateTime<Utc>>,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let index = self.dialect.index("idx_webhook_deliveries_order");
        let mut values = Vec::new();
        let mut has_ended = "ended.status = 'DELETED'".to_owned();
        if let Some(before) = disabled_before {
            has_ended = format!("({has_ended} OR (ended.status = 'DISABLED' AND ended.update_time < ?))");
            values.push(before.into());
        }
        let mut sql = format!(
            "SELECT ended.id, ended.tenant_id FROM webhook_endpoints ended WHERE {has_ended} AND EXISTS (\
             SELECT 1 FROM webhook_deliveries d {index} WHERE d.endpoint_id = ended.id AND d.state = 'PENDING')"
        );
        if let Some(endpoint) = endpoint {
            sql.push_str(&format!(" AND ended.id = ? AND {} = ?", self.dialect.unindexed("ended.tenant_id")));
            values.extend(key_values(endpoint));
        }
        sql.push_str(" ORDER BY ended.id");
        let pending = format!(
            "SELECT id FROM webhook_deliveries {index} WHERE {OF_ENDPOINT} AND state = 'PENDING' \
             ORDER BY order_key, id LIMIT ?"
        );
        let mut ids = Vec::new();
        for row in &self.fetch(&sql, values).await? {
            let left = i64::from(limit) - ids.len() as i64;
            if left <= 0 {
                break;
            }
            let row = EndpointTable::fields(row);
            let endpoint = EndpointKey { tenant: row.id("tenant_id")?, id: endpoint_id(row, "id")? };
            for row in &self.fetch(&pending, [key_values(endpoint), values![left]].concat()).await? {
                ids.push(id(row)?);
            }
        }
        let set = "state = 'CANCELLED', claim_id = NULL, claims = 0, is_blocked = 0, settle_time = ?";
        let is_pending = format!("{} = 'PENDING'", self.dialect.unindexed("state"));
        let cancelled = self.update_deliveries(&ids, (set, values![at]), (&is_pending, Vec::new())).await?;
        // The endpoint may be enabled again before the next batch.
        self.unblock_next(&ids).await?;
        Ok(cancelled)
    }

    pub(super) async fn delete_deliveries(
        &mut self,
        old: &OldDeliveries,
    ) -> Result<DeletedDeliveries, StoreError> {
        let (sql, values) = examined(self.dialect, old);
        let mut done = DeletedDeliveries::default();
        let mut ids = Vec::new();
        let mut rows = 0;
        for row in &self.fetch(&sql, values).await? {
            let fields = DeliveryTable::fields(row);
            if !fields.flag("is_examined")? {
                break;
            }
            rows += 1;
            done.last = Some(id(row)?);
            if fields.flag("is_old")? {
                ids.extend(done.last);
            }
        }
        done.last = done.last.filter(|_| rows == old.limit);
        for ids in ids.chunks(MAX_ROWS) {
            let (in_ids, values) = in_ids(ids);
            self.execute(&format!("DELETE FROM webhook_attempts WHERE delivery_id {in_ids}"), values.clone())
                .await?;
            done.deleted +=
                self.execute(&format!("DELETE FROM webhook_deliveries WHERE id {in_ids}"), values).await?;
        }
        Ok(done)
    }

    pub(super) async fn resend_deliveries(
        &mut self,
        dead: &DeadDeliveries,
        at: DateTime<Utc>,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let (sql, values) = sendable(self.dialect, dead, limit);
        let ids = self.fetch(&sql, values).await?.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        let set =
            "state = 'PENDING', due_time = ?, attempts = 0, claims = 0, is_blocked = 0, settle_time = NULL";
        let condition = ("tenant_id = ? AND state = 'DEAD'", values![dead.endpoint.tenant.get()]);
        self.update_deliveries(&ids, (set, values![at]), condition).await
    }
}
