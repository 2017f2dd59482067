//! Every payload round-trips through JSON, with and without its envelope.

use chrono::NaiveDate;
use handover_events::{Envelope, Json, MAX_ID};
use marketplace_domain::{
    CancelReason, CouponId, Currency, EventBody, EventKind, InvoiceGenerated, InvoiceId, OrderCancelled,
    OrderCreated, OrderFacts, OrderId, OrderNo, OrderPaid, OrderRefunded, OrderStatus, OrderStatusChanged,
    OrderTimeout, PaymentFailed, PaymentFor, PaymentId, PaymentMethod, PaymentSettled, PaymentSucceeded,
    Points, ProductId, RefundFailed, RefundId, RefundSettled, RefundSucceeded, UserId,
};
use proptest::{option, prelude::*};
use serde_json::Value;

use crate::common::{amounts, ids, one_of, times};

prop_compose! {
    fn facts()(
        order_id in ids::<OrderId>(),
        order_no: String,
        buyer_id in ids::<UserId>(),
        seller_id in ids::<UserId>(),
        total_amount in amounts(),
    ) -> OrderFacts {
        OrderFacts { order_id, order_no: OrderNo::stored(order_no), buyer_id, seller_id, total_amount }
    }
}

fn of() -> impl Strategy<Value = PaymentFor> {
    prop_oneof![
        facts().prop_map(PaymentFor::Order),
        ids::<InvoiceId>().prop_map(|invoice| PaymentFor::Invoice { invoice }),
    ]
}

const METHODS: &[PaymentMethod] = &[
    PaymentMethod::Online,
    PaymentMethod::Card,
    PaymentMethod::Wallet,
    PaymentMethod::Alipay,
    PaymentMethod::Wechat,
    PaymentMethod::BankTransfer,
    PaymentMethod::Other,
];

prop_compose! {
    fn payments()(
        of in of(),
        payment in ids::<PaymentId>(),
        transaction_id: String,
        amount in amounts(),
        payment_method in one_of(METHODS),
        occurred_time in times(),
    ) -> PaymentSettled {
        let currency = Currency::CNY;
        PaymentSettled { of, payment, transaction_id, amount, currency, payment_method, occurred_time }
    }
}

prop_compose! {
    fn refunds()(
        of in of(), refund in ids::<RefundId>(), amount in amounts(), occurred_time in times(),
    ) -> RefundSettled {
        RefundSettled { of, refund, amount, currency: Currency::CNY, occurred_time }
    }
}

prop_compose! {
    fn created()(
        order in facts(),
        product in ids::<ProductId>(),
        price in amounts(),
        coupon_id in option::of(ids::<CouponId>()),
        wallet_amount in option::of(amounts()),
        points in option::of(points()),
    ) -> OrderCreated {
        OrderCreated { order, product, quantity: 1, price, coupon_id, wallet_amount, points }
    }
}

fn points() -> impl Strategy<Value = Points> {
    prop_oneof![0..=1000i64, 0..=MAX_ID, Just(MAX_ID)].prop_map(|number| number.try_into().unwrap())
}

fn days() -> impl Strategy<Value = NaiveDate> {
    times().prop_map(|time| time.date_naive())
}

/// A strategy for payloads of an event type. The match is exhaustive, so a new type must be added here.
fn bodies_of(event_type: EventKind) -> BoxedStrategy<EventBody> {
    match event_type {
        EventKind::OrderCreated => created().prop_map(EventBody::OrderCreated).boxed(),
        EventKind::OrderPaid => (facts(), times(), amounts(), ids::<ProductId>())
            .prop_map(|(order, pay_time, amount, product)| {
                EventBody::OrderPaid(OrderPaid { order, pay_time, amount, product })
            })
            .boxed(),
        EventKind::OrderStatusChanged => {
            (facts(), one_of(OrderStatus::ALL), one_of(OrderStatus::ALL), times())
                .prop_map(|(order, old_status, new_status, changed_at)| {
                    EventBody::OrderStatusChanged(OrderStatusChanged {
                        order,
                        old_status,
                        new_status,
                        changed_at,
                    })
                })
                .boxed()
        }
        EventKind::OrderTimeout => (facts(), times())
            .prop_map(|(order, create_time)| EventBody::OrderTimeout(OrderTimeout { order, create_time }))
            .boxed(),
        EventKind::OrderCancelled => (facts(), one_of(CancelReason::ALL), times(), ids::<ProductId>())
            .prop_map(|(order, reason, cancelled_at, product)| {
                EventBody::OrderCancelled(OrderCancelled { order, reason, cancelled_at, product })
            })
            .boxed(),
        EventKind::OrderRefunded => (facts(), ids::<RefundId>(), amounts(), times(), ids::<ProductId>())
            .prop_map(|(order, refund, amount, refunded_at, product)| {
                EventBody::OrderRefunded(OrderRefunded { order, refund, amount, refunded_at, product })
            })
            .boxed(),
        EventKind::PaymentSucceeded => {
            payments().prop_map(|it| EventBody::PaymentSucceeded(PaymentSucceeded(it))).boxed()
        }
        EventKind::PaymentFailed => {
            payments().prop_map(|it| EventBody::PaymentFailed(PaymentFailed(it))).boxed()
        }
        EventKind::RefundSucceeded => {
            refunds().prop_map(|it| EventBody::RefundSucceeded(RefundSucceeded(it))).boxed()
        }
        EventKind::RefundFailed => refunds().prop_map(|it| EventBody::RefundFailed(RefundFailed(it))).boxed(),
        EventKind::InvoiceGenerated => (ids::<InvoiceId>(), days(), days(), amounts())
            .prop_map(|(invoice, period_start, period_end, total)| {
                let currency = Currency::CNY;
                EventBody::InvoiceGenerated(InvoiceGenerated {
                    invoice,
                    period_start,
                    period_end,
                    total,
                    currency,
                })
            })
            .boxed(),
    }
}

fn bodies() -> impl Strategy<Value = EventBody> {
    one_of(EventKind::ALL).prop_flat_map(bodies_of)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn payload_round_trips_through_json(body in bodies()) {
        let payload = serde_json::from_str(&body.to_json()).unwrap();
        prop_assert_eq!(EventBody::parse(body.event_type(), &payload), Ok(body));
    }

    #[test]
    fn payload_round_trips_in_its_envelope(body in bodies(), occurred_at in times(), trace_id: String) {
        let sent = Envelope {
            event_id: "e-1".parse().unwrap(),
            event_type: body.event_type().to_string(),
            aggregate_type: body.event_type().aggregate().to_string(),
            aggregate_id: body.aggregate_id().into(),
            occurred_at,
            trace_id,
            payload: serde_json::from_str(&body.to_json()).unwrap(),
        };
        let received = Envelope::parse(&sent.to_json()).unwrap();
        prop_assert_eq!(EventBody::of(&received), Ok(body.clone()));
        prop_assert_eq!(received.payload.to_string(), body.to_json(), "numbers must keep all digits");
        prop_assert_eq!(serde_json::from_value::<Envelope>(serde_json::to_value(&sent).unwrap()).unwrap(), sent.clone());
        prop_assert_eq!(received, sent);
    }

    /// Envelopes and payloads are written as `Value` wrote them with the features `arbitrary_precision` and
    /// `preserve_order`, which both are enabled here: messages of older processes stay equal to their rows.
    #[test]
    fn json_is_written_like_a_value_with_both_features(text in json_texts()) {
        let value: Value = serde_json::from_str(&text).unwrap();
        let json = Json::parse(&text).unwrap();
        prop_assert_eq!(json.to_string(), value.to_string());
        prop_assert_eq!(serde_json::to_value(&json).unwrap(), value);
    }
}

/// JSON as a person could type it: with repeated fields, spaces, escapes and exponents.
fn json_texts() -> impl Strategy<Value = String> {
    let string = any::<String>().prop_map(|text| Value::from(text).to_string());
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?",
        string.clone(),
        Just(r#""\u4e2d\/\u00e9\ud83d\udcf7""#.to_owned()),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        let name = prop_oneof!["\"[ab]{0,2}\"", string.clone()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(" ,\n"))),
            prop::collection::vec((name, inner), 0..5).prop_map(|fields| {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name} :\t{value}")).collect();
                format!("{{ {} }}", fields.join(","))
            }),
        ]
    })
}
