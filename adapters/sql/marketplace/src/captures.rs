//! Captures of payments, for the repository of payments.

use crate::money;
use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Row, Value, values};
use marketplace_domain::Capture;

const COLUMNS: &str = "tenant_id, order_id, payment_id, capture_no, transaction_id, amount_minor, refund_due, \
                       in_suspense, create_time";

/// The query for all captures of an order. Its parameters are the tenant and the order.
pub(crate) const OF_ORDERS: OfOrders<'_> =
    OfOrders { table: "payment_captures", columns: COLUMNS, sequence: "payment_id, capture_no" };

pub(crate) fn capture(row: &Row) -> Result<Capture, StoreError> {
    let row = row.of("payment_captures", "payment_id");
    Ok(Capture {
        tenant: row.id("tenant_id")?,
        order: row.id("order_id")?,
        payment: row.id("payment_id")?,
        number: row.count("capture_no")?,
        transaction_id: row.string("transaction_id")?,
        amount: money(&row, "amount_minor")?,
        refund_due: row.flag("refund_due")?,
        in_suspense: row.flag("in_suspense")?,
        create_time: row.time("create_time")?,
    })
}

/// The query for the capture by a transaction of the gateway.
pub(crate) fn by_transaction(transaction_id: &str) -> (String, Vec<Value>) {
    (format!("SELECT {COLUMNS} FROM payment_captures WHERE transaction_id = ?"), values![transaction_id])
}

pub(crate) async fn insert(session: &mut MarketSession, capture: &Capture) -> Result<(), StoreError> {
    let values = values![
        capture.tenant.get(),
        capture.order.get(),
        capture.payment.get(),
        capture.number,
        &capture.transaction_id,
        capture.amount.minor(),
        capture.refund_due,
        capture.in_suspense,
        capture.create_time,
    ];
    session.insert(&format!("INSERT INTO payment_captures ({COLUMNS})"), values.len(), values, "").await?;
    Ok(())
}

pub(crate) async fn update(session: &mut MarketSession, capture: &Capture) -> Result<Changed, StoreError> {
    let sql =
        "UPDATE payment_captures SET refund_due = ?, in_suspense = ? WHERE payment_id = ? AND capture_no = ?";
    let values = values![capture.refund_due, capture.in_suspense, capture.payment.get(), capture.number];
    Ok(Changed::of(session.execute(sql, values).await?))
}
