//! Alerts, figures of processes, and statistics over time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use handover_outbox::operations::{
    AlertState, OperationError, Operator, Reason, acknowledge_alert, alerts, stat_history, stats,
};
use handover_outbox::ports::{
    AuditFilter, NewEvent, OutboxStore, Resolution, Store, StoreError, SystemFault, SystemFaultKind,
    Thousandths, UnitOfWork, View,
};
use handover_outbox::state::{ALERT_ACKNOWLEDGED, ALERT_ACTIVE, ALERTS, Sample, StateMetrics, StateSource};
use handover_outbox::topology::Topology;
use handover_outbox::{Alert, Limit, Metric, Outbox, Severity, Tasks, Transactor};

use crate::library::{Library, eventually};
use crate::operators::platform;
use crate::{lent, log};

const INTERVAL: Duration = Duration::from_secs(10);
const LEVEL: Metric = Metric::state("level", "Level of a tank").by(&["tank"]);

const FLOOD: Alert = Alert {
    key: "alerts.flood",
    severity: Severity::Page,
    meaning: "A tank is too full.",
    metrics: &[LEVEL],
    only: None,
    limit: Limit::Above(10),
};

type Level = (&'static str, f64);

/// Levels that the test sets; without any, they cannot be read.
#[derive(Clone, Default)]
struct Levels(Arc<Mutex<Option<Vec<Level>>>>);

impl Levels {
    fn set(&self, levels: &[Level]) {
        *self.0.lock().unwrap() = Some(levels.to_vec());
    }

    fn fail(&self) {
        *self.0.lock().unwrap() = None;
    }
}

#[async_trait]
impl StateSource for Levels {
    async fn read(&self) -> Result<Vec<Sample>, StoreError> {
        let levels = self.0.lock().unwrap().clone();
        let levels = levels.ok_or_else(|| StoreError::Unavailable("no gauge".into()))?;
        Ok(levels.into_iter().map(|(tank, level)| LEVEL.sample([tank], level)).collect())
    }
}

/// A process with these alerts that reads these levels.
fn watching(mut library: Library, alerts: &[Alert], levels: &Levels) -> (Library, StateMetrics) {
    library.outbox = library.outbox.with_alerts(alerts.iter().copied());
    let state = StateMetrics::start(&library.outbox, vec![Arc::new(levels.clone())], INTERVAL);
    (library, state)
}

async fn evaluations(library: &Library, count: u32) {
    library.outbox.tx.sleep(INTERVAL * count).await;
}

async fn flood(library: &Library) -> AlertState {
    alerts(&library.outbox).await.unwrap().remove(0)
}

fn gauge(state: &StateMetrics, metric: &Metric, alert: &str) -> Option<f64> {
    let samples = state.samples();
    let found = samples.iter().find(|it| it.metric.name == metric.name && it.labels == [alert]);
    found.map(|sample| sample.value)
}

fn alert_lines() -> Vec<String> {
    log::lines().into_iter().filter(|line| line.contains("[ALERT]")).collect()
}

fn reason() -> Reason {
    Reason::new("known".to_owned()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn alert_starts_after_two_evaluations_and_ends_after_two() {
    let levels = Levels::default();
    levels.set(&[("a", 11.0), ("b", 4.0)]);
    let (library, state) = watching(Library::sending([lent()]), &[FLOOD], &levels);
    eventually(async || !state.samples().is_empty()).await;
    assert!(!flood(&library).await.record.is_active(), "one evaluation starts nothing");
    assert_eq!(gauge(&state, &ALERT_ACTIVE, "flood"), Some(0.0));
    // Below the limit once: the next evaluation is the first one again.
    levels.set(&[("a", 10.0)]);
    evaluations(&library, 1).await;
    levels.set(&[("a", 11.5), ("b", 20.0)]);
    evaluations(&library, 1).await;
    assert!(!flood(&library).await.record.is_active());
    evaluations(&library, 1).await;
    let started = flood(&library).await.record;
    assert!(started.is_active());
    assert_eq!((started.value, started.subject.as_str()), (Thousandths(20_000), "tank=b"));
    assert_eq!(gauge(&state, &ALERT_ACTIVE, "flood"), Some(1.0));
    // What cannot be read neither ends nor starts an alert.
    levels.fail();
    evaluations(&library, 5).await;
    assert!(flood(&library).await.record.is_active());
    levels.set(&[("a", 12.0)]);
    evaluations(&library, 1).await;
    assert_eq!(flood(&library).await.record.value, Thousandths(12_000), "the value is the current one");
    levels.set(&[("a", 9.0)]);
    evaluations(&library, 1).await;
    assert!(flood(&library).await.record.is_active(), "one evaluation ends nothing");
    evaluations(&library, 1).await;
    let ended = flood(&library).await.record;
    assert_eq!((ended.is_active(), ended.started), (false, started.started));
    let lines = alert_lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, texts) in lines.iter().zip([
        ["flood started: A tank is too full.", "severity=\"page\"", "subject=\"tank=b\""],
        ["flood ended", "alert=\"flood\"", "code=\"alert.ended\""],
    ]) {
        assert!(texts.iter().all(|text| line.contains(text)), "{line}");
    }
    library.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn alert_with_a_duration_starts_only_after_it() {
    let alert = Alert { limit: Limit::For(Duration::from_secs(35)), ..FLOOD };
    let levels = Levels::default();
    levels.set(&[("a", 1.0)]);
    let (library, state) = watching(Library::sending([lent()]), &[alert], &levels);
    eventually(async || !state.samples().is_empty()).await;
    // Between 27 and 30 s: up to a tenth of an interval is subtracted.
    evaluations(&library, 3).await;
    assert!(!flood(&library).await.record.is_active());
    evaluations(&library, 2).await;
    assert!(flood(&library).await.record.is_active());
    library.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn next_leader_continues_an_active_alert_without_starting_it_again() {
    let levels = Levels::default();
    levels.set(&[("a", 11.0)]);
    let (first, leading) = watching(Library::sending([lent()]), &[FLOOD], &levels);
    eventually(async || gauge(&leading, &ALERT_ACTIVE, "flood") == Some(1.0)).await;
    let started = flood(&first).await.record.started;
    let (second, waiting) = watching(first.another_process([lent()]), &[FLOOD], &levels);
    first.tx.tasks().kill();
    eventually(async || gauge(&waiting, &ALERT_ACTIVE, "flood") == Some(1.0)).await;
    evaluations(&second, 3).await;
    assert_eq!(flood(&second).await.record.started, started);
    assert_eq!(alert_lines().len(), 1, "one line per deployment: {:?}", alert_lines());
    second.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn acknowledged_alert_stays_active_and_is_marked_until_the_time() {
    let levels = Levels::default();
    levels.set(&[("a", 11.0)]);
    let (library, state) = watching(Library::sending([lent()]), &[FLOOD], &levels);
    eventually(async || gauge(&state, &ALERT_ACTIVE, "flood") == Some(1.0)).await;
    let outbox = &library.outbox;
    let until = outbox.now() + TimeDelta::seconds(25);
    let of_one_tenant = Operator { sees_all_tenants: false, ..platform() };
    let refused = acknowledge_alert(outbox, &of_one_tenant, "flood", until, reason()).await;
    assert!(matches!(refused, Err(OperationError::ForAllTenants)));
    let unknown = acknowledge_alert(outbox, &platform(), "Flood", until, reason()).await;
    assert!(matches!(unknown, Err(OperationError::NotFound { what: "alert" })));
    let acknowledged = acknowledge_alert(outbox, &platform(), "flood", until, reason()).await.unwrap();
    assert!(acknowledged.is_acknowledged && acknowledged.record.is_active());
    evaluations(&library, 1).await;
    assert_eq!(gauge(&state, &ALERT_ACKNOWLEDGED, "flood"), Some(1.0));
    evaluations(&library, 3).await;
    assert_eq!(gauge(&state, &ALERT_ACKNOWLEDGED, "flood"), Some(0.0));
    assert_eq!(gauge(&state, &ALERT_ACTIVE, "flood"), Some(1.0));
    let mut view = outbox.view().await.unwrap();
    let changes = AuditFilter { tenant: None, changes: true, ..AuditFilter::default() };
    let audited = view.outbox_view().audit_page(&changes, None, 10).await.unwrap();
    let entries: Vec<_> =
        audited.iter().map(|row| (row.effect.action.as_str(), row.effect.changed)).collect();
    assert_eq!(entries, [("alerts.acknowledge", 1)]);
    assert!(audited[0].effect.selection.contains("\"alert\":\"flood\""), "{}", audited[0].effect.selection);
    drop(view);
    library.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn statistics_have_the_figures_of_all_processes() {
    let first = Library::sending([lent()]);
    first.prepare().await;
    let second = first.another_process([lent()]);
    let states = [&first, &second].map(|it| StateMetrics::start(&it.outbox, Vec::new(), INTERVAL));
    // Without a queue the broker returns every event.
    let event =
        |n: i64| NewEvent { max_retry_count: 0, ..first.event(&format!("e{n}"), "BOOK_LENT", n, 1, "{}") };
    first.commit((1..=10).map(event).collect()).await;
    first.start_relay();
    eventually(async || first.row("e10").await.status == handover_events::OutboxStatus::Failed).await;
    evaluations(&first, 2).await;
    first.tx.tasks().kill();
    second.commit((11..=20).map(event).collect()).await;
    second.start_relay();
    eventually(async || second.row("e20").await.status == handover_events::OutboxStatus::Failed).await;
    evaluations(&second, 1).await;
    let figures = stats(&second.outbox, &platform(), None).await.unwrap().recent;
    assert_eq!(
        (figures.all_publishes(), figures.failed_publishes()),
        (20, 20),
        "the report of the killed process counts"
    );
    let ratio = |state: &StateMetrics| {
        let samples = state.samples();
        samples.into_iter().find(|it| it.metric.name == "handover.publish.failures.ratio").map(|it| it.value)
    };
    eventually(async || ratio(&states[1]) == Some(1.0)).await;
    evaluations(&second, 4).await;
    let figures = stats(&second.outbox, &platform(), None).await.unwrap().recent;
    assert_eq!(figures.all_publishes(), 10, "the report of the killed process has ended");
    second.tx.sleep(Duration::from_secs(310)).await;
    let figures = stats(&second.outbox, &platform(), None).await.unwrap().recent;
    assert_eq!(figures.all_publishes(), 0, "after five minutes");
    second.tx.tasks().stop().await;
    let mut view = second.outbox.view().await.unwrap();
    let reports = view.outbox_view().process_reports().await.unwrap();
    assert_eq!(reports, [], "a process that stops removes its report, and the leader those of killed ones");
}

#[tokio::test(start_paused = true)]
async fn history_has_minutes_and_ten_minutes_of_every_leader() {
    let levels = Levels::default();
    levels.set(&[("a", 4.0)]);
    let (first, _leading) = watching(Library::sending([lent()]), &[], &levels);
    let begin = first.outbox.now();
    first.outbox.tx.sleep(Duration::from_secs(330)).await;
    levels.set(&[("a", 8.0)]);
    let (second, _waiting) = watching(first.another_process([lent()]), &[], &levels);
    first.tx.tasks().kill();
    second.outbox.tx.sleep(Duration::from_secs(400)).await;
    let level = async |resolution, until| {
        let mut view = second.outbox.view().await.unwrap();
        let until = begin + TimeDelta::seconds(until);
        let samples = view.outbox_view().stat_samples(resolution, begin, until).await.unwrap();
        let of_level = samples.into_iter().filter(|sample| sample.metric == "level");
        of_level.map(|sample| (sample.labels, sample.mean.value(), sample.max.value())).collect::<Vec<_>>()
    };
    let minutes = level(Resolution::Minute, 600).await;
    assert_eq!(minutes.first(), Some(&("tank=a".to_owned(), 4.0, 4.0)));
    assert_eq!(minutes.last(), Some(&("tank=a".to_owned(), 8.0, 8.0)));
    assert!(
        (8..=10).contains(&minutes.len()),
        "one per minute, except around the change of the leader: {minutes:?}"
    );
    let ten = level(Resolution::TenMinutes, 600).await;
    assert!(matches!(ten.as_slice(), [(_, mean, 8.0)] if (4.0..8.0).contains(mean)), "{ten:?}");
    let series = stat_history(&second.outbox, begin, Some("level")).await.unwrap();
    assert_eq!(series.len(), 1);
    assert_eq!((series[0].metric.as_str(), series[0].labels.as_str()), ("level", "tank=a"));
    assert!(series[0].values.len() >= 8, "{series:?}");
    let day = stat_history(&second.outbox, begin - TimeDelta::days(2), Some("level")).await.unwrap();
    assert_eq!(day[0].values.len(), 1, "older than a day: the ten minutes");
    // After a day, only the ten minutes are left.
    second.tx.tasks().stop().await;
    second.outbox.tx.sleep(Duration::from_secs(25 * 3_600)).await;
    let (third, _leading) = watching(second.another_process([lent()]), &[], &levels);
    third.outbox.tx.sleep(Duration::from_secs(150)).await;
    assert_eq!(level(Resolution::Minute, 600).await, []);
    assert_eq!(level(Resolution::TenMinutes, 600).await, ten);
    third.tx.tasks().stop().await;
}

/// A store that begins no unit of work while the flag is set.
pub(crate) struct Refusing {
    pub(crate) inner: Arc<OutboxStore>,
    pub(crate) refuses: Arc<AtomicBool>,
}

#[async_trait]
impl Store for Refusing {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        if self.refuses.load(Ordering::Relaxed) {
            let fault = SystemFault {
                kind: SystemFaultKind::Storage,
                is_rolled_back: true,
                cause: "database or disk is full".into(),
            };
            return Err(StoreError::Unavailable(Box::new(fault)));
        }
        self.inner.begin().await
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.inner.view().await
    }
}

#[tokio::test(start_paused = true)]
async fn database_that_refuses_writes_is_an_alert_of_each_process() {
    let library = Library::sending([lent()]);
    let refuses = Arc::new(AtomicBool::new(false));
    let store = Refusing { inner: Arc::clone(library.outbox.tx.store()), refuses: Arc::clone(&refuses) };
    let (clock, random) = (Arc::clone(library.outbox.tx.clock()), Arc::clone(library.outbox.random()));
    let tx = Transactor::new(Arc::new(store) as Arc<OutboxStore>, clock, random, Tasks::default());
    let topology = Topology::new("library.events", "library.dead-letters", "library.dead");
    let outbox = Outbox::new(tx, Arc::clone(&library.outbox.broker), topology);
    let outbox = outbox.with_alerts(ALERTS.iter().copied());
    let state = StateMetrics::start(&outbox, Vec::new(), INTERVAL);
    eventually(async || gauge(&state, &ALERT_ACTIVE, "storage") == Some(0.0)).await;
    refuses.store(true, Ordering::Relaxed);
    // Longer than the lease: no process leads any more.
    outbox.tx.sleep(Duration::from_secs(120)).await;
    assert_eq!(gauge(&state, &ALERT_ACTIVE, "storage"), Some(1.0));
    assert_eq!(gauge(&state, &ALERT_ACTIVE, "outbox-new"), None);
    refuses.store(false, Ordering::Relaxed);
    eventually(async || gauge(&state, &ALERT_ACTIVE, "storage") == Some(0.0)).await;
    let of_storage = |line: &String| line.contains("alert=\"storage\"");
    let lines: Vec<String> = alert_lines().into_iter().filter(of_storage).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("disk or memory: database or disk is full"), "{lines:?}");
    outbox.tasks().stop().await;
}

#[test]
fn names_and_limits_of_alerts_are_usable_as_settings() {
    for alert in ALERTS {
        assert_eq!(format!("alerts.{}", alert.name()), alert.key);
        assert!(alert.meaning.ends_with('.') && !alert.metrics.is_empty(), "{}", alert.key);
        let limit = alert.limit.to_string();
        assert!(limit.starts_with(|digit: char| digit.is_ascii_digit()), "{}: {limit}", alert.key);
    }
}
