//! Test fixtures: one product, one order per status, and proptest strategies.

use std::fmt::Debug;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{IdError, MAX_ID, Trace};
use marketplace_domain::{
    CancelReason, Coupon, CouponStatus, Currency, EventBody, Money, NewOrder, Order, OrderAction,
    OrderAssets, OrderId, OrderRefusal, OrderStatus, Payment, PaymentMethod, PaymentStatus, Points,
    PointsRules, Product, ProductStatus, Reference, RefundCause, RequestedAssets, Shipment, Title,
};
use proptest::prelude::*;

pub(crate) const BUYER: i64 = 10_001;
pub(crate) const SELLER: i64 = 10_002;

/// The first fields of every payload about the order.
pub(crate) const FACTS: &str = concat!(
    r#""orderId":900001,"orderNo":"202602041030000000900001","#,
    r#""buyerId":10001,"sellerId":10002,"totalAmount":88.50"#
);

pub(crate) fn id<I: TryFrom<i64, Error = IdError>>(value: i64) -> I {
    I::try_from(value).expect("an id in range")
}

pub(crate) fn money(text: &str) -> Money {
    text.parse().expect("an amount")
}

pub(crate) fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an RFC 3339 time")
}

pub(crate) fn placed_at() -> DateTime<Utc> {
    at("2026-02-04T10:30:00Z")
}

pub(crate) fn title(text: &str) -> Title {
    text.to_owned().try_into().expect("a legal title")
}

pub(crate) fn shipment() -> Shipment {
    Shipment::new("SF Express".into(), "SF1234567890".into()).expect("a legal shipment")
}

pub(crate) fn product(status: ProductStatus) -> Product {
    Product {
        id: id(70_001),
        tenant: id(3),
        seller: id(SELLER),
        title: title("road bike"),
        price: money("88.50"),
        status,
        version: 4,
        create_time: at("2026-02-01T08:00:00Z"),
        update_time: at("2026-02-02T09:00:00Z"),
    }
}

pub(crate) fn new_order() -> NewOrder {
    NewOrder { id: id(900_001), buyer: id(BUYER), now: placed_at() }
}

/// The order in this status. `payable` differs from `total`, so that a test fails if the code confuses the two fields.
pub(crate) fn order(status: OrderStatus) -> Order {
    let (order, _, _) = place(&product(ProductStatus::OnSale), new_order()).expect("a product on sale");
    let paid = Some(placed_at() + TimeDelta::minutes(1));
    let complete_time = (status == OrderStatus::Completed).then(|| placed_at() + TimeDelta::minutes(9));
    let (version, pay_time, shipment, cancel_reason) = match status {
        OrderStatus::Pending => (1, None, None, None),
        OrderStatus::Paid => (2, paid, None, None),
        OrderStatus::Shipped => (3, paid, Some(shipment()), None),
        OrderStatus::Completed => (4, paid, Some(shipment()), None),
        OrderStatus::Cancelled => (2, None, None, Some(CancelReason::Buyer)),
        OrderStatus::Refunded => (3, paid, None, None),
    };
    let payable = money("80.25");
    Order { status, version, pay_time, complete_time, shipment, cancel_reason, payable, ..order }
}

/// Trace context of the request that created the payment.
pub(crate) fn trace() -> Trace {
    Trace { trace_id: "pay-1".into(), traceparent: Some(format!("00-{:032x}-{:016x}-01", 7, 3)) }
}

/// A reference that contains this number.
pub(crate) fn reference(number: u32) -> Reference {
    format!("0192f0c1-0000-7000-8000-{number:012x}").parse().expect("a UUID")
}

/// Assets of an order that is paid partly from a wallet.
pub(crate) fn wallet_assets(amount: &str) -> OrderAssets {
    OrderAssets { wallet: money(amount), ..OrderAssets::default() }
}

/// An unsettled payment of the order.
pub(crate) fn payment() -> Payment {
    Payment {
        id: id(600_001),
        reference: Some(reference(600_001)),
        tenant: id(3),
        of: id::<OrderId>(900_001).into(),
        amount: money("80.25"),
        currency: Currency::CNY,
        method: PaymentMethod::Alipay,
        status: PaymentStatus::Processing,
        transaction_id: None,
        refund_due: false,
        trace: Some(trace()),
        version: 1,
        create_time: at("2026-02-04T10:30:30Z"),
        update_time: at("2026-02-04T10:30:30Z"),
    }
}

pub(crate) fn ids<I: TryFrom<i64, Error = IdError> + Debug>() -> impl Strategy<Value = I> {
    prop_oneof![1..=1000i64, 1..=MAX_ID, Just(MAX_ID)].prop_map(id)
}

pub(crate) fn amounts() -> impl Strategy<Value = Money> {
    prop_oneof![0..=20_000i64, 0..=MAX_ID, Just(MAX_ID)]
        .prop_map(|minor| Money::from_minor(minor).expect("an amount in range"))
}

/// Any time that RFC 3339 can represent, with microsecond precision.
pub(crate) fn times() -> impl Strategy<Value = DateTime<Utc>> {
    let first = at("0000-01-01T00:00:00Z").timestamp();
    let last = at("9999-12-31T23:59:59Z").timestamp();
    (first..=last, prop_oneof![Just(0), Just(500_000u32), 0..1_000_000u32]).prop_map(|(seconds, micros)| {
        DateTime::from_timestamp(seconds, micros * 1_000).expect("a moment in range")
    })
}

pub(crate) fn one_of<T: Copy + Debug>(all: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(all)
}

/// Places an order without assets.
pub(crate) fn place(
    product: &Product,
    new: NewOrder,
) -> Result<(Order, Product, Vec<EventBody>), OrderRefusal> {
    Order::place(product, new, &RequestedAssets::NONE, PointsRules::default())
}

/// A coupon of the buyer that expires at the end of March.
pub(crate) fn coupon(discount: &str, min_spend: &str) -> Coupon {
    Coupon {
        id: id(80_001),
        tenant: id(3),
        user: id(BUYER),
        discount: money(discount),
        min_spend: money(min_spend),
        expires_at: at("2026-04-01T00:00:00Z"),
        status: CouponStatus::Available,
        order: None,
        version: 1,
        create_time: at("2026-02-01T08:00:00Z"),
        update_time: at("2026-02-01T08:00:00Z"),
    }
}

pub(crate) fn points(number: i64) -> Points {
    number.try_into().expect("a number of points")
}

/// Rules for points: `per_unit` points are worth 1.00, and `earned_per_unit` points are earned for each 1.00 paid.
pub(crate) fn rules(per_unit: u32, earned_per_unit: u32) -> PointsRules {
    PointsRules { per_unit: per_unit.try_into().expect("not zero"), earned_per_unit }
}

/// Number of cases of model tests: `PROPTEST_CASES`, or 10,000 in long runs (`tests/run --long`), or 1,000.
pub(crate) fn model_cases() -> ProptestConfig {
    let is_set = |name| std::env::var_os(name).is_some();
    let config = ProptestConfig::default();
    let cases = match (is_set("PROPTEST_CASES"), is_set("HANDOVER_LONG")) {
        (true, _) => config.cases,
        (false, true) => 10_000,
        (false, false) => 1_000,
    };
    ProptestConfig { cases, ..config }
}

/// The refund that the buyer requested succeeded.
pub(crate) fn refund_of_buyer() -> OrderAction {
    OrderAction::Refund {
        refund: id(500_001),
        amount: money("80.25"),
        cause: RefundCause::Buyer,
        off_shelf: false,
    }
}
