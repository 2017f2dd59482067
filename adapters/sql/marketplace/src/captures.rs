//! Captures of payments, for the repository of payments.

use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use crate::{AmountFields, payable};
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Table, Value, table, values};
use marketplace_domain::{Capture, InvoiceId, OrderId};

table! {
    pub(crate) CaptureTable("payment_captures" by "payment_id"),
    read row as Capture, write capture as &'a Capture;
    insert {
        tenant: id("tenant_id" = capture.tenant.get()),
        of: (payable(&row))(
            "order_id" = capture.of.order().map(OrderId::get),
            "invoice_id" = capture.of.invoice().map(InvoiceId::get)
        ),
        payment: id("payment_id" = capture.payment.get()),
        number: count("capture_no" = capture.number),
        transaction_id: string("transaction_id" = &capture.transaction_id),
        amount: money("amount_minor" = capture.amount.minor()),
        refund_due: flag("refund_due" = capture.refund_due),
        in_suspense: flag("in_suspense" = capture.in_suspense),
        create_time: time("create_time" = capture.create_time),
    }
}

const COLUMNS: &str = CaptureTable::COLUMNS;

/// The queries for all captures of an order or invoice.
pub(crate) const OF_ORDERS: OfOrders<'_> =
    OfOrders { table: "payment_captures", columns: COLUMNS, sequence: "payment_id, capture_no" };

/// The query for the capture by a transaction of the gateway.
pub(crate) fn by_transaction(transaction_id: &str) -> (String, Vec<Value>) {
    (format!("SELECT {COLUMNS} FROM payment_captures WHERE transaction_id = ?"), values![transaction_id])
}

pub(crate) async fn update(session: &mut MarketSession, capture: &Capture) -> Result<Changed, StoreError> {
    let sql =
        "UPDATE payment_captures SET refund_due = ?, in_suspense = ? WHERE payment_id = ? AND capture_no = ?";
    let values = values![capture.refund_due, capture.in_suspense, capture.payment.get(), capture.number];
    Ok(Changed::of(session.execute(sql, values).await?))
}
