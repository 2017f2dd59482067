//! The plan of the day: products, buyers and sellers, payment, and the scenario of each order.

mod assets;
mod deal;

use marketplace_domain::{Money, UserId};

use super::random_numbers::RandomNumbers;
pub(super) use assets::{AssetGrants, PlannedCoupon};
use assets::{AssetUse, assign_assets};
pub(super) use deal::{AssetCoverage, Deal, InvalidPlan, PlannedAssets, Scenario};

/// Orders of each past month, and their price: 2000.00.
const PAST_DEALS: usize = 2;
const PAST_MINOR: i64 = 200_000;
/// Number of ordinary buyers and sellers; their ids are 1 to 50.
const USERS: i64 = 50;
/// Number of buyers who order one and the same lamp at the same moment; their ids are 1001 to 1064.
const LAMP_BUYERS: i64 = 64;
const LAMP_BUYERS_FROM: i64 = 1_001;
const LAMP_SELLER: i64 = 1_000;
/// Number of buyers whose orders use more assets than they have; their ids are 901 to 905.
const UNDERFUNDED: i64 = 5;
const UNDERFUNDED_FROM: i64 = 901;
/// The user who grants assets, retries refunds and handles dead letters.
const OPERATOR: i64 = 9_000;

const TITLES: [&str; 12] = [
    "Desk lamp",
    "Bicycle",
    "Bookshelf",
    "Camera",
    "Teapot",
    "Guitar",
    "Winter coat",
    "Armchair",
    "Record player",
    "Chess set",
    "Sewing machine",
    "Tent",
];
/// Prices are drawn from 1.00 to 500.00.
const CHEAPEST_MINOR: i64 = 100;
const PRICES: usize = 49_901;
/// On average, the gateway sends every report twice for one of this many orders.
const REPORTED_TWICE: usize = 4;
/// Price of the lamp that all `LAMP_BUYERS` order: 88.50.
const LAMP_MINOR: i64 = 8_850;

/// Scenario and asset use of each of 30 orders; a day with more orders repeats the list. A day with fewer orders uses
/// only the first entries of the list, so rare scenarios come last.
const SHARES: [(Scenario, AssetUse); 30] = [
    (Scenario::Completed, AssetUse::Mixed),
    (Scenario::Cancelled, AssetUse::None),
    (Scenario::Unpaid, AssetUse::None),
    (Scenario::PaidOnRetry, AssetUse::None),
    (Scenario::Shipped, AssetUse::None),
    (Scenario::Refunded, AssetUse::Mixed),
    (Scenario::PaidAfterCancel, AssetUse::None),
    (Scenario::Paid, AssetUse::MoreThanBalance),
    (Scenario::Paid, AssetUse::None),
    (Scenario::RefundedOnRetry, AssetUse::None),
    (Scenario::Completed, AssetUse::None),
    (Scenario::Completed, AssetUse::WholePrice),
    // Which of the two orders gets the coupon depends on timing, so both have the same scenario.
    (Scenario::Completed, AssetUse::SharedCoupon),
    (Scenario::Completed, AssetUse::SharedCoupon),
    (Scenario::PaymentFailed, AssetUse::Coupon),
    (Scenario::Cancelled, AssetUse::Wallet),
    (Scenario::ChargedTwice, AssetUse::None),
    (Scenario::Completed, AssetUse::None),
    (Scenario::Unpaid, AssetUse::Points),
    (Scenario::Shipped, AssetUse::None),
    (Scenario::Completed, AssetUse::None),
    (Scenario::PaidAfterFailure, AssetUse::None),
    (Scenario::Refunded, AssetUse::WholePrice),
    (Scenario::Cancelled, AssetUse::None),
    (Scenario::Completed, AssetUse::None),
    (Scenario::RefundedOnRetry, AssetUse::Points),
    (Scenario::Paid, AssetUse::None),
    (Scenario::Unpaid, AssetUse::None),
    (Scenario::ChargedWrongly, AssetUse::None),
    (Scenario::Completed, AssetUse::None),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Ordinary buyers and sellers.
    users: Vec<UserId>,
    /// Planned sales, in the sequence in which the orders are placed.
    pub(super) deals: Vec<Deal>,
    /// Sales of each month before the day.
    pub(super) past_deals: Vec<Deal>,
    /// Sale of the lamp that all `lamp_buyers` order. Its `buyer` is a placeholder: the market replaces it with the
    /// buyer whose order is accepted.
    pub(super) lamp: Deal,
    /// Buyers who order the same lamp at the same moment.
    pub(super) lamp_buyers: Vec<UserId>,
    /// Buyers whose orders use more assets than they have.
    underfunded: Vec<UserId>,
    /// Assets granted before trading begins.
    pub(super) asset_grants: AssetGrants,
    /// The user who grants assets, retries refunds and handles dead letters.
    pub(super) operator: UserId,
    /// Number of the payment, from 1, whose message to fulfillment is corrupted.
    pub(super) corrupted_payment: u64,
}

impl Plan {
    /// Draws the plan of a seed for `orders` orders. All `lamp_buyers` together count as one order, because only one
    /// of them gets the lamp.
    pub(super) fn draw(seed: u64, orders: usize) -> Result<Plan, InvalidPlan> {
        let random = RandomNumbers::new(seed);
        let users = user_ids(1, USERS)?;
        let underfunded = user_ids(UNDERFUNDED_FROM, UNDERFUNDED)?;
        let mut orders_drawn: Vec<(Scenario, AssetUse)> =
            SHARES.into_iter().cycle().take(orders.saturating_sub(1)).collect();
        random.shuffle(&mut orders_drawn);
        let (fates, uses): (Vec<Scenario>, Vec<AssetUse>) = orders_drawn.into_iter().unzip();
        let mut deals = fates
            .into_iter()
            .enumerate()
            .map(|(number, scenario)| {
                let seller = random.below(users.len());
                // The buyer is any user except the seller.
                let buyer = (seller + 1 + random.below(users.len() - 1)) % users.len();
                let (seller, buyer) = users.get(seller).zip(users.get(buyer)).ok_or(InvalidPlan)?;
                let title = random.pick(&TITLES).copied().unwrap_or_default();
                let minor = CHEAPEST_MINOR + i64::try_from(random.below(PRICES)).unwrap_or_default();
                Ok(Deal {
                    seller: *seller,
                    buyer: *buyer,
                    title: format!("{title} no. {}", number + 1),
                    price: Money::from_minor(minor).map_err(|_| InvalidPlan)?,
                    scenario,
                    assets: PlannedAssets::NOTHING,
                    reported_twice: random.below(REPORTED_TWICE) == 0,
                })
            })
            .collect::<Result<Vec<Deal>, InvalidPlan>>()?;
        let asset_grants = assign_assets(&mut deals, &uses, &underfunded, &random)?;
        let paid = deals.iter().filter(|deal| deal.is_paid()).count();
        let lamp_buyers = user_ids(LAMP_BUYERS_FROM, LAMP_BUYERS)?;
        let lamp = Deal {
            seller: LAMP_SELLER.try_into()?,
            buyer: *lamp_buyers.first().ok_or(InvalidPlan)?,
            title: "The only lamp of its kind".to_owned(),
            price: Money::from_minor(LAMP_MINOR).map_err(|_| InvalidPlan)?,
            scenario: Scenario::Completed,
            assets: PlannedAssets::NOTHING,
            reported_twice: true,
        };
        Ok(Plan {
            past_deals: past_deals(&users)?,
            users,
            deals,
            lamp,
            lamp_buyers,
            underfunded,
            asset_grants,
            operator: OPERATOR.try_into()?,
            corrupted_payment: 1 + u64::try_from(random.below(paid.div_ceil(4))).unwrap_or_default(),
        })
    }

    /// All buyers and sellers, including the buyers and the seller of the lamp that many buyers order at once.
    pub(super) fn users(&self) -> Vec<UserId> {
        [self.users.as_slice(), &self.lamp_buyers, &self.underfunded, &[self.lamp.seller]].concat()
    }
}

/// Sales between neighbours, which draw no random numbers: the day of a seed does not depend on them.
fn past_deals(users: &[UserId]) -> Result<Vec<Deal>, InvalidPlan> {
    let deal = |((seller, buyer), title): ((&UserId, &UserId), &str)| {
        Ok(Deal {
            seller: *seller,
            buyer: *buyer,
            title: format!("{title} of a past month"),
            price: Money::from_minor(PAST_MINOR).map_err(|_| InvalidPlan)?,
            scenario: Scenario::Completed,
            assets: PlannedAssets::NOTHING,
            reported_twice: false,
        })
    };
    users.iter().zip(users.iter().skip(1)).zip(TITLES).take(PAST_DEALS).map(deal).collect()
}

fn user_ids(first: i64, count: i64) -> Result<Vec<UserId>, InvalidPlan> {
    Ok((first..first + count).map(UserId::try_from).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests;
