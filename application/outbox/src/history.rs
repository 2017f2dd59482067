//! Writes the history of outbox rows.

use std::fmt;

use chrono::{DateTime, Utc};
use handover_events::{EventId, HistoryKind, OutboxStatus};

use crate::ports::{HistoryEntry, OutboxUnit, Redrive, RedrivenRow, StoreError};
use crate::transaction::Attempt;

/// Adds history entries. Their times MUST be chosen before the first attempt at the unit of work, so that after a
/// commit of unknown outcome only missing entries are added.
pub async fn add(
    unit: &mut dyn OutboxUnit,
    attempt: Attempt,
    mut entries: Vec<HistoryEntry>,
) -> Result<(), StoreError> {
    if attempt.may_be_committed() {
        let events: Vec<EventId> = entries.iter().map(|entry| entry.event_id.clone()).collect();
        let there = unit.history_of(&events).await?;
        entries.retain(|entry| !there.contains(entry));
    }
    if entries.is_empty() { Ok(()) } else { unit.add_history(&entries).await }
}

/// Operator and reason of a redrive.
#[derive(Debug, Clone, Copy)]
pub struct RedrivenBy<'a> {
    /// Name of the operator.
    pub actor: &'a str,
    /// Reason, if the operator gave one.
    pub reason: Option<&'a str>,
}

impl fmt::Display for RedrivenBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            Some(reason) => write!(f, "{}: {reason}", self.actor),
            None => f.write_str(self.actor),
        }
    }
}

/// Redrives rows and adds history entries. Each row gets an entry with operator and reason of the redrive. A row that
/// was `SENT` also gets an entry with its earlier confirm time, because the next confirm overwrites that time. Returns
/// the number of changed rows.
pub async fn redrive(
    unit: &mut dyn OutboxUnit,
    rows: &[Redrive],
    by: RedrivenBy<'_>,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    let moved = unit.redrive(rows, now).await?;
    let entries: Vec<HistoryEntry> =
        moved.iter().flat_map(|row| sent(row).into_iter().chain([redriven(row, by, now)])).collect();
    if !entries.is_empty() {
        unit.add_history(&entries).await?;
    }
    Ok(moved.len() as u64)
}

/// History entry for the earlier confirm of a row that was `SENT`.
fn sent(row: &RedrivenRow) -> Option<HistoryEntry> {
    let at = row.sent_time.filter(|_| row.status == OutboxStatus::Sent)?;
    Some(HistoryEntry {
        tenant: row.tenant,
        event_id: row.event_id.clone(),
        kind: HistoryKind::Sent,
        consumer: None,
        attempts: row.retry_count.saturating_add(1),
        detail: None,
        at,
    })
}

fn redriven(row: &RedrivenRow, by: RedrivenBy<'_>, now: DateTime<Utc>) -> HistoryEntry {
    HistoryEntry {
        tenant: row.tenant,
        event_id: row.event_id.clone(),
        kind: HistoryKind::Redriven,
        consumer: None,
        attempts: 0,
        detail: Some(by.to_string()),
        at: now,
    }
}
