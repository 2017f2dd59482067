//! Invoices of tenants, and the completed orders that they cover.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Changed, Numbered, StoreError};
use marketplace_domain::{
    BilledOrder, BillingPeriod, Capture, GatewayReport, Invoice, InvoiceId, InvoiceLine, InvoiceStatus,
    OrderId, Payment, Refund,
};

/// Selects invoices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InvoiceFilter {
    /// Only this tenant; `None`: every tenant.
    pub tenant: Option<TenantId>,
    /// Only invoices with this status.
    pub status: Option<InvoiceStatus>,
}

/// The payments, captures and refunds of an invoice, and the reports of the gateway about them, each sorted as those of an
/// order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InvoicePayments {
    pub payments: Vec<Payment>,
    /// The stored captures.
    pub captures: Vec<Capture>,
    pub refunds: Vec<Refund>,
    pub reports: Vec<Numbered<GatewayReport>>,
}

/// Reads invoices and the completed orders that they cover.
#[handover_macros::wrappable]
#[async_trait]
pub trait InvoiceQueries: Send {
    /// The invoice with this id, in any tenant.
    async fn invoice_by_id(&mut self, id: InvoiceId) -> Result<Option<Invoice>, StoreError>;

    /// The invoice of a tenant for a period.
    async fn invoice_of_period(
        &mut self,
        tenant: TenantId,
        period: BillingPeriod,
    ) -> Result<Option<Invoice>, StoreError>;

    /// At most `limit` invoices that match, with an id below `before`, greatest id first.
    async fn invoices_page(
        &mut self,
        filter: InvoiceFilter,
        before: Option<InvoiceId>,
        limit: u32,
    ) -> Result<Vec<Invoice>, StoreError>;

    /// Every payment, stored capture, refund and gateway report of an invoice.
    async fn payments_of_invoice(
        &mut self,
        tenant: TenantId,
        invoice: InvoiceId,
    ) -> Result<InvoicePayments, StoreError>;

    /// At most `limit` lines of an invoice, with an order id above `after`, smallest order id first.
    async fn invoice_lines(
        &mut self,
        invoice: InvoiceId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<InvoiceLine>, StoreError>;

    /// The first tenant above `after` that has orders, in any status.
    async fn tenant_with_orders(&mut self, after: Option<TenantId>) -> Result<Option<TenantId>, StoreError>;

    /// At most `limit` orders of a tenant that were completed at or after `since` and before `until`, sorted by
    /// (`complete_time`, id), starting after `after`.
    async fn completed_orders(
        &mut self,
        tenant: TenantId,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<BilledOrder>, StoreError>;

    /// The month in which the store got its tables of invoices; orders that were completed earlier may belong to invoices
    /// that another program generated. The first possible month if the store always had them.
    async fn first_invoice_period(&mut self) -> Result<BillingPeriod, StoreError>;
}

/// Writes invoices.
#[handover_macros::wrappable]
#[async_trait]
pub trait InvoiceRepo: Send {
    /// Inserts an invoice. An id in use, or a second invoice of the same tenant and period, MUST be a `Conflict`.
    async fn insert_invoice(&mut self, invoice: &Invoice) -> Result<(), StoreError>;

    /// Replaces `status`, `pay_time`, `version` and `update_time` if the version of the row is `after.version - 1`: one
    /// conditional write.
    async fn advance_invoice(&mut self, after: &Invoice) -> Result<Changed, StoreError>;

    /// Inserts lines. A line of an order that has a line already, in any invoice, MUST be a `Conflict`.
    async fn insert_invoice_lines(&mut self, lines: &[InvoiceLine]) -> Result<(), StoreError>;
}
