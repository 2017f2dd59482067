//! An operation on an asset, executed once per idempotency key.

use std::fmt;

use chrono::{DateTime, Utc};

use super::{Asset, Entry};
use crate::{CouponId, InvoiceId, OrderId, PaymentId, RefundId, UserId};
use handover_events::named;
use handover_events::{EventId, TenantId};

/// Kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationKind {
    /// An operator credits a wallet.
    Deposit,
    /// An operator grants points.
    Grant,
    /// An operator issues a coupon.
    Issue,
    /// The asset is held for an order.
    Freeze,
    /// The held asset pays for the order.
    Commit,
    /// The order ended unpaid; the hold is released.
    Release,
    /// A refund credits the committed asset back to its owner.
    Revert,
    /// Points are earned for the amount paid in money.
    Earn,
    /// A refund revokes earned points.
    Unearn,
    /// Money was received through the gateway: a payment, or a refund that failed after it had succeeded.
    Capture,
    /// Money was refunded through the gateway.
    Payout,
}

named!(OperationKind {
    Deposit => "DEPOSIT", Grant => "GRANT", Issue => "ISSUE", Freeze => "FREEZE", Commit => "COMMIT",
    Release => "RELEASE", Revert => "REVERT", Earn => "EARN", Unearn => "UNEARN", Capture => "CAPTURE",
    Payout => "PAYOUT"
});

/// Idempotency key of an operation, unique in its tenant: at most 300 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationKey(String);

impl OperationKey {
    /// Key for holding an asset for an order.
    pub fn freeze(asset: Asset, order: OrderId) -> OperationKey {
        Self::of_order(asset, order, "checkout", "freeze")
    }

    /// Key for committing the hold of an order.
    pub fn commit(asset: Asset, order: OrderId) -> OperationKey {
        Self::of_order(asset, order, "commit", "commit")
    }

    /// Key for releasing the hold of an order. All callers use the same key, so a hold is released once.
    pub fn release(asset: Asset, order: OrderId) -> OperationKey {
        Self::of_order(asset, order, "release", "release")
    }

    /// Key for making a used coupon available again; the list of keys in the requirements does not contain this key.
    pub fn return_used(order: OrderId) -> OperationKey {
        OperationKey(format!("order:{order}:giveback"))
    }

    /// Key for crediting a committed amount back to its owner after a refund.
    pub fn revert(asset: Asset, refund: RefundId) -> OperationKey {
        OperationKey(format!("{asset}:{refund}:revert"))
    }

    /// Key for crediting the points earned by an order.
    pub fn earn(order: OrderId) -> OperationKey {
        OperationKey(format!("points:{order}:earn"))
    }

    /// Key for revoking earned points after a refund; the list of keys in the requirements does not contain this key.
    pub fn unearn(refund: RefundId) -> OperationKey {
        OperationKey(format!("points:{refund}:unearn"))
    }

    /// Key for recording the money received by the capture with this number, from 1, of a payment.
    pub fn capture(payment: PaymentId, number: u32) -> OperationKey {
        OperationKey(numbered(format!("payment:{payment}:capture"), number))
    }

    /// Key for recording the money that paid an invoice, which is paid once.
    pub fn invoice_capture(invoice: InvoiceId) -> OperationKey {
        OperationKey(format!("invoice:{invoice}:capture"))
    }

    /// Key for recording the money paid out by a refund when it succeeded for the `payout`-th time, from 1.
    pub fn payout(refund: RefundId, payout: u32) -> OperationKey {
        OperationKey(numbered(format!("refund:{refund}:payout"), payout))
    }

    /// Key for recording the money that came back when a refund failed after its `payout`-th success.
    pub fn reversal(refund: RefundId, payout: u32) -> OperationKey {
        OperationKey(numbered(format!("refund:{refund}:reversal"), payout))
    }

    /// Key for issuing a coupon.
    pub fn issue(coupon: CouponId) -> OperationKey {
        OperationKey(format!("coupon:{coupon}:issue"))
    }

    /// Key for an operation of an operator for a user. The same `key` from two operators identifies two operations.
    /// `operator` is `None` for a caller without an account, such as the command line.
    pub fn by_operator(
        kind: OperationKind,
        user: UserId,
        operator: Option<UserId>,
        key: &str,
    ) -> OperationKey {
        let kind = kind.as_str().to_ascii_lowercase();
        let operator = operator.map_or(0, UserId::get);
        OperationKey(format!("{kind}:{user}:{operator}:{key}"))
    }

    /// Creates a key from its stored text, without validation.
    pub fn stored(text: String) -> OperationKey {
        OperationKey(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Keys of coupon operations start with `order:`, those of other assets with the asset's name.
    fn of_order(asset: Asset, order: OrderId, coupon: &str, other: &str) -> OperationKey {
        OperationKey(match asset {
            Asset::Coupon => format!("order:{order}:{coupon}"),
            Asset::Wallet | Asset::Points | Asset::Cash => format!("{asset}:{order}:{other}"),
        })
    }
}

/// Earlier versions wrote only the first operation of its kind, without a number.
fn numbered(key: String, number: u32) -> String {
    if number <= 1 { key } else { format!("{key}:{number}") }
}

impl fmt::Display for OperationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An operation on an asset, caused by an event, a report of the gateway, or an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssetOperation {
    pub tenant: TenantId,
    pub key: OperationKey,
    pub asset: Asset,
    pub kind: OperationKind,
    /// Owner of the asset; for `Capture` and `Payout`, the buyer. `None` for the money of an invoice, which a tenant pays.
    pub user: Option<UserId>,
    pub order: Option<OrderId>,
    pub refund: Option<RefundId>,
    pub coupon: Option<CouponId>,
    /// Amount in minor units or points, never negative; for a coupon, its discount.
    pub amount: i64,
    /// Available balance of the user after the operation, if the asset has a balance.
    pub balance_after: Option<i64>,
    /// The event that caused the operation, or announces it (`Capture`, `Payout`); `None` for an operator.
    pub event_id: Option<EventId>,
    pub trace_id: Option<String>,
    pub at: DateTime<Utc>,
}

/// An operation with its ledger entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    pub operation: AssetOperation,
    /// The ledger entries; empty for coupon operations and for amounts of zero.
    pub entries: Vec<Entry>,
}

impl Posting {
    /// Whether the entries sum to zero, separately for money and points, as double-entry bookkeeping requires.
    pub fn is_balanced(&self) -> bool {
        let sum = |asset| -> i128 {
            let entries = self.entries.iter().filter(|entry| entry.account.asset() == asset);
            entries.map(|entry| i128::from(entry.amount)).sum()
        };
        sum(Asset::Wallet) == 0 && sum(Asset::Points) == 0
    }
}
