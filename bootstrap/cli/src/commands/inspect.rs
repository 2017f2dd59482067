//! `outbox list|show|blocked`, `dlq list`, `audit list`: read directly from the database; `queues`: reads from the
//! broker; `topology`: what the program itself defines. All of them also work while a process serves the database.

use handover_http::views::{
    ArchivedEventView, AuditView, BlockedView, ConsumptionView, DeadLetterView, EventFlowView, EventView,
    QueueView,
};
use handover_outbox::Page;
use handover_outbox::operations;
use handover_outbox::ports::{AuditFilter, ConsumedFilter, DeadLetterFilter};

use crate::access::{Access, Reach};
use crate::args::{
    AuditListArgs, ConsumptionsArgs, DlqListArgs, DlqShowArgs, OutboxBlockedArgs, OutboxListArgs,
    OutboxShowArgs, QueuesArgs,
};
use crate::print::{list, show};

/// Most queues at which one event can be dead-lettered.
const MAX_QUEUES: u32 = 1_000;

/// `outbox list`.
pub(crate) async fn outbox<A: Access>(
    source: &A::Source,
    arguments: &OutboxListArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let filter = arguments.filter.clone().into_filter();
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let (outbox, operator) = (session.outbox(), session.operator());
    if arguments.archived {
        let page = operations::archived_events(outbox, operator, filter, before, limit).await;
        let page = page.map_err(|error| session.failed(error))?;
        return Ok(list(arguments.output.output, page, ArchivedEventView::from)?);
    }
    let page = match arguments.oldest {
        true => operations::oldest_events(outbox, operator, filter, before, limit).await,
        false => operations::outbox(outbox, operator, filter, before, limit).await,
    };
    Ok(list(arguments.output.output, page.map_err(|error| session.failed(error))?, EventView::from)?)
}

/// `outbox show`.
pub(crate) async fn event<A: Access>(
    source: &A::Source,
    arguments: &OutboxShowArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let row = operations::find_event(session.outbox(), session.operator(), &arguments.event_id).await;
    let row = row.map_err(|error| {
        session.failed_to_find(error, format!("event {}", arguments.event_id), "handover outbox list")
    })?;
    Ok(show(arguments.output.output, &EventView::from(row))?)
}

/// `outbox blocked`.
pub(crate) async fn blocked<A: Access>(
    source: &A::Source,
    arguments: &OutboxBlockedArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let page =
        operations::blocked(session.outbox(), session.operator(), arguments.tenant, before, limit).await;
    Ok(list(arguments.output.output, page.map_err(|error| session.failed(error))?, BlockedView::from)?)
}

/// `dlq list`.
pub(crate) async fn dead_letters<A: Access>(
    source: &A::Source,
    arguments: &DlqListArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let filter = DeadLetterFilter {
        tenant: arguments.tenant,
        key: None,
        queue: arguments.queue.clone(),
        event_type: arguments.event_type.clone(),
        status: arguments.status,
        from: arguments.period.from,
        to: arguments.period.to,
        above_id: None,
    };
    let before = arguments.cursor;
    let limit = arguments.limit;
    let page = operations::dead_letters(session.outbox(), session.operator(), filter, before, limit).await;
    Ok(list(arguments.output.output, page.map_err(|error| session.failed(error))?, DeadLetterView::from)?)
}

/// `dlq show`.
pub(crate) async fn dead_letter<A: Access>(
    source: &A::Source,
    arguments: &DlqShowArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let DlqShowArgs { key, queue, .. } = arguments;
    let filter =
        DeadLetterFilter { key: Some(key.clone()), queue: queue.clone(), ..DeadLetterFilter::default() };
    let found =
        operations::dead_letters(session.outbox(), session.operator(), filter, None, MAX_QUEUES).await;
    let found = found.map_err(|error| session.failed(error))?.items;
    if found.is_empty() {
        return Err(session.missing(format!("dead letter {key}"), "handover dlq list"));
    }
    for dead_letter in found {
        show(arguments.output.output, &DeadLetterView::from(dead_letter))?;
    }
    Ok(())
}

/// `consumptions`.
pub(crate) async fn consumptions<A: Access>(
    source: &A::Source,
    arguments: &ConsumptionsArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let filter = ConsumedFilter {
        tenant: arguments.tenant,
        event_id: arguments.event_id.clone(),
        consumer: arguments.consumer.clone(),
        status: arguments.status,
        from: arguments.period.from,
        to: arguments.period.to,
        above_id: None,
    };
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let page = operations::consumptions(session.outbox(), session.operator(), filter, before, limit).await;
    Ok(list(arguments.output.output, page.map_err(|error| session.failed(error))?, ConsumptionView::from)?)
}

/// `audit list`.
pub(crate) async fn audit<A: Access>(
    source: &A::Source,
    arguments: &AuditListArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let before = arguments.page.cursor;
    let limit = arguments.page.limit;
    let filter = AuditFilter {
        tenant: arguments.tenant,
        changes: arguments.changes,
        from: arguments.period.from,
        to: arguments.period.to,
        above_id: None,
    };
    let page = operations::audit_log(session.outbox(), session.operator(), filter, before, limit).await;
    Ok(list(arguments.output.output, page.map_err(|error| session.failed(error))?, AuditView::from)?)
}

/// `queues`.
pub(crate) async fn queues<A: Access>(
    source: &A::Source,
    arguments: &QueuesArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Broker).await?;
    let queues = operations::queues(session.outbox(), session.operator()).await;
    let items = queues.map_err(|error| session.failed(error))?;
    Ok(list(arguments.output.output, Page { items, next: None }, QueueView::from)?)
}

/// `topology`.
pub(crate) async fn topology<A: Access>(
    source: &A::Source,
    arguments: &QueuesArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let items = session.outbox().event_flows();
    Ok(list(arguments.output.output, Page { items, next: None }, EventFlowView::from)?)
}
