//! Invoices.

use handover_contract::samples::later;
use handover_events::TenantId;
use marketplace_domain::{BillingPeriod, Currency, FeeRate, Invoice, InvoiceId, InvoiceLine, InvoiceStatus};

use super::{money, order_id, trace};

pub fn invoice_id(number: i64) -> InvoiceId {
    number.try_into().expect("a valid id")
}

pub fn period(text: &str) -> BillingPeriod {
    text.parse().expect("a month")
}

/// A pending invoice of tenant 1 for this month: one order, 2.21.
pub fn invoice(id: i64, month: &str) -> Invoice {
    Invoice {
        id: invoice_id(id),
        tenant: TenantId::DEFAULT,
        period: period(month),
        fee_rate: FeeRate::DEFAULT,
        orders: 1,
        total: money(221),
        currency: Currency::CNY,
        status: InvoiceStatus::Pending,
        trace: Some(trace()),
        version: 1,
        create_time: later(9),
        pay_time: None,
        update_time: later(9),
    }
}

/// The line of an order of 88.50 in an invoice of tenant 1.
pub fn invoice_line(invoice: i64, order: i64) -> InvoiceLine {
    InvoiceLine {
        tenant: TenantId::DEFAULT,
        invoice: invoice_id(invoice),
        order: order_id(order),
        order_total: money(8_850),
        fee: money(221),
        complete_time: later(5),
    }
}
