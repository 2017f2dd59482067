//! Finds events that are missing in the outbox, and appends them.

use std::collections::BTreeMap;

use handover_events::{AggregateRef, ConsumeStatus, EventId, TenantId};
use marketplace_domain::{Capture, Invoice, Order, PayableId, Payment, Refund};

use super::rows_by_order::{RowsByOrder, ids_by_tenant};
use super::{AboutEvents, ExpectedEvent};
use crate::cash;
use crate::event_types::append;
use crate::events::EventSource;
use crate::idle_consumers;
use crate::ports::{InvoicePayments, MarketTransactor, MarketView, Work};
use handover_events::Trace;
use handover_outbox::ports::{
    ArchivedEvent, AuditEntry, Consumed, EventMetadata, IdleConsumers, NewEvent, OutboxRow, StoreError,
};
use handover_outbox::with_tx;

/// An order with its payments, captures and refunds, and the outbox rows of these aggregates.
pub(crate) struct OrderRows<'a> {
    pub(crate) order: &'a Order,
    pub(crate) payments: Vec<Payment>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) refunds: Vec<Refund>,
    pub(crate) events: Vec<OutboxRow>,
    /// Archived events of these aggregates: every consumer has settled them.
    pub(crate) archived: Vec<ArchivedEvent>,
}

/// Reads the rows of these orders, in their sequence.
pub(crate) async fn read_rows<'a, V: MarketView + ?Sized>(
    view: &mut V,
    orders: &'a [Order],
) -> Result<Vec<OrderRows<'a>>, StoreError> {
    let mut payments = RowsByOrder::default();
    let mut captures = RowsByOrder::default();
    let mut refunds = RowsByOrder::default();
    for (tenant, ids) in ids_by_tenant(orders) {
        let paid = view.payments_of(tenant, &ids).await?;
        let stored = view.captures_of(tenant, &ids).await?;
        captures.extend(tenant, cash::captures_of(&paid, stored), |it| it.of.order());
        payments.extend(tenant, paid, |it| it.of.order());
        refunds.extend(tenant, view.refunds_of(tenant, &ids).await?, |it| it.of.order());
    }
    let mut rows: Vec<OrderRows<'a>> = orders
        .iter()
        .map(|order| OrderRows {
            order,
            payments: payments.take(order),
            captures: captures.take(order),
            refunds: refunds.take(order),
            events: Vec::new(),
            archived: Vec::new(),
        })
        .collect();
    let aggregates: Vec<AggregateRef> = rows.iter().flat_map(OrderRows::aggregates).collect();
    // The outbox rows are read after the business rows: each business row is committed together with its events, so
    // the events are visible by then.
    let mut events: BTreeMap<AggregateRef, Vec<OutboxRow>> = BTreeMap::new();
    for event in view.outbox_view().outbox_about(&aggregates).await? {
        events.entry(event.aggregate.clone()).or_default().push(event);
    }
    // An event is moved to the archive at once, so that it is in the outbox or, read later, in the archive.
    let archived = view.outbox_view().archived_about(&aggregates).await?;
    for of_order in &mut rows {
        of_order.events =
            of_order.aggregates().iter().filter_map(|aggregate| events.remove(aggregate)).flatten().collect();
        of_order.count_as_archived(&archived);
    }
    Ok(rows)
}

impl OrderRows<'_> {
    fn aggregates(&self) -> Vec<AggregateRef> {
        AboutEvents::Order(self.order).aggregates(&self.payments, &self.refunds)
    }

    /// Counts these events, as far as they are of this order, as archived and not as rows of the outbox.
    pub(crate) fn count_as_archived(&mut self, archived: &[ArchivedEvent]) {
        let of_order = self.aggregates();
        let archived = archived.iter().filter(|event| of_order.contains(&event.aggregate));
        self.archived.extend(archived.cloned());
        self.events.retain(|row| !self.archived.iter().any(|event| event.event_id == row.event_id));
    }

    /// The expected events that are neither in the outbox nor in the archive.
    pub(crate) fn missing_events(&self) -> Vec<ExpectedEvent> {
        let Self { order, payments, refunds, events, archived, .. } = self;
        AboutEvents::Order(order).missing(payments, refunds, events, archived)
    }
}

/// The expected events of an invoice, its payments and its refunds that are missing, and the outbox rows of these
/// aggregates. The rows of the invoice MUST have been read before.
pub(crate) async fn missing_of_invoice<V: MarketView + ?Sized>(
    view: &mut V,
    invoice: &Invoice,
    InvoicePayments { payments, refunds, .. }: &InvoicePayments,
) -> Result<(Vec<ExpectedEvent>, Vec<OutboxRow>), StoreError> {
    let about = AboutEvents::Invoice(invoice);
    let aggregates = about.aggregates(payments, refunds);
    let rows = view.outbox_view().outbox_about(&aggregates).await?;
    // An event is moved to the archive at once, so that it is in the outbox or, read later, in the archive.
    let archived = view.outbox_view().archived_about(&aggregates).await?;
    Ok((about.missing(payments, refunds, &rows, &archived), rows))
}

/// Events to append, and the outbox rows of their aggregates.
#[derive(Default)]
struct Missing {
    events: Vec<(ExpectedEvent, IdleConsumers)>,
    rows: Vec<OutboxRow>,
}

impl Missing {
    async fn of(unit: &mut Work, tenant: TenantId, id: PayableId) -> Result<Missing, StoreError> {
        match id {
            PayableId::Order(id) => {
                let Some(order) = unit.order_by_id(tenant, id).await? else { return Ok(Missing::default()) };
                let Some(rows) = read_rows(unit, std::slice::from_ref(&order)).await?.pop() else {
                    return Ok(Missing::default());
                };
                let missing = rows.missing_events().into_iter();
                let with_idle = |event: ExpectedEvent| {
                    let idle = idle_consumers::of_assets(&event.body, &order);
                    (event, idle)
                };
                Ok(Missing { events: missing.map(with_idle).collect(), rows: rows.events })
            }
            PayableId::Invoice(id) => {
                let Some(invoice) = unit.invoice_by_id(id).await?.filter(|it| it.tenant == tenant) else {
                    return Ok(Missing::default());
                };
                let paid = unit.payments_of_invoice(tenant, id).await?;
                let (missing, rows) = missing_of_invoice(unit, &invoice, &paid).await?;
                let events = missing.into_iter().map(|event| (event, IdleConsumers::default())).collect();
                Ok(Missing { events, rows })
            }
        }
    }
}

/// Appends the missing events of an order or invoice and returns them with their ids. A repair by an operator passes its audit entry.
/// Concurrent repairs append each event once: an event that a consumer applied before its row was lost keeps its id, and the
/// id of any other event is derived from its content.
pub(crate) async fn announce_missing(
    tx: &MarketTransactor,
    source: &EventSource,
    (tenant, payable): (TenantId, PayableId),
    audit_entry: Option<AuditEntry>,
) -> Result<Vec<(EventId, ExpectedEvent)>, StoreError> {
    let max_retry_count = source.max_retry_count();
    with_tx(tx, (audit_entry, source.clone()), move |unit, (audit_entry, source), _| {
        Box::pin(async move {
            let missing = Missing::of(unit, tenant, payable).await?;
            let mut announced = Vec::with_capacity(missing.events.len());
            let mut events = Vec::with_capacity(missing.events.len());
            for (event, idle_consumers) in missing.events {
                let aggregate = event.aggregate(tenant);
                let consumed = applied_record(unit, &event, &aggregate).await?;
                let trace = trace_of(&event, &aggregate, &missing.rows, consumed.as_ref(), payable);
                let request_id = request_of(&event, &aggregate, &missing.rows);
                let id = match consumed {
                    Some(consumed) => consumed.event_id,
                    None => repaired_id(&event, &aggregate)?,
                };
                events.push(NewEvent {
                    event_id: id.clone(),
                    event_type: event.event_type().as_str().to_owned(),
                    aggregate,
                    aggregate_seq: Some(event.aggregate_seq),
                    payload: event.body.to_json(),
                    metadata: EventMetadata {
                        trace_id: Some(trace.trace_id),
                        traceparent: trace.traceparent,
                        request_id,
                        ..EventMetadata::default()
                    },
                    occurred_at: event.at,
                    max_retry_count,
                    idle_consumers,
                    routing_key: source.routing_key(event.event_type()),
                    due: None,
                });
                announced.push((id, event));
            }
            if !events.is_empty() {
                let changed = events.len().try_into().unwrap_or(u64::MAX);
                append(unit.outbox(), events).await?;
                if let Some(audit_entry) = audit_entry {
                    unit.outbox()
                        .audit(&AuditEntry { matched: changed, changed, ..audit_entry.clone() })
                        .await?;
                }
            }
            Ok(announced)
        })
    })
    .await
}

/// Returns the consume-log record of a consumer that applied the event. Records of other consumers do not count: they may be
/// about a row that contradicts the order, and its id would prevent them from applying the event. If the event was
/// applied under several event ids (a manually inserted copy has its own), the smallest id is chosen, so that concurrent
/// repairs append the event with the same id.
async fn applied_record(
    unit: &mut Work,
    event: &ExpectedEvent,
    aggregate: &AggregateRef,
) -> Result<Option<Consumed>, StoreError> {
    let consumed = unit.outbox().consumed_about(std::slice::from_ref(aggregate)).await?;
    let name = event.event_type().as_str();
    let is_it = |row: &Consumed| {
        row.event_type == name
            && row.aggregate_seq == event.aggregate_seq
            && row.record.status == ConsumeStatus::Success
    };
    Ok(consumed.into_iter().filter(is_it).min_by(|left, right| left.event_id.cmp(&right.event_id)))
}

/// The trace of the request that caused the event: from the payment, refund or invoice, from another event of the same
/// change, or from the consume log. If none of them exists, the trace id is `repair-<order id>` or
/// `repair-invoice-<invoice id>`.
fn trace_of(
    event: &ExpectedEvent,
    aggregate: &AggregateRef,
    rows: &[OutboxRow],
    consumed: Option<&Consumed>,
    payable: PayableId,
) -> Trace {
    let of_change = || of_same_change(event, aggregate, rows).map(OutboxRow::trace);
    let of_log = || consumed.map(|consumed| Trace { trace_id: consumed.trace_id.clone(), traceparent: None });
    let trace_id = match payable {
        PayableId::Order(order) => format!("repair-{order}"),
        PayableId::Invoice(invoice) => format!("repair-invoice-{invoice}"),
    };
    let fallback = || Trace { trace_id, traceparent: None };
    event.trace.clone().or_else(of_change).or_else(of_log).unwrap_or_else(fallback)
}

/// Another event of the same change.
fn of_same_change<'r>(
    event: &ExpectedEvent,
    aggregate: &AggregateRef,
    rows: &'r [OutboxRow],
) -> Option<&'r OutboxRow> {
    rows.iter().find(|row| row.aggregate == *aggregate && row.aggregate_seq == event.aggregate_seq)
}

/// Id of the request that caused the event, if another event of the same change has it.
fn request_of(event: &ExpectedEvent, aggregate: &AggregateRef, rows: &[OutboxRow]) -> Option<String> {
    of_same_change(event, aggregate, rows)?.metadata.request_id.clone()
}

/// Id of a missing event that no consumer has applied. It is derived from the content, so that every repair chooses the
/// same id.
fn repaired_id(event: &ExpectedEvent, aggregate: &AggregateRef) -> Result<EventId, StoreError> {
    let id = format!("repair:{}:{}:{}", event.event_type(), aggregate.id, event.aggregate_seq);
    id.parse().map_err(|error| StoreError::Backend(Box::new(error)))
}
