//! What must be true when all is quiet: nothing lost, effects once and in order, one live order per product, nothing
//! stuck. Reads the plain store, past all faults, and counts effects in their own rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handover_application::App;
use handover_application::consumers::standard;
use handover_application::ports::*;
use handover_domain::*;

use super::clients::{Journal, Told};
use super::faults::Faults;
use super::parties;

pub(super) const TENANT: TenantId = TenantId::DEFAULT;
const ALL: u32 = 100_000;

async fn all_letters(view: &mut dyn View) -> Result<Vec<DeadLetter>, StoreError> {
    let letters = view.dead_letters_page(&DeadLetterFilter::default(), None, ALL).await?;
    Ok(letters.into_iter().map(|letter| letter.effect).collect())
}

/// What a run got to, so that a test can tell whether the runs go where it hurts.
pub async fn reached(store: &Arc<dyn Store>, app: &App) -> Result<BTreeSet<&'static str>, StoreError> {
    let mut reached = BTreeSet::new();
    let mut view = store.view().await?;
    if view.undecided_dead_letters(None).await? > 0 {
        reached.insert("a dead letter");
    }
    for row in view.outbox_page(&OutboxFilter::default(), None, ALL).await? {
        if row.status == OutboxStatus::Failed {
            reached.insert("a FAILED event");
        }
        if row.retry_count > 0 {
            reached.insert("a publish after a failed one");
        }
        if row.payload.contains("\"reason\":\"timeout\"") {
            reached.insert("an order closed by its deadline");
        }
        if row.payload.contains("\"newStatus\":\"completed\"") {
            reached.insert("a completed order");
        }
        for subscriber in standard(app) {
            let record = view.consumption(subscriber.handler.name(), &row.event_id).await?;
            if record.is_some_and(|record| record.attempts > 1) {
                reached.insert("an attempt after a failed or unfinished one");
            }
        }
        if row.event_type == "PAYMENT_SUCCEEDED"
            && let Ok(id) = PaymentId::try_from(row.aggregate.id)
            && view.payment_by_id(id).await?.is_some_and(|payment| payment.refund_due)
        {
            reached.insert("a payment that came too late");
        }
    }
    Ok(reached)
}

/// What is still on its way; empty means quiet.
pub async fn unsettled(
    store: &Arc<dyn Store>,
    broker: &Arc<dyn Broker>,
    app: &App,
) -> Result<Vec<String>, StoreError> {
    let mut open = Vec::new();
    let mut view = store.view().await?;
    let rows = view.outbox_page(&OutboxFilter::default(), None, ALL).await?;
    for row in &rows {
        if row.status.is_pending() {
            open.push(format!("outbox {} {} is {}", row.event_type, row.event_id, row.status));
        }
        for subscriber in standard(app) {
            let (name, takes) = (subscriber.handler.name(), subscriber.handler.takes());
            if row.status != OutboxStatus::Sent || !takes.contains(&row.event_type.as_str()) {
                continue;
            }
            let record = view.consumption(name, &row.event_id).await?;
            if !record.as_ref().is_some_and(|record| record.status.is_settled()) {
                let status = record.map_or("missing".to_owned(), |record| record.status.to_string());
                open.push(format!("{name} {} {} is {status}", row.event_type, row.event_id));
            }
        }
    }
    let line = app.rules.overdue_line(app.now());
    for (_, order) in view.orders_overdue(line, ALL).await? {
        open.push(format!("order {order} is overdue and pending"));
    }
    for queue in broker.queues().await.unwrap_or_default() {
        if queue.unacked > 0 || queue.ready > 0 {
            open.push(format!(
                "queue {} has {} ready and {} unacked",
                queue.name, queue.ready, queue.unacked
            ));
        }
    }
    Ok(open)
}

/// Every promise that does not hold.
pub async fn violations(
    store: &Arc<dyn Store>,
    app: &App,
    journal: &Journal,
    faults: &Faults,
) -> Result<Vec<String>, StoreError> {
    let mut broken = Vec::new();
    let mut view = store.view().await?;
    let mut rows = view.outbox_page(&OutboxFilter::default(), None, ALL).await?;
    rows.sort_by_key(|row| row.id);
    let letters = all_letters(view.as_mut()).await?;
    for body in faults.garbage() {
        if !letters.iter().any(|letter| letter.body == body) {
            broken.push(format!("nobody sees the stray message {body}"));
        }
    }
    let confirmed = faults.confirmed();
    for row in
        rows.iter().filter(|row| row.status == OutboxStatus::Sent && !confirmed.contains(&row.event_id))
    {
        broken.push(format!("{} {} is SENT and no broker ever confirmed it", row.event_type, row.event_id));
    }
    let mut of_order: BTreeMap<i64, Vec<&OutboxRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.aggregate.kind == "Order") {
        of_order.entry(row.aggregate.id).or_default().push(row);
    }
    let mut live: BTreeMap<ProductId, Vec<OrderId>> = BTreeMap::new();
    let mut counted: BTreeMap<UserId, CreditCounts> = BTreeMap::new();
    for (id, rows) in &of_order {
        let Ok(id) = OrderId::try_from(*id) else { continue };
        let Some(order) = view.order_by_id(TENANT, id).await? else {
            broken.push(format!("phantom: order {id} has events and is not there"));
            continue;
        };
        if !order.status.frees_product() {
            live.entry(order.product).or_default().push(id);
        }
        check_history(&order, rows, &mut broken);
        check_listing(view.as_mut(), &order, rows, &mut broken).await?;
        check_shipments(view.as_mut(), &order, rows, &mut broken).await?;
        parties::check_notifications(view.as_mut(), &order, rows, &mut broken).await?;
        parties::check_credit(view.as_mut(), &order, rows, &mut counted, &mut broken).await?;
    }
    parties::check_scores(view.as_mut(), &counted, &mut broken).await?;
    check_products(view.as_mut(), journal, &live, &mut broken).await?;
    check_told(view.as_mut(), journal, &of_order, &mut broken).await?;
    check_log(view.as_mut(), app, &rows, &mut broken).await?;
    Ok(broken)
}

/// One ordered event per version, none missing, none twice; FAILED only after every attempt.
fn check_history(order: &Order, rows: &[&OutboxRow], broken: &mut Vec<String>) {
    let ordered: Vec<i64> =
        rows.iter().filter(|row| row.event_type != "ORDER_TIMEOUT").map(|row| row.aggregate_seq).collect();
    if ordered != (1..=order.version).collect::<Vec<_>>() {
        broken.push(format!("order {} has version {} and events {ordered:?}", order.id, order.version));
    }
    for row in rows.iter().filter(|row| row.status == OutboxStatus::Failed) {
        if row.retry_count <= row.max_retry_count {
            broken.push(format!("event {} is FAILED after {} failures", row.event_id, row.retry_count));
        }
    }
}

/// The events of these types that must have had their effect, given what is parked.
pub(super) async fn expected(
    view: &mut dyn View,
    consumer: &str,
    rows: &[&OutboxRow],
    types: &[&str],
) -> Result<Vec<EventId>, StoreError> {
    let mut events = Vec::new();
    for row in rows.iter().filter(|row| types.contains(&row.event_type.as_str())) {
        let record = view.consumption(consumer, &row.event_id).await?;
        let parked = record.as_ref().is_some_and(|record| record.status == ConsumeStatus::Dead);
        // A FAILED row may have been caught up with from the outbox, or not at all: the log says which.
        let passed_over = row.status == OutboxStatus::Failed && record.is_none();
        if !parked && !passed_over {
            events.push(row.event_id.clone());
        }
    }
    Ok(events)
}

async fn check_listing(
    view: &mut dyn View,
    order: &Order,
    rows: &[&OutboxRow],
    broken: &mut Vec<String>,
) -> Result<(), StoreError> {
    let types = [
        EventType::OrderCreated.as_str(),
        EventType::OrderCancelled.as_str(),
        EventType::OrderRefunded.as_str(),
    ];
    let expected = expected(view, "inventory", rows, &types).await?;
    let changes = view.listing_changes(TENANT, order.id).await?;
    let applied: Vec<EventId> = changes.iter().map(|change| change.event_id.clone()).collect();
    if applied != expected {
        broken.push(format!("inventory applied {applied:?} of order {}, expected {expected:?}", order.id));
    }
    if !changes.is_sorted_by(|a, b| a.aggregate_seq < b.aggregate_seq) {
        broken.push(format!("inventory applied events of order {} out of order", order.id));
    }
    Ok(())
}

async fn check_shipments(
    view: &mut dyn View,
    order: &Order,
    rows: &[&OutboxRow],
    broken: &mut Vec<String>,
) -> Result<(), StoreError> {
    let expected = expected(view, "fulfillment", rows, &[EventType::OrderPaid.as_str()]).await?;
    let tasks = view.shipment_tasks(TENANT, order.id).await?;
    let opened: Vec<EventId> = tasks.into_iter().map(|task| task.event_id).collect();
    if opened != expected {
        broken.push(format!("fulfillment applied {opened:?} of order {}, expected {expected:?}", order.id));
    }
    Ok(())
}

/// Sold to one, or on sale to all.
async fn check_products(
    view: &mut dyn View,
    journal: &Journal,
    live: &BTreeMap<ProductId, Vec<OrderId>>,
    broken: &mut Vec<String>,
) -> Result<(), StoreError> {
    for id in journal.products() {
        let Some(product) = view.product_by_id(TENANT, id).await? else {
            broken.push(format!("lost: product {id}"));
            continue;
        };
        let orders = live.get(&id).map(Vec::as_slice).unwrap_or_default();
        if orders.len() > 1 || (orders.len() == 1) != (product.status == ProductStatus::Sold) {
            broken.push(format!("product {id} is {} with the live orders {orders:?}", product.status));
        }
    }
    Ok(())
}

/// What a client was told is so.
async fn check_told(
    view: &mut dyn View,
    journal: &Journal,
    of_order: &BTreeMap<i64, Vec<&OutboxRow>>,
    broken: &mut Vec<String>,
) -> Result<(), StoreError> {
    let has = |order: &OrderId, wanted: &str| {
        of_order.get(&order.get()).is_some_and(|rows| {
            rows.iter().any(|row| {
                row.event_type == wanted || row.payload.contains(&format!("\"newStatus\":\"{wanted}\""))
            })
        })
    };
    for told in journal.told() {
        let holds = match &told {
            Told::Placed(id) => view.order_by_id(TENANT, *id).await?.is_some() && has(id, "ORDER_CREATED"),
            Told::Paid(id) => {
                view.payment_by_id(*id).await?.is_some_and(|p| p.status == PaymentStatus::Success)
            }
            Told::Reached(id, status) => has(
                id,
                match status {
                    OrderStatus::Pending => "ORDER_CREATED",
                    OrderStatus::Paid => "ORDER_PAID",
                    OrderStatus::Shipped | OrderStatus::Completed => status.as_str(),
                    OrderStatus::Cancelled => "ORDER_CANCELLED",
                    OrderStatus::Refunded => "ORDER_REFUNDED",
                },
            ),
        };
        if !holds {
            broken.push(format!("lost: a client was told {told:?}"));
        }
    }
    Ok(())
}

/// Every event that is SENT is settled by every consumer that takes it; the dead have their letter.
async fn check_log(
    view: &mut dyn View,
    app: &App,
    rows: &[OutboxRow],
    broken: &mut Vec<String>,
) -> Result<(), StoreError> {
    let letters = all_letters(view).await?;
    let parked: BTreeSet<(String, String)> = letters.into_iter().map(|l| (l.queue, l.key)).collect();
    for subscriber in standard(app) {
        let (name, takes) = (subscriber.handler.name(), subscriber.handler.takes());
        for row in rows.iter().filter(|row| takes.contains(&row.event_type.as_str())) {
            let record = view.consumption(name, &row.event_id).await?;
            let status = record.as_ref().map(|record| record.status);
            match status {
                Some(ConsumeStatus::Success) => {}
                None if row.status == OutboxStatus::Failed => {}
                Some(ConsumeStatus::Dead) => {
                    if !parked.contains(&(subscriber.queue.to_owned(), row.event_id.to_string())) {
                        broken.push(format!("{name} gave up {} and nobody sees it", row.event_id));
                    }
                }
                None => broken.push(format!("lost: {name} never had {} {}", row.event_type, row.event_id)),
                Some(status) => broken.push(format!("stuck: {name} {} is {status}", row.event_id)),
            }
        }
    }
    Ok(())
}
