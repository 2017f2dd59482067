//! Tables, locks and sequences of the marketplace.

use handover_events::TenantId;
use handover_memory::{store, tables};
use handover_outbox::ports::Numbered;
use marketplace::ports::{
    CreditChange, EffectKind, IdKind, ListingChange, NewShipmentTask, Notification, RequestRecord,
    RequestScope, SentRefundRequest,
};
use marketplace_domain::{
    Asset, Balance, BillingPeriod, Capture, Coupon, CouponId, FindingKind, GatewayReport, Hold, Invoice,
    InvoiceId, InvoiceLine, OperationKey, Order, OrderId, PayableId, Payment, PaymentId, Product, ProductId,
    Purse, RecordedFinding, Reference, Refund, RefundId, SupersededAttempt, UserId,
};

use crate::rows::{CreditRow, EntryRow, IdBlockRow, ListingRow, OperationRow};

tables! {
    /// The committed tables of the marketplace.
    pub(crate) struct Market {
        products: Product,
        orders: Order,
        payments: Payment,
        captures: Capture,
        listing_changes: Numbered<ListingChange>,
        listings: ListingRow,
        shipments: Numbered<NewShipmentTask>,
        notifications: Numbered<Notification>,
        credit_changes: Numbered<CreditChange>,
        credit: CreditRow,
        refunds: Refund,
        superseded_attempts: SupersededAttempt,
        refund_requests: SentRefundRequest,
        gateway_reports: Numbered<GatewayReport>,
        findings: Numbered<RecordedFinding>,
        invoices: Invoice,
        invoice_lines: InvoiceLine,
        requests: Numbered<RequestRecord>,
        coupons: Coupon,
        holds: Hold,
        balances: Balance,
        operations: OperationRow,
        entries: EntryRow,
        id_blocks: IdBlockRow,
    }
    pub(crate) struct MarketChanges;
    pub(crate) trait MarketRows;
    type Lock = Lock;
    type Sequences = Sequences;
}

pub(crate) type Table<R> = store::tables::Table<R, Market>;
pub(crate) type Merged<'a, R> = store::tables::Merged<'a, R, Market>;
pub(crate) type Statement<'s> = store::statement::Statement<'s, Market>;

/// Lockable objects: rows and entries of unique keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    Product(ProductId),
    Order(OrderId),
    Payment(PaymentId),
    PaymentInProcessing(TenantId, PayableId),
    PaymentReference(Reference),
    GatewayTransaction(String),
    Capture(PaymentId, u32),
    CapturedTransaction(String),
    Listing(TenantId, UserId, ProductId),
    Credit(TenantId, UserId),
    Effect(EffectKind, TenantId, OrderId, String),
    Refund(RefundId),
    RefundReference(Reference),
    RefundOfCapture(PaymentId, u32),
    GatewayReport(String),
    Finding(Option<TenantId>, FindingKind, String),
    Invoice(InvoiceId),
    InvoicePeriod(TenantId, BillingPeriod),
    InvoiceLine(OrderId),
    Request(RequestScope),
    Coupon(CouponId),
    Hold(TenantId, OrderId, Asset),
    Balance(TenantId, UserId, Purse),
    Operation(TenantId, OperationKey),
    IdBlock(IdKind),
}

/// The last assigned row id per sequence.
#[derive(Default)]
pub(crate) struct Sequences {
    pub(crate) effects: i64,
    pub(crate) operations: i64,
    pub(crate) entries: i64,
    pub(crate) gateway_reports: i64,
    pub(crate) findings: i64,
    pub(crate) requests: i64,
}
