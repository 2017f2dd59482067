//! Orders, their payments and their refunds.

use std::collections::BTreeSet;

use handover_outbox::ports::{Changed, Store};
use marketplace::jobs::TimeoutSweep;
use marketplace::use_cases::operations::*;
use marketplace::use_cases::*;
use marketplace_domain::*;

use super::{
    assert_found, assert_repaired, change_order, change_payment, count_events, payments, refunds, report_of,
    run_job, run_reconciliation, set_product,
};
use crate::assets::market::{Market, SpentAssets, operator};
use crate::support::{BUYER, TENANT, by, money, pass, secs};

/// An order that is marked paid without a payment gets no event, no shipment and no points, from whatever repair.
#[tokio::test(start_paused = true)]
async fn order_paid_without_a_payment_is_found_and_gets_no_effects() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    let order = market.locked(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    let started = market.locked(SpentAssets::default()).await;
    market.process.started_payment(started.id).await;
    let now = market.world.now();
    for id in [order.id, started.id] {
        change_order(&market, id, |it| {
            it.status = OrderStatus::Paid;
            it.pay_time = Some(now);
            it.update_time = now;
        })
        .await;
    }
    let kind = FindingKind::PaidWithoutPayment;
    for _ in 0..2 {
        assert_eq!(run_job(&market).await, 0);
        let expected = [(kind, Some(order.id), None), (kind, Some(started.id), None)];
        assert_repaired(&market, &expected).await;
        pass(secs(120)).await;
    }
    // The seller ships it: the shipment is no proof of a payment either.
    change_order(&market, order.id, |it| {
        it.status = OrderStatus::Shipped;
        it.shipment = Some(Shipment::new("SF".into(), "1".into()).unwrap());
    })
    .await;
    assert_eq!(run_job(&market).await, 0);
    for id in [order.id, started.id] {
        assert_eq!(count_events(&market, "ORDER_PAID", id.get()).await, 0);
        assert_eq!(count_events(&market, "ORDER_STATUS_CHANGED", id.get()).await, 0);
        let tasks = market.world.view().await.shipment_tasks(TENANT, &[id]).await.unwrap();
        assert_eq!(tasks, []);
    }
    assert_eq!(market.purse(Purse::Points).await, (0, 0, 0));
    assert_eq!(market.hold_status(order.id, Asset::Wallet).await, Some(HoldStatus::Frozen));
}

/// ORDER_PAID of an order whose payment is lost is in the outbox, but its effect is missing: the event is not applied
/// again.
#[tokio::test(start_paused = true)]
async fn event_of_order_without_a_payment_is_not_redriven() {
    let market = Market::new().await;
    marketplace::service::prepare(market.app()).await.unwrap();
    let order = market.process.paid().await;
    let payment = payments(&market, order.id).await.remove(0);
    let paid = market.world.rows().await.into_iter().rfind(|row| row.event_type == "ORDER_PAID").unwrap();
    market.world.mark_sent_without_message(&[paid.event_id.as_str()]).await;
    change_payment(&market, &payment, |it| it.status = PaymentStatus::Failed).await;
    market.start().await;
    pass(secs(120)).await;
    let report = run_reconciliation(&market, true).await;
    assert!(report.count(FindingKind::NotConsumed) > 0, "{report:?}");
    assert_eq!(report.count(FindingKind::PaymentFailed), 1);
    for found in report.findings.iter().filter(|it| it.event_id.as_ref() == Some(&paid.event_id)) {
        assert_eq!(found.repair, None, "{found:?}");
    }
    pass(secs(120)).await;
    assert_eq!(market.world.view().await.shipment_tasks(TENANT, &[order.id]).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn paid_order_whose_payment_failed_is_found() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let payment = payments(&market, order.id).await.remove(0);
    change_payment(&market, &payment, |it| it.status = PaymentStatus::Failed).await;
    pass(secs(120)).await;
    let report = run_reconciliation(&market, false).await;
    let found = report.findings.iter().find(|it| it.kind == FindingKind::PaymentFailed).unwrap();
    assert_eq!(found.order, Some(order.id));
    assert_eq!(found.key, Some(format!("payment:{}", payment.id)));
    let report = run_reconciliation(&market, true).await;
    let found = report.findings.iter().find(|it| it.kind == FindingKind::PaymentFailed).unwrap();
    assert_eq!(found.repair, None);
    assert_eq!(refunds(&market, order.id).await, []);
}

/// An order whose payment is SUCCESS while the order is pending, and its payment.
async fn order_with_payment_not_applied(market: &Market, assets: SpentAssets) -> (Order, Payment) {
    let order = market.locked(assets).await;
    let payment = market.process.started_payment(order.id).await;
    change_payment(market, &payment, |it| {
        it.status = PaymentStatus::Success;
        it.transaction_id = Some("txn-by-sql".into());
    })
    .await;
    (order, payment)
}

#[tokio::test(start_paused = true)]
async fn pending_order_with_successful_payment_is_paid_once() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    let assets = SpentAssets { wallet: 2_000, ..SpentAssets::default() };
    let (order, payment) = order_with_payment_not_applied(&market, assets).await;
    let kinds = |report: &Reconciliation| report.findings.iter().map(|it| it.kind).collect::<BTreeSet<_>>();
    let missing = [FindingKind::MissingEvent, FindingKind::NotBooked, FindingKind::PaymentNotApplied];
    assert_eq!(kinds(&run_reconciliation(&market, false).await), missing.into());
    let (job, report) = tokio::join!(run_job(&market), run_reconciliation(&market, true));
    assert!(job <= 3 && report.findings.len() <= 3, "{job} {report:?}");
    market.process_pending().await;
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
    for _ in 0..2 {
        assert_eq!(run_job(&market).await, 0);
        assert_repaired(&market, &[]).await;
    }
    assert_eq!(count_events(&market, "ORDER_PAID", order.id.get()).await, 1);
    assert_eq!(count_events(&market, "PAYMENT_SUCCEEDED", payment.id.get()).await, 1);
    assert_eq!(market.world.view().await.shipment_tasks(TENANT, &[order.id]).await.unwrap().len(), 1);
    assert_eq!(market.purse(Purse::Wallet).await, (3_000, 0, 0));
    assert_eq!(market.total(Account::Gateway).await, -order.payable.minor() - 5_000);
    assert_eq!(refunds(&market, order.id).await, []);
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn payment_of_another_amount_does_not_pay_the_order_and_is_refunded_after_its_deadline() {
    let market = Market::running().await;
    let (order, payment) = order_with_payment_not_applied(&market, SpentAssets::default()).await;
    let half = Money::from_minor(order.payable.minor() / 2).unwrap();
    change_payment(&market, &payment, |it| it.amount = half).await;
    let report = run_reconciliation(&market, true).await;
    let found = report.findings.iter().find(|it| it.kind == FindingKind::PaymentNotApplied).unwrap();
    assert_eq!(found.repair, None);
    assert!(found.what.contains("are to be paid"), "{}", found.what);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Pending);
    pass(secs(900)).await;
    let app = market.app();
    TimeoutSweep::new(app.tx.clone(), app.handlers.clone(), Default::default()).sweep().await.unwrap();
    market.process_pending().await;
    let repaired = (FindingKind::NotRefunded, Some(order.id), Some(Repair::RefundStarted));
    assert_repaired(&market, &[repaired]).await;
    assert_eq!(refunds(&market, order.id).await[0].amount, half);
}

#[tokio::test(start_paused = true)]
async fn captured_money_of_cancelled_order_is_refunded_once() {
    let market = Market::running().await;
    let (order, payment) = order_with_payment_not_applied(&market, SpentAssets::default()).await;
    pass(secs(900)).await;
    let app = market.app();
    TimeoutSweep::new(app.tx.clone(), app.handlers.clone(), Default::default()).sweep().await.unwrap();
    market.process_pending().await;
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Cancelled);
    let report = run_reconciliation(&market, false).await;
    assert_eq!(report.count(FindingKind::NotRefunded), 1, "{report:?}");
    tokio::join!(run_job(&market), run_reconciliation(&market, true), run_job(&market));
    for _ in 0..2 {
        run_job(&market).await;
        assert_repaired(&market, &[]).await;
    }
    let [refund] = refunds(&market, order.id).await.try_into().unwrap();
    assert_eq!(
        (refund.payment, refund.amount, refund.cause),
        (payment.id, payment.amount, RefundCause::LatePayment)
    );
    assert!(payments(&market, order.id).await[0].refund_due);
    assert_eq!(count_events(&market, "PAYMENT_SUCCEEDED", payment.id.get()).await, 1);
    market.report(&refund, RefundResult::Success).await.unwrap();
    market.process_pending().await;
    assert_repaired(&market, &[]).await;
    assert_eq!(market.total(Account::Gateway).await, 0);
    market.assert_ledger_balanced().await;
}

/// The gateway refused the automatic refund: only an operator repeats it.
#[tokio::test(start_paused = true)]
async fn refused_refund_of_cancelled_order_is_found_until_an_operator_repeats_it() {
    let market = Market::running().await;
    let (order, _) = order_with_payment_not_applied(&market, SpentAssets::default()).await;
    // The event, the entries in the ledger and the payment of the order.
    assert_eq!(run_job(&market).await, 3);
    market.process_pending().await;
    cancel_by_sql(&market, order.id).await;
    run_job(&market).await;
    let refund = refunds(&market, order.id).await.remove(0);
    market.report(&refund, RefundResult::Failed).await.unwrap();
    market.process_pending().await;
    for _ in 0..2 {
        assert_eq!(run_job(&market).await, 0);
        let report = run_reconciliation(&market, true).await;
        let found = report.findings.iter().find(|it| it.kind == FindingKind::NotRefunded).unwrap();
        assert_eq!((found.order, found.repair), (Some(order.id), None));
        assert!(found.what.contains(&format!("refund {} FAILED", refund.id)), "{}", found.what);
    }
    let command = RequestRefund { order: order.id, reason: "again".into(), off_shelf: false };
    market.app().payments.request_refund(&operator(), command).await.unwrap();
    assert_eq!(run_reconciliation(&market, false).await.count(FindingKind::NotRefunded), 0);
}

/// Cancels a paid order with its product, but without a refund.
async fn cancel_by_sql(market: &Market, order: OrderId) {
    let product = market.world.order(order).await.product;
    change_order(market, order, |it| {
        it.status = OrderStatus::Cancelled;
        it.cancel_reason = Some(CancelReason::Buyer);
    })
    .await;
    set_product(market, product, ProductStatus::OnSale).await;
}

#[tokio::test(start_paused = true)]
async fn second_payment_of_paid_order_is_refunded_once() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let paying = payments(&market, order.id).await.remove(0);
    let second = Payment {
        id: (paying.id.get() + 500).try_into().unwrap(),
        reference: None,
        transaction_id: Some("txn-second".into()),
        ..paying.clone()
    };
    let mut unit = market.world.store.begin().await.unwrap();
    unit.insert_payment(&second).await.unwrap();
    unit.insert_gateway_report(&report_of(&second)).await.unwrap();
    unit.commit().await.unwrap();
    let report = run_reconciliation(&market, true).await;
    let found = report.findings.iter().find(|it| it.kind == FindingKind::NotRefunded).unwrap();
    assert_eq!(found.key, Some(format!("payment:{}", second.id)));
    assert_eq!(found.repair, Some(Repair::RefundStarted));
    market.process_pending().await;
    assert_eq!(run_job(&market).await, 0);
    assert_repaired(&market, &[]).await;
    let [refund] = refunds(&market, order.id).await.try_into().unwrap();
    market.report(&refund, RefundResult::Success).await.unwrap();
    market.process_pending().await;
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
    assert_repaired(&market, &[]).await;
}

/// The gateway charged the buyer twice for one payment, and the refund of the second charge is lost.
#[tokio::test(start_paused = true)]
async fn second_capture_of_a_payment_is_refunded_and_the_payment_still_pays_its_order() {
    for amount in [8_850, 700] {
        let market = Market::running().await;
        let order = market.paid(SpentAssets::default()).await;
        let paying = payments(&market, order.id).await.remove(0);
        let second = Capture {
            tenant: paying.tenant,
            of: paying.of,
            payment: paying.id,
            number: 2,
            transaction_id: "txn-second".into(),
            amount: money(amount),
            refund_due: true,
            in_suspense: true,
            create_time: market.world.now(),
        };
        let mut unit = market.world.store.begin().await.unwrap();
        unit.insert_capture(&second).await.unwrap();
        unit.commit().await.unwrap();
        let kinds = [FindingKind::NotBooked, FindingKind::NotRefunded];
        let report = run_reconciliation(&market, true).await;
        assert_eq!(report.findings.iter().map(|it| it.kind).collect::<Vec<_>>(), kinds);
        assert_eq!(payments(&market, order.id).await, [paying]);
        let [refund] = refunds(&market, order.id).await.try_into().unwrap();
        assert_eq!((refund.capture, refund.amount), (2, second.amount));
        market.report(&refund, RefundResult::Success).await.unwrap();
        market.process_pending().await;
        assert_repaired(&market, &[]).await;
        assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
    }
}

/// The ledger names a refund whose row is lost: the money may have been paid back, so that nothing is refunded.
#[tokio::test(start_paused = true)]
async fn money_that_may_have_been_refunded_is_not_refunded_again() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let paying = payments(&market, order.id).await.remove(0);
    change_order(&market, order.id, |it| {
        it.status = OrderStatus::Refunded;
        it.refund = Some(777.try_into().unwrap());
    })
    .await;
    set_product(&market, order.product, ProductStatus::OnSale).await;
    let report = run_reconciliation(&market, true).await;
    let found = report.findings.iter().find(|it| it.kind == FindingKind::NotRefunded).unwrap();
    assert_eq!((found.key.clone(), found.repair), (Some(format!("payment:{}", paying.id)), None));
    assert_eq!(refunds(&market, order.id).await, []);
}

#[tokio::test(start_paused = true)]
async fn paid_order_whose_refund_succeeded_is_refunded_once() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let refund = market.refund(&order).await;
    let now = market.world.now();
    let success = Refund {
        status: RefundStatus::Success,
        settled_attempt: Some(1),
        payouts: 1,
        next_attempt_time: None,
        version: refund.version + 1,
        update_time: now,
        ..refund.clone()
    };
    let mut unit = market.world.store.begin().await.unwrap();
    assert_eq!(unit.advance_refund(&success).await.unwrap(), Changed::One);
    let report = report_of(&payments(&market, order.id).await[0]);
    let report = GatewayReport {
        key: "refund".into(),
        kind: ReportKind::Refund,
        payment: None,
        refund: Some(refund.id),
        ..report
    };
    unit.insert_gateway_report(&report).await.unwrap();
    unit.commit().await.unwrap();
    assert_eq!(run_reconciliation(&market, false).await.count(FindingKind::RefundNotApplied), 1);
    run_reconciliation(&market, true).await;
    market.process_pending().await;
    assert_eq!(run_job(&market).await, 0);
    assert_repaired(&market, &[]).await;
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Refunded);
    assert_eq!(market.world.product(order.product).await.status, ProductStatus::OnSale);
    assert_eq!(count_events(&market, "ORDER_REFUNDED", order.id.get()).await, 1);
    assert_eq!(market.total(Account::Gateway).await, 0);
    pass(secs(120)).await;
    assert_found(&market, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn paid_order_that_waits_for_failed_or_lost_refund_is_found() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let refund = market.refund(&order).await;
    let failed = Refund {
        status: RefundStatus::Failed,
        next_attempt_time: None,
        version: refund.version + 1,
        ..refund.clone()
    };
    let mut unit = market.world.store.begin().await.unwrap();
    assert_eq!(unit.advance_refund(&failed).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
    let lost = market.paid(SpentAssets::default()).await;
    change_order(&market, lost.id, |it| it.refund = Some(777.try_into().unwrap())).await;
    let kind = FindingKind::RefundNotApplied;
    let report = run_reconciliation(&market, true).await;
    let found: Vec<_> = report.findings.iter().filter(|it| it.kind == kind).collect();
    assert_eq!(found.iter().map(|it| it.repair).collect::<Vec<_>>(), [Some(Repair::RefundAbandoned), None]);
    assert!(found[1].what.contains("refund 777, which does not exist"), "{}", found[1].what);
    market.process_pending().await;
    assert_repaired(&market, &[(kind, Some(lost.id), None)]).await;
    let again = market.refund(&order).await;
    assert_eq!((again.status, again.id == refund.id), (RefundStatus::Processing, false));
}

#[tokio::test(start_paused = true)]
async fn late_and_failed_payments_are_not_findings() {
    let market = Market::running().await;
    let failed = market.locked(SpentAssets::default()).await;
    let payment = market.process.started_payment(failed.id).await;
    market.process.settle(&payment, PaymentResult::Failed).await.unwrap();
    let late = market.locked(SpentAssets::default()).await;
    let payment = market.process.started_payment(late.id).await;
    market.app().ordering.cancel(&by(BUYER), late.id).await.unwrap();
    market.process.settle(&payment, PaymentResult::Success).await.unwrap();
    market.process_pending().await;
    assert_found(&market, &[]).await;
    assert_eq!(run_job(&market).await, 0);
    let late_refund = refunds(&market, late.id).await.remove(0);
    market.report(&late_refund, RefundResult::Success).await.unwrap();
    pass(secs(120)).await;
    assert_found(&market, &[]).await;
}
