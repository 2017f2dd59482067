//! Use cases: operators list payments, and see what the gateway reported about one.

use marketplace_domain::{GatewayReport, PayableId, Payment, PaymentId, PaymentStatus};

use super::orders::Deadline;
use super::{Operations, visible_tenant};
use crate::context::CommandContext;
use crate::ports::{MarketView, PaymentFilter};
use crate::use_cases::UseCaseError;
use handover_events::TenantId;
use handover_outbox::operations::{Action, Operator, count, page_of};
use handover_outbox::ports::{Numbered, StoreError};
use handover_outbox::{MASK, Page};

/// Selects payments for an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListPayments {
    /// `None`: any tenant that the operator sees.
    pub tenant: Option<TenantId>,
    pub status: Option<PaymentStatus>,
    /// Only payments with an id below this one.
    pub before: Option<PaymentId>,
    pub limit: u32,
}

/// A payment, and what the gateway reported about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPayment {
    pub payment: Payment,
    /// The change that is made to its order if nobody changes it earlier.
    pub deadline: Option<Deadline>,
    /// Sorted by id.
    pub reports: Vec<Numbered<GatewayReport>>,
}

impl Operations {
    /// Returns payments, newest first: those of the operator's tenant, or of all tenants for `platform`. At most 100,000 ids
    /// are searched for a page: it may have fewer than `limit` payments although there is a next page. The call is recorded in
    /// the audit log.
    pub async fn list_payments(
        &self,
        context: &CommandContext,
        query: ListPayments,
    ) -> Result<Page<Payment>, UseCaseError> {
        let operator = context.operator()?;
        let tenant = visible_tenant(&operator, query.tenant)?;
        let ListPayments { status, before, limit, .. } = query;
        let mut view = self.tx.view().await?;
        let filter = PaymentFilter { tenant, status, above_id: None };
        let page = page_of(view.as_mut(), filter, before.map(PaymentId::get), limit).await?;
        drop(view);
        let selection = [
            ("state", status.map(|status| status.as_str().into())),
            ("tenantId", query.tenant.map(|tenant| tenant.get().into())),
        ];
        let action = Action::read("payments.list", selection);
        action.record(&self.tx, &operator, tenant, count(page.items.len())).await?;
        Ok(page)
    }

    /// Returns one payment with the reports of the gateway; a payment of another tenant is not found. The gateway's transaction
    /// ids are masked for callers without the role `pii`. The call is recorded in the audit log.
    pub async fn find_payment(
        &self,
        context: &CommandContext,
        id: PaymentId,
    ) -> Result<FoundPayment, UseCaseError> {
        let operator = context.operator()?;
        let mut view = self.tx.view().await?;
        let found = self.payment_with_reports(view.as_mut(), &operator, id).await?;
        drop(view);
        let tenant = found.as_ref().map(|found| found.payment.tenant);
        let selection = [("paymentId", Some(id.get().into()))];
        let action = Action::read_personal_data("payments.show", &operator, selection);
        action.record(&self.tx, &operator, tenant, u64::from(found.is_some())).await?;
        let mut found = found.ok_or(UseCaseError::NotFound { what: "payment" })?;
        if !operator.sees_personal_data {
            for report in &mut found.reports {
                report.effect.transaction_id = report.effect.transaction_id.take().map(|_| MASK.to_owned());
            }
        }
        Ok(found)
    }

    async fn payment_with_reports(
        &self,
        view: &mut dyn MarketView,
        operator: &Operator,
        id: PaymentId,
    ) -> Result<Option<FoundPayment>, StoreError> {
        let is_visible = |payment: &Payment| operator.sees_all_tenants || operator.tenant == payment.tenant;
        let Some(payment) = view.payment_by_id(id).await?.filter(is_visible) else { return Ok(None) };
        let tenant = payment.tenant;
        let (deadline, mut reports) = match payment.of {
            PayableId::Order(id) => {
                let order = view.order_by_id(tenant, id).await?;
                let deadline = order.and_then(|order| self.deadline(&order));
                (deadline, view.gateway_reports_of(tenant, &[id]).await?)
            }
            PayableId::Invoice(id) => (None, view.payments_of_invoice(tenant, id).await?.reports),
        };
        reports.retain(|report| report.effect.payment == Some(id));
        Ok(Some(FoundPayment { payment, deadline, reports }))
    }
}
