//! Placing an order reserves the product; cancelling or refunding it makes the product available again.

use std::collections::BTreeSet;

use chrono::{DateTime, Datelike, Timelike, Utc};
use handover_events::MAX_ID;
use marketplace_domain::{
    CancelCause, EventBody, EventKind, NewOrder, NotAnOrderNo, Order, OrderAction, OrderActor, OrderAssets,
    OrderId, OrderNo, OrderRefusal, OrderStatus, Product, ProductAction, ProductRefusal, ProductStatus,
    RefundCause, UserId,
};
use proptest::prelude::*;

use crate::common::{
    BUYER, FACTS, SELLER, at, id, ids, money, new_order, one_of, place, placed_at, product, times,
};

fn now() -> DateTime<Utc> {
    at("2026-02-04T11:00:00.5Z")
}

#[test]
fn placed_order_reserves_the_product_at_its_current_price() {
    let before = product(ProductStatus::OnSale);
    let (order, taken, _) = place(&before, new_order()).unwrap();
    assert_eq!(taken, before.apply(ProductAction::Occupy, placed_at()).unwrap());
    let expected = Order {
        id: id(900_001),
        order_no: OrderNo::stored("202602041030000000900001".into()),
        tenant: before.tenant,
        product: before.id,
        buyer: id(BUYER),
        seller: id(SELLER),
        status: OrderStatus::Pending,
        cancel_reason: None,
        total: before.price,
        assets: OrderAssets::NONE,
        payable: before.price,
        refund: None,
        shipment: None,
        version: 1,
        create_time: placed_at(),
        pay_time: None,
        complete_time: None,
        update_time: placed_at(),
    };
    assert_eq!(order, expected);
}

#[test]
fn placed_order_announces_order_created_and_order_timeout() {
    let (_, _, events) = place(&product(ProductStatus::OnSale), new_order()).unwrap();
    assert_eq!(
        events.iter().map(EventBody::event_type).collect::<Vec<_>>(),
        [EventKind::OrderCreated, EventKind::OrderTimeout]
    );
    assert_eq!(events[0].to_json(), format!(r#"{{{FACTS},"productId":70001,"quantity":1,"price":88.50}}"#));
    assert_eq!(events[1].to_json(), format!(r#"{{{FACTS},"createTime":"2026-02-04T10:30:00.000000Z"}}"#));
}

#[test]
fn product_that_is_not_on_sale_cannot_be_bought() {
    for status in [ProductStatus::Sold, ProductStatus::OffShelf] {
        let refusal = place(&product(status), new_order()).unwrap_err();
        assert_eq!(refusal, OrderRefusal::Product(ProductRefusal::WrongStatus { status }));
    }
}

#[test]
fn sold_product_can_be_bought_again_only_after_its_release() {
    let (_, taken, _) = place(&product(ProductStatus::OnSale), new_order()).unwrap();
    let second = NewOrder { id: id(900_002), buyer: id(10_003), now: now() };
    let sold = ProductRefusal::WrongStatus { status: ProductStatus::Sold };
    assert_eq!(place(&taken, second), Err(OrderRefusal::Product(sold.clone())));
    assert_eq!(taken.apply(ProductAction::Occupy, now()), Err(sold));
    let freed = taken.apply(ProductAction::Release, now()).unwrap();
    assert!(place(&freed, second).is_ok());
}

#[test]
fn only_cancelled_and_refunded_orders_free_their_product() {
    let freeing: Vec<_> = OrderStatus::ALL.iter().filter(|status| status.frees_product()).collect();
    assert_eq!(freeing, [&OrderStatus::Cancelled, &OrderStatus::Refunded]);
}

#[test]
fn cancelled_or_refunded_order_restores_the_product_or_takes_it_off_the_shelf() {
    use ProductStatus::{OffShelf, OnSale};
    let pay = || (OrderAction::Pay, OrderActor::Gateway);
    let begin = |actor| (OrderAction::BeginRefund { refund: id(500_001) }, actor);
    let refund = |cause, off_shelf| {
        let amount = money("88.50");
        (OrderAction::Refund { refund: id(500_001), amount, cause, off_shelf }, OrderActor::Gateway)
    };
    let cancel = |cause, actor| (OrderAction::Cancel(cause), actor);
    let paths = [
        (OnSale, vec![cancel(CancelCause::Buyer, OrderActor::Buyer)]),
        (OnSale, vec![cancel(CancelCause::Seller { off_shelf: false }, OrderActor::Seller)]),
        (OffShelf, vec![cancel(CancelCause::Seller { off_shelf: true }, OrderActor::Seller)]),
        (OnSale, vec![cancel(CancelCause::Timeout { created_by: placed_at() }, OrderActor::System)]),
        (OnSale, vec![cancel(CancelCause::AssetLockFailed, OrderActor::System)]),
        (OnSale, vec![cancel(CancelCause::PaymentFailed, OrderActor::System)]),
        (OnSale, vec![pay(), begin(OrderActor::Buyer), refund(RefundCause::Buyer, false)]),
        (OnSale, vec![pay(), begin(OrderActor::Seller), refund(RefundCause::Seller, false)]),
        (OffShelf, vec![pay(), begin(OrderActor::Seller), refund(RefundCause::Seller, true)]),
    ];
    for (status, path) in paths {
        let before = product(OnSale);
        let (mut order, taken, _) = place(&before, new_order()).unwrap();
        let mut freed = None;
        for (action, actor) in &path {
            assert_eq!((freed, order.status.frees_product()), (None, false), "{}", order.status);
            (order, _) = order.apply(action, *actor, now()).unwrap();
            freed = action.product_action();
        }
        assert!(order.status.frees_product(), "{}", order.status);
        let freed = taken.apply(freed.unwrap(), now()).unwrap();
        let expected = Product { status, version: before.version + 2, update_time: now(), ..before };
        assert_eq!(freed, expected, "{path:?}");
    }
}

#[test]
fn order_numbers_of_the_same_second_differ_by_the_last_ten_digits_of_the_id() {
    let numbers: BTreeSet<String> =
        (MAX_ID - 999..=MAX_ID).map(|order| OrderNo::new(placed_at(), id(order)).to_string()).collect();
    assert_eq!(numbers.len(), 1000);
    assert_eq!(OrderNo::new(placed_at(), id(MAX_ID)).as_str(), "202602041030009254740991");
    assert_eq!(OrderNo::new(placed_at(), id(1234)).as_str(), "202602041030000000001234");
}

#[test]
fn order_number_names_the_ids_of_which_its_order_has_one() {
    for order in [1, 1234, 9_999_999_999, 10_000_000_000, 990_000_000_017] {
        let number = OrderNo::new(placed_at(), id(order));
        assert!(number.possible_ids().contains(&id(order)), "{order}");
        assert_eq!(number.as_str().parse(), Ok(number));
    }
    assert_eq!(OrderNo::stored("no number".to_owned()).possible_ids(), []);
    for text in ["", "17", "20260204103000000000123x", "2026020410300000000012345", "二0260204103000000001"]
    {
        assert_eq!(text.parse::<OrderNo>(), Err(NotAnOrderNo), "{text}");
    }
}

proptest! {
    #[test]
    fn user_cannot_buy_their_own_product(
        status in one_of(ProductStatus::ALL), seller in ids::<UserId>(), order in ids::<OrderId>(), now in times(),
    ) {
        let mut own = product(status);
        own.seller = seller;
        let refusal = place(&own, NewOrder { id: order, buyer: seller, now }).unwrap_err();
        if status == ProductStatus::OnSale {
            prop_assert_eq!(refusal, OrderRefusal::Product(ProductRefusal::OwnProduct));
        }
    }

    #[test]
    fn order_number_is_the_creation_second_and_the_last_ten_digits_of_the_id(
        created in times(), order in ids::<OrderId>(),
    ) {
        let number = OrderNo::new(created, order);
        prop_assert_eq!(number.as_str().len(), 24);
        prop_assert!(number.as_str().bytes().all(|byte| byte.is_ascii_digit()), "{}", number);
        let (second, digits) = number.as_str().split_at(14);
        let parts = [created.month(), created.day(), created.hour(), created.minute(), created.second()];
        let rest: String = parts.iter().map(|part| format!("{part:02}")).collect();
        prop_assert_eq!(second, format!("{:04}{rest}", created.year()));
        let padded = format!("{:0>10}", order.to_string());
        prop_assert_eq!(digits, &padded[padded.len() - 10..]);
    }
}
