//! Effects of consumers: rows that contain the id of the event that caused them.
//!
//! **Invariant:** each effect has a natural key: the order and the fact ([`EffectKind`]). A second row with the same
//! key is a `Conflict`. Handlers check for an existing row before they write ([`EffectQueries::effects_of`]).

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use marketplace_domain::{OrderId, OrderStatus, ProductId, ShipmentState, UserId};

use super::OrderSide;
use handover_outbox::ports::{Numbered, StoreError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingChangeKind {
    /// An order was placed for the product.
    Occupied,
    /// The order was cancelled or refunded.
    Released,
}

impl ListingChangeKind {
    /// Stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            ListingChangeKind::Occupied => "OCCUPIED",
            ListingChangeKind::Released => "RELEASED",
        }
    }
}

/// One change of a seller's listing: adds a row and updates the projection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingChange {
    pub tenant: TenantId,
    pub seller: UserId,
    pub product: ProductId,
    pub order: OrderId,
    /// `aggregate_seq` of the event.
    pub aggregate_seq: i64,
    pub kind: ListingChangeKind,
    pub event_id: EventId,
    /// Time at which the event was applied.
    pub at: DateTime<Utc>,
}

impl ListingChange {
    /// Key of the changed listing entry.
    pub fn listing(&self) -> (TenantId, UserId, ProductId) {
        (self.tenant, self.seller, self.product)
    }
}

/// Current state of a product in its seller's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingEntry {
    pub product: ProductId,
    /// Order that occupies the product; `None` if it is free.
    pub taken_by: Option<OrderId>,
    /// Event that caused the current value of `taken_by`.
    pub event_id: EventId,
    pub update_time: DateTime<Utc>,
}

impl ListingEntry {
    /// Computes the listing of a product from all of its changes, in the sequence in which they were applied. `None` if
    /// there are no changes.
    ///
    /// The product is occupied by the order that occupied it and never released it; if there are several such orders,
    /// by the one whose change was applied last. A release affects only its own order, even if it is applied late: the
    /// release of an old order does not free the product of a newer one.
    pub fn after<'a>(
        changes: impl DoubleEndedIterator<Item = &'a ListingChange> + Clone,
    ) -> Option<ListingEntry> {
        let released: BTreeSet<OrderId> = changes
            .clone()
            .filter(|change| change.kind == ListingChangeKind::Released)
            .map(|change| change.order)
            .collect();
        let occupies = |change: &&ListingChange| {
            change.kind == ListingChangeKind::Occupied && !released.contains(&change.order)
        };
        let releases = |change: &&ListingChange| change.kind == ListingChangeKind::Released;
        let occupant = changes.clone().rev().find(occupies);
        let last = occupant.or_else(|| changes.rev().find(releases))?;
        Some(ListingEntry {
            product: last.product,
            taken_by: occupant.map(|change| change.order),
            event_id: last.event_id.clone(),
            update_time: last.at,
        })
    }
}

/// A shipment task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewShipmentTask {
    pub tenant: TenantId,
    pub order: OrderId,
    pub seller: UserId,
    pub buyer: UserId,
    /// `aggregate_seq` of the event.
    pub aggregate_seq: i64,
    pub event_id: EventId,
    /// Time at which the task was opened.
    pub at: DateTime<Utc>,
}

pub type ShipmentTask = NewShipmentTask;

/// A shipment task and the current status of its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedShipment {
    pub task: ShipmentTask,
    /// `None` if the order does not exist.
    pub order_status: Option<OrderStatus>,
}

impl ListedShipment {
    /// A task without an order is closed: there is nothing to ship.
    pub fn state(&self) -> ShipmentState {
        self.order_status.map_or(ShipmentState::Closed, OrderStatus::shipment_state)
    }
}

/// The business fact that a shipment task belongs to.
pub const SHIPMENT: &str = "SHIPMENT";

/// Returns the business fact that a notification belongs to.
pub fn notification_fact(status: OrderStatus, side: OrderSide) -> String {
    format!("{status}:{}", side.as_str())
}

/// Kinds of effects, except asset operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectKind {
    /// A change of a seller's listing; its fact is [`ListingChangeKind::as_str`].
    ListingChange,
    /// A shipment task; its fact is [`SHIPMENT`].
    Shipment,
    /// A notification to one party; its fact is [`notification_fact`].
    Notification,
    /// A change of a buyer's credit; its fact is the outcome of the order, such as `COMPLETED`.
    CreditChange,
}

impl EffectKind {
    pub const ALL: [EffectKind; 4] =
        [EffectKind::ListingChange, EffectKind::Shipment, EffectKind::Notification, EffectKind::CreditChange];

    /// Table that contains the effects of this kind.
    pub const fn table(self) -> &'static str {
        match self {
            EffectKind::ListingChange => "listing_changes",
            EffectKind::Shipment => "shipments",
            EffectKind::Notification => "notifications",
            EffectKind::CreditChange => "buyer_credit_changes",
        }
    }
}

/// A business fact of an order and the event that caused its effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EffectOfFact {
    pub tenant: TenantId,
    pub order: OrderId,
    /// The fact, as defined by [`EffectKind`].
    pub fact: String,
    pub event_id: EventId,
}

/// Reads effects.
#[handover_macros::wrappable]
#[async_trait]
pub trait EffectQueries: Send {
    /// Every listing change caused by these orders, sorted by order; those of one order in the sequence in which they
    /// were applied.
    async fn listing_changes(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<ListingChange>, StoreError>;

    /// Every listing change of these products, sorted by product; those of one product in the sequence in which they were
    /// applied.
    async fn listing_changes_of_products(
        &mut self,
        tenant: TenantId,
        products: &[ProductId],
    ) -> Result<Vec<ListingChange>, StoreError>;

    /// The effects of one kind of these orders, in any sequence. An effect with several rows MAY be returned several
    /// times.
    async fn effects_of(
        &mut self,
        kind: EffectKind,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<EffectOfFact>, StoreError>;

    /// Effects of one kind whose order does not exist. Checks only the `newest` most recent rows of all tenants, and
    /// returns those effects among them that belong to `tenant` (`None`: to any tenant).
    async fn effects_without_order(
        &mut self,
        kind: EffectKind,
        tenant: Option<TenantId>,
        newest: u32,
    ) -> Result<Vec<EffectOfFact>, StoreError>;

    /// A seller's listing, sorted by product id.
    async fn listing_of(&mut self, tenant: TenantId, seller: UserId)
    -> Result<Vec<ListingEntry>, StoreError>;

    /// Every shipment task of these orders, sorted by order; those of one order in the sequence in which they were
    /// opened.
    async fn shipment_tasks(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<ShipmentTask>, StoreError>;

    /// At most `limit` entries of a seller's listing with a product id below `before`, greatest id first.
    async fn listings_page(
        &mut self,
        tenant: TenantId,
        seller: UserId,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<ListingEntry>, StoreError>;

    /// At most `limit` shipment tasks of a user as buyer or seller (`side`), in this state (`None`: in any) and with an
    /// id below `before`, greatest id first. State and status MUST be those of the order's current row.
    async fn shipments_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        state: Option<ShipmentState>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<ListedShipment>>, StoreError>;
}

/// Writes effects.
#[handover_macros::wrappable]
#[async_trait]
pub trait EffectRepo: Send {
    /// Inserts changes in the given sequence and updates the projection. An entry MUST equal [`ListingEntry::after`] of all
    /// changes of its product, even after concurrent units of work. A second change with the same order and kind MUST be a
    /// `Conflict`.
    async fn change_listings(&mut self, changes: &[ListingChange]) -> Result<(), StoreError>;

    /// Inserts shipment tasks in the given sequence. A second task of an order MUST be a `Conflict`.
    async fn open_shipments(&mut self, tasks: &[NewShipmentTask]) -> Result<(), StoreError>;
}
