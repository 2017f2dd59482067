//! Invoices of tenants.

use handover_events::TenantId;
use handover_http::views;
use handover_http::views::{Listed, Time};
use marketplace::use_cases::InvoiceDetails;
use marketplace_domain::{
    BillingPeriod, Currency, Invoice, InvoiceId, InvoiceLine, InvoiceStatus, Money, OrderId,
};

use super::{PaymentDetailsView, RefundDetailsView};
use crate::openapi::kinds;

views! {
    /// The invoice of a tenant for a month: a fee for each order that was completed in the month.
    pub InvoiceView as Invoice {
        invoice_id: InvoiceId,
        tenant_id: TenantId,
        period: BillingPeriod,
        /// Share of an order's total that is the fee, in basis points: 250 are 2.5 %.
        fee_bps: u16 = kinds::BasisPoints,
        /// Number of orders, each of which has a line.
        orders: u32,
        /// Sum of the fees.
        total: Money,
        currency: Currency,
        status: InvoiceStatus,
        /// Trace id of the request or job that generated the invoice.
        trace_id: Option<String>,
        create_time: Time,
        pay_time: Option<Time>,
        update_time: Time,
    }

    /// An invoice with its payments and refunds, and a page of its lines.
    pub InvoiceDetailsView as InvoiceDetails {
        invoice: InvoiceView,
        payments: Vec<PaymentDetailsView>,
        refunds: Vec<RefundDetailsView>,
        lines: Vec<InvoiceLineView>,
        /// Cursor of the next page of lines; null on the last page.
        next_cursor: Option<String>,
    }

    InvoiceLineView as InvoiceLine {
        order_id: OrderId,
        /// Total of the order.
        total_amount: Money,
        /// Fee, rounded half up to the cent.
        fee: Money,
        complete_time: Time,
    }
}

impl Listed for InvoiceView {
    const COLUMNS: &'static [&'static str] = &[
        "invoiceId",
        "tenantId",
        "period",
        "status",
        "orders",
        "total",
        "currency",
        "createTime",
        "payTime",
    ];
}

impl From<Invoice> for InvoiceView {
    fn from(invoice: Invoice) -> InvoiceView {
        InvoiceView {
            invoice_id: invoice.id,
            tenant_id: invoice.tenant,
            period: invoice.period,
            fee_bps: invoice.fee_rate.basis_points(),
            orders: invoice.orders,
            total: invoice.total,
            currency: invoice.currency,
            status: invoice.status,
            trace_id: invoice.trace.map(|trace| trace.trace_id),
            create_time: Time(invoice.create_time),
            pay_time: invoice.pay_time.map(Time),
            update_time: Time(invoice.update_time),
        }
    }
}

impl From<InvoiceLine> for InvoiceLineView {
    fn from(line: InvoiceLine) -> InvoiceLineView {
        InvoiceLineView {
            order_id: line.order,
            total_amount: line.order_total,
            fee: line.fee,
            complete_time: Time(line.complete_time),
        }
    }
}

impl From<InvoiceDetails> for InvoiceDetailsView {
    fn from(details: InvoiceDetails) -> InvoiceDetailsView {
        let InvoiceDetails { invoice, payments, refunds, lines } = details;
        InvoiceDetailsView {
            invoice: InvoiceView::from(invoice),
            payments: payments.into_iter().map(PaymentDetailsView::from).collect(),
            refunds: refunds.into_iter().map(RefundDetailsView::from).collect(),
            lines: lines.items.into_iter().map(InvoiceLineView::from).collect(),
            next_cursor: lines.next.map(|order| order.to_string()),
        }
    }
}
