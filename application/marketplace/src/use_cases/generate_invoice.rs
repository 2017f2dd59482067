//! Use case: generate the invoice of a tenant for a month. Triggered by a job and by an operator of all tenants.
//!
//! **Invariant:** the orders of a closed period do not change, so that they are read before the unit of work, which only
//! writes. The invoice, its lines and its event are one unit of work, and the key (tenant, period) is unique.

use std::sync::Arc;

use handover_events::{TenantId, Trace};
use handover_outbox::Attempt;
use handover_outbox::operations::{Action, count, record_already_done};
use handover_outbox::ports::AuditEntry;
use marketplace_domain::{
    BilledOrder, BillingPeriod, FeeRate, GeneratedInvoice, Invoice, InvoiceId, InvoiceRefusal, NewInvoice,
};
use tracing::info;

use super::{Invoicing, UseCaseError};
use crate::claim::Call;
use crate::context::{Actor, CommandContext, Role};
use crate::error::NotAllowed;
use crate::event_types::append;
use crate::events::EventFactory;
use crate::ids::{require_unused, with_unused_ids};
use crate::metrics::INVOICES;
use crate::ports::{IdKind, Work};

/// The invoice to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerateInvoice {
    /// `None`: the tenant of the operator.
    pub tenant: Option<TenantId>,
    pub period: BillingPeriod,
}

/// Number of orders that are read at a time.
const PAGE: u32 = 1_000;

impl Invoicing {
    /// Generates the invoice of a tenant for a closed period, also of one before `invoice.from`. If the invoice exists, it is
    /// returned. The call is recorded in the audit log.
    ///
    /// # Errors
    /// [`UseCaseError::NotFound`]: the tenant has no orders. A refusal if the period is not closed or has no completed orders.
    pub async fn generate(
        &self,
        call: impl Into<Call<'_, Invoice>>,
        command: GenerateInvoice,
    ) -> Result<Invoice, UseCaseError<InvoiceRefusal>> {
        let call = call.into();
        let operator = call.context.operator()?;
        if !call.context.has(Role::Platform) {
            return Err(NotAllowed { what: "the role platform" }.into());
        }
        let tenant = command.tenant.unwrap_or(call.context.tenant);
        let selection =
            [("tenantId", Some(tenant.get().into())), ("period", Some(command.period.to_string().into()))];
        let action = Action::read("invoice.generate", selection);
        let entry =
            AuditEntry { tenant, matched: 1, changed: 1, ..action.entry(&operator, (1, 1), self.tx.now()) };
        self.generate_for(&call, tenant, command.period, Some(entry)).await
    }

    /// Generates the invoice of a tenant for a period, for the job. If the invoice exists, it is returned.
    pub(crate) async fn generate_due(
        &self,
        tenant: TenantId,
        period: BillingPeriod,
    ) -> Result<Invoice, UseCaseError<InvoiceRefusal>> {
        let trace = Trace { trace_id: format!("invoice-{tenant}-{period}"), traceparent: None };
        let context = CommandContext { actor: Actor::System("invoices"), tenant, trace, request_id: None };
        self.generate_for(&Call::from(&context), tenant, period, None).await
    }

    async fn generate_for(
        &self,
        call: &Call<'_, Invoice>,
        tenant: TenantId,
        period: BillingPeriod,
        entry: Option<AuditEntry>,
    ) -> Result<Invoice, UseCaseError<InvoiceRefusal>> {
        period.require_closed(self.tx.now())?;
        let orders = self.orders_to_bill(tenant, period).await?;
        let orders = Arc::new(orders);
        with_unused_ids(&self.ids, || async {
            let id: InvoiceId = self.ids.next(IdKind::Invoice).await?;
            let attempted = AttemptedInvoice {
                tenant,
                period,
                id,
                fee_rate: self.fee_rate,
                orders: Arc::clone(&orders),
                event_factory: self.events.factory(call.context, 1),
                trace: call.context.trace.clone(),
                entry: entry.clone(),
            };
            let invoice = call
                .run(&self.tx, attempted, |unit, attempted, attempt| Box::pin(attempted.run(unit, attempt)))
                .await?;
            if invoice.id == id {
                metrics::counter!(INVOICES).increment(1);
                info!(code = "invoice.generated", invoiceId = %id, tenantId = %tenant, %period, orders = invoice.orders, total = %invoice.total, "[Invoices] invoice generated");
            }
            Ok(invoice)
        })
        .await
    }

    /// The completed orders of a period; empty if its invoice exists.
    async fn orders_to_bill(
        &self,
        tenant: TenantId,
        period: BillingPeriod,
    ) -> Result<Vec<BilledOrder>, UseCaseError<InvoiceRefusal>> {
        let mut view = self.tx.view().await?;
        if view.invoice_of_period(tenant, period).await?.is_some() {
            return Ok(Vec::new());
        }
        let before = TenantId::try_from(tenant.get() - 1).ok();
        if view.tenant_with_orders(before).await? != Some(tenant) {
            return Err(UseCaseError::NotFound { what: "tenant" });
        }
        let mut orders: Vec<BilledOrder> = Vec::new();
        loop {
            let after = orders.last().map(|last| (last.complete_time, last.order));
            let page = view.completed_orders(tenant, period.start(), period.end(), after, PAGE).await?;
            let is_last = count(page.len()) < u64::from(PAGE);
            orders.extend(page);
            if is_last {
                return Ok(orders);
            }
        }
    }
}

/// An invoice to generate, with the id and the time that each attempt of its unit of work uses.
struct AttemptedInvoice {
    tenant: TenantId,
    period: BillingPeriod,
    id: InvoiceId,
    fee_rate: FeeRate,
    orders: Arc<Vec<BilledOrder>>,
    event_factory: EventFactory,
    trace: Trace,
    /// The audit entry, if an operator generates the invoice.
    entry: Option<AuditEntry>,
}

impl AttemptedInvoice {
    async fn run(&self, unit: &mut Work, attempt: Attempt) -> Result<Invoice, UseCaseError<InvoiceRefusal>> {
        if let Some(existing) = unit.invoice_of_period(self.tenant, self.period).await? {
            if let Some(entry) = &self.entry {
                record_already_done(unit.outbox(), attempt, entry).await?;
            }
            return Ok(existing);
        }
        if attempt.is_repeated() {
            require_unused(unit, IdKind::Invoice, self.id.get()).await?;
        }
        let new = NewInvoice {
            id: self.id,
            tenant: self.tenant,
            period: self.period,
            fee_rate: self.fee_rate,
            trace: &self.trace,
            now: self.event_factory.now,
        };
        let GeneratedInvoice { invoice, lines, event } = Invoice::generate(new, &self.orders)?;
        // Another process that generates this invoice waits for the unique key.
        unit.insert_invoice(&invoice).await?;
        unit.insert_invoice_lines(&lines).await?;
        let rows = self.event_factory.rows_of_tenant(0, self.tenant, invoice.version, &[event]);
        append(unit.outbox(), rows).await?;
        if let Some(entry) = &self.entry {
            unit.outbox().audit(entry).await?;
        }
        Ok(invoice)
    }
}
