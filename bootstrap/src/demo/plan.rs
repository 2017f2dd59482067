//! What is going to happen on the day: who sells what to whom, and how each order goes on.

use handover_domain::{IdError, Money, UserId};

use super::dice::Dice;

/// Users who buy and sell: 1 to 50.
pub(super) const USERS: i64 = 50;
/// Who wants the lamp, all at once: 1001 to 1064.
pub(super) const CROWD: i64 = 64;
/// Where the numbers of the crowd begin.
const CROWD_FROM: i64 = 1_001;
/// Who sells the lamp.
const LAMP_SELLER: i64 = 1_000;
/// Who looks at the dead letters.
const OPERATOR: i64 = 9_000;

const GOODS: [&str; 12] = [
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
/// The lamp costs 88.50.
const LAMP_MINOR: i64 = 8_850;

/// How an order goes on after it was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// Paid, shipped, received.
    Completed,
    /// Paid and shipped.
    Shipped,
    /// Paid.
    Paid,
    /// The first payment fails, the second succeeds.
    PaidAtSecondTry,
    /// The buyer thinks better of it.
    Cancelled,
    /// Nobody ever pays.
    LeftAlone,
}

/// The shares, of ten. Whatever a small day leaves out comes last here.
const SHARES: [Fate; 10] = [
    Fate::Completed,
    Fate::Cancelled,
    Fate::LeftAlone,
    Fate::PaidAtSecondTry,
    Fate::Shipped,
    Fate::Paid,
    Fate::Completed,
    Fate::Completed,
    Fate::Cancelled,
    Fate::Paid,
];

/// One thing that is going to be sold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Deal {
    /// Who sells it.
    pub(super) seller: UserId,
    /// Who buys it.
    pub(super) buyer: UserId,
    /// What it is.
    pub(super) title: String,
    /// For how much.
    pub(super) price: Money,
    /// How the order goes on.
    pub(super) fate: Fate,
}

/// A whole day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Who buys and sells.
    users: Vec<UserId>,
    /// What is sold, in the order in which it is bought.
    pub(super) deals: Vec<Deal>,
    /// The one lamp; whoever of the crowd gets it is its buyer.
    pub(super) lamp: Deal,
    /// Who wants the lamp.
    pub(super) crowd: Vec<UserId>,
    /// Who looks at the dead letters.
    pub(super) operator: UserId,
    /// The how-manieth payment is the one whose message is spoiled on its way.
    pub(super) spoiled: u64,
}

impl Plan {
    /// The plan of this seed for so many orders, of which one is the lamp's.
    pub(super) fn draw(seed: u64, orders: usize) -> Result<Plan, Unplannable> {
        let dice = Dice::new(seed);
        let users = numbered(1, USERS)?;
        let mut fates: Vec<Fate> = SHARES.into_iter().cycle().take(orders.saturating_sub(1)).collect();
        dice.shuffle(&mut fates);
        let deals = fates
            .into_iter()
            .enumerate()
            .map(|(number, fate)| {
                let seller = dice.below(users.len());
                // Anybody but the seller.
                let buyer = (seller + 1 + dice.below(users.len() - 1)) % users.len();
                let (seller, buyer) = users.get(seller).zip(users.get(buyer)).ok_or(Unplannable)?;
                let title = dice.pick(&GOODS).copied().unwrap_or_default();
                let minor = CHEAPEST_MINOR + i64::try_from(dice.below(PRICES)).unwrap_or_default();
                Ok(Deal {
                    seller: *seller,
                    buyer: *buyer,
                    title: format!("{title} no. {}", number + 1),
                    price: Money::from_minor(minor).map_err(|_| Unplannable)?,
                    fate,
                })
            })
            .collect::<Result<Vec<Deal>, Unplannable>>()?;
        let paid = deals.iter().filter(|deal| deal.fate.is_paid()).count();
        let crowd = numbered(CROWD_FROM, CROWD)?;
        let lamp = Deal {
            seller: LAMP_SELLER.try_into()?,
            buyer: *crowd.first().ok_or(Unplannable)?,
            title: "The only lamp of its kind".to_owned(),
            price: Money::from_minor(LAMP_MINOR).map_err(|_| Unplannable)?,
            fate: Fate::Completed,
        };
        Ok(Plan {
            users,
            deals,
            lamp,
            crowd,
            operator: OPERATOR.try_into()?,
            spoiled: 1 + u64::try_from(dice.below(paid.div_ceil(4))).unwrap_or_default(),
        })
    }

    /// Everybody who may buy or sell.
    pub(super) fn users(&self) -> Vec<UserId> {
        [self.users.as_slice(), &self.crowd, &[self.lamp.seller]].concat()
    }
}

impl Fate {
    /// Whether money arrives.
    fn is_paid(self) -> bool {
        match self {
            Fate::Completed | Fate::Shipped | Fate::Paid | Fate::PaidAtSecondTry => true,
            Fate::Cancelled | Fate::LeftAlone => false,
        }
    }
}

/// A number of the plan that is no id or no price: a mistake of the plan's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the plan of the day names a user or a price that cannot be")]
pub(super) struct Unplannable;

impl From<IdError> for Unplannable {
    fn from(_: IdError) -> Unplannable {
        Unplannable
    }
}

fn numbered(first: i64, count: i64) -> Result<Vec<UserId>, Unplannable> {
    Ok((first..first + count).map(UserId::try_from).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn the_same_seed_plans_the_same_day() {
        assert_eq!(Plan::draw(3, 200), Plan::draw(3, 200));
        assert_ne!(Plan::draw(3, 200), Plan::draw(4, 200));
    }

    #[test]
    fn the_shares_are_fixed_and_the_smallest_day_has_every_kind() {
        for seed in 0..50 {
            let small = Plan::draw(seed, 10).unwrap();
            assert_eq!(small.deals.len(), 9, "the tenth is the lamp's");
            let kinds: BTreeSet<Fate> = small.deals.iter().map(|deal| deal.fate).collect();
            assert_eq!(kinds.len(), 6, "{kinds:?}");
        }
        let mut counts = BTreeMap::new();
        for deal in Plan::draw(1, 1_001).unwrap().deals {
            *counts.entry(deal.fate).or_insert(0) += 1;
        }
        let expected = [
            (Fate::Completed, 300),
            (Fate::Shipped, 100),
            (Fate::Paid, 200),
            (Fate::PaidAtSecondTry, 100),
            (Fate::Cancelled, 200),
            (Fate::LeftAlone, 100),
        ];
        assert_eq!(counts, BTreeMap::from(expected));
    }

    #[test]
    fn nobody_buys_from_themselves_and_the_crowd_is_nobody_else() {
        for seed in 0..20 {
            let plan = Plan::draw(seed, 500).unwrap();
            assert!(plan.deals.iter().all(|deal| deal.seller != deal.buyer));
            assert!(plan.deals.iter().all(|deal| deal.seller.get() <= USERS && deal.buyer.get() <= USERS));
            assert_eq!(plan.crowd.len(), 64);
            assert!(plan.crowd.iter().all(|buyer| buyer.get() > USERS && *buyer != plan.lamp.seller));
        }
    }

    #[test]
    fn the_spoiled_payment_is_among_the_first_that_are_made() {
        for seed in 0..200 {
            for orders in [10, 11, 50, 200] {
                let plan = Plan::draw(seed, orders).unwrap();
                let paid = plan.deals.iter().filter(|deal| deal.fate.is_paid()).count();
                assert!((1..=paid.div_ceil(4)).contains(&usize::try_from(plan.spoiled).unwrap()));
            }
        }
    }
}
