//! Faults of alerts, reports of processes and statistics over time.

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::*;
use marketplace::ports::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> MonitoringQueriesWrapper for Faulty<U> {
    async fn stat_samples(
        &mut self,
        resolution: Resolution,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<Vec<StatSample>, StoreError> {
        let late = TimeDelta::microseconds(i64::from(self.has(Fault::SamplesIncludeTheEnd)));
        self.inner().outbox_view().stat_samples(resolution, since, until + late).await
    }

    async fn most_retries(&mut self) -> Result<u32, StoreError> {
        if !self.has(Fault::RetriesOfConsumersAreIgnored) {
            return self.inner().outbox_view().most_retries().await;
        }
        let rows = self.inner().outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await?;
        let retried = rows.iter().filter(|row| row.status == handover_events::OutboxStatus::Retry);
        Ok(retried.map(|row| row.retry_count).max().unwrap_or(0))
    }
}

impl MonitoringRepoWrapper for Unit {
    async fn save_alert(&mut self, record: &AlertRecord) -> Result<(), StoreError> {
        let alert = self.stored_name(&record.alert, Fault::AlertNamesIgnoreCase);
        let records = self.inner().outbox().alert_records().await?;
        let is_acknowledged =
            records.iter().any(|record| record.alert == alert && record.acknowledgement.is_some());
        if is_acknowledged && self.has(Fault::SavedAlertsLoseTheirAcknowledgement) {
            let none =
                Acknowledgement { until: DateTime::UNIX_EPOCH, by: String::new(), reason: String::new() };
            self.inner().outbox().acknowledge_alert(&alert, &none).await?;
        }
        self.inner().outbox().save_alert(&AlertRecord { alert, ..record.clone() }).await
    }

    async fn acknowledge_alert(
        &mut self,
        alert: &str,
        acknowledgement: &Acknowledgement,
    ) -> Result<(), StoreError> {
        let alert = self.stored_name(alert, Fault::AlertNamesIgnoreCase);
        if self.has(Fault::AcknowledgementsResetAlerts) {
            self.inner().outbox().save_alert(&AlertRecord::new(&alert)).await?;
        }
        self.inner().outbox().acknowledge_alert(&alert, acknowledgement).await
    }

    async fn report_process(&mut self, process: &str, report: &str, for_ms: u32) -> Result<(), StoreError> {
        if self.has(Fault::ReportsAreWrittenOutsideUnit) {
            let mut own = self.shared.inner.begin().await?;
            own.outbox().report_process(process, report, for_ms).await?;
            return own.commit().await;
        }
        let for_ms = if self.has(Fault::ReportsCountTooLong) { 2 * for_ms } else { for_ms };
        self.inner().outbox().report_process(process, report, for_ms).await
    }

    async fn add_stat_samples(&mut self, samples: &[StatSample]) -> Result<(), StoreError> {
        if self.has(Fault::SamplesAreReplaced) {
            let earliest = samples.iter().map(|sample| sample.at).max();
            if let Some(at) = earliest {
                let end = at + TimeDelta::microseconds(1);
                self.inner().outbox().delete_stat_samples(Resolution::Minute, end).await?;
            }
        }
        self.inner().outbox().add_stat_samples(samples).await
    }

    async fn delete_stat_samples(
        &mut self,
        resolution: Resolution,
        before: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        if self.has(Fault::DeletesReachOtherResolutions) {
            for each in Resolution::ALL {
                self.inner().outbox().delete_stat_samples(each, before).await?;
            }
        }
        self.inner().outbox().delete_stat_samples(resolution, before).await
    }
}
