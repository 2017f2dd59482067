//! Use cases: refunds that an operator lists, sends again, or settles by hand.

use chrono::{DateTime, Utc};
use marketplace_domain::{OrderAction, OrderActor, Refund, RefundCause, RefundId, RefundStatus};

use super::Operations;
use crate::context::CommandContext;
use crate::idempotency::with_stored_response;
use crate::ports::RefundFilter;
use crate::privacy;
use crate::ticket::SuccessStatus;
use crate::use_cases::settle_refund::{MAX_EVENTS, RefundRows, apply, rows_of};
use crate::use_cases::{RefundCommandRefusal, UseCaseError, one_row};
use handover_outbox::operations::{
    Action, Operator, Reason, changed_by_earlier_attempt, count, present_fields,
};
use handover_outbox::ports::AuditEntry;
use handover_outbox::{MASK, Page};

/// Selects refunds for an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListRefunds {
    pub status: Option<RefundStatus>,
    /// Only refunds with an id below this one.
    pub before: Option<RefundId>,
    pub limit: u32,
}

impl Operations {
    /// Returns refunds, newest first: those of the operator's tenant, or of all tenants for `platform`. Reasons that buyers
    /// wrote are masked for callers without the role `pii`. The call is recorded in the audit log.
    pub async fn list_refunds(
        &self,
        context: &CommandContext,
        query: ListRefunds,
    ) -> Result<Page<Refund>, UseCaseError> {
        let operator = context.operator()?;
        let tenant = (!operator.sees_all_tenants).then_some(operator.tenant);
        let ListRefunds { status, before, limit } = query;
        let filter = RefundFilter { tenant, status };
        let found = self.tx.view().await?.refunds_page(filter, before, limit.saturating_add(1)).await?;
        let mut page = Page::cut(found, limit, |refund| refund.id.get());
        page.items.iter_mut().for_each(|refund| mask_reason(context, refund));
        let state = status.map(|status| status.as_str().into());
        let action = Action::read_personal_data("refunds.list", &operator, [("state", state)]);
        action.record(&self.tx, &operator, tenant, count(page.items.len())).await?;
        Ok(page)
    }

    /// Returns one refund; a refund of another tenant is not found. The call is recorded in the audit log.
    pub async fn find_refund(&self, context: &CommandContext, id: RefundId) -> Result<Refund, UseCaseError> {
        let operator = context.operator()?;
        let found =
            self.tx.view().await?.refund_by_id(id).await?.filter(|refund| is_visible(&operator, refund));
        let tenant = found.as_ref().map(|refund| refund.tenant);
        let action =
            Action::read_personal_data("refunds.show", &operator, [("refundId", Some(id.get().into()))]);
        action.record(&self.tx, &operator, tenant, u64::from(found.is_some())).await?;
        let mut refund = found.ok_or(UseCaseError::NotFound { what: "refund" })?;
        mask_reason(context, &mut refund);
        Ok(refund)
    }

    /// Sends a refund to the gateway again. A failed refund begins a new attempt with its own reference; its order must still
    /// allow the refund. The next request of a refund in `PROCESSING` becomes due, with the same reference.
    ///
    /// # Errors
    /// A refusal if the refund succeeded, if another refund returned the same money, or if the order was shipped in the
    /// meantime.
    pub async fn retry_refund(
        &self,
        context: &CommandContext,
        id: RefundId,
        reason: Reason,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let operator = context.operator()?;
        let now = self.tx.now();
        let reference = self.ids.reference();
        let entry = entry("refund.retry", &operator, id, reason, self.tx.now());
        let context_of_caller = context.clone();
        with_stored_response(&self.tx, context, SuccessStatus::Ok, move |unit, attempt| {
            let operator = operator.clone();
            let entry = entry.clone();
            let context = context_of_caller.clone();
            Box::pin(async move {
                let refund = find_visible(unit.refund_by_id(id).await?, &operator)?;
                let entry = AuditEntry { tenant: refund.tenant, ..entry };
                let done = changed_by_earlier_attempt(unit.outbox(), attempt, &entry).await?.is_some();
                if done {
                    return Ok(masked(&context, refund));
                }
                let RefundRows { order, capture, others } = rows_of(unit, &refund).await?;
                let (after, replaced) = refund.retry(reference, &capture, &others, now)?;
                if refund.status == RefundStatus::Failed && !capture.refund_due {
                    let begin = OrderAction::BeginRefund { refund: id };
                    let (started, _) = order.apply(&begin, OrderActor::Operator, now)?;
                    one_row(unit.advance_order(&started).await?, "order")?;
                }
                if let Some(replaced) = replaced {
                    unit.insert_superseded_attempt(&replaced).await?;
                }
                one_row(unit.advance_refund(&after).await?, "refund")?;
                unit.outbox().audit(&AuditEntry { changed: 1, ..entry }).await?;
                Ok(masked(&context, after))
            })
        })
        .await
    }

    /// Records that the money of a refund was returned by other means, for example by bank transfer, or that the operator knows
    /// that the gateway returned it: the refund succeeds, and later reports about it need a decision.
    ///
    /// # Errors
    /// A refusal if the refund succeeded, or if another refund returned the same money or is returning it.
    pub async fn settle_refund_by_hand(
        &self,
        context: &CommandContext,
        id: RefundId,
        reason: Reason,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let operator = context.operator()?;
        let event_factory = self.rules.events.factory(context, MAX_EVENTS);
        let entry = entry("refund.settle", &operator, id, reason, self.tx.now());
        let context_of_caller = context.clone();
        with_stored_response(&self.tx, context, SuccessStatus::Ok, move |unit, attempt| {
            let operator = operator.clone();
            let entry = entry.clone();
            let event_factory = event_factory.clone();
            let context = context_of_caller.clone();
            Box::pin(async move {
                let refund = find_visible(unit.refund_by_id(id).await?, &operator)?;
                let entry = AuditEntry { tenant: refund.tenant, ..entry };
                let done = changed_by_earlier_attempt(unit.outbox(), attempt, &entry).await?.is_some();
                if done {
                    return Ok(masked(&context, refund));
                }
                let RefundRows { order, capture, others } = rows_of(unit, &refund).await?;
                let now = event_factory.now;
                let decision =
                    refund.settle_by_hand(operator.name.clone(), &order, &capture, &others, now)?;
                let settled =
                    apply(unit, &refund, &order, decision, OrderActor::Operator, &event_factory).await?;
                unit.outbox().audit(&AuditEntry { changed: 1, ..entry }).await?;
                Ok(masked(&context, settled))
            })
        })
        .await
    }
}

/// Audit entry of a command on one refund. Its tenant is set when the refund has been read.
fn entry(
    name: &'static str,
    operator: &Operator,
    id: RefundId,
    reason: Reason,
    at: DateTime<Utc>,
) -> AuditEntry {
    let selection = present_fields([("refundId", Some(id.get().into()))]);
    let action = Action { name, selection, reason: Some(reason) };
    AuditEntry { matched: 1, ..action.entry(operator, (1, 1), at) }
}

fn is_visible(operator: &Operator, refund: &Refund) -> bool {
    operator.sees_all_tenants || refund.tenant == operator.tenant
}

fn find_visible<R>(found: Option<Refund>, operator: &Operator) -> Result<Refund, UseCaseError<R>> {
    found.filter(|refund| is_visible(operator, refund)).ok_or(UseCaseError::NotFound { what: "refund" })
}

fn mask_reason(context: &CommandContext, refund: &mut Refund) {
    if refund.cause == RefundCause::Buyer && !privacy::sees_personal_data(context) {
        refund.reason = MASK.to_owned();
    }
}

fn masked(context: &CommandContext, mut refund: Refund) -> Refund {
    mask_reason(context, &mut refund);
    refund
}
