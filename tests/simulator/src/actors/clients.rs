//! Buyers and sellers: they buy, pay, ship, complete, cancel and read; some disconnect, some try forbidden requests.

use std::error::Error;
use std::time::Duration;

use handover_events::TenantId;
use marketplace::App;
use marketplace::use_cases::{CancelOrder, ListProduct, RequestRefund, Shelf, StartPayment, UseCaseError};
use marketplace_domain::{Money, Order, OrderId, PaymentMethod, Title};

use super::journal::{ClientResponse, Journal, ListedProduct};
use super::{ActorState, buying, by_user, gateway, repeated_requests, tenants, user};
use crate::fault_kinds::Fault;
use crate::faults::Faults;

/// Timeout of a client that does not disconnect.
const TIMEOUT: Duration = Duration::from_secs(30);

/// One random action of a client. Responses are recorded in the journal.
pub(crate) async fn act(app: &App, actor_state: &ActorState) {
    let faults = &actor_state.faults;
    let timeout = if faults.occurs(Fault::Disconnect) { faults.random.millis(1..60) } else { TIMEOUT };
    // A client that disconnects gets no response, whatever the outcome.
    let response = tokio::time::timeout(timeout, act_once(app, actor_state)).await;
    if response.is_err() {
        faults.note("a client", || "disconnects".to_owned());
    }
}

async fn act_once(app: &App, state: &ActorState) {
    let ActorState { faults, journal, .. } = state;
    let orders = journal.orders();
    let number = faults.random.below(100);
    if orders.is_empty() || number < 38 {
        return buying::buy(app, faults, journal).await;
    }
    if number < 42 {
        return shelve(app, faults, journal).await;
    }
    if number < 45 {
        return list(app, faults, journal).await;
    }
    if number < 50 {
        return repeated_requests::send_repeatedly(app, faults, journal).await;
    }
    let Some((tenant, id)) = faults.random.pick(&orders).copied() else { return };
    if number < 53 {
        return try_forbidden_access(app, faults, tenant, id).await;
    }
    let Ok(Some(order)) = read_order(app, tenant, id).await else { return };
    match faults.random.below(12) {
        0..=5 => gateway::pay(app, state, &order).await,
        6 | 7 => buying::refund(app, faults, journal, &order).await,
        _ => advance_order(app, faults, journal, &order).await,
    }
}

async fn list(app: &App, faults: &Faults, journal: &Journal) {
    let [first, second] = tenants();
    let tenant = if faults.random.permille(600) { first } else { second };
    let seller = user(200 + faults.random.below(4));
    let title = Title::try_from(format!("thing {:x}", faults.random.below(u64::MAX))).expect("a valid title");
    let price = Money::from_minor(100 + i64::try_from(faults.random.below(9_000)).unwrap_or(0));
    let price = price.expect("a valid price");
    let command = ListProduct { title: title.clone(), price };
    match app.ordering.list_product(&by_user(faults, tenant, seller), command).await {
        Ok(product) => journal.record_listed(ListedProduct { tenant, id: product.id, seller, price }, title),
        Err(error) => faults.note(&format!("seller {seller}"), || format!("outcome unknown: {error}")),
    }
}

async fn shelve(app: &App, faults: &Faults, journal: &Journal) {
    let Some(ListedProduct { tenant, id, seller, .. }) = faults.random.pick(&journal.products()).copied()
    else {
        return;
    };
    let shelf = if faults.random.permille(400) { Shelf::Off } else { Shelf::On };
    let context = by_user(faults, tenant, seller);
    if let Err(error) = app.ordering.shelve_product(&context, id, shelf).await {
        journal.record_error(&format!("seller {seller}"), &context, &error);
    }
}

/// A user who is not a party of the order, or is of another tenant, must not see or change it.
async fn try_forbidden_access(app: &App, faults: &Faults, tenant: TenantId, id: OrderId) {
    let (tenant, requester) = if faults.random.permille(500) {
        (tenant, user(700 + faults.random.below(3)))
    } else {
        let [first, second] = tenants();
        // In the other tenant the same ids belong to other users.
        let other = if tenant == first { second } else { first };
        (other, user(100 + faults.random.below(5)))
    };
    if faults.random.permille(300) {
        return try_payment_as_seller(app, faults, tenant, id).await;
    }
    let context = by_user(faults, tenant, requester);
    let who = format!("user {requester} of tenant {tenant}");
    match faults.random.below(4) {
        3 => {
            let command = RequestRefund { order: id, reason: "curious".to_owned(), off_shelf: false };
            check_hidden(faults, &who, id, app.payments.request_refund(&context, command).await);
        }
        0 => check_hidden(faults, &who, id, app.queries.find_order(&context, id).await),
        1 => check_hidden(faults, &who, id, app.ordering.cancel(&context, id).await),
        _ => check_hidden(faults, &who, id, app.ordering.complete(&context, id).await),
    }
}

/// Checks that a use case does not reveal an order to a user who is not a party of it.
fn check_hidden<T, R: Error>(faults: &Faults, who: &str, id: OrderId, result: Result<T, UseCaseError<R>>) {
    match result {
        Err(UseCaseError::NotFound { .. }) => {
            faults.cover(|coverage| coverage.situation("refused access of another user"));
        }
        Err(UseCaseError::Store(_)) => {}
        Ok(_) => faults.violation(format!("{who} got access to order {id}")),
        Err(error) => faults.violation(format!("the error for {who} reveals order {id}: {error}")),
    }
}

/// The seller of an order may read it, but must not pay it.
async fn try_payment_as_seller(app: &App, faults: &Faults, tenant: TenantId, id: OrderId) {
    let Ok(Some(order)) = read_order(app, tenant, id).await else { return };
    let context = by_user(faults, tenant, order.seller);
    let start = StartPayment { order: id, method: Some(PaymentMethod::Card) };
    if let Ok(started) = app.payments.start(&context, start).await {
        faults.violation(format!("the seller of order {id} started payment {}", started.payment.id));
    }
}

async fn advance_order(app: &App, faults: &Faults, journal: &Journal, order: &Order) {
    let context = by_user(faults, order.tenant, order.buyer);
    let reached = match faults.random.below(5) {
        0 | 1 => return buying::ship(app, faults, journal, order).await,
        2 | 3 => app.ordering.complete(&context, order.id).await,
        _ if faults.random.permille(400) => return decline(app, faults, journal, order).await,
        _ => app.ordering.cancel(&context, order.id).await,
    };
    let who = format!("buyer {}", order.buyer);
    match reached {
        Ok(after) => journal.record(&who, ClientResponse::StatusReached(order.id, after.status)),
        Err(error) => journal.record_error(&who, &context, &error),
    }
}

/// The seller declines an unpaid order.
async fn decline(app: &App, faults: &Faults, journal: &Journal, order: &Order) {
    let context = by_user(faults, order.tenant, order.seller);
    let who = format!("seller {}", order.seller);
    let command = CancelOrder { order: order.id, off_shelf: faults.random.permille(500) };
    match app.ordering.cancel(&context, command).await {
        Ok(after) => journal.record(&who, ClientResponse::StatusReached(order.id, after.status)),
        Err(error) => journal.record_error(&who, &context, &error),
    }
}

async fn read_order(
    app: &App,
    tenant: TenantId,
    id: OrderId,
) -> Result<Option<Order>, handover_outbox::ports::StoreError> {
    app.tx.view().await?.order_by_id(tenant, id).await
}
