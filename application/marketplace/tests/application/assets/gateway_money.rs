//! Money is conserved for any sequence of reports: what the gateway captured is spent, refunded, being refunded or open.

use std::sync::Arc;

use handover_outbox::operations::Reason;
use marketplace::RefundSettings;
use marketplace::ReportedName;
use marketplace::jobs::RefundDispatcher;
use marketplace::ports::MockGateway;
use marketplace::use_cases::operations::*;
use marketplace::use_cases::*;
use marketplace_domain::*;
use proptest::prelude::*;

use super::gateway_reports::reports;
use super::market::{Market, operator, refund_report};
use crate::support::{BUYER, SELLER, by, gateway, money, pass, report, secs};

#[derive(Debug, Clone)]
enum Step {
    StartPayment,
    ReportPayment {
        payment: usize,
        transaction: u8,
        succeeded: bool,
        over_other_amount: bool,
    },
    RequestRefund {
        by_operator: bool,
    },
    /// A report about the current attempt, or about the first one.
    ReportRefund {
        refund: usize,
        first_attempt: bool,
        transaction: u8,
        succeeded: bool,
    },
    /// Sends all due refunds; the gateway accepts them.
    Dispatch,
    Retry {
        refund: usize,
    },
    SettleByHand {
        refund: usize,
    },
    Cancel,
    Ship,
    Complete,
}

fn steps() -> impl Strategy<Value = Step> {
    let report_payment = (0..3usize, 0..4u8, prop::bool::weighted(0.7), prop::bool::weighted(0.2));
    let report_refund = (0..4usize, any::<bool>(), 0..3u8, any::<bool>());
    prop_oneof![
        3 => Just(Step::StartPayment),
        6 => report_payment.prop_map(|(payment, transaction, succeeded, over_other_amount)| {
            Step::ReportPayment { payment, transaction, succeeded, over_other_amount }
        }),
        3 => any::<bool>().prop_map(|by_operator| Step::RequestRefund { by_operator }),
        6 => report_refund.prop_map(|(refund, first_attempt, transaction, succeeded)| {
            Step::ReportRefund { refund, first_attempt, transaction, succeeded }
        }),
        2 => Just(Step::Dispatch),
        2 => (0..4usize).prop_map(|refund| Step::Retry { refund }),
        1 => (0..4usize).prop_map(|refund| Step::SettleByHand { refund }),
        1 => Just(Step::Cancel),
        1 => Just(Step::Ship),
        1 => Just(Step::Complete),
    ]
}

fn reason() -> Reason {
    Reason::new("a reason".to_owned()).unwrap()
}

/// One order with its payments and refunds.
struct Play {
    market: Market,
    order: OrderId,
    dispatcher: RefundDispatcher,
    first_references: std::collections::BTreeMap<RefundId, Reference>,
}

impl Play {
    async fn new() -> Play {
        let market = Market::new().await;
        let order = market.process.ordered().await.id;
        let mut accepts = MockGateway::new();
        accepts.expect_refund().returning(|_| Ok(()));
        let tx = market.app().tx.clone();
        let dispatcher =
            RefundDispatcher { tx, gateway: Arc::new(accepts), settings: RefundSettings::default() };
        Play { market, order, dispatcher, first_references: std::collections::BTreeMap::new() }
    }

    async fn payments(&self) -> Vec<Payment> {
        let tenant = super::market::tenant();
        self.market.world.view().await.payments_of(tenant, &[self.order]).await.unwrap()
    }

    async fn refunds(&self) -> Vec<Refund> {
        let tenant = super::market::tenant();
        self.market.world.view().await.refunds_of(tenant, &[self.order]).await.unwrap()
    }

    /// Plays a step. A step that its rules refuse changes nothing; a report is never refused.
    async fn step(&mut self, step: &Step) {
        let app = self.market.app();
        match *step {
            Step::StartPayment => {
                let command = StartPayment { order: self.order, method: Some(PaymentMethod::Card) };
                drop(app.payments.start(&by(BUYER), command).await);
            }
            Step::ReportPayment { payment, transaction, succeeded, over_other_amount } => {
                let payments = self.payments().await;
                let Some(payment) = payments.get(payment) else { return };
                let result = if succeeded { PaymentResult::Success } else { PaymentResult::Failed };
                let mut command = report(payment, result);
                command.report.transaction_id = format!("txn-{transaction}");
                if over_other_amount {
                    command.report.amount = money(700);
                }
                self.report_twice(async || {
                    app.payments.settle(&gateway(), command.clone()).await.unwrap().status.as_str()
                })
                .await;
            }
            Step::RequestRefund { by_operator } => {
                let command =
                    RequestRefund { order: self.order, reason: "too small".into(), off_shelf: false };
                let context = if by_operator { operator() } else { by(BUYER) };
                drop(app.payments.request_refund(&context, command).await);
            }
            Step::ReportRefund { refund, first_attempt, transaction, succeeded } => {
                let refunds = self.refunds().await;
                let Some(refund) = refunds.get(refund) else { return };
                let first = self.first_references.get(&refund.id).copied();
                let reference = if first_attempt { first } else { refund.reference };
                let result = if succeeded { RefundResult::Success } else { RefundResult::Failed };
                let command = SettleRefund {
                    refund: ReportedName { reference, id: None },
                    transaction_id: (transaction > 0).then(|| format!("back-{transaction}")),
                    ..refund_report(refund.id, result)
                };
                self.report_twice(async || {
                    app.payments.settle_refund(&gateway(), command.clone()).await.unwrap().status.as_str()
                })
                .await;
            }
            Step::Dispatch => {
                self.dispatcher.dispatch().await.unwrap();
            }
            Step::Retry { refund } => {
                if let Some(refund) = self.refunds().await.get(refund) {
                    drop(app.operations.retry_refund(&operator(), refund.id, reason()).await);
                }
            }
            Step::SettleByHand { refund } => {
                if let Some(refund) = self.refunds().await.get(refund) {
                    drop(app.operations.settle_refund_by_hand(&operator(), refund.id, reason()).await);
                }
            }
            Step::Cancel => drop(app.ordering.cancel(&by(BUYER), self.order).await),
            Step::Ship => {
                let shipment = Shipment::new("SF".into(), "SF-1".into()).unwrap();
                drop(app.ordering.ship(&by(SELLER), self.order, shipment).await);
            }
            Step::Complete => drop(app.ordering.complete(&by(BUYER), self.order).await),
        }
        for refund in self.refunds().await {
            self.first_references.entry(refund.id).or_insert(refund.reference.unwrap());
        }
    }

    /// Delivers a report twice: it is recorded, and the repetition changes nothing and gets the same answer.
    async fn report_twice(&self, deliver: impl AsyncFn() -> &'static str) {
        let first = deliver().await;
        let recorded = reports(&self.market).await;
        assert!(!recorded.is_empty(), "the report must be recorded");
        let before = (recorded, self.refunds().await, self.market.world.rows().await);
        assert_eq!(deliver().await, first, "the answer to a repeated report");
        let after = (reports(&self.market).await, self.refunds().await, self.market.world.rows().await);
        assert_eq!(after, before, "a repeated report must change nothing");
    }

    async fn check(&self) {
        let tenant = super::market::tenant();
        let captures = self.market.world.view().await.captures_of(tenant, &[self.order]).await.unwrap();
        let refunds = self.refunds().await;
        let order = self.market.world.order(self.order).await;
        let sum = |amounts: &mut dyn Iterator<Item = Money>| amounts.map(Money::minor).sum::<i64>();
        let succeeded = |refund: &&Refund| refund.status == RefundStatus::Success;
        let captured = sum(&mut captures.iter().map(|capture| capture.amount));
        let refunded = sum(&mut refunds.iter().filter(succeeded).map(|refund| refund.amount));
        let excess =
            sum(&mut refunds.iter().filter(succeeded).filter(|it| it.is_excess).map(|refund| refund.amount));
        let mut spent = 0;
        let mut being_refunded = 0;
        let mut open = -excess;
        for capture in &captures {
            let of_capture = refunds.iter().filter(|refund| capture.is_refunded_by(refund));
            let live: Vec<_> =
                of_capture.filter(|it| it.status != RefundStatus::Failed && !it.is_excess).collect();
            assert!(live.len() <= 1, "{live:?}");
            match live.first().map(|refund| refund.status) {
                Some(RefundStatus::Processing) => being_refunded += capture.amount.minor(),
                Some(RefundStatus::Success) => {}
                Some(RefundStatus::Failed) | None if capture.refund_due => open += capture.amount.minor(),
                Some(RefundStatus::Failed) | None => spent += capture.amount.minor(),
            }
        }
        assert_eq!(captured, spent + refunded + being_refunded + open, "{captures:?} {refunds:?}");
        assert_eq!(self.market.total(Account::Gateway).await, refunded - captured, "the gateway's account");
        let suspense = self.market.total(Account::Suspense).await;
        assert_eq!(self.market.total(Account::Platform).await, captured - refunded - suspense);
        let paying = captures.iter().filter(|capture| !capture.refund_due).count();
        match order.status {
            OrderStatus::Pending | OrderStatus::Cancelled => {
                assert_eq!((paying, suspense), (0, being_refunded + open), "{captures:?}");
            }
            OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => assert_eq!(paying, 1),
            OrderStatus::Refunded => assert_eq!(suspense, being_refunded + open, "{captures:?} {refunds:?}"),
        }
        let of_order: Vec<_> = refunds.iter().filter(|it| Some(it.id) == order.running_refund()).collect();
        assert!(of_order.iter().all(|refund| refund.status == RefundStatus::Processing), "{of_order:?}");
        self.market.assert_ledger_balanced().await;
    }

    /// Every posting that the rows require is in the ledger.
    async fn check_bookings(&self) {
        pass(secs(1)).await;
        let now = self.market.world.now();
        let query = Reconcile {
            tenant: None,
            since: now - chrono::TimeDelta::days(1),
            until: now + chrono::TimeDelta::days(1),
            grace: GRACE,
            repair: false,
            reason: None,
        };
        let report =
            self.market.app().operations.reconcile(&operator().operator().unwrap(), query).await.unwrap();
        let unbooked: Vec<_> =
            report.findings.iter().filter(|finding| finding.kind == FindingKind::NotBooked).collect();
        assert!(unbooked.is_empty(), "{unbooked:?}");
    }
}

fn cases() -> ProptestConfig {
    let is_long = std::env::var_os("HANDOVER_LONG").is_some();
    ProptestConfig { cases: if is_long { 3_000 } else { 150 }, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn captured_money_is_spent_refunded_being_refunded_or_open(steps in prop::collection::vec(steps(), 1..30)) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut play = Play::new().await;
            for step in &steps {
                play.step(step).await;
                play.check().await;
            }
            play.check_bookings().await;
        });
    }
}
