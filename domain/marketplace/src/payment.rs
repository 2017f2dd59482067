//! A payment: settled by the signed reports of the gateway, each of which takes effect once.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::event::{EventBody, PaymentFailed, PaymentSettled, PaymentSucceeded};
use super::{
    BookedTransaction, CancelCause, Capture, Currency, Invoice, Money, OperationKey, OrderAction, Payable,
    PayableId, PaymentId, PaymentMethod, Reference, RefundCause, ReportOutcome,
};
use handover_events::{TenantId, Trace};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PaymentStatus {
    /// The gateway has not reported a result yet.
    Processing,
    Success,
    Failed,
}

handover_events::named!(PaymentStatus { Processing => "PROCESSING", Success => "SUCCESS", Failed => "FAILED" });

/// Payment result reported by the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PaymentResult {
    Success,
    Failed,
}

/// A payment report of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The gateway's transaction id; the idempotency key of the report.
    pub transaction_id: String,
    pub result: PaymentResult,
    pub amount: Money,
}

/// What a report about a payment changes. Everything else stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentDecision {
    pub outcome: ReportOutcome,
    /// The payment after a change of its status, and the event of this change.
    pub settled: Option<(Payment, EventBody)>,
    /// The captured money.
    pub capture: Option<Capture>,
    /// Cause of the automatic refund of `capture`.
    pub refund: Option<RefundCause>,
    pub order: Option<OrderAction>,
    /// The invoice after a change of its status.
    pub invoice: Option<Invoice>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    pub id: PaymentId,
    /// Name of the payment towards the gateway; `None` for a row that an earlier version wrote.
    pub reference: Option<Reference>,
    pub tenant: TenantId,
    /// The order or invoice that it pays for.
    pub of: PayableId,
    pub amount: Money,
    pub currency: Currency,
    /// Payment method chosen by the payer.
    pub method: PaymentMethod,
    pub status: PaymentStatus,
    /// The gateway's transaction id; `None` until the payment is settled.
    pub transaction_id: Option<String>,
    /// Whether the payment paid nothing, because it succeeded when its order or invoice could no longer be paid.
    pub refund_due: bool,
    /// Trace context of the request that created the payment.
    pub trace: Option<Trace>,
    /// Version of the row, incremented by each change; starts at 1.
    pub version: i64,
    pub create_time: DateTime<Utc>,
    pub update_time: DateTime<Utc>,
}

impl Payment {
    /// Decides what a report changes.
    ///
    /// `payable` is the current state of its order or invoice, `captures` the number of captures of this payment, and `booked` the
    /// transaction with the id of the report if it is known already.
    pub fn decide(
        &self,
        report: &Settlement,
        payable: &Payable,
        captures: u32,
        booked: Option<BookedTransaction>,
        now: DateTime<Utc>,
    ) -> PaymentDecision {
        match report.result {
            PaymentResult::Success => self.decide_success(report, payable, captures, booked, now),
            PaymentResult::Failed => self.decide_failure(report, payable, booked, now),
        }
    }

    fn decide_success(
        &self,
        report: &Settlement,
        payable: &Payable,
        captures: u32,
        booked: Option<BookedTransaction>,
        now: DateTime<Utc>,
    ) -> PaymentDecision {
        if let Some(booked) = booked {
            let is_same = booked == BookedTransaction { payment: self.id, amount: report.amount };
            return PaymentDecision::only(if is_same {
                ReportOutcome::Recorded
            } else {
                ReportOutcome::TransactionConflict
            });
        }
        let capture = |refund_due| Capture {
            tenant: self.tenant,
            of: self.of,
            payment: self.id,
            number: captures + 1,
            transaction_id: report.transaction_id.clone(),
            amount: report.amount,
            refund_due,
            in_suspense: refund_due,
            create_time: now,
        };
        if report.amount != self.amount {
            let fails = self.status == PaymentStatus::Processing;
            // Nothing is captured and nothing can be refunded if the reported amount is zero.
            let is_captured = report.amount > Money::ZERO;
            return PaymentDecision {
                settled: fails.then(|| self.settled(PaymentStatus::Failed, report, payable, now)),
                capture: is_captured.then(|| capture(true)),
                refund: is_captured.then_some(RefundCause::WrongAmount),
                ..PaymentDecision::only(ReportOutcome::WrongAmount)
            };
        }
        match self.status {
            PaymentStatus::Success => PaymentDecision {
                capture: Some(capture(true)),
                refund: Some(RefundCause::SecondCapture),
                ..PaymentDecision::only(ReportOutcome::SecondCapture)
            },
            PaymentStatus::Processing | PaymentStatus::Failed => {
                let paid = Some(payable).filter(|payable| payable.is_pending());
                let is_late = paid.is_none();
                let (after, event) = self.settled(PaymentStatus::Success, report, payable, now);
                PaymentDecision {
                    outcome: match paid {
                        None => ReportOutcome::LatePayment,
                        Some(Payable::Order(_)) => ReportOutcome::OrderPaid,
                        Some(Payable::Invoice(_)) => ReportOutcome::InvoicePaid,
                    },
                    settled: Some((Payment { refund_due: is_late, ..after }, event)),
                    capture: Some(capture(is_late)),
                    refund: is_late.then_some(RefundCause::LatePayment),
                    order: paid.and_then(Payable::order).map(|_| OrderAction::Pay),
                    invoice: paid.and_then(Payable::invoice).map(|invoice| invoice.paid(now)),
                }
            }
        }
    }

    fn decide_failure(
        &self,
        report: &Settlement,
        payable: &Payable,
        booked: Option<BookedTransaction>,
        now: DateTime<Utc>,
    ) -> PaymentDecision {
        match self.status {
            PaymentStatus::Success => PaymentDecision::only(ReportOutcome::PaymentFailedAfterSuccess),
            PaymentStatus::Failed => PaymentDecision::only(ReportOutcome::Recorded),
            PaymentStatus::Processing if booked.is_some_and(|booked| booked.payment != self.id) => {
                PaymentDecision::only(ReportOutcome::TransactionConflict)
            }
            PaymentStatus::Processing => {
                let with_assets = payable.order().filter(|order| !order.assets.is_empty());
                let cancels = payable.is_pending() && with_assets.is_some();
                PaymentDecision {
                    settled: Some(self.settled(PaymentStatus::Failed, report, payable, now)),
                    order: cancels.then_some(OrderAction::Cancel(CancelCause::PaymentFailed)),
                    ..PaymentDecision::only(ReportOutcome::PaymentFailed)
                }
            }
        }
    }

    /// The payment with this status, and the event of the change.
    fn settled(
        &self,
        status: PaymentStatus,
        report: &Settlement,
        payable: &Payable,
        now: DateTime<Utc>,
    ) -> (Payment, EventBody) {
        let settled = PaymentSettled {
            of: payable.in_event(),
            payment: self.id,
            transaction_id: report.transaction_id.clone(),
            amount: self.amount,
            currency: self.currency,
            payment_method: self.method,
            occurred_time: now,
        };
        let event = match status {
            PaymentStatus::Success => EventBody::PaymentSucceeded(PaymentSucceeded(settled)),
            PaymentStatus::Failed | PaymentStatus::Processing => {
                EventBody::PaymentFailed(PaymentFailed(settled))
            }
        };
        let after = Payment {
            status,
            transaction_id: Some(report.transaction_id.clone()),
            version: self.version + 1,
            update_time: now,
            ..self.clone()
        };
        (after, event)
    }
}

impl PaymentDecision {
    /// A decision that changes nothing but the record of the report.
    const fn only(outcome: ReportOutcome) -> PaymentDecision {
        PaymentDecision { outcome, settled: None, capture: None, refund: None, order: None, invoice: None }
    }
}

impl Capture {
    /// Whether `payment` succeeded by this capture. A second capture and one over another amount do not settle it.
    pub fn is_success_of(&self, payment: &Payment) -> bool {
        payment.status == PaymentStatus::Success
            && payment.transaction_id.as_ref() == Some(&self.transaction_id)
    }

    /// Key of the ledger operation of this capture of `payment`. The money that paid an invoice has the key of the invoice, so
    /// that the ledger can book it only once.
    pub fn operation_key(&self, payment: &Payment) -> OperationKey {
        let has_paid = self.is_success_of(payment) && !payment.refund_due;
        match self.of {
            PayableId::Invoice(invoice) if has_paid => OperationKey::invoice_capture(invoice),
            PayableId::Invoice(_) | PayableId::Order(_) => OperationKey::capture(self.payment, self.number),
        }
    }

    /// The capture of a payment that an earlier version settled, which stored no captures; `None` if the payment did not
    /// succeed.
    pub fn implied_by(payment: &Payment) -> Option<Capture> {
        let transaction_id = payment.transaction_id.clone()?;
        (payment.status == PaymentStatus::Success).then_some(Capture {
            tenant: payment.tenant,
            of: payment.of,
            payment: payment.id,
            number: 1,
            transaction_id,
            amount: payment.amount,
            refund_due: payment.refund_due,
            in_suspense: false,
            create_time: payment.update_time,
        })
    }
}
