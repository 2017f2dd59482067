//! The archive moves settled events to files and back, and loses none.

mod application;
mod erasing;
mod faults;
mod job;
mod load;
mod operators;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::{EventId, TenantId, Trace};
use handover_outbox::Outbox;
use handover_outbox::archive::{
    Archive, ArchiveError, ArchiveMark, ArchiveReport, ArchiveStorage, KeptBecause, MAX_EXAMINED_ROWS,
    MAX_RUN_EVENTS, NeededEvents, NoNeededEvents, RetentionPolicy,
};
use handover_outbox::consumers::Subscriber;
use handover_outbox::operations::{
    Named, OperationError, Operator, Reason, RestoreEvents, RestoreSelection, Restored, restore_events,
};
use handover_outbox::ports::*;

use crate::library::{Library, QUEUE, event_id, eventually};
use crate::{Loans, lent, noted};
use faults::{Failure, Fault, Files, Fuse, Fused};

const DAY: Duration = Duration::from_secs(86_400);
const IDS: [&str; 3] = ["a", "b", "c"];

/// Redrives an event, or needs all, when it is asked for the second time: between the file and the unit of work.
struct Meanwhile {
    library: Library,
    asked: AtomicUsize,
    redrives: Option<&'static str>,
}

#[async_trait]
impl NeededEvents for Meanwhile {
    async fn needed(&self, rows: &[OutboxRow]) -> Result<BTreeSet<EventId>, StoreError> {
        let is_second = self.asked.fetch_add(1, Ordering::Relaxed) == 1;
        match self.redrives {
            Some(id) if is_second => {
                let due = self.library.outbox.now();
                let mut unit = self.library.tx.begin().await?;
                unit.outbox().redrive(&[Redrive { event_id: event_id(id), due }], due).await?;
                unit.commit().await?;
                Ok(BTreeSet::new())
            }
            None if is_second => Ok(rows.iter().map(|row| row.event_id.clone()).collect()),
            Some(_) | None => Ok(BTreeSet::new()),
        }
    }
}

/// A library with three settled events, 40 days later.
async fn library() -> Library {
    let subscriber = Subscriber::new(QUEUE, Arc::new(Loans));
    let library = Library::sending([lent(), noted()]).with(&subscriber).started().await;
    let events = (1..).zip(IDS).map(|(book, id)| library.event(id, "BOOK_LENT", book, 1, r#"{"reader":3}"#));
    library.commit(events.collect()).await;
    library.settled(&IDS).await;
    library.set_clock_forward(40 * DAY);
    library
}

fn platform() -> Operator {
    Operator {
        name: "user:1".to_owned(),
        tenant: TenantId::DEFAULT,
        sees_all_tenants: true,
        sees_personal_data: false,
        trace: Trace { trace_id: "t".to_owned(), traceparent: None },
    }
}

impl Library {
    async fn settled(&self, ids: &[&str]) {
        for id in ids {
            eventually(async || self.consumed("loans", id).await.is_some()).await;
            eventually(async || self.row(id).await.sent_time.is_some()).await;
        }
    }

    fn archive(&self, files: &Arc<Files>) -> Archive {
        let policy = RetentionPolicy::new(30 * DAY);
        archive_of(&self.outbox, Arc::clone(files) as Arc<_>, policy)
    }

    /// The outbox of a process with an archive.
    fn outbox_with(&self, files: &Arc<Files>) -> Outbox {
        let policy = RetentionPolicy::new(30 * DAY);
        self.outbox.clone().with_archive(Arc::clone(files) as Arc<_>, policy, Arc::new(NoNeededEvents))
    }

    /// The outbox of a process with an archive, one of whose calls fails.
    fn failing_outbox(&self, files: &Arc<Files>, fuse: &Arc<Fuse>) -> Outbox {
        let store = Arc::new(Fused(Arc::clone(self.outbox.tx.store()), Arc::clone(fuse)));
        let mut outbox = self.outbox.clone();
        outbox.tx = outbox.tx.with_store(store);
        let storage: Arc<dyn ArchiveStorage> = Arc::new(Fused(Arc::clone(files), Arc::clone(fuse)));
        outbox.with_archive(storage, RetentionPolicy::new(30 * DAY), Arc::new(NoNeededEvents))
    }

    /// The archive, one of whose calls fails.
    fn archive_with(&self, files: &Arc<Files>, fuse: &Arc<Fuse>) -> Archive {
        Archive::of(&self.failing_outbox(files, fuse)).unwrap()
    }

    async fn stored(&self) -> Vec<StoredEvent> {
        let mut view = self.outbox.view().await.unwrap();
        view.outbox_view().stored_events(&IDS.map(event_id)).await.unwrap()
    }

    async fn archived_ids(&self) -> Vec<EventId> {
        let mut view = self.outbox.view().await.unwrap();
        let archived = view.outbox_view().archived_by_event(&IDS.map(event_id)).await.unwrap();
        archived.into_iter().map(|event| event.event_id).collect()
    }

    async fn recorded_files(&self) -> Vec<ArchiveFile> {
        let mut view = self.outbox.view().await.unwrap();
        let files = view.outbox_view().archive_files(None, 9).await.unwrap();
        files.into_iter().map(|file| file.effect).collect()
    }

    async fn unrecorded(&self) -> Vec<UnrecordedFile> {
        self.outbox.view().await.unwrap().outbox_view().unrecorded_files(9).await.unwrap()
    }

    /// Number of events in the outbox and in the archive; each is in one of them.
    async fn places(&self) -> (usize, usize) {
        let outbox: BTreeSet<EventId> = self.stored().await.into_iter().map(|event| event.event_id).collect();
        let archive: BTreeSet<EventId> = self.archived_ids().await.into_iter().collect();
        assert_eq!((outbox.len() + archive.len(), outbox.union(&archive).count()), (3, 3));
        (outbox.len(), archive.len())
    }
}

fn archive_of(outbox: &Outbox, storage: Arc<dyn ArchiveStorage>, policy: RetentionPolicy) -> Archive {
    Archive::of(&outbox.clone().with_archive(storage, policy, Arc::new(NoNeededEvents))).unwrap()
}

async fn run(archive: &Archive) -> Result<ArchiveReport, ArchiveError> {
    archive.run(&mut ArchiveMark::default(), MAX_RUN_EVENTS).await
}

fn of_all() -> RestoreSelection {
    RestoreSelection::Events(Named::new(IDS.map(event_id).to_vec()).unwrap())
}

async fn restore(archive: &Archive, events: RestoreSelection) -> Result<Restored, OperationError> {
    let reason = Reason::new("the readers asked".to_owned()).unwrap();
    restore_events(archive, &platform(), RestoreEvents { events, reason }).await
}

#[tokio::test(start_paused = true)]
async fn settled_events_move_to_a_file_and_return_unchanged() {
    let library = library().await;
    let before = library.stored().await;
    assert_eq!((before.len(), before[0].records.len()), (3, 1));
    let files = Files::with(Fault::None);
    let archive = library.archive(&files);
    let preview = archive.preview().await.unwrap();
    assert_eq!((preview.files, preview.events, preview.more), (0, 3, false));
    assert_eq!((files.names(), library.places().await), (vec![], (3, 0)), "a preview changes nothing");
    let report = run(&archive).await.unwrap();
    assert_eq!((report.files, report.events, report.more), (1, 3, false));
    assert_eq!(
        (&report.kept, &preview.kept),
        (&[(KeptBecause::Failed, 3)].into(), &report.kept),
        "the notes"
    );
    assert_eq!(library.places().await, (0, 3));
    let file = library.recorded_files().await.remove(0);
    assert_eq!((file.events, file.records, file.bytes), (3, 3, report.bytes));
    assert!(file.done_time.is_some() && file.name.starts_with("2026/02/04/"), "{file:?}");
    let nothing = ArchiveReport { kept: report.kept, ..ArchiveReport::default() };
    assert_eq!(run(&archive).await.unwrap(), nothing);
    assert_eq!(restore(&archive, of_all()).await.unwrap().restored, 3);
    assert_eq!((library.stored().await, library.places().await), (before, (3, 0)));
    let again = restore(&archive, of_all()).await.unwrap();
    assert_eq!((again.restored, again.not_found), (0, IDS.map(event_id).to_vec()));
    assert_eq!(run(&archive).await.unwrap().kept[&KeptBecause::Recent], 3, "a new retention time begins");
    library.set_clock_forward(70 * DAY);
    assert_eq!(run(&archive).await.unwrap().events, 3, "a restored event is archived again, in another file");
    assert_eq!(files.names().len(), 2);
}

/// Another form is a change of the format: see the page "Upgrades and stability".
#[tokio::test(start_paused = true)]
async fn line_of_an_event_has_the_documented_form() {
    let library = library().await;
    let event = library.stored().await.remove(0);
    let files = Files::with(Fault::None);
    run(&library.archive(&files)).await.unwrap();
    let line: serde_json::Value = serde_json::from_str(&files.lines()[0]).unwrap();
    let form = |row: &StoredRow| {
        let columns = row.iter().map(|(column, value)| match value {
            StoredValue::Int(number) => (column.clone(), serde_json::json!(number)),
            StoredValue::Text(text) => (column.clone(), serde_json::json!(text)),
            StoredValue::Time(at) => panic!("the store in memory has no column with a time: {column}, {at}"),
        });
        serde_json::Value::Object(columns.collect())
    };
    let records: Vec<_> = event.records.iter().map(form).collect();
    assert_eq!(line, serde_json::json!({ "row": form(&event.row), "records": records }));
    assert_eq!(records.len(), 1, "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn events_of_several_days_are_in_several_files() {
    let library = library().await;
    library.commit(vec![library.event("later", "BOOK_LENT", 9, 1, r#"{"reader":3}"#)]).await;
    library.settled(&["later"]).await;
    library.set_clock_forward(80 * DAY);
    let files = Files::with(Fault::None);
    let report = run(&library.archive(&files)).await.unwrap();
    assert_eq!((report.files, report.events), (2, 4));
    let days: Vec<String> = files.names().iter().map(|name| name[..10].to_owned()).collect();
    assert_eq!(days, ["2026/02/04", "2026/03/16"]);
}

#[tokio::test(start_paused = true)]
async fn no_event_leaves_the_outbox_without_its_file() {
    for fault in [Fault::RefusesWrites, Fault::Truncates, Fault::LosesEvent] {
        let library = library().await;
        let before = library.stored().await;
        let error = run(&library.archive(&Files::with(fault))).await.unwrap_err();
        assert!(matches!(error, ArchiveError::Storage(_)), "{error:?}");
        assert_eq!((library.stored().await, library.recorded_files().await), (before, vec![]), "{fault:?}");
    }
}

/// For instance in a bucket without the permission to delete objects.
#[tokio::test(start_paused = true)]
async fn obsolete_file_that_cannot_be_removed_does_not_stop_the_archive() {
    let library = library().await;
    let since = library.outbox.now();
    let obsolete = UnrecordedFile { name: "obsolete".to_owned(), state: UnrecordedState::Obsolete, since };
    let mut unit = library.tx.begin().await.unwrap();
    unit.outbox().add_unrecorded_file(&obsolete).await.unwrap();
    unit.commit().await.unwrap();
    let files = Files::with(Fault::RefusesRemovals);
    let without_database = library.archive_with(&files, &Fuse::after(0, Failure::Refused));
    let error = run(&without_database).await.unwrap_err();
    assert!(matches!(error, ArchiveError::Store(_)), "{error:?}");
    assert_eq!(run(&library.archive(&files)).await.unwrap().events, 3);
    assert_eq!(library.unrecorded().await, [obsolete], "a later run removes it");
    run(&library.archive(&Files::with(Fault::None))).await.unwrap();
    assert_eq!(library.unrecorded().await, []);
}

#[tokio::test(start_paused = true)]
async fn recorded_file_that_the_storage_does_not_have_stops_the_archive() {
    let library = library().await;
    let mut unit = library.tx.begin().await.unwrap();
    let file = ArchiveFile {
        name: "lost".to_owned(),
        events: 1,
        records: 1,
        bytes: 1,
        sha256: String::new(),
        first_id: 1,
        last_id: 1,
        create_time: library.outbox.now(),
        done_time: None,
        erased: None,
    };
    unit.outbox().add_archive_file(&file).await.unwrap();
    unit.commit().await.unwrap();
    let error = run(&library.archive(&Files::with(Fault::None))).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no file lost in the archive");
    assert_eq!(library.places().await, (3, 0));
}

#[tokio::test(start_paused = true)]
async fn event_that_changed_since_its_file_was_written_stays() {
    for redrives in [Some("b"), None] {
        let library = library().await;
        let meanwhile = Meanwhile { library, asked: AtomicUsize::new(0), redrives };
        let meanwhile = Arc::new(meanwhile);
        let library = &meanwhile.library;
        let files = Files::with(Fault::None);
        let policy = RetentionPolicy::new(30 * DAY);
        let outbox = library.outbox.clone().with_archive(files, policy, Arc::clone(&meanwhile) as Arc<_>);
        let archive = Archive::of(&outbox).unwrap();
        let report = run(&archive).await.unwrap();
        let expected = if redrives.is_some() { (1, 2) } else { (3, 0) };
        assert_eq!((report.files, library.places().await), (1, expected), "{redrives:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_event_leaves_once_if_two_processes_archive_at_the_same_time() {
    let library = library().await;
    let before = library.stored().await;
    let files = Files::with(Fault::None);
    let one = library.archive(&files);
    let other = library.archive(&files);
    let (one, other) = tokio::join!(run(&one), run(&other));
    assert_eq!(one.unwrap().events + other.unwrap().events, 3);
    assert_eq!(library.places().await, (0, 3));
    assert!(library.recorded_files().await.iter().all(|file| file.done_time.is_some()));
    assert_eq!(restore(&library.archive(&files), of_all()).await.unwrap().restored, 3);
    assert_eq!(library.stored().await, before);
}

#[tokio::test(start_paused = true)]
async fn events_that_stay_are_examined_again_once_a_day() {
    let library = library().await;
    let notes = 1_000..1_000 + i64::from(MAX_EXAMINED_ROWS);
    let notes = notes.map(|book| library.event(&format!("n-{book}"), "LOAN_NOTED", book, 1, "{}"));
    library.commit(notes.collect()).await;
    library.commit(vec![library.event("last", "BOOK_LENT", 9, 1, r#"{"reader":3}"#)]).await;
    library.settled(&["last"]).await;
    library.set_clock_forward(80 * DAY);
    let archive = library.archive(&Files::with(Fault::None));
    let mut mark = ArchiveMark::default();
    let first = archive.run(&mut mark, MAX_RUN_EVENTS).await.unwrap();
    assert_eq!((first.events, first.kept), (4, [(KeptBecause::Failed, 504)].into()));
    let second = archive.run(&mut mark, MAX_RUN_EVENTS).await.unwrap();
    assert!(second.kept[&KeptBecause::Failed] < 100, "{second:?}");
    // With the clock set back, the notes after the first page are too new.
    for (days, kept) in [(81, 504), (10, 500)] {
        library.set_clock_forward(days * DAY);
        let full = archive.run(&mut mark, MAX_RUN_EVENTS).await.unwrap();
        assert_eq!(full.kept.values().sum::<u64>(), kept, "after {days} days");
    }
}

/// Polls work this many times. Returns its result if it has ended.
async fn polled<T>(polls: usize, mut work: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if let Poll::Ready(ended) = work.as_mut().poll(&mut context) {
            return Some(ended);
        }
        // Units of work run in tasks of their own.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn run_that_is_interrupted_at_any_point_is_continued() {
    let mut interruptions = 0;
    loop {
        let library = library().await;
        let before = library.stored().await;
        let files = Files::with(Fault::None);
        let archive = library.archive(&files);
        // Dropped afterwards, as at the end of a process.
        let ended = polled(interruptions, pin!(run(&archive))).await;
        let has_ended = ended.map(Result::unwrap).is_some();
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        library.places().await;
        run(&archive).await.unwrap();
        assert_eq!(library.places().await, (0, 3));
        assert!(library.recorded_files().await.iter().all(|file| file.done_time.is_some()));
        assert_eq!(restore(&archive, of_all()).await.unwrap().restored, 3);
        assert_eq!(library.stored().await, before, "after {interruptions} polls");
        if has_ended {
            assert!(interruptions > 5, "{interruptions}");
            return;
        }
        interruptions += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn run_and_restore_of_which_any_call_fails_are_continued() {
    for failure in [Failure::Refused, Failure::AnswerLost] {
        let mut calls = 0;
        loop {
            let library = library().await;
            let before = library.stored().await;
            let files = Files::with(Fault::None);
            let archive = library.archive(&files);
            let fuse = Fuse::after(calls, failure);
            let first = run(&library.archive_with(&files, &fuse)).await;
            let left = u64::try_from(library.places().await.1).unwrap();
            let second = run(&archive).await.unwrap();
            if let Ok(first) = &first {
                assert_eq!((first.events, second.events), (3, 0), "{failure:?} of call {calls}");
            }
            assert_eq!((left + second.events, library.places().await), (3, (0, 3)));
            assert!(library.recorded_files().await.iter().all(|file| file.done_time.is_some()));
            let in_restore = Fuse::after(calls, failure);
            let first = restore(&library.archive_with(&files, &in_restore), of_all()).await;
            library.places().await;
            let second = restore(&archive, of_all()).await.unwrap();
            if let Ok(first) = first {
                assert_eq!(first.restored + second.restored, 3, "{failure:?} of call {calls}");
            }
            assert_eq!(library.stored().await, before, "{failure:?} of call {calls}");
            if !fuse.has_blown() {
                assert!(calls > 10 && !in_restore.has_blown(), "{calls}");
                break;
            }
            calls += 1;
        }
    }
}
