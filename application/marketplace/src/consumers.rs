//! The consumers, one per file. Each documents how it handles a late event. To add a consumer, create a file here and
//! add it to the list in [`standard`].

mod assets;
mod buyer_credit;
mod effects;
mod facts;
mod fulfillment;
mod inventory;
mod order_timeout;
mod status_sync;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use crate::consumer::{Consumer, Consumers};
use crate::queues::{DEAD_LETTER_KEY, DEAD_LETTER_QUEUE, EXCHANGE};
use handover_outbox::topology::Topology;

pub use assets::{AssetConsumer, COUPON_QUEUE, POINTS_QUEUE, WALLET_QUEUE};
pub use buyer_credit::{BuyerCredit, CREDIT_QUEUE};
pub use fulfillment::{FULFILLMENT_QUEUE, Fulfillment};
pub use inventory::{INVENTORY_QUEUE, Inventory};
pub use order_timeout::{OrderTimeoutConsumer, TIMEOUT_QUEUE};
pub use status_sync::{STATUS_SYNC_QUEUE, StatusSync};
pub use webhooks::{WEBHOOK_QUEUE, Webhooks};

pub use crate::webhook_offer::webhook_offer;

/// The consumers of the service.
pub fn standard() -> Consumers {
    let consumers: Vec<Arc<dyn Consumer>> = vec![
        Arc::new(Inventory),
        Arc::new(Fulfillment),
        Arc::new(StatusSync),
        Arc::new(OrderTimeoutConsumer),
        Arc::new(AssetConsumer::of_coupons()),
        Arc::new(AssetConsumer::of_wallets()),
        Arc::new(AssetConsumer::of_points()),
        Arc::new(BuyerCredit),
        Arc::new(Webhooks::default()),
    ];
    Consumers::new(consumers)
}

/// Builds the topology of the service for a payment deadline of `pending_timeout`.
pub fn topology(pending_timeout: Duration) -> Topology {
    topology_of(&standard(), pending_timeout)
}

/// Builds the topology of these consumers for a payment deadline of `pending_timeout`.
pub(crate) fn topology_of(consumers: &Consumers, pending_timeout: Duration) -> Topology {
    consumers.add_queues(Topology::new(EXCHANGE, DEAD_LETTER_QUEUE, DEAD_LETTER_KEY), pending_timeout)
}
