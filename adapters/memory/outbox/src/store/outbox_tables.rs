//! Tables, locks and sequences of the outbox.

use handover_events::Partition;
use handover_outbox::ports::{
    AlertRecord, ArchiveFile, AuditEntry, Heartbeat, HistoryEntry, JobRecord, LeaderLease, Numbered,
    OutboxRow, PartitionLease, ProcessReport, RegisteredType, StatSample, UnrecordedFile, WebhookDelivery,
};

use super::locks::Lock;
use super::rows::{ArchivedRow, AttemptRow, ConsumptionRow, DeadLetterRow, EndpointRow, SubscriptionRow};
use crate::tables;

tables! {
    /// The committed tables of the outbox.
    pub(super) struct OutboxTables {
        outbox: OutboxRow,
        archive_files: Numbered<ArchiveFile>,
        archived: ArchivedRow,
        unrecorded: UnrecordedFile,
        history: Numbered<HistoryEntry>,
        consumptions: ConsumptionRow,
        subscriptions: SubscriptionRow,
        registered_types: RegisteredType,
        dead_letters: DeadLetterRow,
        audit_log: Numbered<AuditEntry>,
        relays: Heartbeat,
        partitions: PartitionLease,
        leaders: LeaderLease,
        jobs: JobRecord,
        alerts: AlertRecord,
        process_reports: ProcessReport,
        stat_samples: StatSample,
        webhook_endpoints: EndpointRow,
        webhook_deliveries: WebhookDelivery,
        webhook_attempts: AttemptRow,
    }
    pub(super) struct OutboxChanges;
    pub(super) trait OutboxRows;
    type Lock = Lock;
    type Sequences = OutboxSequences;
}

/// A statement on the tables of the outbox.
pub(super) type Statement<'s> = super::statement::Statement<'s, OutboxTables>;

impl OutboxTables {
    /// Creates an empty outbox that contains only the partition rows.
    pub(super) fn with_partitions() -> OutboxTables {
        let mut tables = OutboxTables::default();
        for partition in Partition::all() {
            tables.partitions.put(PartitionLease { partition, owner: None, epoch: 0, lease_until: None });
        }
        tables
    }
}

/// The last assigned row id per table.
#[derive(Default)]
pub(super) struct OutboxSequences {
    pub(super) outbox: i64,
    pub(super) archive_files: i64,
    pub(super) history: i64,
    pub(super) consumptions: i64,
    pub(super) dead_letters: i64,
    pub(super) audit_log: i64,
    pub(super) webhook_deliveries: i64,
    pub(super) webhook_attempts: i64,
}
