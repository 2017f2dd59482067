//! Snapshot of invoices with their payments, refunds and ledger operations.

use handover_outbox::ports::StoreError;
use marketplace::ports::{InvoiceFilter, InvoicePayments, MarketView};
use marketplace_domain::{AssetOperation, Invoice, OperationKey};

use super::PAGE;

/// An invoice and the rows that a promise compares with it.
#[derive(Debug, Clone)]
pub(in super::super) struct InvoiceRows {
    pub(in super::super) invoice: Invoice,
    pub(in super::super) money: InvoicePayments,
    pub(in super::super) operations: Vec<AssetOperation>,
}

impl InvoiceRows {
    /// Reads every invoice.
    pub(super) async fn read(view: &mut dyn MarketView) -> Result<Vec<InvoiceRows>, StoreError> {
        let mut all = Vec::new();
        for invoice in view.invoices_page(InvoiceFilter::default(), None, PAGE).await? {
            let money = view.payments_of_invoice(invoice.tenant, invoice.id).await?;
            let mut keys = vec![OperationKey::invoice_capture(invoice.id)];
            keys.extend(money.refunds.iter().map(|refund| OperationKey::payout(refund.id, 1)));
            let operations = view.operations_by_key(invoice.tenant, &keys).await?;
            all.push(InvoiceRows { invoice, money, operations });
        }
        Ok(all)
    }
}
