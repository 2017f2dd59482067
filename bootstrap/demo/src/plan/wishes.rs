//! What orders are paid with beside money, and what operators give the buyers for it before the day begins.

use std::collections::BTreeMap;

use marketplace_domain::{Money, Points, UserId};

use super::super::dice::Dice;
use super::{Deal, Unplannable};

/// What the poor are given: less than the cheapest price.
const POCKET_MONEY_MINOR: i64 = 50;

/// What an order is to be paid with beside money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// Nothing.
    Nothing,
    /// A coupon.
    Coupon,
    /// Some of the wallet.
    Wallet,
    /// Some points.
    Points,
    /// Some of each.
    Mixed,
    /// The wallet pays the whole price.
    Whole,
    /// So does it here, but there is not so much in it.
    TooMuch,
    /// A coupon that another order names as well.
    Shared,
}

/// Whether the buyer has what the order names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Cover {
    /// Yes, whatever else is bought.
    Enough,
    /// Whoever comes first has it.
    Perhaps,
    /// No.
    TooLittle,
}

/// What an order names beside money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Asked {
    /// A coupon, by its place among the gifts.
    pub(in super::super) coupon: Option<usize>,
    /// So much of the wallet.
    pub(in super::super) wallet: Money,
    /// So many points.
    pub(in super::super) points: Points,
    /// Whether the buyer has it.
    pub(in super::super) cover: Cover,
}

impl Asked {
    /// Money alone.
    pub(super) const NOTHING: Asked =
        Asked { coupon: None, wallet: Money::ZERO, points: Points::ZERO, cover: Cover::Enough };
}

/// A coupon that is going to be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Voucher {
    /// To whom.
    pub(in super::super) user: UserId,
    /// What it takes off.
    pub(in super::super) discount: Money,
    /// The least price.
    pub(in super::super) min_spend: Money,
}

/// What operators give before the day begins: what the orders name, and no more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct Gifts {
    /// Wallet balance.
    pub(in super::super) deposits: BTreeMap<UserId, Money>,
    /// Points.
    pub(in super::super) points: BTreeMap<UserId, Points>,
    /// Coupons.
    pub(in super::super) coupons: Vec<Voucher>,
}

impl Gifts {
    /// How many gifts that are.
    pub(in super::super) fn count(&self) -> usize {
        self.deposits.len() + self.points.len() + self.coupons.len()
    }

    fn coupon(&mut self, user: UserId, discount: i64, min_spend: i64) -> Result<usize, Unplannable> {
        let voucher = Voucher { user, discount: money(discount.max(1))?, min_spend: money(min_spend)? };
        self.coupons.push(voucher);
        Ok(self.coupons.len() - 1)
    }

    fn deposit(&mut self, user: UserId, amount: Money) -> Result<(), Unplannable> {
        if amount > Money::ZERO {
            let before = self.deposits.entry(user).or_insert(Money::ZERO);
            *before = money(before.minor() + amount.minor())?;
        }
        Ok(())
    }

    fn grant(&mut self, user: UserId, amount: Points) -> Result<(), Unplannable> {
        if amount > Points::ZERO {
            let before = self.points.entry(user).or_insert(Points::ZERO);
            *before = Points::try_from(before.get() + amount.get())?;
        }
        Ok(())
    }
}

/// Writes into each deal what its order names, and answers with what has to be given for it. What is more than its buyer
/// has is asked by one of the poor, who buy nothing else.
pub(super) fn arrange(
    deals: &mut [Deal],
    wishes: &[Wish],
    poor: &[UserId],
    dice: &Dice,
) -> Result<Gifts, Unplannable> {
    let mut gifts = Gifts::default();
    for user in poor {
        gifts.deposit(*user, money(POCKET_MONEY_MINOR)?)?;
    }
    let mut shared: Option<(UserId, usize)> = None;
    for (deal, wish) in deals.iter_mut().zip(wishes) {
        let (buyer, price) = (deal.buyer, deal.price.minor());
        let part = |of: i64| money((price / of).max(1));
        // A point is worth 0.01.
        let points = |of: i64| Points::try_from((price / of).max(1));
        let mut asked = Asked::NOTHING;
        match wish {
            Wish::Nothing => {}
            Wish::Coupon => asked.coupon = Some(gifts.coupon(buyer, price / 5, price / 2)?),
            Wish::Wallet => asked.wallet = part(3)?,
            Wish::Points => asked.points = points(4)?,
            Wish::Mixed => {
                asked.coupon = Some(gifts.coupon(buyer, price / 5, price / 2)?);
                (asked.wallet, asked.points) = (part(3)?, points(10)?);
            }
            Wish::Whole => asked.wallet = deal.price,
            Wish::TooMuch => {
                deal.buyer = *dice.pick(poor).ok_or(Unplannable)?;
                deal.asked = Asked { wallet: deal.price, cover: Cover::TooLittle, ..Asked::NOTHING };
                continue;
            }
            Wish::Shared => {
                let coupon = match shared.take() {
                    None => {
                        let coupon = gifts.coupon(buyer, price / 5, 0)?;
                        shared = Some((buyer, coupon));
                        coupon
                    }
                    Some((owner, coupon)) => {
                        // Nobody buys from themselves.
                        if deal.seller == owner {
                            deal.seller = buyer;
                        }
                        deal.buyer = owner;
                        coupon
                    }
                };
                asked = Asked { coupon: Some(coupon), cover: Cover::Perhaps, ..asked };
            }
        }
        gifts.deposit(deal.buyer, asked.wallet)?;
        gifts.grant(deal.buyer, asked.points)?;
        deal.asked = asked;
    }
    Ok(gifts)
}

fn money(minor: i64) -> Result<Money, Unplannable> {
    Money::from_minor(minor).map_err(|_| Unplannable)
}
