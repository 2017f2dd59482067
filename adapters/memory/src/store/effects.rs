//! What consumers do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_application::ports::{
    EffectQueries, EffectRepo, ListingChange, ListingChangeKind, ListingEntry, NewShipmentTask, Numbered,
    OrderSide, ShipmentTask, StoreError,
};
use handover_domain::{OrderId, ProductId, TenantId, UserId};

use super::limited;
use super::locks::Lock;
use super::statement::next;
use super::tables::{Row, Table, rows_below};
use super::unit::MemoryUnit;

/// The order by which effects are found.
pub(super) trait OfOrder: Clone {
    fn order(&self) -> (TenantId, OrderId);
}

impl OfOrder for ListingChange {
    fn order(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }
}

impl OfOrder for NewShipmentTask {
    fn order(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }
}

#[derive(Default)]
pub(super) struct ByOrder(BTreeMap<(TenantId, OrderId), BTreeSet<i64>>);

impl<E: OfOrder> Row for Numbered<E> {
    type Key = i64;
    type Index = ByOrder;

    fn key(&self) -> i64 {
        self.id
    }

    fn enter(&self, index: &mut ByOrder) {
        index.0.entry(self.effect.order()).or_default().insert(self.id);
    }

    fn leave(&self, index: &mut ByOrder) {
        if let Some(ids) = index.0.get_mut(&self.effect.order()) {
            ids.remove(&self.id);
        }
    }
}

/// The effects of an order in a table, by their numbers.
pub(super) fn of_order<E: OfOrder>(
    table: &Table<Numbered<E>>,
    order: (TenantId, OrderId),
) -> impl Iterator<Item = (i64, &Numbered<E>)> {
    let ids = table.index.0.get(&order).into_iter().flatten();
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
    type Key = (TenantId, UserId, ProductId);
    type Index = ();

    fn key(&self) -> (TenantId, UserId, ProductId) {
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
                let key = (change.tenant, change.seller, change.product);
                let taken_by = statement.listings().get(&key).and_then(|row| row.entry.taken_by);
                let taken_by = match change.kind {
                    ListingChangeKind::Occupied => Some(change.order),
                    ListingChangeKind::Released if taken_by == Some(change.order) => None,
                    // Another order has it by now, or nobody.
                    ListingChangeKind::Released => continue,
                };
                statement.own.listings.put(ListingRow {
                    tenant: change.tenant,
                    seller: change.seller,
                    entry: ListingEntry {
                        product: change.product,
                        taken_by,
                        event_id: change.event_id.clone(),
                        update_time: change.at,
                    },
                });
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
