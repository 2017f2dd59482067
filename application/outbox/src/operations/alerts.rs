//! Alerts: their state, and acknowledgements by operators.

use chrono::{DateTime, Utc};
use handover_events::Json;

use super::{Action, OperationError, Operator, Reason, changed_by_earlier_attempt};
use crate::alert::{Alert, EVALUATION};
use crate::jobs::missed_runs;
use crate::outbox::Outbox;
use crate::ports::{Acknowledgement, AlertRecord, AuditEntry, OutboxView, StoreError};
use crate::transaction::with_tx;

/// Evaluations that may be late before nobody is thought to evaluate the alerts.
const MAX_MISSED_EVALUATIONS: f64 = 3.0;

/// An alert with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertState {
    /// The alert, with the limit of this process.
    pub alert: Alert,
    /// Its state; that of [`AlertRecord::new`] if it has never started.
    pub record: AlertRecord,
    /// Whether an operator has acknowledged it for now.
    pub is_acknowledged: bool,
}

/// All alerts in the order of the configuration, the active ones first. They contain counts and names only, and cover all
/// tenants; every operator may see them. Not recorded in the audit log: programs poll them.
pub async fn alerts(outbox: &Outbox) -> Result<Vec<AlertState>, OperationError> {
    let mut view = outbox.view().await?;
    Ok(states(outbox, view.outbox_view()).await?)
}

/// Whether a running process evaluates the alerts: it did so within the last three of its intervals. Otherwise the alerts show what
/// was true at an earlier time.
pub async fn alerts_are_evaluated(outbox: &Outbox) -> Result<bool, OperationError> {
    let records = outbox.view().await?.outbox_view().job_records().await?;
    let record = records.iter().find(|record| record.job == EVALUATION);
    let missed = record.and_then(|record| missed_runs(record, outbox.now()));
    Ok(missed.is_some_and(|missed| missed <= MAX_MISSED_EVALUATIONS))
}

pub(super) async fn states(
    outbox: &Outbox,
    view: &mut dyn OutboxView,
) -> Result<Vec<AlertState>, StoreError> {
    let records = view.alert_records().await?;
    let now = outbox.now();
    let state = |alert: &Alert| {
        let record = records.iter().find(|record| record.alert == alert.name()).cloned();
        let record = record.unwrap_or_else(|| AlertRecord::new(alert.name()));
        let is_acknowledged = record.is_acknowledged(now);
        AlertState { alert: *alert, record, is_acknowledged }
    };
    let mut states: Vec<AlertState> = outbox.alerts.iter().map(state).collect();
    states.sort_by_key(|state| !state.record.is_active());
    Ok(states)
}

/// Acknowledges an alert until a time: nobody is notified of it. Its state does not change. Only for operators of all
/// tenants, because an alert concerns all of them. Returns the new state.
pub async fn acknowledge_alert(
    outbox: &Outbox,
    operator: &Operator,
    name: &str,
    until: DateTime<Utc>,
    reason: Reason,
) -> Result<AlertState, OperationError> {
    if !operator.sees_all_tenants {
        return Err(OperationError::ForAllTenants);
    }
    let find = |alert: &&Alert| alert.name() == name;
    let alert = outbox.alerts.iter().find(find).ok_or(OperationError::NotFound { what: "alert" })?;
    let text = reason.as_str().to_owned();
    let until_text = until.to_rfc3339();
    let selection = [("alert", Some(Json::from(name))), ("until", Some(Json::from(until_text.as_str())))];
    let action = Action { reason: Some(reason), ..Action::read("alerts.acknowledge", selection) };
    let entry = action.entry(operator, (1, 1), outbox.now());
    let acknowledgement = Acknowledgement { until, by: operator.name.clone(), reason: text };
    let input = (alert.name(), acknowledgement, entry);
    with_tx(&outbox.tx, input, |unit, (alert, acknowledgement, entry), attempt| {
        Box::pin(async move {
            if changed_by_earlier_attempt(unit.outbox(), attempt, entry).await?.is_some() {
                return Ok(());
            }
            unit.outbox().acknowledge_alert(alert, acknowledgement).await?;
            unit.outbox().audit(&AuditEntry { matched: 1, changed: 1, ..entry.clone() }).await
        })
    })
    .await?;
    let states = alerts(outbox).await?;
    states
        .into_iter()
        .find(|state| state.alert.name() == name)
        .ok_or(OperationError::NotFound { what: "alert" })
}
