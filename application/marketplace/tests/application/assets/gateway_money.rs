//! Money is conserved for any sequence of reports: what the gateway captured is spent, refunded, being refunded or open.

use std::sync::Arc;

use handover_outbox::operations::Reason;
use marketplace::RefundSettings;
use marketplace::ReportedName;
use marketplace::jobs::RefundDispatcher;
use marketplace::ports::{InvoicePayments, MockGateway};
use marketplace::use_cases::operations::*;
use marketplace::use_cases::*;
use marketplace_domain::*;
use proptest::prelude::*;

use super::gateway_reports::reports;
use super::market::{Market, operator, refund_report};
use crate::invoices::{add as add_orders, completed, generate, platform};
use crate::support::{BUYER, SELLER, TENANT, by, gateway, money, pass, report, secs};

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

/// Any steps, also after a late success of a refund whose money a later refund is returning.
fn plays() -> impl Strategy<Value = Vec<Step>> {
    let report =
        |refund, succeeded| Step::ReportRefund { refund, first_attempt: true, transaction: 0, succeeded };
    let paid = Step::ReportPayment { payment: 0, transaction: 0, succeeded: true, over_other_amount: false };
    let request = Step::RequestRefund { by_operator: true };
    let late_success = vec![
        Step::StartPayment,
        paid,
        request.clone(),
        report(0, false),
        request,
        Step::Dispatch,
        report(0, true),
    ];
    let start = prop_oneof![2 => Just(Vec::new()), 1 => Just(late_success)];
    (start, prop::collection::vec(steps(), 1..30)).prop_map(|(mut steps, more)| {
        steps.extend(more);
        steps
    })
}

fn reason() -> Reason {
    Reason::new("a reason".to_owned()).unwrap()
}

/// One order or invoice with its payments and refunds.
struct Play {
    market: Market,
    of: PayableId,
    dispatcher: RefundDispatcher,
    first_references: std::collections::BTreeMap<RefundId, Reference>,
}

impl Play {
    async fn of_order() -> Play {
        let market = Market::new().await;
        let order = market.process.ordered().await.id;
        Play::of(market, order.into())
    }

    /// An invoice over 50.00 for a completed order of 2,000.00.
    async fn of_invoice() -> Play {
        let market = Market::new().await;
        let january = completed(1, TENANT.get(), 200_000, "2026-01-15T00:00:00Z");
        add_orders(&market.process, &[january]).await;
        let invoice = generate(&market.process, TENANT.get(), "2026-01").await.unwrap();
        Play::of(market, invoice.id.into())
    }

    fn of(market: Market, of: PayableId) -> Play {
        let mut accepts = MockGateway::new();
        accepts.expect_refund().returning(|_| Ok(()));
        let tx = market.app().tx.clone();
        let dispatcher =
            RefundDispatcher { tx, gateway: Arc::new(accepts), settings: RefundSettings::default() };
        Play { market, of, dispatcher, first_references: std::collections::BTreeMap::new() }
    }

    /// The payments, captures and refunds.
    async fn rows(&self) -> InvoicePayments {
        let mut view = self.market.world.view().await;
        match self.of {
            PayableId::Order(order) => InvoicePayments {
                payments: view.payments_of(TENANT, &[order]).await.unwrap(),
                captures: view.captures_of(TENANT, &[order]).await.unwrap(),
                refunds: view.refunds_of(TENANT, &[order]).await.unwrap(),
                reports: Vec::new(),
            },
            PayableId::Invoice(invoice) => view.payments_of_invoice(TENANT, invoice).await.unwrap(),
        }
    }

    async fn refunds(&self) -> Vec<Refund> {
        self.rows().await.refunds
    }

    /// Plays a step. A step that its rules refuse changes nothing; a report is never refused.
    async fn step(&mut self, step: &Step) {
        let before = self.refunds().await;
        self.play(step).await;
        match step {
            Step::RequestRefund { .. } | Step::Retry { .. } => self.check_started(&before, true).await,
            Step::SettleByHand { .. } => self.check_started(&before, false).await,
            Step::StartPayment
            | Step::ReportPayment { .. }
            | Step::ReportRefund { .. }
            | Step::Dispatch
            | Step::Cancel
            | Step::Ship
            | Step::Complete => {}
        }
        for refund in self.refunds().await {
            self.first_references.entry(refund.id).or_insert(refund.reference.unwrap());
        }
    }

    async fn play(&self, step: &Step) {
        let app = self.market.app();
        match *step {
            Step::StartPayment => {
                let method = Some(PaymentMethod::Card);
                match self.of {
                    PayableId::Order(order) => {
                        drop(app.payments.start(&by(BUYER), StartPayment { order, method }).await);
                    }
                    PayableId::Invoice(invoice) => {
                        drop(app.payments.pay_invoice(&operator(), PayInvoice { invoice, method }).await);
                    }
                }
            }
            Step::ReportPayment { payment, transaction, succeeded, over_other_amount } => {
                let payments = self.rows().await.payments;
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
            Step::RequestRefund { by_operator } => match self.of {
                PayableId::Order(order) => {
                    let command = RequestRefund { order, reason: "too small".into(), off_shelf: false };
                    let context = if by_operator { operator() } else { by(BUYER) };
                    drop(app.payments.request_refund(&context, command).await);
                }
                PayableId::Invoice(invoice) => {
                    let command = RefundInvoice { invoice, reason: reason() };
                    drop(app.payments.refund_invoice(&platform(), command).await);
                }
            },
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
            Step::Cancel => {
                let Some(order) = self.of.order() else { return };
                drop(app.ordering.cancel(&by(BUYER), order).await);
            }
            Step::Ship => {
                let Some(order) = self.of.order() else { return };
                let shipment = Shipment::new("SF".into(), "SF-1".into()).unwrap();
                drop(app.ordering.ship(&by(SELLER), order, shipment).await);
            }
            Step::Complete => {
                let Some(order) = self.of.order() else { return };
                drop(app.ordering.complete(&by(BUYER), order).await);
            }
        }
    }

    /// A command starts a refund only if no other refund of the same money has returned it or is returning it. A request
    /// to the gateway is started only if the gateway has reported a result of each other attempt that was sent.
    async fn check_started(&self, before: &[Refund], is_sent: bool) {
        let after = self.refunds().await;
        let had_failed = |refund: &Refund| {
            before.iter().find(|it| it.id == refund.id).is_none_or(|it| it.status == RefundStatus::Failed)
        };
        let started = |it: &&Refund| it.status != RefundStatus::Failed && had_failed(it);
        for refund in after.iter().filter(started) {
            let of_capture: Vec<&Refund> = after.iter().filter(|it| is_same_money(it, refund)).collect();
            let live = of_capture.iter().filter(|it| it.status != RefundStatus::Failed).count();
            assert_eq!(live, 1, "{refund:?} may pay the same money again: {before:?}");
            if is_sent {
                self.check_reported(refund, &of_capture).await;
            }
        }
    }

    /// Each attempt at these refunds that was sent to the gateway has a report, apart from the one that is started: it is sent
    /// again with its own key.
    async fn check_reported(&self, started: &Refund, refunds: &[&Refund]) {
        let reports = reports(&self.market).await;
        for refund in refunds {
            let sent = self.market.world.view().await.refund_requests(refund.id, 1_000).await.unwrap();
            for request in sent {
                if (request.refund, request.attempt) == (started.id, started.attempt) {
                    continue;
                }
                let is_about =
                    |it: &GatewayReport| (it.refund, it.attempt) == (Some(refund.id), Some(request.attempt));
                let is_reported = reports.iter().any(|it| is_about(&it.effect));
                assert!(is_reported, "{request:?} may pay the same money again: {refunds:?}");
            }
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

    /// The status of the order or invoice.
    async fn status(&self) -> &'static str {
        match self.of {
            PayableId::Order(id) => {
                let order = self.market.world.order(id).await;
                if let Some(running) = order.running_refund() {
                    let refunds = self.refunds().await;
                    let refund = refunds.iter().find(|refund| refund.id == running);
                    assert!(refund.is_none_or(|it| it.status == RefundStatus::Processing), "{refund:?}");
                }
                order.status.as_str()
            }
            PayableId::Invoice(id) => {
                self.market.world.view().await.invoice_by_id(id).await.unwrap().unwrap().status.as_str()
            }
        }
    }

    async fn check(&self) {
        let InvoicePayments { captures, refunds, .. } = self.rows().await;
        let sum = |amounts: &mut dyn Iterator<Item = Money>| amounts.map(Money::minor).sum::<i64>();
        let succeeded = |refund: &&Refund| refund.status == RefundStatus::Success;
        let captured = sum(&mut captures.iter().map(|capture| capture.amount));
        let refunded = sum(&mut refunds.iter().filter(succeeded).map(|refund| refund.amount));
        let excess =
            sum(&mut refunds.iter().filter(succeeded).filter(|it| it.is_excess).map(|refund| refund.amount));
        let mut spent = 0;
        let mut being_refunded = 0;
        let mut open = -excess;
        for refund in refunds.iter().filter(|refund| refund.status == RefundStatus::Processing) {
            assert!(refund.next_attempt_time.is_some(), "not sent any more: {refund:?}");
            let mut others = refunds.iter().filter(|it| it.id != refund.id && is_same_money(it, refund));
            assert!(others.all(|other| other.status == RefundStatus::Failed), "{refunds:?}");
        }
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
        match self.status().await {
            "pending" | "cancelled" => {
                assert_eq!((paying, suspense), (0, being_refunded + open), "{captures:?}");
            }
            "refunded" => assert_eq!(suspense, being_refunded + open, "{captures:?} {refunds:?}"),
            _ => assert_eq!(paying, 1),
        }
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
        let kinds = [FindingKind::NotBooked, FindingKind::InvoiceDiffers];
        let unbooked: Vec<_> =
            report.findings.iter().filter(|finding| kinds.contains(&finding.kind)).collect();
        assert!(unbooked.is_empty(), "{unbooked:?}");
    }
}

/// Whether both refunds return the money of the same capture.
fn is_same_money(left: &Refund, right: &Refund) -> bool {
    (left.payment, left.capture) == (right.payment, right.capture)
}

fn cases() -> ProptestConfig {
    let is_long = std::env::var_os("HANDOVER_LONG").is_some();
    ProptestConfig { cases: if is_long { 3_000 } else { 150 }, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn captured_money_is_spent_refunded_being_refunded_or_open(steps in plays()) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            for mut play in [Play::of_order().await, Play::of_invoice().await] {
                for step in &steps {
                    play.step(step).await;
                    play.check().await;
                }
                play.check_bookings().await;
            }
        });
    }
}
