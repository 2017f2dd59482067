//! Use cases: the buyer starts the payment of an order, an operator that of an invoice.

use std::time::Duration;

use handover_events::{TenantId, Trace};
use handover_outbox::Attempt;
use handover_outbox::operations::{
    Action, Operator, changed_by_earlier_attempt, present_fields, record_already_done,
};
use handover_outbox::ports::{AuditEntry, StoreError};
use marketplace_domain::{
    Currency, InvoiceId, InvoiceRefusal, Money, OrderActor, OrderId, OrderRefusal, Payable, Payment,
    PaymentId, PaymentMethod, PaymentResult, PaymentStatus, Reference, RefundId, Settlement, UserId,
};

use super::invoicing::is_visible;
use super::queries::{OrderPayment, payment_deadline};
use super::settle_payment::{SettlementContext, apply, require_locked_assets};
use super::{PaymentCommandRefusal, Payments, UseCaseError};
use crate::claim::Call;
use crate::events::EventFactory;
use crate::ids::{id_in_use, with_unused_ids};
use crate::ports::{IdKind, Work};

/// The payment of an order to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPayment {
    pub order: OrderId,
    /// `None`: that of the payment in `PROCESSING`, or else the default.
    pub method: Option<PaymentMethod>,
}

/// The payment of an invoice to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayInvoice {
    pub invoice: InvoiceId,
    /// `None`: that of the payment in `PROCESSING`, or else the default.
    pub method: Option<PaymentMethod>,
}

impl Payments {
    /// Starts the payment of the caller's pending order. An order has at most one payment in `PROCESSING`; if there is one,
    /// it is returned, unless the command names another method. If assets cover the whole price, the order is paid immediately, without
    /// the gateway.
    pub async fn start(
        &self,
        call: impl Into<Call<'_, OrderPayment>>,
        command: StartPayment,
    ) -> Result<OrderPayment, UseCaseError<PaymentCommandRefusal>> {
        let call = call.into();
        let payer = Payer::Buyer { user: call.context.require_user()?, order: command.order };
        self.start_by(&call, payer, command.method).await
    }

    /// Starts the payment of a pending invoice, like that of an order, for an operator of its tenant or of all tenants. The
    /// call is recorded in the audit log.
    pub async fn pay_invoice(
        &self,
        call: impl Into<Call<'_, Payment>>,
        command: PayInvoice,
    ) -> Result<Payment, UseCaseError<PaymentCommandRefusal>> {
        let call = call.into();
        let operator = call.context.operator()?;
        let method = command.method.map(|method| method.as_str().into());
        let selection =
            present_fields([("invoiceId", Some(command.invoice.get().into())), ("paymentMethod", method)]);
        let action = Action { name: "invoice.pay", selection, reason: None };
        let entry = action.entry(&operator, (1, 1), self.tx.now());
        let entry = Box::new(AuditEntry { changed: 1, ..entry });
        self.start_by(&call, Payer::Operator { operator, invoice: command.invoice, entry }, command.method)
            .await
    }

    async fn start_by<T: From<OrderPayment> + Send + Sync + 'static>(
        &self,
        call: &Call<'_, T>,
        payer: Payer,
        method: Option<PaymentMethod>,
    ) -> Result<T, UseCaseError<PaymentCommandRefusal>> {
        with_unused_ids(&self.ids, || async {
            let attempted = AttemptedPayment {
                payer: payer.clone(),
                method,
                tenant: call.context.tenant,
                id: self.ids.next(IdKind::Payment).await?,
                reference: self.ids.reference(),
                refund: (self.ids.next(IdKind::Refund).await?, self.ids.reference()),
                event_factory: self.events.factory(call.context, 2),
                trace: call.context.trace.clone(),
                pending_timeout: self.pending_timeout,
            };
            call.run(&self.tx, attempted, |unit, attempted, attempt| {
                Box::pin(async move { attempted.run(unit, attempt).await.map(T::from) })
            })
            .await
        })
        .await
    }
}

/// The caller, and what the caller pays for.
#[derive(Clone)]
enum Payer {
    Buyer { user: UserId, order: OrderId },
    Operator { operator: Operator, invoice: InvoiceId, entry: Box<AuditEntry> },
}

impl Payer {
    /// The order or invoice, if the caller may pay it.
    async fn payable(
        &self,
        unit: &mut Work,
        tenant: TenantId,
    ) -> Result<Payable, UseCaseError<PaymentCommandRefusal>> {
        match self {
            Payer::Buyer { user, order } => {
                let order = unit.order_of_party(tenant, *order, *user).await?;
                let order = order.ok_or(UseCaseError::NotFound { what: "order" })?;
                let actor = order.role_of(*user);
                if actor != OrderActor::Buyer {
                    return Err(OrderRefusal::NotAllowed { actor, action: "pay" }.into());
                }
                Ok(Payable::Order(order))
            }
            Payer::Operator { operator, invoice, .. } => {
                let invoice = unit.invoice_by_id(*invoice).await?.filter(|it| is_visible(operator, it));
                invoice.map(Payable::Invoice).ok_or(UseCaseError::NotFound { what: "invoice" })
            }
        }
    }

    /// The audit entry of an operator's payment.
    fn entry(&self, payable: &Payable) -> Option<AuditEntry> {
        match self {
            Payer::Buyer { .. } => None,
            Payer::Operator { entry, .. } => {
                Some(AuditEntry { tenant: payable.tenant(), ..(**entry).clone() })
            }
        }
    }
}

/// A payment to start, with the ids and the time that each attempt of its unit of work uses.
struct AttemptedPayment {
    payer: Payer,
    method: Option<PaymentMethod>,
    tenant: TenantId,
    id: PaymentId,
    reference: Reference,
    /// Id and reference of the refund of the payment, if it pays nothing.
    refund: (RefundId, Reference),
    event_factory: EventFactory,
    trace: Trace,
    pending_timeout: Duration,
}

impl AttemptedPayment {
    async fn run(
        &self,
        unit: &mut Work,
        attempt: Attempt,
    ) -> Result<OrderPayment, UseCaseError<PaymentCommandRefusal>> {
        let payable = self.payer.payable(unit, self.tenant).await?;
        let expires_at = payable.order().and_then(|order| payment_deadline(order, self.pending_timeout));
        let pending = |payment| OrderPayment { payment, expires_at };
        if attempt.is_repeated()
            && let Some(before) = unit.payment_by_id(self.id).await?
        {
            // There is at most one payment in processing, so a payment of this order or invoice with this creation time
            // (in microseconds) was written by an earlier attempt.
            let written = (before.tenant, before.of, before.create_time);
            let is_ours = written == (payable.tenant(), payable.id(), self.event_factory.now);
            return if is_ours {
                Ok(pending(before))
            } else {
                Err(id_in_use(IdKind::Payment, self.id.get()).into())
            };
        }
        let entry = self.payer.entry(&payable);
        if let (Some(entry), Payable::Invoice(invoice)) = (&entry, &payable)
            && changed_by_earlier_attempt(unit.outbox(), attempt, entry).await?.is_some()
        {
            // The earlier attempt found a payment in processing, which may have ended since.
            let payments = unit.payments_of_invoice(invoice.tenant, invoice.id).await?.payments;
            if let Some(found) = payments.into_iter().max_by_key(|payment| payment.create_time) {
                return Ok(pending(found));
            }
        }
        match &payable {
            _ if payable.is_pending() => {}
            Payable::Order(order) => {
                return Err(OrderRefusal::WrongStatus { status: order.status, action: "pay" }.into());
            }
            Payable::Invoice(invoice) => {
                return Err(InvoiceRefusal::WrongStatus { status: invoice.status, action: "pay" }.into());
            }
        }
        if let Some(running) = in_processing(unit, &payable).await? {
            // The method of a payment of an earlier version is not known.
            let is_same = |method| method == running.method || running.method == PaymentMethod::Other;
            if !self.method.is_none_or(is_same) {
                return Err(PaymentCommandRefusal::OtherMethod { running: running.method }.into());
            }
            if let Some(entry) = &entry {
                record_already_done(unit.outbox(), attempt, entry).await?;
            }
            return Ok(pending(running));
        }
        let payment = self.payment_of(&payable);
        if let (true, Payable::Order(order)) = (payment.amount == Money::ZERO, &payable) {
            // Assets cover the whole price: settle without the gateway.
            require_locked_assets(unit, order).await?;
        }
        unit.insert_payment(&payment).await?;
        if let Some(entry) = &entry {
            unit.outbox().audit(entry).await?;
        }
        if payment.amount > Money::ZERO {
            return Ok(pending(payment));
        }
        let report = Settlement {
            transaction_id: format!("without-gateway-{}", self.id),
            result: PaymentResult::Success,
            amount: payment.amount,
        };
        let AttemptedPayment { event_factory, refund, .. } = self;
        let settlement = SettlementContext { actor: OrderActor::System, event_factory, refund: *refund };
        let decision = payment.decide(&report, &payable, 0, None, event_factory.now);
        let payment = apply(unit, &payment, &payable, decision, settlement).await?;
        Ok(OrderPayment { payment, expires_at: None })
    }

    fn payment_of(&self, payable: &Payable) -> Payment {
        let now = self.event_factory.now;
        Payment {
            id: self.id,
            reference: Some(self.reference),
            tenant: payable.tenant(),
            of: payable.id(),
            amount: payable.amount(),
            currency: Currency::CNY,
            method: self.method.unwrap_or_default(),
            status: PaymentStatus::Processing,
            transaction_id: None,
            refund_due: false,
            trace: Some(self.trace.clone()),
            version: 1,
            create_time: now,
            update_time: now,
        }
    }
}

/// The payment in `PROCESSING`; there is at most one.
async fn in_processing(unit: &mut Work, payable: &Payable) -> Result<Option<Payment>, StoreError> {
    match payable {
        Payable::Order(order) => unit.payment_in_processing(order.tenant, order.id).await,
        Payable::Invoice(invoice) => {
            let payments = unit.payments_of_invoice(invoice.tenant, invoice.id).await?.payments;
            Ok(payments.into_iter().find(|payment| payment.status == PaymentStatus::Processing))
        }
    }
}
