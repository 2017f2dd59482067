//! Use cases, interrupted at every await.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;

use marketplace::App;
use marketplace::use_cases::*;
use marketplace_domain::*;

use super::world::*;
use super::{Interruption, interrupt_at_every_poll, poll_up_to};

/// State after an interrupted command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unchanged,
    Applied,
}

/// Interrupts one command once. `setup` prepares the state, `is_applied` compares the states before and after the
/// command, and `is_valid_repeat` checks the result of the repeated command. Returns whether the command completed.
async fn interrupt_once<G, T, E: Display>(
    (interruption, polls): (Interruption, usize),
    setup: impl AsyncFn(&App) -> G,
    command: impl AsyncFn(&App, &G) -> Result<T, E>,
    is_applied: impl Fn(&State, &State) -> bool,
    is_valid_repeat: impl Fn(Result<T, E>, Outcome) -> bool,
) -> bool {
    let world = World::new().await;
    let (app, _) = world.process();
    // Setup runs in another process, so that the command also has to reserve id blocks.
    let input = setup(&world.process().0).await;
    let before = world.state().await;
    let mut running: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(command(&app, &input));
    let result = poll_up_to(&mut running, polls).await;
    if interruption == Interruption::ProcessKilled {
        app.tx.tasks().kill();
    }
    drop(running);
    let next = continuing_app(&world, &app, interruption).await;
    let now = world.state().await;
    let outcome = if now == before { Outcome::Unchanged } else { Outcome::Applied };
    let complete = result.is_some();
    assert!(
        outcome == Outcome::Unchanged || is_applied(&before, &now),
        "{interruption:?} after {polls} polls: invalid change from {before:?} to {now:?}"
    );
    assert!(
        !complete || outcome == Outcome::Applied,
        "{interruption:?} after {polls} polls: completed without an effect"
    );
    if let Some(Err(error)) = result {
        panic!("{error}");
    }
    let repeated = without_waiting(command(&next, &input)).await;
    assert!(
        is_valid_repeat(repeated, outcome),
        "{interruption:?} after {polls} polls: wrong result of the repetition after {outcome:?}"
    );
    let last = world.state().await;
    assert!(
        outcome == Outcome::Applied || is_applied(&before, &last),
        "{interruption:?} after {polls} polls: wrong state after the repetition: {last:?}"
    );
    without_waiting(ordered(&next)).await;
    complete
}

/// The events of the state `now` that are not in the earlier state `before`, oldest first.
fn new_events(before: &State, now: &State) -> Vec<(String, i64)> {
    let mut events = now.events[..now.events.len() - before.events.len()].to_vec();
    events.reverse();
    events
}

fn match_expected(events: Vec<(String, i64)>, expected: &[(&str, i64)]) -> bool {
    events.iter().map(|(name, seq)| (name.as_str(), *seq)).eq(expected.iter().copied())
}

fn refused_by_status<T>(result: &Result<T, UseCaseError<OrderRefusal>>) -> bool {
    matches!(result, Err(UseCaseError::Refused(OrderRefusal::WrongStatus { .. })))
}

#[test]
fn interrupted_list_product_is_atomic() {
    interrupt_at_every_poll("list_product", async |interruption, polls| {
        let is_applied = |before: &State, now: &State| {
            now.products.len() == before.products.len() + 1 && now.events == before.events
        };
        let command = async |app: &App, (): &()| app.ordering.list_product(&by(SELLER), camera()).await;
        interrupt_once((interruption, polls), async |_| (), command, is_applied, |result, _| result.is_ok())
            .await
    });
}

#[test]
fn interrupted_place_order_is_atomic_with_product_and_events() {
    interrupt_at_every_poll("place_order", async |interruption, polls| {
        let is_applied = |before: &State, now: &State| {
            now.orders.len() == 1
                && now
                    .products
                    .iter()
                    .all(|(_, status, version)| (*status, *version) == (ProductStatus::Sold, 2))
                && match_expected(new_events(before, now), &[("ORDER_CREATED", 1), ("ORDER_TIMEOUT", 1)])
        };
        let setup = async |app: &App| listed(app).await.id;
        let command = async |app: &App, product: &ProductId| {
            app.ordering.place(&by(BUYER), PlaceOrder::of(*product)).await
        };
        let is_valid_repeat = |result: Result<Order, UseCaseError<OrderRefusal>>, outcome| match outcome {
            Outcome::Unchanged => result.is_ok(),
            Outcome::Applied => matches!(result, Err(UseCaseError::Refused(OrderRefusal::Product(_)))),
        };
        interrupt_once((interruption, polls), setup, command, is_applied, is_valid_repeat).await
    });
}

#[test]
fn interrupted_cancel_order_is_atomic_with_product_and_event() {
    interrupt_at_every_poll("cancel_order", async |interruption, polls| {
        let is_applied = |before: &State, now: &State| {
            now.orders[0].1 == OrderStatus::Cancelled
                && now.products[0].1 == ProductStatus::OnSale
                && match_expected(new_events(before, now), &[("ORDER_CANCELLED", 2)])
        };
        let command = async |app: &App, order: &Order| app.ordering.cancel(&by(BUYER), order.id).await;
        let is_valid_repeat = |result: Result<Order, UseCaseError<OrderRefusal>>, outcome| match outcome {
            Outcome::Unchanged => result.is_ok(),
            Outcome::Applied => refused_by_status(&result),
        };
        interrupt_once(
            (interruption, polls),
            async |app| ordered(app).await,
            command,
            is_applied,
            is_valid_repeat,
        )
        .await
    });
}

#[test]
fn interrupted_ship_order_is_atomic_with_its_event() {
    interrupt_at_every_poll("ship_order", async |interruption, polls| {
        let is_applied = |before: &State, now: &State| {
            now.orders[0].1 == OrderStatus::Shipped
                && match_expected(new_events(before, now), &[("ORDER_STATUS_CHANGED", 3)])
        };
        let command = async |app: &App, order: &Order| {
            let shipment = Shipment::new("SF".into(), "SF-1".into()).unwrap();
            app.ordering.ship(&by(SELLER), order.id, shipment).await
        };
        let is_valid_repeat = |result: Result<Order, UseCaseError<OrderRefusal>>, outcome| match outcome {
            Outcome::Unchanged => result.is_ok(),
            Outcome::Applied => refused_by_status(&result),
        };
        interrupt_once(
            (interruption, polls),
            async |app| paid(app).await,
            command,
            is_applied,
            is_valid_repeat,
        )
        .await
    });
}

#[test]
fn interrupted_complete_order_is_atomic_with_its_event() {
    interrupt_at_every_poll("complete_order", async |interruption, polls| {
        let is_applied = |before: &State, now: &State| {
            now.orders[0].1 == OrderStatus::Completed
                && match_expected(new_events(before, now), &[("ORDER_STATUS_CHANGED", 4)])
        };
        let command = async |app: &App, order: &Order| app.ordering.complete(&by(BUYER), order.id).await;
        let is_valid_repeat = |result: Result<Order, UseCaseError<OrderRefusal>>, outcome| match outcome {
            Outcome::Unchanged => result.is_ok(),
            Outcome::Applied => refused_by_status(&result),
        };
        interrupt_once(
            (interruption, polls),
            async |app| shipped(app).await,
            command,
            is_applied,
            is_valid_repeat,
        )
        .await
    });
}

#[test]
fn interrupted_start_payment_starts_one_payment_or_none() {
    interrupt_at_every_poll("start_payment", async |interruption, polls| {
        let is_applied = |before: &State, now: &State| now.payments.len() == 1 && now.events == before.events;
        let command = async |app: &App, order: &Order| app.payments.start(&by(BUYER), card(order.id)).await;
        // A repeated command returns the existing payment.
        interrupt_once(
            (interruption, polls),
            async |app| ordered(app).await,
            command,
            is_applied,
            |result, _| result.is_ok(),
        )
        .await
    });
}

#[test]
fn interrupted_settle_payment_is_atomic_with_order_and_events() {
    interrupt_at_every_poll("settle_payment", async |interruption, polls| {
        let is_applied = |before: &State, now: &State| {
            now.payments[0].1 == PaymentStatus::Success
                && now.orders[0].1 == OrderStatus::Paid
                && match_expected(new_events(before, now), &[("PAYMENT_SUCCEEDED", 2), ("ORDER_PAID", 2)])
        };
        let setup = async |app: &App| {
            let order = ordered(app).await;
            app.payments.start(&by(BUYER), card(order.id)).await.unwrap().payment
        };
        let command =
            async |app: &App, payment: &Payment| app.payments.settle(&gateway(), success(payment)).await;
        interrupt_once((interruption, polls), setup, command, is_applied, |result, _| result.is_ok()).await
    });
}
