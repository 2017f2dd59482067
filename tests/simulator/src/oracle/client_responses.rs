//! Acknowledged changes happened, and rejected ones did not.

use std::collections::{BTreeMap, BTreeSet};

use handover_outbox::ports::{AuditFilter, OutboxRow, StoreError};
use marketplace::ports::MarketView;
use marketplace_domain::{Asset, OperationKey, OrderId, OrderStatus, PaymentStatus, ProductId, Purse};

use super::{ALL, Checker};
use crate::actors::journal::{ClientResponse, GrantRecord};

pub(super) async fn check(checker: &mut Checker<'_>) -> Result<(), StoreError> {
    let traces: BTreeSet<String> =
        checker.rows.iter().filter_map(|row| row.metadata.trace_id.clone()).collect();
    let mut audited: BTreeMap<String, u64> = BTreeMap::new();
    for entry in checker.view.outbox_view().audit_page(&AuditFilter::default(), None, ALL).await? {
        *audited.entry(entry.effect.trace_id).or_insert(0) += entry.effect.changed;
    }
    for response in checker.evidence.journal.responses() {
        let is_true = match &response {
            ClientResponse::Placed(order) => has_event(checker, *order, OrderStatus::Pending),
            ClientResponse::StatusReached(order, status) => has_event(checker, *order, *status),
            ClientResponse::PaymentSettled(payment) => {
                let settled = checker.view.payment_by_id(*payment).await?;
                settled.is_some_and(|payment| payment.status != PaymentStatus::Processing)
            }
            ClientResponse::RefundRequested(of, refund) => {
                let refund = checker.view.refund_by_id(*refund).await?;
                refund.is_some_and(|refund| refund.of == *of)
            }
            ClientResponse::Invoiced(invoice) => checker.view.invoice_by_id(*invoice).await?.is_some(),
            ClientResponse::RefundSettled(refund, status) => {
                let at_gateway = checker.evidence.gateway_model.refunds().get(refund).copied();
                let is_contradicted = at_gateway.is_some_and(|it| it.is_contradicted);
                let refund = checker.view.refund_by_id(*refund).await?;
                refund.is_some_and(|refund| refund.status == *status || is_contradicted)
            }
            ClientResponse::AssetGranted(grant) => {
                let granted = audited.get(&grant.trace) == Some(&1);
                granted && was_granted(checker.view.as_mut(), grant).await?
            }
            ClientResponse::Redriven(trace, count) => audited.get(trace).copied().unwrap_or(0) == *count,
            ClientResponse::Refused(trace, _) => !traces.contains(trace),
        };
        if !is_true {
            checker.violation(match &response {
                ClientResponse::Refused(trace, why) => {
                    format!("a command was refused ({why}), but it was executed: trace {trace}")
                }
                ClientResponse::Placed(_)
                | ClientResponse::StatusReached(..)
                | ClientResponse::PaymentSettled(_)
                | ClientResponse::RefundRequested(..)
                | ClientResponse::Invoiced(_)
                | ClientResponse::RefundSettled(..)
                | ClientResponse::AssetGranted(_)
                | ClientResponse::Redriven(..) => {
                    format!("a client received {response:?}, but this is not true")
                }
            });
        }
    }
    check_keyed_requests(checker).await?;
    check_listed(checker).await
}

/// Whether a grant was executed exactly once.
async fn was_granted(view: &mut dyn MarketView, grant: &GrantRecord) -> Result<bool, StoreError> {
    let purse = match grant.asset {
        Asset::Wallet => Purse::Wallet,
        Asset::Points => Purse::Points,
        // The check of coupons in `money.rs` covers coupon grants.
        Asset::Coupon | Asset::Cash => return Ok(true),
    };
    let entries = view.entries_page(grant.tenant, grant.user, purse, None, ALL).await?;
    let operations = entries.into_iter().map(|entry| entry.effect.operation);
    let in_trace = operations.filter(|it| it.trace_id.as_ref() == Some(&grant.trace));
    let granted: BTreeMap<OperationKey, i64> = in_trace.map(|it| (it.key, it.amount)).collect();
    Ok(granted.into_values().eq([grant.amount]))
}

/// A request with an idempotency key has at most one effect, which its response names.
async fn check_keyed_requests(checker: &mut Checker<'_>) -> Result<(), StoreError> {
    for (request, keyed_response) in checker.evidence.journal.keyed_responses() {
        let all = checker.view.products_page(request.scope.tenant, None, None, ALL).await?;
        let created: Vec<String> = all
            .iter()
            .filter(|product| product.title == request.title)
            .map(|product| product.id.to_string())
            .collect();
        let is_true = match &keyed_response {
            Some(keyed_response) => created == [keyed_response.as_str()],
            None => created.len() <= 1,
        };
        if !is_true {
            let key = &request.scope.key;
            checker
                .violation(format!("{key} returned {keyed_response:?}, but its request created {created:?}"));
        }
    }
    Ok(())
}

/// A listing creates one product, whatever the outcome of its first attempt.
async fn check_listed(checker: &mut Checker<'_>) -> Result<(), StoreError> {
    for (listed, title) in checker.evidence.journal.titles() {
        let all = checker.view.products_page(listed.tenant, None, None, ALL).await?;
        let same: Vec<ProductId> =
            all.iter().filter(|product| product.title == title).map(|product| product.id).collect();
        if same != [listed.id] {
            checker.violation(format!("product {} was listed once, but exists as {same:?}", listed.id));
        }
    }
    Ok(())
}

fn has_event(checker: &Checker<'_>, order: OrderId, status: OrderStatus) -> bool {
    let about = |row: &&OutboxRow| row.aggregate.kind == "Order" && row.aggregate.id == order.get();
    let wanted = match status {
        OrderStatus::Pending => "ORDER_CREATED",
        OrderStatus::Paid => "ORDER_PAID",
        OrderStatus::Cancelled => "ORDER_CANCELLED",
        OrderStatus::Refunded => "ORDER_REFUNDED",
        OrderStatus::Shipped | OrderStatus::Completed => {
            let text = format!("\"newStatus\":\"{status}\"");
            return checker.rows.iter().filter(about).any(|row| row.payload.contains(&text));
        }
    };
    checker.rows.iter().filter(about).any(|row| row.event_type == wanted)
}
