//! What the application asks of the world. Every MUST here is a rule of the shared contract suite.
//!
//! A store is one trait to begin with and many small ones to work with: a unit of the marketplace *is* its repositories
//! and *has* the outbox, and a function asks for the one it needs (`&mut dyn OrderQueries`).

mod assets;
mod audit;
mod broker;
mod clock;
mod consume;
mod credit;
mod dead_letters;
mod effects;
mod gateway;
mod history;
mod idempotency;
mod ids;
mod leases;
mod limits;
mod market;
mod notifications;
mod orders;
mod outbox;
mod payments;
mod products;
mod refunds;
mod store;

pub use assets::{AccountTotal, AssetQueries, AssetRepo, LedgerEntry, LedgerFlaw};
pub use audit::{AuditEntry, AuditFilter, AuditQueries, AuditRepo};
pub use broker::{
    Broker, BrokerError, Confirmed, Delivery, DeliveryTag, Message, Outgoing, PublishOutcome, QueueDepth,
    Requeue, Route, Subscription,
};
pub use clock::{Chance, Clock};
pub use consume::{
    ConsumeCount, ConsumeLog, ConsumeQueries, ConsumeRecord, Consumed, ConsumedFilter, ConsumerSubscription,
    Consumption, Expected, Unapplied,
};
pub use credit::{BuyerCredit, CreditChange, CreditQueries, CreditRepo};
pub use dead_letters::{
    DeadLetter, DeadLetterFilter, DeadLetterQueries, DeadLetterRepo, DeadLetterStatus, Decision,
    MAX_LETTER_BODY_BYTES, MAX_LETTER_NAME_BYTES, MAX_LETTER_REASON_BYTES,
};
pub use effects::{
    EffectKind, EffectOfFact, EffectQueries, EffectRepo, ListingChange, ListingChangeKind, ListingEntry,
    NewShipmentTask, Numbered, SHIPMENT, ShipmentTask, notified_of,
};
pub use gateway::{Gateway, GatewayError, RefundRequest};
pub use history::{HistoryEntry, HistoryQueries, HistoryRepo};
pub use idempotency::{
    IdempotencyError, IdempotencyStore, KeptRequest, RequestQueries, RequestRepo, RequestScope, RequestState,
    Standing, StoredAnswer,
};
pub use ids::{IdBlocks, IdKind, IdQueries, IdState};
pub use leases::{Heartbeat, LeaseQueries, LeaseRepo, PartitionHold, PartitionLease, RelayId};
pub use limits::{Bucket, LimitKey, NoBucket, Party, RateLimiter, Taken};
pub use market::{AsAny, MarketStore, MarketUnit, MarketView, Work};
pub use notifications::{Notification, NotificationQueries, NotificationRepo};
pub use orders::{OrderQueries, OrderRepo, OrderSide};
pub use outbox::{
    Blocked, DueQuery, EventMetadata, FailedPublish, NewEvent, OnFailed, OutboxCounts, OutboxFilter,
    OutboxQueries, OutboxRepo, OutboxRow, Redrive, RedrivenRow, UnorderedTypes,
};
pub use payments::{PaymentQueries, PaymentRepo};
pub use products::{ProductQueries, ProductRepo};
pub use refunds::{RefundQueries, RefundRepo};
pub(crate) use store::Erased;
pub use store::{
    Changed, OutboxStore, OutboxUnit, OutboxView, Store, StoreError, UnitOfWork, View, outbox_of,
};
