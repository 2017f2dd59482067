//! What clients were told is so, and what they were refused did not happen.

use std::collections::{BTreeMap, BTreeSet};

use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::{ALL, Case};
use crate::actors::journal::{Gift, Told};

pub(super) async fn check(case: &mut Case<'_>) -> Result<(), StoreError> {
    let traces: BTreeSet<String> = case.rows.iter().filter_map(|row| row.metadata.trace_id.clone()).collect();
    let mut audited: BTreeMap<String, u64> = BTreeMap::new();
    for entry in case.view.outbox_view().audit_page(&AuditFilter::default(), None, ALL).await? {
        *audited.entry(entry.effect.trace_id).or_insert(0) += entry.effect.changed;
    }
    for told in case.evidence.journal.told() {
        let holds = match &told {
            Told::Placed(order) => has_event(case, *order, OrderStatus::Pending),
            Told::Reached(order, status) => has_event(case, *order, *status),
            Told::Settled(payment) => {
                let settled = case.view.payment_by_id(*payment).await?;
                settled.is_some_and(|payment| payment.status != PaymentStatus::Processing)
            }
            Told::Refunds(order, refund) => {
                let refund = case.view.refund_by_id(*refund).await?;
                refund.is_some_and(|refund| refund.order == *order)
            }
            Told::PaidBack(refund, status) => {
                let refund = case.view.refund_by_id(*refund).await?;
                refund.is_some_and(|refund| refund.status == *status)
            }
            Told::Given(gift) => {
                let given = audited.get(&gift.trace) == Some(&1);
                given && was_given(case.view.as_mut(), gift).await?
            }
            Told::Redriven(trace, count) => audited.get(trace).copied().unwrap_or(0) == *count,
            Told::Refused(trace, _) => !traces.contains(trace),
        };
        if !holds {
            case.breaks(match &told {
                Told::Refused(trace, why) => format!("refused ({why}), and done all the same: trace {trace}"),
                Told::Placed(_)
                | Told::Reached(..)
                | Told::Settled(_)
                | Told::Refunds(..)
                | Told::PaidBack(..)
                | Told::Given(_)
                | Told::Redriven(..) => format!("a client was told {told:?}, and it is not so"),
            });
        }
    }
    check_repeats(case).await?;
    check_listed(case).await
}

/// What was given in one trace was given once.
async fn was_given(view: &mut dyn MarketView, gift: &Gift) -> Result<bool, StoreError> {
    let purse = match gift.asset {
        Asset::Wallet => Purse::Wallet,
        Asset::Points => Purse::Points,
        // Each is looked at by itself.
        Asset::Coupon | Asset::Cash => return Ok(true),
    };
    let entries = view.entries_page(gift.tenant, gift.user, purse, None, ALL).await?;
    let operations = entries.into_iter().map(|entry| entry.effect.operation);
    let in_trace = operations.filter(|it| it.trace_id.as_ref() == Some(&gift.trace));
    let given: BTreeMap<OperationKey, i64> = in_trace.map(|it| (it.key, it.amount)).collect();
    Ok(given.into_values().eq([gift.amount]))
}

/// A request under an idempotency key has one effect at most, and is answered with that.
async fn check_repeats(case: &mut Case<'_>) -> Result<(), StoreError> {
    for (request, answer) in case.evidence.journal.answers() {
        let all = case.view.products_page(request.scope.tenant, None, None, ALL).await?;
        let made: Vec<String> = all
            .iter()
            .filter(|product| product.title == request.title)
            .map(|product| product.id.to_string())
            .collect();
        let holds = match &answer {
            Some(answer) => made == [answer.as_str()],
            None => made.len() <= 1,
        };
        if !holds {
            let key = &request.scope.key;
            case.breaks(format!("{key} was answered with {answer:?}, and its request has made {made:?}"));
        }
    }
    Ok(())
}

/// One listing is one product, whatever became of the first attempt.
async fn check_listed(case: &mut Case<'_>) -> Result<(), StoreError> {
    for (listed, title) in case.evidence.journal.titles() {
        let all = case.view.products_page(listed.tenant, None, None, ALL).await?;
        let same: Vec<ProductId> =
            all.iter().filter(|product| product.title == title).map(|product| product.id).collect();
        if same != [listed.id] {
            case.breaks(format!("product {} was listed once, and there are {same:?}", listed.id));
        }
    }
    Ok(())
}

fn has_event(case: &Case<'_>, order: OrderId, status: OrderStatus) -> bool {
    let about = |row: &&OutboxRow| row.aggregate.kind == "Order" && row.aggregate.id == order.get();
    let wanted = match status {
        OrderStatus::Pending => "ORDER_CREATED",
        OrderStatus::Paid => "ORDER_PAID",
        OrderStatus::Cancelled => "ORDER_CANCELLED",
        OrderStatus::Refunded => "ORDER_REFUNDED",
        OrderStatus::Shipped | OrderStatus::Completed => {
            let text = format!("\"newStatus\":\"{status}\"");
            return case.rows.iter().filter(about).any(|row| row.payload.contains(&text));
        }
    };
    case.rows.iter().filter(about).any(|row| row.event_type == wanted)
}
