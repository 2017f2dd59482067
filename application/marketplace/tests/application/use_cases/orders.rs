//! Listing and shelving products; placing, shipping, completing and cancelling orders.

use handover_events::Trace;
use handover_events::*;
use handover_outbox::ports::EventMetadata;
use marketplace::use_cases::*;
use marketplace::{Actor, CommandContext};
use marketplace_domain::*;

use crate::support::{BUYER, SELLER, World, by, gateway, money, report};

pub(crate) const OTHER_USER: i64 = 99;

pub(crate) fn shipment() -> Shipment {
    Shipment::new("SF".into(), "SF-1".into()).unwrap()
}

fn in_other_tenant(user: i64) -> CommandContext {
    CommandContext { tenant: 2.try_into().unwrap(), ..by(user) }
}

fn is_not_found<T, R>(result: &Result<T, UseCaseError<R>>) -> bool {
    matches!(result, Err(UseCaseError::NotFound { .. }))
}

#[tokio::test(start_paused = true)]
async fn listed_product_is_on_sale() {
    let world = World::new().await;
    let product = world.process().listed().await;
    assert_eq!((product.status, product.version), (ProductStatus::OnSale, 1));
    assert_eq!((product.seller.get(), product.price), (SELLER, money(8_850)));
    assert_eq!(world.product(product.id).await, product);
    assert!(world.rows().await.is_empty(), "listing a product must append no event");
}

#[tokio::test(start_paused = true)]
async fn placed_order_marks_the_product_sold_and_appends_created_and_timeout_events() {
    let world = World::new().await;
    let process = world.process();
    let product = process.listed().await;
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned();
    let trace = Trace { trace_id: "trace-xxx".into(), traceparent: Some(traceparent.clone()) };
    let context = CommandContext { trace, ..by(BUYER) };
    let order = process.app.ordering.place(&context, PlaceOrder::of(product.id)).await.unwrap();
    assert_eq!((order.status, order.version, order.total), (OrderStatus::Pending, 1, product.price));
    assert_eq!(world.order(order.id).await, order);
    let sold = world.product(product.id).await;
    assert_eq!((sold.status, sold.version), (ProductStatus::Sold, 2));
    let rows = world.rows().await;
    let events: Vec<(&str, i64)> =
        rows.iter().map(|row| (row.event_type.as_str(), row.aggregate_seq)).collect();
    assert_eq!(events, [("ORDER_CREATED", 1), ("ORDER_TIMEOUT", 1)]);
    for row in rows {
        let metadata = EventMetadata {
            trace_id: Some("trace-xxx".into()),
            request_id: None,
            user_id: Some(BUYER),
            traceparent: Some(traceparent.clone()),
        };
        assert_eq!(row.metadata, metadata);
        assert_eq!(
            (row.aggregate.id.number(), row.max_retry_count, row.status),
            (order.id.get(), 3, OutboxStatus::New)
        );
        assert_eq!(row.create_time, order.create_time);
    }
}

#[tokio::test(start_paused = true)]
async fn order_is_refused_for_a_missing_unavailable_or_own_product() {
    let world = World::new().await;
    let process = world.process();
    let app = &process.app;
    let product = process.listed().await.id;
    let place =
        async |context: &CommandContext, product| app.ordering.place(context, PlaceOrder::of(product)).await;
    assert!(is_not_found(&place(&by(BUYER), 404.try_into().unwrap()).await));
    assert!(is_not_found(&place(&in_other_tenant(BUYER), product).await));
    let own = place(&by(SELLER), product).await;
    assert!(matches!(own, Err(UseCaseError::Refused(OrderRefusal::Product(ProductRefusal::OwnProduct)))));
    assert!(matches!(place(&gateway(), product).await, Err(UseCaseError::NotAllowed(_))));
    app.ordering.shelve_product(&by(SELLER), product, Shelf::Off).await.unwrap();
    let hidden = place(&by(BUYER), product).await;
    assert!(matches!(
        hidden,
        Err(UseCaseError::Refused(OrderRefusal::Product(ProductRefusal::WrongStatus { .. })))
    ));
    app.ordering.shelve_product(&by(SELLER), product, Shelf::On).await.unwrap();
    place(&by(BUYER), product).await.unwrap();
    let sold = place(&by(OTHER_USER), product).await;
    assert!(matches!(
        sold,
        Err(UseCaseError::Refused(OrderRefusal::Product(ProductRefusal::WrongStatus { .. })))
    ));
    assert_eq!(world.rows().await.len(), 2, "a refused command must append no event");
}

#[tokio::test(start_paused = true)]
async fn shelving_is_rejected_for_other_users_and_in_the_wrong_status() {
    let world = World::new().await;
    let process = world.process();
    let product = process.listed().await.id;
    let other = process.app.ordering.shelve_product(&by(OTHER_USER), product, Shelf::Off).await;
    assert!(matches!(other, Err(UseCaseError::Refused(ProductRefusal::NotTheSeller))));
    let shown = process.app.ordering.shelve_product(&by(SELLER), product, Shelf::On).await;
    assert!(matches!(shown, Err(UseCaseError::Refused(ProductRefusal::WrongStatus { .. }))));
    process.app.ordering.place(&by(BUYER), PlaceOrder::of(product)).await.unwrap();
    let sold = process.app.ordering.shelve_product(&by(SELLER), product, Shelf::Off).await;
    assert!(matches!(sold, Err(UseCaseError::Refused(ProductRefusal::WrongStatus { .. }))));
}

#[tokio::test(start_paused = true)]
async fn paid_order_is_shipped_by_its_seller_and_completed_by_its_buyer() {
    let world = World::new().await;
    let process = world.process();
    let order = process.paid().await;
    assert_eq!((order.status, order.pay_time.is_some()), (OrderStatus::Paid, true));
    let shipped = process.app.ordering.ship(&by(SELLER), order.id, shipment()).await.unwrap();
    assert_eq!((shipped.status, shipped.shipment), (OrderStatus::Shipped, Some(shipment())));
    let completed = process.app.ordering.complete(&by(BUYER), order.id).await.unwrap();
    assert_eq!((completed.status, completed.version), (OrderStatus::Completed, 4));
    assert_eq!(world.order(order.id).await, completed);
    let events: Vec<(i64, &str)> = vec![
        (1, "ORDER_CREATED"),
        (1, "ORDER_TIMEOUT"),
        (2, "ORDER_PAID"),
        (3, "ORDER_STATUS_CHANGED"),
        (4, "ORDER_STATUS_CHANGED"),
    ];
    let history = world.history(order.id).await;
    assert_eq!(history.iter().map(|(seq, name)| (*seq, name.as_str())).collect::<Vec<_>>(), events);
    assert_eq!(world.product(order.product).await.status, ProductStatus::Sold);
}

#[tokio::test(start_paused = true)]
async fn cancelled_order_frees_its_product_and_stays_cancelled() {
    let world = World::new().await;
    let process = world.process();
    let order = process.ordered().await;
    let cancelled = process.app.ordering.cancel(&by(BUYER), order.id).await.unwrap();
    assert_eq!(
        (cancelled.status, cancelled.cancel_reason),
        (OrderStatus::Cancelled, Some(CancelReason::Buyer))
    );
    assert_eq!(world.product(order.product).await.status, ProductStatus::OnSale);
    assert_eq!(world.history(order.id).await.last().unwrap(), &(2, "ORDER_CANCELLED".to_owned()));
    let again = process.app.ordering.cancel(&by(BUYER), order.id).await;
    assert!(matches!(again, Err(UseCaseError::Refused(OrderRefusal::WrongStatus { .. }))));
    process.app.ordering.place(&by(OTHER_USER), PlaceOrder::of(order.product)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn order_is_hidden_from_other_users_and_rejects_actions_of_the_wrong_party() {
    let world = World::new().await;
    let process = world.process();
    let app = &process.app;
    let order = process.paid().await;
    let before = world.rows().await;
    for context in [by(OTHER_USER), in_other_tenant(BUYER), in_other_tenant(SELLER)] {
        assert!(is_not_found(&app.queries.find_order(&context, order.id).await));
        assert!(is_not_found(&app.ordering.cancel(&context, order.id).await));
        assert!(is_not_found(&app.ordering.ship(&context, order.id, shipment()).await));
        assert!(is_not_found(&app.ordering.complete(&context, order.id).await));
        let pay = StartPayment { order: order.id, method: Some(PaymentMethod::Card) };
        assert!(is_not_found(&app.payments.start(&context, pay).await));
    }
    let not_allowed = |result: Result<Order, UseCaseError<OrderRefusal>>| {
        matches!(result, Err(UseCaseError::Refused(OrderRefusal::NotAllowed { .. })))
    };
    assert!(not_allowed(app.ordering.ship(&by(BUYER), order.id, shipment()).await));
    assert!(not_allowed(app.ordering.complete(&by(SELLER), order.id).await));
    for actor in [Actor::Gateway, Actor::System("a job")] {
        let context = CommandContext { actor, ..by(BUYER) };
        let result = app.ordering.ship(&context, order.id, shipment()).await;
        assert!(matches!(result, Err(UseCaseError::NotAllowed(_))));
        assert!(matches!(app.queries.find_order(&context, order.id).await, Err(UseCaseError::NotAllowed(_))));
    }
    assert_eq!(world.order(order.id).await, order);
    assert_eq!(world.rows().await, before);
}

#[tokio::test(start_paused = true)]
async fn action_in_the_wrong_status_is_rejected() {
    let world = World::new().await;
    let process = world.process();
    let app = &process.app;
    let wrong = |result: Result<Order, UseCaseError<OrderRefusal>>| {
        matches!(result, Err(UseCaseError::Refused(OrderRefusal::WrongStatus { .. })))
    };
    let pending = process.ordered().await;
    assert!(wrong(app.ordering.ship(&by(SELLER), pending.id, shipment()).await));
    assert!(wrong(app.ordering.complete(&by(BUYER), pending.id).await));
    let paid = process.paid().await;
    assert!(wrong(app.ordering.cancel(&by(BUYER), paid.id).await));
    assert!(wrong(app.ordering.complete(&by(BUYER), paid.id).await));
    app.ordering.ship(&by(SELLER), paid.id, shipment()).await.unwrap();
    assert!(wrong(app.ordering.ship(&by(SELLER), paid.id, shipment()).await));
    assert!(wrong(app.ordering.cancel(&by(BUYER), paid.id).await));
    assert_eq!(world.order(pending.id).await, pending);
    let payment = StartPayment { order: paid.id, method: Some(PaymentMethod::Card) };
    let late = app.payments.start(&by(BUYER), payment).await;
    assert!(matches!(
        late,
        Err(UseCaseError::Refused(PaymentCommandRefusal::Order(OrderRefusal::WrongStatus { .. })))
    ));
}

#[tokio::test(start_paused = true)]
async fn report_for_a_missing_payment_is_not_found() {
    let world = World::new().await;
    let process = world.process();
    let order = process.ordered().await;
    let mut payment = process.started_payment(order.id).await;
    payment.id = 404.try_into().unwrap();
    let result = process.app.payments.settle(&gateway(), report(&payment, PaymentResult::Success)).await;
    assert!(is_not_found(&result));
}
