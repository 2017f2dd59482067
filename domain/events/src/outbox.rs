//! The states of an outbox row and the partitions that keep the order of an aggregate.

use serde::{Deserialize, Serialize};

use super::TenantId;

/// Where an outbox row stands (000 §14.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum OutboxStatus {
    /// Not tried yet.
    New,
    /// Tried, due again at `next_retry_time`.
    Retry,
    /// Confirmed by the broker and not returned.
    Sent,
    /// Given up; a person decides.
    Failed,
}

crate::named!(OutboxStatus { New => "NEW", Retry => "RETRY", Sent => "SENT", Failed => "FAILED" });

impl OutboxStatus {
    /// Whether the relay still has work with it. Only such a row may be settled.
    pub const fn is_pending(self) -> bool {
        match self {
            OutboxStatus::New | OutboxStatus::Retry => true,
            OutboxStatus::Sent | OutboxStatus::Failed => false,
        }
    }
}

/// What the history of an outbox row records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HistoryKind {
    /// An attempt was not confirmed; another follows.
    Retry,
    /// An attempt was not confirmed; none follows.
    Failed,
    /// An attempt was confirmed, before the row was redriven.
    Sent,
    /// The row was redriven.
    Redriven,
    /// A consumer that had applied the event ignored another delivery of it.
    Duplicate,
}

crate::named!(HistoryKind {
    Retry => "RETRY",
    Failed => "FAILED",
    Sent => "SENT",
    Redriven => "REDRIVEN",
    Duplicate => "DUPLICATE",
});

/// How many partitions the outbox is split into (design §4). Fixed: rows carry their number.
pub const PARTITIONS: u8 = 64;

/// A share of the outbox that one relay owns at a time; all events of an aggregate are in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u8);

impl Partition {
    /// Every partition.
    pub fn all() -> impl Iterator<Item = Partition> {
        (0..PARTITIONS).map(Partition)
    }

    /// The partition of an aggregate. The SQL migrations compute the same number as a generated column,
    /// so that a row inserted by hand has one too.
    pub fn of(tenant: TenantId, aggregate_id: i64) -> Partition {
        let sum = i128::from(aggregate_id) + i128::from(tenant.get()) * 31;
        Partition(u8::try_from(sum.rem_euclid(i128::from(PARTITIONS))).unwrap_or(0))
    }

    /// From its number, if there is such a partition.
    pub fn from_number(number: i64) -> Option<Partition> {
        u8::try_from(number).ok().filter(|n| *n < PARTITIONS).map(Partition)
    }

    /// Its number, from 0.
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// A set of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionSet(u64);

impl PartitionSet {
    /// None.
    pub const EMPTY: PartitionSet = PartitionSet(0);
    /// All of them.
    pub const ALL: PartitionSet = PartitionSet(u64::MAX);

    /// Whether the partition is in the set.
    pub const fn contains(self, partition: Partition) -> bool {
        self.0 & (1 << partition.0) != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its members in order.
    pub fn iter(self) -> impl Iterator<Item = Partition> {
        Partition::all().filter(move |partition| self.contains(*partition))
    }
}

impl FromIterator<Partition> for PartitionSet {
    fn from_iter<I: IntoIterator<Item = Partition>>(partitions: I) -> Self {
        PartitionSet(partitions.into_iter().fold(0, |set, partition| set | (1 << partition.0)))
    }
}
