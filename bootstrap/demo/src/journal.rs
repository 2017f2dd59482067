//! What the clients were told. A promise is about what was acknowledged, so this is what the rows are held against.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use marketplace_domain::{OrderId, ProductId, UserId};

use super::plan::Cover;

/// The last step of an order that was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// It was placed.
    Placed,
    /// The gateway's report that the money has arrived was taken.
    Paid,
    /// It was shipped.
    Shipped,
    /// It was received.
    Completed,
    /// The buyer cancelled it.
    Cancelled,
    /// The gateway's report that its payment failed was taken, which ends it.
    PaymentFailed,
    /// The report that the money has arrived was taken after the buyer had cancelled it.
    PaidTooLate,
    /// The gateway's report that the money is back was taken.
    Refunded,
}

/// An order as its client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// What was bought.
    pub(super) product: ProductId,
    /// By whom.
    pub(super) buyer: UserId,
    /// From whom.
    pub(super) seller: UserId,
    /// The last step that was acknowledged.
    pub(super) step: Step,
    /// Whether its buyer has the assets that it names.
    pub(super) cover: Cover,
}

/// How the rush for the lamp ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rush {
    /// What was wanted.
    pub(super) lamp: Option<ProductId>,
    /// Who was told that it is theirs.
    pub(super) won: Vec<OrderId>,
    /// How many were told that it is sold.
    pub(super) refused: usize,
}

/// What the clients were told on one day.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Account {
    /// Products that were listed, with their sellers.
    pub(super) products: BTreeMap<ProductId, UserId>,
    /// Orders that were placed.
    pub(super) orders: BTreeMap<OrderId, Told>,
    /// The rush.
    pub(super) rush: Rush,
    /// Steps that came after the deadline of their order, and were refused for it.
    pub(super) late: usize,
    /// Requests that were made again because the assets of their order were not locked yet.
    pub(super) asked_again: usize,
    /// Answers that no rule explains.
    pub(super) odd: Vec<String>,
    /// How long orders were placed at full speed, and how many that were.
    pub(super) trading: (usize, Duration),
}

/// The account, while it is being written.
#[derive(Default)]
pub(super) struct Journal(Mutex<Account>);

impl Journal {
    /// Writes into it.
    pub(super) fn note(&self, write: impl FnOnce(&mut Account)) {
        write(&mut self.account());
    }

    /// This step of an order was acknowledged.
    pub(super) fn step(&self, order: OrderId, step: Step) {
        if let Some(told) = self.account().orders.get_mut(&order) {
            told.step = step;
        }
    }

    /// The account so far.
    pub(super) fn read(&self) -> Account {
        self.account().clone()
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
