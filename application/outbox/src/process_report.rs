//! Reports of the processes in the database.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::{debug, error, warn};

use crate::broker_outage::Outage;
use crate::figures::Figures;
use crate::outbox::Outbox;
use crate::ports::{OnFailed, OutboxView, ProcessReport, StoreError};
use crate::running_settings::RunningSetting;
use crate::transaction::with_tx;

/// A report counts for this multiple of the interval, so that one that is late is not missed.
const COUNTS_FOR: u32 = 3;

/// What a process reports besides its figures. A process of an earlier version reports none of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProcessFacts {
    pub(crate) settings: Vec<RunningSetting>,
    /// Whether a failed event holds back later events of its aggregate (`outbox.on-failed`).
    pub(crate) holds_after_failed: Option<bool>,
    pub(crate) broker_outage: Option<Outage>,
}

impl ProcessFacts {
    fn of(outbox: &Outbox) -> ProcessFacts {
        let holds = match outbox.on_failed {
            OnFailed::Hold => true,
            OnFailed::Continue => false,
        };
        ProcessFacts {
            settings: outbox.settings.get(),
            holds_after_failed: Some(holds),
            broker_outage: outbox.outage.ongoing(outbox.now()),
        }
    }
}

/// Writes the report of this process at this interval until the process stops, then removes it.
pub(crate) async fn keep_reporting(outbox: Outbox, interval: Duration) {
    let process = format!("process-{:016x}", outbox.random().next());
    let for_ms = u32::try_from((interval * COUNTS_FOR).as_millis()).unwrap_or(u32::MAX);
    let stopping = outbox.stopping().clone();
    let mut has_failed = false;
    while !stopping.is_cancelled() {
        let written = write(&outbox, &process, for_ms).await;
        let refusal = written.as_ref().err().and_then(StoreError::system_fault).map(ToString::to_string);
        let earlier = outbox.figures.set_refusal(refusal.clone());
        match (earlier, refusal) {
            // Each process logs this alert by itself, because none can record in the database that it has started.
            (None, Some(reason)) => error!(
                code = "alert.started",
                alert = "storage",
                %reason,
                "[ALERT] storage: the database refuses writes; see the runbook"
            ),
            (Some(_), None) if written.is_ok() => {
                warn!(
                    code = "alert.ended",
                    alert = "storage",
                    "[ALERT] storage ended: the database accepts writes"
                );
            }
            (None | Some(_), None | Some(_)) => {}
        }
        match written {
            Ok(()) => has_failed = false,
            Err(error) if has_failed => debug!(%error, "process report not written"),
            Err(error) => {
                has_failed = true;
                warn!(code = "process-report.not-written", %error, "process report not written; retrying every {interval:?}");
            }
        }
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = outbox.settings.changed() => {}
            () = outbox.sleep(interval) => {}
        }
    }
    let removed = with_tx(&outbox.tx, process, |unit, process, _| {
        Box::pin(async move { unit.outbox().remove_process_report(process).await })
    });
    if let Err(error) = removed.await {
        debug!(%error, "process report not removed; it ends by itself");
    }
}

async fn write(outbox: &Outbox, process: &str, for_ms: u32) -> Result<(), StoreError> {
    #[derive(Serialize)]
    struct Report {
        #[serde(flatten)]
        figures: Figures,
        #[serde(flatten)]
        facts: ProcessFacts,
    }
    let report = Report { figures: outbox.figures.recent(outbox.now()), facts: ProcessFacts::of(outbox) };
    let report = serde_json::to_string(&report).map_err(|error| StoreError::Backend(Box::new(error)))?;
    with_tx(&outbox.tx, (process.to_owned(), report), move |unit, (process, report), _| {
        Box::pin(async move { unit.outbox().report_process(process, report, for_ms).await })
    })
    .await
}

/// The figures of all processes whose reports count. An unreadable report, of another version, is omitted.
pub(crate) async fn reported(view: &mut dyn OutboxView) -> Result<Figures, StoreError> {
    let mut all = Figures::default();
    for report in running(view).await? {
        match serde_json::from_str(&report.report) {
            Ok(figures) => all.add(&figures),
            Err(error) => debug!(%error, process = report.process, "process report not readable"),
        }
    }
    Ok(all)
}

/// What each running process reports, by the id of its run.
pub(crate) async fn facts(view: &mut dyn OutboxView) -> Result<Vec<(String, ProcessFacts)>, StoreError> {
    let mut all = Vec::new();
    for report in running(view).await? {
        match serde_json::from_str(&report.report) {
            Ok(facts) => all.push((report.process, facts)),
            Err(error) => debug!(%error, process = report.process, "process report not readable"),
        }
    }
    Ok(all)
}

/// The effect of a `FAILED` event in the running processes: that of this outbox, if none of them reports it.
pub(crate) async fn running_on_failed(
    outbox: &Outbox,
    view: &mut dyn OutboxView,
) -> Result<OnFailed, StoreError> {
    let reported: Vec<bool> =
        facts(view).await?.into_iter().filter_map(|(_, facts)| facts.holds_after_failed).collect();
    Ok(match reported.is_empty() {
        true => outbox.on_failed,
        false if reported.contains(&true) => OnFailed::Hold,
        false => OnFailed::Continue,
    })
}

/// The outage of the broker that this process or another one has noticed, with its earliest begin.
pub(crate) async fn reported_outage(
    outbox: &Outbox,
    view: &mut dyn OutboxView,
) -> Result<Option<Outage>, StoreError> {
    let reported = facts(view).await?.into_iter().filter_map(|(_, facts)| facts.broker_outage);
    Ok(outbox.outage.ongoing(outbox.now()).into_iter().chain(reported).min_by_key(|outage| outage.since))
}

/// The reports that count.
async fn running(view: &mut dyn OutboxView) -> Result<Vec<ProcessReport>, StoreError> {
    let now = view.database_now().await?;
    let mut reports = view.process_reports().await?;
    reports.retain(|report| report.alive_until > now);
    Ok(reports)
}
