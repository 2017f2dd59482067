//! Invoices: periods, fees, and the sum of the lines.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::Trace;
use marketplace_domain::{
    BilledOrder, BillingPeriod, Currency, EventBody, FeeRate, GeneratedInvoice, Invoice, InvoiceRefusal,
    InvoiceStatus, Money, NewInvoice,
};
use proptest::prelude::*;

use crate::common::{at, id, money};

fn period(text: &str) -> BillingPeriod {
    text.parse().expect("a month")
}

fn rate(basis_points: i64) -> FeeRate {
    FeeRate::try_from(basis_points).expect("a rate")
}

fn minor(minor: i64) -> Money {
    Money::from_minor(minor).expect("an amount")
}

fn generate(
    fee_rate: FeeRate,
    totals: impl IntoIterator<Item = i64>,
) -> Result<GeneratedInvoice, InvoiceRefusal> {
    let billed = |(number, total): (i64, i64)| BilledOrder {
        order: id(900_001 + number),
        total: minor(total),
        complete_time: at("2026-02-04T11:00:00Z"),
    };
    let orders: Vec<BilledOrder> = (0..).zip(totals).map(billed).collect();
    let trace = Trace { trace_id: "trace-9".into(), traceparent: None };
    let new = NewInvoice {
        id: id(400_001),
        tenant: id(3),
        period: period("2026-02"),
        fee_rate,
        trace: &trace,
        now: at("2026-03-04T00:00:00.5Z"),
    };
    Invoice::generate(new, &orders)
}

#[test]
fn period_is_a_utc_month() {
    for (text, first, last, end) in [
        ("2026-02", "2026-02-01", "2026-02-28", "2026-03-01T00:00:00Z"),
        ("2028-02", "2028-02-01", "2028-02-29", "2028-03-01T00:00:00Z"),
        ("2026-12", "2026-12-01", "2026-12-31", "2027-01-01T00:00:00Z"),
        ("1970-01", "1970-01-01", "1970-01-31", "1970-02-01T00:00:00Z"),
        ("9998-12", "9998-12-01", "9998-12-31", "9999-01-01T00:00:00Z"),
    ] {
        let period = period(text);
        assert_eq!(period.to_string(), text);
        assert_eq!(serde_json::to_string(&period).unwrap(), format!("{text:?}"));
        assert_eq!(period.first_day().to_string(), first);
        assert_eq!(period.last_day().to_string(), last);
        assert_eq!(period.start(), at(&format!("{first}T00:00:00Z")));
        assert_eq!(period.end(), at(end));
        let last_moment = period.end() - TimeDelta::microseconds(1);
        for inside in [period.start(), last_moment] {
            assert_eq!(BillingPeriod::containing(inside), Ok(period));
        }
        assert_ne!(BillingPeriod::containing(period.end()), Ok(period));
    }
    assert_eq!(period("2027-01").previous(), Some(period("2026-12")));
    assert_eq!(BillingPeriod::FIRST.previous(), None);
    assert_eq!(BillingPeriod::FIRST, period("1970-01"));
    assert_eq!(period("2026-12").next(), period("2027-01"));
    assert_eq!(period("9998-12").next(), period("9998-12"));
    assert!(BillingPeriod::containing(DateTime::<Utc>::MAX_UTC).is_err());
}

#[test]
fn only_four_digits_hyphen_and_two_digits_are_a_period() {
    for text in [
        "",
        "2026",
        "2026-",
        "2026-2",
        "2026-00",
        "2026-13",
        "2026-002",
        "02026-02",
        "+026-02",
        "2026-+2",
        " 2026-02",
        "2026-02 ",
        "2026-02-01",
        "2026/02",
        "1969-12",
        "9999-01",
        "٢٠٢٦-٠٢",
        "-001-01",
    ] {
        assert!(text.parse::<BillingPeriod>().is_err(), "{text:?}");
    }
}

#[test]
fn period_is_closed_when_no_order_can_be_completed_in_it() {
    let february = period("2026-02");
    let closed_at = at("2026-03-01T00:15:00Z");
    assert_eq!(february.closed_at(), closed_at);
    for open in ["2026-01-31T00:00:00Z", "2026-02-28T23:59:59Z", "2026-03-01T00:14:59.999999Z"] {
        let refused = february.require_closed(at(open)).unwrap_err();
        assert_eq!(refused, InvoiceRefusal::NotClosed { period: february, closed_at }, "{open}");
        assert_eq!(
            refused.to_string(),
            "the period 2026-02 is not closed; it can be invoiced from 2026-03-01T00:15:00Z"
        );
    }
    assert_eq!(february.require_closed(closed_at), Ok(()));
}

#[test]
fn fee_is_rounded_half_up_to_the_cent() {
    for (basis_points, total, fee) in [
        (250, "88.50", "2.21"),
        (250, "0.01", "0.00"),
        (250, "0.19", "0.00"),
        (250, "0.20", "0.01"),
        (250, "0.59", "0.01"),
        (250, "0.60", "0.02"),
        (250, "9999999.99", "250000.00"),
        (5_000, "0.01", "0.01"),
        (4_999, "0.01", "0.00"),
        (0, "9999999.99", "0.00"),
        (10_000, "9999999.99", "9999999.99"),
        (1, "50.00", "0.01"),
        (1, "49.99", "0.00"),
        (10_000, "90071992547409.91", "90071992547409.91"),
    ] {
        assert_eq!(rate(basis_points).fee_of(money(total)), money(fee), "{basis_points} of {total}");
    }
    assert_eq!(FeeRate::DEFAULT, rate(250));
    for illegal in [-1, 10_001, i64::MAX] {
        assert!(FeeRate::try_from(illegal).is_err());
    }
}

#[test]
fn invoice_has_a_line_per_order_and_announces_itself() {
    let GeneratedInvoice { invoice, lines, event } = generate(FeeRate::DEFAULT, [8_850, 20, 0]).unwrap();
    let now = at("2026-03-04T00:00:00.5Z");
    assert_eq!(
        invoice,
        Invoice {
            id: id(400_001),
            tenant: id(3),
            period: period("2026-02"),
            fee_rate: FeeRate::DEFAULT,
            orders: 3,
            total: money("2.22"),
            currency: Currency::CNY,
            status: InvoiceStatus::Pending,
            trace: Some(Trace { trace_id: "trace-9".into(), traceparent: None }),
            version: 1,
            create_time: now,
            pay_time: None,
            update_time: now,
        }
    );
    let written: Vec<_> = lines.iter().map(|line| (line.order.get(), line.order_total, line.fee)).collect();
    let expected = [(900_001, "88.50", "2.21"), (900_002, "0.20", "0.01"), (900_003, "0.00", "0.00")];
    assert_eq!(written, expected.map(|(order, total, fee)| (order, money(total), money(fee))));
    assert!(lines.iter().all(|line| (line.tenant, line.invoice) == (id(3), id(400_001))));
    assert_eq!(EventBody::event_type(&event).as_str(), "INVOICE_GENERATED");
    assert_eq!(event.aggregate_id(), 400_001);
    assert_eq!(
        event.to_json(),
        concat!(
            r#"{"invoiceId":400001,"periodStart":"2026-02-01","periodEnd":"2026-02-28","total":2.22,"#,
            r#""currency":"CNY"}"#
        )
    );
}

#[test]
fn month_without_orders_has_no_invoice_and_sums_above_the_limit_are_refused() {
    let without_orders = generate(FeeRate::DEFAULT, []);
    assert_eq!(without_orders, Err(InvoiceRefusal::NoOrders { period: period("2026-02") }));
    let limit = 9_007_199_254_740_991;
    let refused = generate(rate(10_000), [limit, 1]);
    assert_eq!(refused, Err(InvoiceRefusal::TooLarge { period: period("2026-02") }));
    assert_eq!(generate(rate(10_000), [limit - 1, 1]).unwrap().invoice.total, minor(limit));
}

proptest! {
    #[test]
    fn a_fee_differs_from_the_exact_share_by_at_most_half_a_cent(
        total in 0_i64..=999_999_999, basis_points in 0_i64..=10_000,
    ) {
        let fee = rate(basis_points).fee_of(minor(total)).minor();
        // In units of 1/10,000 of a cent.
        let difference = i128::from(fee) * 10_000 - i128::from(total) * i128::from(basis_points);
        prop_assert!((-4_999..=5_000).contains(&difference), "{difference}");
    }

    #[test]
    fn fees_grow_with_the_total_and_with_the_rate(
        total in 0_i64..=999_999_998, basis_points in 0_i64..10_000,
    ) {
        let fee = rate(basis_points).fee_of(minor(total));
        prop_assert!(fee <= rate(basis_points).fee_of(minor(total + 1)));
        prop_assert!(fee <= rate(basis_points + 1).fee_of(minor(total)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// From 1 to 100,000 orders; the sizes are spread over all orders of magnitude.
    #[test]
    fn total_is_the_sum_of_the_lines_without_drift(
        size in (0_u32..=4, 1_usize..=10).prop_map(|(digits, first)| first * 10_usize.pow(digits)),
        first in 1_i64..=999_999_999, step in 1_i64..=999_999_999, basis_points in 0_i64..=10_000,
    ) {
        let total_of = |number: usize| (first + step * number as i64) % 999_999_999 + 1;
        let totals: Vec<i64> = (0..size).map(total_of).collect();
        let GeneratedInvoice { invoice, lines, .. } =
            generate(rate(basis_points), totals.iter().copied()).unwrap();
        prop_assert_eq!(lines.len(), size);
        prop_assert_eq!(invoice.orders as usize, size);
        prop_assert_eq!(invoice.total.minor(), lines.iter().map(|line| line.fee.minor()).sum::<i64>());
        for (line, total) in lines.iter().zip(&totals) {
            prop_assert_eq!(line.order_total.minor(), *total);
            prop_assert_eq!(line.fee, rate(basis_points).fee_of(minor(*total)));
        }
    }
}
