//! The state of alerts, reports of processes, and statistics over time.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::ConsumeStatus;
use handover_outbox::ports::{
    Acknowledgement, AlertRecord, Consumption, FailedPublish, ProcessReport, Resolution, StatSample,
    Thousandths,
};

use super::jobs::now;
use super::outbox::append;
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{SPECIAL_CHARACTERS, consumption, event, later, to_failed, to_retry};

const MINUTE: u32 = 60_000;

fn active(alert: &str) -> AlertRecord {
    AlertRecord {
        started: Some(later(1)),
        value: Thousandths::of(1_200.5),
        subject: "queue=loans".to_owned(),
        ..AlertRecord::new(alert)
    }
}

fn acknowledged(until: i64) -> Acknowledgement {
    Acknowledgement { until: later(until), by: "user:9".to_owned(), reason: SPECIAL_CHARACTERS.to_owned() }
}

async fn save(rig: &dyn StoreRig, record: &AlertRecord) {
    in_unit!(rig, |unit| unit.outbox().save_alert(record).await.unwrap());
}

async fn acknowledge(rig: &dyn StoreRig, alert: &str, acknowledgement: &Acknowledgement) {
    in_unit!(rig, |unit| unit.outbox().acknowledge_alert(alert, acknowledgement).await.unwrap());
}

async fn alerts(rig: &dyn StoreRig) -> Vec<AlertRecord> {
    view(rig).await.outbox_view().alert_records().await.expect("cannot read the alerts")
}

/// The state of an alert and its acknowledgement are written independently of each other.
pub async fn the_state_of_an_alert_and_its_acknowledgement_are_independent(rig: &dyn StoreRig) {
    save(rig, &active("queue-depth")).await;
    acknowledge(rig, "queue-depth", &acknowledged(60)).await;
    let both = AlertRecord { acknowledgement: Some(acknowledged(60)), ..active("queue-depth") };
    assert_eq!(alerts(rig).await, [both]);
    let ended = AlertRecord { ended: Some(later(9)), value: Thousandths(-7), ..active("queue-depth") };
    save(rig, &ended).await;
    let kept = AlertRecord { acknowledgement: Some(acknowledged(60)), ..ended.clone() };
    assert_eq!(alerts(rig).await, [kept]);
    acknowledge(rig, "queue-depth", &acknowledged(70)).await;
    let expected = AlertRecord { acknowledgement: Some(acknowledged(70)), ..ended };
    assert_eq!(alerts(rig).await, std::slice::from_ref(&expected));
    if let Some(reopened) = rig.reopened().await {
        let mut view = reopened.view().await.unwrap();
        assert_eq!(view.outbox_view().alert_records().await.unwrap(), [expected]);
    }
}

/// An alert can be acknowledged before it has ever started. Alerts are ordered by name, byte by byte.
pub async fn alerts_are_ordered_by_name(rig: &dyn StoreRig) {
    acknowledge(rig, "storage", &acknowledged(5)).await;
    for alert in ["outbox-new", "Storage"] {
        save(rig, &active(alert)).await;
    }
    let never = AlertRecord { acknowledgement: Some(acknowledged(5)), ..AlertRecord::new("storage") };
    assert_eq!(alerts(rig).await, [active("Storage"), active("outbox-new"), never]);
}

async fn report(rig: &dyn StoreRig, process: &str, report: &str) {
    in_unit!(rig, |unit| unit.outbox().report_process(process, report, MINUTE).await.unwrap());
}

async fn reports(rig: &dyn StoreRig) -> Vec<ProcessReport> {
    view(rig).await.outbox_view().process_reports().await.expect("cannot read the reports")
}

/// A process has one report, which counts from the time of the database, until it is removed.
pub async fn the_last_report_of_a_process_counts_from_the_database_time(rig: &dyn StoreRig) {
    let before = now(rig).await;
    for (process, text) in [("b", "{}"), ("a", "{}"), ("b", SPECIAL_CHARACTERS)] {
        report(rig, process, text).await;
    }
    let after = now(rig).await;
    let read = reports(rig).await;
    let texts: Vec<_> = read.iter().map(|it| (it.process.as_str(), it.report.as_str())).collect();
    assert_eq!(texts, [("a", "{}"), ("b", SPECIAL_CHARACTERS)]);
    let slack = TimeDelta::milliseconds(2); // a clock may be coarser than a microsecond
    for begin in read.iter().map(|it| it.alive_until - TimeDelta::minutes(1)) {
        assert!(before - slack <= begin && begin <= after + slack, "{begin} for {before}..{after}");
    }
    in_unit!(rig, |unit| unit.outbox().remove_process_report("b").await.unwrap());
    assert_eq!(reports(rig).await, read[..1]);
}

fn sample(resolution: Resolution, at: DateTime<Utc>, metric: &str, labels: &str) -> StatSample {
    let (metric, labels) = (metric.to_owned(), labels.to_owned());
    StatSample { resolution, at, metric, labels, mean: Thousandths(1_500), max: Thousandths(-2) }
}

async fn add(rig: &dyn StoreRig, samples: &[StatSample]) {
    in_unit!(rig, |unit| unit.outbox().add_stat_samples(samples).await.unwrap());
}

async fn samples(rig: &dyn StoreRig, resolution: Resolution, since: i64, until: i64) -> Vec<StatSample> {
    let mut view = view(rig).await;
    view.outbox_view()
        .stat_samples(resolution, later(since), later(until))
        .await
        .expect("cannot read samples")
}

/// Samples of one resolution are read from a half-open range of times, ordered by time, metric and labels. A sample that
/// exists is kept.
pub async fn a_sample_is_written_once_and_read_in_its_period(rig: &dyn StoreRig) {
    use Resolution::{Minute, TenMinutes};
    let at = |seconds, metric, labels| sample(Minute, later(seconds), metric, labels);
    let all = [
        at(0, "rows", ""),
        at(60, "Rows", ""),
        at(60, "rows", "status=NEW"),
        at(60, "rows", "status=RETRY"),
        at(120, "rows", ""),
    ];
    add(rig, &[&all[3..], &all[..3], &[sample(TenMinutes, later(60), "rows", "")]].concat()).await;
    let other = StatSample { mean: Thousandths(9), max: Thousandths(9), ..all[0].clone() };
    add(rig, &[other, at(180, "rows", "")]).await;
    assert_eq!(samples(rig, Minute, 0, 180).await, all);
    assert_eq!(samples(rig, Minute, 60, 120).await, all[1..4]);
    assert_eq!(samples(rig, TenMinutes, 0, 180).await, [sample(TenMinutes, later(60), "rows", "")]);
    assert_eq!(samples(rig, Minute, 180, 181).await, [at(180, "rows", "")]);
}

/// Old samples of one resolution are deleted; later ones, and those of the other resolution, are kept.
pub async fn old_samples_of_one_resolution_are_deleted(rig: &dyn StoreRig) {
    use Resolution::{Minute, TenMinutes};
    let both = |seconds| Resolution::ALL.map(|resolution| sample(resolution, later(seconds), "rows", ""));
    add(rig, &[both(0), both(60)].concat()).await;
    in_unit!(rig, |unit| unit.outbox().delete_stat_samples(Minute, later(60)).await.unwrap());
    assert_eq!(samples(rig, Minute, 0, 100).await, [sample(Minute, later(60), "rows", "")]);
    assert_eq!(samples(rig, TenMinutes, 0, 100).await.len(), 2);
}

/// The retries of pending and of unapplied events are found, not those of settled ones.
pub async fn the_most_retries_are_those_of_unsettled_events(rig: &dyn StoreRig) {
    let most = async || view(rig).await.outbox_view().most_retries().await.expect("cannot read the retries");
    assert_eq!(most().await, 0);
    append(rig, &[event("new", 7, 1), event("retried", 8, 1), event("failed", 9, 1)]).await;
    let retried = FailedPublish { retry_count: 2, ..to_retry("retried", Some(later(60))) };
    let failed = FailedPublish { retry_count: 9, ..to_failed("failed") };
    in_unit!(rig, |unit| unit.outbox().mark_failed(&[retried, failed], later(1)).await.map(drop).unwrap());
    assert_eq!(most().await, 2);
    let log = |id, status, attempts| {
        let record = consumption("inventory", &event(id, 7, 1));
        Consumption { status, attempts, ..record }
    };
    let records = [
        log("applied", ConsumeStatus::Success, 8),
        log("dead", ConsumeStatus::Dead, 7),
        log("unapplied", ConsumeStatus::Failed, 3),
    ];
    in_unit!(rig, |unit| unit.outbox().record(&records).await.unwrap());
    assert_eq!(most().await, 3);
}

/// Dropping a unit of work undoes its writes of alerts, reports and samples.
pub async fn a_dropped_unit_of_work_changes_nothing_of_the_monitoring(rig: &dyn StoreRig) {
    report(rig, "kept", "{}").await;
    let before = (alerts(rig).await, reports(rig).await);
    let mut unit = begin(rig).await;
    unit.outbox().save_alert(&active("storage")).await.unwrap();
    unit.outbox().acknowledge_alert("outbox-new", &acknowledged(5)).await.unwrap();
    unit.outbox().report_process("new", "{}", MINUTE).await.unwrap();
    unit.outbox().remove_process_report("kept").await.unwrap();
    unit.outbox().add_stat_samples(&[sample(Resolution::Minute, later(0), "rows", "")]).await.unwrap();
    drop(unit);
    assert_eq!((alerts(rig).await, reports(rig).await), before);
    assert_eq!(samples(rig, Resolution::Minute, 0, 60).await, []);
}
