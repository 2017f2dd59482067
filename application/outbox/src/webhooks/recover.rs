//! Sends the failed deliveries of a period again, and creates deliveries of events that never got one.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, Json, OutboxStatus};

use super::access::{lock, lock_version, may_send_unmasked, not_deleted};
use super::deliveries::{DeliveryWriter, NewDeliveries, new_delivery, without_delivery};
use super::endpoints::{InvalidEndpoint, WebhookError};
use super::events::MAX_RETRY_COUNT;
use super::operations::{Webhooks, audit};
use super::retention::WebhookRetention;
use crate::message::envelope_of;
use crate::operations::id_window::{bounded_after, next_after};
use crate::operations::{Operator, changed_by_earlier_attempt, present_fields, rfc3339};
use crate::ports::{
    AuditEntry, Consumed, DeadDeliveries, EndpointId, NewWebhookDelivery, OutboxFilter, OutboxRow,
    OutboxView, StoreError, WebhookEndpoint, WebhookQueries,
};
use crate::transaction::with_tx;

/// Maximum number of deliveries that one call sends again, and maximum number that it creates.
pub const MAX_RECOVERED: u32 = 10_000;
/// Number of rows that are read at once.
const PAGE: u32 = 500;

/// Command: the period to recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recover {
    /// Begin of the period.
    pub since: DateTime<Utc>,
    /// End of the period; `None`: now.
    pub until: Option<DateTime<Utc>>,
    /// Whether deliveries of published events without a delivery are created, for example of events before the endpoint
    /// was created.
    pub include_missing: bool,
    /// Only events after this id of the outbox, at which an earlier call ended.
    pub after: Option<i64>,
    /// Whether to report only what would happen.
    pub dry_run: bool,
}

/// Result of a recovery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// Number of `DEAD` deliveries that are sent again.
    pub resent: u64,
    /// Number of created deliveries. An event whose body is too large gets a delivery that is `DEAD`, which is announced and
    /// not counted here.
    pub created: u64,
    /// Whether more remain: the call has limits; repeat it with the cursor.
    pub more: bool,
    /// Cursor for the next call; `None`: the next call searches the same events.
    pub next: Option<i64>,
}

impl Webhooks {
    /// Sends the `DEAD` deliveries of an endpoint again that were written in a period and have a body, unless their event
    /// was redelivered. With `include_missing`, events of the period that the endpoint asks for and has no delivery of are
    /// delivered as well, the oldest first, except those whose delivery may have been deleted after the time for which
    /// deliveries stay ([`Webhooks::keep`]): the consumer applied them before that time and after the endpoint was created.
    /// Events in the archive are not delivered: restore them first. At most 100,000 ids of the outbox are searched per call.
    pub async fn recover(
        &self,
        operator: &Operator,
        id: EndpointId,
        command: Recover,
    ) -> Result<Recovered, WebhookError> {
        let endpoint = self.not_deleted(operator, id).await?;
        let now = self.outbox.now();
        let until = command.until.unwrap_or(now);
        if command.since >= until {
            return Err(InvalidEndpoint::new("since", "must be before the end of the period").into());
        }
        let fields = present_fields([
            ("since", Some(rfc3339(command.since))),
            ("until", command.until.map(rfc3339)),
            ("includeMissing", command.include_missing.then_some(Json::Bool(true))),
            ("cursor", command.after.map(Json::from)),
            ("dryRun", command.dry_run.then_some(Json::Bool(true))),
        ]);
        let entry = audit(operator, "webhooks.recover", id, endpoint.tenant, fields, now);
        let all =
            DeadDeliveries { endpoint: endpoint.key(), from: command.since, to: until, is_unmasked: None };
        let (dead, more_dead) = self.count_dead(&all).await?;
        let (missing, next) = if command.include_missing {
            self.missing(&endpoint, (command.since, until), command.after, now).await?
        } else {
            (Vec::new(), None)
        };
        let more = more_dead || next.is_some();
        // While only deliveries remain, the next call need not search earlier events again.
        let next = next.or(command.after.filter(|_| more));
        if command.dry_run {
            refuse_unmasked(self.outbox.view().await?.outbox_view(), operator, &endpoint, &all).await?;
            let created = sendable(&missing);
            self.audit_alone(AuditEntry { matched: dead + created, ..entry }).await?;
            return Ok(Recovered { dry_run: true, resent: dead, created, more, next });
        }
        let entry_of_dead = AuditEntry { matched: dead, ..entry.clone() };
        let resent = self.resend(operator.clone(), all, entry_of_dead).await?;
        let mut created = 0;
        for (part, deliveries) in missing.chunks(PAGE as usize).enumerate() {
            let entry = AuditEntry {
                selection: format!("{{\"endpointId\":\"{id}\",\"created\":true,\"part\":{}}}", part + 1),
                matched: deliveries.len() as u64,
                ..entry.clone()
            };
            created += self.create_deliveries(operator, &endpoint, deliveries, entry).await?;
        }
        Ok(Recovered { dry_run: false, resent, created, more, next })
    }

    /// Number of deliveries that can be sent again, up to the limit of a call, and whether there are more.
    async fn count_dead(&self, dead: &DeadDeliveries) -> Result<(u64, bool), StoreError> {
        let mut view = self.outbox.view().await?;
        let found = view.outbox_view().count_dead_webhook_deliveries(dead, MAX_RECOVERED + 1).await?;
        let limit = u64::from(MAX_RECOVERED);
        Ok((found.min(limit), found > limit))
    }

    /// Deliveries of published events of a period that the endpoint has no delivery of, in the order of the events, and
    /// the cursor for the events that were not searched. The oldest are created first, so that a repeated call does not
    /// create an event's delivery after those of later events.
    async fn missing(
        &self,
        endpoint: &WebhookEndpoint,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        mut after: Option<i64>,
        now: DateTime<Utc>,
    ) -> Result<(Vec<NewWebhookDelivery>, Option<i64>), StoreError> {
        let filter = OutboxFilter {
            tenant: Some(endpoint.tenant),
            status: Some(OutboxStatus::Sent),
            from: Some(from),
            to: Some(to),
            ..OutboxFilter::default()
        };
        let mut view = self.outbox.view().await?;
        let view = view.outbox_view();
        let filter = bounded_after(view, filter, after).await?;
        let mut missing = Vec::new();
        loop {
            let rows = view.outbox_after(&filter, after, PAGE).await?;
            let Some(last) = rows.last() else { return Ok((missing, next_after(view, &filter).await?)) };
            after = Some(last.id);
            let wanted: Vec<&OutboxRow> = rows.iter().filter(|row| self.is_wanted(endpoint, row)).collect();
            let ids: Vec<EventId> = wanted.iter().map(|row| row.event_id.clone()).collect();
            let without = without_delivery(view, endpoint.id, &ids).await?;
            let rows = wanted.into_iter().filter(|row| without.contains(&row.event_id));
            let rows: Vec<&OutboxRow> = rows.collect();
            let deleted = self.perhaps_deleted(view, endpoint, &rows, now).await?;
            let rows = rows.into_iter().filter(|row| !deleted.contains(&row.event_id));
            missing.extend(rows.filter_map(|row| self.delivery_of_row(endpoint, row, now)));
            if missing.len() > (MAX_RECOVERED - PAGE) as usize {
                return Ok((missing, after));
            }
        }
    }

    /// Those of these events whose delivery to the endpoint the retention may have deleted.
    async fn perhaps_deleted(
        &self,
        view: &mut dyn OutboxView,
        endpoint: &WebhookEndpoint,
        rows: &[&OutboxRow],
        now: DateTime<Utc>,
    ) -> Result<BTreeSet<EventId>, StoreError> {
        let deleted_before = WebhookRetention::deleted_before(now, self.keep);
        let old = rows.iter().filter(|row| row.create_time < deleted_before);
        let old: Vec<EventId> = old.map(|row| row.event_id.clone()).collect();
        if old.is_empty() {
            return Ok(BTreeSet::new());
        }
        let is_deleted = |it: &Consumed| {
            it.consumer == DeliveryWriter::NAME
                && it.record.status == ConsumeStatus::Success
                && (endpoint.create_time..deleted_before).contains(&it.record.consume_time)
        };
        let records = view.consumed_of(&old).await?;
        Ok(records.into_iter().filter(is_deleted).map(|it| it.event_id).collect())
    }

    fn is_wanted(&self, endpoint: &WebhookEndpoint, row: &OutboxRow) -> bool {
        self.offer
            .of_row(&row.event_type)
            .is_some_and(|offered| self.offer.is_receiver(endpoint, offered, &row.aggregate))
    }

    /// `None` for a row whose payload is not a JSON object: no consumer could apply it either.
    fn delivery_of_row(
        &self,
        endpoint: &WebhookEndpoint,
        row: &OutboxRow,
        now: DateTime<Utc>,
    ) -> Option<NewWebhookDelivery> {
        let offered = self.offer.of_row(&row.event_type)?;
        let envelope = envelope_of(row).ok()?;
        new_delivery(&self.outbox.registry, offered, endpoint, &envelope, now).ok()
    }

    async fn resend(
        &self,
        operator: Operator,
        all: DeadDeliveries,
        entry: AuditEntry,
    ) -> Result<u64, WebhookError> {
        with_tx(&self.outbox.tx, (operator, entry), move |unit, (operator, entry), attempt| {
            Box::pin(async move {
                let unit = unit.outbox();
                let endpoint = not_deleted(lock(unit, operator, all.endpoint.id).await?)?;
                if let Some(changed) = changed_by_earlier_attempt(unit, attempt, entry).await? {
                    return Ok(changed);
                }
                refuse_unmasked(unit, operator, &endpoint, &all).await?;
                // A further delivery can become `DEAD` after this check.
                let is_unmasked = if may_send_unmasked(operator, &endpoint) { None } else { Some(false) };
                let dead = DeadDeliveries { is_unmasked, ..all };
                let changed = unit.resend_webhook_deliveries(&dead, entry.at, MAX_RECOVERED).await?;
                unit.audit(&AuditEntry { changed, ..entry.clone() }).await?;
                Ok(changed)
            })
        })
        .await
    }

    /// Returns the number of created deliveries that will be sent.
    async fn create_deliveries(
        &self,
        operator: &Operator,
        endpoint: &WebhookEndpoint,
        deliveries: &[NewWebhookDelivery],
        entry: AuditEntry,
    ) -> Result<u64, WebhookError> {
        let dead = deliveries.len() as u64 - sendable(deliveries);
        let random = self.outbox.random().as_ref();
        let new = NewDeliveries::new(deliveries.to_vec(), entry.at, random, MAX_RETRY_COUNT);
        let input = (new, entry, operator.clone(), endpoint.key(), endpoint.version);
        let created =
            with_tx(&self.outbox.tx, input, |unit, (new, entry, operator, key, version), attempt| {
                Box::pin(async move {
                    let unit = unit.outbox();
                    if let Some(changed) = changed_by_earlier_attempt(unit, attempt, entry).await? {
                        return Ok::<u64, WebhookError>(changed);
                    }
                    lock_version(unit, operator, key.id, *version).await?;
                    let changed = new.insert(unit).await?;
                    unit.audit(&AuditEntry { changed, ..entry.clone() }).await?;
                    Ok(changed)
                })
            });
        Ok(created.await?.saturating_sub(dead))
    }

    async fn audit_alone(&self, entry: AuditEntry) -> Result<(), StoreError> {
        with_tx(&self.outbox.tx, entry, |unit, entry, attempt| {
            Box::pin(async move {
                if changed_by_earlier_attempt(unit.outbox(), attempt, entry).await?.is_none() {
                    unit.outbox().audit(entry).await?;
                }
                Ok(())
            })
        })
        .await
    }
}

/// Number of these deliveries that will be sent.
fn sendable(deliveries: &[NewWebhookDelivery]) -> u64 {
    deliveries.iter().filter(|delivery| delivery.dead_because.is_none()).count() as u64
}

/// Refuses to send deliveries with unmasked payloads again to an endpoint that an operator without access to personal data
/// can have redirected.
async fn refuse_unmasked(
    unit: &mut (impl WebhookQueries + ?Sized),
    operator: &Operator,
    endpoint: &WebhookEndpoint,
    all: &DeadDeliveries,
) -> Result<(), WebhookError> {
    let unmasked = DeadDeliveries { is_unmasked: Some(true), ..*all };
    if may_send_unmasked(operator, endpoint) || unit.count_dead_webhook_deliveries(&unmasked, 1).await? == 0 {
        return Ok(());
    }
    let why = "begins a period with unmasked payloads, which the endpoint does not get any more: only an operator who may \
               see personal data (pii) can send them again";
    Err(InvalidEndpoint::new("since", why).into())
}
