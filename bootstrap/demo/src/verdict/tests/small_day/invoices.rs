//! The invoices of two past months: one is paid, and one is paid and refunded.

use handover_events::{TenantId, Trace};
use marketplace::ports::InvoicePayments;
use marketplace_domain::{
    Asset, AssetOperation, BilledOrder, Currency, FeeRate, GeneratedInvoice, Invoice, Money, NewInvoice,
    OperationKey, OperationKind, OrderId, Payable, Payment, PaymentMethod, PaymentResult, PaymentStatus,
    Refund, RefundCause, RefundReport, RefundResult, Settlement,
};

use super::super::super::super::database_snapshot::InvoiceRows;
use super::SmallDay;

impl SmallDay {
    pub(super) fn invoices(&mut self) {
        for (id, month) in [(1, "2026-09"), (2, "2026-10")] {
            let generated = self.generated(id, month);
            self.publish(generated.event.clone(), generated.invoice.version);
            self.settle_invoice(generated.invoice, id == 2);
        }
    }

    fn generated(&self, id: i64, month: &str) -> GeneratedInvoice {
        let trace = Trace { trace_id: "invoices".to_owned(), traceparent: None };
        let new = NewInvoice {
            id: id.try_into().unwrap(),
            tenant: TenantId::DEFAULT,
            period: month.parse().unwrap(),
            fee_rate: FeeRate::DEFAULT,
            trace: &trace,
            now: self.now,
        };
        let order = (900 + id).try_into().unwrap();
        let billed =
            BilledOrder { order, total: Money::from_minor(200_000).unwrap(), complete_time: self.now };
        Invoice::generate(new, &[billed]).unwrap()
    }

    fn settle_invoice(&mut self, invoice: Invoice, is_refunded: bool) {
        let payment_id = 900 + invoice.id.get();
        let payment = Payment {
            id: payment_id.try_into().unwrap(),
            of: invoice.id.into(),
            amount: invoice.total,
            ..self.new_payment()
        };
        let transaction_id = format!("txn-{payment_id}");
        let report = Settlement { transaction_id, result: PaymentResult::Success, amount: payment.amount };
        let decision = payment.decide(&report, &invoice.into(), 0, None, self.now);
        let (payment, event) = decision.settled.unwrap();
        let capture = decision.capture.unwrap();
        let mut invoice = decision.invoice.unwrap();
        self.publish(event, payment.version);
        let mut operations = vec![self.operation(OperationKind::Capture, capture.operation_key(&payment))];
        let mut refunds = Vec::new();
        if is_refunded {
            let refund_id = payment_id.try_into().unwrap();
            let reference = "0192f0c1-0000-7000-8000-000000000002".parse().unwrap();
            let reason = "billed by mistake".to_owned();
            let names = (refund_id, reference);
            let refund = Refund::of(&payment, &capture, names, RefundCause::Operator, reason, self.now);
            let report = RefundReport { attempt: 1, result: RefundResult::Success, transaction_id: None };
            let decision = refund.decide(&report, &Payable::Invoice(invoice), &capture, &[], self.now);
            let (refund, event) = decision.settled.unwrap();
            self.publish(event, refund.version);
            invoice = decision.invoice.unwrap();
            operations.push(self.operation(OperationKind::Payout, OperationKey::payout(refund.id, 1)));
            refunds.push(refund);
        }
        let money = InvoicePayments {
            payments: vec![payment],
            captures: vec![capture],
            refunds,
            reports: Vec::new(),
        };
        self.database.invoices.push(InvoiceRows { invoice, money, operations });
    }

    /// The money of an invoice of 50.00 belongs to no user.
    fn operation(&self, kind: OperationKind, key: OperationKey) -> AssetOperation {
        AssetOperation {
            tenant: TenantId::DEFAULT,
            key,
            asset: Asset::Cash,
            kind,
            user: None,
            order: None,
            refund: None,
            coupon: None,
            amount: 5_000,
            balance_after: None,
            event_id: None,
            trace_id: None,
            at: self.now,
        }
    }

    /// A payment in `PROCESSING`.
    pub(super) fn new_payment(&self) -> Payment {
        Payment {
            id: 1.try_into().unwrap(),
            reference: None,
            tenant: TenantId::DEFAULT,
            of: OrderId::try_from(1).unwrap().into(),
            amount: Money::ZERO,
            currency: Currency::CNY,
            method: PaymentMethod::Card,
            status: PaymentStatus::Processing,
            transaction_id: None,
            refund_due: false,
            trace: None,
            version: 1,
            create_time: self.now,
            update_time: self.now,
        }
    }
}
