//! What consumers do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_application::ports::{
    EffectQueries, EffectRepo, ListingChange, ListingEntry, NewShipmentTask, Numbered, OrderSide,
    ShipmentTask, StoreError,
};
use handover_domain::{OrderId, ProductId, TenantId, UserId};

use super::limited;
use super::locks::Lock;
use super::statement::next;
use super::tables::{Row, Table, rows_below};
use super::unit::MemoryUnit;

/// Whose listing of which product.
type Listing = (TenantId, UserId, ProductId);

/// The order by which effects are found, and the listing, if they change one.
pub(super) trait OfOrder: Clone {
    fn order(&self) -> (TenantId, OrderId);

    fn listing(&self) -> Option<Listing> {
        None
    }
}

impl OfOrder for ListingChange {
    fn order(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }

    fn listing(&self) -> Option<Listing> {
        Some(ListingChange::listing(self))
    }
}

impl OfOrder for NewShipmentTask {
    fn order(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }
}

#[derive(Default)]
pub(super) struct EffectIndex {
    of_order: BTreeMap<(TenantId, OrderId), BTreeSet<i64>>,
    of_listing: BTreeMap<Listing, BTreeSet<i64>>,
}

impl<E: OfOrder> Row for Numbered<E> {
    type Key = i64;
    type Index = EffectIndex;

    fn key(&self) -> i64 {
        self.id
    }

    fn enter(&self, index: &mut EffectIndex) {
        index.of_order.entry(self.effect.order()).or_default().insert(self.id);
        if let Some(listing) = self.effect.listing() {
            index.of_listing.entry(listing).or_default().insert(self.id);
        }
    }

    fn leave(&self, index: &mut EffectIndex) {
        if let Some(ids) = index.of_order.get_mut(&self.effect.order()) {
            ids.remove(&self.id);
        }
        if let Some(ids) = self.effect.listing().and_then(|listing| index.of_listing.get_mut(&listing)) {
            ids.remove(&self.id);
        }
    }
}

/// The effects of an order in a table, by their numbers.
pub(super) fn of_order<E: OfOrder>(
    table: &Table<Numbered<E>>,
    order: (TenantId, OrderId),
) -> impl Iterator<Item = (i64, &Numbered<E>)> {
    let ids = table.index.of_order.get(&order).into_iter().flatten();
    ids.filter_map(|id| Some((*id, table.get(id)?)))
}

/// The changes of a listing in a table, by their numbers.
fn of_listing<E: OfOrder>(
    table: &Table<Numbered<E>>,
    listing: Listing,
) -> impl Iterator<Item = (i64, &Numbered<E>)> {
    let ids = table.index.of_listing.get(&listing).into_iter().flatten();
    ids.filter_map(|id| Some((*id, table.get(id)?)))
}

/// A product in its seller's listing.
#[derive(Debug, Clone)]
pub(super) struct ListingRow {
    tenant: TenantId,
    seller: UserId,
    entry: ListingEntry,
}

impl Row for ListingRow {
    type Key = Listing;
    type Index = ();

    fn key(&self) -> Listing {
        (self.tenant, self.seller, self.entry.product)
    }
}

#[async_trait]
impl EffectQueries for MemoryUnit {
    async fn listing_changes(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Vec<ListingChange>, StoreError> {
        self.read(|statement| {
            let changes = statement.listing_changes();
            changes.select(|table| of_order(table, (tenant, order))).map(|row| row.effect.clone()).collect()
        })
        .await
    }

    async fn listing_of(
        &mut self,
        tenant: TenantId,
        seller: UserId,
    ) -> Result<Vec<ListingEntry>, StoreError> {
        self.read(|statement| {
            let listings = statement.listings();
            let of_seller = listings.select(|table| {
                let rows = table.rows().iter();
                rows.filter(move |((of_tenant, of_seller, _), _)| {
                    (*of_tenant, *of_seller) == (tenant, seller)
                })
            });
            of_seller.map(|row| row.entry.clone()).collect()
        })
        .await
    }

    async fn shipment_tasks(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Vec<ShipmentTask>, StoreError> {
        self.read(|statement| {
            let shipments = statement.shipments();
            shipments.select(|table| of_order(table, (tenant, order))).map(|row| row.effect.clone()).collect()
        })
        .await
    }

    async fn listings_page(
        &mut self,
        tenant: TenantId,
        seller: UserId,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<ListingEntry>, StoreError> {
        self.read(|statement| {
            let listings = statement.listings();
            let greatest_first = listings
                .select(|table| table.rows().iter().rev().map(|(key, row)| (Reverse(*key), row)))
                .filter(|row| (row.tenant, row.seller) == (tenant, seller))
                .filter(|row| before.is_none_or(|before| row.entry.product < before));
            greatest_first.take(limited(limit)).map(|row| row.entry.clone()).collect()
        })
        .await
    }

    async fn shipments_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<ShipmentTask>>, StoreError> {
        let party = |task: &ShipmentTask| match side {
            OrderSide::Buyer => task.buyer,
            OrderSide::Seller => task.seller,
        };
        self.read(|statement| {
            let tasks = statement.shipments();
            let newest_first =
                tasks.select(|table| rows_below(table, before).map(|(id, row)| (Reverse(id), row)));
            let own = newest_first.filter(|row| (row.effect.tenant, party(&row.effect)) == (tenant, user));
            own.take(limited(limit)).cloned().collect()
        })
        .await
    }
}

#[async_trait]
impl EffectRepo for MemoryUnit {
    async fn change_listings(&mut self, changes: &[ListingChange]) -> Result<(), StoreError> {
        let locks = changes
            .iter()
            .map(|change| Lock::Listing(change.tenant, change.seller, change.product))
            .collect();
        self.write(locks, |statement| {
            for change in changes {
                let id = next(&mut statement.sequences.effects);
                statement.own.listing_changes.put(Numbered { id, effect: change.clone() });
            }
            let listings: BTreeSet<_> = changes.iter().map(ListingChange::listing).collect();
            for listing in listings {
                let all: Vec<ListingChange> = {
                    let changes = statement.listing_changes();
                    let of_listing = changes.select(|table| of_listing(table, listing));
                    of_listing.map(|row| row.effect.clone()).collect()
                };
                let (tenant, seller, _) = listing;
                if let Some(entry) = ListingEntry::after(all.iter()) {
                    statement.own.listings.put(ListingRow { tenant, seller, entry });
                }
            }
            Ok(())
        })
        .await
    }

    async fn open_shipments(&mut self, tasks: &[NewShipmentTask]) -> Result<(), StoreError> {
        self.write(Vec::new(), |statement| {
            for task in tasks {
                let id = next(&mut statement.sequences.effects);
                statement.own.shipments.put(Numbered { id, effect: task.clone() });
            }
            Ok(())
        })
        .await
    }
}
