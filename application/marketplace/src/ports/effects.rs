//! What consumers do: visible rows, each with the event that caused it.
//!
//! **Invariant:** each effect has a natural key, the order and its transition: a second row of it is a `Conflict`. Handlers
//! look for the first one before they write ([`EffectQueries::effects_of`]).

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, TenantId};
use marketplace_domain::{OrderId, OrderStatus, ProductId, UserId};

use super::OrderSide;
use handover_outbox::ports::{Numbered, StoreError};

/// What happened to a seller's listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingChangeKind {
    /// An order took the product.
    Occupied,
    /// The order was cancelled or refunded.
    Released,
}

impl ListingChangeKind {
    /// The name, as it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            ListingChangeKind::Occupied => "OCCUPIED",
            ListingChangeKind::Released => "RELEASED",
        }
    }
}

/// One change of a seller's listing: a row of its own, and the new state of the projection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingChange {
    /// The tenant.
    pub tenant: TenantId,
    /// Whose listing.
    pub seller: UserId,
    /// Which product.
    pub product: ProductId,
    /// By which order.
    pub order: OrderId,
    /// The event's place in the order of that order.
    pub aggregate_seq: i64,
    /// What happened.
    pub kind: ListingChangeKind,
    /// The event that caused it.
    pub event_id: EventId,
    /// When it was applied.
    pub at: DateTime<Utc>,
}

impl ListingChange {
    /// Whose listing of which product it changes.
    pub fn listing(&self) -> (TenantId, UserId, ProductId) {
        (self.tenant, self.seller, self.product)
    }
}

/// A product in its seller's listing, as the events left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingEntry {
    /// Which product.
    pub product: ProductId,
    /// Taken by this order, or free.
    pub taken_by: Option<OrderId>,
    /// The event that left it so.
    pub event_id: EventId,
    /// When.
    pub update_time: DateTime<Utc>,
}

impl ListingEntry {
    /// How the listing of a product stands after all of its changes, given in the order in which they were applied;
    /// `None` without any.
    ///
    /// It is taken by the order that occupied and never released it: the one that occupied it last, where there are
    /// several. So it ends the same in whatever order the changes come, as the events of different orders do, and as one
    /// that is replayed does.
    pub fn after<'a>(
        changes: impl DoubleEndedIterator<Item = &'a ListingChange> + Clone,
    ) -> Option<ListingEntry> {
        let released: BTreeSet<OrderId> = changes
            .clone()
            .filter(|change| change.kind == ListingChangeKind::Released)
            .map(|change| change.order)
            .collect();
        let holds = |change: &&ListingChange| {
            change.kind == ListingChangeKind::Occupied && !released.contains(&change.order)
        };
        let frees = |change: &&ListingChange| change.kind == ListingChangeKind::Released;
        let holder = changes.clone().rev().find(holds);
        let last = holder.or_else(|| changes.rev().find(frees))?;
        Some(ListingEntry {
            product: last.product,
            taken_by: holder.map(|change| change.order),
            event_id: last.event_id.clone(),
            update_time: last.at,
        })
    }
}

/// A shipment task to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewShipmentTask {
    /// The tenant.
    pub tenant: TenantId,
    /// Which order is to be shipped.
    pub order: OrderId,
    /// By whom.
    pub seller: UserId,
    /// To whom.
    pub buyer: UserId,
    /// The event's place in the order of that order.
    pub aggregate_seq: i64,
    /// The event that caused it.
    pub event_id: EventId,
    /// When it was opened.
    pub at: DateTime<Utc>,
}

/// A shipment task.
pub type ShipmentTask = NewShipmentTask;

/// The fact of an order that has a shipment task.
pub const SHIPMENT: &str = "SHIPMENT";

/// The fact that a party has to be notified of.
pub fn notified_of(status: OrderStatus, side: OrderSide) -> String {
    format!("{status}:{}", side.as_str())
}

/// The effects that rows are kept of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectKind {
    /// A change of a seller's listing; its fact is [`ListingChangeKind::as_str`].
    ListingChange,
    /// A shipment task; its fact is [`SHIPMENT`].
    Shipment,
    /// A notification of one party; its fact is [`notified_of`].
    Notification,
    /// A change of a buyer's credit; its fact is the step.
    CreditChange,
}

impl EffectKind {
    /// All of them.
    pub const ALL: [EffectKind; 4] =
        [EffectKind::ListingChange, EffectKind::Shipment, EffectKind::Notification, EffectKind::CreditChange];

    /// The table of its rows.
    pub const fn table(self) -> &'static str {
        match self {
            EffectKind::ListingChange => "listing_changes",
            EffectKind::Shipment => "shipments",
            EffectKind::Notification => "notifications",
            EffectKind::CreditChange => "buyer_credit_changes",
        }
    }
}

/// A fact of an order that has an effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EffectOfFact {
    /// The tenant.
    pub tenant: TenantId,
    /// The order.
    pub order: OrderId,
    /// The fact, as [`EffectKind`] says.
    pub fact: String,
    /// The event that caused the effect.
    pub event_id: EventId,
}

/// Reads effects.
#[handover_macros::wrappable]
#[async_trait]
pub trait EffectQueries: Send {
    /// Every change of listings by this order, in the order in which they were applied.
    async fn listing_changes(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Vec<ListingChange>, StoreError>;

    /// The effects of one kind that these orders have, in any order; one that has several rows MAY be there several times.
    async fn effects_of(
        &mut self,
        kind: EffectKind,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<EffectOfFact>, StoreError>;

    /// Of the `newest` rows of one kind, those of this tenant (`None`: of any) whose order does not exist.
    async fn effects_without_order(
        &mut self,
        kind: EffectKind,
        tenant: Option<TenantId>,
        newest: u32,
    ) -> Result<Vec<EffectOfFact>, StoreError>;

    /// A seller's listing, by product id.
    async fn listing_of(&mut self, tenant: TenantId, seller: UserId)
    -> Result<Vec<ListingEntry>, StoreError>;

    /// Every shipment task of this order, in the order in which they were opened.
    async fn shipment_tasks(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Vec<ShipmentTask>, StoreError>;

    /// A seller's listing, product ids below `before`, greatest first.
    async fn listings_page(
        &mut self,
        tenant: TenantId,
        seller: UserId,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<ListingEntry>, StoreError>;

    /// The shipment tasks of this user on this side, numbered below `before`, greatest number first.
    async fn shipments_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<ShipmentTask>>, StoreError>;
}

/// Writes effects.
#[handover_macros::wrappable]
#[async_trait]
pub trait EffectRepo: Send {
    /// Adds changes in the order given and brings the projection up to date: a listing MUST stand as
    /// [`ListingEntry::after`] says of all changes of its product, also where units change it at once. A second change of
    /// the same order and kind MUST be a `Conflict`.
    async fn change_listings(&mut self, changes: &[ListingChange]) -> Result<(), StoreError>;

    /// Opens shipment tasks in the order given. A second task of an order MUST be a `Conflict`.
    async fn open_shipments(&mut self, tasks: &[NewShipmentTask]) -> Result<(), StoreError>;
}
