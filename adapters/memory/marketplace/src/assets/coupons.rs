//! Coupons.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_memory::store::tables::{Row, below};
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::ExpiredCoupon;
use marketplace_domain::{Coupon, CouponId, CouponStatus, UserId};

use crate::tables::{Market, MarketRows as _, Statement};

#[derive(Default)]
pub(crate) struct CouponIndex {
    of_user: BTreeMap<(TenantId, UserId), BTreeSet<CouponId>>,
    available: BTreeSet<(DateTime<Utc>, CouponId)>,
}

impl Row<Market> for Coupon {
    type Key = CouponId;
    type Index = CouponIndex;

    fn key(&self) -> CouponId {
        self.id
    }

    fn enter(&self, index: &mut CouponIndex) {
        index.of_user.entry((self.tenant, self.user)).or_default().insert(self.id);
        if self.status == CouponStatus::Available {
            index.available.insert((self.expires_at, self.id));
        }
    }

    fn leave(&self, index: &mut CouponIndex) {
        if let Some(ids) = index.of_user.get_mut(&(self.tenant, self.user)) {
            ids.remove(&self.id);
        }
        index.available.remove(&(self.expires_at, self.id));
    }
}

pub(super) fn page(
    statement: &Statement<'_>,
    user: (TenantId, UserId),
    before: Option<CouponId>,
    limit: u32,
) -> Vec<Coupon> {
    let coupons = statement.coupons();
    let page = coupons.select(|table| {
        let ids = table.index.of_user.get(&user).into_iter().flat_map(move |ids| below(ids, before));
        ids.filter_map(|id| Some((Reverse(*id), table.get(id)?)))
    });
    page.take(limited(limit)).cloned().collect()
}

pub(super) fn expired(
    statement: &Statement<'_>,
    now: DateTime<Utc>,
    after: Option<(DateTime<Utc>, CouponId)>,
    limit: u32,
) -> Vec<ExpiredCoupon> {
    let coupons = statement.coupons();
    let earliest_first = coupons.select(|table| {
        let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
        let positions = table.index.available.range((lower, Bound::Unbounded));
        let expired = positions.take_while(move |(expires, _)| *expires <= now);
        expired.filter_map(|entry| Some((*entry, table.get(&entry.1)?)))
    });
    let key = |coupon: &Coupon| ExpiredCoupon {
        tenant: coupon.tenant,
        id: coupon.id,
        expires_at: coupon.expires_at,
    };
    earliest_first.take(limited(limit)).map(key).collect()
}

pub(super) fn insert(statement: &mut Statement<'_>, coupon: &Coupon) -> Result<(), StoreError> {
    if statement.coupons().get(&coupon.id).is_some() {
        return Err(conflict(format!("coupons.id {}", coupon.id)));
    }
    statement.own.coupons.put(coupon.clone());
    Ok(())
}

pub(super) fn advance(statement: &mut Statement<'_>, after: &Coupon) -> Changed {
    let before = statement.coupons().get(&after.id).map(|before| (before.tenant, before.version));
    if before != Some((after.tenant, after.version - 1)) {
        return Changed::None;
    }
    statement.own.coupons.put(after.clone());
    Changed::One
}
