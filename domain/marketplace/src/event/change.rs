//! The change that an event announces, as the timeline of an order shows it.

use super::parts::{PaymentSettled, RefundSettled};
use crate::order_status::OrderStatus;

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Order,
    /// A payment or a refund.
    Payment,
}

/// A change of an order, of its payment or of its refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    /// The status after the change.
    pub status: &'static str,
    /// Description.
    pub what: String,
    /// Additional text.
    pub detail: Option<String>,
    /// Whether `detail` can contain text of buyer or seller.
    pub is_free_text: bool,
}

impl Change {
    pub(super) fn of_order(status: OrderStatus, what: &str) -> Change {
        Change {
            kind: ChangeKind::Order,
            status: status.as_str(),
            what: what.to_owned(),
            detail: None,
            is_free_text: false,
        }
    }

    pub(super) fn of_payment(payment: &PaymentSettled, status: &'static str, how: &str) -> Change {
        Change {
            kind: ChangeKind::Payment,
            status,
            what: format!("payment of {} {} {how}", payment.amount, payment.currency.as_str()),
            detail: Some(payment.payment_method.to_string()),
            is_free_text: true,
        }
    }

    pub(super) fn of_refund(refund: &RefundSettled, status: &'static str, how: &str) -> Change {
        Change {
            kind: ChangeKind::Payment,
            status,
            what: format!("refund of {} {} {how}", refund.amount, refund.currency.as_str()),
            detail: None,
            is_free_text: false,
        }
    }
}
