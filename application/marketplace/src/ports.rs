//! Ports of the marketplace, in addition to the ports of the outbox (`handover_outbox::ports`). The shared contract
//! suite checks the MUSTs of the repositories.
//!
//! A unit of work of the marketplace implements all repositories and provides the outbox. A function can take only the
//! trait that it needs (`&mut dyn OrderQueries`).

mod assets;
mod credit;
mod effects;
mod findings;
mod gateway;
mod gateway_reports;
mod idempotency;
mod ids;
mod invoices;
mod market;
mod notifications;
mod orders;
mod payments;
mod personal_texts;
mod products;
mod rate_limit;
mod refunds;

pub use assets::{
    AccountTotal, AssetQueries, AssetQueriesWrapper, AssetRepo, AssetRepoWrapper, ExpiredCoupon, FrozenHold,
    LedgerEntry, LedgerInconsistency, LedgerPage, LedgerPosition, ledger_inconsistencies,
};
pub use credit::{
    BuyerCredit, CreditChange, CreditQueries, CreditQueriesWrapper, CreditRepo, CreditRepoWrapper,
};
pub use effects::{
    EffectKind, EffectOfFact, EffectQueries, EffectQueriesWrapper, EffectRepo, EffectRepoWrapper,
    ListedShipment, ListingChange, ListingChangeKind, ListingEntry, NewShipmentTask, SHIPMENT, ShipmentTask,
    notification_fact,
};
pub use findings::{
    FindingFilter, FindingQueries, FindingQueriesWrapper, FindingRepo, FindingRepoWrapper, FindingSubject,
};
#[cfg(feature = "mocks")]
pub use gateway::MockGateway;
pub use gateway::{Gateway, GatewayError, RefundRequest};
pub use gateway_reports::{
    GatewayReportFilter, GatewayReportQueries, GatewayReportQueriesWrapper, GatewayReportRepo,
    GatewayReportRepoWrapper,
};
#[cfg(feature = "mocks")]
pub use idempotency::MockIdempotencyStore;
pub use idempotency::{
    ClaimState, IdempotencyError, IdempotencyStore, RequestClaim, RequestQueries, RequestQueriesWrapper,
    RequestRecord, RequestRepo, RequestRepoWrapper, RequestScope, RequestState, StoredResponse,
};
pub use ids::{
    END_OF_IDS, IdBlocks, IdBlocksWrapper, IdKind, IdQueries, IdQueriesWrapper, IdState, IdsExhausted,
};
pub use invoices::{
    InvoiceFilter, InvoicePayments, InvoiceQueries, InvoiceQueriesWrapper, InvoiceRepo, InvoiceRepoWrapper,
};
pub use market::{MarketStore, MarketTransactor, MarketUnit, MarketView, Work};
pub use notifications::{
    Notification, NotificationQueries, NotificationQueriesWrapper, NotificationRepo, NotificationRepoWrapper,
};
pub use orders::{DueOrder, OrderQueries, OrderQueriesWrapper, OrderRepo, OrderRepoWrapper, OrderSide};
pub use payments::{PaymentFilter, PaymentQueries, PaymentQueriesWrapper, PaymentRepo, PaymentRepoWrapper};
pub use personal_texts::{
    PersonalTextQueries, PersonalTextQueriesWrapper, PersonalTextRepo, PersonalTextRepoWrapper,
};
pub use products::{ProductQueries, ProductQueriesWrapper, ProductRepo, ProductRepoWrapper};
#[cfg(feature = "mocks")]
pub use rate_limit::MockRateLimiter;
pub use rate_limit::{Bucket, InvalidBucket, LimitKey, Party, RateLimitDecision, RateLimiter};
pub use refunds::{
    OpenRefunds, RefundFilter, RefundQueries, RefundQueriesWrapper, RefundRepo, RefundRepoWrapper,
    SentRefundRequest, attempt_begin,
};
