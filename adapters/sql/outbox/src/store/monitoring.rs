//! The state of alerts, reports of processes, and statistics over time.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    Acknowledgement, AlertRecord, MonitoringQueries, MonitoringRepo, ProcessReport, Resolution, StatSample,
    StoreError, Thousandths,
};

use crate::row::Fields;
use crate::session::Session;
use crate::table::{Table as _, table};
use crate::value::values;

/// Events that [`MonitoringQueries::most_retries`] looks at in each of the two tables.
const MAX_RETRIED: u32 = 1_000;

table! {
    AlertTable("outbox_alerts" by "alert"), read row as AlertRecord, write record as &'a AlertRecord;
    insert { alert: string("alert" = &record.alert) }
    update {
        started: opt_time("started_time" = record.started),
        ended: opt_time("ended_time" = record.ended),
        value: (row.int("value_milli").map(Thousandths))("value_milli" = record.value.0),
        subject: string("subject" = &record.subject),
    }
    read { acknowledgement: (acknowledgement(&row))("acknowledged_until", "acknowledged_by", "reason") }
}

fn acknowledgement(row: &Fields<'_>) -> Result<Option<Acknowledgement>, StoreError> {
    let until = row.opt_time("acknowledged_until")?;
    let by = row.opt_string("acknowledged_by")?.unwrap_or_default();
    let reason = row.opt_string("reason")?.unwrap_or_default();
    Ok(until.map(|until| Acknowledgement { until, by, reason }))
}

table! {
    ReportTable("outbox_process_reports" by "process"), read row as ProcessReport, write report as &'a ProcessReport;
    insert { process: string("process" = &report.process) }
    update {
        report: string("report" = &report.report),
        alive_until: time("alive_until" = report.alive_until),
    }
}

table! {
    SampleTable("outbox_stat_samples" by "metric"), read row as StatSample, write sample as &'a StatSample;
    insert {
        resolution: (resolution(&row))("seconds" = sample.resolution.seconds()),
        at: time("taken_time" = sample.at),
        metric: string("metric" = &sample.metric),
        labels: string("labels" = &sample.labels),
        mean: (row.int("mean_milli").map(Thousandths))("mean_milli" = sample.mean.0),
        max: (row.int("max_milli").map(Thousandths))("max_milli" = sample.max.0),
    }
}

/// The primary key of the samples.
const SAMPLE_KEY: &str = "seconds, taken_time, metric, labels";

fn resolution(row: &Fields<'_>) -> Result<Resolution, StoreError> {
    let seconds = row.int("seconds")?;
    let named = Resolution::ALL.into_iter().find(|resolution| i64::from(resolution.seconds()) == seconds);
    named.ok_or_else(|| row.corrupt("seconds", "it is neither 60 nor 600"))
}

#[async_trait]
impl MonitoringQueries for Session {
    async fn alert_records(&mut self) -> Result<Vec<AlertRecord>, StoreError> {
        let sql = format!("SELECT {} FROM outbox_alerts ORDER BY alert", AlertTable::COLUMNS);
        self.fetch(&sql, Vec::new()).await?.iter().map(AlertTable::read).collect()
    }

    async fn process_reports(&mut self) -> Result<Vec<ProcessReport>, StoreError> {
        let sql = format!("SELECT {} FROM outbox_process_reports ORDER BY process", ReportTable::COLUMNS);
        self.fetch(&sql, Vec::new()).await?.iter().map(ReportTable::read).collect()
    }

    async fn stat_samples(
        &mut self,
        resolution: Resolution,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<Vec<StatSample>, StoreError> {
        let sql = format!(
            "SELECT {} FROM outbox_stat_samples WHERE seconds = ? AND taken_time >= ? AND taken_time < ? \
             ORDER BY taken_time, metric, labels",
            SampleTable::COLUMNS
        );
        let rows = self.fetch(&sql, values![resolution.seconds(), since, until]).await?;
        rows.iter().map(SampleTable::read).collect()
    }

    async fn most_retries(&mut self) -> Result<u32, StoreError> {
        // Events with many retries are due late.
        let published = format!(
            "SELECT max(retries) AS most FROM (SELECT retry_count AS retries FROM outbox_events {} \
             WHERE status = 'RETRY' ORDER BY next_retry_time DESC LIMIT {MAX_RETRIED}) retried",
            self.dialect.index("idx_status_time")
        );
        // Events with many attempts were recorded early. SQLite uses the partial index only with its own condition.
        let applied = format!(
            "SELECT max(attempts) AS most FROM (SELECT attempts FROM event_consume_log {} \
             WHERE status IN ('PROCESSING', 'WAITING', 'FAILED', 'DEAD') AND status = 'FAILED' \
             ORDER BY id LIMIT {MAX_RETRIED}) failed",
            self.dialect.index("idx_consume_open")
        );
        let mut most = 0;
        for sql in [published, applied] {
            let row = self.fetch_one(&sql, Vec::new()).await?;
            let found = row.map(|row| row.of("the retried events", "most").opt_int("most")).transpose()?;
            most = most.max(found.flatten().unwrap_or(0));
        }
        Ok(u32::try_from(most).unwrap_or(u32::MAX))
    }
}

#[async_trait]
impl MonitoringRepo for Session {
    async fn save_alert(&mut self, record: &AlertRecord) -> Result<(), StoreError> {
        self.insert_or_update::<AlertTable>(AlertTable::values(record)).await
    }

    async fn acknowledge_alert(
        &mut self,
        alert: &str,
        acknowledgement: &Acknowledgement,
    ) -> Result<(), StoreError> {
        let new = AlertRecord::new(alert);
        // The upsert does not change an existing row.
        let after = self.dialect.or_replace(AlertTable::KEY, &["alert"]);
        self.insert_into::<AlertTable>(AlertTable::values(&new), &after).await?;
        let sql = "UPDATE outbox_alerts SET acknowledged_until = ?, acknowledged_by = ?, reason = ? WHERE alert = ?";
        let Acknowledgement { until, by, reason } = acknowledgement;
        self.execute(sql, values![*until, by, reason, alert]).await.map(drop)
    }

    async fn report_process(&mut self, process: &str, report: &str, for_ms: u32) -> Result<(), StoreError> {
        let (_, alive_until) = self.now_and(for_ms).await?;
        let report = ProcessReport { process: process.to_owned(), report: report.to_owned(), alive_until };
        self.insert_or_update::<ReportTable>(ReportTable::values(&report)).await
    }

    async fn remove_process_report(&mut self, process: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM outbox_process_reports WHERE process = ?";
        self.execute(sql, values![process]).await.map(drop)
    }

    async fn add_stat_samples(&mut self, samples: &[StatSample]) -> Result<(), StoreError> {
        // The upsert does not change an existing row.
        let after = self.dialect.or_replace(SAMPLE_KEY, &["seconds"]);
        self.insert_into::<SampleTable>(SampleTable::rows(samples), &after).await
    }

    async fn delete_stat_samples(
        &mut self,
        resolution: Resolution,
        before: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let sql = "DELETE FROM outbox_stat_samples WHERE seconds = ? AND taken_time < ?";
        self.execute(sql, values![resolution.seconds(), before]).await.map(drop)
    }
}
