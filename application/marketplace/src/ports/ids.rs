//! Who hands out which ids.

use async_trait::async_trait;

use handover_outbox::ports::StoreError;

/// What ids are handed out for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdKind {
    /// Products.
    Product,
    /// Orders.
    Order,
    /// Payments.
    Payment,
    /// Refunds.
    Refund,
    /// Coupons.
    Coupon,
}

impl IdKind {
    /// Every kind.
    pub const ALL: [IdKind; 5] =
        [IdKind::Product, IdKind::Order, IdKind::Payment, IdKind::Refund, IdKind::Coupon];

    /// Its name in the table.
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

/// Where the ids of a kind stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdState {
    /// The first id of the next block.
    pub next: i64,
    /// The largest id of a row, of any tenant; 0 without rows.
    pub largest: i64,
}

impl IdState {
    /// Whether the next block may hold ids that rows have: a restored backup, or a failover that lost commits.
    pub const fn is_behind(self) -> bool {
        self.next <= self.largest
    }
}

/// Reads what ids are in use.
#[handover_macros::wrappable]
#[async_trait]
pub trait IdQueries: Send {
    /// Where the ids of a kind stand.
    async fn id_state(&mut self, kind: IdKind) -> Result<IdState, StoreError>;

    /// Whether a row of any tenant has this id.
    async fn id_is_taken(&mut self, kind: IdKind, id: i64) -> Result<bool, StoreError>;
}

/// Hands out ids in blocks (spec §1 "ids").
#[handover_macros::wrappable]
#[async_trait]
pub trait IdBlocks: Send {
    /// Lets the next block begin at `next` or above it; never lower than it would begin anyway.
    async fn raise_id_block(&mut self, kind: IdKind, next: i64) -> Result<(), StoreError>;

    /// Reserves `size` ids in a row and returns the first. No id MUST ever be handed out twice by committed units.
    /// The first of all is 1.
    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError>;
}
