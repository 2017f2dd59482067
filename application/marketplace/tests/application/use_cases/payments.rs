//! Payments: started once, settled once, and refunded if they arrive after the cancellation.

use marketplace::use_cases::*;
use marketplace_domain::*;

use crate::support::{BUYER, Process, SELLER, World, by};

async fn ordered() -> (World, Process, Order) {
    let world = World::new().await;
    let process = world.process();
    let order = process.ordered().await;
    (world, process, order)
}

async fn types(world: &World) -> Vec<String> {
    world
        .rows()
        .await
        .into_iter()
        .map(|row| row.event_type)
        .filter(|name| !name.starts_with("ORDER_T"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn repeated_start_of_a_payment_returns_the_existing_payment() {
    let (world, process, order) = ordered().await;
    let payment = process.started_payment(order.id).await;
    assert_eq!((payment.status, payment.amount), (PaymentStatus::Processing, order.payable));
    assert_eq!(process.started_payment(order.id).await, payment);
    assert_eq!(
        world.process().started_payment(order.id).await,
        payment,
        "another process must return the same payment"
    );
    let unnamed = StartPayment { order: order.id, method: None };
    assert_eq!(process.app.payments.start(&by(BUYER), unnamed).await.unwrap().payment, payment);
    let other = StartPayment { order: order.id, method: Some(PaymentMethod::Alipay) };
    let result = process.app.payments.start(&by(BUYER), other).await;
    assert!(
        matches!(
            &result,
            Err(UseCaseError::Refused(PaymentCommandRefusal::OtherMethod { running: PaymentMethod::Card }))
        ),
        "{result:?}"
    );
    let seller = StartPayment { order: order.id, method: Some(PaymentMethod::Card) };
    let result = process.app.payments.start(&by(SELLER), seller).await;
    assert!(matches!(
        result,
        Err(UseCaseError::Refused(PaymentCommandRefusal::Order(OrderRefusal::NotAllowed { .. })))
    ));
    assert_eq!(types(&world).await, ["ORDER_CREATED"]);
}

#[tokio::test(start_paused = true)]
async fn successful_payment_pays_the_order_in_the_same_commit() {
    let (world, process, order) = ordered().await;
    let payment = process.started_payment(order.id).await;
    let settled = process.settle(&payment, PaymentResult::Success).await.unwrap();
    assert_eq!((settled.status, settled.refund_due), (PaymentStatus::Success, false));
    let paid = world.order(order.id).await;
    assert_eq!((paid.status, paid.pay_time), (OrderStatus::Paid, Some(settled.update_time)));
    assert_eq!(types(&world).await, ["ORDER_CREATED", "PAYMENT_SUCCEEDED", "ORDER_PAID"]);
    let rows = world.rows().await;
    let succeeded = rows.iter().find(|row| row.event_type == "PAYMENT_SUCCEEDED").unwrap();
    assert_eq!(
        (succeeded.aggregate.kind.as_str(), succeeded.aggregate.id.number()),
        ("Payment", payment.id.get())
    );
}

#[tokio::test(start_paused = true)]
async fn repeated_payment_report_changes_nothing() {
    let (world, process, order) = ordered().await;
    let payment = process.started_payment(order.id).await;
    let settled = process.settle(&payment, PaymentResult::Success).await.unwrap();
    let rows = world.rows().await;
    let paid = world.order(order.id).await;
    assert_eq!(process.settle(&payment, PaymentResult::Success).await.unwrap(), settled);
    assert_eq!((world.rows().await, world.order(order.id).await), (rows, paid));
}

#[tokio::test(start_paused = true)]
async fn failed_payment_leaves_the_order_pending_and_payable_again() {
    let (world, process, order) = ordered().await;
    let first = process.started_payment(order.id).await;
    let failed = process.settle(&first, PaymentResult::Failed).await.unwrap();
    assert_eq!(failed.status, PaymentStatus::Failed);
    assert_eq!(world.order(order.id).await, order);
    let second = process.started_payment(order.id).await;
    assert_ne!(second.id, first.id);
    process.settle(&second, PaymentResult::Success).await.unwrap();
    assert_eq!(world.order(order.id).await.status, OrderStatus::Paid);
    let expected = ["ORDER_CREATED", "PAYMENT_FAILED", "PAYMENT_SUCCEEDED", "ORDER_PAID"];
    assert_eq!(types(&world).await, expected);
}

#[tokio::test(start_paused = true)]
async fn success_after_cancellation_records_a_due_refund_and_does_not_change_the_order() {
    let (world, process, order) = ordered().await;
    let payment = process.started_payment(order.id).await;
    let cancelled = process.app.ordering.cancel(&by(BUYER), order.id).await.unwrap();
    let settled = process.settle(&payment, PaymentResult::Success).await.unwrap();
    assert_eq!((settled.status, settled.refund_due), (PaymentStatus::Success, true));
    assert_eq!(world.order(order.id).await, cancelled);
    assert_eq!(types(&world).await, ["ORDER_CREATED", "ORDER_CANCELLED", "PAYMENT_SUCCEEDED"]);
    assert_eq!(process.settle(&payment, PaymentResult::Success).await.unwrap(), settled);
}
