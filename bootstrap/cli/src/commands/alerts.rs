//! `alerts`, `alerts acknowledge`, `stats`: read and change the database directly, also while a process serves it.

use chrono::TimeDelta;
use handover_http::views::{AlertView, StatSeriesView, StatSummaryView, StatsView};
use handover_outbox::{Page, operations};
use handover_runtime::terminal::{Output, note};

use crate::access::{Access, Reach};
use crate::args::{AcknowledgeArgs, AlertsArgs, StatsArgs};
use crate::print::{list, show, show_sections};

/// `alerts`.
pub(crate) async fn alerts<A: Access>(
    source: &A::Source,
    arguments: &AlertsArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let alerts = operations::alerts(session.outbox()).await;
    let mut items = alerts.map_err(|error| session.failed(error))?;
    items.retain(|state| arguments.all || state.record.is_active());
    let are_evaluated = operations::alerts_are_evaluated(session.outbox()).await;
    if !are_evaluated.map_err(|error| session.failed(error))? {
        note("no running process evaluates the alerts: they show what was true at an earlier time");
    }
    if items.is_empty() && arguments.output.output == Output::Table {
        note("no alert is active");
        return Ok(());
    }
    Ok(list(arguments.output.output, Page { items, next: None }, AlertView::from)?)
}

/// `alerts acknowledge`.
pub(crate) async fn acknowledge<A: Access>(
    source: &A::Source,
    arguments: &AcknowledgeArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let session = A::open(source, &arguments.common, Reach::Store).await?;
    let outbox = session.outbox();
    let until = outbox.now() + TimeDelta::from_std(arguments.duration).unwrap_or(TimeDelta::days(36_500));
    let reason = arguments.reason.clone();
    let alert = &arguments.alert;
    let state = operations::acknowledge_alert(outbox, session.operator(), alert, until, reason).await;
    let state = state
        .map_err(|error| session.failed_to_find(error, format!("alert {alert}"), "handover alerts --all"))?;
    session.close().await;
    Ok(show(arguments.output.output, &AlertView::from(state))?)
}

/// `stats`.
pub(crate) async fn stats<A: Access>(
    source: &A::Source,
    arguments: &StatsArgs<A::Flags>,
) -> Result<(), A::Failure> {
    let reach = if arguments.since.is_some() { Reach::Store } else { Reach::Broker };
    let session = A::open(source, &arguments.common, reach).await?;
    let (outbox, format) = (session.outbox(), arguments.output.output);
    let Some(since) = arguments.since else { return present(&session, arguments).await };
    let since = outbox.now() - TimeDelta::from_std(since).unwrap_or(TimeDelta::days(36_500));
    let series = operations::stat_history(outbox, since, arguments.metric.as_deref()).await;
    let items = series.map_err(|error| session.failed(error))?;
    if items.is_empty() && arguments.metric.is_none() && format == Output::Table {
        note("no minute of this time is recorded yet; these are the present figures");
        session.close().await;
        let session = A::open(source, &arguments.common, Reach::Broker).await?;
        return present(&session, arguments).await;
    }
    let page = Page { items, next: None };
    match format {
        Output::Table => list(format, page, StatSummaryView::from)?,
        Output::Json => list(format, page, StatSeriesView::from)?,
    }
    Ok(())
}

async fn present<A: Access>(session: &A, arguments: &StatsArgs<A::Flags>) -> Result<(), A::Failure> {
    let stats = operations::stats(session.outbox(), session.operator(), arguments.tenant).await;
    let view = StatsView::from(stats.map_err(|error| session.failed(error))?);
    Ok(show_sections(arguments.output.output, &view)?)
}
