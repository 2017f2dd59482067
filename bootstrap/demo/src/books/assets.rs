//! What is in the database about assets and refunds.

use std::collections::{BTreeMap, BTreeSet};

use handover_outbox::ports::StoreError;
use marketplace::ports::{AccountTotal, MarketView};
use marketplace_domain::{
    Account, Asset, AssetOperation, Balance, Coupon, Hold, OrderId, Purse, Refund, UserId,
};

use super::{PAGE, TENANT, is_last};

/// Every row about assets and refunds that a promise is about.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Assets {
    /// The holds of orders.
    pub(in super::super) holds: BTreeMap<OrderId, Vec<Hold>>,
    /// The operations for orders, those of an order in the order in which they were posted.
    pub(in super::super) operations: BTreeMap<OrderId, Vec<AssetOperation>>,
    /// The refunds of orders.
    pub(in super::super) refunds: BTreeMap<OrderId, Vec<Refund>>,
    /// The coupons of buyers.
    pub(in super::super) coupons: Vec<Coupon>,
    /// What buyers have.
    pub(in super::super) balances: Vec<Balance>,
    /// What the entries of each account of a buyer add up to.
    pub(in super::super) entries: BTreeMap<(UserId, Account), i64>,
    /// What every account of every tenant adds up to.
    pub(in super::super) totals: Vec<AccountTotal>,
}

impl Assets {
    /// Reads what is kept by order and by user.
    pub(super) async fn read(
        view: &mut dyn MarketView,
        users: &[UserId],
        orders: &BTreeSet<OrderId>,
    ) -> Result<Assets, StoreError> {
        let mut assets = Assets { totals: view.account_totals(None).await?, ..Assets::default() };
        for order in orders {
            assets.holds.insert(*order, view.holds_of(TENANT, *order).await?);
            assets.operations.insert(*order, view.operations_of(TENANT, *order).await?);
            assets.refunds.insert(*order, view.refunds_of(TENANT, *order).await?);
        }
        for user in users {
            assets.read_coupons(view, *user).await?;
            for purse in [Purse::Wallet, Purse::Points] {
                assets.balances.extend(view.balance_of(TENANT, *user, purse).await?);
                assets.read_entries(view, *user, purse).await?;
            }
        }
        Ok(assets)
    }

    async fn read_coupons(&mut self, view: &mut dyn MarketView, user: UserId) -> Result<(), StoreError> {
        let mut before = None;
        loop {
            let page = view.coupons_page(TENANT, user, before, PAGE).await?;
            let last = is_last(&page);
            before = page.last().map(|coupon| coupon.id);
            self.coupons.extend(page);
            if last {
                return Ok(());
            }
        }
    }

    async fn read_entries(
        &mut self,
        view: &mut dyn MarketView,
        user: UserId,
        purse: Purse,
    ) -> Result<(), StoreError> {
        let mut before = None;
        loop {
            let page = view.entries_page(TENANT, user, purse, before, PAGE).await?;
            let last = is_last(&page);
            before = page.last().map(|row| row.id);
            for row in page {
                let entry = row.effect.entry;
                *self.entries.entry((user, entry.account)).or_insert(0) += entry.amount;
            }
            if last {
                return Ok(());
            }
        }
    }

    /// The operations for an order.
    pub(in super::super) fn of(&self, order: OrderId) -> &[AssetOperation] {
        self.operations.get(&order).map(Vec::as_slice).unwrap_or_default()
    }

    /// The operations on what is held for orders; money that came and went is none.
    pub(in super::super) fn on_assets(&self) -> impl Iterator<Item = &AssetOperation> {
        self.operations.values().flatten().filter(|operation| Asset::HELD.contains(&operation.asset))
    }
}
