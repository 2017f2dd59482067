//! Pages, and the visibility of their items.

use handover_outbox::operations::{OperationError, outbox, queues};
use handover_outbox::ports::OutboxFilter;
use marketplace::ports::OrderSide;
use marketplace::{Actor, CommandContext, Role};
use marketplace_domain::*;

use super::orders::OTHER_USER;
use crate::support::{BUYER, SELLER, World, by};

fn as_role(role: Role) -> CommandContext {
    CommandContext { actor: Actor::User { id: 1.try_into().unwrap(), roles: vec![role] }, ..by(1) }
}

#[tokio::test(start_paused = true)]
async fn products_page_is_ordered_newest_first() {
    let world = World::new().await;
    let process = world.process();
    let mut listed = Vec::new();
    for _ in 0..25 {
        listed.push(process.listed().await.id);
    }
    listed.reverse();
    let mut seen = Vec::new();
    let mut sizes = Vec::new();
    let mut before = None;
    loop {
        let page = process.app.queries.products(&by(BUYER), None, before, 10).await.unwrap();
        sizes.push(page.items.len());
        seen.extend(page.items.iter().map(|product| product.id));
        let Some(next) = page.next else { break };
        before = Some(next.try_into().unwrap());
    }
    assert_eq!((seen, sizes), (listed, vec![10, 10, 5]));
    let whole = process.app.queries.products(&by(BUYER), None, None, 25).await.unwrap();
    assert_eq!(
        (whole.items.len(), whole.next),
        (25, None),
        "a full last page must have no cursor of a next page"
    );
    let sold = process.app.queries.products(&by(BUYER), Some(ProductStatus::Sold), None, 10).await.unwrap();
    assert!(sold.items.is_empty());
    let other_tenant = CommandContext { tenant: 2.try_into().unwrap(), ..by(BUYER) };
    assert!(process.app.queries.products(&other_tenant, None, None, 10).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn orders_are_listed_for_their_buyer_and_their_seller() {
    let world = World::new().await;
    let process = world.process();
    let app = &process.app;
    let first = process.ordered().await;
    let second = process.paid().await;
    let ids = async |user: i64, side, status| -> Vec<OrderId> {
        let page = app.queries.orders(&by(user), side, status, None, 10).await.unwrap();
        page.items.iter().map(|order| order.id).collect()
    };
    assert_eq!(ids(BUYER, OrderSide::Buyer, None).await, [second.id, first.id]);
    assert_eq!(ids(SELLER, OrderSide::Seller, None).await, [second.id, first.id]);
    assert_eq!(ids(BUYER, OrderSide::Buyer, Some(OrderStatus::Paid)).await, [second.id]);
    assert!(ids(BUYER, OrderSide::Seller, None).await.is_empty());
    assert!(ids(OTHER_USER, OrderSide::Buyer, None).await.is_empty());
    let page = app.queries.orders(&by(BUYER), OrderSide::Buyer, None, None, 1).await.unwrap();
    assert_eq!(page.next, Some(second.id.get()));
    let last = app.queries.orders(&by(BUYER), OrderSide::Buyer, None, Some(second.id), 1).await.unwrap();
    assert_eq!((last.items[0].id, last.next), (first.id, None));
}

#[tokio::test(start_paused = true)]
async fn outbox_page_shows_operators_their_tenant_and_the_platform_all_tenants() {
    let world = World::new().await;
    let process = world.process();
    let app = &process.app;
    process.ordered().await;
    let page = async |context: &CommandContext, tenant: Option<i64>| {
        let tenant = tenant.map(|id| id.try_into().unwrap());
        let filter = OutboxFilter { tenant, ..OutboxFilter::default() };
        outbox(&app.outbox, &context.operator().unwrap(), filter, None, 10).await
    };
    assert_eq!(page(&as_role(Role::Operator), None).await.unwrap().items.len(), 2);
    let other_tenant = CommandContext { tenant: 2.try_into().unwrap(), ..as_role(Role::Operator) };
    assert!(page(&other_tenant, None).await.unwrap().items.is_empty());
    assert!(matches!(page(&other_tenant, Some(1)).await, Err(OperationError::NotFound { .. })));
    let platform = CommandContext { tenant: 2.try_into().unwrap(), ..as_role(Role::Platform) };
    assert_eq!(page(&platform, None).await.unwrap().items.len(), 2);
    assert!(page(&platform, Some(2)).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn queue_depths_are_shown_to_every_operator() {
    let world = World::new().await;
    let process = world.process();
    let operator = as_role(Role::Operator).operator().unwrap();
    assert_eq!(queues(&process.app.outbox, &operator).await.unwrap().len(), 11);
    world.broker.set_reachable(false);
    let unreachable = queues(&process.app.outbox, &operator).await;
    assert!(matches!(unreachable, Err(OperationError::Broker(_))), "{unreachable:?}");
}

#[tokio::test(start_paused = true)]
async fn order_is_found_by_its_buyer_and_seller() {
    let world = World::new().await;
    let process = world.process();
    let order = process.ordered().await;
    for user in [BUYER, SELLER] {
        assert_eq!(process.app.queries.find_order(&by(user), order.id).await.unwrap(), order);
    }
    let product = process.app.queries.find_product(&by(OTHER_USER), order.product).await.unwrap();
    assert_eq!(product.status, ProductStatus::Sold);
}
