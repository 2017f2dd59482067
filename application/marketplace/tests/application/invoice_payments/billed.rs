//! A pending invoice, its payments and its refunds.

use chrono::TimeDelta;
use handover_outbox::operations::Reason;
use marketplace::ports::InvoicePayments;
use marketplace::use_cases::operations::{GRACE, Reconcile};
use marketplace::use_cases::*;
use marketplace::{CommandContext, Role};
use marketplace_domain::*;

use crate::invoices::{add, completed, generate, operator, platform, tenant};
use crate::support::{Process, World, gateway, report};

/// The tenant of the invoice.
pub(super) const OWNER: i64 = 7;

/// A pending invoice over 2.21 of tenant 7.
pub(super) struct Billed {
    pub(super) world: World,
    pub(super) process: Process,
    pub(super) invoice: InvoiceId,
}

pub(super) fn owner() -> CommandContext {
    operator(OWNER, &[Role::Operator])
}

pub(super) fn reason() -> Reason {
    Reason::new("billed twice".to_owned()).unwrap()
}

impl Billed {
    pub(super) async fn new() -> Billed {
        Billed::over(8_850).await
    }

    /// The invoice of one order with this total.
    pub(super) async fn over(total: i64) -> Billed {
        let world = World::new().await;
        let process = world.process();
        add(&process, &[completed(1, OWNER, total, "2026-01-15T00:00:00Z")]).await;
        let invoice = generate(&process, OWNER, "2026-01").await.unwrap().id;
        Billed { world, process, invoice }
    }

    pub(super) async fn start(&self) -> Payment {
        self.process.app.payments.pay_invoice(&owner(), self.payment(None)).await.unwrap()
    }

    pub(super) const fn payment(&self, method: Option<PaymentMethod>) -> PayInvoice {
        PayInvoice { invoice: self.invoice, method }
    }

    pub(super) async fn report(
        &self,
        payment: &Payment,
        transaction: &str,
        result: PaymentResult,
    ) -> Payment {
        let mut command = report(payment, result);
        command.report.transaction_id = transaction.to_owned();
        self.process.app.payments.settle(&gateway(), command).await.unwrap()
    }

    pub(super) async fn paid(&self) -> Payment {
        let payment = self.start().await;
        self.report(&payment, "txn-1", PaymentResult::Success).await
    }

    pub(super) async fn refund(&self) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let command = RefundInvoice { invoice: self.invoice, reason: reason() };
        self.process.app.payments.refund_invoice(&platform(), command).await
    }

    pub(super) async fn report_refund(&self, refund: &Refund, result: RefundResult) -> Refund {
        let command =
            SettleRefund { refund: refund.id.into(), result, transaction_id: None, body_hash: String::new() };
        self.process.app.payments.settle_refund(&gateway(), command).await.unwrap()
    }

    pub(super) async fn invoice(&self) -> Invoice {
        self.world.view().await.invoice_by_id(self.invoice).await.unwrap().unwrap()
    }

    pub(super) async fn status(&self) -> InvoiceStatus {
        self.invoice().await.status
    }

    pub(super) async fn rows(&self) -> InvoicePayments {
        self.world.view().await.payments_of_invoice(tenant(OWNER), self.invoice).await.unwrap()
    }

    /// Payloads of the events of this type.
    pub(super) async fn payloads(&self, event_type: &str) -> Vec<serde_json::Value> {
        let rows = self.world.rows().await;
        let of_type = rows.iter().filter(|row| row.event_type == event_type);
        of_type
            .map(|row| {
                assert_eq!(row.aggregate.tenant, tenant(OWNER));
                serde_json::from_str(&row.payload).unwrap()
            })
            .collect()
    }

    /// The total of an account of the tenant.
    pub(super) async fn total(&self, account: Account) -> i64 {
        let totals = self.world.view().await.account_totals(Some(tenant(OWNER))).await.unwrap();
        totals.into_iter().find(|total| total.account == account).map_or(0, |total| total.total)
    }

    /// Keys and owners of the operations with these keys.
    pub(super) async fn booked(&self, keys: &[String]) -> Vec<(String, Option<UserId>)> {
        let keys: Vec<OperationKey> = keys.iter().cloned().map(OperationKey::stored).collect();
        let found = self.world.view().await.operations_by_key(tenant(OWNER), &keys).await.unwrap();
        let mut booked: Vec<_> = found.into_iter().map(|it| (it.key.to_string(), it.user)).collect();
        booked.sort();
        booked
    }

    /// Kind, key and description of the findings about invoices of all tenants.
    pub(super) async fn findings(&self) -> Vec<(FindingKind, Option<String>, String)> {
        let now = self.process.app.now();
        let query = Reconcile {
            tenant: None,
            since: now - TimeDelta::days(1),
            until: now + TimeDelta::seconds(1),
            grace: GRACE,
            repair: true,
            reason: None,
        };
        let operator = platform().operator().unwrap();
        let report = self.process.app.operations.reconcile(&operator, query).await.unwrap();
        let kinds = [FindingKind::NotBooked, FindingKind::InvoiceDiffers, FindingKind::MissingEvent];
        // The orders have no events: they were inserted as completed ones.
        let found = report.findings.into_iter().filter(|it| kinds.contains(&it.kind) && it.order.is_none());
        found.map(|it| (it.kind, it.key, it.what)).collect()
    }
}
