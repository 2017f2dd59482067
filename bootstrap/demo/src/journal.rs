//! Record of the responses that clients received. Guarantees cover acknowledged changes, so the database rows are
//! compared with this record.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use marketplace_domain::{OrderId, ProductId, UserId};

use super::plan::AssetCoverage;

/// A step of an order that the service acknowledged with a successful response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Placed,
    /// The service accepted the gateway's report that the payment succeeded.
    Paid,
    Shipped,
    Completed,
    Cancelled,
    /// The service accepted the gateway's report that the payment failed, which cancels an order with assets.
    PaymentFailed,
    /// The service accepted the report of a successful payment after the buyer had cancelled the order.
    PaidAfterCancel,
    /// The service accepted the gateway's report that the refund succeeded.
    Refunded,
}

/// An order according to the responses that its clients received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClientOrder {
    pub(super) product: ProductId,
    pub(super) buyer: UserId,
    pub(super) seller: UserId,
    /// The last step that the service acknowledged with a successful response.
    pub(super) step: Step,
    /// Whether the buyer has the assets that the order uses.
    pub(super) cover: AssetCoverage,
}

/// Result of the concurrent orders of many buyers for one lamp.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rush {
    pub(super) lamp: Option<ProductId>,
    /// Orders that the service accepted; more than one breaks a promise.
    pub(super) won: Vec<OrderId>,
    /// Number of orders rejected because the lamp was already sold to another buyer.
    pub(super) refused: usize,
}

/// The responses that clients received during the day.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ClientRecord {
    /// Products put on sale, with their sellers.
    pub(super) products: BTreeMap<ProductId, UserId>,
    /// Placed orders.
    pub(super) orders: BTreeMap<OrderId, ClientOrder>,
    pub(super) rush: Rush,
    /// Number of requests rejected because the order had already been closed.
    pub(super) late: usize,
    /// Number of repetitions of requests. A request is repeated after the response `C0001` or `C0002`, for example
    /// because assets are not locked yet.
    pub(super) retried_requests: usize,
    /// Responses that are neither a success nor an expected conflict, and requests without a response.
    pub(super) unexpected: Vec<String>,
    /// Number of orders traded at full speed, and the time this took.
    pub(super) trading: (usize, Duration),
}

/// The client record while it is being written.
#[derive(Default)]
pub(super) struct Journal(Mutex<ClientRecord>);

impl Journal {
    pub(super) fn note(&self, write: impl FnOnce(&mut ClientRecord)) {
        write(&mut self.record());
    }

    /// Records a step of an order that the service acknowledged with a successful response.
    pub(super) fn step(&self, order: OrderId, step: Step) {
        if let Some(client_order) = self.record().orders.get_mut(&order) {
            client_order.step = step;
        }
    }

    pub(super) fn read(&self) -> ClientRecord {
        self.record().clone()
    }

    fn record(&self) -> MutexGuard<'_, ClientRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
