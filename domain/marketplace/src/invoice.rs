//! A tenant's monthly invoice: a fee for each order of its sellers that was completed in the month.
//!
//! **Invariant:** the total is the sum of the fees of the lines. A fee is rounded once, per order, so that the sum of the
//! lines never differs from the total.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, TimeDelta, Utc};
use serde::Serialize;

use crate::event::{
    EventBody, InvoiceGenerated, PaymentFailed, PaymentFor, PaymentSucceeded, RefundFailed, RefundSucceeded,
};
use crate::{Currency, InvoiceId, Money, OrderId};
use handover_events::{TenantId, Trace, named};

/// A calendar month in UTC, from 1970-01 to 9998-12. Formatted as `YYYY-MM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BillingPeriod {
    /// First day of the month.
    first: NaiveDate,
}

/// The text is not a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a month such as 2026-02, from 1970-01 to 9998-12")]
pub struct NotAPeriod;

impl BillingPeriod {
    /// The earliest period.
    pub const FIRST: BillingPeriod = BillingPeriod {
        first: match NaiveDate::from_ymd_opt(1970, 1, 1) {
            Some(first) => first,
            None => NaiveDate::MIN,
        },
    };
    const YEARS: std::ops::RangeInclusive<i32> = 1970..=9998;

    fn new(year: i32, month: u32) -> Result<BillingPeriod, NotAPeriod> {
        let first = NaiveDate::from_ymd_opt(year, month, 1).filter(|_| Self::YEARS.contains(&year));
        first.map(|first| BillingPeriod { first }).ok_or(NotAPeriod)
    }

    /// The month that contains this time.
    ///
    /// # Errors
    /// The year is outside the range of periods.
    pub fn containing(time: DateTime<Utc>) -> Result<BillingPeriod, NotAPeriod> {
        BillingPeriod::new(time.year(), time.month())
    }

    /// The following month; after 9998-12 the same month.
    pub fn next(self) -> BillingPeriod {
        let next = self.first_of_next_month();
        BillingPeriod::new(next.year(), next.month()).unwrap_or(self)
    }

    /// The preceding month; `None` for the earliest period.
    pub fn previous(self) -> Option<BillingPeriod> {
        let last = self.first.pred_opt()?;
        BillingPeriod::new(last.year(), last.month()).ok()
    }

    /// First day of the month.
    pub const fn first_day(self) -> NaiveDate {
        self.first
    }

    /// Last day of the month.
    pub fn last_day(self) -> NaiveDate {
        self.first_of_next_month().checked_sub_days(Days::new(1)).unwrap_or(self.first)
    }

    /// Beginning of the month (inclusive).
    pub fn start(self) -> DateTime<Utc> {
        self.first.and_time(NaiveTime::MIN).and_utc()
    }

    /// End of the month (exclusive).
    pub fn end(self) -> DateTime<Utc> {
        self.first_of_next_month().and_time(NaiveTime::MIN).and_utc()
    }

    /// The time from which the period is closed: 15 minutes after its end. A unit of work takes its time at its beginning,
    /// so that an order may be completed in the month by a commit after its end.
    pub fn closed_at(self) -> DateTime<Utc> {
        self.end() + Self::LATE_COMMITS
    }

    /// Checks that no order can be completed in this period any more.
    pub fn require_closed(self, now: DateTime<Utc>) -> Result<(), InvoiceRefusal> {
        let closed_at = self.closed_at();
        if now < closed_at {
            return Err(InvoiceRefusal::NotClosed { period: self, closed_at });
        }
        Ok(())
    }

    const LATE_COMMITS: TimeDelta = TimeDelta::minutes(15);

    fn first_of_next_month(self) -> NaiveDate {
        self.first.checked_add_months(Months::new(1)).unwrap_or(self.first)
    }
}

impl fmt::Display for BillingPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.first.year(), self.first.month())
    }
}

impl FromStr for BillingPeriod {
    type Err = NotAPeriod;

    /// Accepts exactly four digits, a hyphen and two digits.
    fn from_str(text: &str) -> Result<BillingPeriod, NotAPeriod> {
        let (year, month) = text.split_once('-').ok_or(NotAPeriod)?;
        let number = |part: &str, digits: usize| {
            let is_plain = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<i32>().ok().filter(|_| is_plain).ok_or(NotAPeriod)
        };
        BillingPeriod::new(number(year, 4)?, number(month, 2)?.unsigned_abs())
    }
}

impl Serialize for BillingPeriod {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The share of an order's total that a tenant pays as a fee, in basis points from 0 to 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeeRate(u16);

/// The number is not a share in basis points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be from 0 to 10000 basis points")]
pub struct NotAFeeRate;

impl FeeRate {
    /// Default of `invoice.fee-bps`.
    pub const DEFAULT: FeeRate = FeeRate(250);
    const WHOLE: u16 = 10_000;

    pub const fn basis_points(self) -> u16 {
        self.0
    }

    /// The fee of an order with this total, rounded half up to the cent.
    pub fn fee_of(self, total: Money) -> Money {
        let whole = i128::from(Self::WHOLE);
        let fee = (i128::from(total.minor()) * i128::from(self.0) + whole / 2) / whole;
        // At most the total, which is an amount of money.
        i64::try_from(fee).ok().and_then(|minor| Money::from_minor(minor).ok()).unwrap_or(total)
    }
}

impl TryFrom<i64> for FeeRate {
    type Error = NotAFeeRate;

    fn try_from(basis_points: i64) -> Result<FeeRate, NotAFeeRate> {
        let rate = u16::try_from(basis_points).ok().filter(|rate| *rate <= Self::WHOLE);
        rate.map(FeeRate).ok_or(NotAFeeRate)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InvoiceStatus {
    /// Generated and not paid. A failed payment leaves the invoice in this status.
    Pending,
    Paid,
    /// Paid and refunded. Terminal.
    Refunded,
}

named!(InvoiceStatus { Pending => "pending", Paid => "paid", Refunded => "refunded" });

/// A completed order that an invoice covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BilledOrder {
    pub order: OrderId,
    /// Total of the order.
    pub total: Money,
    pub complete_time: DateTime<Utc>,
}

/// The fee of one order. An order has at most one line, in one invoice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvoiceLine {
    pub tenant: TenantId,
    pub invoice: InvoiceId,
    pub order: OrderId,
    /// Total of the order, from which the fee is computed.
    pub order_total: Money,
    pub fee: Money,
    pub complete_time: DateTime<Utc>,
}

/// An invoice. A tenant has at most one for each period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoice {
    pub id: InvoiceId,
    pub tenant: TenantId,
    pub period: BillingPeriod,
    pub fee_rate: FeeRate,
    /// Number of lines.
    pub orders: u32,
    /// Sum of the fees of the lines.
    pub total: Money,
    pub currency: Currency,
    pub status: InvoiceStatus,
    /// Trace context of the request or job that generated the invoice.
    pub trace: Option<Trace>,
    /// Version of the row, incremented by each change; starts at 1.
    pub version: i64,
    pub create_time: DateTime<Utc>,
    pub pay_time: Option<DateTime<Utc>>,
    pub update_time: DateTime<Utc>,
}

/// The invoice to generate, apart from its orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewInvoice<'a> {
    /// The invoice id, generated before the transaction, so that a retry inserts the same invoice.
    pub id: InvoiceId,
    pub tenant: TenantId,
    pub period: BillingPeriod,
    pub fee_rate: FeeRate,
    pub trace: &'a Trace,
    pub now: DateTime<Utc>,
}

/// An invoice that [`Invoice::generate`] created. It is written in one unit of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedInvoice {
    pub invoice: Invoice,
    pub lines: Vec<InvoiceLine>,
    /// INVOICE_GENERATED.
    pub event: EventBody,
}

/// Reason why an invoice is not generated or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvoiceRefusal {
    /// The month has not ended, or ended so recently that orders may still be completed in it.
    #[error("the period {period} is not closed; it can be invoiced from {}", closed_at.format("%Y-%m-%dT%H:%M:%SZ"))]
    NotClosed { period: BillingPeriod, closed_at: DateTime<Utc> },
    /// No order of the tenant was completed in the month.
    #[error("no order was completed in the period {period}")]
    NoOrders { period: BillingPeriod },
    #[error("cannot {action} an invoice that is {status}")]
    WrongStatus { status: InvoiceStatus, action: &'static str },
    /// The fees exceed the largest amount of money.
    #[error("the fees of the period {period} exceed the largest amount of money")]
    TooLarge { period: BillingPeriod },
}

impl Invoice {
    /// Bills the completed orders of a period. Returns the invoice, its lines and the event.
    ///
    /// # Errors
    /// There are no orders, or the sum of the fees is not an amount of money.
    pub fn generate(new: NewInvoice<'_>, orders: &[BilledOrder]) -> Result<GeneratedInvoice, InvoiceRefusal> {
        let NewInvoice { id, tenant, period, fee_rate, trace, now } = new;
        if orders.is_empty() {
            return Err(InvoiceRefusal::NoOrders { period });
        }
        let line = |billed: &BilledOrder| InvoiceLine {
            tenant,
            invoice: id,
            order: billed.order,
            order_total: billed.total,
            fee: fee_rate.fee_of(billed.total),
            complete_time: billed.complete_time,
        };
        let lines: Vec<InvoiceLine> = orders.iter().map(line).collect();
        let total = lines.iter().try_fold(0_i64, |sum, line| sum.checked_add(line.fee.minor()));
        let total = total.and_then(|minor| Money::from_minor(minor).ok());
        let total = total.ok_or(InvoiceRefusal::TooLarge { period })?;
        let count = u32::try_from(lines.len()).map_err(|_| InvoiceRefusal::TooLarge { period })?;
        let invoice = Invoice {
            id,
            tenant,
            period,
            fee_rate,
            orders: count,
            total,
            currency: Currency::CNY,
            status: InvoiceStatus::Pending,
            trace: Some(trace.clone()),
            version: 1,
            create_time: now,
            pay_time: None,
            update_time: now,
        };
        let event = invoice.generated();
        Ok(GeneratedInvoice { invoice, lines, event })
    }

    /// INVOICE_GENERATED of this invoice.
    pub fn generated(&self) -> EventBody {
        EventBody::InvoiceGenerated(InvoiceGenerated {
            invoice: self.id,
            period_start: self.period.first_day(),
            period_end: self.period.last_day(),
            total: self.total,
            currency: self.currency,
        })
    }

    /// Whether the event is one of this invoice, its payments or its refunds.
    pub fn confirms(&self, body: &EventBody) -> bool {
        let of = match body {
            EventBody::InvoiceGenerated(_) => return *body == self.generated(),
            EventBody::PaymentSucceeded(PaymentSucceeded(settled))
            | EventBody::PaymentFailed(PaymentFailed(settled)) => &settled.of,
            EventBody::RefundSucceeded(RefundSucceeded(settled))
            | EventBody::RefundFailed(RefundFailed(settled)) => &settled.of,
            EventBody::OrderCreated(_)
            | EventBody::OrderPaid(_)
            | EventBody::OrderStatusChanged(_)
            | EventBody::OrderTimeout(_)
            | EventBody::OrderCancelled(_)
            | EventBody::OrderRefunded(_) => return false,
        };
        *of == PaymentFor::Invoice { invoice: self.id }
    }

    /// The pending invoice after a payment.
    pub(crate) fn paid(&self, now: DateTime<Utc>) -> Invoice {
        Invoice { status: InvoiceStatus::Paid, pay_time: Some(now), ..self.updated(now) }
    }

    /// The paid invoice after its refund.
    pub(crate) fn refunded(&self, now: DateTime<Utc>) -> Invoice {
        Invoice { status: InvoiceStatus::Refunded, ..self.updated(now) }
    }

    fn updated(&self, now: DateTime<Utc>) -> Invoice {
        Invoice { version: self.version + 1, update_time: now, ..self.clone() }
    }
}
