//! Snapshot of assets, captures and refunds.

use std::collections::{BTreeMap, BTreeSet};

use handover_outbox::ports::StoreError;
use marketplace::ports::{AccountTotal, MarketView};
use marketplace_domain::{
    Account, Asset, AssetOperation, Balance, Capture, Coupon, Hold, OrderId, Purse, Refund, UserId,
};

use super::{PAGE, TENANT, is_last};

/// Every asset, capture and refund row that a promise covers.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Assets {
    pub(in super::super) holds: BTreeMap<OrderId, Vec<Hold>>,
    /// Operations by order, in the sequence in which they were posted.
    pub(in super::super) operations: BTreeMap<OrderId, Vec<AssetOperation>>,
    pub(in super::super) captures: BTreeMap<OrderId, Vec<Capture>>,
    pub(in super::super) refunds: BTreeMap<OrderId, Vec<Refund>>,
    pub(in super::super) coupons: Vec<Coupon>,
    pub(in super::super) balances: Vec<Balance>,
    /// Sum of the ledger entries by user and account.
    pub(in super::super) entries: BTreeMap<(UserId, Account), i64>,
    /// Sum of the ledger entries of each account of every tenant.
    pub(in super::super) totals: Vec<AccountTotal>,
}

impl Assets {
    /// Reads the rows of these users and orders, and the account totals of every tenant.
    pub(super) async fn read(
        view: &mut dyn MarketView,
        users: &[UserId],
        orders: &BTreeSet<OrderId>,
    ) -> Result<Assets, StoreError> {
        let mut assets = Assets { totals: view.account_totals(None).await?, ..Assets::default() };
        for order in orders {
            assets.holds.insert(*order, view.holds_of(TENANT, &[*order]).await?);
            assets.operations.insert(*order, view.operations_of(TENANT, &[*order]).await?);
            assets.captures.insert(*order, view.captures_of(TENANT, &[*order]).await?);
            assets.refunds.insert(*order, view.refunds_of(TENANT, &[*order]).await?);
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

    pub(in super::super) fn of(&self, order: OrderId) -> &[AssetOperation] {
        self.operations.get(&order).map(Vec::as_slice).unwrap_or_default()
    }

    /// The operations on coupons, wallets and points; captures and payouts of money are excluded.
    pub(in super::super) fn on_assets(&self) -> impl Iterator<Item = &AssetOperation> {
        self.operations.values().flatten().filter(|operation| Asset::HELD.contains(&operation.asset))
    }
}
