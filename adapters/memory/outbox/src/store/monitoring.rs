//! The state of alerts, reports of processes, and statistics over time.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, OutboxStatus};
use handover_outbox::ports::{
    Acknowledgement, AlertRecord, MonitoringQueries, MonitoringRepo, ProcessReport, Resolution, StatSample,
    StoreError,
};

use super::leases::in_ms;
use super::locks::Lock;
use super::outbox_tables::{OutboxRows as _, OutboxTables};
use super::statement::Tables;
use super::tables::Row;
use super::unit::MemoryUnit;

impl Row<OutboxTables> for AlertRecord {
    type Key = String;
    type Index = ();

    fn key(&self) -> String {
        self.alert.clone()
    }
}

impl Row<OutboxTables> for ProcessReport {
    type Key = String;
    type Index = ();

    fn key(&self) -> String {
        self.process.clone()
    }
}

impl Row<OutboxTables> for StatSample {
    type Key = (Resolution, DateTime<Utc>, String, String);
    type Index = ();

    fn key(&self) -> Self::Key {
        (self.resolution, self.at, self.metric.clone(), self.labels.clone())
    }
}

#[async_trait]
impl<X: Tables> MonitoringQueries for MemoryUnit<X> {
    async fn alert_records(&mut self) -> Result<Vec<AlertRecord>, StoreError> {
        self.read_outbox(|statement| statement.alerts().all().cloned().collect()).await
    }

    async fn process_reports(&mut self) -> Result<Vec<ProcessReport>, StoreError> {
        self.read_outbox(|statement| statement.process_reports().all().cloned().collect()).await
    }

    async fn stat_samples(
        &mut self,
        resolution: Resolution,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<Vec<StatSample>, StoreError> {
        self.read_outbox(|statement| {
            let samples = statement.stat_samples();
            let asked =
                samples.all().filter(|it| it.resolution == resolution && it.at >= since && it.at < until);
            asked.cloned().collect()
        })
        .await
    }

    async fn most_retries(&mut self) -> Result<u32, StoreError> {
        self.read_outbox(|statement| {
            let (rows, log) = (statement.outbox(), statement.consumptions());
            let retried =
                rows.all().filter(|row| row.status == OutboxStatus::Retry).map(|row| row.retry_count);
            let failed =
                log.all().filter(|row| row.is.status == ConsumeStatus::Failed).map(|row| row.is.attempts);
            retried.chain(failed).max().unwrap_or(0)
        })
        .await
    }
}

#[async_trait]
impl<X: Tables> MonitoringRepo for MemoryUnit<X> {
    async fn save_alert(&mut self, record: &AlertRecord) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::Alert(record.alert.clone())], |statement| {
            let existing = statement.alerts().get(&record.alert);
            let acknowledgement = existing.and_then(|row| row.acknowledgement.clone());
            statement.own.alerts.put(AlertRecord { acknowledgement, ..record.clone() });
            Ok(())
        })
        .await
    }

    async fn acknowledge_alert(
        &mut self,
        alert: &str,
        acknowledgement: &Acknowledgement,
    ) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::Alert(alert.to_owned())], |statement| {
            let record = statement.alerts().get(&alert.to_owned()).cloned();
            let record = record.unwrap_or_else(|| AlertRecord::new(alert));
            statement
                .own
                .alerts
                .put(AlertRecord { acknowledgement: Some(acknowledgement.clone()), ..record });
            Ok(())
        })
        .await
    }

    async fn report_process(&mut self, process: &str, report: &str, for_ms: u32) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::ProcessReport(process.to_owned())], |statement| {
            let alive_until = in_ms(statement, for_ms);
            let (process, report) = (process.to_owned(), report.to_owned());
            statement.own.process_reports.put(ProcessReport { process, report, alive_until });
            Ok(())
        })
        .await
    }

    async fn remove_process_report(&mut self, process: &str) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::ProcessReport(process.to_owned())], |statement| {
            statement.own.process_reports.remove(&process.to_owned());
            Ok(())
        })
        .await
    }

    async fn add_stat_samples(&mut self, samples: &[StatSample]) -> Result<(), StoreError> {
        let locks = samples.iter().map(|sample| Lock::StatSample(sample.key()));
        self.write_outbox(locks.collect(), |statement| {
            for sample in samples {
                if statement.stat_samples().get(&sample.key()).is_none() {
                    statement.own.stat_samples.put(sample.clone());
                }
            }
            Ok(())
        })
        .await
    }

    async fn delete_stat_samples(
        &mut self,
        resolution: Resolution,
        before: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        self.write_outbox(Vec::new(), |statement| {
            let samples = statement.stat_samples();
            let old = samples.all().filter(|sample| sample.resolution == resolution && sample.at < before);
            for key in old.map(Row::key).collect::<Vec<_>>() {
                statement.own.stat_samples.remove(&key);
            }
            Ok(())
        })
        .await
    }
}
