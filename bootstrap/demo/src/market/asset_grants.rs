//! Assets that the operator grants before trading begins.

use std::collections::BTreeMap;

use marketplace_domain::{CouponId, Money, Points, UserId};

use super::super::plan::{AssetGrants, PlannedCoupon};
use super::{Market, TradingPace};

#[derive(Debug, Clone, Copy)]
enum Grant {
    Deposit(UserId, Money),
    Points(UserId, Points),
    /// A coupon with its index in the plan.
    Coupon(usize, PlannedCoupon),
}

impl Market {
    /// Grants all assets; returns the ids of the coupons by their index in the plan.
    pub(in super::super) async fn grant_assets(
        &self,
        asset_grants: &AssetGrants,
    ) -> BTreeMap<usize, CouponId> {
        let deposits = asset_grants.deposits.iter().map(|(user, amount)| Grant::Deposit(*user, *amount));
        let points = asset_grants.points.iter().map(|(user, points)| Grant::Points(*user, *points));
        let coupons = asset_grants
            .coupons
            .iter()
            .enumerate()
            .map(|(index, coupon_plan)| Grant::Coupon(index, *coupon_plan));
        let all: Vec<Grant> = deposits.chain(points).chain(coupons).collect();
        let issued_coupons = self
            .for_each(all, TradingPace::Full, |market, grant| async move { market.grant_one(grant).await });
        issued_coupons.await.into_iter().flatten().collect()
    }

    /// Returns `None` if the grant failed; the journal has the response.
    async fn grant_one(&self, grant: Grant) -> Option<Option<(usize, CouponId)>> {
        let (api, operator) = (&self.api, self.operator);
        let coupon = match grant {
            Grant::Deposit(user, amount) => {
                self.acknowledged("deposit", api.deposit(operator, user, amount).await)?;
                None
            }
            Grant::Points(user, points) => {
                self.acknowledged("grant", api.grant(operator, user, points).await)?;
                None
            }
            Grant::Coupon(index, PlannedCoupon { user, discount, min_spend }) => {
                let issued = api.issue(operator, user, discount, min_spend).await;
                let response = self.acknowledged("coupon", issued)?;
                Some((index, self.expected(response.id("couponId"), "couponId", &response)?))
            }
        };
        self.progress.step();
        Some(coupon)
    }
}
