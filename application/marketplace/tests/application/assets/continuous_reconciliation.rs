//! The continuous reconciliation appends events that are missing in the outbox, repairs what is certain, and records the rest.

use std::sync::Arc;
use std::time::Duration;

use handover_events::ConsumeStatus;
use handover_outbox::operations::Reason;
use handover_outbox::ports::{NewEvent, OutboxRow, Store};
use marketplace::jobs::{ContinuousReconciliation, RefundDispatcher};
use marketplace::ports::{FindingFilter, MockGateway};
use marketplace::{ConsistencySettings, RefundSettings};
use marketplace_domain::*;

use super::market::{Market, SpentAssets, operator};
use super::reconciliation::run_reconciliation;
use crate::support::{TENANT, first_record, pass, report, secs};

fn repair(market: &Market) -> ContinuousReconciliation {
    within(market, secs(600))
}

/// The jobs, with this window.
fn within(market: &Market, scan_window: Duration) -> ContinuousReconciliation {
    let settings = ConsistencySettings { scan_window, ..ConsistencySettings::default() };
    ContinuousReconciliation::new(market.app().operations.clone(), settings)
}

/// Settles the payment of an order and marks the order paid without appending ORDER_PAID, as a bug might.
async fn pay_without_event(market: &Market, order: &Order) {
    let payment = market.process.started_payment(order.id).await;
    let now = market.world.now();
    let report = report(&payment, PaymentResult::Success).report;
    let (settled, event) = payment.decide(&report, &order.clone().into(), 0, None, now).settled.unwrap();
    let (paid, _) = order.apply(&OrderAction::Pay, OrderActor::Gateway, now).unwrap();
    let event = market.world.event(&format!("settled-{}", payment.id), settled.version, &event);
    let mut unit = market.world.store.begin().await.unwrap();
    let _ = unit.advance_payment(&settled).await.unwrap();
    let _ = unit.advance_order(&paid).await.unwrap();
    unit.outbox().append(&[event]).await.unwrap();
    unit.commit().await.unwrap();
    pass(secs(1)).await;
}

async fn paid_rows(market: &Market) -> Vec<OutboxRow> {
    let rows = market.world.rows().await;
    rows.into_iter().filter(|row| row.event_type == "ORDER_PAID").collect()
}

#[tokio::test(start_paused = true)]
async fn order_paid_without_an_event_is_repaired_and_takes_effect_once() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    let order = market.locked(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    pay_without_event(&market, &order).await;
    assert_eq!(repair(&market).compare_all().await.unwrap(), 1);
    assert_eq!(repair(&market).compare_all().await.unwrap(), 0);
    market.process_pending().await;
    let rows = paid_rows(&market).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].aggregate_seq, rows[0].event_id.as_str()),
        (2, &*format!("repair:ORDER_PAID:{}:2", order.id))
    );
    assert_eq!(market.purse(Purse::Wallet).await, (3_000, 0, 0));
    assert_eq!(market.purse(Purse::Points).await, (68, 0, 0));
    market.assert_ledger_balanced().await;
}

/// The setting `asset.earn-per-unit` was 0 when the orders were paid.
#[tokio::test(start_paused = true)]
async fn order_paid_before_the_earning_rate_was_raised_earns_no_points() {
    let mut market = Market::new().await;
    market.world.points = PointsRules { earned_per_unit: 0, ..PointsRules::default() };
    market.process = market.world.process();
    market.start().await;
    market.grant(100).await;
    market.paid(SpentAssets::default()).await;
    market.paid(SpentAssets { points: 50, ..SpentAssets::default() }).await;
    pass(secs(120)).await;
    market.process.kill().await;
    market.world.points = PointsRules::default();
    market.process = market.world.process();
    market.start().await;
    assert_eq!(repair(&market).compare_all().await.unwrap(), 0);
    assert_eq!(run_reconciliation(&market, true).await.findings, []);
    market.process_pending().await;
    assert_eq!(market.purse(Purse::Points).await, (50, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn lost_operation_of_earned_points_is_written_again_at_any_earning_rate() {
    let mut market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let key = OperationKey::earn(order.id);
    for earned_per_unit in [0, 1, 2] {
        market.process.kill().await;
        market.world.points = PointsRules { earned_per_unit, ..PointsRules::default() };
        market.process = market.world.process();
        market.start().await;
        assert!(market.world.store.delete_operation((TENANT, key.clone())));
        let report = run_reconciliation(&market, true).await;
        assert_eq!(report.count(FindingKind::MissingEffect), 1, "{report:?}");
        market.process_pending().await;
        let operations = market.world.view().await.operations_of(TENANT, &[order.id]).await.unwrap();
        assert_eq!(operations.iter().find(|it| it.key == key).unwrap().amount, 88);
        assert_eq!(market.purse(Purse::Points).await, (88, 0, 0));
        market.assert_ledger_balanced().await;
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_repairs_append_the_event_once() {
    let market = Market::running().await;
    let order = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &order).await;
    let one = repair(&market);
    let two = repair(&market);
    let (one, two) = tokio::join!(one.compare_all(), two.compare_all());
    assert!(one.unwrap() + two.unwrap() >= 1);
    assert_eq!(paid_rows(&market).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn consistent_orders_and_orders_outside_the_window_are_not_repaired() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let rows = market.world.rows().await.len();
    assert_eq!(repair(&market).compare_all().await.unwrap(), 0);
    assert_eq!(market.world.rows().await.len(), rows);
    let old = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &old).await;
    pass(secs(601)).await;
    assert_eq!(repair(&market).compare_all().await.unwrap(), 0);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
}

#[tokio::test(start_paused = true)]
async fn row_that_no_consumer_applies_does_not_replace_a_lost_event() {
    let market = Market::running().await;
    let order = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &order).await;
    let wrong_amount = EventBody::OrderPaid(OrderPaid {
        order: order.facts(),
        pay_time: market.world.now(),
        amount: Money::from_minor(1).unwrap(),
        product: order.product,
    });
    let contradicting = market.world.event("manual-1", 0, &wrong_amount);
    let unreadable = NewEvent {
        event_id: "manual-2".parse().unwrap(),
        payload: format!("{{\"orderId\":{}}}", order.id),
        ..contradicting.clone()
    };
    market.process.commit(vec![contradicting, unreadable]).await;
    assert_eq!(repair(&market).compare_all().await.unwrap(), 1);
    assert_eq!(repair(&market).compare_all().await.unwrap(), 0);
    assert_eq!(paid_rows(&market).await.len(), 3);
}

/// An ORDER_PAID of another amount in the place of the event of the payment: no consumer applies it.
fn contradicting(market: &Market, order: &Order) -> NewEvent {
    let body = EventBody::OrderPaid(OrderPaid {
        order: order.facts(),
        pay_time: market.world.now(),
        amount: Money::from_minor(1).unwrap(),
        product: order.product,
    });
    market.world.event("manual-1", 2, &body)
}

#[tokio::test(start_paused = true)]
async fn id_of_an_event_that_consumers_rejected_is_not_used_for_the_repair() {
    let market = Market::running().await;
    let order = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &order).await;
    market.process.commit(vec![contradicting(&market, &order)]).await;
    market.process_pending().await;
    let aggregate = paid_rows(&market).await.remove(0).aggregate;
    let consumed = market.world.view().await.outbox_view().consumed_about(&[aggregate]).await.unwrap();
    let rejected: Vec<_> = consumed.iter().filter(|it| it.event_id.as_str() == "manual-1").collect();
    assert!(!rejected.is_empty());
    assert!(rejected.iter().any(|it| it.record.status == ConsumeStatus::Dead), "{rejected:?}");
    assert_eq!(repair(&market).compare_all().await.unwrap(), 1);
    market.process_pending().await;
    let ids: Vec<String> =
        paid_rows(&market).await.iter().map(|row| row.event_id.as_str().to_owned()).collect();
    assert_eq!(ids, ["manual-1".to_owned(), format!("repair:ORDER_PAID:{}:2", order.id)]);
    assert_eq!(market.world.view().await.shipment_tasks(TENANT, &[order.id]).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn finding_that_cannot_be_repaired_does_not_prevent_the_repair_of_others() {
    let market = Market::new().await;
    let corrupt = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &corrupt).await;
    market.process.commit(vec![contradicting(&market, &corrupt)]).await;
    // A consumer applied the event before its row was changed: the repaired event would have the id of the row.
    let row = paid_rows(&market).await.remove(0);
    let record = first_record(row, "fulfillment", ConsumeStatus::Success, market.world.now());
    let mut unit = market.world.store.begin().await.unwrap();
    unit.outbox().record(&[record]).await.unwrap();
    unit.commit().await.unwrap();
    let other = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &other).await;
    for repaired in [1, 0] {
        assert_eq!(repair(&market).compare_all().await.unwrap(), repaired);
    }
    let rows = paid_rows(&market).await;
    assert_eq!(rows.iter().filter(|row| row.aggregate.id == other.id.get()).count(), 1);
    let missing = (FindingKind::MissingEvent, FindingState::Open);
    let found = recorded(&market).await;
    let of_order = format!("order:{} ", corrupt.id);
    assert!(
        found
            .iter()
            .any(|(kind, subject, state)| { (*kind, *state) == missing && subject.starts_with(&of_order) }),
        "{found:?}"
    );
}

/// Kind, subject and state of every recorded finding, oldest first.
async fn recorded(market: &Market) -> Vec<(FindingKind, String, FindingState)> {
    let page = market.world.view().await.findings_page(FindingFilter::default(), None, 100).await.unwrap();
    page.into_iter().rev().map(|it| (it.effect.kind, it.effect.subject, it.effect.state)).collect()
}

/// The repair exceeds a limit of the database in each run: the alert must start all the same.
#[tokio::test(start_paused = true)]
async fn finding_whose_repair_ends_in_an_outage_is_recorded() {
    let market = Market::running().await;
    let order = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &order).await;
    market.process.faults.set_log_long(true);
    let outage = repair(&market).compare_all().await.unwrap_err();
    assert!(outage.is_outage(), "{outage}");
    let state = async || {
        let mut missing = recorded(&market).await;
        missing.retain(|(kind, ..)| *kind == FindingKind::MissingEvent);
        missing.into_iter().map(|(.., state)| state).collect::<Vec<_>>()
    };
    assert_eq!(state().await, [FindingState::Open]);
    market.process.faults.set_log_long(false);
    assert_eq!(repair(&market).compare_all().await.unwrap(), 1);
    assert_eq!(state().await, [FindingState::Repaired]);
}

#[tokio::test(start_paused = true)]
async fn each_order_is_compared_once_between_one_and_two_minutes_after_its_change() {
    let market = Market::running().await;
    let job = repair(&market);
    let order = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &order).await;
    assert_eq!(job.compare_recent().await.unwrap(), 0, "the order has not settled");
    // The next run is late: it compares all orders since the end of the last window.
    pass(secs(300)).await;
    assert_eq!(job.compare_recent().await.unwrap(), 1);
    assert_eq!(paid_rows(&market).await.len(), 1);
    let of_payment = format!("order:{} payment:", order.id);
    let found = recorded(&market).await;
    assert!(
        found
            .iter()
            .any(|(kind, _, state)| (*kind, *state) == (FindingKind::MissingEvent, FindingState::Repaired))
    );
    let open: Vec<_> = found.iter().filter(|(.., state)| *state == FindingState::Open).collect();
    // The event does not end what is open about the money: the gateway has reported no payment.
    assert_eq!(
        open.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(),
        [FindingKind::NotBooked, FindingKind::NotReported]
    );
    assert!(open[1].1.starts_with(&of_payment), "{open:?}");
    let later = repair(&market);
    assert_eq!(later.compare_recent().await.unwrap(), 0, "a new leader begins with the last minute");
}

#[tokio::test(start_paused = true)]
async fn refund_without_a_report_within_an_hour_is_open_until_the_gateway_reports_it() {
    let market = Market::new().await;
    let order = market.process.paid().await;
    let refund = market.refund(&order).await;
    let job = within(&market, secs(7_200));
    pass(secs(3_599)).await;
    assert_eq!(job.compare_all().await.unwrap(), 0);
    assert_eq!(recorded(&market).await, []);
    pass(secs(2)).await;
    assert_eq!(job.compare_all().await.unwrap(), 0);
    let finding =
        |state| [(FindingKind::NotReported, format!("order:{} refund:{}", order.id, refund.id), state)];
    assert_eq!(recorded(&market).await, finding(FindingState::Open));
    let page = market.world.view().await.findings_page(FindingFilter::default(), None, 1).await.unwrap();
    let reason = Reason::new("the gateway works on it".to_owned()).unwrap();
    market.app().operations.acknowledge_finding(&operator(), page[0].id, reason).await.unwrap();
    market.report(&refund, RefundResult::Success).await.unwrap();
    // The order has left the window: it is compared because of its finding.
    pass(secs(7_201)).await;
    job.compare_all().await.unwrap();
    assert_eq!(recorded(&market).await, finding(FindingState::Resolved));
}

#[tokio::test(start_paused = true)]
async fn retried_refund_without_a_report_is_found_an_hour_after_the_first_request_of_its_attempt() {
    let market = Market::new().await;
    let order = market.process.paid().await;
    let refund = market.refund(&order).await;
    market.report(&refund, RefundResult::Failed).await.unwrap();
    pass(secs(7_200)).await;
    let reason = Reason::new("the account is open again".to_owned()).unwrap();
    market.app().operations.retry_refund(&operator(), refund.id, reason).await.unwrap();
    let mut gateway = MockGateway::new();
    gateway.expect_refund().returning(|_| Ok(()));
    let tx = market.app().tx.clone();
    let dispatcher = RefundDispatcher { tx, gateway: Arc::new(gateway), settings: RefundSettings::default() };
    pass(secs(100)).await;
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    let found = async || run_reconciliation(&market, false).await.count(FindingKind::NotReported);
    let age = async || {
        let oldest = market.world.view().await.open_refunds().await.unwrap().oldest_processing;
        (market.world.now() - oldest.unwrap()).num_seconds()
    };
    pass(secs(3_599)).await;
    assert_eq!((found().await, age().await), (0, 3_599));
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    pass(secs(2)).await;
    assert_eq!((found().await, age().await), (1, 3_601));
}

/// A consumer with a backlog applies an event late. Another copy of the event would only add to the backlog.
#[tokio::test(start_paused = true)]
async fn confirmed_event_counts_as_lost_only_after_ten_minutes_and_is_not_sent_again() {
    let market = Market::new().await;
    marketplace::service::prepare(market.app()).await.unwrap();
    let order = market.order(SpentAssets::default()).await;
    let rows = market.world.rows().await;
    let events: Vec<&str> = rows.iter().map(|row| row.event_id.as_str()).collect();
    market.world.mark_sent_without_message(&events).await;
    pass(secs(300)).await;
    let job = within(&market, secs(7_200));
    job.compare_all().await.unwrap();
    assert_eq!(recorded(&market).await, []);
    pass(secs(400)).await;
    assert_eq!(job.compare_all().await.unwrap(), 0);
    let found = recorded(&market).await;
    assert!(
        !found.is_empty()
            && found.iter().all(|(kind, subject, state)| {
                (*kind, *state) == (FindingKind::NotConsumed, FindingState::Open)
                    && subject.starts_with(&format!("order:{} event:", order.id))
            }),
        "{found:?}"
    );
    assert_eq!(market.world.rows().await.len(), rows.len());
    assert!(market.world.rows().await.iter().all(|row| row.sent_time.is_some()), "sent again");
}
