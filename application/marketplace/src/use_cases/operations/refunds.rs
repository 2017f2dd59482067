//! Use cases: refunds that an operator lists, sends again, or settles by hand.

use marketplace_domain::{
    OrderAction, OrderActor, Payable, Reference, Refund, RefundId, RefundRefusal, RefundStatus,
};

use super::Operations;
use crate::cash::unreported_refunds;
use crate::claim::Call;
use crate::context::CommandContext;
use crate::events::EventFactory;
use crate::ports::{RefundFilter, Work};
use crate::privacy;
use crate::use_cases::settle_refund::{MAX_EVENTS, RefundRows, apply, rows_of};
use crate::use_cases::{RefundCommandRefusal, UseCaseError};
use handover_outbox::Page;
use handover_outbox::operations::{
    Action, Operator, Reason, changed_by_earlier_attempt, count, present_fields,
};
use handover_outbox::ports::AuditEntry;

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
        let tenant = operator.only_tenant();
        let ListRefunds { status, before, limit } = query;
        let filter = RefundFilter { tenant, status };
        let found = self.tx.view().await?.refunds_page(filter, before, limit.saturating_add(1)).await?;
        let mut page = Page::cut(found, limit, |refund| refund.id.get());
        page.items.iter_mut().for_each(|refund| privacy::mask_reason(context, refund));
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
        privacy::mask_reason(context, &mut refund);
        Ok(refund)
    }

    /// Sends a refund to the gateway again. A failed refund begins a new attempt with its own reference; its order must
    /// still allow the refund. The next request of a refund in `PROCESSING` becomes due, with the same reference; so does that of a
    /// failed one whose attempt was sent and has no report of the gateway.
    ///
    /// # Errors
    /// A refusal if the refund succeeded, if another refund returned the same money, if the gateway has not reported the
    /// result of another one that was sent, or if the order was shipped in the meantime.
    pub async fn retry_refund(
        &self,
        call: impl Into<Call<'_, Refund>>,
        id: RefundId,
        reason: Reason,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        self.change_refund(call.into(), id, reason, Change::Retry(self.ids.reference())).await
    }

    /// Records that the money of a refund was returned by other means, for example by bank transfer, or that the operator
    /// knows that the gateway returned it: the refund succeeds, and later reports about it need a decision.
    ///
    /// # Errors
    /// A refusal if the refund succeeded, or if another refund returned the same money or is returning it.
    pub async fn settle_refund_by_hand(
        &self,
        call: impl Into<Call<'_, Refund>>,
        id: RefundId,
        reason: Reason,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        self.change_refund(call.into(), id, reason, Change::SettleByHand).await
    }

    /// Makes a change once, and records it in the audit log.
    async fn change_refund(
        &self,
        call: Call<'_, Refund>,
        id: RefundId,
        reason: Reason,
        change: Change,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let operator = call.context.operator()?;
        let event_factory = self.handlers.events.factory(call.context, MAX_EVENTS);
        let selection = present_fields([("refundId", Some(id.get().into()))]);
        let action = Action { name: change.name(), selection, reason: Some(reason) };
        let entry = AuditEntry { matched: 1, ..action.entry(&operator, (1, 1), event_factory.now) };
        let input = (call.context.clone(), operator, event_factory, entry);
        call.run(&self.tx, input, move |unit, (context, operator, event_factory, entry), attempt| {
            Box::pin(async move {
                let found = unit.refund_by_id(id).await?.filter(|refund| is_visible(operator, refund));
                let mut refund = found.ok_or(UseCaseError::NotFound { what: "refund" })?;
                let entry = AuditEntry { tenant: refund.tenant, ..entry.clone() };
                if changed_by_earlier_attempt(unit.outbox(), attempt, &entry).await?.is_none() {
                    refund = change.apply(unit, refund, &operator.name, event_factory).await?;
                    unit.outbox().audit(&AuditEntry { changed: 1, ..entry }).await?;
                }
                privacy::mask_reason(context, &mut refund);
                Ok(refund)
            })
        })
        .await
    }
}

/// Change of a refund by an operator.
#[derive(Clone, Copy)]
enum Change {
    /// Sends it to the gateway again; a new attempt has this reference.
    Retry(Reference),
    SettleByHand,
}

impl Change {
    /// Name in the audit log.
    const fn name(self) -> &'static str {
        match self {
            Change::Retry(_) => "refund.retry",
            Change::SettleByHand => "refund.settle",
        }
    }

    async fn apply(
        self,
        unit: &mut Work,
        refund: Refund,
        operator: &str,
        event_factory: &EventFactory,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let RefundRows { payable, capture, others } = rows_of(unit, &refund).await?;
        let now = event_factory.now;
        let reference = match self {
            Change::Retry(reference) => reference,
            Change::SettleByHand => {
                let decision =
                    refund.settle_by_hand(operator.to_owned(), &payable, &capture, &others, now)?;
                return apply(unit, &refund, &payable, decision, OrderActor::Operator, event_factory).await;
            }
        };
        let (after, replaced) = refund.retry(reference, &capture, &others, now)?;
        if refund.status == RefundStatus::Failed {
            let of_capture: Vec<Refund> = others.iter().chain([&refund]).cloned().collect();
            let unreported = unreported_refunds(unit, &payable, &capture, &of_capture).await?;
            if unreported == [refund.id] {
                let after = refund.resend(&capture, &others, now)?;
                unit.advance_refund(&after).await?.or_conflict("refund")?;
                return Ok(after);
            }
            if let Some(other) = unreported.into_iter().find(|id| *id != refund.id) {
                return Err(RefundRefusal::ResultUnknown { refund: other }.into());
            }
        }
        let pays = refund.status == RefundStatus::Failed && !capture.refund_due;
        if let (true, Payable::Order(order)) = (pays, &payable) {
            let begin = OrderAction::BeginRefund { refund: refund.id };
            let (started, _) = order.apply(&begin, OrderActor::Operator, now)?;
            unit.advance_order(&started).await?.or_conflict("order")?;
        }
        if let Some(replaced) = replaced {
            unit.insert_superseded_attempt(&replaced).await?;
        }
        unit.advance_refund(&after).await?.or_conflict("refund")?;
        Ok(after)
    }
}

fn is_visible(operator: &Operator, refund: &Refund) -> bool {
    operator.sees_all_tenants || refund.tenant == operator.tenant
}
