//! Check of the periodic jobs: the result of the last recorded run of each.

use chrono::{DateTime, Utc};
use handover_outbox::ports::{JobRecord, Store, StoreError, View};
use handover_sql::SqlStore;

use super::report::Check;

/// Name of the check.
pub(super) const JOBS: &str = "jobs";

/// The check; `None` if no job has run yet.
pub(super) async fn check(store: &SqlStore) -> Result<Option<Check>, StoreError> {
    Ok(checked(&store.view().await?.outbox_view().job_records().await?))
}

fn checked(records: &[JobRecord]) -> Option<Check> {
    let oldest = records.iter().min_by_key(|record| record.last_run)?;
    let failed: Vec<String> = records
        .iter()
        .filter(|record| record.last_success != Some(record.last_run))
        .map(|record| {
            let success = record.last_success.map_or_else(|| "never".to_owned(), time);
            format!("{} at {}, last success {success}", record.job, time(record.last_run))
        })
        .collect();
    Some(if failed.is_empty() {
        let last = format!("longest ago: {} at {}", oldest.job, time(oldest.last_run));
        Check::ok(JOBS, format!("the last run of every job succeeded; {last}"))
    } else {
        Check::warn(
            JOBS,
            format!("the last run failed: {}", failed.join("; ")),
            "the work of the job waits until a run succeeds",
            "see the log of the processes for the error of the job",
        )
    })
}

fn time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    fn record(job: &str, run: &str, success: Option<&str>) -> JobRecord {
        let at = |text: &str| text.parse().unwrap();
        let (job, last_success) = (job.to_owned(), success.map(at));
        JobRecord { job, last_run: at(run), last_success, behind_since: None, interval: None }
    }

    #[test]
    fn job_whose_last_run_failed_is_a_warning_with_the_time_of_its_last_success() {
        assert!(checked(&[]).is_none());
        let [one, two] = ["2026-11-21T03:00:00Z", "2026-11-21T03:00:30Z"];
        let good = [record("Reaper", two, Some(two)), record("Sweep", one, Some(one))];
        let check = checked(&good).unwrap();
        assert_eq!(check.status, Status::Ok);
        assert!(check.what.ends_with("longest ago: Sweep at 2026-11-21 03:00:00 UTC"), "{}", check.what);
        let bad = [record("Reaper", two, Some(one)), record("Sweep", one, None)];
        let check = checked(&bad).unwrap();
        assert_eq!(check.status, Status::Warn);
        let failed = "Reaper at 2026-11-21 03:00:30 UTC, last success 2026-11-21 03:00:00 UTC; \
                      Sweep at 2026-11-21 03:00:00 UTC, last success never";
        assert!(check.what.ends_with(failed), "{}", check.what);
    }
}
