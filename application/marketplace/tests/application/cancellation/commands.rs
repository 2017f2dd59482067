//! Every use case, cut at every await.

use std::future::Future;
use std::pin::Pin;

use marketplace::App;
use marketplace::use_cases::*;
use marketplace_domain::*;

use super::world::*;
use super::{Cut, step, sweep};

/// What a command leaves: nothing new, or all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    All,
}

/// One cut of one command. `given` prepares, `all` is what the command leads to from the state before, `again` repeats
/// it afterwards and says whether that is as it should be.
async fn cut_once<G, T>(
    (cut, polls): (Cut, usize),
    given: impl AsyncFn(&App) -> G,
    command: impl AsyncFn(&App, &G) -> Result<T, UseCaseError>,
    all: impl Fn(&State, &State) -> bool,
    again: impl Fn(Result<T, UseCaseError>, Left) -> bool,
) -> bool {
    let world = World::new().await;
    let (app, _) = world.process();
    // From another process, so that the command's own process has to take its ids too.
    let given = given(&world.process().0).await;
    let before = world.state().await;
    let mut running: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(command(&app, &given));
    let answer = step(&mut running, polls).await;
    if cut == Cut::ProcessEnds {
        app.tx.tasks.kill();
    }
    drop(running);
    let next = after(&world, &app, cut).await;
    let now = world.state().await;
    let left = if now == before { Left::Nothing } else { Left::All };
    let complete = answer.is_some();
    assert!(left == Left::Nothing || all(&before, &now), "{cut:?} after {polls}: {before:?} became {now:?}");
    assert!(!complete || left == Left::All, "{cut:?} after {polls}: answered, and nothing is there");
    if let Some(Err(error)) = answer {
        panic!("{error}");
    }
    let repeated = without_waiting(command(&next, &given)).await;
    assert!(again(repeated, left), "{cut:?} after {polls}: repeated after {left:?}");
    let last = world.state().await;
    assert!(left == Left::All || all(&before, &last), "{cut:?} after {polls}: repeated to {last:?}");
    without_waiting(ordered(&next)).await;
    complete
}

/// Events that are new.
fn new_events(before: &State, now: &State) -> Vec<(String, i64)> {
    let mut events = now.events[..now.events.len() - before.events.len()].to_vec();
    events.reverse();
    events
}

fn are(events: Vec<(String, i64)>, expected: &[(&str, i64)]) -> bool {
    events.iter().map(|(name, seq)| (name.as_str(), *seq)).eq(expected.iter().copied())
}

fn refused_by_status<T>(answer: &Result<T, UseCaseError>) -> bool {
    matches!(answer, Err(UseCaseError::Order(OrderRefusal::WrongStatus { .. })))
}

#[test]
fn list_product_is_there_or_not() {
    sweep("list_product", async |cut, polls| {
        let all = |before: &State, now: &State| {
            now.products.len() == before.products.len() + 1 && now.events == before.events
        };
        let command = async |app: &App, (): &()| list_product(app, &by(SELLER), camera()).await;
        cut_once((cut, polls), async |_| (), command, all, |again, _| again.is_ok()).await
    });
}

#[test]
fn place_order_is_there_with_product_and_events_or_not_at_all() {
    sweep("place_order", async |cut, polls| {
        let all = |before: &State, now: &State| {
            now.orders.len() == 1
                && now
                    .products
                    .iter()
                    .all(|(_, status, version)| (*status, *version) == (ProductStatus::Sold, 2))
                && are(new_events(before, now), &[("ORDER_CREATED", 1), ("ORDER_TIMEOUT", 1)])
        };
        let given = async |app: &App| listed(app).await.id;
        let command = async |app: &App, product: &ProductId| {
            place_order(app, &by(BUYER), PlaceOrder::of(*product)).await
        };
        let again = |answer: Result<Order, UseCaseError>, left| match left {
            Left::Nothing => answer.is_ok(),
            Left::All => matches!(answer, Err(UseCaseError::Order(OrderRefusal::Product(_)))),
        };
        cut_once((cut, polls), given, command, all, again).await
    });
}

#[test]
fn cancel_order_is_there_with_product_and_event_or_not_at_all() {
    sweep("cancel_order", async |cut, polls| {
        let all = |before: &State, now: &State| {
            now.orders[0].1 == OrderStatus::Cancelled
                && now.products[0].1 == ProductStatus::OnSale
                && are(new_events(before, now), &[("ORDER_CANCELLED", 2)])
        };
        let command = async |app: &App, order: &Order| cancel_order(app, &by(BUYER), order.id).await;
        let again = |answer: Result<Order, UseCaseError>, left| match left {
            Left::Nothing => answer.is_ok(),
            Left::All => refused_by_status(&answer),
        };
        cut_once((cut, polls), async |app| ordered(app).await, command, all, again).await
    });
}

#[test]
fn ship_order_is_there_with_its_event_or_not_at_all() {
    sweep("ship_order", async |cut, polls| {
        let all = |before: &State, now: &State| {
            now.orders[0].1 == OrderStatus::Shipped
                && are(new_events(before, now), &[("ORDER_STATUS_CHANGED", 3)])
        };
        let command = async |app: &App, order: &Order| {
            let shipment = Shipment::new("SF".into(), "SF-1".into()).unwrap();
            ship_order(app, &by(SELLER), order.id, shipment).await
        };
        let again = |answer: Result<Order, UseCaseError>, left| match left {
            Left::Nothing => answer.is_ok(),
            Left::All => refused_by_status(&answer),
        };
        cut_once((cut, polls), async |app| paid(app).await, command, all, again).await
    });
}

#[test]
fn complete_order_is_there_with_its_event_or_not_at_all() {
    sweep("complete_order", async |cut, polls| {
        let all = |before: &State, now: &State| {
            now.orders[0].1 == OrderStatus::Completed
                && are(new_events(before, now), &[("ORDER_STATUS_CHANGED", 4)])
        };
        let command = async |app: &App, order: &Order| complete_order(app, &by(BUYER), order.id).await;
        let again = |answer: Result<Order, UseCaseError>, left| match left {
            Left::Nothing => answer.is_ok(),
            Left::All => refused_by_status(&answer),
        };
        cut_once((cut, polls), async |app| shipped(app).await, command, all, again).await
    });
}

#[test]
fn start_payment_starts_one_payment_or_none() {
    sweep("start_payment", async |cut, polls| {
        let all = |before: &State, now: &State| now.payments.len() == 1 && now.events == before.events;
        let command = async |app: &App, order: &Order| start_payment(app, &by(BUYER), card(order.id)).await;
        // Asked for again, it is the one that is there.
        cut_once((cut, polls), async |app| ordered(app).await, command, all, |again, _| again.is_ok()).await
    });
}

#[test]
fn settle_payment_settles_payment_and_order_with_both_events_or_nothing() {
    sweep("settle_payment", async |cut, polls| {
        let all = |before: &State, now: &State| {
            now.payments[0].1 == PaymentStatus::Success
                && now.orders[0].1 == OrderStatus::Paid
                && are(new_events(before, now), &[("PAYMENT_SUCCEEDED", 2), ("ORDER_PAID", 2)])
        };
        let given = async |app: &App| {
            let order = ordered(app).await;
            start_payment(app, &by(BUYER), card(order.id)).await.unwrap()
        };
        let command =
            async |app: &App, payment: &Payment| settle_payment(app, &gateway(), success(payment)).await;
        cut_once((cut, polls), given, command, all, |again, _| again.is_ok()).await
    });
}
