//! Invoices are paid by operators of their tenant and refunded by the platform, with the machinery of the payments of orders.

mod billed;

use std::sync::{Arc, Mutex};

use handover_outbox::ports::{AuditFilter, Changed, OutboxRow};
use marketplace::jobs::RefundDispatcher;
use marketplace::ports::{FindingFilter, InvoicePayments, MockGateway, RefundRequest};
use marketplace::use_cases::*;
use marketplace::{RefundSettings, Role};
use marketplace_domain::*;

use crate::invoices::{operator, platform, tenant};
use crate::support::{CommitFault, Process, gateway, money, report};
use billed::{Billed, OWNER, owner, reason};

#[tokio::test(start_paused = true)]
async fn operator_of_the_tenant_pays_an_invoice_once() {
    let billed = Billed::new().await;
    let payments = &billed.process.app.payments;
    let card = billed.payment(Some(PaymentMethod::Card));
    let payment = payments.pay_invoice(&owner(), card).await.unwrap();
    assert_eq!((payment.of, payment.tenant), (billed.invoice.into(), tenant(OWNER)));
    assert_eq!((payment.amount, payment.status), (money(221), PaymentStatus::Processing));
    assert_eq!(billed.start().await, payment, "the payment in progress is returned");
    let other = payments.pay_invoice(&owner(), billed.payment(Some(PaymentMethod::Alipay))).await;
    let is_refused = matches!(
        other,
        Err(UseCaseError::Refused(PaymentCommandRefusal::OtherMethod { running: PaymentMethod::Card }))
    );
    assert!(is_refused, "{other:?}");
    assert_eq!(billed.status().await, InvoiceStatus::Pending);
    let settled = billed.report(&payment, "txn-1", PaymentResult::Success).await;
    assert_eq!(settled.status, PaymentStatus::Success);
    let invoice = billed.invoice().await;
    assert_eq!((invoice.status, invoice.version), (InvoiceStatus::Paid, 2));
    assert!(invoice.pay_time.is_some());
    let [event] = billed.payloads("PAYMENT_SUCCEEDED").await.try_into().unwrap();
    assert_eq!((&event["invoiceId"], &event["amount"]), (&billed.invoice.get().into(), &2.21.into()));
    assert!(event.get("orderId").is_none(), "{event}");
    let key = format!("invoice:{}:capture", billed.invoice);
    assert_eq!(billed.booked(std::slice::from_ref(&key)).await, [(key, None)]);
    assert_eq!(billed.total(Account::Platform).await, 221);
    assert_eq!(billed.total(Account::Gateway).await, -221);
    let again = payments.pay_invoice(&owner(), card).await.unwrap_err();
    assert_eq!(again.to_string(), "cannot pay an invoice that is paid");
    let [report] = billed.rows().await.reports.try_into().unwrap();
    assert_eq!(report.effect.outcome, ReportOutcome::InvoicePaid);
    assert_eq!(billed.findings().await, []);
    let audited = billed.world.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 9).await;
    let mut audited: Vec<_> = audited.unwrap().into_iter().map(|it| it.effect).collect();
    audited.retain(|entry| entry.action == "invoice.pay");
    let audited: Vec<_> = audited.iter().map(|it| (it.tenant.get(), it.changed)).collect();
    assert_eq!(audited, [(OWNER, 0), (OWNER, 1)]);
}

#[tokio::test(start_paused = true)]
async fn invoice_of_another_tenant_is_not_found_and_users_may_not_pay() {
    let billed = Billed::new().await;
    let payments = &billed.process.app.payments;
    let foreign = payments.pay_invoice(&operator(1, &[Role::Operator]), billed.payment(None)).await;
    assert!(matches!(foreign, Err(UseCaseError::NotFound { what: "invoice" })), "{foreign:?}");
    let user = payments.pay_invoice(&operator(OWNER, &[Role::User]), billed.payment(None)).await;
    assert!(matches!(user, Err(UseCaseError::NotAllowed(_))), "{user:?}");
    let command = RefundInvoice { invoice: billed.invoice, reason: reason() };
    let of_tenant = payments.refund_invoice(&owner(), command.clone()).await;
    assert!(matches!(of_tenant, Err(UseCaseError::NotAllowed(_))), "{of_tenant:?}");
    let unknown = RefundInvoice { invoice: 99.try_into().unwrap(), ..command };
    let unknown = payments.refund_invoice(&platform(), unknown).await;
    assert!(matches!(unknown, Err(UseCaseError::NotFound { what: "invoice" })), "{unknown:?}");
    assert_eq!(billed.rows().await, InvoicePayments::default());
    let by_platform = payments.pay_invoice(&platform(), billed.payment(None)).await.unwrap();
    assert_eq!(by_platform.tenant, tenant(OWNER));
}

#[tokio::test(start_paused = true)]
async fn platform_refunds_a_paid_invoice_through_the_gateway() {
    let billed = Billed::new().await;
    let pending = billed.refund().await.unwrap_err();
    assert_eq!(pending.to_string(), "cannot refund an invoice that is pending");
    let payment = billed.paid().await;
    let refund = billed.refund().await.unwrap();
    assert_eq!((refund.of, refund.payment, refund.amount), (payment.of, payment.id, money(221)));
    assert_eq!(billed.refund().await.unwrap(), refund, "the refund in progress is returned");
    let sent = Arc::new(Mutex::new(Vec::<RefundRequest>::new()));
    let mut accepts = MockGateway::new();
    let requests = Arc::clone(&sent);
    accepts.expect_refund().returning(move |request| {
        requests.lock().unwrap().push(request.clone());
        Ok(())
    });
    let tx = billed.process.app.tx.clone();
    let dispatcher = RefundDispatcher { tx, gateway: Arc::new(accepts), settings: RefundSettings::default() };
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    let [request] = std::mem::take(&mut *sent.lock().unwrap()).try_into().unwrap();
    assert_eq!((request.of, request.transaction_id.as_deref()), (payment.of, Some("txn-1")));
    assert_eq!(billed.status().await, InvoiceStatus::Paid);
    billed.report_refund(&refund, RefundResult::Success).await;
    assert_eq!(billed.status().await, InvoiceStatus::Refunded);
    let [event] = billed.payloads("REFUND_SUCCEEDED").await.try_into().unwrap();
    assert_eq!(
        (&event["invoiceId"], &event["refundId"]),
        (&billed.invoice.get().into(), &refund.id.get().into())
    );
    assert!(event.get("orderId").is_none(), "{event}");
    let key = format!("refund:{}:payout", refund.id);
    assert_eq!(billed.booked(std::slice::from_ref(&key)).await, [(key, None)]);
    assert_eq!((billed.total(Account::Platform).await, billed.total(Account::Gateway).await), (0, 0));
    let again = billed.refund().await.unwrap_err();
    assert_eq!(again.to_string(), "cannot refund an invoice that is refunded");
    assert_eq!(billed.findings().await, []);
}

#[tokio::test(start_paused = true)]
async fn failed_payment_leaves_the_invoice_pending() {
    let billed = Billed::new().await;
    let first = billed.start().await;
    billed.report(&first, "txn-1", PaymentResult::Failed).await;
    assert_eq!(billed.status().await, InvoiceStatus::Pending);
    let [event] = billed.payloads("PAYMENT_FAILED").await.try_into().unwrap();
    assert_eq!(event["invoiceId"], billed.invoice.get());
    let second = billed.start().await;
    assert_ne!(second.id, first.id);
    // The gateway captures the first payment after all, and then the second, which pays nothing.
    billed.report(&first, "txn-2", PaymentResult::Success).await;
    assert_eq!(billed.status().await, InvoiceStatus::Paid);
    let late = billed.report(&second, "txn-3", PaymentResult::Success).await;
    assert!(late.refund_due);
    assert_eq!((billed.total(Account::Platform).await, billed.total(Account::Suspense).await), (221, 221));
    let [refund] = billed.rows().await.refunds.try_into().unwrap();
    assert_eq!((refund.cause, refund.payment), (RefundCause::LatePayment, second.id));
    assert_eq!(refund.reason, "the invoice is paid");
    billed.report_refund(&refund, RefundResult::Success).await;
    assert_eq!(billed.status().await, InvoiceStatus::Paid, "only the late money was returned");
    assert_eq!((billed.total(Account::Platform).await, billed.total(Account::Suspense).await), (221, 0));
    assert_eq!(billed.findings().await, []);
}

#[tokio::test(start_paused = true)]
async fn failed_refund_leaves_the_invoice_paid_and_is_sent_again_or_settled_by_hand() {
    let billed = Billed::new().await;
    billed.paid().await;
    let operations = &billed.process.app.operations;
    let refund = billed.refund().await.unwrap();
    let failed = billed.report_refund(&refund, RefundResult::Failed).await;
    assert_eq!((failed.status, billed.status().await), (RefundStatus::Failed, InvoiceStatus::Paid));
    let [event] = billed.payloads("REFUND_FAILED").await.try_into().unwrap();
    assert_eq!(event["invoiceId"], billed.invoice.get());
    let foreign = operations.retry_refund(&operator(1, &[Role::Operator]), refund.id, reason()).await;
    assert!(matches!(foreign, Err(UseCaseError::NotFound { what: "refund" })), "{foreign:?}");
    let retried = operations.retry_refund(&owner(), refund.id, reason()).await.unwrap();
    assert_eq!((retried.status, retried.attempt), (RefundStatus::Processing, 2));
    let settled = operations.settle_refund_by_hand(&owner(), refund.id, reason()).await.unwrap();
    assert_eq!((settled.status, billed.status().await), (RefundStatus::Success, InvoiceStatus::Refunded));
    assert_eq!((billed.total(Account::Platform).await, billed.total(Account::Gateway).await), (0, 0));
    assert_eq!(billed.findings().await, []);
}

#[tokio::test(start_paused = true)]
async fn refund_that_failed_after_success_can_be_requested_again() {
    let billed = Billed::new().await;
    billed.paid().await;
    let refund = billed.refund().await.unwrap();
    billed.report_refund(&refund, RefundResult::Success).await;
    billed.report_refund(&refund, RefundResult::Failed).await;
    assert_eq!(billed.status().await, InvoiceStatus::Refunded, "a refunded invoice is never paid again");
    assert_eq!(billed.total(Account::Suspense).await, 221);
    let second = billed.refund().await.unwrap();
    assert_ne!(second.id, refund.id);
    billed.report_refund(&second, RefundResult::Success).await;
    assert_eq!((billed.total(Account::Suspense).await, billed.total(Account::Gateway).await), (0, 0));
    assert_eq!(billed.findings().await, []);
}

#[tokio::test(start_paused = true)]
async fn invoice_without_fees_is_paid_and_refunded_without_the_gateway() {
    let billed = Billed::over(10).await;
    assert_eq!(billed.invoice().await.total, Money::ZERO);
    assert_eq!(billed.start().await.status, PaymentStatus::Success);
    assert_eq!(billed.status().await, InvoiceStatus::Paid);
    assert_eq!(billed.refund().await.unwrap().status, RefundStatus::Success);
    assert_eq!(billed.status().await, InvoiceStatus::Refunded);
    assert_eq!(billed.findings().await, []);
}

/// Two processes, whose commits fail in every way, start the payment and the refund.
#[tokio::test(start_paused = true)]
async fn payment_and_refund_start_once_with_concurrent_processes_and_failing_commits() {
    let faults = [CommitFault::ReplyLost, CommitFault::Lost, CommitFault::None, CommitFault::Transient];
    for turn in 0..16 {
        let billed = Billed::new().await;
        let other = billed.world.process();
        for (number, process) in [&billed.process, &other].into_iter().enumerate() {
            let start = turn + number;
            process.faults.next_commits((0..12).map(|it| faults[(start + it * (1 + turn / 4)) % 4]));
        }
        let pay = async |process: &Process| loop {
            match process.app.payments.pay_invoice(&owner(), billed.payment(None)).await {
                Ok(payment) => break payment,
                Err(UseCaseError::Store(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        let (first, second) = tokio::join!(pay(&billed.process), pay(&other));
        assert_eq!(first, second);
        assert_eq!(billed.rows().await.payments, std::slice::from_ref(&first));
        while billed.status().await == InvoiceStatus::Pending {
            let command = report(&first, PaymentResult::Success);
            drop(other.app.payments.settle(&gateway(), command).await);
        }
        let refund = async |process: &Process| loop {
            let command = RefundInvoice { invoice: billed.invoice, reason: reason() };
            match process.app.payments.refund_invoice(&platform(), command).await {
                Ok(refund) => break refund,
                Err(UseCaseError::Store(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        let (first, second) = tokio::join!(refund(&billed.process), refund(&other));
        assert_eq!(first, second);
        assert_eq!(billed.rows().await.refunds, [first]);
        assert_eq!(billed.total(Account::Platform).await, 221);
    }
}

#[tokio::test(start_paused = true)]
async fn reconciliation_compares_an_invoice_with_its_payments_and_the_ledger() {
    let billed = Billed::new().await;
    let payment = billed.paid().await;
    let capture = Capture {
        tenant: tenant(OWNER),
        of: billed.invoice.into(),
        payment: payment.id,
        number: 2,
        transaction_id: "unbooked".into(),
        amount: money(5),
        refund_due: true,
        in_suspense: true,
        create_time: payment.update_time,
    };
    let paid = billed.invoice().await;
    let refunded = Invoice { status: InvoiceStatus::Refunded, version: paid.version + 1, ..paid };
    let mut unit = billed.process.app.tx.store().begin().await.unwrap();
    unit.insert_capture(&capture).await.unwrap();
    assert_eq!(unit.advance_invoice(&refunded).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
    let id = billed.invoice;
    let not_booked = format!("payment:{}:capture:2", payment.id);
    let mut found = billed.findings().await;
    found.sort_by_key(|(kind, ..)| kind.as_str());
    let expected = [
        (
            FindingKind::InvoiceDiffers,
            Some(format!("invoice:{id}")),
            format!("invoice {id} is refunded, but a payment has paid it, and no refund of it has succeeded"),
        ),
        (
            FindingKind::NotBooked,
            Some(not_booked.clone()),
            format!("the money of invoice {id} was moved, but {not_booked} is not in the ledger"),
        ),
    ];
    assert_eq!(found, expected);
}

#[tokio::test(start_paused = true)]
async fn missing_events_of_an_invoice_are_found_and_appended_once() {
    let billed = Billed::new().await;
    billed.paid().await;
    let refund = billed.refund().await.unwrap();
    billed.report_refund(&refund, RefundResult::Success).await;
    assert_eq!(billed.findings().await, []);
    let types = ["INVOICE_GENERATED", "PAYMENT_SUCCEEDED", "REFUND_SUCCEEDED"];
    let events = async || {
        let mut rows = billed.world.rows().await;
        rows.retain(|row| types.contains(&row.event_type.as_str()));
        rows.sort_by(|left, right| left.event_type.cmp(&right.event_type));
        rows
    };
    let committed = events().await;
    let ids: Vec<&str> = committed.iter().map(|row| row.event_id.as_str()).collect();
    billed.world.mark_sent_without_message(&ids).await;
    for row in &committed {
        assert!(billed.world.store.delete_sent_event(&row.event_id));
    }
    let mut found = billed.findings().await;
    found.sort_by(|(_, _, left), (_, _, right)| left.cmp(right));
    let key = format!("invoice:{}", billed.invoice);
    let expected = types.map(|event_type| {
        let row = committed.iter().find(|row| row.event_type == event_type).unwrap();
        let (kind, id, version) = (&row.aggregate.kind, &row.aggregate.id, row.aggregate_seq);
        let what = format!("{kind} {id} has version {version}, but its event {event_type} is missing");
        (FindingKind::MissingEvent, Some(key.clone()), what)
    });
    assert_eq!(found, expected);
    assert_eq!(billed.findings().await, []);
    let content = |row: &OutboxRow| {
        (row.aggregate.clone(), row.aggregate_seq, row.payload.clone(), row.metadata.trace_id.clone())
    };
    let appended: Vec<_> = events().await.iter().map(content).collect();
    assert_eq!(appended, committed.iter().map(content).collect::<Vec<_>>());
    let filter = FindingFilter { tenant: Some(tenant(OWNER)), state: None };
    let recorded = billed.world.view().await.findings_page(filter, None, 9).await.unwrap();
    let of_invoice = recorded.iter().filter(|it| it.effect.row_id == Some(billed.invoice.get()));
    let states: Vec<_> = of_invoice.map(|it| (it.effect.kind, it.effect.state)).collect();
    assert_eq!(states, [(FindingKind::MissingEvent, FindingState::Repaired); 3]);
}

#[tokio::test(start_paused = true)]
async fn timeline_of_an_invoice_shows_payment_report_ledger_and_refund() {
    let billed = Billed::new().await;
    billed.paid().await;
    let refund = billed.refund().await.unwrap();
    billed.report_refund(&refund, RefundResult::Success).await;
    let operations = &billed.process.app.operations;
    let timeline = operations.invoice_timeline(&owner(), billed.invoice).await.unwrap();
    assert_eq!(timeline.invoice, billed.invoice);
    let mut shown: Vec<_> = timeline.items.iter().map(|item| item.what.clone()).collect();
    shown.sort();
    let expected = [
        "INVOICE_GENERATED committed to the outbox",
        "PAYMENT_SUCCEEDED committed to the outbox",
        "REFUND_SUCCEEDED committed to the outbox",
        "cash: capture of 2.21",
        "cash: payout of 2.21",
        "payment of 2.21 CNY started",
        "payment of 2.21 CNY succeeded",
        "refund of 2.21 CNY requested",
        "refund of 2.21 CNY succeeded",
        "report 1 of the gateway: payment SUCCESS; invoice_paid",
        "report 2 of the gateway: refund SUCCESS of attempt 1; refunded",
    ];
    assert_eq!(shown, expected);
    let keys: Vec<_> = timeline.items.iter().filter_map(|item| item.idempotency_key.clone()).collect();
    assert!(keys.contains(&format!("invoice:{}:capture", billed.invoice)), "{keys:?}");
    for foreign in [operator(1, &[Role::Operator]), operator(OWNER, &[Role::User])] {
        let refused = operations.invoice_timeline(&foreign, billed.invoice).await;
        assert!(refused.is_err(), "{refused:?}");
    }
}
