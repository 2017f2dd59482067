//! What one statement sees and changes.

use chrono::{DateTime, TimeDelta, Utc};
use handover_application::ports::{CreditChange, KeptRequest, ListingChange, NewShipmentTask, Notification};
use handover_domain::{Balance, Coupon, Hold, Order, Payment, Product, Refund};
use handover_events::Partition;
use handover_outbox::ports::{
    AuditEntry, Clock, Heartbeat, HistoryEntry, Numbered, OutboxRow, PartitionLease,
};

use super::State;
use super::assets::{EntryRow, OperationRow};
use super::consume::{ConsumptionRow, SubscriptionRow};
use super::credit::CreditRow;
use super::dead_letters::DeadLetterRow;
use super::effects::ListingRow;
use super::ids::IdBlockRow;
use super::tables::{Merged, Overlay, Table};
use crate::clock::moved;

macro_rules! tables {
    ($($name:ident: $row:ty),+ $(,)?) => {
        /// Every table, as committed.
        #[derive(Default)]
        pub(super) struct Tables {
            $(pub(super) $name: Table<$row>),+
        }

        impl Tables {
            /// Every row behind the name of its table.
            pub(super) fn dump(&self) -> Vec<String> {
                let mut rows = Vec::new();
                $(rows.extend(self.$name.rows().values().map(|row| format!("{} {row:?}", stringify!($name))));)+
                rows
            }
        }

        /// Everything that a unit has changed.
        #[derive(Default)]
        pub(super) struct Changes {
            $(pub(super) $name: Overlay<$row>),+
        }

        impl Changes {
            pub(super) fn apply(self, tables: &mut Tables) {
                $(self.$name.apply(&mut tables.$name);)+
            }
        }

        impl Statement<'_> {
            $(pub(super) fn $name(&self) -> Merged<'_, $row> {
                Merged::new(&self.committed.$name, &self.own.$name)
            })+
        }
    };
}

tables! {
    products: Product,
    orders: Order,
    payments: Payment,
    outbox: OutboxRow,
    history: Numbered<HistoryEntry>,
    consumptions: ConsumptionRow,
    subscriptions: SubscriptionRow,
    dead_letters: DeadLetterRow,
    audit_log: Numbered<AuditEntry>,
    listing_changes: Numbered<ListingChange>,
    listings: ListingRow,
    shipments: Numbered<NewShipmentTask>,
    notifications: Numbered<Notification>,
    credit_changes: Numbered<CreditChange>,
    credit: CreditRow,
    refunds: Refund,
    requests: KeptRequest,
    coupons: Coupon,
    holds: Hold,
    balances: Balance,
    operations: OperationRow,
    entries: EntryRow,
    relays: Heartbeat,
    partitions: PartitionLease,
    id_blocks: IdBlockRow,
}

impl Tables {
    /// An empty database: no rows but those of the partitions.
    pub(super) fn with_partitions() -> Tables {
        let mut tables = Tables::default();
        for partition in Partition::all() {
            tables.partitions.put(PartitionLease { partition, owner: None, epoch: 0, lease_until: None });
        }
        tables
    }
}

/// The last row id of each table that numbers its rows. What a unit took and did not commit is never used.
#[derive(Default)]
pub(super) struct Sequences {
    pub(super) outbox: i64,
    pub(super) history: i64,
    pub(super) consumptions: i64,
    pub(super) dead_letters: i64,
    pub(super) audit_log: i64,
    pub(super) effects: i64,
    pub(super) operations: i64,
    pub(super) entries: i64,
}

/// The next id of a sequence.
pub(super) fn next(sequence: &mut i64) -> i64 {
    *sequence += 1;
    *sequence
}

/// One statement of one unit: the latest committed rows, and the unit's own on top.
pub(super) struct Statement<'s> {
    committed: &'s Tables,
    pub(super) own: &'s mut Changes,
    pub(super) sequences: &'s mut Sequences,
    clock: &'s dyn Clock,
    database_offset: TimeDelta,
}

impl<'s> Statement<'s> {
    pub(super) fn new(state: &'s mut State, own: &'s mut Changes, clock: &'s dyn Clock) -> Statement<'s> {
        Statement {
            committed: &state.tables,
            own,
            sequences: &mut state.sequences,
            clock,
            database_offset: state.database_offset,
        }
    }

    /// The database's own now.
    pub(super) fn database_now(&self) -> DateTime<Utc> {
        moved(self.clock.now(), self.database_offset)
    }
}
