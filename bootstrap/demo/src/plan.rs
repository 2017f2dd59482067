//! What is going to happen on the day: who sells what to whom, what it is paid with, and how each order goes on.

mod wishes;

use handover_events::IdError;
use marketplace_domain::{Money, UserId};

use super::dice::Dice;
pub(super) use wishes::{Asked, Cover, Gifts, Voucher};
use wishes::{Wish, arrange};

/// Users who buy and sell: 1 to 50.
const USERS: i64 = 50;
/// Who wants the lamp, all at once: 1001 to 1064.
const CROWD: i64 = 64;
/// Where the numbers of the crowd begin.
const CROWD_FROM: i64 = 1_001;
/// Who sells the lamp.
const LAMP_SELLER: i64 = 1_000;
/// Who asks for more than they have: 901 to 905.
const POOR: i64 = 5;
const POOR_FROM: i64 = 901;
/// Who gives, pays back and looks at the dead letters.
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
/// Of so many orders the gateway reports everything about one twice.
const REPORTED_TWICE: usize = 4;
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
    /// The payment fails, and with it the order, which names assets.
    PaymentFailed,
    /// The buyer cancels while the payment is on its way.
    PaidTooLate,
    /// Paid, and paid back.
    Refunded,
    /// Paid; the first refund fails, and the operator asks again.
    RefundedAtSecondTry,
}

/// The shares, of thirty: how orders go on, and what they name. Whatever a small day leaves out comes last here.
const SHARES: [(Fate, Wish); 30] = [
    (Fate::Completed, Wish::Mixed),
    (Fate::Cancelled, Wish::Nothing),
    (Fate::LeftAlone, Wish::Nothing),
    (Fate::PaidAtSecondTry, Wish::Nothing),
    (Fate::Shipped, Wish::Nothing),
    (Fate::Refunded, Wish::Mixed),
    (Fate::PaidTooLate, Wish::Nothing),
    (Fate::Paid, Wish::TooMuch),
    (Fate::Paid, Wish::Nothing),
    (Fate::RefundedAtSecondTry, Wish::Nothing),
    (Fate::Completed, Wish::Nothing),
    (Fate::Completed, Wish::Whole),
    // One of the two gets the coupon, so the way of both is the same.
    (Fate::Completed, Wish::Shared),
    (Fate::Completed, Wish::Shared),
    (Fate::PaymentFailed, Wish::Coupon),
    (Fate::Cancelled, Wish::Wallet),
    (Fate::Paid, Wish::Nothing),
    (Fate::Completed, Wish::Nothing),
    (Fate::LeftAlone, Wish::Points),
    (Fate::Shipped, Wish::Nothing),
    (Fate::Completed, Wish::Nothing),
    (Fate::Paid, Wish::Nothing),
    (Fate::Refunded, Wish::Whole),
    (Fate::Cancelled, Wish::Nothing),
    (Fate::Completed, Wish::Nothing),
    (Fate::RefundedAtSecondTry, Wish::Points),
    (Fate::Paid, Wish::Nothing),
    (Fate::LeftAlone, Wish::Nothing),
    (Fate::PaidAtSecondTry, Wish::Nothing),
    (Fate::Completed, Wish::Nothing),
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
    /// What it names beside money.
    pub(super) asked: Asked,
    /// Whether the gateway reports everything about it twice.
    pub(super) reported_twice: bool,
}

impl Deal {
    /// Whether its order is certain to be paid in time.
    fn is_paid(&self) -> bool {
        self.fate.is_paid() && self.asked.cover == Cover::Enough
    }
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
    /// Who asks for more than they have.
    poor: Vec<UserId>,
    /// What is given before the day begins.
    pub(super) gifts: Gifts,
    /// Who gives, pays back and looks at the dead letters.
    pub(super) operator: UserId,
    /// The how-manieth payment is the one whose message is spoiled on its way.
    pub(super) spoiled: u64,
}

impl Plan {
    /// The plan of this seed for so many orders, of which one is the lamp's.
    pub(super) fn draw(seed: u64, orders: usize) -> Result<Plan, Unplannable> {
        let dice = Dice::new(seed);
        let users = numbered(1, USERS)?;
        let poor = numbered(POOR_FROM, POOR)?;
        let mut ways: Vec<(Fate, Wish)> = SHARES.into_iter().cycle().take(orders.saturating_sub(1)).collect();
        dice.shuffle(&mut ways);
        let (fates, wishes): (Vec<Fate>, Vec<Wish>) = ways.into_iter().unzip();
        let mut deals = fates
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
                    asked: Asked::NOTHING,
                    reported_twice: dice.below(REPORTED_TWICE) == 0,
                })
            })
            .collect::<Result<Vec<Deal>, Unplannable>>()?;
        let gifts = arrange(&mut deals, &wishes, &poor, &dice)?;
        let paid = deals.iter().filter(|deal| deal.is_paid()).count();
        let crowd = numbered(CROWD_FROM, CROWD)?;
        let lamp = Deal {
            seller: LAMP_SELLER.try_into()?,
            buyer: *crowd.first().ok_or(Unplannable)?,
            title: "The only lamp of its kind".to_owned(),
            price: Money::from_minor(LAMP_MINOR).map_err(|_| Unplannable)?,
            fate: Fate::Completed,
            asked: Asked::NOTHING,
            reported_twice: true,
        };
        Ok(Plan {
            users,
            deals,
            lamp,
            crowd,
            poor,
            gifts,
            operator: OPERATOR.try_into()?,
            spoiled: 1 + u64::try_from(dice.below(paid.div_ceil(4))).unwrap_or_default(),
        })
    }

    /// Everybody who may buy or sell.
    pub(super) fn users(&self) -> Vec<UserId> {
        [self.users.as_slice(), &self.crowd, &self.poor, &[self.lamp.seller]].concat()
    }
}

impl Fate {
    /// Whether money arrives.
    fn is_paid(self) -> bool {
        match self {
            Fate::Completed
            | Fate::Shipped
            | Fate::Paid
            | Fate::PaidAtSecondTry
            | Fate::Refunded
            | Fate::RefundedAtSecondTry => true,
            Fate::Cancelled | Fate::LeftAlone | Fate::PaymentFailed | Fate::PaidTooLate => false,
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
mod tests;
