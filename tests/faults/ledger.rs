//! What the API acknowledged: the promises that the database is held to at the end.

use std::collections::BTreeMap;
use std::sync::Mutex;

/// How far an order came by acknowledged steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Placed,
    PaymentReported,
    Shipped,
    Completed,
    Cancelled,
}

/// Everything that was acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    products: Mutex<Vec<i64>>,
    orders: Mutex<BTreeMap<i64, Step>>,
    refused: Mutex<u64>,
    lost: Mutex<u64>,
}

impl Ledger {
    pub(crate) fn product(&self, id: i64) {
        self.products.lock().unwrap().push(id);
    }

    pub(crate) fn order(&self, id: i64, step: Step) {
        self.orders.lock().unwrap().insert(id, step);
    }

    pub(crate) fn refused(&self) {
        *self.refused.lock().unwrap() += 1;
    }

    pub(crate) fn lost(&self) {
        *self.lost.lock().unwrap() += 1;
    }

    pub(crate) fn products(&self) -> Vec<i64> {
        self.products.lock().unwrap().clone()
    }

    pub(crate) fn orders(&self) -> BTreeMap<i64, Step> {
        self.orders.lock().unwrap().clone()
    }

    /// For a person: how much was asked and how it went.
    pub(crate) fn summary(&self) -> String {
        let orders = self.orders();
        let came_to = |step| orders.values().filter(|came| **came == step).count();
        format!(
            "{} products, {} orders acknowledged ({} only placed, {} paid, {} shipped, {} completed, {} cancelled), \
             {} refused, {} without an answer",
            self.products().len(),
            orders.len(),
            came_to(Step::Placed),
            came_to(Step::PaymentReported),
            came_to(Step::Shipped),
            came_to(Step::Completed),
            came_to(Step::Cancelled),
            self.refused.lock().unwrap(),
            self.lost.lock().unwrap(),
        )
    }
}
