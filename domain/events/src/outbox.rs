//! The states of an outbox row, and the partitions that preserve the order of the events of an aggregate.

use serde::{Deserialize, Serialize};

use super::ids::TenantId;

/// State of an outbox row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum OutboxStatus {
    /// Not published yet.
    New,
    /// The last attempt was not confirmed, or an operator redrove the row; the next attempt is due at
    /// `next_retry_time`.
    Retry,
    /// The broker confirmed the message and did not return it.
    Sent,
    /// No further automatic attempt; an operator must decide.
    Failed,
}

crate::named!(OutboxStatus { New => "NEW", Retry => "RETRY", Sent => "SENT", Failed => "FAILED" });

impl OutboxStatus {
    /// Whether the relay still has to publish the row. Only a pending row may be settled.
    pub const fn is_pending(self) -> bool {
        match self {
            OutboxStatus::New | OutboxStatus::Retry => true,
            OutboxStatus::Sent | OutboxStatus::Failed => false,
        }
    }
}

/// Kind of an entry in the history of an outbox row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HistoryKind {
    /// An attempt was not confirmed; another one follows.
    Retry,
    /// The last attempt was not confirmed; with a consumer: its last attempt failed, and the event became a dead letter. That
    /// entry is recorded only when the dead letter is replayed.
    Failed,
    /// An attempt was confirmed. This entry is recorded only when the row is redriven.
    Sent,
    /// An operator redrove the row; with a consumer: replayed its dead letter at this consumer.
    Redriven,
    /// A consumer ignored another delivery of an event that it had already applied.
    Duplicate,
}

crate::named!(HistoryKind {
    Retry => "RETRY",
    Failed => "FAILED",
    Sent => "SENT",
    Redriven => "REDRIVEN",
    Duplicate => "DUPLICATE",
});

/// Number of partitions of the outbox. It cannot change, because rows store their partition number.
pub const PARTITIONS: u8 = 64;

/// A share of the outbox, owned by one relay at a time. All events of an aggregate are in the same partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u8);

impl Partition {
    /// All partitions, in ascending order.
    pub fn all() -> impl Iterator<Item = Partition> {
        (0..PARTITIONS).map(Partition)
    }

    /// The partition of an aggregate with this [`number`](crate::AggregateId::number). The SQL migrations compute the same number in a generated column, so that rows
    /// inserted with SQL also have one.
    pub fn of(tenant: TenantId, aggregate_id: i64) -> Partition {
        let sum = i128::from(aggregate_id) + i128::from(tenant.get()) * 31;
        Partition(u8::try_from(sum.rem_euclid(i128::from(PARTITIONS))).unwrap_or(0))
    }

    /// The partition with this number; `None` if it does not exist.
    pub fn from_number(number: i64) -> Option<Partition> {
        u8::try_from(number).ok().filter(|n| *n < PARTITIONS).map(Partition)
    }

    /// The number of the partition, starting at 0.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// A set of partitions, stored as a bit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionSet(u64);

impl PartitionSet {
    /// The empty set.
    pub const EMPTY: PartitionSet = PartitionSet(0);
    /// The set of all partitions.
    pub const ALL: PartitionSet = PartitionSet(u64::MAX);

    /// Whether the set contains the partition.
    pub const fn contains(self, partition: Partition) -> bool {
        self.0 & (1 << partition.0) != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The partitions of the set, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Partition> {
        Partition::all().filter(move |partition| self.contains(*partition))
    }
}

impl FromIterator<Partition> for PartitionSet {
    fn from_iter<I: IntoIterator<Item = Partition>>(partitions: I) -> Self {
        PartitionSet(partitions.into_iter().fold(0, |set, partition| set | (1 << partition.0)))
    }
}
