//! The list of the outbox's tables.

use handover_events::Partition;
use handover_outbox::ports::{AuditEntry, Heartbeat, HistoryEntry, Numbered, OutboxRow, PartitionLease};

use super::consume::{ConsumptionRow, SubscriptionRow};
use super::dead_letters::DeadLetterRow;
use super::locks::Lock;
use crate::tables;

tables! {
    /// Every table of the outbox, as committed.
    pub(super) struct OutboxTables {
        outbox: OutboxRow,
        history: Numbered<HistoryEntry>,
        consumptions: ConsumptionRow,
        subscriptions: SubscriptionRow,
        dead_letters: DeadLetterRow,
        audit_log: Numbered<AuditEntry>,
        relays: Heartbeat,
        partitions: PartitionLease,
    }
    pub(super) struct OutboxChanges;
    pub(super) trait OutboxRows;
    type Lock = Lock;
    type Sequences = OutboxSequences;
}

/// One statement on the outbox's tables.
pub(super) type Statement<'s> = super::statement::Statement<'s, OutboxTables>;

impl OutboxTables {
    /// An empty outbox: no rows but those of the partitions.
    pub(super) fn with_partitions() -> OutboxTables {
        let mut tables = OutboxTables::default();
        for partition in Partition::all() {
            tables.partitions.put(PartitionLease { partition, owner: None, epoch: 0, lease_until: None });
        }
        tables
    }
}

/// The last row id of each table that numbers its rows.
#[derive(Default)]
pub(super) struct OutboxSequences {
    pub(super) outbox: i64,
    pub(super) history: i64,
    pub(super) consumptions: i64,
    pub(super) dead_letters: i64,
    pub(super) audit_log: i64,
}
