//! Buyers and sellers: they buy, pay, ship, complete, cancel and look; some hang up, some look where they may not.

use std::time::Duration;

use handover_events::TenantId;
use marketplace::App;
use marketplace::use_cases::*;
use marketplace_domain::{Money, Order, OrderId, Title};

use super::journal::{Journal, Listed, Told};
use super::{Scene, buying, by_user, gateway, repeats, tenants, user};
use crate::faults::{Fault, Faults};

/// How long a client waits that does not hang up.
const PATIENCE: Duration = Duration::from_secs(30);

/// One thing a client does. What it was refused or promised it writes down.
pub(crate) async fn act(app: &App, scene: &Scene) {
    let faults = &scene.faults;
    let patience = if faults.strikes(Fault::HangUp) { faults.dice.millis(1..60) } else { PATIENCE };
    // A client that hangs up learns nothing, whatever has happened.
    let answered = tokio::time::timeout(patience, act_once(app, scene)).await;
    if answered.is_err() {
        faults.note("a client", || "hangs up".to_owned());
    }
}

async fn act_once(app: &App, Scene { faults, journal, bank }: &Scene) {
    let orders = journal.orders();
    let roll = faults.dice.below(100);
    if orders.is_empty() || roll < 38 {
        return buying::buy(app, faults, journal).await;
    }
    if roll < 42 {
        return shelve(app, faults, journal).await;
    }
    if roll < 45 {
        return list(app, faults, journal).await;
    }
    if roll < 50 {
        return repeats::some(app, faults, journal).await;
    }
    let Some((tenant, id)) = faults.dice.pick(&orders).copied() else { return };
    if roll < 53 {
        return look_where_it_may_not(app, faults, tenant, id).await;
    }
    let Ok(Some(order)) = look(app, tenant, id).await else { return };
    match faults.dice.below(12) {
        0..=5 => gateway::pay(app, faults, journal, bank, &order).await,
        6 | 7 => buying::refund(app, faults, journal, &order).await,
        _ => step(app, faults, journal, &order).await,
    }
}

async fn list(app: &App, faults: &Faults, journal: &Journal) {
    let [first, second] = tenants();
    let tenant = if faults.dice.permille(600) { first } else { second };
    let seller = user(200 + faults.dice.below(4));
    let title = Title::try_from(format!("thing {:x}", faults.dice.below(u64::MAX))).expect("a legal title");
    let price = Money::from_minor(100 + i64::try_from(faults.dice.below(9_000)).unwrap_or(0));
    let price = price.expect("a legal price");
    let command = ListProduct { title: title.clone(), price };
    match list_product(app, &by_user(faults, tenant, seller), command).await {
        Ok(product) => journal.listed(Listed { tenant, id: product.id, seller, price }, title),
        Err(error) => faults.note(&format!("seller {seller}"), || format!("does not know: {error}")),
    }
}

async fn shelve(app: &App, faults: &Faults, journal: &Journal) {
    let Some(Listed { tenant, id, seller, .. }) = faults.dice.pick(&journal.products()).copied() else {
        return;
    };
    let shelf = if faults.dice.permille(400) { Shelf::Off } else { Shelf::On };
    let context = by_user(faults, tenant, seller);
    if let Err(error) = shelve_product(app, &context, id, shelf).await {
        journal.failed(&format!("seller {seller}"), &context, &error);
    }
}

/// Somebody who is no party of the order, or of another marketplace, must not find it, nor move it.
async fn look_where_it_may_not(app: &App, faults: &Faults, tenant: TenantId, id: OrderId) {
    let (tenant, who) = if faults.dice.permille(500) {
        (tenant, user(700 + faults.dice.below(3)))
    } else {
        let [first, second] = tenants();
        // The same numbers there are other people.
        let other = if tenant == first { second } else { first };
        (other, user(100 + faults.dice.below(5)))
    };
    if faults.dice.permille(300) {
        return pay_as_the_seller(app, faults, tenant, id).await;
    }
    let context = by_user(faults, tenant, who);
    let seen = match faults.dice.below(4) {
        3 => {
            let command = RequestRefund { order: id, reason: "curious".to_owned() };
            request_refund(app, &context, command).await.map(|_| ())
        }
        0 => find_order(app, &context, id).await.map(|_| ()),
        1 => cancel_order(app, &context, id).await.map(|_| ()),
        _ => complete_order(app, &context, id).await.map(|_| ()),
    };
    match seen {
        Err(UseCaseError::NotFound { .. }) => {
            faults.cover(|coverage| coverage.place("a refusal of a stranger"));
        }
        Err(UseCaseError::Store(_) | UseCaseError::Broker(_)) => {}
        Ok(_) => faults.violation(format!("a stranger, {who} of tenant {tenant}, got at order {id}")),
        Err(error) => {
            faults
                .violation(format!("a stranger, {who} of tenant {tenant}, was told of order {id}: {error}"));
        }
    }
}

/// A seller sees the order, and must neither pay it nor have it paid back.
async fn pay_as_the_seller(app: &App, faults: &Faults, tenant: TenantId, id: OrderId) {
    let Ok(Some(order)) = look(app, tenant, id).await else { return };
    let context = by_user(faults, tenant, order.seller);
    let done = if faults.dice.permille(500) {
        let start = StartPayment { order: id, method: "card".into() };
        start_payment(app, &context, start).await.map(|payment| format!("payment {}", payment.id))
    } else {
        let command = RequestRefund { order: id, reason: "sold out".to_owned() };
        request_refund(app, &context, command).await.map(|refund| format!("refund {}", refund.id))
    };
    if let Ok(what) = done {
        faults.violation(format!("the seller of order {id} started {what}"));
    }
}

async fn step(app: &App, faults: &Faults, journal: &Journal, order: &Order) {
    let context = by_user(faults, order.tenant, order.buyer);
    let reached = match faults.dice.below(5) {
        0 | 1 => return buying::ship(app, faults, journal, order).await,
        2 | 3 => complete_order(app, &context, order.id).await,
        _ => cancel_order(app, &context, order.id).await,
    };
    let who = format!("buyer {}", order.buyer);
    match reached {
        Ok(after) => journal.tell(&who, Told::Reached(order.id, after.status)),
        Err(error) => journal.failed(&who, &context, &error),
    }
}

async fn look(
    app: &App,
    tenant: TenantId,
    id: OrderId,
) -> Result<Option<Order>, handover_outbox::ports::StoreError> {
    app.view().await?.order_by_id(tenant, id).await
}
