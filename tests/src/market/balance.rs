//! The final check: every acknowledged change is present, and every event took effect exactly once and in order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::OPERATOR;
use super::ledger::{Ledger, Step};
use crate::client::Api;
use crate::process::{BoxError, eventually};
use crate::snapshot::DatabaseSnapshot;

/// Time until all work is finished. It includes the deadlines of unpaid orders, leases of killed consumers (15 s), and
/// messages that a broker lost (60 s).
const IDLE_WITHIN: Duration = Duration::from_secs(180);

/// Time until thousands of orders are reconciled: each needs about a dozen statements.
const RECONCILED_WITHIN: Duration = Duration::from_secs(180);

/// Waits until all work is finished, then checks all invariants of the database, and that the database contains every
/// acknowledged change.
pub async fn balance(api: &Api, snapshot: &DatabaseSnapshot, ledger: &Ledger) {
    balance_except(api, snapshot, ledger, &[]).await;
}

/// Like [`balance`], without the invariants that begin with one of these texts, and the findings of these kinds.
pub async fn balance_except(api: &Api, snapshot: &DatabaseSnapshot, ledger: &Ledger, except: &[&str]) {
    let begun = Instant::now();
    wait_until_idle(snapshot).await;
    println!("  idle after {:.1?}: {}", begun.elapsed(), ledger.summary());
    println!("  in the database: {}", snapshot.summary().await);
    let mut broken = snapshot.broken().await;
    broken.retain(|broken| !except.iter().any(|except| broken.starts_with(except)));
    assert!(broken.is_empty(), "{broken:#?}");
    assert_eq!(snapshot.number("SELECT count(*) FROM asset_holds WHERE status = 'FROZEN'").await, 0);
    assert_eq!(ledger_sums(snapshot).await.unwrap(), ["0", "0"], "money and points");
    let reconciled = api.get_within(RECONCILED_WITHIN, OPERATOR, "/api/v1/ops/reconciliation").await;
    let reconciled = reconciled.unwrap().value();
    let is_excepted = |finding: &Value| except.iter().any(|except| finding["kind"] == *except);
    let mut findings = reconciled["findings"].as_array().unwrap().clone();
    findings.retain(|finding| !is_excepted(finding));
    assert!(findings.is_empty(), "{findings:#?} in {reconciled}");
    let products: BTreeSet<String> =
        snapshot.rows("SELECT id FROM products").await.unwrap().into_iter().collect();
    for product in ledger.products() {
        assert!(
            products.contains(&product.to_string()),
            "product {product} was acknowledged, but is missing"
        );
    }
    let orders = Order::all(snapshot).await;
    for (order, step) in ledger.orders() {
        let found = orders
            .get(&order)
            .unwrap_or_else(|| panic!("order {order} was acknowledged ({step:?}), but is missing"));
        assert!(found.has_reached(step), "order {order} was acknowledged as {step:?}, but is {found:?}");
    }
}

/// Waits until no event is in flight, no order is unpaid, and the gateway has reported every refund.
async fn wait_until_idle(snapshot: &DatabaseSnapshot) {
    let begun = Instant::now();
    snapshot.wait_until_idle(IDLE_WITHIN).await;
    let open = "SELECT count(*) FROM refunds WHERE status = 'PROCESSING'";
    eventually(IDLE_WITHIN.saturating_sub(begun.elapsed()), async || match snapshot.count(open).await? {
        0 => Ok(()),
        open => Err(format!("{open} refunds are open").into()),
    })
    .await;
    // Each refund result appended events, so wait until they are applied.
    snapshot.wait_until_idle(IDLE_WITHIN.saturating_sub(begun.elapsed())).await;
}

/// The sums of all ledger entries in money and in points. Both must be zero at any time.
pub async fn ledger_sums(snapshot: &DatabaseSnapshot) -> Result<Vec<String>, BoxError> {
    let money = "account IN ('wallet', 'wallet_hold', 'platform', 'suspense', 'gateway')";
    let sum = |of: &str| format!("coalesce(sum(CASE WHEN {of} THEN amount ELSE 0 END), 0)");
    let points = sum(&format!("NOT {money}"));
    let money = sum(money);
    let mut rows = snapshot.table(&format!("SELECT {money}, {points} FROM ledger_entries")).await?;
    rows.remove(0).into_iter().map(|sum| sum.ok_or_else(|| "no sum".into())).collect()
}

/// Row of an order with its refunds.
#[derive(Debug)]
struct Order {
    status: String,
    /// `refund_due` of the order's successful payment; `None` without a successful payment.
    refund_due: Option<String>,
    /// Number of failed refunds.
    failed_refunds: i64,
}

impl Order {
    async fn all(snapshot: &DatabaseSnapshot) -> BTreeMap<i64, Order> {
        let sql = "SELECT o.id, o.status,
             (SELECT count(*) FROM refunds r WHERE r.order_id = o.id AND r.status = 'FAILED'), max(p.refund_due)
             FROM orders o LEFT JOIN payments p ON p.order_id = o.id AND p.status = 'SUCCESS' GROUP BY o.id, o.status";
        let rows = snapshot.table(sql).await.unwrap().into_iter().map(|row| {
            let [id, status, failed, refund_due] = <[Option<String>; 4]>::try_from(row).unwrap();
            let failed_refunds = failed.unwrap().parse().unwrap();
            (id.unwrap().parse().unwrap(), Order { status: status.unwrap(), refund_due, failed_refunds })
        });
        rows.collect()
    }

    /// Whether the order has made this step, or a later one. A response acknowledged the step to the client.
    fn has_reached(&self, step: Step) -> bool {
        let status = self.status.as_str();
        let refund_due = self.refund_due.as_deref();
        let refund_owed = status == "cancelled" && refund_due == Some("1");
        match step {
            Step::Placed => status != "pending",
            // The payment was reported in time, or it was late: then the order is cancelled and a refund is due.
            Step::PaymentReported => {
                let was_paid = ["paid", "shipped", "completed", "refunded"].contains(&status);
                refund_owed || (was_paid && refund_due == Some("0"))
            }
            Step::RefundRequested => {
                refund_owed || status == "refunded" || (status == "paid" && self.failed_refunds > 0)
            }
            Step::Shipped => ["shipped", "completed"].contains(&status),
            Step::Completed => status == "completed",
            Step::Cancelled => status == "cancelled",
        }
    }
}
