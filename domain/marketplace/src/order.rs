//! The order: permitted transitions per actor, and the events of each transition.
//!
//! **Invariant:** only this module decides whether a (status, action, actor) combination is allowed.

mod action;
mod evidence;

pub use action::{CancelCause, OrderAction, OrderActor, OrderRefusal, Shipment};

use chrono::{DateTime, Utc};

use super::event::{
    EventBody, OrderCancelled, OrderCreated, OrderFacts, OrderPaid, OrderRefunded, OrderStatusChanged,
    OrderTimeout,
};
use super::{
    CancelReason, Money, OrderAssets, OrderId, OrderNo, OrderStatus, PointsRules, Product, ProductId,
    ProductRefusal, ProductStatus, RefundId, RequestedAssets, UserId,
};
use handover_events::TenantId;

/// Input for a new order, in addition to the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewOrder {
    /// The order id, generated before the transaction, so that a retry inserts the same order.
    pub id: OrderId,
    pub buyer: UserId,
    pub now: DateTime<Utc>,
}

/// An order. Each change increments the row version; its events have the new version as their `aggregate_seq`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub id: OrderId,
    pub order_no: OrderNo,
    pub tenant: TenantId,
    pub product: ProductId,
    pub buyer: UserId,
    pub seller: UserId,
    pub status: OrderStatus,
    pub cancel_reason: Option<CancelReason>,
    /// Price of the product when the order was placed.
    pub total: Money,
    /// Assets that pay a part of the order.
    pub assets: OrderAssets,
    /// Remaining amount to be paid in money.
    pub payable: Money,
    /// The refund in `PROCESSING`, during which the order cannot be shipped; or the refund that succeeded.
    pub refund: Option<RefundId>,
    pub shipment: Option<Shipment>,
    /// Version of the row, incremented by each change; starts at 1.
    pub version: i64,
    pub create_time: DateTime<Utc>,
    pub pay_time: Option<DateTime<Utc>>,
    /// Time at which the order was completed. Its month is the period in which the order is invoiced.
    pub complete_time: Option<DateTime<Utc>>,
    /// Time of the last change; of a shipped order, the time at which it was shipped.
    pub update_time: DateTime<Utc>,
}

impl Order {
    /// Places an order for a product. Returns the order, the product after the sale, and the events.
    pub fn place(
        product: &Product,
        new: NewOrder,
        requested: &RequestedAssets,
        rules: PointsRules,
    ) -> Result<(Order, Product, Vec<EventBody>), OrderRefusal> {
        if product.status != ProductStatus::OnSale {
            return Err(ProductRefusal::WrongStatus { status: product.status }.into());
        }
        if product.seller == new.buyer {
            return Err(ProductRefusal::OwnProduct.into());
        }
        let (assets, payable) = requested.apply_to(product.price, rules)?;
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
            assets,
            payable,
            refund: None,
            shipment: None,
            version: 1,
            create_time: new.now,
            pay_time: None,
            complete_time: None,
            update_time: new.now,
        };
        let created = EventBody::OrderCreated(OrderCreated {
            order: order.facts(),
            product: product.id,
            quantity: 1,
            price: product.price,
            coupon_id: assets.coupon.map(|coupon| coupon.id),
            wallet_amount: (assets.wallet > Money::ZERO).then_some(assets.wallet),
            points: (assets.points.get() > 0).then_some(assets.points),
        });
        let timeout = EventBody::OrderTimeout(OrderTimeout { order: order.facts(), create_time: new.now });
        Ok((order, taken, vec![created, timeout]))
    }

    /// The role of a user in this order.
    pub fn role_of(&self, user: UserId) -> OrderActor {
        if user == self.buyer {
            OrderActor::Buyer
        } else if user == self.seller {
            OrderActor::Seller
        } else {
            OrderActor::Unrelated
        }
    }

    /// Applies an action. Returns the order with an incremented version, and the events.
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
        if let OrderAction::Ship(_) | OrderAction::BeginRefund { .. } = action
            && self.refund.is_some()
        {
            return Err(OrderRefusal::Refunding { action: action.name() });
        }
        let event = match action {
            OrderAction::Pay => {
                after.pay_time = Some(now);
                EventBody::OrderPaid(OrderPaid { order, pay_time: now, amount: self.payable, product })
            }
            OrderAction::Ship(shipment) => {
                after.shipment = Some(shipment.clone());
                self.status_changed(status, now)
            }
            OrderAction::Complete => {
                after.complete_time = Some(now);
                self.status_changed(status, now)
            }
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
            // The start of a refund has no event. The failure of a refund has no order event, only `REFUND_FAILED`.
            OrderAction::BeginRefund { refund } => {
                after.refund = Some(*refund);
                return Ok((after, Vec::new()));
            }
            OrderAction::AbandonRefund { refund } => {
                self.is_refunded_by(*refund, action)?;
                after.refund = None;
                return Ok((after, Vec::new()));
            }
            // A refund that had failed may succeed later, also while another refund of the order is in progress.
            OrderAction::Refund { refund, amount, .. } => {
                after.refund = Some(*refund);
                EventBody::OrderRefunded(OrderRefunded {
                    order,
                    refund: *refund,
                    amount: *amount,
                    refunded_at: now,
                    product,
                })
            }
        };
        Ok((after, vec![event]))
    }

    /// The fields common to all payloads about this order.
    pub fn facts(&self) -> OrderFacts {
        OrderFacts {
            order_id: self.id,
            order_no: self.order_no.clone(),
            buyer_id: self.buyer,
            seller_id: self.seller,
            total_amount: self.total,
        }
    }

    /// The refund in `PROCESSING`, if there is one.
    pub fn running_refund(&self) -> Option<RefundId> {
        self.refund.filter(|_| self.status == OrderStatus::Paid)
    }

    fn is_refunded_by(&self, refund: RefundId, action: &OrderAction) -> Result<(), OrderRefusal> {
        if self.refund == Some(refund) {
            Ok(())
        } else {
            Err(OrderRefusal::WrongStatus { status: self.status, action: action.name() })
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

/// Whether an actor may perform an action.
const fn may(action: &OrderAction, actor: OrderActor) -> bool {
    match action {
        // If the remaining amount is zero, the service itself marks the order as paid.
        OrderAction::Pay => matches!(actor, OrderActor::Gateway | OrderActor::System),
        OrderAction::Ship(_) | OrderAction::Cancel(CancelCause::Seller { .. }) => {
            matches!(actor, OrderActor::Seller)
        }
        OrderAction::Cancel(CancelCause::Buyer) => matches!(actor, OrderActor::Buyer),
        OrderAction::Complete => matches!(actor, OrderActor::Buyer | OrderActor::System),
        OrderAction::Cancel(
            CancelCause::Timeout { .. } | CancelCause::AssetLockFailed | CancelCause::PaymentFailed,
        ) => matches!(actor, OrderActor::System),
        OrderAction::BeginRefund { .. } => {
            matches!(actor, OrderActor::Buyer | OrderActor::Seller | OrderActor::Operator)
        }
        // An operator settles a refund by hand.
        OrderAction::Refund { .. } => {
            matches!(actor, OrderActor::Gateway | OrderActor::System | OrderActor::Operator)
        }
        OrderAction::AbandonRefund { .. } => matches!(actor, OrderActor::Gateway | OrderActor::System),
    }
}

/// The status after an action; `None` if the action is not allowed in this status.
const fn next(status: OrderStatus, action: &OrderAction) -> Option<OrderStatus> {
    match (status, action) {
        (OrderStatus::Pending, OrderAction::Pay) => Some(OrderStatus::Paid),
        (OrderStatus::Paid, OrderAction::Ship(_)) => Some(OrderStatus::Shipped),
        (OrderStatus::Shipped, OrderAction::Complete) => Some(OrderStatus::Completed),
        (OrderStatus::Pending, OrderAction::Cancel(_)) => Some(OrderStatus::Cancelled),
        (OrderStatus::Paid, OrderAction::BeginRefund { .. } | OrderAction::AbandonRefund { .. }) => {
            Some(OrderStatus::Paid)
        }
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
            | OrderAction::BeginRefund { .. }
            | OrderAction::AbandonRefund { .. }
            | OrderAction::Refund { .. },
        ) => None,
    }
}
