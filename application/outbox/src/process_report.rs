//! Reports of the processes in the database.

use std::time::Duration;

use tracing::{debug, error, warn};

use crate::figures::Figures;
use crate::outbox::Outbox;
use crate::ports::{OutboxView, StoreError};
use crate::transaction::with_tx;

/// A report counts for this multiple of the interval, so that one that is late is not missed.
const COUNTS_FOR: u32 = 3;

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
    let figures = outbox.figures.recent(outbox.now());
    let report = serde_json::to_string(&figures).map_err(|error| StoreError::Backend(Box::new(error)))?;
    with_tx(&outbox.tx, (process.to_owned(), report), move |unit, (process, report), _| {
        Box::pin(async move { unit.outbox().report_process(process, report, for_ms).await })
    })
    .await
}

/// The figures of all processes whose reports count. An unreadable report, of another version, is omitted.
pub(crate) async fn reported(view: &mut dyn OutboxView) -> Result<Figures, StoreError> {
    let now = view.database_now().await?;
    let mut all = Figures::default();
    for report in view.process_reports().await?.into_iter().filter(|report| report.alive_until > now) {
        match serde_json::from_str(&report.report) {
            Ok(figures) => all.add(&figures),
            Err(error) => debug!(%error, process = report.process, "process report not readable"),
        }
    }
    Ok(all)
}
