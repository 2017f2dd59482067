//! Invoices: the platform generates and refunds them, an operator of the tenant pays them, and the gateway reports.

use handover_events::TenantId;
use handover_outbox::operations::Reason;
use marketplace::use_cases::{
    GenerateInvoice, ListProduct, PayInvoice, PlaceOrder, RefundInvoice, SettlePayment, StartPayment,
};
use marketplace::{App, ReportedName};
use marketplace_domain::{
    BillingPeriod, Invoice, InvoiceStatus, Money, OrderStatus, PaymentMethod, PaymentResult, Settlement,
    Shipment, Title,
};

use super::journal::ClientResponse;
use super::{ActorState, by_gateway, by_operator, by_platform, by_user, gateway, tenants, user};
use crate::fault_kinds::Fault;

/// Total of an order of the closed month.
pub(crate) const TOTAL: i64 = 8_850;

/// Number of orders that a tenant completes in the closed month.
pub(crate) fn completed_orders(tenant: TenantId) -> u32 {
    if tenant == TenantId::DEFAULT { 2 } else { 1 }
}

/// The month that is closed when the processes start.
pub(crate) fn closed_month() -> BillingPeriod {
    "2026-01".parse().expect("a valid period")
}

/// Completes the orders that are invoiced, without faults.
pub(crate) async fn complete_orders(app: &App, ActorState { faults, gateway_model, .. }: &ActorState) {
    let total = Money::from_minor(TOTAL).expect("a valid price");
    // The buyer takes no part in the run, so that a run without these orders gives the same purses.
    let (buyer, seller) = (user(110), user(200));
    for tenant in tenants() {
        for number in 0..completed_orders(tenant) {
            let by_seller = by_user(faults, tenant, seller);
            let by_buyer = by_user(faults, tenant, buyer);
            let title = Title::try_from(format!("thing of last month {number}")).expect("a valid title");
            let command = ListProduct { title, price: total };
            let product = app.ordering.list_product(&by_seller, command).await.expect("no faults");
            let order = app.ordering.place(&by_buyer, PlaceOrder::of(product.id)).await.expect("no faults");
            let start = StartPayment { order: order.id, method: Some(PaymentMethod::Card) };
            let payment = app.payments.start(&by_buyer, start).await.expect("no faults").payment;
            let transaction_id = format!("txn-{}", payment.id);
            gateway_model.capture(payment.id, &transaction_id, total);
            let report = Settlement { transaction_id, result: PaymentResult::Success, amount: total };
            let name = ReportedName { reference: payment.reference, id: Some(payment.id) };
            let settle = SettlePayment { payment: name, report, body_hash: String::new() };
            app.payments.settle(&by_gateway(faults, tenant), settle).await.expect("no faults");
            let shipment = Shipment::new("SF".into(), format!("SF{}", order.id)).expect("a valid shipment");
            app.ordering.ship(&by_seller, order.id, shipment).await.expect("no faults");
            let completed = app.ordering.complete(&by_buyer, order.id).await.expect("no faults");
            assert_eq!(completed.status, OrderStatus::Completed);
        }
    }
}

/// One action: the invoice of a random tenant is generated, paid or refunded.
pub(crate) async fn act(app: &App, state: &ActorState) {
    let faults = &state.faults;
    let Some(tenant) = faults.random.pick(&tenants()).copied() else { return };
    let found = match app.tx.view().await {
        Ok(mut view) => view.invoice_of_period(tenant, closed_month()).await,
        Err(error) => Err(error),
    };
    let Ok(found) = found else { return };
    let action = async || match &found {
        None => generate(app, state, tenant).await,
        Some(invoice) if invoice.status == InvoiceStatus::Pending => pay(app, state, invoice).await,
        Some(invoice) => refund(app, state, invoice).await,
    };
    if faults.occurs(Fault::ConcurrentRepeat) {
        tokio::join!(action(), action());
    } else {
        action().await;
    }
}

async fn generate(app: &App, ActorState { faults, journal, .. }: &ActorState, tenant: TenantId) {
    let context = by_platform(faults, tenant);
    let command = GenerateInvoice { tenant: None, period: closed_month() };
    match app.invoicing.generate(&context, command).await {
        Ok(invoice) => journal.record("the platform", ClientResponse::Invoiced(invoice.id)),
        Err(error) => journal.record_error("the platform", &context, &error),
    }
}

async fn pay(app: &App, state: &ActorState, invoice: &Invoice) {
    let ActorState { faults, journal, .. } = state;
    let context = by_operator(faults, invoice.tenant);
    let command = PayInvoice { invoice: invoice.id, method: Some(PaymentMethod::BankTransfer) };
    match app.payments.pay_invoice(&context, command).await {
        Ok(payment) if payment.of != invoice.id.into() => faults.violation(format!(
            "paying invoice {} returned payment {} of {}",
            invoice.id, payment.id, payment.of
        )),
        Ok(payment) => gateway::report_result(app, state, &payment).await,
        Err(error) => journal.record_error("an operator", &context, &error),
    }
}

/// The platform refunds a paid invoice. A request for a refunded one is refused, unless the refund failed.
async fn refund(app: &App, ActorState { faults, journal, .. }: &ActorState, invoice: &Invoice) {
    let context = by_platform(faults, invoice.tenant);
    let reason = Reason::new("billed by mistake".to_owned()).expect("a valid reason");
    match app.payments.refund_invoice(&context, RefundInvoice { invoice: invoice.id, reason }).await {
        Ok(refund) => {
            journal.record("the platform", ClientResponse::RefundRequested(invoice.id.into(), refund.id));
        }
        Err(error) => journal.record_error("the platform", &context, &error),
    }
}
