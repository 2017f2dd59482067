//! Ports of the marketplace, in addition to the ports of the outbox (`handover_outbox::ports`). Every MUST here is a rule of
//! the shared contract suite.
//!
//! A unit of work of the marketplace implements all repositories and provides the outbox. A function takes only the trait
//! that it needs (`&mut dyn OrderQueries`).

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

pub use assets::{
    AccountTotal, AssetQueries, AssetQueriesWrapper, AssetRepo, AssetRepoWrapper, LedgerEntry, LedgerFlaw,
};
pub use credit::{
    BuyerCredit, CreditChange, CreditQueries, CreditQueriesWrapper, CreditRepo, CreditRepoWrapper,
};
pub use effects::{
    EffectKind, EffectOfFact, EffectQueries, EffectQueriesWrapper, EffectRepo, EffectRepoWrapper,
    ListingChange, ListingChangeKind, ListingEntry, NewShipmentTask, SHIPMENT, ShipmentTask, notified_of,
};
pub use gateway::{Gateway, GatewayError, RefundRequest};
pub use idempotency::{
    IdempotencyError, IdempotencyStore, KeptRequest, RequestQueries, RequestQueriesWrapper, RequestRepo,
    RequestRepoWrapper, RequestScope, RequestState, Standing, StoredAnswer,
};
pub use ids::{IdBlocks, IdBlocksWrapper, IdKind, IdQueries, IdQueriesWrapper, IdState};
pub use limits::{Bucket, LimitKey, NoBucket, Party, RateLimiter, Taken};
pub use market::{MarketStore, MarketUnit, MarketView, Work};
pub use notifications::{
    Notification, NotificationQueries, NotificationQueriesWrapper, NotificationRepo, NotificationRepoWrapper,
};
pub use orders::{OrderQueries, OrderQueriesWrapper, OrderRepo, OrderRepoWrapper, OrderSide};
pub use payments::{PaymentQueries, PaymentQueriesWrapper, PaymentRepo, PaymentRepoWrapper};
pub use products::{ProductQueries, ProductQueriesWrapper, ProductRepo, ProductRepoWrapper};
pub use refunds::{RefundQueries, RefundQueriesWrapper, RefundRepo, RefundRepoWrapper};
