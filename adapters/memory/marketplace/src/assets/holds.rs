//! Holds of assets for orders.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_memory::store::tables::Row;
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::StoreError;
use marketplace::ports::FrozenHold;
use marketplace_domain::{Asset, Hold, HoldStatus, OrderId, UserId};

use crate::tables::{Market, MarketRows as _, Statement};

/// Sort key of holds across all tenants.
type Position = (DateTime<Utc>, OrderId, Asset);

#[derive(Default)]
pub(crate) struct HoldIndex {
    of_user: BTreeMap<(TenantId, UserId, Asset), BTreeSet<OrderId>>,
    frozen: BTreeMap<Position, BTreeSet<TenantId>>,
}

impl Row<Market> for Hold {
    type Key = (TenantId, OrderId, Asset);
    type Index = HoldIndex;

    fn key(&self) -> (TenantId, OrderId, Asset) {
        (self.tenant, self.order, self.asset)
    }

    fn enter(&self, index: &mut HoldIndex) {
        if self.status == HoldStatus::Frozen {
            index.of_user.entry((self.tenant, self.user, self.asset)).or_default().insert(self.order);
            index.frozen.entry(position(self)).or_default().insert(self.tenant);
        }
    }

    fn leave(&self, index: &mut HoldIndex) {
        if let Some(orders) = index.of_user.get_mut(&(self.tenant, self.user, self.asset)) {
            orders.remove(&self.order);
        }
        if let Some(tenants) = index.frozen.get_mut(&position(self)) {
            tenants.remove(&self.tenant);
            if tenants.is_empty() {
                index.frozen.remove(&position(self));
            }
        }
    }
}

fn position(hold: &Hold) -> Position {
    (hold.create_time, hold.order, hold.asset)
}

pub(super) fn of_order(statement: &Statement<'_>, (tenant, order): (TenantId, OrderId)) -> Vec<Hold> {
    let holds = statement.holds();
    let of_order = holds.select(|table| {
        let keys = (tenant, order, Asset::Coupon)..=(tenant, order, Asset::Cash);
        table.rows().range(keys)
    });
    of_order.cloned().collect()
}

pub(super) fn of_user(statement: &Statement<'_>, whose: (TenantId, UserId, Asset)) -> Vec<Hold> {
    let (tenant, _, asset) = whose;
    let holds = statement.holds();
    let of_user = holds.select(|table| {
        let orders = table.index.of_user.get(&whose).into_iter().flatten();
        orders.filter_map(move |order| Some((*order, table.get(&(tenant, *order, asset))?)))
    });
    of_user.cloned().collect()
}

pub(super) fn frozen(
    statement: &Statement<'_>,
    created_by: DateTime<Utc>,
    after: Option<(DateTime<Utc>, OrderId, Asset)>,
    limit: u32,
) -> Vec<FrozenHold> {
    let holds = statement.holds();
    let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
    let in_order = holds.select(|table| {
        let positions = table.index.frozen.range((lower, Bound::Unbounded));
        let created = positions.take_while(move |((created, ..), _)| *created <= created_by);
        created.flat_map(move |(position, tenants)| {
            let (_, order, asset) = *position;
            tenants.iter().filter_map(move |tenant| Some((*position, table.get(&(*tenant, order, asset))?)))
        })
    });
    let key = |hold: &Hold| FrozenHold {
        tenant: hold.tenant,
        order: hold.order,
        asset: hold.asset,
        create_time: hold.create_time,
    };
    in_order.take(limited(limit)).map(key).collect()
}

pub(super) fn put(statement: &mut Statement<'_>, hold: &Hold) -> Result<(), StoreError> {
    let expected = (hold.version > 1).then(|| hold.version - 1);
    let stored = statement.holds().get(&hold.key()).map(|before| before.version);
    if stored != expected {
        let Hold { order, asset, .. } = hold;
        return Err(conflict(format!(
            "holds: {asset} of order {order} has version {stored:?}, expected {expected:?}"
        )));
    }
    statement.own.holds.put(hold.clone());
    Ok(())
}
