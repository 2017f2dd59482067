//! Event handlers, one per consumer. Each handler documents how it handles a late event.

mod assets;
mod credit;
mod facts;
mod fulfillment;
mod inventory;
mod order_timeout;
mod status_sync;
mod webhooks;

use std::sync::Arc;

use crate::App;
use crate::ports::Work;
use crate::queues::{
    COUPON_QUEUE, CREDIT_QUEUE, FULFILLMENT_QUEUE, INVENTORY_QUEUE, POINTS_QUEUE, STATUS_SYNC_QUEUE,
    TIMEOUT_QUEUE, WALLET_QUEUE, WEBHOOK_QUEUE,
};
use handover_outbox::consumers::Subscriber;

pub use assets::AssetHandler;
pub use credit::Credit;
pub use fulfillment::Fulfillment;
pub use inventory::Inventory;
pub use order_timeout::OrderTimeoutHandler;
pub use status_sync::StatusSync;
pub use webhooks::Webhooks;

/// The consumers of the service, with their queues.
pub fn standard(app: &App) -> Vec<Subscriber<Work>> {
    vec![
        Subscriber { queue: INVENTORY_QUEUE, handler: Arc::new(Inventory::new(app.clone())) },
        Subscriber { queue: FULFILLMENT_QUEUE, handler: Arc::new(Fulfillment::new(app.clone())) },
        Subscriber { queue: STATUS_SYNC_QUEUE, handler: Arc::new(StatusSync::new(app.clone())) },
        Subscriber { queue: TIMEOUT_QUEUE, handler: Arc::new(OrderTimeoutHandler::new(app.clone())) },
        Subscriber { queue: COUPON_QUEUE, handler: Arc::new(AssetHandler::of_coupons(app.clone())) },
        Subscriber { queue: WALLET_QUEUE, handler: Arc::new(AssetHandler::of_wallets(app.clone())) },
        Subscriber { queue: POINTS_QUEUE, handler: Arc::new(AssetHandler::of_points(app.clone())) },
        Subscriber { queue: CREDIT_QUEUE, handler: Arc::new(Credit::new(app.clone())) },
        Subscriber { queue: WEBHOOK_QUEUE, handler: Arc::new(Webhooks) },
    ]
}
