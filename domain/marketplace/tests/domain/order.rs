//! Order transitions: permitted actors, changed fields and events.

use chrono::{DateTime, TimeDelta, Utc};
use marketplace_domain::{
    CancelCause, CancelReason, EventBody, Order, OrderAction, OrderActor, OrderCancelled, OrderCreated,
    OrderFacts, OrderPaid, OrderRefusal, OrderStatus, ProductStatus, RefundCause, UserId,
};
use proptest::prelude::*;

use crate::common::{
    BUYER, FACTS, SELLER, at, id, ids, money, new_order, one_of, order, place, placed_at, product,
    refund_of_buyer, shipment,
};

/// Spec §2: state, action, permitted actors, next state. Any other combination is rejected. The system marks an order
/// as paid if its remaining amount is zero. The state is `refunding` while a refund is in `PROCESSING`.
const LEGAL: [(&str, &str, &[&str], &str); 12] = [
    ("pending", "pay", &["gateway", "system"], "paid"),
    ("pending", "cancel for buyer", &["buyer"], "cancelled"),
    ("pending", "cancel for seller", &["seller"], "cancelled"),
    ("pending", "cancel for timeout", &["system"], "cancelled"),
    ("pending", "cancel for asset_lock_failed", &["system"], "cancelled"),
    ("pending", "cancel for payment_failed", &["system"], "cancelled"),
    ("paid", "ship", &["seller"], "shipped"),
    ("paid", "refund begins", &["buyer", "seller", "operator"], "refunding"),
    ("refunding", "refund fails", &["gateway", "system"], "paid"),
    ("refunding", "refund succeeds", &["gateway", "system", "operator"], "refunded"),
    ("paid", "refund succeeds", &["gateway", "system", "operator"], "refunded"),
    ("shipped", "complete", &["buyer", "system"], "completed"),
];

/// Every action; the timeout is past the payment deadline.
fn actions() -> [OrderAction; 11] {
    [
        OrderAction::Pay,
        OrderAction::Ship(shipment()),
        OrderAction::Complete,
        OrderAction::Cancel(CancelCause::Buyer),
        OrderAction::Cancel(CancelCause::Seller { off_shelf: false }),
        OrderAction::Cancel(CancelCause::Timeout { created_by: placed_at() }),
        OrderAction::Cancel(CancelCause::AssetLockFailed),
        OrderAction::Cancel(CancelCause::PaymentFailed),
        OrderAction::BeginRefund { refund: id(500_001) },
        OrderAction::AbandonRefund { refund: id(500_001) },
        refund_of_buyer(),
    ]
}

/// An order in each status, and one with a running refund.
fn orders() -> impl Iterator<Item = Order> {
    let refunding = Order { refund: Some(id(500_001)), ..order(OrderStatus::Paid) };
    OrderStatus::ALL.iter().map(|status| order(*status)).chain([refunding])
}

/// The name of the order's state in `LEGAL`.
fn state(order: &Order) -> &'static str {
    if order.status == OrderStatus::Paid && order.refund.is_some() {
        "refunding"
    } else {
        order.status.as_str()
    }
}

/// The name of an action in `LEGAL`. The match is exhaustive, so a new action must be added here.
fn label(action: &OrderAction) -> &'static str {
    match action {
        OrderAction::Pay => "pay",
        OrderAction::Ship(_) => "ship",
        OrderAction::Complete => "complete",
        OrderAction::Cancel(CancelCause::Buyer) => "cancel for buyer",
        OrderAction::Cancel(CancelCause::Seller { .. }) => "cancel for seller",
        OrderAction::Cancel(CancelCause::Timeout { .. }) => "cancel for timeout",
        OrderAction::Cancel(CancelCause::AssetLockFailed) => "cancel for asset_lock_failed",
        OrderAction::Cancel(CancelCause::PaymentFailed) => "cancel for payment_failed",
        OrderAction::BeginRefund { .. } => "refund begins",
        OrderAction::AbandonRefund { .. } => "refund fails",
        OrderAction::Refund { .. } => "refund succeeds",
    }
}

fn triples() -> impl Iterator<Item = (Order, OrderAction, OrderActor)> {
    orders().flat_map(|order| {
        actions().into_iter().flat_map(move |action| {
            let order = order.clone();
            OrderActor::ALL.iter().map(move |actor| (order.clone(), action.clone(), *actor))
        })
    })
}

fn now() -> DateTime<Utc> {
    at("2026-02-04T11:00:00.5Z")
}

#[test]
fn every_state_action_and_actor_matches_the_table() {
    let mut allowed_count = 0;
    for (order, action, actor) in triples() {
        let state_before = state(&order);
        let label = label(&action);
        let rows: Vec<_> = LEGAL.iter().filter(|row| row.1 == label).collect();
        let may = rows.iter().any(|row| row.2.contains(&actor.as_str()));
        let leads_to = rows.iter().find(|row| row.0 == state_before).map(|row| row.3);
        let action_name = label.split(' ').next().unwrap();
        let expected = match leads_to {
            // The permission is checked before the status, so the error does not reveal the status.
            _ if !may => Err(OrderRefusal::NotAllowed { actor, action: action_name }),
            Some(to) => Ok(to),
            // The action would be allowed without the running refund.
            None if state_before == "refunding" && rows.iter().any(|row| row.0 == "paid") => {
                Err(OrderRefusal::Refunding { action: action_name })
            }
            None => Err(OrderRefusal::WrongStatus { status: order.status, action: action_name }),
        };
        allowed_count += usize::from(expected.is_ok());
        let decided = order.apply(&action, actor, now()).map(|(after, _)| state(&after));
        assert_eq!(decided, expected, "{actor}: action `{label}` on an order in state {state_before}");
    }
    assert_eq!(
        allowed_count,
        LEGAL.iter().map(|row| row.2.len()).sum::<usize>(),
        "a row of `LEGAL` matches no tested order, action and actor"
    );
}

/// Every possible history of an order with at most six states: each state with its events.
fn histories() -> Vec<Vec<(Order, Vec<EventBody>)>> {
    let (placed, _, events) = place(&product(ProductStatus::OnSale), new_order()).expect("a product on sale");
    let mut open = vec![vec![(placed, events)]];
    let mut all = Vec::new();
    while let Some(history) = open.pop() {
        let (order, _) = history.last().expect("an order").clone();
        for action in actions() {
            let applied = OrderActor::ALL.iter().find_map(|actor| order.apply(&action, *actor, now()).ok());
            // A failed refund returns the order to `paid`, so only the limit of six states ends the histories.
            if let (Some(next), true) = (applied, history.len() < 6) {
                open.push(history.iter().cloned().chain([next]).collect());
            }
        }
        all.push(history);
    }
    all
}

#[test]
fn order_is_consistent_with_its_past_events_but_not_with_future_events() {
    let mut confirmed = 0;
    for history in histories() {
        for (now, (order, _)) in history.iter().enumerate() {
            for (then, (_, events)) in history.iter().enumerate() {
                for event in events {
                    assert_eq!(order.confirms(event).is_ok(), then <= now, "{event:?} and {order:?}");
                    confirmed += usize::from(then <= now);
                }
            }
        }
    }
    assert!(confirmed > 100);
}

#[test]
fn event_with_a_different_field_contradicts_the_order() {
    let order = Order { payable: money("88.50"), ..order(OrderStatus::Paid) };
    let paid =
        OrderPaid { order: order.facts(), pay_time: now(), amount: order.payable, product: order.product };
    let check =
        |paid: OrderPaid| order.confirms(&EventBody::OrderPaid(paid)).map_err(|error| error.to_string());
    assert_eq!(check(paid.clone()), Ok(()));
    let of = |order: OrderFacts| OrderPaid { order, ..paid.clone() };
    let cases = [
        (
            of(OrderFacts { buyer_id: id(5), ..order.facts() }),
            "buyerId is 5 in the event and 10001 in the order",
        ),
        (
            of(OrderFacts { seller_id: id(5), ..order.facts() }),
            "sellerId is 5 in the event and 10002 in the order",
        ),
        (
            of(OrderFacts { total_amount: money("1.00"), ..order.facts() }),
            "totalAmount is 1.00 in the event and 88.50 in the order",
        ),
        (OrderPaid { product: id(5), ..paid.clone() }, "productId is 5 in the event and 70001 in the order"),
        (
            OrderPaid { amount: money("1.00"), ..paid.clone() },
            "amount is 1.00 in the event and 88.50 in the order",
        ),
    ];
    for (event, why) in cases {
        assert_eq!(check(event), Err(why.to_owned()));
    }
}

#[test]
fn another_cancel_reason_or_coupon_contradicts_the_order() {
    let (placed, _, events) = place(&product(ProductStatus::OnSale), new_order()).unwrap();
    let EventBody::OrderCreated(created) = &events[0] else { panic!("{events:?}") };
    let with_coupon =
        EventBody::OrderCreated(OrderCreated { coupon_id: Some(id(80_001)), ..created.clone() });
    let contradiction = placed.confirms(&with_coupon).unwrap_err();
    assert_eq!(contradiction.to_string(), "couponId is 80001 in the event and absent in the order");
    let cancel = OrderAction::Cancel(CancelCause::Buyer);
    let (cancelled, events) = placed.apply(&cancel, OrderActor::Buyer, now()).unwrap();
    let EventBody::OrderCancelled(body) = &events[0] else { panic!("{events:?}") };
    let by_timeout =
        EventBody::OrderCancelled(OrderCancelled { reason: CancelReason::Timeout, ..body.clone() });
    let contradiction = cancelled.confirms(&by_timeout).unwrap_err();
    assert_eq!(contradiction.to_string(), "the cancel reason is timeout in the event and buyer in the order");
}

#[test]
fn only_cancelled_and_refunded_orders_have_an_available_product() {
    for status in OrderStatus::ALL {
        let expected = matches!(status, OrderStatus::Cancelled | OrderStatus::Refunded);
        assert_eq!(order(*status).is_cancelled_or_refunded(), expected, "{status}");
    }
}

#[test]
fn event_of_an_order_contains_its_facts() {
    for (order, events) in histories().into_iter().flatten() {
        for event in events {
            assert_eq!(event.order(), Some(&order.facts()), "{event:?}");
        }
    }
}

#[test]
fn completed_cancelled_and_refunded_are_terminal() {
    let terminal = [OrderStatus::Completed, OrderStatus::Cancelled, OrderStatus::Refunded];
    for status in OrderStatus::ALL {
        assert_eq!(status.is_terminal(), terminal.contains(status), "{status}");
    }
    for (order, action, actor) in triples().filter(|(order, _, _)| terminal.contains(&order.status)) {
        assert!(
            order.apply(&action, actor, now()).is_err(),
            "{actor}: action `{}` was allowed on an order that is {}",
            label(&action),
            order.status
        );
    }
}

#[test]
fn transition_changes_only_the_expected_fields() {
    for (before, action, actor) in triples() {
        let Ok((after, _)) = before.apply(&action, actor, now()) else { continue };
        let mut expected =
            Order { status: after.status, version: before.version + 1, update_time: now(), ..before.clone() };
        match label(&action) {
            "pay" => expected.pay_time = Some(now()),
            "ship" => expected.shipment = Some(shipment()),
            "complete" => expected.complete_time = Some(now()),
            "cancel for buyer" => expected.cancel_reason = Some(CancelReason::Buyer),
            "cancel for seller" => expected.cancel_reason = Some(CancelReason::Seller),
            "cancel for timeout" => expected.cancel_reason = Some(CancelReason::Timeout),
            "cancel for asset_lock_failed" => expected.cancel_reason = Some(CancelReason::AssetLockFailed),
            "cancel for payment_failed" => expected.cancel_reason = Some(CancelReason::PaymentFailed),
            "refund begins" => expected.refund = Some(id(500_001)),
            "refund fails" => expected.refund = None,
            "refund succeeds" => expected.refund = Some(id(500_001)),
            _ => {}
        }
        assert_eq!(after, expected, "{}", label(&action));
    }
}

/// The automatic completion relies on it.
#[test]
fn shipped_order_keeps_the_time_of_its_shipment_until_it_is_completed() {
    for (before, action, actor) in triples().filter(|(order, _, _)| order.status == OrderStatus::Shipped) {
        if let Ok((after, _)) = before.apply(&action, actor, now()) {
            assert_eq!(after.status, OrderStatus::Completed, "{}", label(&action));
        }
    }
}

#[test]
fn transition_announces_one_event_except_for_begun_and_failed_refunds() {
    let event_of = |label: &str| match label {
        "pay" => {
            ("ORDER_PAID", r#""payTime":"2026-02-04T11:00:00.500000Z","amount":80.25,"productId":70001"#)
        }
        "ship" => (
            "ORDER_STATUS_CHANGED",
            r#""oldStatus":"paid","newStatus":"shipped","changedAt":"2026-02-04T11:00:00.500000Z""#,
        ),
        "complete" => (
            "ORDER_STATUS_CHANGED",
            r#""oldStatus":"shipped","newStatus":"completed","changedAt":"2026-02-04T11:00:00.500000Z""#,
        ),
        "refund succeeds" => (
            "ORDER_REFUNDED",
            r#""refundId":500001,"amount":80.25,"refundedAt":"2026-02-04T11:00:00.500000Z","productId":70001"#,
        ),
        _ => (
            "ORDER_CANCELLED",
            r#""reason":"REASON","cancelledAt":"2026-02-04T11:00:00.500000Z","productId":70001"#,
        ),
    };
    for (order, action, actor) in triples() {
        let Ok((_, events)) = order.apply(&action, actor, now()) else { continue };
        // The start of a refund has no event. The failure of a refund has no order event, only `REFUND_FAILED`.
        if ["refund begins", "refund fails"].contains(&label(&action)) {
            assert_eq!(events, [], "{}", label(&action));
            continue;
        }
        let (name, own) = event_of(label(&action));
        let own = own.replace("REASON", label(&action).trim_start_matches("cancel for "));
        assert_eq!(events.len(), 1, "{}", label(&action));
        assert_eq!(events[0].event_type().as_str(), name);
        assert_eq!(events[0].aggregate_id(), 900_001);
        assert_eq!(events[0].to_json(), format!("{{{FACTS},{own}}}"));
    }
}

#[test]
fn timeout_is_rejected_before_the_deadline_and_allowed_from_then_on() {
    let pending = order(OrderStatus::Pending);
    let close = |created_by| {
        let cause = CancelCause::Timeout { created_by };
        pending.apply(&OrderAction::Cancel(cause), OrderActor::System, now()).map(|(after, _)| after.status)
    };
    let tick = TimeDelta::nanoseconds(1);
    assert_eq!(close(placed_at() - TimeDelta::minutes(15)), Err(OrderRefusal::NotOverdue));
    assert_eq!(close(placed_at() - tick), Err(OrderRefusal::NotOverdue));
    assert_eq!(close(placed_at()), Ok(OrderStatus::Cancelled));
    assert_eq!(close(placed_at() + tick), Ok(OrderStatus::Cancelled));
}

#[test]
fn timeout_of_a_paid_order_is_rejected_for_its_status_not_for_its_deadline() {
    let early = OrderAction::Cancel(CancelCause::Timeout { created_by: placed_at() - TimeDelta::days(1) });
    let refusal = order(OrderStatus::Paid).apply(&early, OrderActor::System, now()).unwrap_err();
    assert_eq!(refusal, OrderRefusal::WrongStatus { status: OrderStatus::Paid, action: "cancel" });
}

#[test]
fn refusal_message_names_actor_and_action() {
    let refusal = order(OrderStatus::Paid).apply(&OrderAction::Pay, OrderActor::Operator, now()).unwrap_err();
    assert_eq!(refusal.to_string(), "operator is not permitted to pay an order");
    let refusal = order(OrderStatus::Paid).apply(&OrderAction::Pay, OrderActor::Gateway, now()).unwrap_err();
    assert_eq!(refusal.to_string(), "cannot pay an order that is paid");
}

#[test]
fn only_the_sellers_cancellation_and_refund_are_declines() {
    let refund =
        |cause| OrderAction::Refund { refund: id(500_001), amount: money("80.25"), cause, off_shelf: true };
    let refunds = RefundCause::ALL.iter().map(|cause| refund(*cause));
    let declines: Vec<_> = actions().into_iter().chain(refunds).filter(OrderAction::is_decline).collect();
    let cancel = OrderAction::Cancel(CancelCause::Seller { off_shelf: false });
    assert_eq!(declines, [cancel, refund(RefundCause::Seller)]);
}

proptest! {
    #[test]
    fn order_follows_an_allowed_path_and_increments_its_version(
        tried in prop::collection::vec((0..actions().len(), one_of(OrderActor::ALL), 0..1000i64), 0..60),
    ) {
        let (mut order, _, _) = place(&product(ProductStatus::OnSale), new_order()).unwrap();
        let mut path = vec![order.status];
        for (action, actor, seconds) in tried {
            let now = order.update_time + TimeDelta::seconds(seconds);
            if let Ok((after, events)) = order.apply(&actions()[action], actor, now) {
                prop_assert!(!order.status.is_terminal());
                prop_assert_eq!(after.version, order.version + 1);
                prop_assert_eq!(events.len(), usize::from(after.status != order.status));
                prop_assert_eq!(after.facts(), order.facts());
                if after.status != order.status {
                    path.push(after.status);
                }
                order = after;
            }
        }
        let names: Vec<&str> = path.iter().map(|status| status.as_str()).collect();
        let taken_path = names.join(" ");
        let allowed_paths = ["pending paid shipped completed", "pending cancelled", "pending paid refunded"];
        prop_assert!(allowed_paths.iter().any(|whole| whole.starts_with(&taken_path)), "{}", taken_path);
    }

    #[test]
    fn role_of_a_user_is_buyer_seller_or_unrelated(user in ids::<UserId>()) {
        let order = order(OrderStatus::Pending);
        prop_assert_eq!(order.role_of(order.buyer), OrderActor::Buyer);
        prop_assert_eq!(order.role_of(order.seller), OrderActor::Seller);
        if ![BUYER, SELLER].contains(&user.get()) {
            prop_assert_eq!(order.role_of(user), OrderActor::Unrelated);
        }
    }
}
