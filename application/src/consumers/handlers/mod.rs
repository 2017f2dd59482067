//! What each consumer does with its events. A handler states how a late event commutes with those applied since.

mod fulfillment;
mod inventory;
mod order_timeout;
mod webhooks;

pub use fulfillment::Fulfillment;
pub use inventory::Inventory;
pub use order_timeout::TimeoutCloser;
pub use webhooks::Webhooks;
