//! An operation on an asset: what happened, once, under its key.

use std::fmt;

use chrono::{DateTime, Utc};

use super::{Asset, Entry};
use crate::{CouponId, OrderId, PaymentId, RefundId, UserId};
use handover_events::named;
use handover_events::{EventId, TenantId};

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationKind {
    /// An operator puts money into a wallet.
    Deposit,
    /// An operator gives points.
    Grant,
    /// An operator gives a coupon.
    Issue,
    /// Held for an order.
    Freeze,
    /// The order was paid with it.
    Commit,
    /// The order is over unpaid.
    Release,
    /// What was committed is given back.
    Revert,
    /// Points for what was paid in money.
    Earn,
    /// Earned points are taken back.
    Unearn,
    /// Money came in through the gateway.
    Capture,
    /// Money went back through the gateway.
    Payout,
}

named!(OperationKind {
    Deposit => "DEPOSIT", Grant => "GRANT", Issue => "ISSUE", Freeze => "FREEZE", Commit => "COMMIT",
    Release => "RELEASE", Revert => "REVERT", Earn => "EARN", Unearn => "UNEARN", Capture => "CAPTURE",
    Payout => "PAYOUT"
});

/// The key under which an operation happens once in its tenant (004 "幂等键设计"): at most 300 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationKey(String);

impl OperationKey {
    /// An asset is held for an order.
    pub fn freeze(asset: Asset, order: OrderId) -> OperationKey {
        Self::of_order(asset, order, "checkout", "freeze")
    }

    /// The order was paid with it.
    pub fn commit(asset: Asset, order: OrderId) -> OperationKey {
        Self::of_order(asset, order, "commit", "commit")
    }

    /// The hold ends unpaid, whoever ends it: so it ends once.
    pub fn release(asset: Asset, order: OrderId) -> OperationKey {
        Self::of_order(asset, order, "release", "release")
    }

    /// A used coupon is given back; the table of 004 has no key for it (spec §2).
    pub fn give_back(order: OrderId) -> OperationKey {
        OperationKey(format!("order:{order}:giveback"))
    }

    /// What was committed is given back by a refund.
    pub fn revert(asset: Asset, refund: RefundId) -> OperationKey {
        OperationKey(format!("{asset}:{refund}:revert"))
    }

    /// Points are earned by an order.
    pub fn earn(order: OrderId) -> OperationKey {
        OperationKey(format!("points:{order}:earn"))
    }

    /// Earned points are taken back by a refund; the table of 004 has no key for it (spec §2).
    pub fn unearn(refund: RefundId) -> OperationKey {
        OperationKey(format!("points:{refund}:unearn"))
    }

    /// A payment brought money in.
    pub fn capture(payment: PaymentId) -> OperationKey {
        OperationKey(format!("payment:{payment}:capture"))
    }

    /// A refund took money out.
    pub fn payout(refund: RefundId) -> OperationKey {
        OperationKey(format!("refund:{refund}:payout"))
    }

    /// A coupon was issued.
    pub fn issue(coupon: CouponId) -> OperationKey {
        OperationKey(format!("coupon:{coupon}:issue"))
    }

    /// What an operator did for a user, under a key of that operator's: another one's is another. Nobody is who has no
    /// account, as on the command line.
    pub fn by_operator(
        kind: OperationKind,
        user: UserId,
        operator: Option<UserId>,
        key: &str,
    ) -> OperationKey {
        let (kind, operator) = (kind.as_str().to_ascii_lowercase(), operator.map_or(0, UserId::get));
        OperationKey(format!("{kind}:{user}:{operator}:{key}"))
    }

    /// A key as it is kept.
    pub fn stored(text: String) -> OperationKey {
        OperationKey(text)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The coupon's keys are those of the order itself.
    fn of_order(asset: Asset, order: OrderId, coupon: &str, other: &str) -> OperationKey {
        OperationKey(match asset {
            Asset::Coupon => format!("order:{order}:{coupon}"),
            Asset::Wallet | Asset::Points | Asset::Cash => format!("{asset}:{order}:{other}"),
        })
    }
}

impl fmt::Display for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An operation: the visible effect of an event, or of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssetOperation {
    /// The marketplace.
    pub tenant: TenantId,
    /// Under which key it happened once.
    pub key: OperationKey,
    /// What it moved.
    pub asset: Asset,
    /// What it did.
    pub kind: OperationKind,
    /// Whose asset; the buyer where money came or went through the gateway.
    pub user: UserId,
    /// For which order.
    pub order: Option<OrderId>,
    /// By which refund.
    pub refund: Option<RefundId>,
    /// Which coupon.
    pub coupon: Option<CouponId>,
    /// How much: minor units or points, never negative; of a coupon, what it takes off.
    pub amount: i64,
    /// What the user could spend afterwards, where there is such a balance.
    pub balance_after: Option<i64>,
    /// The event that caused it.
    pub event_id: Option<EventId>,
    /// In which trace.
    pub trace_id: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
}

/// An operation and its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    /// The operation.
    pub operation: AssetOperation,
    /// Its entries; none where only a coupon moved, or nothing.
    pub entries: Vec<Entry>,
}

impl Posting {
    /// Whether the entries are a set that double entry allows: their sum is zero, in money and in points.
    pub fn is_balanced(&self) -> bool {
        let sum = |asset| -> i128 {
            let entries = self.entries.iter().filter(|entry| entry.account.asset() == asset);
            entries.map(|entry| i128::from(entry.amount)).sum()
        };
        sum(Asset::Wallet) == 0 && sum(Asset::Points) == 0
    }
}
