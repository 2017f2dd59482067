//! Money that passed through the payment gateway: captures of payments, and their ledger postings.

use marketplace_domain::{
    Account, Asset, AssetOperation, Capture, Entry, OperationKey, OperationKind, Payable, PayableId, Payment,
    Posting, Refund, RefundId, RefundRefusal, RefundStatus,
};

use crate::error::{RefundCommandRefusal, UseCaseError};
use crate::events::EventFactory;
use crate::ports::{InvoicePayments, Work};
use handover_events::{EventId, TenantId};
use handover_outbox::ports::StoreError;

/// Every capture of these payments: the stored ones, and those of payments that an earlier version settled.
pub(crate) fn captures_of(payments: &[Payment], stored: Vec<Capture>) -> Vec<Capture> {
    let is_stored = |capture: &Capture| {
        stored.iter().any(|it| (it.payment, &it.transaction_id) == (capture.payment, &capture.transaction_id))
    };
    let implied: Vec<Capture> =
        payments.iter().filter_map(Capture::implied_by).filter(|capture| !is_stored(capture)).collect();
    let mut all = stored;
    all.extend(implied);
    all.sort_by_key(|capture| (capture.payment, capture.number));
    all
}

/// Reads an order or invoice.
pub(crate) async fn payable(
    unit: &mut Work,
    tenant: TenantId,
    id: PayableId,
) -> Result<Option<Payable>, StoreError> {
    Ok(match id {
        PayableId::Order(id) => unit.order_by_id(tenant, id).await?.map(Payable::Order),
        PayableId::Invoice(id) => {
            unit.invoice_by_id(id).await?.filter(|invoice| invoice.tenant == tenant).map(Payable::Invoice)
        }
    })
}

/// Reads every capture of a payment.
pub(crate) async fn captures_of_payment(
    unit: &mut Work,
    payment: &Payment,
) -> Result<Vec<Capture>, StoreError> {
    let stored = match payment.of {
        PayableId::Order(order) => unit.captures_of(payment.tenant, &[order]).await?,
        PayableId::Invoice(invoice) => unit.payments_of_invoice(payment.tenant, invoice).await?.captures,
    };
    let mut captures = captures_of(std::slice::from_ref(payment), stored);
    captures.retain(|capture| capture.payment == payment.id);
    Ok(captures)
}

/// Refuses to send a refund of this capture while the gateway has not reported the result of an earlier attempt at one that
/// was sent: it may still pay the same money.
pub(crate) async fn require_reports_of_sent_refunds(
    unit: &mut Work,
    payable: &Payable,
    capture: &Capture,
    refunds: &[Refund],
) -> Result<(), UseCaseError<RefundCommandRefusal>> {
    match unreported_refunds(unit, payable, capture, refunds).await?.first() {
        Some(refund) => Err(RefundRefusal::ResultUnknown { refund: *refund }.into()),
        None => Ok(()),
    }
}

/// The failed refunds of this capture whose current attempt was sent and has no report of the gateway.
pub(crate) async fn unreported_refunds(
    unit: &mut Work,
    payable: &Payable,
    capture: &Capture,
    refunds: &[Refund],
) -> Result<Vec<RefundId>, StoreError> {
    let may_pay = |refund: &&Refund| capture.is_refunded_by(refund) && refund.may_lack_report();
    let mut unreported: Vec<&Refund> = refunds.iter().filter(may_pay).collect();
    if unreported.is_empty() {
        return Ok(Vec::new());
    }
    let reports = match payable {
        Payable::Order(order) => unit.gateway_reports_of(order.tenant, &[order.id]).await?,
        Payable::Invoice(invoice) => unit.payments_of_invoice(invoice.tenant, invoice.id).await?.reports,
    };
    unreported.retain(|refund| {
        let attempt = (Some(refund.id), Some(refund.attempt));
        !reports.iter().any(|report| (report.effect.refund, report.effect.attempt) == attempt)
    });
    Ok(unreported.into_iter().map(|refund| refund.id).collect())
}

/// The money that was captured for an order or invoice, and its refunds.
pub(crate) struct CapturedMoney {
    pub(crate) payments: Vec<Payment>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) refunds: Vec<Refund>,
}

impl CapturedMoney {
    pub(crate) async fn read(unit: &mut Work, payable: &Payable) -> Result<CapturedMoney, StoreError> {
        let (payments, stored, refunds) = match payable {
            Payable::Order(order) => {
                let orders = [order.id];
                let payments = unit.payments_of(order.tenant, &orders).await?;
                let captures = unit.captures_of(order.tenant, &orders).await?;
                (payments, captures, unit.refunds_of(order.tenant, &orders).await?)
            }
            Payable::Invoice(invoice) => {
                let InvoicePayments { payments, captures, refunds, .. } =
                    unit.payments_of_invoice(invoice.tenant, invoice.id).await?;
                (payments, captures, refunds)
            }
        };
        let captures = captures_of(&payments, stored);
        Ok(CapturedMoney { payments, captures, refunds })
    }

    /// The capture that paid the order or invoice.
    pub(crate) fn paying(&self) -> Option<&Capture> {
        self.captures.iter().find(|capture| !capture.refund_due)
    }

    /// A capture that buys nothing and has neither a refund in processing nor a successful refund.
    pub(crate) fn open(&self) -> Option<&Capture> {
        self.captures
            .iter()
            .find(|capture| capture.refund_due && capture.live_refund(&self.refunds).is_none())
    }

    pub(crate) fn payment_of(&self, capture: &Capture) -> Result<&Payment, RefundRefusal> {
        let payment = self.payments.iter().find(|payment| payment.id == capture.payment);
        payment.ok_or(RefundRefusal::NothingToRefund)
    }
}

/// Posting of a captured amount; empty for 0. `event` announces the capture, if an event does.
pub(crate) fn captured(
    capture: &Capture,
    payment: &Payment,
    payable: &Payable,
    event: Option<&EventId>,
    event_factory: &EventFactory,
) -> Vec<Posting> {
    let key = capture.operation_key(payment);
    let money = Movement { kind: OperationKind::Capture, refund: None, amount: capture.amount.minor() };
    money.posting(key, (Account::Gateway, capture.account()), payable, event, event_factory)
}

/// Posting of the money that the refund paid out when it succeeded last; empty for 0.
pub(crate) fn paid_out(
    refund: &Refund,
    payout: u32,
    from: Account,
    payable: &Payable,
    event_factory: &EventFactory,
) -> Vec<Posting> {
    let key = OperationKey::payout(refund.id, payout);
    let money =
        Movement { kind: OperationKind::Payout, refund: Some(refund.id), amount: refund.amount.minor() };
    money.posting(key, (from, Account::Gateway), payable, event_factory.first_id(), event_factory)
}

/// Posting of the money that came back when the refund failed after its last success; empty for 0.
pub(crate) fn reversed(
    refund: &Refund,
    payout: u32,
    to: Account,
    payable: &Payable,
    event_factory: &EventFactory,
) -> Vec<Posting> {
    let key = OperationKey::reversal(refund.id, payout);
    let money =
        Movement { kind: OperationKind::Capture, refund: Some(refund.id), amount: refund.amount.minor() };
    money.posting(key, (Account::Gateway, to), payable, event_factory.first_id(), event_factory)
}

/// The postings that a refund must have: for each payout, and for each payout that was reversed.
pub(crate) fn postings_of_refund(
    refund: &Refund,
    capture: &Capture,
    payable: &Payable,
    event_factory: &EventFactory,
) -> Vec<Posting> {
    let reversals = reversals(refund);
    let payouts = (1..=refund.payouts).flat_map(|number| {
        let from = payout_account(refund, number, reversals, capture);
        paid_out(refund, number, from, payable, event_factory)
    });
    let to = if refund.is_excess { Account::Suspense } else { capture.account() };
    let reversed = (1..=reversals).flat_map(|number| reversed(refund, number, to, payable, event_factory));
    payouts.chain(reversed).collect()
}

/// The operations that the ledger must have for a refund of an amount above 0.
pub(crate) fn operations_of_refund(refund: &Refund) -> Vec<(OperationKind, OperationKey)> {
    let payouts = (1..=refund.payouts).map(|it| (OperationKind::Payout, OperationKey::payout(refund.id, it)));
    let reversals =
        (1..=reversals(refund)).map(|it| (OperationKind::Capture, OperationKey::reversal(refund.id, it)));
    payouts.chain(reversals).collect()
}

/// Number of times that the refund failed after it had succeeded.
fn reversals(refund: &Refund) -> u32 {
    let current = u32::from(refund.status == RefundStatus::Success);
    refund.payouts.saturating_sub(current)
}

/// The account that a payout was made from. Only the first payout of a requested refund is made from the platform's
/// account if the money came back later.
fn payout_account(refund: &Refund, number: u32, reversals: u32, capture: &Capture) -> Account {
    if refund.is_excess {
        Account::Suspense
    } else if number == 1 && reversals > 0 && refund.cause.is_requested() {
        Account::Platform
    } else {
        capture.account()
    }
}

/// An amount of money in minor units.
struct Movement {
    kind: OperationKind,
    refund: Option<RefundId>,
    amount: i64,
}

impl Movement {
    fn posting(
        self,
        key: OperationKey,
        (from, to): (Account, Account),
        payable: &Payable,
        event: Option<&EventId>,
        event_factory: &EventFactory,
    ) -> Vec<Posting> {
        let Movement { kind, refund, amount } = self;
        if amount == 0 {
            return Vec::new();
        }
        vec![Posting {
            operation: AssetOperation {
                tenant: payable.tenant(),
                key,
                asset: Asset::Cash,
                kind,
                user: payable.buyer(),
                order: payable.id().order(),
                refund,
                coupon: None,
                amount,
                balance_after: None,
                event_id: event.cloned(),
                trace_id: Some(event_factory.trace_id().to_owned()),
                at: event_factory.now,
            },
            entries: vec![Entry::own(from, -amount), Entry::own(to, amount)],
        }]
    }
}
