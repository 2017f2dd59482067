//! Rules for invoices and the completed orders that they cover.

use chrono::TimeDelta;
use handover_contract::concurrency::{one_succeeded, race};
use handover_contract::samples::{later, start, tenant};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::{MAX_ID, TenantId};
use marketplace::ports::{InvoiceFilter, InvoicePayments};
use marketplace_domain::{
    BilledOrder, BillingPeriod, Capture, FeeRate, GatewayReport, Invoice, InvoiceLine, InvoiceStatus, Money,
    Order, OrderStatus, PayableId, Payment, PaymentStatus, Refund,
};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{
    capture, gateway_report, invoice, invoice_id, invoice_line, money, order, order_id, order_moved_to,
    payment, payment_id, period, refund, settled,
};

async fn add(rig: &dyn MarketRig, invoices: &[Invoice]) {
    in_unit!(rig, |unit| {
        for invoice in invoices {
            unit.insert_invoice(invoice).await.expect("cannot insert an invoice");
        }
    });
}

async fn add_lines(rig: &dyn MarketRig, lines: &[InvoiceLine]) {
    in_unit!(rig, |unit| unit.insert_invoice_lines(lines).await.expect("cannot insert lines"));
}

async fn stored(rig: &dyn MarketRig, id: i64) -> Option<Invoice> {
    view(rig).await.invoice_by_id(invoice_id(id)).await.expect("cannot read an invoice")
}

/// An invoice is read as it was written, in every status and with and without optional values.
pub async fn invoice_is_read_as_written(rig: &dyn MarketRig) {
    let mut written: Vec<Invoice> = InvoiceStatus::ALL
        .iter()
        .map(|status| Invoice { status: *status, ..invoice(1, "2026-02") })
        .collect();
    written.push(Invoice { pay_time: Some(later(9) + TimeDelta::microseconds(1)), ..invoice(1, "2026-02") });
    written.push(Invoice {
        fee_rate: FeeRate::try_from(10_000).expect("a rate"),
        orders: u32::MAX,
        total: money(MAX_ID),
        trace: None,
        version: 7,
        update_time: later(99),
        ..invoice(1, "2026-02")
    });
    written.push(Invoice {
        fee_rate: FeeRate::try_from(0).expect("a rate"),
        total: Money::ZERO,
        ..invoice(1, "2026-02")
    });
    for (n, mut invoice) in (1..).zip(written) {
        invoice.id = invoice_id(n);
        invoice.tenant = tenant(n);
        add(rig, std::slice::from_ref(&invoice)).await;
        assert_eq!(stored(rig, n).await, Some(invoice));
    }
    for (id, month) in [(MAX_ID, "1970-01"), (MAX_ID - 1, "9998-12")] {
        add(rig, &[invoice(id, month)]).await;
        assert_eq!(stored(rig, id).await, Some(invoice(id, month)));
    }
    assert_eq!(stored(rig, 999).await, None);
}

pub async fn duplicate_invoice_id_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[invoice(1, "2026-02")]).await;
    is_conflict(begin(rig).await.insert_invoice(&invoice(1, "2026-03")).await);
    assert_eq!(stored(rig, 1).await, Some(invoice(1, "2026-02")));
}

/// A tenant has one invoice for a period; other tenants and periods have theirs.
pub async fn second_invoice_of_period_is_conflict(rig: &dyn MarketRig) {
    let foreign = Invoice { tenant: tenant(2), ..invoice(2, "2026-02") };
    let all = [invoice(1, "2026-02"), foreign, invoice(3, "2026-03")];
    add(rig, &all).await;
    for invoice in &all {
        let second = Invoice { id: invoice_id(9), status: InvoiceStatus::Refunded, ..invoice.clone() };
        is_conflict(begin(rig).await.insert_invoice(&second).await);
        let found = view(rig).await.invoice_of_period(invoice.tenant, invoice.period).await;
        assert_eq!(found.expect("cannot read an invoice").as_ref(), Some(invoice));
    }
    let none = view(rig).await.invoice_of_period(tenant(2), period("2026-03")).await;
    assert_eq!(none.expect("cannot read an invoice"), None);
}

pub async fn concurrent_invoices_of_period_succeed_exactly_once(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move { unit.insert_invoice(&invoice(n as i64 + 1, "2026-02")).await })
    })
    .await;
    let winner = one_succeeded(outcomes);
    let found = view(rig).await.invoice_of_period(TenantId::DEFAULT, period("2026-02")).await;
    assert_eq!(found.expect("cannot read an invoice").map(|it| it.id), Some(invoice_id(winner as i64 + 1)));
}

/// A page contains matching invoices with ids below the given id, greatest id first.
pub async fn invoice_pages_filter_by_tenant_and_status(rig: &dyn MarketRig) {
    use InvoiceStatus::{Paid, Pending, Refunded};
    let of = |id: i64, owner: i64, status| Invoice {
        tenant: tenant(owner),
        status,
        ..invoice(id, &format!("2026-{id:02}"))
    };
    let all = [of(4, 1, Paid), of(1, 1, Pending), of(5, 2, Pending), of(3, 1, Pending), of(2, 2, Refunded)];
    add(rig, &all).await;
    let cases: [(Option<i64>, Option<InvoiceStatus>, &[i64]); 6] = [
        (None, None, &[5, 4, 3, 2, 1]),
        (None, Some(Pending), &[5, 3, 1]),
        (Some(1), None, &[4, 3, 1]),
        (Some(1), Some(Pending), &[3, 1]),
        (Some(2), Some(Refunded), &[2]),
        (Some(3), None, &[]),
    ];
    for (owner, status, expected) in cases {
        let filter = InvoiceFilter { tenant: owner.map(tenant), status };
        let page = async |before: Option<i64>, limit| {
            let page = view(rig).await.invoices_page(filter, before.map(invoice_id), limit).await;
            page.expect("cannot read a page").iter().map(|it| it.id.get()).collect::<Vec<_>>()
        };
        assert_eq!(page(None, 9).await, expected, "{filter:?}");
        assert_eq!(page(None, 2).await, expected[..expected.len().min(2)], "{filter:?}");
        let older: Vec<i64> = expected.iter().copied().filter(|id| *id < 3).collect();
        assert_eq!(page(Some(3), 9).await, older, "{filter:?}");
    }
}

/// Many lines are written at once, and a page contains the lines of one invoice with order ids above the given id.
pub async fn invoice_lines_are_paged_by_order(rig: &dyn MarketRig) {
    let mut lines: Vec<InvoiceLine> = (1..=300).rev().map(|order| invoice_line(7, order)).collect();
    let foreign = InvoiceLine { tenant: tenant(2), fee: Money::ZERO, ..invoice_line(8, 150_000) };
    lines.push(foreign);
    lines.push(InvoiceLine { order_total: money(MAX_ID), fee: money(MAX_ID), ..invoice_line(7, MAX_ID) });
    add_lines(rig, &lines).await;
    lines.retain(|line| line.invoice == invoice_id(7));
    lines.sort_by_key(|line| line.order);
    let mut seen: Vec<InvoiceLine> = Vec::new();
    loop {
        let after = seen.last().map(|line| line.order);
        let page = view(rig).await.invoice_lines(invoice_id(7), after, 100).await.expect("cannot read lines");
        assert!(page.len() <= 100);
        if page.is_empty() {
            break;
        }
        seen.extend(page);
        assert!(seen.len() <= lines.len(), "a page repeats lines");
    }
    assert_eq!(seen, lines);
    let other = view(rig).await.invoice_lines(invoice_id(8), None, 100).await.expect("cannot read lines");
    assert_eq!(other, [foreign]);
    assert_eq!(view(rig).await.invoice_lines(invoice_id(9), None, 100).await.expect("no lines"), []);
}

/// An order has one line, whatever the invoice and the tenant; no line of a failed insert is stored.
pub async fn second_invoice_line_of_order_is_conflict(rig: &dyn MarketRig) {
    add_lines(rig, &[invoice_line(1, 1)]).await;
    for (invoice, owner) in [(1, 1), (2, 1), (2, 2)] {
        let again = InvoiceLine { tenant: tenant(owner), ..invoice_line(invoice, 1) };
        is_conflict(begin(rig).await.insert_invoice_lines(&[invoice_line(invoice, 2), again]).await);
    }
    let lines = view(rig).await.invoice_lines(invoice_id(1), None, 9).await.expect("cannot read lines");
    assert_eq!(lines, [invoice_line(1, 1)]);
    assert_eq!(view(rig).await.invoice_lines(invoice_id(2), None, 9).await.expect("no lines"), []);
}

/// Tenants with orders are found one after another, smallest first, whatever the status of their orders.
pub async fn tenants_with_orders_are_found_in_sequence(rig: &dyn MarketRig) {
    assert_eq!(view(rig).await.tenant_with_orders(None).await.expect("cannot read a tenant"), None);
    in_unit!(rig, |unit| {
        for (id, owner) in [(1, 7), (2, 3), (3, 7), (4, MAX_ID)] {
            unit.insert_order(&Order { tenant: tenant(owner), ..order(id) }).await.expect("cannot insert");
        }
    });
    let mut seen = Vec::new();
    let mut view = view(rig).await;
    while let Some(next) = view.tenant_with_orders(seen.last().copied()).await.expect("cannot read a tenant")
    {
        seen.push(next);
        assert!(seen.len() <= 3, "{seen:?}");
    }
    assert_eq!(seen, [3, 7, MAX_ID].map(tenant));
}

/// Completed orders of a tenant are found by the time of their completion, from `since` (inclusive) to `until` (exclusive),
/// and a page starts after the last order of the previous page.
pub async fn completed_orders_are_paged_by_time_and_id(rig: &dyn MarketRig) {
    let completed = |id: i64, seconds: i64| {
        let completed = order_moved_to(&order(id), OrderStatus::Completed, later(seconds));
        Order { total: money(id * 100), update_time: later(90), ..completed }
    };
    let foreign = Order { tenant: tenant(2), ..completed(8, 2) };
    let all = [completed(9, 1), completed(4, 2), completed(5, 2), completed(10, 2), completed(1, 3)];
    in_unit!(rig, |unit| {
        for order in all.iter().rev().chain([&foreign, &completed(2, 0), &completed(3, 4), &order(6)]) {
            unit.insert_order(order).await.expect("cannot insert an order");
        }
    });
    let billed = |order: &Order| BilledOrder {
        order: order.id,
        total: order.total,
        complete_time: order.complete_time.expect("a completed order"),
    };
    let expected: Vec<BilledOrder> = all.iter().map(billed).collect();
    for limit in 1..=3 {
        let mut seen: Vec<BilledOrder> = Vec::new();
        loop {
            let after = seen.last().map(|billed| (billed.complete_time, billed.order));
            let mut view = view(rig).await;
            let page =
                view.completed_orders(tenant(1), later(1), later(4), after, limit).await.expect("a page");
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit as usize);
            seen.extend(page);
            assert!(seen.len() <= expected.len(), "a page repeats orders");
        }
        assert_eq!(seen, expected, "orders in pages of {limit}");
    }
    let mut view = view(rig).await;
    let mut found = async |owner, since, until, after| {
        view.completed_orders(tenant(owner), since, until, after, 9).await.expect("a page")
    };
    assert_eq!(found(2, start(), later(9), None).await, [billed(&foreign)]);
    assert_eq!(found(3, start(), later(9), None).await, []);
    assert_eq!(found(1, later(2), later(2), None).await, []);
    assert_eq!(found(1, later(2), later(3), Some((later(-9), order_id(99)))).await, expected[1..4]);
    assert_eq!(found(1, later(1), later(4), Some((later(2), order_id(6)))).await, expected[3..]);
}

/// An order is found as completed as soon as, and only if, it was completed.
pub async fn order_is_found_as_completed_when_it_was_completed(rig: &dyn MarketRig) {
    let shipped = order_moved_to(&order(1), OrderStatus::Shipped, later(2));
    let completed = order_moved_to(&shipped, OrderStatus::Completed, later(3));
    let is_found = async || {
        let page = view(rig).await.completed_orders(tenant(1), start(), later(9), None, 9).await;
        !page.expect("a page").is_empty()
    };
    in_unit!(rig, |unit| unit.insert_order(&order(1)).await.expect("cannot insert an order"));
    assert!(!is_found().await);
    in_unit!(rig, |unit| changes_one(unit.advance_order(&shipped).await));
    assert!(!is_found().await);
    in_unit!(rig, |unit| {
        changes_one(unit.advance_order(&completed).await);
        let own = unit.completed_orders(tenant(1), start(), later(9), None, 9).await.expect("a page");
        assert_eq!(own.len(), 1, "a unit of work reads its own orders");
    });
    assert!(is_found().await);
}

/// The first period is not after the current month.
#[expect(clippy::disallowed_methods, reason = "databases take the time of a migration from their own clock")]
pub async fn first_invoice_period_is_a_past_or_current_month(rig: &dyn MarketRig) {
    let first = view(rig).await.first_invoice_period().await.expect("cannot read the first period");
    let latest = BillingPeriod::containing(std::time::SystemTime::now().into()).expect("a month");
    assert!(first <= latest, "{first}");
}

/// An invoice changes only from the previous version, and only in its tenant. Period, fee and total never change.
pub async fn invoice_advances_only_from_previous_version(rig: &dyn MarketRig) {
    let before = invoice(1, "2026-02");
    add(rig, std::slice::from_ref(&before)).await;
    let paid = Invoice {
        status: InvoiceStatus::Paid,
        pay_time: Some(later(20)),
        version: 2,
        update_time: later(21),
        ..before.clone()
    };
    in_unit!(rig, |unit| {
        changes_none(unit.advance_invoice(&Invoice { version: 1, ..paid.clone() }).await);
        changes_none(unit.advance_invoice(&Invoice { version: 3, ..paid.clone() }).await);
        changes_none(unit.advance_invoice(&Invoice { tenant: tenant(2), ..paid.clone() }).await);
        changes_none(unit.advance_invoice(&Invoice { id: invoice_id(2), ..paid.clone() }).await);
    });
    assert_eq!(stored(rig, 1).await, Some(before));
    let other_values = Invoice { period: period("2025-01"), orders: 9, total: money(1), ..paid.clone() };
    in_unit!(rig, |unit| changes_one(unit.advance_invoice(&other_values).await));
    assert_eq!(stored(rig, 1).await, Some(paid.clone()));
    in_unit!(rig, |unit| changes_none(unit.advance_invoice(&paid).await));
}

pub async fn concurrent_changes_of_invoice_succeed_exactly_once(rig: &dyn MarketRig) {
    add(rig, &[invoice(1, "2026-02")]).await;
    let outcomes = race(&rig.market(), |unit, n| {
        let n = i64::try_from(n).expect("few units of work");
        let paid = Invoice {
            status: InvoiceStatus::Paid,
            pay_time: Some(later(n)),
            version: 2,
            ..invoice(1, "2026-02")
        };
        Box::pin(async move { unit.advance_invoice(&paid).await?.or_conflict("invoice") })
    })
    .await;
    let winner = i64::try_from(one_succeeded(outcomes)).expect("few units of work");
    assert_eq!(stored(rig, 1).await.and_then(|it| it.pay_time), Some(later(winner)));
}

/// Every payment, capture, refund and report of an invoice is found, sorted, without those of other invoices and tenants and
/// of the order with the same id. Another invoice has none.
pub async fn payments_of_invoice_are_complete_and_sorted(rig: &dyn MarketRig) {
    let of: PayableId = invoice_id(7).into();
    let payment_of =
        |id: i64, of| Payment { of, ..settled(&payment(id, 7), PaymentStatus::Success, &format!("of-{id}")) };
    let capture_of = |id: i64, number, of| Capture { of, payment: payment_id(id), ..capture(id, number) };
    let refund_of =
        |id: i64, number, of| Refund { of, payment: payment_id(2), capture: number, ..refund(id, 2) };
    let report_of = |key: &str, of| GatewayReport { of: Some(of), ..gateway_report(key, 7) };
    let expected = InvoicePayments {
        payments: vec![payment_of(2, of), payment_of(9, of)],
        captures: vec![capture_of(2, 1, of), capture_of(2, 2, of), capture_of(9, 1, of)],
        refunds: vec![refund_of(3, 2, of), refund_of(8, 1, of)],
        reports: Vec::new(),
    };
    let reports = [report_of("a", of), report_of("b", of)];
    in_unit!(rig, |unit| {
        for payment in expected.payments.iter().rev() {
            unit.insert_payment(payment).await.unwrap();
        }
        for capture in expected.captures.iter().rev() {
            unit.insert_capture(capture).await.unwrap();
        }
        for refund in expected.refunds.iter().rev() {
            unit.insert_refund(refund).await.unwrap();
        }
        for report in &reports {
            unit.insert_gateway_report(report).await.unwrap();
        }
        for (id, other) in [(21, order_id(7).into()), (22, invoice_id(8).into())] {
            unit.insert_payment(&payment_of(id, other)).await.unwrap();
            unit.insert_capture(&capture_of(id, 1, other)).await.unwrap();
            unit.insert_refund(&Refund { payment: payment_id(id), ..refund_of(id, 1, other) }).await.unwrap();
            unit.insert_gateway_report(&report_of(&id.to_string(), other)).await.unwrap();
        }
        let foreign = Payment { tenant: tenant(2), ..payment_of(23, of) };
        unit.insert_payment(&foreign).await.unwrap();
    });
    let mut view = view(rig).await;
    let mut found = async |owner: i64, id: i64| {
        view.payments_of_invoice(tenant(owner), invoice_id(id)).await.expect("cannot read payments")
    };
    let mut all = found(1, 7).await;
    let found_reports: Vec<GatewayReport> = all.reports.drain(..).map(|report| report.effect).collect();
    assert_eq!(found_reports, reports);
    assert_eq!(all, expected);
    let foreign = found(2, 7).await;
    assert_eq!(foreign.payments.iter().map(|it| it.id).collect::<Vec<_>>(), [payment_id(23)]);
    assert!(foreign.captures.is_empty() && foreign.refunds.is_empty() && foreign.reports.is_empty());
    assert_eq!(found(1, 9).await, InvoicePayments::default());
}

/// An invoice has at most one payment in `PROCESSING`, also if an order has the same id.
pub async fn second_processing_payment_of_invoice_is_conflict(rig: &dyn MarketRig) {
    let of_invoice = |id: i64, of: i64| Payment { of: invoice_id(of).into(), ..payment(id, of) };
    in_unit!(rig, |unit| {
        for payment in [payment(1, 7), of_invoice(2, 7), of_invoice(3, 8)] {
            unit.insert_payment(&payment).await.expect("cannot insert a payment");
        }
    });
    is_conflict(begin(rig).await.insert_payment(&of_invoice(4, 7)).await);
    let failed = settled(&of_invoice(2, 7), PaymentStatus::Failed, "t-2");
    in_unit!(rig, |unit| {
        changes_one(unit.advance_payment(&failed).await);
        unit.insert_payment(&of_invoice(4, 7)).await.expect("the first payment has failed");
    });
    let found = view(rig).await.payments_of_invoice(tenant(1), invoice_id(7)).await.expect("payments");
    assert_eq!(found.payments, [failed, of_invoice(4, 7)]);
}
