//! Erasure of the texts about a person in files of the archive.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::{AggregateRef, HistoryKind, TenantId};
use handover_outbox::archive::{
    Archive, ArchiveMark, ArchiveStorage, ArchiveStorageError, MAX_RUN_EVENTS, WrittenFile, read_archived,
};
use handover_outbox::operations::{
    Action, ErasedEvents, OperationError, Reason, erase_archived_events, erase_events,
};
use handover_outbox::ports::*;
use handover_outbox::{MASK, Outbox};
use tokio::sync::Notify;

use super::faults::{Failure, Fault, Files, Fuse};
use super::{DAY, IDS, archive_of, library, of_all, platform, polled, restore, run};
use crate::library::{Library, event_id};
use handover_outbox::archive::RetentionPolicy;

/// Time after which a file that a process left is removed.
const HOUR: Duration = Duration::from_secs(3_600);

const REASON: &str = "request of the reader";

fn erasure() -> Action {
    let reason = Reason::new(REASON.to_owned()).ok();
    Action { name: "readers.erase", selection: vec![("readerId".to_owned(), 3_i64.into())], reason }
}

/// The aggregate of the event `b`.
fn book() -> [AggregateRef; 1] {
    [AggregateRef { tenant: TenantId::DEFAULT, kind: "Book".to_owned(), id: 2.into() }]
}

/// Erases the texts about the event `b`: first in the outbox, then in the archive.
async fn erase(outbox: &Outbox) -> Result<ErasedEvents, OperationError> {
    let mut erased = erase_events(outbox, &platform(), &erasure(), &book()).await?;
    erased.add(erase_archived_events(outbox, &platform(), &erasure(), &book()).await?);
    Ok(erased)
}

impl Files {
    /// Whether a file has the unmasked payload of an event.
    fn has_text_of(&self, id: &str) -> bool {
        let is_of = |line: &&String| line.contains(&format!("\"event_id\":\"{id}\""));
        self.lines().iter().filter(is_of).any(|line| line.contains(r#"\"reader\":3"#))
    }
}

impl Library {
    /// Checks that each event is in the outbox or can be read from the file of the archive that the database names.
    async fn assert_nothing_is_lost(&self, files: &Arc<Files>) {
        self.places().await;
        let archived = self.outbox.view().await.unwrap();
        let archived = { archived }.outbox_view().archived_by_event(&IDS.map(event_id)).await.unwrap();
        let read = read_archived(&self.outbox.tx, &**files, &archived).await.unwrap();
        assert!(read.values().all(Result::is_ok), "{read:?}");
    }

    /// Checks that no text about the event `b` is left, and that the others are as before.
    async fn assert_erased(&self, files: &Arc<Files>, before: &[StoredEvent]) {
        assert_eq!((files.has_text_of("b"), self.unrecorded().await), (false, vec![]));
        let unrecorded = files.names().len() - self.recorded_files().await.len();
        assert_eq!(unrecorded, 0, "{:?}", files.names());
        restore(&self.archive(files), of_all()).await.unwrap();
        let after = self.stored().await;
        assert_eq!((after.len(), &after[0], &after[2]), (3, &before[0], &before[2]));
        let row = self.row("b").await;
        assert_eq!(row.payload, format!(r#"{{"reader":"{MASK}"}}"#));
        assert_eq!((row.erased_time.is_some(), row.erased_reason.as_deref()), (true, Some(REASON)));
    }
}

#[tokio::test(start_paused = true)]
async fn texts_in_files_are_masked_once_and_other_events_stay() {
    let library = library().await;
    let before = library.stored().await;
    let files = Files::with(Fault::None);
    let outbox = library.outbox_with(&files);
    let entry = HistoryEntry {
        tenant: TenantId::DEFAULT,
        event_id: event_id("b"),
        kind: HistoryKind::Retry,
        consumer: None,
        attempts: 1,
        detail: Some("Ann Smith".to_owned()),
        at: library.outbox.now(),
    };
    let mut unit = library.tx.begin().await.unwrap();
    unit.outbox().add_history(&[entry]).await.unwrap();
    unit.commit().await.unwrap();
    run(&library.archive(&files)).await.unwrap();
    let [first] = <[ArchiveFile; 1]>::try_from(library.recorded_files().await).unwrap();
    assert!(files.has_text_of("b") && first.erased.is_none());
    let erased = erase(&outbox).await.unwrap();
    assert_eq!((erased.files, erased.archived, erased.files_left), (1, 0, 0));
    assert_eq!(erased.rows, 2, "the event and its history");
    let [second] = <[ArchiveFile; 1]>::try_from(library.recorded_files().await).unwrap();
    assert_eq!(files.names(), std::slice::from_ref(&second.name));
    assert!(second.name != first.name && second.name.starts_with("2026/02/04/"), "{second:?}");
    assert_eq!((second.events, second.done_time), (first.events, first.done_time));
    let at = library.outbox.now();
    assert_eq!(second.erased, Some(Erasure { at, reason: REASON.to_owned() }));
    let erased_time = format!(r#""erased_time":{{"time":"{}"}}"#, at.format("%Y-%m-%dT%H:%M:%S%.6fZ"));
    assert_eq!(files.lines().iter().filter(|line| line.contains(&erased_time)).count(), 1, "{erased_time}");
    assert_eq!(library.places().await, (0, 3));
    let mut view = library.outbox.view().await.unwrap();
    let history = view.outbox_view().history_of(&[event_id("b")]).await.unwrap();
    assert!(history.iter().all(|entry| entry.detail.as_deref().is_none_or(|text| text == MASK)));
    drop(view);
    let again = erase(&outbox).await.unwrap();
    assert_eq!((again.rows, again.files, again.files_left), (0, 0, 0));
    assert_eq!(files.names(), [second.name]);
    library.assert_erased(&files, &before).await;
}

#[tokio::test(start_paused = true)]
async fn copies_of_restored_events_are_masked_too() {
    let library = library().await;
    let before = library.stored().await;
    let files = Files::with(Fault::None);
    run(&library.archive(&files)).await.unwrap();
    restore(&library.archive(&files), of_all()).await.unwrap();
    library.set_clock_forward(80 * DAY);
    run(&library.archive(&files)).await.unwrap();
    restore(&library.archive(&files), of_all()).await.unwrap();
    let erased = erase(&library.outbox_with(&files)).await.unwrap();
    assert_eq!((erased.files, erased.files_left), (2, 0));
    library.assert_erased(&files, &before).await;
}

#[tokio::test(start_paused = true)]
async fn files_that_cannot_be_masked_are_counted() {
    let library = library().await;
    let files = Files::with(Fault::None);
    run(&library.archive(&files)).await.unwrap();
    let without_archive = erase(&library.outbox).await.unwrap();
    assert_eq!((without_archive.archived, without_archive.files_left), (1, 1));
    files.lose_all();
    let lost = erase(&library.outbox_with(&files)).await.unwrap();
    assert_eq!((lost.archived, lost.files_left, lost.files), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn erasure_that_is_interrupted_at_any_point_is_continued() {
    let mut interruptions = 0;
    loop {
        let library = library().await;
        let before = library.stored().await;
        let files = Files::with(Fault::None);
        run(&library.archive(&files)).await.unwrap();
        let outbox = library.outbox_with(&files);
        let ended = polled(interruptions, pin!(erase(&outbox))).await;
        let has_ended = ended.map(Result::unwrap).is_some();
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        library.assert_nothing_is_lost(&files).await;
        library.set_clock_forward(40 * DAY + 2 * HOUR);
        let erased = erase(&outbox).await.unwrap();
        assert_eq!((erased.files_left, erased.archived), (0, 0), "after {interruptions} polls");
        library.assert_erased(&files, &before).await;
        if has_ended {
            assert!(interruptions > 5, "{interruptions}");
            return;
        }
        interruptions += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn erasure_of_which_any_call_fails_is_continued() {
    for failure in [Failure::Refused, Failure::AnswerLost] {
        let mut calls = 0;
        loop {
            let library = library().await;
            let before = library.stored().await;
            let files = Files::with(Fault::None);
            run(&library.archive(&files)).await.unwrap();
            let fuse = Fuse::after(calls, failure);
            if let Ok(erased) = erase(&library.failing_outbox(&files, &fuse)).await
                && erased.files_left == 0
            {
                assert!(!files.has_text_of("b"), "{failure:?} of call {calls}");
            }
            library.assert_nothing_is_lost(&files).await;
            library.set_clock_forward(40 * DAY + 2 * HOUR);
            let erased = erase(&library.outbox_with(&files)).await.unwrap();
            assert_eq!((erased.files_left, erased.archived), (0, 0), "{failure:?} of call {calls}");
            library.assert_erased(&files, &before).await;
            if !fuse.has_blown() {
                assert!(calls > 10, "{calls}");
                break;
            }
            calls += 1;
        }
    }
}

/// An erasure after any part of a run of the archive says whether a file may have a text, also one that the run writes later.
#[tokio::test(start_paused = true)]
async fn erasure_during_a_run_leaves_no_text_without_saying_so() {
    let mut polls = 0;
    loop {
        let library = library().await;
        let before = library.stored().await;
        let files = Files::with(Fault::None);
        let archive = library.archive(&files);
        let outbox = library.outbox_with(&files);
        let mut mark = ArchiveMark::default();
        let mut running = Box::pin(archive.run(&mut mark, MAX_RUN_EVENTS));
        let has_ended = polled(polls, running.as_mut()).await.is_some();
        let erased = erase(&outbox).await.unwrap();
        if !has_ended {
            running.await.unwrap();
        }
        if erased.files_left == 0 {
            assert!(!files.has_text_of("b"), "after {polls} polls");
        }
        library.set_clock_forward(40 * DAY + 2 * HOUR);
        erase(&outbox).await.unwrap();
        library.assert_erased(&files, &before).await;
        if has_ended {
            assert!(polls > 5, "{polls}");
            return;
        }
        polls += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn two_erasures_at_the_same_time_mask_everything() {
    let library = library().await;
    let before = library.stored().await;
    let files = Files::with(Fault::None);
    run(&library.archive(&files)).await.unwrap();
    let [one, other] = [library.outbox_with(&files), library.outbox_with(&files)];
    let (one, other) = tokio::join!(erase(&one), erase(&other));
    assert_eq!(one.unwrap().files + other.unwrap().files, 1);
    library.assert_erased(&files, &before).await;
}

/// The first read waits after the file was read.
struct Paused {
    files: Arc<Files>,
    has_paused: AtomicBool,
    reached: Notify,
    proceeds: Notify,
}

#[async_trait]
impl ArchiveStorage for Paused {
    async fn write(&self, name: &str, content: &[u8]) -> Result<WrittenFile, ArchiveStorageError> {
        self.files.write(name, content).await
    }

    async fn read(&self, name: &str, sha256: &str) -> Result<Vec<u8>, ArchiveStorageError> {
        let content = self.files.read(name, sha256).await;
        if !self.has_paused.swap(true, Ordering::Relaxed) {
            self.reached.notify_one();
            self.proceeds.notified().await;
        }
        content
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveStorageError> {
        self.files.remove(name).await
    }
}

#[tokio::test(start_paused = true)]
async fn restore_from_a_file_that_was_replaced_meanwhile_restores_masked_texts() {
    let library = library().await;
    let before = library.stored().await;
    let files = Files::with(Fault::None);
    run(&library.archive(&files)).await.unwrap();
    let paused = Arc::new(Paused {
        files: Arc::clone(&files),
        has_paused: AtomicBool::new(false),
        reached: Notify::new(),
        proceeds: Notify::new(),
    });
    let storage: Arc<dyn ArchiveStorage> = Arc::clone(&paused) as Arc<_>;
    let archive: Archive = archive_of(&library.outbox, storage, RetentionPolicy::new(30 * DAY));
    let outbox = library.outbox_with(&files);
    let erasing = async {
        paused.reached.notified().await;
        let erased = erase(&outbox).await.unwrap();
        paused.proceeds.notify_one();
        erased.files
    };
    let (restored, erased) = tokio::join!(restore(&archive, of_all()), erasing);
    assert_eq!((restored.unwrap().restored, erased), (3, 1));
    library.assert_erased(&files, &before).await;
}
