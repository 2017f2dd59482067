//! What operators give before the day begins.

use std::collections::BTreeMap;

use marketplace_domain::{CouponId, Money, Points, UserId};

use super::super::plan::{Gifts, Voucher};
use super::{Market, Pace};

#[derive(Debug, Clone, Copy)]
enum Gift {
    Deposit(UserId, Money),
    Points(UserId, Points),
    /// A coupon, by its place in the plan.
    Coupon(usize, Voucher),
}

impl Market {
    /// Gives all of it; answers with the coupons by their places in the plan.
    pub(in super::super) async fn give(&self, gifts: &Gifts) -> BTreeMap<usize, CouponId> {
        let deposits = gifts.deposits.iter().map(|(user, amount)| Gift::Deposit(*user, *amount));
        let points = gifts.points.iter().map(|(user, points)| Gift::Points(*user, *points));
        let coupons = gifts.coupons.iter().enumerate().map(|(place, voucher)| Gift::Coupon(place, *voucher));
        let all: Vec<Gift> = deposits.chain(points).chain(coupons).collect();
        let given = self.each(all, Pace::Full, |market, gift| async move { market.give_one(gift).await });
        given.await.into_iter().flatten().collect()
    }

    /// `None`: it was not given, which the journal tells.
    async fn give_one(&self, gift: Gift) -> Option<Option<(usize, CouponId)>> {
        let (api, operator) = (&self.api, self.operator);
        let coupon = match gift {
            Gift::Deposit(user, amount) => {
                self.acknowledged("deposit", api.deposit(operator, user, amount).await)?;
                None
            }
            Gift::Points(user, points) => {
                self.acknowledged("grant", api.grant(operator, user, points).await)?;
                None
            }
            Gift::Coupon(place, Voucher { user, discount, min_spend }) => {
                let issued = api.issue(operator, user, discount, min_spend).await;
                let answer = self.acknowledged("coupon", issued)?;
                Some((place, self.expected(answer.id("couponId"), "couponId", &answer)?))
            }
        };
        self.progress.step();
        Some(coupon)
    }
}
