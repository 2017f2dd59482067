//! Several refunds of the money of one capture: it is paid out at most once by the service, whatever the gateway reports.

use std::sync::Arc;

use handover_outbox::operations::Reason;
use marketplace::RefundSettings;
use marketplace::ReportedName;
use marketplace::jobs::RefundDispatcher;
use marketplace::ports::MockGateway;
use marketplace::use_cases::operations::FindingKind;
use marketplace::use_cases::{RefundCommandRefusal, RequestRefund, SettleRefund, UseCaseError};
use marketplace_domain::{
    Account, Order, OrderStatus, Payment, PaymentResult, Refund, RefundId, RefundRefusal, RefundResult,
    RefundStatus, ReportOutcome,
};

use super::gateway_reports::reports;
use super::market::{Market, SpentAssets, operator, refund_report, tenant};
use super::reconciliation::run_reconciliation;
use crate::support::gateway;

fn reason() -> Reason {
    Reason::new("a reason".to_owned()).unwrap()
}

/// An order whose refund `late` failed, and whose refund `sent` was requested after it and sent to the gateway.
struct Refunding {
    market: Market,
    order: Order,
    late: Refund,
    sent: Refund,
}

impl Refunding {
    async fn new() -> Refunding {
        let market = Market::new().await;
        let order = market.process.ordered().await;
        let payment: Payment = market.process.started_payment(order.id).await;
        market.process.settle(&payment, PaymentResult::Success).await.unwrap();
        let late = market.refund(&order).await;
        market.report(&late, RefundResult::Failed).await.unwrap();
        let sent = market.refund(&order).await;
        let mut accepts = MockGateway::new();
        accepts.expect_refund().returning(|_| Ok(()));
        let tx = market.app().tx.clone();
        let settings = RefundSettings::default();
        let dispatcher = RefundDispatcher { tx, gateway: Arc::new(accepts), settings };
        assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
        Refunding { market, order, late, sent }
    }

    /// Reports a result under a transaction id.
    async fn report(&self, refund: &Refund, result: RefundResult, transaction: &str) {
        let command =
            SettleRefund { transaction_id: Some(transaction.to_owned()), ..refund_report(refund.id, result) };
        self.market.app().payments.settle_refund(&gateway(), command).await.unwrap();
    }

    async fn refund(&self, id: RefundId) -> Refund {
        self.market.world.view().await.refund_by_id(id).await.unwrap().unwrap()
    }

    async fn retry(&self, refund: &Refund) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        self.market.app().operations.retry_refund(&operator(), refund.id, reason()).await
    }

    async fn settle(&self, refund: &Refund) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        self.market.app().operations.settle_refund_by_hand(&operator(), refund.id, reason()).await
    }

    async fn request(&self) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let command = RequestRefund { order: self.order.id, reason: "again".into(), off_shelf: false };
        self.market.app().payments.request_refund(&operator(), command).await
    }

    async fn finding_count(&self, kind: FindingKind) -> usize {
        run_reconciliation(&self.market, true).await.count(kind)
    }

    /// The totals of the accounts of the gateway, of the suspense and of the platform.
    async fn totals(&self) -> [i64; 3] {
        let mut totals = [0; 3];
        for (total, account) in
            totals.iter_mut().zip([Account::Gateway, Account::Suspense, Account::Platform])
        {
            *total = self.market.total(account).await;
        }
        self.market.assert_ledger_balanced().await;
        totals
    }
}

fn refusal(result: Result<Refund, UseCaseError<RefundCommandRefusal>>) -> RefundRefusal {
    match result {
        Err(UseCaseError::Refused(RefundCommandRefusal::Refund(refusal))) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn money_that_an_excess_refund_has_returned_is_not_returned_again_after_a_reversal() {
    let it = Refunding::new().await;
    it.report(&it.late, RefundResult::Success, "late").await;
    it.report(&it.sent, RefundResult::Success, "sent").await;
    it.report(&it.late, RefundResult::Failed, "late").await;
    let excess = it.refund(it.sent.id).await;
    assert_eq!((excess.status, excess.is_excess), (RefundStatus::Success, true));
    assert_eq!(it.refund(it.late.id).await.status, RefundStatus::Failed);
    let returned = RefundRefusal::AlreadyRefunded { other: it.sent.id };
    assert_eq!(refusal(it.retry(&it.late).await), returned);
    assert_eq!(refusal(it.settle(&it.late).await), returned);
    it.request().await.unwrap_err();
    assert_eq!(it.totals().await, [0, 0, 0]);
    assert_eq!(it.finding_count(FindingKind::NotRefunded).await, 0);
    // The gateway takes this payout back, too: now the buyer has no money.
    it.report(&it.sent, RefundResult::Failed, "sent").await;
    assert_eq!(it.totals().await, [-8_850, 8_850, 0]);
    assert_eq!(it.finding_count(FindingKind::NotRefunded).await, 1);
    let retried = it.retry(&it.late).await.unwrap();
    assert_eq!((retried.status, retried.attempt), (RefundStatus::Processing, 2));
}

#[tokio::test(start_paused = true)]
async fn refund_that_was_sent_fails_when_another_one_has_returned_the_money_and_a_later_success_is_an_excess()
{
    let it = Refunding::new().await;
    it.report(&it.late, RefundResult::Success, "late").await;
    assert_eq!(it.market.world.order(it.order.id).await.status, OrderStatus::Refunded);
    let stopped = it.refund(it.sent.id).await;
    assert_eq!((stopped.status, stopped.is_excess), (RefundStatus::Failed, true));
    assert_eq!(stopped.next_attempt_time, None);
    let rows = it.market.world.rows().await;
    let failed = |id: RefundId| {
        let is_of = |row: &&handover_outbox::ports::OutboxRow| row.aggregate.id == id.get();
        rows.iter().filter(is_of).filter(|row| row.event_type == "REFUND_FAILED").count()
    };
    assert_eq!((failed(it.late.id), failed(it.sent.id)), (1, 1));
    let open = it.market.world.view().await.open_refunds().await.unwrap();
    assert_eq!((open.processing, open.oldest_processing, open.failed), (0, None, 0));
    it.report(&it.sent, RefundResult::Success, "sent").await;
    let newest = reports(&it.market).await.remove(0).effect;
    assert_eq!(newest.outcome, ReportOutcome::RefundedTwice);
    let paid = it.refund(it.sent.id).await;
    assert_eq!((paid.status, paid.is_excess), (RefundStatus::Success, true));
    assert_eq!(it.totals().await, [8_850, -8_850, 0]);
}

#[tokio::test(start_paused = true)]
async fn money_is_not_sent_again_while_the_result_of_a_stopped_refund_is_unknown() {
    let it = Refunding::new().await;
    it.report(&it.late, RefundResult::Success, "late").await;
    it.report(&it.late, RefundResult::Failed, "late").await;
    let unknown = RefundRefusal::ResultUnknown { refund: it.sent.id };
    assert_eq!(refusal(it.retry(&it.late).await), unknown);
    assert_eq!(refusal(it.request().await), unknown);
    assert_eq!(it.finding_count(FindingKind::NotRefunded).await, 1);
    // The operator returns the money by other means.
    it.settle(&it.late).await.unwrap();
    assert_eq!(it.totals().await, [0, 0, 0]);
    it.report(&it.sent, RefundResult::Success, "sent").await;
    let paid = it.refund(it.sent.id).await;
    assert_eq!((paid.status, paid.is_excess), (RefundStatus::Success, true));
    assert_eq!(it.totals().await, [8_850, -8_850, 0]);
}

/// The process may have ended before the request: then the gateway knows nothing of it.
#[tokio::test(start_paused = true)]
async fn stopped_refund_whose_result_is_unknown_is_sent_again_with_its_own_key() {
    let it = Refunding::new().await;
    it.report(&it.late, RefundResult::Success, "late").await;
    it.report(&it.late, RefundResult::Failed, "late").await;
    let before = it.refund(it.sent.id).await;
    let again = it.retry(&it.sent).await.unwrap();
    assert_eq!((again.status, again.is_excess), (RefundStatus::Processing, true));
    assert_eq!((again.attempt, again.gateway_key()), (before.attempt, before.gateway_key()));
    assert!(again.next_attempt_time.is_some());
    // While it is in progress, nothing else is sent.
    assert_eq!(refusal(it.retry(&it.late).await), RefundRefusal::AlreadyRefunded { other: it.sent.id });
    it.report(&it.sent, RefundResult::Failed, "sent").await;
    assert_eq!(it.refund(it.sent.id).await.status, RefundStatus::Failed);
    assert_eq!(it.retry(&it.late).await.unwrap().status, RefundStatus::Processing);
    assert_eq!(it.totals().await, [-8_850, 8_850, 0]);
}

#[tokio::test(start_paused = true)]
async fn money_is_sent_again_after_the_gateway_has_reported_the_failure_of_a_stopped_refund() {
    let it = Refunding::new().await;
    it.report(&it.late, RefundResult::Success, "late").await;
    it.report(&it.late, RefundResult::Failed, "late").await;
    it.report(&it.sent, RefundResult::Failed, "sent").await;
    let retried = it.retry(&it.late).await.unwrap();
    let name = ReportedName { reference: retried.reference, id: None };
    let done = SettleRefund { refund: name, ..refund_report(it.late.id, RefundResult::Success) };
    it.market.app().payments.settle_refund(&gateway(), done).await.unwrap();
    assert_eq!(it.totals().await, [0, 0, 0]);
    assert_eq!(it.market.world.view().await.refunds_of(tenant(), &[it.order.id]).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn lost_event_of_a_refunded_order_names_the_refund_that_changed_the_order_also_after_its_reversal() {
    for is_returned_again in [false, true] {
        let market = Market::running().await;
        let order = market.paid(SpentAssets::default()).await;
        let refund = market.refund(&order).await;
        market.report(&refund, RefundResult::Success).await.unwrap();
        market.report(&refund, RefundResult::Failed).await.unwrap();
        if is_returned_again {
            let again = market.refund(&order).await;
            market.report(&again, RefundResult::Success).await.unwrap();
        }
        market.process_pending().await;
        let refunded = async || {
            let rows = market.world.rows().await;
            rows.into_iter().find(|row| row.event_type == "ORDER_REFUNDED")
        };
        let lost = refunded().await.unwrap();
        assert!(market.world.store.delete_sent_event(&lost.event_id));
        assert_eq!(run_reconciliation(&market, true).await.count(FindingKind::MissingEvent), 1);
        let repaired = refunded().await.unwrap();
        assert_eq!(repaired.payload, lost.payload);
        assert_eq!((repaired.event_id, repaired.aggregate_seq), (lost.event_id, lost.aggregate_seq));
    }
}
