//! `outbox list`, `outbox show`, `dlq list`, `queues`: read from the database file, whoever serves it.

use handover_application::ports::{OutboxFilter, Store, StoreError};
use serde::Serialize;
use serde_json::json;

use super::say;
use crate::cli::{DlqListArgs, OutboxListArgs, OutboxShowArgs, Output, QueuesArgs};
use crate::views::{DeadLetterView, EventView, QueueView};
use crate::wiring::Looked;
use crate::{Failure, output};

/// `outbox list`.
pub(super) async fn outbox(arguments: &OutboxListArgs) -> Result<(), Failure> {
    let config = arguments.common.load()?;
    let looked = Looked::readable(&config.database).await?;
    let filter = OutboxFilter {
        tenant: arguments.tenant,
        status: arguments.status,
        event_type: arguments.event_type.clone(),
        aggregate_id: arguments.aggregate_id,
        from: None,
        to: None,
    };
    let failed = |cause: StoreError| Failure::database(&config.database)(cause);
    let mut view = looked.store.view().await.map_err(failed)?;
    let mut rows = view.outbox_page(&filter, arguments.cursor, arguments.limit + 1).await.map_err(failed)?;
    let next = cut(&mut rows, arguments.limit).then(|| rows.last().map(|row| row.id)).flatten();
    let events: Vec<EventView> = rows.into_iter().map(EventView::from).collect();
    if let Some(next) = next {
        note(&format!("there are more: --cursor {next} goes on, --limit shows more at a time"));
    }
    let next = next.map(|id| id.to_string());
    list(arguments.output.output, &EventView::HEADER, &events, EventView::row, &json!({ "nextCursor": next }))
}

/// `outbox show`.
pub(super) async fn event(arguments: &OutboxShowArgs) -> Result<(), Failure> {
    let config = arguments.common.load()?;
    let looked = Looked::readable(&config.database).await?;
    let failed = |cause: StoreError| Failure::database(&config.database)(cause);
    let mut view = looked.store.view().await.map_err(failed)?;
    let rows = view.outbox_by_event(std::slice::from_ref(&arguments.event_id)).await.map_err(failed)?;
    let Some(row) = rows.into_iter().next() else {
        return Err(Failure::NoEvent {
            event_id: arguments.event_id.clone(),
            database: config.database.clone(),
        });
    };
    let event = EventView::from(row);
    say(&match arguments.output.output {
        Output::Table => output::fields(&event.fields()),
        Output::Json => output::json(&event),
    })
}

/// `dlq list`.
pub(super) async fn dead_letters(arguments: &DlqListArgs) -> Result<(), Failure> {
    let config = arguments.common.load()?;
    let looked = Looked::readable(&config.database).await?;
    let failed = |cause: StoreError| Failure::database(&config.database)(cause);
    let mut view = looked.store.view().await.map_err(failed)?;
    let mut letters =
        view.dead_letters(arguments.queue.as_deref(), arguments.limit + 1).await.map_err(failed)?;
    let more = cut(&mut letters, arguments.limit);
    if more {
        note("there are more: --limit shows more, --queue those of one queue");
    }
    let letters: Vec<DeadLetterView> = letters.into_iter().map(DeadLetterView::from).collect();
    list(
        arguments.output.output,
        &DeadLetterView::HEADER,
        &letters,
        DeadLetterView::row,
        &json!({ "more": more }),
    )
}

/// `queues`.
pub(super) async fn queues(arguments: &QueuesArgs) -> Result<(), Failure> {
    let config = arguments.common.load()?;
    let looked = Looked::readable(&config.database).await?;
    let queues = looked.broker(config.broker)?.queues().await?;
    let queues: Vec<QueueView> = queues.into_iter().map(QueueView::from).collect();
    list(arguments.output.output, &QueueView::HEADER, &queues, QueueView::row, &json!({ "nextCursor": null }))
}

/// Takes off the one row too many that was asked for; tells whether it was there.
fn cut<T>(rows: &mut Vec<T>, limit: u32) -> bool {
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    more
}

/// Writes `{"items": [...], ...}`, or a table.
fn list<T: Serialize>(
    form: Output,
    header: &[&str],
    items: &[T],
    row: impl Fn(&T) -> Vec<String>,
    beside: &serde_json::Value,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct List<'a, T> {
        items: &'a [T],
        #[serde(flatten)]
        beside: &'a serde_json::Value,
    }
    if items.is_empty() && form == Output::Table {
        note("nothing is there that fits");
    }
    say(&match form {
        Output::Table => output::table(header, items.iter().map(row)),
        Output::Json => output::json(&List { items, beside }),
    })
}

/// For whoever reads along; never part of the answer.
fn note(text: &str) {
    eprintln!("{text}");
}
