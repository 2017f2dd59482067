//! The order: who may move it where, and what each move announces.
//!
//! **Invariant:** every (status, action, actor) triple is decided here and nowhere else.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::event::{
    EventBody, OrderCancelled, OrderCreated, OrderFacts, OrderPaid, OrderRefunded, OrderStatusChanged,
    OrderTimeout,
};
use super::{Money, OrderId, Product, ProductId, ProductRefusal, ProductStatus, RefundId, TenantId, UserId};

/// A name that is none of an enum's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {expected}")]
pub struct UnknownName {
    /// The names that exist.
    pub expected: &'static str,
}

/// Gives an enum its names in columns and JSON: `as_str`, `Display`, `FromStr`, `ALL`.
macro_rules! named {
    ($enum:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $enum {
            /// Every value.
            pub const ALL: &'static [$enum] = &[$($enum::$variant),+];

            /// Its name in columns and JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $($enum::$variant => $name),+ }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $enum {
            type Err = $crate::UnknownName;
            fn from_str(name: &str) -> Result<Self, $crate::UnknownName> {
                match name {
                    $($name => Ok($enum::$variant),)+
                    _ => Err($crate::UnknownName { expected: concat!($($name, " "),+).trim_ascii_end() }),
                }
            }
        }
    };
}
pub(crate) use named;

/// Where an order stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderStatus {
    /// Created, not paid.
    Pending,
    /// Paid, not shipped.
    Paid,
    /// On its way.
    Shipped,
    /// Received. Terminal.
    Completed,
    /// Closed before it was paid. Terminal.
    Cancelled,
    /// Paid back before it was shipped. Terminal.
    Refunded,
}

named!(OrderStatus {
    Pending => "pending", Paid => "paid", Shipped => "shipped",
    Completed => "completed", Cancelled => "cancelled", Refunded => "refunded"
});

impl OrderStatus {
    /// Whether nothing can happen any more.
    pub const fn is_terminal(self) -> bool {
        match self {
            OrderStatus::Completed | OrderStatus::Cancelled | OrderStatus::Refunded => true,
            OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Shipped => false,
        }
    }

    /// Whether the product of an order in this status is free for another order.
    pub const fn frees_product(self) -> bool {
        match self {
            OrderStatus::Cancelled | OrderStatus::Refunded => true,
            OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => false,
        }
    }
}

/// Why an order was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// By its buyer.
    Buyer,
    /// Not paid in time.
    Timeout,
    /// A coupon, wallet or points lock was refused for good.
    AssetLockFailed,
    /// The payment of an order with assets failed.
    PaymentFailed,
}

named!(CancelReason {
    Buyer => "buyer", Timeout => "timeout", AssetLockFailed => "asset_lock_failed", PaymentFailed => "payment_failed"
});

/// What asks for a cancellation, with what is needed to judge it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// The buyer wants it.
    Buyer,
    /// The order was created at or before this moment and is still not paid (000 §10).
    Timeout {
        /// Orders created later are left alone.
        created_by: DateTime<Utc>,
    },
    /// A lock was refused for good.
    AssetLockFailed,
    /// The payment failed.
    PaymentFailed,
}

impl CancelCause {
    /// The reason that goes into the order.
    pub const fn reason(self) -> CancelReason {
        match self {
            CancelCause::Buyer => CancelReason::Buyer,
            CancelCause::Timeout { .. } => CancelReason::Timeout,
            CancelCause::AssetLockFailed => CancelReason::AssetLockFailed,
            CancelCause::PaymentFailed => CancelReason::PaymentFailed,
        }
    }
}

/// Why a text is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {max} characters without control characters")]
pub struct TextError {
    /// The greatest number of characters.
    pub max: usize,
}

impl TextError {
    pub(crate) fn check(text: &str, max: usize) -> Result<(), TextError> {
        let legal =
            !text.trim().is_empty() && text.chars().count() <= max && !text.chars().any(char::is_control);
        if legal { Ok(()) } else { Err(TextError { max }) }
    }
}

/// How a shipped order travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipment {
    carrier: String,
    tracking_no: String,
}

impl Shipment {
    /// The greatest number of characters of either part.
    pub const MAX_CHARS: usize = 64;

    /// A carrier and its tracking number. The error names the part.
    pub fn new(carrier: String, tracking_no: String) -> Result<Shipment, (&'static str, TextError)> {
        TextError::check(&carrier, Self::MAX_CHARS).map_err(|e| ("carrier", e))?;
        TextError::check(&tracking_no, Self::MAX_CHARS).map_err(|e| ("trackingNo", e))?;
        Ok(Shipment { carrier, tracking_no })
    }

    /// Who carries it.
    pub fn carrier(&self) -> &str {
        &self.carrier
    }

    /// The carrier's number for it.
    pub fn tracking_no(&self) -> &str {
        &self.tracking_no
    }
}

/// What can be done to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderAction {
    /// The money has arrived.
    Pay,
    /// The seller sends it.
    Ship(Shipment),
    /// The buyer has it.
    Complete,
    /// It is closed unpaid.
    Cancel(CancelCause),
    /// It is paid back.
    Refund {
        /// The refund that succeeded.
        refund: RefundId,
        /// What was paid back.
        amount: Money,
    },
}

impl OrderAction {
    /// Its name in messages.
    pub const fn name(&self) -> &'static str {
        match self {
            OrderAction::Pay => "pay",
            OrderAction::Ship(_) => "ship",
            OrderAction::Complete => "complete",
            OrderAction::Cancel(_) => "cancel",
            OrderAction::Refund { .. } => "refund",
        }
    }
}

/// Who asks, seen from the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderActor {
    /// The payment gateway's signed callback.
    Gateway,
    /// Who bought it.
    Buyer,
    /// Who sold it.
    Seller,
    /// The service itself.
    System,
    /// An operator of the tenant.
    Operator,
    /// Any other user.
    Stranger,
}

named!(OrderActor {
    Gateway => "gateway", Buyer => "buyer", Seller => "seller",
    System => "system", Operator => "operator", Stranger => "stranger"
});

/// Why an order refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderRefusal {
    /// This actor may never do that.
    #[error("{actor} may not {action} an order")]
    NotAllowed {
        /// Who asked.
        actor: OrderActor,
        /// What for.
        action: &'static str,
    },
    /// The status does not allow it.
    #[error("cannot {action} an order that is {status}")]
    WrongStatus {
        /// The status it has.
        status: OrderStatus,
        /// What was asked.
        action: &'static str,
    },
    /// A timeout came before the order's deadline.
    #[error("the order's payment deadline has not passed")]
    NotOverdue,
    /// The product cannot be bought.
    #[error(transparent)]
    Product(#[from] ProductRefusal),
}

/// The number that people read: `yyyyMMddHHmmss` and the last ten digits of the order id (spec §2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OrderNo(String);

impl OrderNo {
    /// The number of an order created then.
    pub fn new(created: DateTime<Utc>, id: OrderId) -> OrderNo {
        OrderNo(format!("{}{:010}", created.format("%Y%m%d%H%M%S"), id.get() % 10_000_000_000))
    }

    /// A number that was stored.
    pub fn stored(text: String) -> OrderNo {
        OrderNo(text)
    }

    /// The number as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OrderNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a new order is made of beside the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewOrder {
    /// Chosen before the attempt, so that repeating it is harmless.
    pub id: OrderId,
    /// Who buys.
    pub buyer: UserId,
    /// When.
    pub now: DateTime<Utc>,
}

/// An order and the version of its row, which is the `aggregate_seq` of the events of its last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its id.
    pub id: OrderId,
    /// Its number for people.
    pub order_no: OrderNo,
    /// The marketplace.
    pub tenant: TenantId,
    /// The unique thing it takes.
    pub product: ProductId,
    /// Who buys.
    pub buyer: UserId,
    /// Who sells.
    pub seller: UserId,
    /// Where it stands.
    pub status: OrderStatus,
    /// Why it was cancelled, if it was.
    pub cancel_reason: Option<CancelReason>,
    /// The price of the product that the commit saw.
    pub total: Money,
    /// What is left to be paid in money.
    pub payable: Money,
    /// How it travels, once shipped.
    pub shipment: Option<Shipment>,
    /// Counts the changes of the row, from 1.
    pub version: i64,
    /// When it was created.
    pub create_time: DateTime<Utc>,
    /// When it was paid.
    pub pay_time: Option<DateTime<Utc>>,
    /// When it last changed.
    pub update_time: DateTime<Utc>,
}

impl Order {
    /// Takes the product: the order, the product as it is afterwards, and what is announced.
    pub fn place(product: &Product, new: NewOrder) -> Result<(Order, Product, Vec<EventBody>), OrderRefusal> {
        if product.status != ProductStatus::OnSale {
            return Err(ProductRefusal::WrongStatus { status: product.status }.into());
        }
        if product.seller == new.buyer {
            return Err(ProductRefusal::OwnProduct.into());
        }
        let taken = product.apply(super::ProductAction::Occupy, new.now)?;
        let order = Order {
            id: new.id,
            order_no: OrderNo::new(new.now, new.id),
            tenant: product.tenant,
            product: product.id,
            buyer: new.buyer,
            seller: product.seller,
            status: OrderStatus::Pending,
            cancel_reason: None,
            total: product.price,
            payable: product.price,
            shipment: None,
            version: 1,
            create_time: new.now,
            pay_time: None,
            update_time: new.now,
        };
        let created = EventBody::OrderCreated(OrderCreated {
            order: order.facts(),
            product: product.id,
            quantity: 1,
            price: product.price,
        });
        let timeout = EventBody::OrderTimeout(OrderTimeout { order: order.facts(), create_time: new.now });
        Ok((order, taken, vec![created, timeout]))
    }

    /// Who a user is to this order.
    pub fn party(&self, user: UserId) -> OrderActor {
        if user == self.buyer {
            OrderActor::Buyer
        } else if user == self.seller {
            OrderActor::Seller
        } else {
            OrderActor::Stranger
        }
    }

    /// The order after an action, one version on, and what is announced.
    pub fn apply(
        &self,
        action: &OrderAction,
        actor: OrderActor,
        now: DateTime<Utc>,
    ) -> Result<(Order, Vec<EventBody>), OrderRefusal> {
        if !may(action, actor) {
            return Err(OrderRefusal::NotAllowed { actor, action: action.name() });
        }
        let Some(status) = next(self.status, action) else {
            return Err(OrderRefusal::WrongStatus { status: self.status, action: action.name() });
        };
        let mut after = Order { status, version: self.version + 1, update_time: now, ..self.clone() };
        let order = self.facts();
        let product = self.product;
        let event = match action {
            OrderAction::Pay => {
                after.pay_time = Some(now);
                EventBody::OrderPaid(OrderPaid { order, pay_time: now, amount: self.payable, product })
            }
            OrderAction::Ship(shipment) => {
                after.shipment = Some(shipment.clone());
                self.status_changed(status, now)
            }
            OrderAction::Complete => self.status_changed(status, now),
            OrderAction::Cancel(cause) => {
                if let CancelCause::Timeout { created_by } = cause
                    && self.create_time > *created_by
                {
                    return Err(OrderRefusal::NotOverdue);
                }
                after.cancel_reason = Some(cause.reason());
                EventBody::OrderCancelled(OrderCancelled {
                    order,
                    reason: cause.reason(),
                    cancelled_at: now,
                    product,
                })
            }
            OrderAction::Refund { refund, amount } => EventBody::OrderRefunded(OrderRefunded {
                order,
                refund: *refund,
                amount: *amount,
                refunded_at: now,
                product,
            }),
        };
        Ok((after, vec![event]))
    }

    /// What every payload about this order carries.
    pub fn facts(&self) -> OrderFacts {
        OrderFacts {
            order_id: self.id,
            order_no: self.order_no.clone(),
            buyer_id: self.buyer,
            seller_id: self.seller,
            total_amount: self.total,
        }
    }

    fn status_changed(&self, new_status: OrderStatus, changed_at: DateTime<Utc>) -> EventBody {
        EventBody::OrderStatusChanged(OrderStatusChanged {
            order: self.facts(),
            old_status: self.status,
            new_status,
            changed_at,
        })
    }
}

/// Who may do what (spec §2 "Order").
const fn may(action: &OrderAction, actor: OrderActor) -> bool {
    match action {
        OrderAction::Pay => matches!(actor, OrderActor::Gateway),
        OrderAction::Ship(_) => matches!(actor, OrderActor::Seller),
        OrderAction::Complete | OrderAction::Cancel(CancelCause::Buyer) => matches!(actor, OrderActor::Buyer),
        OrderAction::Cancel(
            CancelCause::Timeout { .. } | CancelCause::AssetLockFailed | CancelCause::PaymentFailed,
        ) => matches!(actor, OrderActor::System),
        OrderAction::Refund { .. } => {
            matches!(actor, OrderActor::Buyer | OrderActor::Operator)
        }
    }
}

/// Where an action leads; `None` is illegal.
const fn next(status: OrderStatus, action: &OrderAction) -> Option<OrderStatus> {
    match (status, action) {
        (OrderStatus::Pending, OrderAction::Pay) => Some(OrderStatus::Paid),
        (OrderStatus::Paid, OrderAction::Ship(_)) => Some(OrderStatus::Shipped),
        (OrderStatus::Shipped, OrderAction::Complete) => Some(OrderStatus::Completed),
        (OrderStatus::Pending, OrderAction::Cancel(_)) => Some(OrderStatus::Cancelled),
        (OrderStatus::Paid, OrderAction::Refund { .. }) => Some(OrderStatus::Refunded),
        (
            OrderStatus::Pending
            | OrderStatus::Paid
            | OrderStatus::Shipped
            | OrderStatus::Completed
            | OrderStatus::Cancelled
            | OrderStatus::Refunded,
            OrderAction::Pay
            | OrderAction::Ship(_)
            | OrderAction::Complete
            | OrderAction::Cancel(_)
            | OrderAction::Refund { .. },
        ) => None,
    }
}
