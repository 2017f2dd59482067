//! The end check: what was acknowledged is there, every event took effect exactly once and in order.

use handover_tests::books::Books;
use sqlx::Row;

use crate::ledger::{Ledger, Step};

/// Everything that must hold at the end.
pub(crate) async fn balance(books: &Books, ledger: &Ledger) {
    let broken = books.broken().await;
    assert!(broken.is_empty(), "{broken:#?}");
    for product in ledger.products() {
        let found = books.number(&format!("SELECT count(*) FROM products WHERE id = {product}")).await;
        assert_eq!(found, 1, "product {product} was acknowledged and is gone");
    }
    for (order, step) in ledger.orders() {
        kept(books, order, step).await;
    }
}

/// Holds an order to the last step that was acknowledged.
async fn kept(books: &Books, order: i64, step: Step) {
    let row = sqlx::query(
        "SELECT status, (SELECT max(refund_due) FROM payments p WHERE p.order_id = o.id AND p.status = 'SUCCESS')
         FROM orders o WHERE id = ?",
    )
    .bind(order)
    .fetch_optional(books.pool())
    .await
    .unwrap()
    .unwrap_or_else(|| panic!("order {order} was acknowledged ({step:?}) and is gone"));
    let (status, refund_due): (String, Option<i64>) = (row.get(0), row.get(1));
    let kept = match step {
        Step::Placed => status != "pending",
        // Too late is recorded too: the order is closed and the money is owed back.
        Step::PaymentReported => match status.as_str() {
            "cancelled" => refund_due == Some(1),
            other => ["paid", "shipped", "completed"].contains(&other) && refund_due == Some(0),
        },
        Step::Shipped => ["shipped", "completed"].contains(&status.as_str()),
        Step::Completed => status == "completed",
        Step::Cancelled => status == "cancelled",
    };
    assert!(kept, "order {order} was acknowledged as {step:?} and is {status} (refund due: {refund_due:?})");
}
