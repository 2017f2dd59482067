//! Product, order and payment contradict one another, as after changes by SQL: reconciliation finds it, and repairs
//! finish what is certain, once.

mod money;
mod products;

use std::collections::BTreeSet;

use chrono::TimeDelta;
use handover_outbox::ports::{Changed, Store};
use marketplace::ConsistencySettings;
use marketplace::jobs::ContinuousReconciliation;
use marketplace::use_cases::operations::*;
use marketplace_domain::*;

use super::market::{Market, operator};
use super::reconciliation::run_reconciliation;
use crate::support::{TENANT, pass, secs};

const LOSER: i64 = 11;

/// Replaces an order row, with the next version.
async fn change_order(market: &Market, id: OrderId, change: impl FnOnce(&mut Order)) {
    let mut order = market.world.order(id).await;
    change(&mut order);
    order.version += 1;
    let mut unit = market.world.store.begin().await.unwrap();
    assert_eq!(unit.advance_order(&order).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
}

async fn change_payment(market: &Market, payment: &Payment, change: impl FnOnce(&mut Payment)) {
    let mut payment = market.world.view().await.payment_by_id(payment.id).await.unwrap().unwrap();
    change(&mut payment);
    payment.version += 1;
    let mut unit = market.world.store.begin().await.unwrap();
    assert_eq!(unit.advance_payment(&payment).await.unwrap(), Changed::One);
    // The report of the gateway is recorded, so that its absence is no further finding.
    unit.insert_gateway_report(&report_of(&payment)).await.unwrap();
    unit.commit().await.unwrap();
}

/// The record of a report about the payment.
fn report_of(payment: &Payment) -> GatewayReport {
    GatewayReport {
        key: format!("payment-{}-{}", payment.id, payment.version),
        kind: ReportKind::Payment,
        tenant: Some(payment.tenant),
        of: Some(payment.of),
        payment: Some(payment.id),
        refund: None,
        attempt: None,
        reference: None,
        transaction_id: payment.transaction_id.clone(),
        result: Some(payment.status.as_str().to_owned()),
        amount: Some(payment.amount),
        body_hash: String::new(),
        error: None,
        outcome: ReportOutcome::Recorded,
        answer: None,
        state: ReportState::Done,
        trace_id: "by-sql".into(),
        create_time: payment.update_time,
        closed: None,
    }
}

async fn set_product(market: &Market, id: ProductId, status: ProductStatus) {
    let mut product = market.world.product(id).await;
    product.status = status;
    product.version += 1;
    let mut unit = market.world.store.begin().await.unwrap();
    assert_eq!(unit.advance_product(&product).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
}

async fn payments(market: &Market, order: OrderId) -> Vec<Payment> {
    market.world.view().await.payments_of(TENANT, &[order]).await.unwrap()
}

async fn refunds(market: &Market, order: OrderId) -> Vec<Refund> {
    market.world.view().await.refunds_of(TENANT, &[order]).await.unwrap()
}

/// Runs the repair job. Returns the number of repairs.
async fn run_job(market: &Market) -> usize {
    let settings = ConsistencySettings { scan_window: secs(86_400), ..ConsistencySettings::default() };
    ContinuousReconciliation::new(market.app().operations.clone(), settings).compare_all().await.unwrap()
}

/// Reconciles a window in which no order changed.
async fn reconcile_last_second(market: &Market) -> Reconciliation {
    pass(secs(2)).await;
    let until = market.world.now();
    let command = Reconcile {
        tenant: None,
        since: until - TimeDelta::seconds(1),
        until,
        grace: secs(60),
        repair: false,
        reason: None,
    };
    market.app().operations.reconcile(&operator().operator().unwrap(), command).await.unwrap()
}

/// Kinds, orders and repairs of the findings, sorted.
fn rows_of(report: &Reconciliation) -> Vec<(FindingKind, Option<OrderId>, Option<&'static str>)> {
    let row = |it: &Finding| (it.kind, it.order, it.repair.map(Repair::as_str));
    report.findings.iter().map(row).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Reconciles without repair.
async fn assert_found(market: &Market, expected: &[(FindingKind, Option<OrderId>)]) {
    let report = run_reconciliation(market, false).await;
    let expected: Vec<_> = expected.iter().map(|(kind, order)| (*kind, *order, None)).collect();
    assert_eq!(rows_of(&report), expected, "{report:?}");
    assert_eq!(report.is_sound(), expected.is_empty());
}

/// Reconciles with repair.
async fn assert_repaired(market: &Market, expected: &[(FindingKind, Option<OrderId>, Option<Repair>)]) {
    let report = run_reconciliation(market, true).await;
    let expected: Vec<_> =
        expected.iter().map(|(kind, order, repair)| (*kind, *order, repair.map(Repair::as_str))).collect();
    assert_eq!(rows_of(&report), expected, "{report:?}");
}

async fn count_events(market: &Market, event_type: &str, aggregate: i64) -> usize {
    let rows = market.world.rows().await;
    rows.iter().filter(|row| row.event_type == event_type && row.aggregate.id == aggregate).count()
}
