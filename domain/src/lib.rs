//! The rules of a second-hand order: pure values and decisions.
//!
//! Decisions take values and return `Result<(new state, events), refusal>`. Nothing here waits, reads a
//! clock, draws a random number or talks to anything: time, ids and chance are arguments.
//!
//! **Invariant:** every function is total; a refusal is a value that says what was refused and why.

mod assets;
mod consume;
mod credit;
mod event;
mod ids;
mod money;
mod named;
mod order;
mod outbox;
mod payment;
mod product;
mod refund;
mod retry;
mod text;
mod trace;

pub use assets::{
    Account, AskedAssets, Asset, AssetOperation, AssetRefusal, Balance, Coupon, CouponStatus, CouponUse,
    Entry, Hold, HoldStatus, OperationKey, OperationKind, OrderAssets, Points, PointsRules, Posting, Purse,
};
pub use consume::{ConsumeStatus, FailureKind};
pub use credit::{CreditCounts, CreditStep};
pub use event::{
    AggregateRef, AggregateType, Envelope, EnvelopeError, EventBody, EventType, InvoiceGenerated,
    OrderCancelled, OrderCreated, OrderFacts, OrderPaid, OrderRefunded, OrderStatusChanged, OrderTimeout,
    PaymentFor, PaymentSettled, RefundSettled, RoutingKey,
};
pub use ids::{
    CouponId, EventId, IdError, InvoiceId, MAX_ID, OrderId, PaymentId, ProductId, RefundId, TenantId, UserId,
};
pub use money::{Currency, Money, MoneyError};
pub use named::UnknownName;
pub use order::{
    CancelCause, CancelReason, Contradiction, NewOrder, Order, OrderAction, OrderActor, OrderNo,
    OrderRefusal, OrderStatus, Shipment,
};
pub use outbox::{HistoryKind, OutboxStatus, PARTITIONS, Partition, PartitionSet};
pub use payment::{Payment, PaymentRefusal, PaymentResult, PaymentStatus, Settlement};
pub use product::{Product, ProductAction, ProductRefusal, ProductStatus, Title};
pub use refund::{Refund, RefundCause, RefundRefusal, RefundResult, RefundStatus};
pub use retry::{Jitter, Retry, RetryPolicy, RetryPolicyError};
pub use text::TextError;
pub use trace::Trace;
