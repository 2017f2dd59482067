//! Orders.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_memory::store::tables::{Row, below};
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::{DueOrder, OrderQueries, OrderRepo, OrderSide};
use marketplace_domain::{Order, OrderId, OrderStatus, UserId};

use crate::tables::{Lock, Market, MarketRows as _};
use crate::unit::MarketUnit;

/// Orders by the time of their last change. `None` is less than every id, so a range can start before all orders of a
/// time.
type Changes = BTreeSet<(DateTime<Utc>, Option<OrderId>)>;
type ByUser = BTreeMap<(TenantId, UserId), BTreeSet<OrderId>>;

#[derive(Default)]
pub(crate) struct OrderIndex {
    bought: ByUser,
    sold: ByUser,
    pending: BTreeSet<(DateTime<Utc>, OrderId)>,
    /// Shipped orders by the time of their shipment.
    shipped: BTreeSet<(DateTime<Utc>, OrderId)>,
    changed: Changes,
    changed_of: BTreeMap<TenantId, Changes>,
}

impl Row<Market> for Order {
    type Key = OrderId;
    type Index = OrderIndex;

    fn key(&self) -> OrderId {
        self.id
    }

    fn enter(&self, index: &mut OrderIndex) {
        index.bought.entry((self.tenant, self.buyer)).or_default().insert(self.id);
        index.sold.entry((self.tenant, self.seller)).or_default().insert(self.id);
        if self.status == OrderStatus::Pending {
            index.pending.insert((self.create_time, self.id));
        }
        if self.status == OrderStatus::Shipped {
            index.shipped.insert((self.update_time, self.id));
        }
        let changed = (self.update_time, Some(self.id));
        index.changed.insert(changed);
        index.changed_of.entry(self.tenant).or_default().insert(changed);
    }

    fn leave(&self, index: &mut OrderIndex) {
        for (users, user) in [(&mut index.bought, self.buyer), (&mut index.sold, self.seller)] {
            if let Some(orders) = users.get_mut(&(self.tenant, user)) {
                orders.remove(&self.id);
            }
        }
        index.pending.remove(&(self.create_time, self.id));
        index.shipped.remove(&(self.update_time, self.id));
        let changed = (self.update_time, Some(self.id));
        index.changed.remove(&changed);
        if let Some(of_tenant) = index.changed_of.get_mut(&self.tenant) {
            of_tenant.remove(&changed);
        }
    }
}

fn due(order: &Order, time: DateTime<Utc>) -> DueOrder {
    DueOrder { tenant: order.tenant, id: order.id, time }
}

#[async_trait]
impl OrderQueries for MarketUnit {
    async fn order_by_id(&mut self, tenant: TenantId, id: OrderId) -> Result<Option<Order>, StoreError> {
        self.read(|statement| statement.orders().get(&id).filter(|order| order.tenant == tenant).cloned())
            .await
    }

    async fn order_of_party(
        &mut self,
        tenant: TenantId,
        id: OrderId,
        user: UserId,
    ) -> Result<Option<Order>, StoreError> {
        let order = self.order_by_id(tenant, id).await?;
        Ok(order.filter(|order| order.buyer == user || order.seller == user))
    }

    async fn orders_page(
        &mut self,
        tenant: TenantId,
        user: UserId,
        side: OrderSide,
        status: Option<OrderStatus>,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Order>, StoreError> {
        self.read(|statement| {
            let orders = statement.orders();
            let page = orders.select(|table| {
                let users = match side {
                    OrderSide::Buyer => &table.index.bought,
                    OrderSide::Seller => &table.index.sold,
                };
                let ids = users.get(&(tenant, user)).into_iter().flat_map(move |ids| below(ids, before));
                ids.filter_map(|id| Some((Reverse(*id), table.get(id)?)))
            });
            page.filter(|order| status.is_none_or(|status| order.status == status))
                .take(limited(limit))
                .cloned()
                .collect()
        })
        .await
    }

    async fn orders_by_id(
        &mut self,
        tenant: Option<TenantId>,
        ids: &[OrderId],
    ) -> Result<Vec<Order>, StoreError> {
        let ids: BTreeSet<OrderId> = ids.iter().copied().collect();
        self.read(|statement| {
            let orders = statement.orders();
            let found = ids.iter().filter_map(|id| orders.get(id));
            found.filter(|order| tenant.is_none_or(|tenant| order.tenant == tenant)).cloned().collect()
        })
        .await
    }

    async fn orders_changed(
        &mut self,
        tenant: Option<TenantId>,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError> {
        self.read(|statement| {
            let orders = statement.orders();
            let in_order = orders.select(|table| {
                let positions = match tenant {
                    Some(tenant) => table.index.changed_of.get(&tenant),
                    None => Some(&table.index.changed),
                };
                let from = after.map_or((since, None), |(at, id)| (at, Some(id)).max((since, None)));
                let later = (Bound::Excluded(from), Bound::Unbounded);
                let later = positions.into_iter().flat_map(move |positions| positions.range(later));
                let within = later.take_while(move |(changed, _)| *changed < until);
                within.filter_map(|position| Some((*position, table.get(&position.1?)?)))
            });
            in_order.take(limited(limit)).map(|order| due(order, order.update_time)).collect()
        })
        .await
    }

    async fn orders_overdue(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError> {
        self.read(|statement| {
            let orders = statement.orders();
            let oldest_first = orders.select(|table| {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                let later = table.index.pending.range((from, Bound::Unbounded));
                let within = later.take_while(move |(created, _)| *created <= created_by);
                within.filter_map(|entry| Some((*entry, table.get(&entry.1)?)))
            });
            oldest_first.take(limited(limit)).map(|order| due(order, order.create_time)).collect()
        })
        .await
    }

    async fn orders_shipped(
        &mut self,
        shipped_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError> {
        self.read(|statement| {
            let orders = statement.orders();
            let oldest_first = orders.select(|table| {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                let later = table.index.shipped.range((from, Bound::Unbounded));
                let within = later.take_while(move |(shipped, _)| *shipped <= shipped_by);
                within.filter_map(|entry| Some((*entry, table.get(&entry.1)?)))
            });
            oldest_first.take(limited(limit)).map(|order| due(order, order.update_time)).collect()
        })
        .await
    }
}

#[async_trait]
impl OrderRepo for MarketUnit {
    async fn insert_order(&mut self, order: &Order) -> Result<(), StoreError> {
        self.write(vec![Lock::Order(order.id)], |statement| {
            if statement.orders().get(&order.id).is_some() {
                return Err(conflict(format!("orders.id {}", order.id)));
            }
            statement.own.orders.put(order.clone());
            Ok(())
        })
        .await
    }

    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError> {
        self.write(vec![Lock::Order(after.id)], |statement| {
            let before = statement.orders().get(&after.id).map(|before| (before.tenant, before.version));
            if before != Some((after.tenant, after.version - 1)) {
                return Ok(Changed::None);
            }
            statement.own.orders.put(after.clone());
            Ok(Changed::One)
        })
        .await
    }
}
