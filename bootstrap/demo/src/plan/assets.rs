//! Assets that orders use, and the grants that give buyers these assets before trading begins.

use std::collections::BTreeMap;

use marketplace_domain::{Money, Points, UserId};

use super::super::random_numbers::RandomNumbers;
use super::deal::{AssetCoverage, Deal, InvalidPlan, PlannedAssets};

/// Wallet balance of the buyers who have too little: less than the lowest price.
const INSUFFICIENT_BALANCE_MINOR: i64 = 50;

/// Assets that an order uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AssetUse {
    None,
    Coupon,
    /// Wallet balance for a third of the price.
    Wallet,
    /// Points for a quarter of the price.
    Points,
    /// Coupon, wallet balance and points.
    Mixed,
    /// The wallet pays the whole price.
    WholePrice,
    /// The order uses the wallet for the whole price, but the wallet contains less.
    MoreThanBalance,
    /// A coupon that another order also uses.
    SharedCoupon,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct PlannedCoupon {
    pub(in super::super) user: UserId,
    pub(in super::super) discount: Money,
    pub(in super::super) min_spend: Money,
}

/// Assets that the operator grants before trading begins: exactly what the orders use, except for underfunded buyers,
/// who get less.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct AssetGrants {
    pub(in super::super) deposits: BTreeMap<UserId, Money>,
    pub(in super::super) points: BTreeMap<UserId, Points>,
    pub(in super::super) coupons: Vec<PlannedCoupon>,
}

impl AssetGrants {
    pub(in super::super) fn count(&self) -> usize {
        self.deposits.len() + self.points.len() + self.coupons.len()
    }

    fn coupon(&mut self, user: UserId, discount: i64, min_spend: i64) -> Result<usize, InvalidPlan> {
        let coupon_plan =
            PlannedCoupon { user, discount: money(discount.max(1))?, min_spend: money(min_spend)? };
        self.coupons.push(coupon_plan);
        Ok(self.coupons.len() - 1)
    }

    fn deposit(&mut self, user: UserId, amount: Money) -> Result<(), InvalidPlan> {
        if amount > Money::ZERO {
            let before = self.deposits.entry(user).or_insert(Money::ZERO);
            *before = money(before.minor() + amount.minor())?;
        }
        Ok(())
    }

    fn grant(&mut self, user: UserId, amount: Points) -> Result<(), InvalidPlan> {
        if amount > Points::ZERO {
            let before = self.points.entry(user).or_insert(Points::ZERO);
            *before = Points::try_from(before.get() + amount.get())?;
        }
        Ok(())
    }
}

/// Sets the assets of each planned sale and returns the grants. A sale that uses more than the buyer's balance gets its
/// buyer from `underfunded`; these buyers have no other planned sales.
pub(super) fn assign_assets(
    deals: &mut [Deal],
    uses: &[AssetUse],
    underfunded: &[UserId],
    random: &RandomNumbers,
) -> Result<AssetGrants, InvalidPlan> {
    let mut asset_grants = AssetGrants::default();
    for user in underfunded {
        asset_grants.deposit(*user, money(INSUFFICIENT_BALANCE_MINOR)?)?;
    }
    let mut shared: Option<(UserId, usize)> = None;
    for (deal, asset_use) in deals.iter_mut().zip(uses) {
        let (buyer, price) = (deal.buyer, deal.price.minor());
        let part = |of: i64| money((price / of).max(1));
        // A point is worth 0.01 in money, which is one minor unit of the price.
        let points = |of: i64| Points::try_from((price / of).max(1));
        let mut assets = PlannedAssets::NOTHING;
        match asset_use {
            AssetUse::None => {}
            AssetUse::Coupon => assets.coupon = Some(asset_grants.coupon(buyer, price / 5, price / 2)?),
            AssetUse::Wallet => assets.wallet = part(3)?,
            AssetUse::Points => assets.points = points(4)?,
            AssetUse::Mixed => {
                assets.coupon = Some(asset_grants.coupon(buyer, price / 5, price / 2)?);
                (assets.wallet, assets.points) = (part(3)?, points(10)?);
            }
            AssetUse::WholePrice => assets.wallet = deal.price,
            AssetUse::MoreThanBalance => {
                deal.buyer = *random.pick(underfunded).ok_or(InvalidPlan)?;
                deal.assets = PlannedAssets {
                    wallet: deal.price,
                    cover: AssetCoverage::Insufficient,
                    ..PlannedAssets::NOTHING
                };
                continue;
            }
            AssetUse::SharedCoupon => {
                let coupon = match shared.take() {
                    None => {
                        let coupon = asset_grants.coupon(buyer, price / 5, 0)?;
                        shared = Some((buyer, coupon));
                        coupon
                    }
                    Some((owner, coupon)) => {
                        // The buyer must not be the seller.
                        if deal.seller == owner {
                            deal.seller = buyer;
                        }
                        deal.buyer = owner;
                        coupon
                    }
                };
                assets = PlannedAssets { coupon: Some(coupon), cover: AssetCoverage::Contended, ..assets };
            }
        }
        asset_grants.deposit(deal.buyer, assets.wallet)?;
        asset_grants.grant(deal.buyer, assets.points)?;
        deal.assets = assets;
    }
    Ok(asset_grants)
}

fn money(minor: i64) -> Result<Money, InvalidPlan> {
    Money::from_minor(minor).map_err(|_| InvalidPlan)
}
