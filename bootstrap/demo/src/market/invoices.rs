//! The operator generates and pays the invoices of past months, and has the last one refunded.

use marketplace_domain::{BillingPeriod, InvoiceId, Money, PaymentId, RefundId};

use super::super::client::Report;
use super::Market;

impl Market {
    /// Settles the invoice of each month.
    pub(in super::super) async fn settle_invoices(&self, months: &[BillingPeriod]) {
        for month in months {
            let is_refunded = months.last() == Some(month);
            if self.settle_invoice(*month, is_refunded).await.is_none() {
                return;
            }
            self.progress.step();
        }
    }

    async fn settle_invoice(&self, month: BillingPeriod, is_refunded: bool) -> Option<()> {
        let generated = self.api.generate_invoice(self.operator, month).await;
        let generated = self.acknowledged("invoice", generated)?;
        let invoice: InvoiceId = self.expected(generated.id("invoiceId"), "invoiceId", &generated)?;
        let started = self.acknowledged("pay", self.api.pay_invoice(self.operator, invoice).await)?;
        let payment: PaymentId = self.expected(started.id("paymentId"), "paymentId", &started)?;
        let amount: Money = self.expected(started.money("amount"), "amount", &started)?;
        let transaction = format!("txn-{payment}");
        let reported = self.api.report(payment, &transaction, amount, Report::Success).await;
        self.acknowledged("report", reported)?;
        if is_refunded {
            let requested = self.api.refund_invoice(self.operator, invoice).await;
            let requested = self.acknowledged("refund", requested)?;
            let refund: RefundId = self.expected(requested.id("refundId"), "refundId", &requested)?;
            self.acknowledged("refund report", self.api.report_refund(refund, Report::Success).await)?;
        }
        Some(())
    }
}
