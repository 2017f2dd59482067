//! Sends the failed deliveries of a period again, and creates deliveries of events that never got one.

use chrono::{DateTime, Utc};
use handover_events::{EventId, Json, OutboxStatus};

use super::deliveries::{new_delivery, without_delivery};
use super::endpoints::{InvalidEndpoint, WebhookError};
use super::operations::{Webhooks, audit};
use crate::message::envelope_of;
use crate::operations::{Operator, changed_by_earlier_attempt, present_fields, rfc3339};
use crate::ports::{
    AuditEntry, DeliveryFilter, DeliveryState, EndpointId, NewWebhookDelivery, OutboxFilter, OutboxRow,
    StoreError, WebhookEndpoint,
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
    /// Number of created deliveries.
    pub created: u64,
    /// Whether more remain: the call has limits; repeat it.
    pub more: bool,
}

impl Webhooks {
    /// Sends the `DEAD` deliveries of an endpoint again that were written in a period. With `include_missing`, events of
    /// the period that the endpoint asks for and has no delivery of are delivered as well.
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
        let period = (command.since, until);
        let fields = present_fields([
            ("since", Some(rfc3339(command.since))),
            ("until", command.until.map(rfc3339)),
            ("includeMissing", command.include_missing.then_some(Json::Bool(true))),
            ("dryRun", command.dry_run.then_some(Json::Bool(true))),
        ]);
        let entry = audit(operator, "webhooks.recover", id, endpoint.tenant, fields, now);
        let mut recovered = Recovered { dry_run: command.dry_run, ..Recovered::default() };
        let (dead, more_dead) = self.count_dead(id, period).await?;
        let (missing, more_missing) = if command.include_missing {
            self.missing(&endpoint, period, now).await?
        } else {
            (Vec::new(), false)
        };
        recovered.more = more_dead || more_missing;
        if command.dry_run {
            recovered.resent = dead;
            recovered.created = missing.len() as u64;
            let matched = recovered.resent + recovered.created;
            self.audit_alone(AuditEntry { matched, ..entry }).await?;
            return Ok(recovered);
        }
        recovered.resent = self.resend(id, period, AuditEntry { matched: dead, ..entry.clone() }).await?;
        for (part, deliveries) in missing.chunks(PAGE as usize).enumerate() {
            let entry = AuditEntry {
                selection: format!("{{\"endpointId\":\"{id}\",\"created\":true,\"part\":{}}}", part + 1),
                matched: deliveries.len() as u64,
                ..entry.clone()
            };
            recovered.created += self.create_deliveries(deliveries.to_vec(), entry).await?;
        }
        Ok(recovered)
    }

    /// Number of `DEAD` deliveries of a period, up to the limit of a call, and whether there are more.
    async fn count_dead(
        &self,
        id: EndpointId,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
    ) -> Result<(u64, bool), StoreError> {
        let filter = DeliveryFilter {
            state: Some(DeliveryState::Dead),
            from: Some(from),
            to: Some(to),
            ..DeliveryFilter::default()
        };
        let mut view = self.outbox.view().await?;
        let (mut before, mut dead) = (None, 0_u64);
        while dead < u64::from(MAX_RECOVERED) {
            let page = view.outbox_view().webhook_deliveries_page(id, &filter, before, PAGE).await?;
            let Some(last) = page.last() else { return Ok((dead, false)) };
            before = Some(last.id);
            dead += page.len() as u64;
        }
        Ok((dead, true))
    }

    /// Deliveries of published events of a period that the endpoint has no delivery of, in the order of the events, and
    /// whether there may be more.
    async fn missing(
        &self,
        endpoint: &WebhookEndpoint,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        now: DateTime<Utc>,
    ) -> Result<(Vec<NewWebhookDelivery>, bool), StoreError> {
        let filter = OutboxFilter {
            tenant: Some(endpoint.tenant),
            status: Some(OutboxStatus::Sent),
            from: Some(from),
            to: Some(to),
            ..OutboxFilter::default()
        };
        let mut view = self.outbox.view().await?;
        let mut before = None;
        let mut missing = Vec::new();
        loop {
            let rows = view.outbox_view().outbox_page(&filter, before, PAGE).await?;
            let Some(last) = rows.last() else { break };
            before = Some(last.id);
            let wanted: Vec<&OutboxRow> = rows.iter().filter(|row| self.is_wanted(endpoint, row)).collect();
            let ids: Vec<EventId> = wanted.iter().map(|row| row.event_id.clone()).collect();
            let without = without_delivery(view.outbox_view(), endpoint.id, &ids).await?;
            let rows = wanted.into_iter().filter(|row| without.contains(&row.event_id));
            missing.extend(rows.filter_map(|row| self.delivery_of_row(endpoint, row, now)));
            if missing.len() >= MAX_RECOVERED as usize {
                break;
            }
        }
        // The newest events were read first.
        missing.reverse();
        let is_cut = missing.len() >= MAX_RECOVERED as usize;
        Ok((missing, is_cut))
    }

    fn is_wanted(&self, endpoint: &WebhookEndpoint, row: &OutboxRow) -> bool {
        self.offer.of_row(&row.event_type).is_some_and(|offered| self.offer.wanted(endpoint, offered))
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
        id: EndpointId,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        entry: AuditEntry,
    ) -> Result<u64, StoreError> {
        with_tx(&self.outbox.tx, entry, move |unit, entry, attempt| {
            Box::pin(async move {
                let unit = unit.outbox();
                if let Some(changed) = changed_by_earlier_attempt(unit, attempt, entry).await? {
                    return Ok(changed);
                }
                let changed = unit.resend_webhook_deliveries(id, from, to, entry.at, MAX_RECOVERED).await?;
                unit.audit(&AuditEntry { changed, ..entry.clone() }).await?;
                Ok(changed)
            })
        })
        .await
    }

    async fn create_deliveries(
        &self,
        deliveries: Vec<NewWebhookDelivery>,
        entry: AuditEntry,
    ) -> Result<u64, StoreError> {
        with_tx(&self.outbox.tx, (deliveries, entry), |unit, (deliveries, entry), attempt| {
            Box::pin(async move {
                let unit = unit.outbox();
                if let Some(changed) = changed_by_earlier_attempt(unit, attempt, entry).await? {
                    return Ok(changed);
                }
                let changed = unit.insert_webhook_deliveries(deliveries).await?;
                unit.audit(&AuditEntry { changed, ..entry.clone() }).await?;
                Ok(changed)
            })
        })
        .await
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
