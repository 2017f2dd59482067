//! The end check: what was acknowledged is there, every event took effect exactly once and in order.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::{Ledger, Step};
use crate::books::Books;

/// Everything that must hold at the end, when all is quiet.
pub async fn balance(books: &Books, ledger: &Ledger) {
    let broken = books.broken().await;
    assert!(broken.is_empty(), "{broken:#?}");
    let products: BTreeSet<String> =
        books.rows("SELECT id FROM products").await.unwrap().into_iter().collect();
    for product in ledger.products() {
        assert!(products.contains(&product.to_string()), "product {product} was acknowledged and is gone");
    }
    let orders = Order::all(books).await;
    for (order, step) in ledger.orders() {
        let found = orders
            .get(&order)
            .unwrap_or_else(|| panic!("order {order} was acknowledged ({step:?}) and is gone"));
        assert!(found.has_kept(step), "order {order} was acknowledged as {step:?} and is {found:?}");
    }
}

/// What the database says of an order.
#[derive(Debug)]
struct Order {
    status: String,
    /// Of its successful payment, if it has one.
    refund_due: Option<String>,
}

impl Order {
    async fn all(books: &Books) -> BTreeMap<i64, Order> {
        let sql = "SELECT o.id, o.status, max(p.refund_due) FROM orders o LEFT JOIN payments p
             ON p.order_id = o.id AND p.status = 'SUCCESS' GROUP BY o.id, o.status";
        let rows = books.table(sql).await.unwrap().into_iter().map(|row| {
            let [id, status, refund_due] = <[Option<String>; 3]>::try_from(row).unwrap();
            (id.unwrap().parse().unwrap(), Order { status: status.unwrap(), refund_due })
        });
        rows.collect()
    }

    /// Whether it came at least as far as this step that was acknowledged.
    fn has_kept(&self, step: Step) -> bool {
        let (status, refund_due) = (self.status.as_str(), self.refund_due.as_deref());
        match step {
            Step::Placed => status != "pending",
            // Too late is recorded too: the order is closed and the money is owed back.
            Step::PaymentReported => match status {
                "cancelled" => refund_due == Some("1"),
                other => ["paid", "shipped", "completed"].contains(&other) && refund_due == Some("0"),
            },
            Step::Shipped => ["shipped", "completed"].contains(&status),
            Step::Completed => status == "completed",
            Step::Cancelled => status == "cancelled",
        }
    }
}
