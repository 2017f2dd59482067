//! Allocation of ids.

use async_trait::async_trait;

use handover_outbox::ports::StoreError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdKind {
    Product,
    Order,
    Payment,
    Refund,
    Coupon,
}

impl IdKind {
    pub const ALL: [IdKind; 5] =
        [IdKind::Product, IdKind::Order, IdKind::Payment, IdKind::Refund, IdKind::Coupon];

    /// Name of the kind in the table `id_blocks`.
    pub const fn as_str(self) -> &'static str {
        match self {
            IdKind::Product => "product",
            IdKind::Order => "order",
            IdKind::Payment => "payment",
            IdKind::Refund => "refund",
            IdKind::Coupon => "coupon",
        }
    }
}

/// Start of the next block of a kind, and the largest id in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdState {
    /// First id of the next block.
    pub next: i64,
    /// Largest id of a row of any tenant; 0 without rows.
    pub largest: i64,
}

impl IdState {
    /// Whether the next block may contain ids in use, as after a restored backup or a failover that lost commits.
    pub const fn is_behind(self) -> bool {
        self.next <= self.largest
    }
}

/// Reads which ids are in use.
#[handover_macros::wrappable]
#[async_trait]
pub trait IdQueries: Send {
    /// Reads where the next block of a kind begins, and the largest id in use.
    async fn id_state(&mut self, kind: IdKind) -> Result<IdState, StoreError>;

    /// Whether a row of any tenant has this id.
    async fn id_is_taken(&mut self, kind: IdKind, id: i64) -> Result<bool, StoreError>;
}

/// Allocates ids in blocks (spec §1 "ids").
#[handover_macros::wrappable]
#[async_trait]
pub trait IdBlocks: Send {
    /// Raises the start of the next block to at least `next`. MUST NOT lower it.
    async fn raise_id_block(&mut self, kind: IdKind, next: i64) -> Result<(), StoreError>;

    /// Reserves `size` consecutive ids and returns the first. Two committed units of work MUST NOT reserve the same id.
    /// The first id is 1.
    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError>;
}
