//! What the marketplace asks of the world, beside the ports of the outbox (`handover_outbox::ports`). Every MUST here is a
//! rule of the shared contract suite.
//!
//! A unit of the marketplace *is* its repositories and *has* the outbox; a function asks for the one it needs
//! (`&mut dyn OrderQueries`).

mod assets;
mod credit;
mod effects;
mod gateway;
mod idempotency;
mod ids;
mod limits;
mod market;
mod notifications;
mod orders;
mod payments;
mod products;
mod refunds;

pub use assets::{AccountTotal, AssetQueries, AssetRepo, LedgerEntry, LedgerFlaw};
pub use credit::{BuyerCredit, CreditChange, CreditQueries, CreditRepo};
pub use effects::{
    EffectKind, EffectOfFact, EffectQueries, EffectRepo, ListingChange, ListingChangeKind, ListingEntry,
    NewShipmentTask, SHIPMENT, ShipmentTask, notified_of,
};
pub use gateway::{Gateway, GatewayError, RefundRequest};
pub use idempotency::{
    IdempotencyError, IdempotencyStore, KeptRequest, RequestQueries, RequestRepo, RequestScope, RequestState,
    Standing, StoredAnswer,
};
pub use ids::{IdBlocks, IdKind, IdQueries, IdState};
pub use limits::{Bucket, LimitKey, NoBucket, Party, RateLimiter, Taken};
pub use market::{MarketStore, MarketUnit, MarketView, Work};
pub use notifications::{Notification, NotificationQueries, NotificationRepo};
pub use orders::{OrderQueries, OrderRepo, OrderSide};
pub use payments::{PaymentQueries, PaymentRepo};
pub use products::{ProductQueries, ProductRepo};
pub use refunds::{RefundQueries, RefundRepo};
