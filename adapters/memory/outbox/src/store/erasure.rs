//! Erasure of texts.

use async_trait::async_trait;
use handover_events::{ConsumeStatus, OutboxStatus};
use handover_outbox::MASK;
use handover_outbox::ports::{
    DeadLetterStatus, DeliveryState, Erasure, ErasureRepo, MaskedTexts, StoreError, WebhookAttempt,
};

use super::locks::Lock;
use super::outbox_index::of_event;
use super::outbox_tables::{OutboxRows as _, Statement};
use super::rows::{AttemptRow, ConsumptionRow, DeadLetterRow};
use super::statement::Tables;
use super::unit::MemoryUnit;
use super::webhooks::rows;

/// The text that replaces a stored one.
fn masked(text: &Option<String>) -> Option<String> {
    text.as_ref().map(|_| MASK.to_owned())
}

/// Puts the changed row if it differs; counts it.
macro_rules! put {
    ($statement:ident.$table:ident, $before:expr, $after:expr, $changed:ident) => {{
        let (before, after) = ($before, $after);
        if format!("{before:?}") != format!("{after:?}") {
            $statement.own.$table.put(after);
            $changed += 1;
        }
    }};
}

#[async_trait]
impl<X: Tables> ErasureRepo for MemoryUnit<X> {
    async fn erase_events(&mut self, events: &[MaskedTexts], erasure: &Erasure) -> Result<u64, StoreError> {
        let locks = self.read_outbox(|statement| events.iter().flat_map(|it| locks(statement, it)).collect());
        let locks = locks.await?;
        self.write_outbox(locks, |statement| {
            Ok(events
                .iter()
                .map(|texts| erase_outbox(statement, texts, erasure) + erase_effects(statement, texts))
                .sum())
        })
        .await
    }

    async fn erase_audit_reasons(&mut self, entries: &[i64]) -> Result<u64, StoreError> {
        self.write_outbox(Vec::new(), |statement| {
            let mut changed = 0;
            for id in entries {
                let Some(before) = statement.audit_log().get(id).cloned() else { continue };
                let mut after = before.clone();
                after.effect.reason = masked(&after.effect.reason);
                put!(statement.audit_log, before, after, changed);
            }
            Ok(changed)
        })
        .await
    }
}

fn locks(statement: &Statement<'_>, texts: &MaskedTexts) -> Vec<Lock> {
    let event = &texts.event_id;
    let records = statement.consumptions().all().filter(|row| row.is.event_id == *event);
    let dead_letters = texts.dead_letters.iter().map(|(queue, _)| (queue.clone(), event.to_string()));
    [Lock::Event(event.clone())]
        .into_iter()
        .chain(records.map(|row| Lock::Consumption(row.is.consumer.clone(), event.clone())))
        .chain(dead_letters.map(|(queue, key)| Lock::DeadLetter(queue, key)))
        .chain(texts.deliveries.iter().map(|(id, _)| Lock::WebhookDelivery(*id)))
        .collect()
}

/// Masks the row of the event and its history.
fn erase_outbox(statement: &mut Statement<'_>, texts: &MaskedTexts, erasure: &Erasure) -> u64 {
    let mut changed = 0;
    let row = of_event(statement, &texts.event_id).filter(|row| row.status == OutboxStatus::Sent).cloned();
    if let Some(before) = row {
        let mut after = before.clone();
        after.payload.clone_from(&texts.payload);
        after.last_error = masked(&after.last_error);
        if after != before {
            after.erased_time = Some(erasure.at);
            after.erased_reason = Some(erasure.reason.clone());
            statement.own.outbox.put(after);
            changed += 1;
        }
    }
    let history: Vec<_> =
        statement.history().all().filter(|row| row.effect.event_id == texts.event_id).cloned().collect();
    for before in history {
        let mut after = before.clone();
        after.effect.detail = masked(&after.effect.detail);
        put!(statement.history, before, after, changed);
    }
    changed
}

/// Masks what consumers, operators and receivers of webhooks left behind.
fn erase_effects(statement: &mut Statement<'_>, texts: &MaskedTexts) -> u64 {
    let event = &texts.event_id;
    let mut changed = 0;
    let is_settled = |row: &&ConsumptionRow| match row.is.status {
        ConsumeStatus::Success | ConsumeStatus::Dead => true,
        ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed => false,
    };
    let records = statement.consumptions().all().filter(|row| row.is.event_id == *event).filter(is_settled);
    for before in records.cloned().collect::<Vec<_>>() {
        let mut after = before.clone();
        after.is.error_message = masked(&after.is.error_message);
        after.is.consume_result = masked(&after.is.consume_result);
        after.is.payload_hash.clone_from(&texts.payload_hash);
        put!(statement.consumptions, before, after, changed);
    }
    for (queue, body) in &texts.dead_letters {
        let found = statement.dead_letters().get(&(queue.clone(), event.to_string())).cloned();
        let is_decided = |row: &DeadLetterRow| match row.dead_letter.status {
            DeadLetterStatus::Replayed | DeadLetterStatus::Discarded => true,
            DeadLetterStatus::Open | DeadLetterStatus::Replaying => false,
        };
        let Some(before) = found.filter(is_decided) else { continue };
        let mut after = before.clone();
        after.dead_letter.body.clone_from(body);
        after.dead_letter.reason = MASK.to_owned();
        after.dead_letter.note = masked(&after.dead_letter.note);
        put!(statement.dead_letters, before, after, changed);
    }
    let deliveries: Vec<_> = rows::of_event(statement, event).cloned().collect();
    for before in deliveries.into_iter().filter(|it| it.state != DeliveryState::Pending) {
        let Some((id, body)) = texts.deliveries.iter().find(|(id, _)| *id == before.id) else { continue };
        let mut after = before.clone();
        after.body.clone_from(body);
        after.last_error = masked(&after.last_error);
        put!(statement.webhook_deliveries, before, after, changed);
        let attempts: Vec<AttemptRow> =
            statement.webhook_attempts().all().filter(|row| row.delivery == *id).cloned().collect();
        for before in attempts {
            let attempt = before.attempt.clone();
            let (error, response) = (masked(&attempt.error), masked(&attempt.response));
            let after =
                AttemptRow { attempt: WebhookAttempt { error, response, ..attempt }, ..before.clone() };
            put!(statement.webhook_attempts, before, after, changed);
        }
    }
    changed
}
