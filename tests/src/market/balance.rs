//! The end check: what was acknowledged is there, every event took effect exactly once and in order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::json;

use super::OPERATOR;
use super::ledger::{Ledger, Step};
use crate::books::Books;
use crate::client::Api;
use crate::process::{Fault, eventually};

/// Until all is at rest: with the deadlines of unpaid orders, the leases of killed consumers (15 s), and messages that a
/// broker lost (60 s).
const AT_REST_WITHIN: Duration = Duration::from_secs(180);

/// Waits until nothing is on its way, and then holds the database to everything that must be true at the end.
pub async fn balance(api: &Api, books: &Books, ledger: &Ledger) {
    let begun = Instant::now();
    at_rest(books).await;
    println!("  at rest after {:.1?}: {}", begun.elapsed(), ledger.summary());
    println!("  in the database: {}", books.summary().await);
    let broken = books.broken().await;
    assert!(broken.is_empty(), "{broken:#?}");
    assert_eq!(books.number("SELECT count(*) FROM asset_holds WHERE status = 'FROZEN'").await, 0);
    assert_eq!(ledger_sums(books).await.unwrap(), ["0", "0"], "money and points");
    let reconciled = api.get(OPERATOR, "/api/v1/ops/reconciliation").await.unwrap().value();
    assert_eq!(reconciled["findings"], json!([]), "{reconciled}");
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

/// No event is on its way, no order is unpaid, and the gateway has reported every refund.
async fn at_rest(books: &Books) {
    let begun = Instant::now();
    books.wait_until_quiet(AT_REST_WITHIN).await;
    let open = "SELECT count(*) FROM refunds WHERE status = 'PROCESSING'";
    eventually(AT_REST_WITHIN.saturating_sub(begun.elapsed()), async || match books.count(open).await? {
        0 => Ok(()),
        open => Err(format!("{open} refunds are open").into()),
    })
    .await;
    // A refund that was settled has published events.
    books.wait_until_quiet(AT_REST_WITHIN.saturating_sub(begun.elapsed())).await;
}

/// The sums of all entries in money and in points, which are zero at every moment.
pub async fn ledger_sums(books: &Books) -> Result<Vec<String>, Fault> {
    let money = "account IN ('wallet', 'wallet_hold', 'platform', 'gateway')";
    let sum = |of: &str| format!("coalesce(sum(CASE WHEN {of} THEN amount ELSE 0 END), 0)");
    let (money, points) = (sum(money), sum(&format!("NOT {money}")));
    let mut rows = books.table(&format!("SELECT {money}, {points} FROM ledger_entries")).await?;
    rows.remove(0).into_iter().map(|sum| sum.ok_or_else(|| "no sum".into())).collect()
}

/// What the database says of an order.
#[derive(Debug)]
struct Order {
    status: String,
    /// Of its successful payment, if it has one.
    refund_due: Option<String>,
    /// How many refunds of it the gateway refused.
    failed_refunds: i64,
}

impl Order {
    async fn all(books: &Books) -> BTreeMap<i64, Order> {
        let sql = "SELECT o.id, o.status,
             (SELECT count(*) FROM refunds r WHERE r.order_id = o.id AND r.status = 'FAILED'), max(p.refund_due)
             FROM orders o LEFT JOIN payments p ON p.order_id = o.id AND p.status = 'SUCCESS' GROUP BY o.id, o.status";
        let rows = books.table(sql).await.unwrap().into_iter().map(|row| {
            let [id, status, failed, refund_due] = <[Option<String>; 4]>::try_from(row).unwrap();
            let failed_refunds = failed.unwrap().parse().unwrap();
            (id.unwrap().parse().unwrap(), Order { status: status.unwrap(), refund_due, failed_refunds })
        });
        rows.collect()
    }

    /// Whether it came at least as far as this step that was acknowledged.
    fn has_kept(&self, step: Step) -> bool {
        let (status, refund_due) = (self.status.as_str(), self.refund_due.as_deref());
        let owed_back = status == "cancelled" && refund_due == Some("1");
        match step {
            Step::Placed => status != "pending",
            // Too late is recorded too: the order is closed and the money is owed back.
            Step::PaymentReported => {
                let kept = ["paid", "shipped", "completed", "refunded"].contains(&status);
                owed_back || (kept && refund_due == Some("0"))
            }
            Step::RefundRequested => {
                owed_back || status == "refunded" || (status == "paid" && self.failed_refunds > 0)
            }
            Step::Shipped => ["shipped", "completed"].contains(&status),
            Step::Completed => status == "completed",
            Step::Cancelled => status == "cancelled",
        }
    }
}
