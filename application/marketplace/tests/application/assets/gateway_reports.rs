//! Reports of the gateway are recorded with their effect; what is uncertain waits for an operator (spec §2 "Gateway
//! reports").

use handover_outbox::operations::Reason;
use handover_outbox::ports::{AuditFilter, Numbered, OutboxRow, Store as _};
use marketplace::CommandContext;
use marketplace::ReportedName;
use marketplace::ports::GatewayReportFilter;
use marketplace::use_cases::operations::*;
use marketplace::use_cases::*;
use marketplace_domain::*;

use super::market::{Market, SpentAssets, operator, refund_report};
use super::reconciliation::run_reconciliation;
use crate::support::{BUYER, SELLER, by, gateway, money, report};

/// Every recorded report, newest first.
pub(super) async fn reports(market: &Market) -> Vec<Numbered<GatewayReport>> {
    let filter = GatewayReportFilter::default();
    market.world.view().await.gateway_reports_page(filter, None, 1_000).await.unwrap()
}

async fn newest(market: &Market) -> GatewayReport {
    reports(market).await.remove(0).effect
}

async fn refunds(market: &Market, order: OrderId) -> Vec<Refund> {
    market.world.view().await.refunds_of(super::market::tenant(), &[order]).await.unwrap()
}

fn paid_with(payment: &Payment, transaction: &str, amount: Money) -> SettlePayment {
    let mut command = report(payment, PaymentResult::Success);
    command.report.transaction_id = transaction.to_owned();
    command.report.amount = amount;
    command
}

async fn settle(market: &Market, command: SettlePayment) -> Payment {
    market.app().payments.settle(&gateway(), command).await.unwrap()
}

async fn started(market: &Market) -> (Order, Payment) {
    let order = market.process.ordered().await;
    let payment = market.process.started_payment(order.id).await;
    (order, payment)
}

fn reason() -> Reason {
    Reason::new("checked with the gateway".to_owned()).unwrap()
}

fn platform() -> CommandContext {
    use marketplace::{Actor, Role};
    let actor = Actor::User { id: 9.try_into().unwrap(), roles: vec![Role::Platform, Role::Pii] };
    CommandContext { actor, ..operator() }
}

#[tokio::test(start_paused = true)]
async fn repeated_report_is_recorded_once_and_gets_the_first_answer() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    let failed = market.process.settle(&payment, PaymentResult::Failed).await.unwrap();
    assert_eq!(failed.status, PaymentStatus::Failed);
    settle(&market, paid_with(&payment, "second", payment.amount)).await;
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
    let rows = market.world.rows().await;
    // The payment is SUCCESS by now; the answer to the repeated report is still that of the first one.
    let again = market.process.settle(&payment, PaymentResult::Failed).await.unwrap();
    assert_eq!(again.status, PaymentStatus::Failed);
    assert_eq!((reports(&market).await.len(), market.world.rows().await), (2, rows));
    let report = newest(&market).await;
    assert_eq!(
        (report.payment, report.of, report.tenant),
        (Some(payment.id), Some(order.id.into()), Some(order.tenant))
    );
    assert_eq!((report.outcome, report.state), (ReportOutcome::OrderPaid, ReportState::Done));
    assert_eq!(report.amount, Some(payment.amount));
}

#[tokio::test(start_paused = true)]
async fn second_capture_and_wrong_amount_are_refunded_and_stay_in_suspense_until_then() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    settle(&market, paid_with(&payment, "first", payment.amount)).await;
    settle(&market, paid_with(&payment, "again", payment.amount)).await;
    settle(&market, paid_with(&payment, "wrong", money(100))).await;
    let due = refunds(&market, order.id).await;
    let causes: Vec<_> = due.iter().map(|refund| (refund.cause, refund.amount, refund.capture)).collect();
    let expected =
        [(RefundCause::SecondCapture, payment.amount, 2), (RefundCause::WrongAmount, money(100), 3)];
    assert_eq!(causes, expected);
    assert_eq!(newest(&market).await.state, ReportState::Open);
    assert_eq!(market.total(Account::Suspense).await, 8_850 + 100);
    assert_eq!(market.total(Account::Platform).await, 8_850);
    for refund in &due {
        market.report(refund, RefundResult::Success).await.unwrap();
    }
    assert_eq!(market.total(Account::Suspense).await, 0);
    assert_eq!(market.total(Account::Gateway).await, -8_850);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn wrong_amount_fails_the_payment_and_keeps_the_order_payable() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    let failed = settle(&market, paid_with(&payment, "wrong", money(1))).await;
    assert_eq!(failed.status, PaymentStatus::Failed);
    assert_eq!(market.world.order(order.id).await, order);
    let second = market.process.started_payment(order.id).await;
    market.process.settle(&second, PaymentResult::Success).await.unwrap();
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
}

#[tokio::test(start_paused = true)]
async fn transaction_of_another_payment_is_an_open_report_and_changes_nothing() {
    let market = Market::new().await;
    let (_, first) = started(&market).await;
    settle(&market, paid_with(&first, "txn", first.amount)).await;
    let (other, second) = started(&market).await;
    let answered = settle(&market, paid_with(&second, "txn", second.amount)).await;
    assert_eq!(answered.status, PaymentStatus::Processing);
    assert_eq!(market.world.order(other.id).await, other);
    let report = newest(&market).await;
    assert_eq!((report.outcome, report.state), (ReportOutcome::TransactionConflict, ReportState::Open));
    assert_eq!(market.total(Account::Gateway).await, -8_850);
    market.process.settle(&second, PaymentResult::Success).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unknown_report_is_recorded_once_and_closed_when_its_payment_is_found() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    let unknown = market.app().ids.reference();
    let mut command = report(&payment, PaymentResult::Success);
    command.payment = ReportedName { reference: Some(unknown), id: None };
    for _ in 0..2 {
        let result = market.app().payments.settle(&gateway(), command.clone()).await;
        assert!(matches!(result, Err(UseCaseError::NotFound { what: "payment" })), "{result:?}");
    }
    let [recorded] = reports(&market).await.try_into().unwrap();
    assert_eq!((recorded.effect.outcome, recorded.effect.tenant), (ReportOutcome::NotFound, None));
    assert_eq!(recorded.effect.reference, Some(unknown.to_string()));
    // The reference belongs to another payment than the id: after a restored backup, ids repeat.
    command.payment = ReportedName { reference: payment.reference, id: Some(404.try_into().unwrap()) };
    market.app().payments.settle(&gateway(), command.clone()).await.unwrap_err();
    assert_eq!(newest(&market).await.outcome, ReportOutcome::Mismatch);
    assert_eq!(market.world.order(order.id).await, order);
    command.payment = 404.into_name();
    market.app().payments.settle(&gateway(), command.clone()).await.unwrap_err();
    let missing = reports(&market).await.remove(0);
    let mut unit = market.world.store.begin().await.unwrap();
    let late = Payment {
        id: 404.try_into().unwrap(),
        reference: Some(market.app().ids.reference()),
        of: order.id.into(),
        status: PaymentStatus::Failed,
        ..payment
    };
    unit.insert_payment(&late).await.unwrap();
    unit.commit().await.unwrap();
    market.app().payments.settle(&gateway(), command).await.unwrap();
    let found = market.world.view().await.gateway_report_by_id(missing.id).await.unwrap().unwrap();
    assert_eq!(found.effect.state, ReportState::Closed);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
}

trait IntoName {
    fn into_name(self) -> ReportedName<PaymentId>;
}

impl IntoName for i64 {
    fn into_name(self) -> ReportedName<PaymentId> {
        PaymentId::try_from(self).unwrap().into()
    }
}

#[tokio::test(start_paused = true)]
async fn report_before_the_assets_are_locked_is_not_recorded() {
    let market = Market::new().await;
    market.deposit(1_000).await;
    let order = market.order(SpentAssets { wallet: 1_000, ..SpentAssets::default() }).await;
    let payment = market.process.started_payment(order.id).await;
    let result = market.process.settle(&payment, PaymentResult::Success).await;
    assert!(
        matches!(result, Err(UseCaseError::Refused(PaymentCommandRefusal::AssetsNotLocked))),
        "{result:?}"
    );
    assert_eq!(reports(&market).await, []);
}

#[tokio::test(start_paused = true)]
async fn unreadable_body_is_recorded_once() {
    let market = Market::new().await;
    for _ in 0..2 {
        let (hash, error) = ("ab".repeat(32), "amount: must be a number".to_owned());
        market
            .app()
            .payments
            .record_unreadable_report(&gateway(), ReportKind::Payment, hash, error)
            .await
            .unwrap();
    }
    let [report] = reports(&market).await.try_into().unwrap();
    assert_eq!((report.effect.outcome, report.effect.state), (ReportOutcome::Unreadable, ReportState::Open));
    assert_eq!(report.effect.error.as_deref(), Some("amount: must be a number"));
    assert_eq!(report.effect.body_hash, "ab".repeat(32));
}

#[tokio::test(start_paused = true)]
async fn list_of_payments_searches_limited_number_of_ids_per_page_if_status_is_rare() {
    let market = Market::new().await;
    let (_, started) = started(&market).await;
    let mut unit = market.world.store.begin().await.unwrap();
    let old = [(7_001, PaymentStatus::Failed), (7_007, PaymentStatus::Success)];
    for (id, status) in old.into_iter().chain([(107_008, PaymentStatus::Success)]) {
        let of = OrderId::try_from(id).unwrap().into();
        let payment = Payment { id: id.try_into().unwrap(), reference: None, of, status, ..started.clone() };
        unit.insert_payment(&payment).await.unwrap();
    }
    unit.commit().await.unwrap();
    let list = async |status, before: Option<i64>| {
        let before = before.map(|id| id.try_into().unwrap());
        let query = ListPayments { status, before, limit: 10, ..ListPayments::default() };
        let page = market.app().operations.list_payments(&platform(), query).await.unwrap();
        (page.items.iter().map(|payment| payment.id.get()).collect::<Vec<_>>(), page.next)
    };
    let failed = Some(PaymentStatus::Failed);
    let first = started.id.get();
    assert_eq!(list(failed, None).await, (vec![], Some(7_008)));
    assert_eq!(list(failed, Some(7_008)).await, (vec![7_001], None));
    assert_eq!(list(failed, Some(first)).await, (vec![], None));
    assert_eq!(list(None, None).await, (vec![107_008, 7_007, 7_001, first], None));
}

#[tokio::test(start_paused = true)]
async fn operators_see_reports_of_their_tenant_and_close_them_once_with_an_audit_entry() {
    let market = Market::new().await;
    let (_, payment) = started(&market).await;
    settle(&market, paid_with(&payment, "wrong", money(1))).await;
    let mut unknown = report(&payment, PaymentResult::Success);
    unknown.payment = 404.into_name();
    market.app().payments.settle(&gateway(), unknown).await.unwrap_err();
    let open =
        ListGatewayReports { state: Some(ReportState::Open), limit: 10, ..ListGatewayReports::default() };
    let own = market.app().operations.gateway_reports(&operator(), open).await.unwrap().items;
    let all = market.app().operations.gateway_reports(&platform(), open).await.unwrap().items;
    assert_eq!((own.len(), all.len()), (1, 2));
    assert_eq!(all[1].effect.transaction_id.as_deref(), Some("wrong"));
    assert_ne!(own[0].effect.transaction_id.as_deref(), Some("wrong"), "personal data must be masked");
    assert!(matches!(
        market.app().operations.gateway_reports(&by(BUYER), open).await,
        Err(UseCaseError::NotAllowed(_))
    ));
    let foreign = market.app().operations.close_gateway_report(&operator(), all[0].id, reason()).await;
    assert!(matches!(foreign, Err(UseCaseError::NotFound { .. })), "{foreign:?}");
    for _ in 0..2 {
        let closed =
            market.app().operations.close_gateway_report(&operator(), own[0].id, reason()).await.unwrap();
        assert_eq!(closed.effect.state, ReportState::Closed);
        assert_eq!(closed.effect.closed.unwrap().reason, reason().as_str());
    }
    let audit = market.world.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 20).await;
    let closings: Vec<u64> = audit
        .unwrap()
        .into_iter()
        .filter(|entry| entry.effect.action == "gateway-report.close")
        .map(|entry| entry.effect.changed)
        .collect();
    assert_eq!(closings, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn open_report_is_a_finding_until_it_is_closed_and_only_operators_see_reports_in_the_timeline() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    settle(&market, paid_with(&payment, "wrong", money(1))).await;
    let id = reports(&market).await.remove(0).id;
    let found = run_reconciliation(&market, true).await;
    let [finding] = &found.findings[..] else { panic!("{found:?}") };
    let key = format!("report:{id}");
    assert_eq!(
        (finding.kind, finding.order, finding.key.as_deref(), finding.repair),
        (FindingKind::GatewayReport, Some(order.id), Some(key.as_str()), None)
    );
    market.app().operations.close_gateway_report(&operator(), id, reason()).await.unwrap();
    let found = run_reconciliation(&market, false).await;
    assert_eq!(found.count(FindingKind::GatewayReport), 0, "{found:?}");
    let shown = market.app().operations.timeline(&operator(), None, order.id).await.unwrap().items;
    let position = |kind| shown.iter().position(|item| item.kind == kind);
    let item = &shown[position(TimelineKind::GatewayReport).unwrap()];
    assert_eq!((item.status, item.amount.as_deref()), (Some("CLOSED"), Some("0.01")));
    assert_eq!(item.what, format!("report {id} of the gateway: payment SUCCESS; wrong_amount"));
    assert!(item.detail.as_deref().unwrap().ends_with(reason().as_str()), "{item:?}");
    assert!(position(TimelineKind::Payment) < position(TimelineKind::GatewayReport), "{shown:?}");
    let shown = market.app().operations.timeline(&by(BUYER), None, order.id).await.unwrap().items;
    assert!(shown.iter().all(|item| item.kind != TimelineKind::GatewayReport), "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_refund_is_sent_again_under_another_reference_and_earlier_reports_find_it() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    settle(&market, paid_with(&payment, "first", payment.amount)).await;
    let first = market.refund(&order).await;
    market.report(&first, RefundResult::Failed).await.unwrap();
    let retried = market.app().operations.retry_refund(&operator(), first.id, reason()).await.unwrap();
    assert_eq!((retried.status, retried.attempt), (RefundStatus::Processing, 2));
    assert_ne!(retried.gateway_key(), first.gateway_key());
    assert_eq!(market.world.order(order.id).await.running_refund(), Some(first.id));
    // The gateway repeats the report about the first attempt, which changes nothing.
    let by_reference = |reference| SettleRefund {
        refund: ReportedName { reference, id: None },
        ..refund_report(first.id, RefundResult::Failed)
    };
    let again = market.app().payments.settle_refund(&gateway(), by_reference(first.reference)).await.unwrap();
    assert_eq!(again.status, RefundStatus::Failed, "the answer to a repeated report is the first one");
    assert_eq!(market.world.order(order.id).await.running_refund(), Some(first.id));
    let second = SettleRefund { result: RefundResult::Success, ..by_reference(retried.reference) };
    market.app().payments.settle_refund(&gateway(), second).await.unwrap();
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Refunded);
    assert_eq!(market.total(Account::Gateway).await, 0);
    let shown = market.app().operations.timeline(&operator(), None, order.id).await.unwrap().items;
    let reports = shown.iter().filter(|item| item.kind == TimelineKind::GatewayReport);
    let reports: Vec<&str> =
        reports.filter_map(|item| item.what.split_once("gateway: ")).map(|(_, it)| it).collect();
    let [_, failed, succeeded] = reports[..] else { panic!("{reports:?}") };
    assert!(failed.starts_with("refund FAILED of attempt 1; "), "{failed}");
    assert!(succeeded.starts_with("refund SUCCESS of attempt 2; "), "{succeeded}");
}

#[tokio::test(start_paused = true)]
async fn refund_settled_by_hand_refunds_the_order_and_later_reports_are_open() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    settle(&market, paid_with(&payment, "first", payment.amount)).await;
    let refund = market.refund(&order).await;
    let foreign = market.app().operations.settle_refund_by_hand(&by(SELLER), refund.id, reason()).await;
    assert!(matches!(foreign, Err(UseCaseError::NotAllowed(_))), "{foreign:?}");
    let settled =
        market.app().operations.settle_refund_by_hand(&operator(), refund.id, reason()).await.unwrap();
    assert_eq!((settled.status, settled.settled_by.as_deref()), (RefundStatus::Success, Some("user:9")));
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Refunded);
    market.report(&refund, RefundResult::Success).await.unwrap();
    assert_eq!(newest(&market).await.outcome, ReportOutcome::SettledByOperator);
    assert_eq!(market.total(Account::Gateway).await, 0);
    let again = market.app().operations.settle_refund_by_hand(&operator(), refund.id, reason()).await;
    assert!(matches!(again, Err(UseCaseError::Refused(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn refund_that_fails_after_it_succeeded_stays_open_and_can_be_sent_again() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    settle(&market, paid_with(&payment, "first", payment.amount)).await;
    let refund = market.refund(&order).await;
    market.report(&refund, RefundResult::Success).await.unwrap();
    market.report(&refund, RefundResult::Failed).await.unwrap();
    assert_eq!(newest(&market).await.outcome, ReportOutcome::RefundFailedAfterSuccess);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Refunded);
    let totals = async || {
        (
            market.total(Account::Gateway).await,
            market.total(Account::Suspense).await,
            market.total(Account::Platform).await,
        )
    };
    assert_eq!(totals().await, (-8_850, 8_850, 0));
    let retried = market.app().operations.retry_refund(&operator(), refund.id, reason()).await.unwrap();
    let done = SettleRefund {
        refund: ReportedName { reference: retried.reference, id: None },
        ..refund_report(refund.id, RefundResult::Success)
    };
    market.app().payments.settle_refund(&gateway(), done).await.unwrap();
    assert_eq!(totals().await, (0, 0, 0));
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn failure_of_a_refund_that_was_sent_again_after_its_reversal_is_recorded() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    settle(&market, paid_with(&payment, "first", payment.amount)).await;
    let refund = market.refund(&order).await;
    market.report(&refund, RefundResult::Success).await.unwrap();
    market.report(&refund, RefundResult::Failed).await.unwrap();
    market.app().operations.retry_refund(&operator(), refund.id, reason()).await.unwrap();
    let failed = market.report(&refund, RefundResult::Failed).await.unwrap();
    assert_eq!((failed.status, failed.attempt), (RefundStatus::Failed, 2));
    assert_eq!(newest(&market).await.outcome, ReportOutcome::RefundFailed);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Refunded);
    assert_eq!(market.total(Account::Suspense).await, 8_850);
}

/// A gateway that names refunds by id repeats its reports about the first attempt, whose answers were lost.
#[tokio::test(start_paused = true)]
async fn repeated_report_without_reference_does_not_settle_the_attempt_of_a_retry() {
    let is_event = |row: &&OutboxRow| row.aggregate.kind == "Refund";
    for results in [&[RefundResult::Failed][..], &[RefundResult::Success, RefundResult::Failed]] {
        let market = Market::new().await;
        let (order, payment) = started(&market).await;
        settle(&market, paid_with(&payment, "first", payment.amount)).await;
        let refund = market.refund(&order).await;
        let report = async |result, transaction: &str| {
            let transaction_id = Some(transaction.to_owned());
            let command = SettleRefund { transaction_id, ..refund_report(refund.id, result) };
            market.app().payments.settle_refund(&gateway(), command).await.unwrap().status.as_str()
        };
        let mut answers = Vec::new();
        for result in results {
            answers.push(report(*result, "attempt-1").await);
        }
        market.app().operations.retry_refund(&operator(), refund.id, reason()).await.unwrap();
        for (result, answer) in results.iter().zip(answers) {
            assert_eq!(report(*result, "attempt-1").await, answer);
        }
        let retried = refunds(&market, order.id).await.remove(0);
        assert_eq!((retried.status, retried.attempt), (RefundStatus::Processing, 2));
        assert_eq!(market.world.rows().await.iter().filter(is_event).count(), results.len());
        assert_eq!(report(RefundResult::Success, "attempt-2").await, "SUCCESS");
        assert_eq!(newest(&market).await.attempt, Some(2));
        assert_eq!(market.total(Account::Gateway).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn report_without_reference_about_a_known_transaction_is_about_its_attempt() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    settle(&market, paid_with(&payment, "first", payment.amount)).await;
    let refund = market.refund(&order).await;
    let report = |result| SettleRefund {
        transaction_id: Some("attempt-1".to_owned()),
        ..refund_report(refund.id, result)
    };
    let payments = &market.app().payments;
    payments.settle_refund(&gateway(), report(RefundResult::Failed)).await.unwrap();
    market.app().operations.retry_refund(&operator(), refund.id, reason()).await.unwrap();
    payments.settle_refund(&gateway(), report(RefundResult::Success)).await.unwrap();
    assert_eq!(newest(&market).await.attempt, Some(1));
    assert_eq!(refunds(&market, order.id).await[0].settled_attempt, Some(1));
}

#[tokio::test(start_paused = true)]
async fn refund_of_a_shipped_order_cannot_be_sent_again() {
    let market = Market::new().await;
    let (order, payment) = started(&market).await;
    settle(&market, paid_with(&payment, "first", payment.amount)).await;
    let refund = market.refund(&order).await;
    market.report(&refund, RefundResult::Failed).await.unwrap();
    let shipment = Shipment::new("SF".into(), "SF-1".into()).unwrap();
    market.app().ordering.ship(&by(SELLER), order.id, shipment).await.unwrap();
    let retried = market.app().operations.retry_refund(&operator(), refund.id, reason()).await;
    assert!(
        matches!(
            retried,
            Err(UseCaseError::Refused(RefundCommandRefusal::Order(OrderRefusal::WrongStatus { .. })))
        ),
        "{retried:?}"
    );
    // The gateway pays it back nevertheless: booked, and left to an operator.
    let second = SettleRefund {
        transaction_id: Some("late".into()),
        ..refund_report(refund.id, RefundResult::Success)
    };
    market.app().payments.settle_refund(&gateway(), second).await.unwrap();
    assert_eq!(newest(&market).await.outcome, ReportOutcome::RefundedAfterShipping);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Shipped);
    assert_eq!(market.total(Account::Gateway).await, 0);
}
