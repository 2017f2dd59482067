//! The rules of a second-hand marketplace: pure values and decisions.
//!
//! Decisions take values and return `Result<(new state, events), refusal>`. They do not wait, read a clock, generate
//! random numbers or perform I/O: time, ids and random numbers are arguments.
//!
//! **Invariant:** every function is total; a refusal is an error value that states the reason.

mod assets;
mod capture;
mod capture_refunds;
mod credit;
pub mod event;
mod evidence;
mod finding;
mod gateway_report;
mod ids;
mod invoice;
mod money;
mod order;
mod order_number;
mod order_status;
mod payable;
mod payment;
mod payment_method;
mod product;
mod refund;
mod refund_cause;

pub use assets::{
    Account, Asset, AssetOperation, AssetRefusal, Balance, Coupon, CouponStatus, CouponUse, Entry, Hold,
    HoldStatus, OperationKey, OperationKind, OrderAssets, Points, PointsRules, Posting, Purse,
    RequestedAssets,
};
pub use capture::{BookedTransaction, Capture};
pub use credit::{CreditCounts, CreditOutcome};
pub use event::{
    AggregateType, EventBody, EventKind, InvoiceGenerated, OrderCancelled, OrderCreated, OrderFacts,
    OrderPaid, OrderRefunded, OrderStatusChanged, OrderTimeout, PaymentFailed, PaymentFor, PaymentSettled,
    PaymentSucceeded, RefundFailed, RefundSettled, RefundSucceeded,
};
pub use evidence::{Contradiction, OrderEvidence};
pub use finding::{AcknowledgedBy, FindingKind, FindingState, ObservedFinding, RecordedFinding};
pub use gateway_report::{ClosedBy, GatewayReport, ReportKind, ReportOutcome, ReportState};
pub use ids::{
    CouponId, InvoiceId, NotAReference, OrderId, PaymentId, ProductId, Reference, RefundId, UserId,
};
pub use invoice::{
    BilledOrder, BillingPeriod, FeeRate, GeneratedInvoice, Invoice, InvoiceLine, InvoiceRefusal,
    InvoiceStatus, NewInvoice, NotAFeeRate, NotAPeriod,
};
pub use money::{Currency, Money, MoneyError};
pub use order::{CancelCause, NewOrder, Order, OrderAction, OrderActor, OrderRefusal, Shipment};
pub use order_number::{NotAnOrderNo, OrderNo};
pub use order_status::{CancelReason, OrderStatus, ShipmentState};
pub use payable::{Payable, PayableId};
pub use payment::{Payment, PaymentDecision, PaymentResult, PaymentStatus, Settlement};
pub use payment_method::PaymentMethod;
pub use product::{Product, ProductAction, ProductRefusal, ProductStatus, Title};
pub use refund::{
    Refund, RefundDecision, RefundRefusal, RefundReport, RefundResult, RefundStatus, SupersededAttempt,
};
pub use refund_cause::RefundCause;
