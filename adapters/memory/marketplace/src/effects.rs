//! Effects of consumers: listing changes, shipment tasks, notifications, credit changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_events::{EventId, TenantId};
use handover_memory::store::statement::next;
use handover_memory::store::tables::{Row, rows_below};
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Numbered, StoreError};
use marketplace::ports::{
    EffectKind, EffectOfFact, EffectQueries, EffectRepo, ListedShipment, ListingChange, ListingEntry,
    NewShipmentTask, OrderSide, SHIPMENT, ShipmentTask,
};
use marketplace_domain::{OrderId, ProductId, ShipmentState, UserId};

use crate::of_orders::of_orders;
use crate::rows::ListingRow;
use crate::tables::{Lock, Market, MarketRows as _, Merged, Table};
use crate::unit::MarketUnit;

/// Key of a listing: tenant, seller, product.
type Listing = (TenantId, UserId, ProductId);

/// An effect about an order. Its natural key is the order and the fact; it may also change a listing.
pub(crate) trait OfOrder: Clone {
    fn order(&self) -> (TenantId, OrderId);

    fn fact(&self) -> String;

    fn event(&self) -> &EventId;

    fn of_fact(&self) -> EffectOfFact {
        let (tenant, order) = self.order();
        EffectOfFact { tenant, order, fact: self.fact(), event_id: self.event().clone() }
    }

    fn listing(&self) -> Option<Listing> {
        None
    }
}

impl OfOrder for ListingChange {
    fn order(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }

    fn fact(&self) -> String {
        self.kind.as_str().to_owned()
    }

    fn event(&self) -> &EventId {
        &self.event_id
    }

    fn listing(&self) -> Option<Listing> {
        Some(ListingChange::listing(self))
    }
}

impl OfOrder for NewShipmentTask {
    fn order(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }

    fn fact(&self) -> String {
        SHIPMENT.to_owned()
    }

    fn event(&self) -> &EventId {
        &self.event_id
    }
}

#[derive(Default)]
pub(crate) struct EffectIndex {
    of_order: BTreeMap<(TenantId, OrderId), BTreeSet<i64>>,
    of_listing: BTreeMap<Listing, BTreeSet<i64>>,
    of_product: BTreeMap<(TenantId, ProductId), BTreeSet<i64>>,
}

impl<E: OfOrder> Row<Market> for Numbered<E> {
    type Key = i64;
    type Index = EffectIndex;

    fn key(&self) -> i64 {
        self.id
    }

    fn enter(&self, index: &mut EffectIndex) {
        index.of_order.entry(self.effect.order()).or_default().insert(self.id);
        if let Some(listing) = self.effect.listing() {
            let (tenant, _, product) = listing;
            index.of_listing.entry(listing).or_default().insert(self.id);
            index.of_product.entry((tenant, product)).or_default().insert(self.id);
        }
    }

    fn leave(&self, index: &mut EffectIndex) {
        if let Some(ids) = index.of_order.get_mut(&self.effect.order()) {
            ids.remove(&self.id);
        }
        if let Some(listing) = self.effect.listing() {
            let (tenant, _, product) = listing;
            let of_listing = index.of_listing.get_mut(&listing);
            let of_product = index.of_product.get_mut(&(tenant, product));
            for ids in of_listing.into_iter().chain(of_product) {
                ids.remove(&self.id);
            }
        }
    }
}

/// The effects of an order, by id.
pub(crate) fn of_order<E: OfOrder>(
    table: &Table<Numbered<E>>,
    order: (TenantId, OrderId),
) -> impl Iterator<Item = (i64, &Numbered<E>)> {
    let ids = table.index.of_order.get(&order).into_iter().flatten();
    ids.filter_map(|id| Some((*id, table.get(id)?)))
}

/// The effects of these orders, by order and id. `read` converts one effect.
pub(crate) fn effects_of<E: OfOrder, T>(
    rows: Merged<'_, Numbered<E>>,
    (tenant, orders): (TenantId, &[OrderId]),
    read: impl Fn(&E) -> T,
) -> Vec<T> {
    of_orders(tenant, orders, |order| {
        rows.select(move |table| of_order(table, order)).map(|row| read(&row.effect)).collect()
    })
}

/// Returns at most `most` effects of one kind, newest first.
fn newest<E: OfOrder>(rows: Merged<'_, Numbered<E>>, most: u32) -> Vec<EffectOfFact> {
    let newest_first = rows.select(|table| rows_below(table, None).map(|(id, row)| (Reverse(id), row)));
    newest_first.take(limited(most)).map(|row| row.effect.of_fact()).collect()
}

/// Locks of the natural keys of effects, sorted: locking in sorted order prevents deadlocks.
pub(crate) fn keys_of<E: OfOrder>(kind: EffectKind, effects: &[E]) -> Vec<Lock> {
    let key = |effect: &E| {
        let (tenant, order) = effect.order();
        Lock::Effect(kind, tenant, order, effect.fact())
    };
    let mut keys: Vec<Lock> = effects.iter().map(key).collect();
    keys.sort_unstable();
    keys
}

/// Fails if an effect with the same natural key exists.
pub(crate) fn check_key<E: OfOrder>(rows: Merged<'_, Numbered<E>>, effect: &E) -> Result<(), StoreError> {
    let fact = effect.fact();
    let mut own = rows.select(|table| of_order(table, effect.order()));
    match own.find(|row| row.effect.fact() == fact) {
        None => Ok(()),
        Some(_) => Err(conflict(format!("effect {fact} of order {}", effect.order().1))),
    }
}

/// The changes of a listing, by id.
fn of_listing<E: OfOrder>(
    table: &Table<Numbered<E>>,
    listing: Listing,
) -> impl Iterator<Item = (i64, &Numbered<E>)> {
    let ids = table.index.of_listing.get(&listing).into_iter().flatten();
    ids.filter_map(|id| Some((*id, table.get(id)?)))
}

impl Row<Market> for ListingRow {
    type Key = Listing;
    type Index = ();

    fn key(&self) -> Listing {
        (self.tenant, self.seller, self.entry.product)
    }
}

#[async_trait]
impl EffectQueries for MarketUnit {
    async fn listing_changes(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<ListingChange>, StoreError> {
        self.read(|statement| effects_of(statement.listing_changes(), (tenant, orders), ListingChange::clone))
            .await
    }

    async fn listing_changes_of_products(
        &mut self,
        tenant: TenantId,
        products: &[ProductId],
    ) -> Result<Vec<ListingChange>, StoreError> {
        let products: BTreeSet<ProductId> = products.iter().copied().collect();
        self.read(|statement| {
            let changes = statement.listing_changes();
            let of_product = |product: ProductId| {
                changes.select(move |table| {
                    let ids = table.index.of_product.get(&(tenant, product)).into_iter().flatten();
                    ids.filter_map(|id| Some((*id, table.get(id)?)))
                })
            };
            products.into_iter().flat_map(of_product).map(|row| row.effect.clone()).collect()
        })
        .await
    }

    async fn effects_of(
        &mut self,
        kind: EffectKind,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<EffectOfFact>, StoreError> {
        let of = (tenant, orders);
        self.read(|statement| match kind {
            EffectKind::ListingChange => effects_of(statement.listing_changes(), of, OfOrder::of_fact),
            EffectKind::Shipment => effects_of(statement.shipments(), of, OfOrder::of_fact),
            EffectKind::Notification => effects_of(statement.notifications(), of, OfOrder::of_fact),
            EffectKind::CreditChange => effects_of(statement.credit_changes(), of, OfOrder::of_fact),
        })
        .await
    }

    async fn effects_without_order(
        &mut self,
        kind: EffectKind,
        tenant: Option<TenantId>,
        most: u32,
    ) -> Result<Vec<EffectOfFact>, StoreError> {
        self.read(|statement| {
            let mut effects = match kind {
                EffectKind::ListingChange => newest(statement.listing_changes(), most),
                EffectKind::Shipment => newest(statement.shipments(), most),
                EffectKind::Notification => newest(statement.notifications(), most),
                EffectKind::CreditChange => newest(statement.credit_changes(), most),
            };
            let orders = statement.orders();
            effects.retain(|effect| {
                let is_visible = tenant.is_none_or(|tenant| effect.tenant == tenant);
                is_visible && orders.get(&effect.order).is_none_or(|order| order.tenant != effect.tenant)
            });
            effects
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
        orders: &[OrderId],
    ) -> Result<Vec<ShipmentTask>, StoreError> {
        self.read(|statement| effects_of(statement.shipments(), (tenant, orders), ShipmentTask::clone)).await
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
        state: Option<ShipmentState>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<ListedShipment>>, StoreError> {
        let party = |task: &ShipmentTask| match side {
            OrderSide::Buyer => task.buyer,
            OrderSide::Seller => task.seller,
        };
        self.read(|statement| {
            let tasks = statement.shipments();
            let newest_first =
                tasks.select(|table| rows_below(table, before).map(|(id, row)| (Reverse(id), row)));
            let own = newest_first.filter(|row| (row.effect.tenant, party(&row.effect)) == (tenant, user));
            let orders = statement.orders();
            let listed = own.map(|row| {
                let order = orders.get(&row.effect.order).filter(|order| order.tenant == tenant);
                let order_status = order.map(|order| order.status);
                Numbered { id: row.id, effect: ListedShipment { task: row.effect.clone(), order_status } }
            });
            let in_state = listed.filter(|row| state.is_none_or(|state| row.effect.state() == state));
            in_state.take(limited(limit)).collect()
        })
        .await
    }
}

#[async_trait]
impl EffectRepo for MarketUnit {
    async fn change_listings(&mut self, changes: &[ListingChange]) -> Result<(), StoreError> {
        let locks = changes
            .iter()
            .map(|change| Lock::Listing(change.tenant, change.seller, change.product))
            .chain(keys_of(EffectKind::ListingChange, changes))
            .collect();
        self.write(locks, |statement| {
            for change in changes {
                check_key(statement.listing_changes(), change)?;
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
        self.write(keys_of(EffectKind::Shipment, tasks), |statement| {
            for task in tasks {
                check_key(statement.shipments(), task)?;
                let id = next(&mut statement.sequences.effects);
                statement.own.shipments.put(Numbered { id, effect: task.clone() });
            }
            Ok(())
        })
        .await
    }
}
