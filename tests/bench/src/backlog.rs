//! Backlogs of outbox rows, as the use cases would have written them.

use handover_events::TenantId;
use handover_events::Trace;
use handover_outbox::ports::NewEvent;
use handover_outbox::with_tx;
use marketplace::ports::Work;
use marketplace::{Actor, App, CommandContext};
use marketplace_domain::{
    Money, NewOrder, Order, OrderAction, OrderActor, OrderId, PointsRules, Product, ProductId, ProductStatus,
    RequestedAssets, Title, UserId,
};

use crate::error::{BenchError, service_error};

/// Maximum number of rows appended in one unit of work.
const ROWS_PER_UNIT: usize = 500;
/// First id of buyers; the ids of sellers begin at 1.
const FIRST_BUYER: i64 = 1_000_000;
const USERS: i64 = 1_000;
/// Number of buyers.
pub(crate) const BUYERS: u32 = 1_000;

/// The buyer of the n-th order.
pub(crate) fn buyer(n: u32) -> Result<UserId, BenchError> {
    UserId::try_from(FIRST_BUYER + i64::from(n) % USERS).map_err(service_error)
}

/// The command context of the n-th order.
pub(crate) fn context(n: u32) -> Result<CommandContext, BenchError> {
    let trace = Trace { trace_id: format!("bench-{n:016x}"), traceparent: None };
    let actor = Actor::User { id: buyer(n)?, roles: Vec::new() };
    Ok(CommandContext { actor, tenant: TenantId::DEFAULT, trace, request_id: None })
}

fn product(app: &App, n: u32) -> Result<Product, BenchError> {
    Ok(Product {
        id: ProductId::try_from(i64::from(n) + 1).map_err(service_error)?,
        tenant: TenantId::DEFAULT,
        seller: UserId::try_from(1 + i64::from(n) % USERS).map_err(service_error)?,
        title: Title::try_from(format!("desk lamp no. {n}, hardly used")).map_err(service_error)?,
        price: Money::from_minor(1_000 + i64::from(n) % 100_000).map_err(service_error)?,
        status: ProductStatus::OnSale,
        version: 1,
        create_time: app.tx.now(),
        update_time: app.tx.now(),
    })
}

/// The events that a backlog contains for each order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backlog {
    /// ORDER_CREATED and ORDER_TIMEOUT of each order.
    Placed,
    /// ORDER_PAID of each order.
    Paid,
}

/// Appends a backlog of `count` events to the outbox.
pub(crate) async fn append(app: &App, count: u32, backlog: Backlog) -> Result<(), BenchError> {
    let mut left = count as usize;
    let mut order = 0;
    while left > 0 {
        let mut rows = Vec::new();
        let mut orders = Vec::new();
        while rows.len() < left.min(ROWS_PER_UNIT) {
            let (placed, events) = events_of_order(app, order, backlog)?;
            rows.extend(events);
            orders.push(placed);
            order += 1;
        }
        rows.truncate(left);
        left -= rows.len();
        // The relay does not read orders; the consumer of `Paid` events does.
        if backlog == Backlog::Placed {
            orders.clear();
        }
        with_tx(&app.tx, (orders, rows), |unit: &mut Work, (orders, rows), _| {
            Box::pin(async move {
                for order in orders {
                    unit.insert_order(order).await?;
                }
                unit.outbox().append(rows).await
            })
        })
        .await
        .map_err(service_error)?;
    }
    Ok(())
}

/// The n-th order and its outbox rows.
fn events_of_order(app: &App, n: u32, backlog: Backlog) -> Result<(Order, Vec<NewEvent>), BenchError> {
    let event_factory = app.handlers.events.factory(&context(n)?, 2);
    let new = NewOrder {
        id: OrderId::try_from(i64::from(n) + 1).map_err(service_error)?,
        buyer: buyer(n)?,
        now: event_factory.now,
    };
    let (order, _, placed) =
        Order::place(&product(app, n)?, new, &RequestedAssets::NONE, PointsRules::default())
            .map_err(service_error)?;
    Ok(match backlog {
        Backlog::Placed => {
            let rows = event_factory.rows(0, &order, order.version, &placed);
            (order, rows)
        }
        Backlog::Paid => {
            let pay = OrderAction::Pay;
            let (paid, events) =
                order.apply(&pay, OrderActor::System, event_factory.now).map_err(service_error)?;
            let rows = event_factory.rows(0, &paid, paid.version, &events);
            (paid, rows)
        }
    })
}
