//! What the API acknowledged: the promises that the database is held to at the end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::process::eventually;

/// The longest wait for acknowledged orders: far beyond what a busy machine takes for them.
const AT_WORK_WITHIN: Duration = Duration::from_secs(120);

/// How far an order came by acknowledged steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// It was placed.
    Placed,
    /// The gateway's report of its payment was taken.
    PaymentReported,
    /// Its buyer asked for a refund.
    RefundRequested,
    /// It was shipped.
    Shipped,
    /// It was received.
    Completed,
    /// Its buyer cancelled it.
    Cancelled,
}

/// Everything that was acknowledged.
#[derive(Debug, Default)]
pub struct Ledger {
    products: Mutex<Vec<i64>>,
    orders: Mutex<BTreeMap<i64, Step>>,
    refused: Mutex<u64>,
    lost: Mutex<u64>,
}

impl Ledger {
    /// A product was listed.
    pub fn product(&self, id: i64) {
        self.products.lock().unwrap().push(id);
    }

    /// An order came to this step.
    pub fn order(&self, id: i64, step: Step) {
        self.orders.lock().unwrap().insert(id, step);
    }

    /// A request was refused by a rule.
    pub fn refused(&self) {
        *self.refused.lock().unwrap() += 1;
    }

    /// A request was not answered, or answered that a dependency is away.
    pub fn lost(&self) {
        *self.lost.lock().unwrap() += 1;
    }

    /// Every product that was listed.
    pub fn products(&self) -> Vec<i64> {
        self.products.lock().unwrap().clone()
    }

    /// Every order, and the last step that was acknowledged.
    pub fn orders(&self) -> BTreeMap<i64, Step> {
        self.orders.lock().unwrap().clone()
    }

    /// Waits until so many more orders were acknowledged.
    pub async fn wait_for_orders(&self, more: usize) {
        let wanted = self.orders.lock().unwrap().len() + more;
        eventually(AT_WORK_WITHIN, async || match self.orders.lock().unwrap().len() {
            enough if enough >= wanted => Ok(()),
            some => Err(format!("{some} orders were acknowledged, not {wanted}").into()),
        })
        .await;
    }

    /// For a person: how much was asked and how it went.
    pub fn summary(&self) -> String {
        let orders = self.orders();
        let came_to = |step| orders.values().filter(|came| **came == step).count();
        format!(
            "{} products, {} orders acknowledged ({} only placed, {} paid, {} to be refunded, {} shipped, {} completed, {} cancelled), \
             {} refused, {} without an answer",
            self.products().len(),
            orders.len(),
            came_to(Step::Placed),
            came_to(Step::PaymentReported),
            came_to(Step::RefundRequested),
            came_to(Step::Shipped),
            came_to(Step::Completed),
            came_to(Step::Cancelled),
            self.refused.lock().unwrap(),
            self.lost.lock().unwrap(),
        )
    }
}
