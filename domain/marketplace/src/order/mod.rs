//! The order: who may move it where, and what each move announces.
//!
//! **Invariant:** every (status, action, actor) triple is decided here and nowhere else.

mod action;
mod evidence;
mod number;
mod status;

pub use action::{CancelCause, OrderAction, OrderActor, OrderRefusal, Shipment};
pub use evidence::Contradiction;
pub use number::OrderNo;
pub use status::{CancelReason, OrderStatus};

use chrono::{DateTime, Utc};

use super::event::{
    EventBody, OrderCancelled, OrderCreated, OrderFacts, OrderPaid, OrderRefunded, OrderStatusChanged,
    OrderTimeout,
};
use super::{
    AskedAssets, Money, OrderAssets, OrderId, PointsRules, Product, ProductId, ProductRefusal, ProductStatus,
    RefundId, UserId,
};
use handover_events::TenantId;

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
    /// What it is to be paid with beside money.
    pub assets: OrderAssets,
    /// What is left to be paid in money.
    pub payable: Money,
    /// The refund that is being processed, meanwhile it is not shipped; or the one that refunded it.
    pub refund: Option<RefundId>,
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
    pub fn place(
        product: &Product,
        new: NewOrder,
        asked: &AskedAssets,
        rules: PointsRules,
    ) -> Result<(Order, Product, Vec<EventBody>), OrderRefusal> {
        if product.status != ProductStatus::OnSale {
            return Err(ProductRefusal::WrongStatus { status: product.status }.into());
        }
        if product.seller == new.buyer {
            return Err(ProductRefusal::OwnProduct.into());
        }
        let (assets, payable) = asked.applied_to(product.price, rules)?;
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
            // The refund has events of its own.
            OrderAction::BeginRefund { refund } => {
                after.refund = Some(*refund);
                return Ok((after, Vec::new()));
            }
            OrderAction::AbandonRefund { refund } => {
                self.is_refunded_by(*refund, action)?;
                after.refund = None;
                return Ok((after, Vec::new()));
            }
            OrderAction::Refund { refund, amount } => {
                self.is_refunded_by(*refund, action)?;
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

    /// The refund that is being processed.
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

/// Who may do what (spec §2 "Order").
const fn may(action: &OrderAction, actor: OrderActor) -> bool {
    match action {
        // The service itself where nothing is left to be paid in money.
        OrderAction::Pay => matches!(actor, OrderActor::Gateway | OrderActor::System),
        OrderAction::Ship(_) => matches!(actor, OrderActor::Seller),
        OrderAction::Complete | OrderAction::Cancel(CancelCause::Buyer) => matches!(actor, OrderActor::Buyer),
        OrderAction::Cancel(
            CancelCause::Timeout { .. } | CancelCause::AssetLockFailed | CancelCause::PaymentFailed,
        ) => matches!(actor, OrderActor::System),
        OrderAction::BeginRefund { .. } => matches!(actor, OrderActor::Buyer | OrderActor::Operator),
        OrderAction::Refund { .. } | OrderAction::AbandonRefund { .. } => {
            matches!(actor, OrderActor::Gateway | OrderActor::System)
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
