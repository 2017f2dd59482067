//! Erasure of texts.

use async_trait::async_trait;
use handover_outbox::MASK;
use handover_outbox::ports::{Erasure, ErasureRepo, MaskedTexts, StoreError};

use crate::dialect::{Dialect, MAX_ROWS, padded, placeholders};
use crate::session::Session;
use crate::value::{Value, values};

/// Sets a column to [`MASK`] unless it is NULL.
fn masked(column: &str) -> String {
    format!("{column} = CASE WHEN {column} IS NOT NULL THEN '{MASK}' END")
}

/// Whether a column has another text than [`MASK`].
fn has_text(column: &str) -> String {
    format!("({column} IS NOT NULL AND {column} <> '{MASK}')")
}

/// The statements that mask the texts of an event. None of them changes a row that is masked.
fn statements(dialect: &dyn Dialect, texts: &MaskedTexts, erasure: &Erasure) -> Vec<(String, Vec<Value>)> {
    let MaskedTexts { event_id, payload, payload_hash, dead_letters, deliveries } = texts;
    let by_event = dialect.lock_index("uk_event_id");
    let status = dialect.unindexed("status");
    let mut statements = vec![(
        format!(
            "UPDATE outbox_events {by_event} SET payload = ?, {}, erased_time = ?, erased_reason = ? \
             WHERE event_id = ? AND {status} = 'SENT' AND (payload <> ? OR {})",
            masked("last_error"),
            has_text("last_error"),
        ),
        values![payload, erasure.at, &erasure.reason, event_id, payload],
    )];
    let by_event = dialect.lock_index("idx_outbox_history");
    statements.push((
        format!(
            "UPDATE outbox_history {by_event} SET detail = '{MASK}' WHERE event_id = ? AND {}",
            has_text("detail")
        ),
        values![event_id],
    ));
    let by_event = dialect.lock_index("idx_consume_event");
    statements.push((
        format!(
            "UPDATE event_consume_log {by_event} SET {}, {}, payload_hash = ? WHERE event_id = ? \
             AND {status} IN ('SUCCESS', 'DEAD') AND (payload_hash <> ? OR {} OR {})",
            masked("error_message"),
            masked("consume_result"),
            has_text("error_message"),
            has_text("consume_result"),
        ),
        values![payload_hash, event_id, payload_hash],
    ));
    let by_key = dialect.lock_index("uk_dead_letter");
    for (queue, body) in dead_letters {
        statements.push((
            format!(
                "UPDATE dead_letters {by_key} SET body = ?, reason = '{MASK}', {} \
                 WHERE queue = ? AND message_key = ? AND {status} IN ('REPLAYED', 'DISCARDED') \
                 AND (body <> ? OR reason <> '{MASK}' OR {})",
                masked("note"),
                has_text("note"),
            ),
            values![body, queue, event_id, body],
        ));
    }
    for (id, body) in deliveries {
        statements.push((
            format!(
                "UPDATE webhook_deliveries SET body = ?, {} WHERE id = ? AND state <> 'PENDING' \
                 AND (body <> ? OR {})",
                masked("last_error"),
                has_text("last_error"),
            ),
            values![body, *id, body],
        ));
        let by_delivery = dialect.lock_index("idx_webhook_attempts_delivery");
        statements.push((
            format!(
                "UPDATE webhook_attempts {by_delivery} SET {}, {} WHERE delivery_id = ? AND ({} OR {}) AND EXISTS \
                 (SELECT 1 FROM webhook_deliveries WHERE id = ? AND state <> 'PENDING')",
                masked("error"),
                masked("response"),
                has_text("error"),
                has_text("response"),
            ),
            values![*id, *id],
        ));
    }
    statements
}

#[async_trait]
impl ErasureRepo for Session {
    async fn erase_events(&mut self, events: &[MaskedTexts], erasure: &Erasure) -> Result<u64, StoreError> {
        let mut changed = 0;
        for texts in events {
            for (sql, values) in statements(self.dialect, texts, erasure) {
                changed += self.execute(&sql, values).await?;
            }
        }
        Ok(changed)
    }

    async fn erase_audit_reasons(&mut self, entries: &[i64]) -> Result<u64, StoreError> {
        let mut changed = 0;
        for entries in entries.chunks(MAX_ROWS) {
            let entries = padded(entries);
            let list = placeholders(entries.len());
            let sql = format!(
                "UPDATE outbox_audit_log SET reason = '{MASK}' WHERE id IN ({list}) AND {}",
                has_text("reason")
            );
            changed += self.execute(&sql, entries.into_iter().map(Value::from).collect()).await?;
        }
        Ok(changed)
    }
}
