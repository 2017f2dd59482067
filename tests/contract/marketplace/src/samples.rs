//! Sample values of the marketplace: simple, valid, and the same in every run. `handover_contract::samples` contains
//! the sample values of the outbox and the common start time.

mod assets;
mod effects;
mod findings;
mod gateway;
mod invoices;
mod requests;

pub use assets::*;
pub use effects::*;
pub use findings::*;
pub use gateway::*;
pub use invoices::*;
pub use requests::*;

use chrono::{DateTime, Utc};
use handover_contract::samples::{later, start};
use handover_events::{TenantId, Trace};
use marketplace_domain::{
    CancelReason, Currency, Money, Order, OrderAssets, OrderId, OrderNo, OrderStatus, Payment, PaymentId,
    PaymentMethod, PaymentStatus, Product, ProductId, ProductStatus, Shipment, Title, UserId,
};

pub fn user(number: i64) -> UserId {
    number.try_into().expect("a valid id")
}

pub fn product_id(number: i64) -> ProductId {
    number.try_into().expect("a valid id")
}

pub fn order_id(number: i64) -> OrderId {
    number.try_into().expect("a valid id")
}

pub fn payment_id(number: i64) -> PaymentId {
    number.try_into().expect("a valid id")
}

/// An amount in minor units.
pub fn money(minor: i64) -> Money {
    Money::from_minor(minor).expect("a valid amount")
}

pub fn title(text: &str) -> Title {
    text.to_owned().try_into().expect("a valid title")
}

/// A product of tenant 1 and seller 20, on sale for 88.50.
pub fn product(id: i64) -> Product {
    Product {
        id: product_id(id),
        tenant: TenantId::DEFAULT,
        seller: user(20),
        title: title("a camera"),
        price: money(8_850),
        status: ProductStatus::OnSale,
        version: 1,
        create_time: start(),
        update_time: start(),
    }
}

/// A pending order of tenant 1: buyer 10 buys product `id % 1_000_000 + 1000` from seller 20 for 88.50.
pub fn order(id: i64) -> Order {
    Order {
        id: order_id(id),
        order_no: OrderNo::new(start(), order_id(id)),
        tenant: TenantId::DEFAULT,
        product: product_id(id % 1_000_000 + 1000),
        buyer: user(10),
        seller: user(20),
        status: OrderStatus::Pending,
        cancel_reason: None,
        total: money(8_850),
        assets: OrderAssets::NONE,
        payable: money(8_850),
        refund: None,
        shipment: None,
        version: 1,
        create_time: start(),
        pay_time: None,
        complete_time: None,
        update_time: start(),
    }
}

/// The order in its next version, in this status and with the fields that the status implies.
pub fn order_moved_to(order: &Order, status: OrderStatus, at: DateTime<Utc>) -> Order {
    let paid = matches!(
        status,
        OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed | OrderStatus::Refunded
    );
    let shipped = matches!(status, OrderStatus::Shipped | OrderStatus::Completed);
    Order {
        status,
        cancel_reason: (status == OrderStatus::Cancelled).then_some(CancelReason::Timeout),
        pay_time: if paid { order.pay_time.or(Some(at)) } else { None },
        complete_time: (status == OrderStatus::Completed).then_some(at),
        shipment: if shipped {
            order.shipment.clone().or_else(|| Shipment::new("顺丰".into(), "SF-001".into()).ok())
        } else {
            None
        },
        version: order.version + 1,
        update_time: at,
        ..order.clone()
    }
}

/// The trace of a request.
pub fn trace() -> Trace {
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    Trace { trace_id: "trace-1".into(), traceparent: Some(traceparent.into()) }
}

/// A payment of tenant 1 in `PROCESSING`.
pub fn payment(id: i64, order: i64) -> Payment {
    Payment {
        id: payment_id(id),
        reference: Some(reference(id)),
        tenant: TenantId::DEFAULT,
        of: order_id(order).into(),
        amount: money(8_850),
        currency: Currency::CNY,
        method: PaymentMethod::Card,
        status: PaymentStatus::Processing,
        transaction_id: None,
        refund_due: false,
        trace: Some(trace()),
        version: 1,
        create_time: start(),
        update_time: start(),
    }
}

/// The payment in its next version, settled by this gateway transaction.
pub fn settled(payment: &Payment, status: PaymentStatus, transaction: &str) -> Payment {
    Payment {
        status,
        transaction_id: Some(transaction.to_owned()),
        version: payment.version + 1,
        update_time: later(1),
        ..payment.clone()
    }
}
