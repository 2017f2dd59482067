//! Samples: an envelope of every event type. The types of payments and refunds have two: one for an order and one for
//! an invoice.

use chrono::{DateTime, NaiveDate, TimeZone, Utc};
use handover_events::Envelope;
use marketplace_contract::samples::user;
use marketplace_domain::{
    CancelReason, Currency, EventBody, InvoiceGenerated, InvoiceId, Money, OrderCancelled, OrderCreated,
    OrderFacts, OrderId, OrderNo, OrderPaid, OrderRefunded, OrderStatus, OrderStatusChanged, OrderTimeout,
    PaymentFailed, PaymentFor, PaymentId, PaymentMethod, PaymentSettled, PaymentSucceeded, Points, ProductId,
    RefundFailed, RefundId, RefundSettled, RefundSucceeded,
};

fn at() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 2, 4, 10, 30, 0).unwrap()
}

fn money() -> Money {
    Money::from_minor(8850).unwrap()
}

fn order() -> OrderFacts {
    let order_id = OrderId::try_from(900_001).unwrap();
    OrderFacts {
        order_id,
        order_no: OrderNo::new(at(), order_id),
        buyer_id: user(10_001),
        seller_id: user(10_002),
        total_amount: money(),
    }
}

fn product() -> ProductId {
    ProductId::try_from(70_001).unwrap()
}

fn created(with_assets: bool) -> EventBody {
    EventBody::OrderCreated(OrderCreated {
        order: order(),
        product: product(),
        quantity: 1,
        price: money(),
        coupon_id: with_assets.then(|| 80_001.try_into().unwrap()),
        wallet_amount: with_assets.then(money),
        points: with_assets.then(|| Points::try_from(300).unwrap()),
    })
}

fn invoice() -> InvoiceId {
    InvoiceId::try_from(400_001).unwrap()
}

fn payment(of: PaymentFor) -> PaymentSettled {
    PaymentSettled {
        of,
        payment: PaymentId::try_from(600_001).unwrap(),
        transaction_id: "txn-1".to_owned(),
        amount: money(),
        currency: Currency::CNY,
        payment_method: PaymentMethod::Online,
        occurred_time: at(),
    }
}

fn refund(of: PaymentFor) -> RefundSettled {
    let refund = RefundId::try_from(500_001).unwrap();
    RefundSettled { of, refund, amount: money(), currency: Currency::CNY, occurred_time: at() }
}

fn bodies() -> Vec<EventBody> {
    let mut bodies = vec![
        created(false),
        created(true),
        EventBody::OrderPaid(OrderPaid {
            order: order(),
            pay_time: at(),
            amount: money(),
            product: product(),
        }),
        EventBody::OrderStatusChanged(OrderStatusChanged {
            order: order(),
            old_status: OrderStatus::Paid,
            new_status: OrderStatus::Shipped,
            changed_at: at(),
        }),
        EventBody::OrderTimeout(OrderTimeout { order: order(), create_time: at() }),
        EventBody::OrderCancelled(OrderCancelled {
            order: order(),
            reason: CancelReason::Timeout,
            cancelled_at: at(),
            product: product(),
        }),
        EventBody::OrderRefunded(OrderRefunded {
            order: order(),
            refund: RefundId::try_from(500_001).unwrap(),
            amount: money(),
            refunded_at: at(),
            product: product(),
        }),
        EventBody::InvoiceGenerated(InvoiceGenerated {
            invoice: invoice(),
            period_start: NaiveDate::from_ymd_opt(2026, 2, 1).unwrap(),
            period_end: NaiveDate::from_ymd_opt(2026, 2, 28).unwrap(),
            total: money(),
            currency: Currency::CNY,
        }),
    ];
    for of in [PaymentFor::Order(order()), PaymentFor::Invoice { invoice: invoice() }] {
        bodies.push(EventBody::PaymentSucceeded(PaymentSucceeded(payment(of.clone()))));
        bodies.push(EventBody::PaymentFailed(PaymentFailed(payment(of.clone()))));
        bodies.push(EventBody::RefundSucceeded(RefundSucceeded(refund(of.clone()))));
        bodies.push(EventBody::RefundFailed(RefundFailed(refund(of))));
    }
    bodies
}

pub(crate) fn samples() -> Vec<Envelope> {
    let envelope = |body: EventBody| Envelope {
        event_id: "e-1".parse().unwrap(),
        event_type: body.event_type().to_string(),
        aggregate_type: body.event_type().aggregate().to_string(),
        aggregate_id: body.aggregate_id().into(),
        occurred_at: at(),
        trace_id: "t-1".to_owned(),
        payload: serde_json::from_str(&body.to_json()).unwrap(),
    };
    bodies().into_iter().map(envelope).collect()
}
