//! Shipped orders that their buyers do not complete are completed automatically.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::TimeDelta;
use handover_events::Trace;
use handover_outbox::jobs::{LEADER_LEASE_MS, Leader, Progress};
use marketplace::jobs::AutoCompletion;
use marketplace::use_cases::*;
use marketplace::{AutoCompletionSettings, CommandContext};
use marketplace_domain::*;

use super::market::{Market, SpentAssets, buyer, tenant};
use super::reconciliation::run_reconciliation;
use crate::support::{BUYER, CommitFault, Process, SELLER, World, by, gateway, millis, pass, report, secs};

/// Time after the shipment: short, because relay and consumers poll all the time.
const TIME: Duration = Duration::from_secs(600);

fn settings() -> AutoCompletionSettings {
    AutoCompletionSettings { after: Some(TIME), ..AutoCompletionSettings::default() }
}

fn job(process: &Process, settings: AutoCompletionSettings) -> AutoCompletion {
    AutoCompletion::new(process.app.tx.clone(), process.app.handlers.events.clone(), settings)
}

async fn ship(process: &Process, order: OrderId) {
    let shipment = Shipment::new("SF".into(), "SF-1".into()).unwrap();
    process.app.ordering.ship(&by(SELLER), order, shipment).await.unwrap();
}

async fn shipped(process: &Process) -> Order {
    let order = process.paid().await;
    ship(process, order.id).await;
    process.app.queries.find_order(&by(BUYER), order.id).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn order_is_completed_some_time_after_its_shipment_as_by_its_buyer() {
    let market = Market::running().await;
    let trace = Trace { trace_id: "the-order".to_owned(), traceparent: None };
    let product = market.process.listed().await.id;
    let context = CommandContext { trace, ..by(BUYER) };
    let order = market.app().ordering.place(&context, PlaceOrder::of(product)).await.unwrap();
    let payment = market.process.started_payment(order.id).await;
    market.process.settle(&payment, PaymentResult::Success).await.unwrap();
    // The time begins with the shipment.
    pass(secs(300)).await;
    ship(&market.process, order.id).await;
    let job = job(&market.process, settings());
    pass(TIME - millis(1)).await;
    assert_eq!(job.complete_batch().await.unwrap(), Progress::Done);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Shipped);
    pass(millis(1)).await;
    for _ in 0..2 {
        assert_eq!(job.complete_batch().await.unwrap(), Progress::Done);
        let completed = market.world.order(order.id).await;
        assert_eq!((completed.status, completed.version), (OrderStatus::Completed, 4));
        assert_eq!(completed.update_time, market.world.now());
    }
    let rows = market.world.rows().await;
    let last = rows.iter().rfind(|row| row.event_type == "ORDER_STATUS_CHANGED").unwrap();
    assert!(last.payload.contains(r#""oldStatus":"shipped","newStatus":"completed""#), "{}", last.payload);
    assert_eq!(last.trace_id(), "the-order", "the event belongs to the request that placed the order");
    assert_eq!(last.metadata.user_id, None);
    pass(secs(120)).await;
    let mut view = market.world.view().await;
    assert_eq!(view.notifications_about(tenant(), &[order.id]).await.unwrap().len(), 4);
    let credit = view.credit_of(tenant(), buyer()).await.unwrap().unwrap();
    assert_eq!((credit.counts.completed, credit.score), (1, 101));
    drop(view);
    assert_eq!(run_reconciliation(&market, false).await.findings, []);
    let late = market.app().ordering.complete(&by(BUYER), order.id).await;
    assert!(matches!(late, Err(UseCaseError::Refused(OrderRefusal::WrongStatus { .. }))), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn orders_are_never_completed_automatically_if_it_is_switched_off() {
    let world = World::new().await;
    let process = world.process();
    let order = shipped(&process).await;
    let job = job(&process, AutoCompletionSettings::new(None));
    pass(TIME * 10_000).await;
    assert_eq!(job.complete_batch().await.unwrap(), Progress::Done);
    assert_eq!(world.order(order.id).await, order);
}

#[tokio::test(start_paused = true)]
async fn job_runs_often_enough_for_a_short_time() {
    assert_eq!(AutoCompletionSettings::default().after, Some(secs(10 * 24 * 3600)));
    for (time, interval) in [(None, secs(60)), (Some(TIME), secs(60)), (Some(secs(3)), millis(300))] {
        assert_eq!(AutoCompletionSettings::new(time).interval, interval);
    }
    let world = World::new().await;
    let process = world.process();
    let job = job(&process, AutoCompletionSettings::new(Some(secs(3))));
    job.start(&Leader::start(&process.app.outbox.tx, "jobs", LEADER_LEASE_MS));
    let order = shipped(&process).await;
    pass(secs(4)).await;
    assert_eq!(world.order(order.id).await.status, OrderStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn job_continues_at_once_while_batches_are_full() {
    let world = World::new().await;
    let process = world.process();
    let mut orders = Vec::new();
    for _ in 0..25 {
        orders.push(shipped(&process).await.id);
    }
    pass(TIME).await;
    let settings = AutoCompletionSettings { batch: 10.try_into().unwrap(), ..settings() };
    job(&process, settings).start(&Leader::start(&process.app.outbox.tx, "jobs", LEADER_LEASE_MS));
    pass(secs(1)).await;
    for order in orders {
        assert_eq!(world.order(order).await.status, OrderStatus::Completed);
    }
}

/// A second capture of the payment is being refunded, which does not concern the order.
async fn with_running_refund(market: &Market) -> (Order, Refund) {
    let order = market.paid(SpentAssets::default()).await;
    let payment = market.world.view().await.payments_of(tenant(), &[order.id]).await.unwrap().remove(0);
    let mut second = report(&payment, PaymentResult::Success);
    second.report.transaction_id = format!("second-{}", payment.id);
    market.app().payments.settle(&gateway(), second).await.unwrap();
    ship(&market.process, order.id).await;
    let refund = market.world.view().await.refunds_of(tenant(), &[order.id]).await.unwrap().remove(0);
    assert_eq!(refund.status, RefundStatus::Processing);
    (order, refund)
}

#[tokio::test(start_paused = true)]
async fn order_waits_for_its_running_refund_and_holds_back_no_other_order() {
    let market = Market::running().await;
    let (first, refund) = with_running_refund(&market).await;
    let (second, _) = with_running_refund(&market).await;
    let other = shipped(&market.process).await;
    pass(TIME).await;
    let settings = AutoCompletionSettings { batch: 1.try_into().unwrap(), ..settings() };
    let job = job(&market.process, settings);
    for _ in 0..3 {
        assert_eq!(job.complete_batch().await.unwrap(), Progress::MoreDue);
    }
    assert_eq!(job.complete_batch().await.unwrap(), Progress::Done);
    let status = async |order: &Order| market.world.order(order.id).await.status;
    assert_eq!(status(&other).await, OrderStatus::Completed);
    assert_eq!((status(&first).await, status(&second).await), (OrderStatus::Shipped, OrderStatus::Shipped));
    market.report(&refund, RefundResult::Success).await.unwrap();
    // The next pass begins with the oldest order again.
    while job.complete_batch().await.unwrap() == Progress::MoreDue {}
    assert_eq!((status(&first).await, status(&second).await), (OrderStatus::Completed, OrderStatus::Shipped));
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn order_that_cannot_be_completed_does_not_stop_the_job() {
    let world = World::new().await;
    let process = world.process();
    let first = shipped(&process).await.id;
    let second = shipped(&process).await.id;
    pass(TIME).await;
    let job = job(&process, settings());
    process.faults.next_commits([CommitFault::Transient; 8]);
    for first_status in [OrderStatus::Shipped, OrderStatus::Completed] {
        assert_eq!(job.complete_batch().await.unwrap(), Progress::Done);
        assert_eq!(world.order(first).await.status, first_status);
        assert_eq!(world.order(second).await.status, OrderStatus::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn buyer_and_job_complete_an_order_once() {
    let mut winners = BTreeMap::new();
    for turn in 0..16 {
        let world = World::new().await;
        let process = world.process();
        let other = world.process();
        let order = shipped(&process).await;
        pass(TIME).await;
        let job = job(&other, settings());
        let by_buyer = async {
            for _ in 0..turn {
                tokio::task::yield_now().await;
            }
            process.app.ordering.complete(&by(BUYER), order.id).await
        };
        let (by_job, by_buyer) = tokio::join!(job.complete_batch(), by_buyer);
        by_job.unwrap();
        let after = world.order(order.id).await;
        assert_eq!((after.status, after.version), (OrderStatus::Completed, 4));
        let changes = world.history(order.id).await;
        assert_eq!(changes.iter().filter(|(seq, _)| *seq == 4).count(), 1, "{changes:?}");
        if let Err(error) = &by_buyer {
            let is_too_late = matches!(error, UseCaseError::Refused(OrderRefusal::WrongStatus { .. }));
            assert!(is_too_late, "{error}");
        }
        *winners.entry(by_buyer.is_ok()).or_insert(0) += 1;
    }
    assert_eq!(winners.len(), 2, "every race had the same winner: {winners:?}");
}

/// The clock of the process is behind that of the database.
#[tokio::test(start_paused = true)]
async fn time_is_that_of_the_deployment_clock() {
    let world = World::new().await;
    let process = world.process();
    let order = shipped(&process).await;
    world.clock.set_skew(TimeDelta::days(10));
    job(&process, AutoCompletionSettings::default()).complete_batch().await.unwrap();
    assert_eq!(world.order(order.id).await.status, OrderStatus::Completed);
}
