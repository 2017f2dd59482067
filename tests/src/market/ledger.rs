//! Record of the requests that the API acknowledged; at the end the database is checked against this record. It is not
//! the ledger of the postings.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::process::eventually;

/// Timeout for acknowledged orders: far longer than a busy machine needs.
const ORDERS_WITHIN: Duration = Duration::from_secs(120);

/// The last acknowledged step of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Placed,
    /// The gateway's report of the order's payment was accepted, or assets covered the whole price.
    PaymentReported,
    /// The buyer of the order requested a refund.
    RefundRequested,
    Shipped,
    /// The buyer of the order confirmed receipt.
    Completed,
    Cancelled,
}

/// Acknowledged products and order steps, and the numbers of rejected requests and of requests without a response.
#[derive(Debug, Default)]
pub struct Ledger {
    products: Mutex<Vec<i64>>,
    orders: Mutex<BTreeMap<i64, Step>>,
    refused: Mutex<u64>,
    lost: Mutex<u64>,
}

impl Ledger {
    /// Records an acknowledged product.
    pub fn product(&self, id: i64) {
        self.products.lock().unwrap().push(id);
    }

    /// Records an acknowledged step of an order.
    pub fn order(&self, id: i64, step: Step) {
        self.orders.lock().unwrap().insert(id, step);
    }

    /// Counts a request that a business rule rejected.
    pub fn refused(&self) {
        *self.refused.lock().unwrap() += 1;
    }

    /// Counts a request without a response, or whose response says that a dependency is unavailable.
    pub fn lost(&self) {
        *self.lost.lock().unwrap() += 1;
    }

    pub fn products(&self) -> Vec<i64> {
        self.products.lock().unwrap().clone()
    }

    /// Every order with its last acknowledged step.
    pub fn orders(&self) -> BTreeMap<i64, Step> {
        self.orders.lock().unwrap().clone()
    }

    /// Waits until `more` orders have been acknowledged since this call.
    pub async fn wait_for_orders(&self, more: usize) {
        let wanted = self.orders.lock().unwrap().len() + more;
        eventually(ORDERS_WITHIN, async || match self.orders.lock().unwrap().len() {
            enough if enough >= wanted => Ok(()),
            some => Err(format!("{some} orders were acknowledged, not {wanted}").into()),
        })
        .await;
    }

    /// Number of requests by result, for the test's output.
    pub fn summary(&self) -> String {
        let orders = self.orders();
        let reached = |step| orders.values().filter(|last| **last == step).count();
        format!(
            "{} products, {} orders acknowledged ({} only placed, {} paid, {} to be refunded, {} shipped, {} completed, {} cancelled), \
             {} rejected, {} without a response",
            self.products().len(),
            orders.len(),
            reached(Step::Placed),
            reached(Step::PaymentReported),
            reached(Step::RefundRequested),
            reached(Step::Shipped),
            reached(Step::Completed),
            reached(Step::Cancelled),
            self.refused.lock().unwrap(),
            self.lost.lock().unwrap(),
        )
    }
}
