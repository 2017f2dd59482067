//! The job of the archive.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::archive::{ArchiveJob, ArchiveMark, KeptBecause, MAX_RUN_EVENTS};
use handover_outbox::consumers::Subscriber;
use handover_outbox::jobs::{Job as _, Progress};
use handover_outbox::ports::*;

use super::faults::{Fault, Files};
use super::{DAY, IDS, library};
use crate::library::{Library, QUEUE, eventually};
use crate::{Loans, lent, noted};

/// The health of a database.
struct Health(DatabaseHealth);

#[async_trait]
impl DatabaseMonitor for Health {
    async fn health(&self) -> Result<DatabaseHealth, StoreError> {
        Ok(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn job_archives_unless_the_database_cannot_remove_old_row_versions() {
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    let health = DatabaseHealth::default();
    let cases = [
        (DatabaseHealth { oldest_transaction: minutes(2), ..health }, Progress::Postponed, 0),
        (DatabaseHealth { history_length: Some(100_001), ..health }, Progress::Postponed, 0),
        (
            DatabaseHealth { oldest_transaction: minutes(1), history_length: Some(100_000), ..health },
            Progress::Done,
            3,
        ),
    ];
    for (health, progress, archived) in cases {
        let library = library().await;
        let job = ArchiveJob::new(Some(library.archive(&Files::with(Fault::None))), Arc::new(Health(health)));
        assert_eq!(job.run(None).await.unwrap(), progress, "{health:?}");
        assert_eq!(library.places().await.1, archived, "{health:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn run_of_the_job_fails_with_the_reason_of_the_storage() {
    let library = library().await;
    let archive = library.archive(&Files::with(Fault::RefusesWrites));
    let job = ArchiveJob::new(Some(archive), Arc::new(Health(DatabaseHealth::default())));
    let error = job.run(None).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot use a file in the archive: no space left");
}

/// Another attempt at the event may still be in progress, which began before the record was written.
#[tokio::test(start_paused = true)]
async fn event_stays_until_its_records_are_old_too() {
    let subscriber = Subscriber::new(QUEUE, Arc::new(Loans));
    let library = Library::sending([lent(), noted()]).with(&subscriber);
    library.prepare().await;
    library.start_relay();
    library.commit(vec![library.event(IDS[0], "BOOK_LENT", 1, 1, r#"{"reader":3}"#)]).await;
    eventually(async || library.row(IDS[0]).await.sent_time.is_some()).await;
    library.set_clock_forward(40 * DAY);
    library.start();
    library.settled(&IDS[..1]).await;
    let archive = library.archive(&Files::with(Fault::None));
    let report = archive.run(&mut ArchiveMark::default(), MAX_RUN_EVENTS).await.unwrap();
    assert_eq!((report.events, report.kept.get(&KeptBecause::Recent)), (0, Some(&1)), "{report:?}");
    library.set_clock_forward(70 * DAY);
    let report = archive.run(&mut ArchiveMark::default(), MAX_RUN_EVENTS).await.unwrap();
    assert_eq!(report.events, 1, "{report:?}");
    library.tx.tasks().stop().await;
}
