//! Backlogs of events, as the use cases leave them.

use std::sync::Arc;

use handover_application::ports::{NewEvent, UnitOfWork};
use handover_application::{Actor, App, CommandContext, Trace, with_tx};
use handover_domain::{
    AskedAssets, EventBody, Money, NewOrder, Order, OrderId, OrderPaid, PointsRules, Product, ProductId,
    ProductStatus, TenantId, Title, UserId,
};

use super::error::odd;
use handover::Failure;

/// Rows in a unit of work.
const UNIT: u32 = 500;
/// Sellers have ids from 1 on, buyers from here.
const BUYERS: i64 = 1_000_000;
const USERS: i64 = 1_000;

/// The buyer of the n-th order.
pub(super) fn buyer(n: u32) -> Result<UserId, Failure> {
    UserId::try_from(BUYERS + i64::from(n) % USERS).map_err(odd)
}

/// The circumstances of the n-th order.
pub(super) fn context(n: u32) -> Result<CommandContext, Failure> {
    let trace = Trace { trace_id: format!("bench-{n:016x}"), traceparent: None };
    let actor = Actor::User { id: buyer(n)?, roles: Vec::new() };
    Ok(CommandContext { actor, tenant: TenantId::DEFAULT, trace, idempotency: None })
}

fn product(app: &App, n: u32) -> Result<Product, Failure> {
    Ok(Product {
        id: ProductId::try_from(i64::from(n) + 1).map_err(odd)?,
        tenant: TenantId::DEFAULT,
        seller: UserId::try_from(1 + i64::from(n) % USERS).map_err(odd)?,
        title: Title::try_from(format!("desk lamp no. {n}, hardly used")).map_err(odd)?,
        price: Money::from_minor(1_000 + i64::from(n) % 100_000).map_err(odd)?,
        status: ProductStatus::OnSale,
        version: 1,
        create_time: app.now(),
        update_time: app.now(),
    })
}

/// What the orders of a backlog announce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backlog {
    /// ORDER_CREATED and ORDER_TIMEOUT of each order.
    Placed,
    /// ORDER_PAID of each order.
    Paid,
}

/// Commits a backlog of `count` events.
pub(super) async fn events(app: &App, count: u32, backlog: Backlog) -> Result<(), Failure> {
    let (mut left, mut order) = (count as usize, 0);
    while left > 0 {
        let mut batch = Vec::new();
        while batch.len() < left.min(UNIT as usize) {
            batch.extend(announced(app, order, backlog)?);
            order += 1;
        }
        batch.truncate(left);
        left -= batch.len();
        let batch = Arc::new(batch);
        with_tx(&app.tx, move |unit: &mut dyn UnitOfWork, _| {
            let batch = Arc::clone(&batch);
            Box::pin(async move { unit.append(&batch).await })
        })
        .await
        .map_err(odd)?;
    }
    Ok(())
}

/// The outbox rows of the n-th order.
fn announced(app: &App, n: u32, backlog: Backlog) -> Result<Vec<NewEvent>, Failure> {
    let announcer = app.announcer(&context(n)?, 2);
    let new = NewOrder {
        id: OrderId::try_from(i64::from(n) + 1).map_err(odd)?,
        buyer: buyer(n)?,
        now: announcer.now,
    };
    let (order, _, placed) =
        Order::place(&product(app, n)?, new, &AskedAssets::NONE, PointsRules::default()).map_err(odd)?;
    Ok(match backlog {
        Backlog::Placed => announcer.rows(0, TenantId::DEFAULT, order.version, &placed),
        Backlog::Paid => {
            let paid = EventBody::OrderPaid(OrderPaid {
                order: order.facts(),
                pay_time: announcer.now,
                amount: order.total,
                product: order.product,
            });
            announcer.rows(0, TenantId::DEFAULT, order.version + 1, &[paid])
        }
    })
}
