//! State of the whole deployment as metrics: numbers that are in the database and at the broker, and not in one process.
//!
//! **Invariant:** one process, the leader, reads and exports them. A process that no longer leads exports none, and nothing is
//! read when the metrics are exported.

mod alerts;
mod database;
mod deployment;
mod evaluation;
mod history;
mod sample;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tracing::{error, warn};

use crate::alert::{Alert, EVALUATION};
use crate::jobs::{Job, Leader, Periodic, Progress, RunBy};
use crate::metrics::Metric;
use crate::outbox::Outbox;
use crate::ports::{AlertRecord, Leadership, StoreError};
use crate::process_report::keep_reporting;
use crate::supervision::keep_running;
use crate::transaction::with_tx;

use alerts::{STORAGE, STORAGE_REFUSED};
use evaluation::{Change, Evaluator, Transition};
use history::History;
use sample::unix_seconds;

pub use alerts::{ALERT_ACKNOWLEDGED, ALERT_ACTIVE, ALERTS};
pub use database::DatabaseState;
pub use sample::{STATE_TIME, Sample, StateSource};

/// The metrics of the deployment's state, with those of alerts.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    deployment::METRICS.iter().chain(alerts::METRICS)
}

/// Name of the lease of the process that reads the state.
const LEASE: &str = "handover-state";
/// A process that ended without releasing its lease is replaced after this time.
const LEASE_MS: u32 = 15_000;

/// The state metrics of a process. Clones share them.
#[derive(Clone)]
pub struct StateMetrics {
    leader: Leader,
    outbox: Outbox,
    read: Arc<Mutex<Option<Read>>>,
}

/// The samples of one leadership.
struct Read {
    leadership: Leadership,
    samples: Vec<Sample>,
}

impl StateMetrics {
    /// Reads the state at this interval while this process leads, until it stops: the state of the outbox, and that of these
    /// sources. Evaluates the alerts of the outbox, and writes statistics over time. Every process reports its figures of the last
    /// five minutes at the same interval.
    pub fn start(
        outbox: &Outbox,
        of_application: Vec<Arc<dyn StateSource>>,
        interval: Duration,
    ) -> StateMetrics {
        let outbox = outbox.for_background_tasks();
        let leader = Leader::start(&outbox.tx, LEASE, LEASE_MS);
        let state = StateMetrics { leader: leader.clone(), outbox: outbox.clone(), read: Arc::default() };
        let reporting = outbox.clone();
        keep_running(&outbox.tx, "process-report", move || keep_reporting(reporting.clone(), interval));
        let deployment = deployment::Deployment::new(outbox.clone(), leader.clone());
        let mut sources: Vec<Arc<dyn StateSource>> = vec![Arc::new(deployment)];
        sources.extend(of_application);
        let job = ReadState { sources, state: state.clone(), memory: tokio::sync::Mutex::default() };
        Periodic::new(EVALUATION, interval, RunBy::Leader(leader)).start(&outbox.tx, job);
        state
    }

    /// The values that this process read last in the text format of Prometheus, without those of other metrics: a `/metrics` appends them to
    /// the text of its recorder. Empty unless this process leads.
    pub fn exposition(&self) -> String {
        sample::exposition(&self.samples())
    }

    /// The values that this process read last; none unless it leads.
    pub fn samples(&self) -> Vec<Sample> {
        let leadership = self.leader.leadership();
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let current = read.as_ref().filter(|read| Some(&read.leadership) == leadership.as_ref());
        let mut samples = current.map(|read| read.samples.clone()).unwrap_or_default();
        // Without writes no process leads, so each process exports this alert by itself.
        let is_refused = self.outbox.figures.is_refused();
        if is_refused || !samples.is_empty() {
            let refused = f64::from(u8::from(is_refused));
            samples.push(STORAGE_REFUSED.sample([], refused));
            samples.push(ALERT_ACTIVE.sample([STORAGE], refused));
        }
        samples
    }
}

/// The job of the leader.
struct ReadState {
    sources: Vec<Arc<dyn StateSource>>,
    state: StateMetrics,
    /// What one leadership remembers between two runs.
    memory: tokio::sync::Mutex<Option<Memory>>,
}

struct Memory {
    leadership: Leadership,
    evaluator: Evaluator,
    history: History,
}

#[async_trait]
impl Job for ReadState {
    async fn run(&self, leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        let Some(leadership) = leadership else { return Ok(Progress::Done) };
        let outbox = &self.state.outbox;
        let at = outbox.now();
        let mut samples = vec![STATE_TIME.sample([], unix_seconds(at))];
        let mut failed = None;
        for source in &self.sources {
            match source.read().await {
                Ok(read) => samples.extend(read),
                // The others are exported all the same; the job reports its error.
                Err(error) => failed = Some(error),
            }
        }
        let mut memory = self.memory.lock().await;
        let fresh = || Memory {
            leadership: leadership.clone(),
            evaluator: Evaluator::default(),
            history: History::default(),
        };
        let memory = match &mut *memory {
            Some(memory) if memory.leadership == *leadership => memory,
            other => other.insert(fresh()),
        };
        match evaluate(outbox, leadership, &mut memory.evaluator, &samples).await {
            Ok(alerts) => samples.extend(alerts),
            Err(error) => failed = Some(error),
        }
        if let Err(error) = memory.history.add(outbox, leadership, &samples, at).await {
            failed = Some(error);
        }
        let read = Read { leadership: leadership.clone(), samples };
        *self.state.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
        failed.map_or(Ok(Progress::Done), Err)
    }
}

/// Evaluates the alerts and writes their changes. Returns their samples.
async fn evaluate(
    outbox: &Outbox,
    leadership: &Leadership,
    evaluator: &mut Evaluator,
    samples: &[Sample],
) -> Result<Vec<Sample>, StoreError> {
    let now = outbox.now();
    let mut records = outbox.view().await?.outbox_view().alert_records().await?;
    let changes = evaluator.evaluate(&outbox.alerts, samples, &records, now);
    if !changes.is_empty() && write(outbox, leadership, &changes).await? {
        changes.iter().for_each(log);
        for change in changes {
            records.retain(|record| record.alert != change.record.alert);
            records.push(change.record);
        }
    }
    let of = |alert: &Alert| records.iter().find(|record| record.alert == alert.name());
    let gauge = |metric: Metric, alert: &Alert, is_set: bool| {
        metric.sample([alert.name()], f64::from(u8::from(is_set)))
    };
    let evaluated = outbox.alerts.iter().filter(|alert| alert.name() != STORAGE);
    let active =
        evaluated.map(|alert| gauge(ALERT_ACTIVE, alert, of(alert).is_some_and(AlertRecord::is_active)));
    let acknowledged = outbox.alerts.iter().map(|alert| {
        gauge(ALERT_ACKNOWLEDGED, alert, of(alert).is_some_and(|record| record.is_acknowledged(now)))
    });
    Ok(active.chain(acknowledged).collect())
}

/// Writes the changes, unless this process no longer leads. Returns whether it did.
async fn write(outbox: &Outbox, leadership: &Leadership, changes: &[Change]) -> Result<bool, StoreError> {
    let records: Vec<AlertRecord> = changes.iter().map(|change| change.record.clone()).collect();
    with_tx(&outbox.tx, (leadership.clone(), records), |unit, (leadership, records), _| {
        Box::pin(async move {
            let outbox = unit.outbox();
            if !outbox.fence_leader(leadership).await? {
                return Ok(false);
            }
            for record in records.iter() {
                outbox.save_alert(record).await?;
            }
            Ok(true)
        })
    })
    .await
}

fn log(change: &Change) {
    let Change { alert, transition, record, value } = change;
    let (name, severity, subject) = (alert.name(), alert.severity.as_str(), record.subject.as_str());
    let value = alert.limit.shown(*value);
    match transition {
        Transition::Started => {
            error!(code = "alert.started", alert = name, severity, subject, %value, limit = %alert.limit,
            "[ALERT] {name} started: {}", alert.meaning)
        }
        Transition::Ended => {
            let lasted =
                record.ended.zip(record.started).map(|(ended, started)| (ended - started).num_seconds());
            warn!(
                code = "alert.ended",
                alert = name,
                severity,
                lastedSeconds = lasted,
                "[ALERT] {name} ended"
            );
        }
        Transition::Updated => {}
    }
}
