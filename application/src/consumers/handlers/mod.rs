//! What each consumer does with its events. A handler states how a late event commutes with those applied since.

mod assets;
mod credit;
mod fulfillment;
mod inventory;
mod order_timeout;
mod status_sync;
mod webhooks;

pub use assets::AssetKeeper;
pub use credit::Credit;
pub use fulfillment::Fulfillment;
pub use inventory::Inventory;
pub use order_timeout::TimeoutCloser;
pub use status_sync::StatusSync;
pub use webhooks::Webhooks;
