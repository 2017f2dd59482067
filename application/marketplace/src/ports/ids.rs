//! Allocation of ids.

use async_trait::async_trait;

use handover_events::MAX_ID;
use handover_outbox::ports::StoreError;

/// First integer above the ids: the start of the next block when every id is reserved.
pub const END_OF_IDS: i64 = MAX_ID + 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdKind {
    Product,
    Order,
    Payment,
    Refund,
    Coupon,
    Invoice,
}

impl IdKind {
    pub const ALL: [IdKind; 6] =
        [IdKind::Product, IdKind::Order, IdKind::Payment, IdKind::Refund, IdKind::Coupon, IdKind::Invoice];

    /// Name of the kind in the table `id_blocks`.
    pub const fn as_str(self) -> &'static str {
        match self {
            IdKind::Product => "product",
            IdKind::Order => "order",
            IdKind::Payment => "payment",
            IdKind::Refund => "refund",
            IdKind::Coupon => "coupon",
            IdKind::Invoice => "invoice",
        }
    }
}

/// The ids of a kind are used up, or its stored counter is outside the range of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no {} id is left: the next id in the table id_blocks is {next}, and the largest possible id is {MAX_ID}; delete or \
     renumber imported rows with ids near the limit, set next_id of the kind '{}' to the largest remaining id plus 1, \
     and restart every process",
    kind.as_str(), kind.as_str()
)]
pub struct IdsExhausted {
    pub kind: IdKind,
    /// First id of the next block, as stored.
    pub next: i64,
}

impl From<IdsExhausted> for StoreError {
    fn from(exhausted: IdsExhausted) -> StoreError {
        StoreError::Backend(Box::new(exhausted))
    }
}

/// Start of the next block of a kind, and the largest id in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdState {
    /// First id of the next block.
    pub next: i64,
    /// Largest id up to [`MAX_ID`] of a row of any tenant; 0 without rows. Imported rows may have other ids, which the
    /// service never assigns; they MUST NOT move the counter.
    pub largest: i64,
}

impl IdState {
    /// Whether the next block may contain ids in use, as after a restored backup or a failover that lost commits.
    pub const fn is_behind(self) -> bool {
        self.next <= self.largest
    }

    /// Whether the stored counter is outside the range of ids, so that no block can be reserved.
    pub const fn is_outside_range(self) -> bool {
        self.next < 1 || self.next > END_OF_IDS
    }

    /// Whether 90 % of the ids are reserved.
    pub const fn is_nearly_exhausted(self) -> bool {
        self.next > MAX_ID / 10 * 9
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

/// Allocates ids in blocks.
#[handover_macros::wrappable]
#[async_trait]
pub trait IdBlocks: Send {
    /// Raises the start of the next block to at least `next`. MUST NOT lower it, except from a value above
    /// [`END_OF_IDS`], which the service never stores. Fails with [`IdsExhausted`] if `next` is above [`END_OF_IDS`].
    async fn raise_id_block(&mut self, kind: IdKind, next: i64) -> Result<(), StoreError>;

    /// Reserves `size` consecutive ids and returns the first. Two committed units of work MUST NOT reserve the same id.
    /// The first id is 1. Fails with [`IdsExhausted`] and reserves nothing if the ids would exceed [`MAX_ID`].
    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError>;
}
