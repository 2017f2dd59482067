//! `reconcile`: compares expected with existing rows directly in the database, also while a process serves it.

use chrono::TimeDelta;
use handover_cli::Access;
use handover_cli::print::{list, show};
use handover_runtime::terminal::{Output, note, output, say};
use marketplace::use_cases::operations::{GRACE, ListFindings, Reconcile};
use marketplace_http::views::{ReconciliationView, RecordedFindingView};
use serde_json::Value;

use super::money::{failed, failed_to_find};
use super::operator::Operator;
use crate::cli::{
    FindingsAcknowledgeArgs, FindingsCommand, FindingsListArgs, ReconcileArgs, ReconcileCommand,
    ReconcileRunArgs,
};
use handover_runtime::{Exit, Failure};

/// `reconcile`.
pub(super) async fn reconcile(arguments: &ReconcileArgs) -> Result<Exit, Failure> {
    let Some(ReconcileCommand::Findings(findings)) = &arguments.command else {
        return run(&arguments.run).await;
    };
    match &findings.command {
        None => list_findings(&findings.list).await?,
        Some(FindingsCommand::Acknowledge(arguments)) => acknowledge_finding(arguments).await?,
    }
    Ok(Exit::Done)
}

/// `reconcile findings`.
async fn list_findings(arguments: &FindingsListArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let query = ListFindings {
        tenant: arguments.tenant,
        state: arguments.state,
        before: arguments.page.cursor,
        limit: arguments.page.limit,
    };
    let page = operator.app.operations.findings(&operator.context, query).await;
    let page = page.map_err(|error| failed(&operator, error))?;
    operator.session.close().await;
    Ok(list(arguments.output.output, page, RecordedFindingView::from)?)
}

/// `reconcile findings acknowledge`.
async fn acknowledge_finding(arguments: &FindingsAcknowledgeArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let id = arguments.finding;
    let reason = arguments.reason.clone();
    let acknowledged = operator.app.operations.acknowledge_finding(&operator.context, id, reason).await;
    let acknowledged = acknowledged.map_err(|error| {
        failed_to_find(&operator, error, format!("finding {id}"), "handover reconcile findings")
    })?;
    operator.session.close().await;
    Ok(show(arguments.output.output, &RecordedFindingView::from(acknowledged))?)
}

/// Reconciles, and repairs findings if `--repair` is given.
async fn run(arguments: &ReconcileRunArgs) -> Result<Exit, Failure> {
    const COLUMNS: [&str; 9] = [
        "kind",
        "tenantId",
        "orderId",
        "eventType",
        "eventId",
        "consumer",
        "idempotencyKey",
        "repaired",
        "what",
    ];
    let operator = Operator::open(&arguments.common).await?;
    let until = arguments.to.unwrap_or_else(|| operator.app.now());
    let usage = |what: &str| Failure::Usage {
        what: what.to_owned(),
        remedy: "see handover reconcile --help".to_owned(),
    };
    let since = match arguments.from {
        Some(from) => Some(from),
        None => TimeDelta::from_std(arguments.since).ok().and_then(|since| until.checked_sub_signed(since)),
    };
    let since =
        since.ok_or_else(|| usage("--since is too long: the start is outside the supported calendar"))?;
    if since >= until {
        return Err(usage("the time range ends before it begins"));
    }
    let command = Reconcile {
        tenant: arguments.tenant,
        since,
        until,
        grace: GRACE,
        repair: arguments.repair,
        reason: arguments.reason.clone(),
    };
    let result = operator.app.operations.reconcile(&operator.session.operator, command).await;
    let reconciliation = result.map_err(|error| operator.session.failed(error))?;
    operator.session.close().await;
    let is_sound = reconciliation.is_sound();
    let more = reconciliation.more;
    let view = output::value(&ReconciliationView::from(reconciliation));
    say(&match arguments.output.output {
        Output::Json => output::json(&view),
        Output::Table => table(&view, &COLUMNS),
    })?;
    if more {
        note("more findings exist: use a shorter time range, or repair the listed findings first");
    }
    if is_sound {
        return Ok(Exit::Done);
    }
    note(match arguments.repair {
        true => "some findings could not be repaired: see `handover order timeline` of their orders",
        false => "`handover reconcile --repair` repairs what can be repaired",
    });
    Ok(Exit::Failed)
}

/// Formats totals, counts per kind of finding, and the findings as text.
fn table(view: &Value, columns: &[&str]) -> String {
    let whole = view.as_object().into_iter().flatten();
    let counts = whole.clone().filter(|(name, _)| !matches!(name.as_str(), "findings" | "counts"));
    let of_kinds = view["counts"].as_object().into_iter().flatten();
    let lines: serde_json::Map<String, Value> =
        counts.chain(of_kinds).map(|(name, value)| (name.clone(), value.clone())).collect();
    let counts = output::object(&Value::Object(lines));
    match view["findings"].as_array().map_or(&[][..], Vec::as_slice) {
        [] => counts,
        findings => format!("{counts}\n{}", output::columns(columns, findings)),
    }
}
