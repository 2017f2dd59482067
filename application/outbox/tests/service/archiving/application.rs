//! The archive asks the application which events it needs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use handover_events::EventId;
use handover_outbox::archive::{Archive, ArchiveError, KeptBecause, NeededEvents, RetentionPolicy};
use handover_outbox::ports::*;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::faults::{Fault, Files};
use super::{DAY, library, run};
use crate::library::event_id;

/// A store with one connection for views, as a pool whose other connections are in use.
struct OneConnection {
    store: Arc<OutboxStore>,
    connection: Arc<Semaphore>,
}

#[async_trait]
impl Store for OneConnection {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        self.store.begin().await
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        let connection = Arc::clone(&self.connection).try_acquire_owned();
        let connection =
            connection.map_err(|_| StoreError::Unavailable("the connection is in use".into()))?;
        Ok(Box::new(Connected { view: self.store.view().await?, _connection: connection }))
    }
}

struct Connected {
    view: Box<dyn View>,
    _connection: OwnedSemaphorePermit,
}

impl View for Connected {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self.view.outbox_view()
    }
}

/// An application that reads its tables and needs no event.
struct Reads(Arc<OneConnection>);

#[async_trait]
impl NeededEvents for Reads {
    async fn needed(&self, rows: &[OutboxRow]) -> Result<BTreeSet<EventId>, StoreError> {
        let events: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
        self.0.view().await?.outbox_view().outbox_by_event(&events).await?;
        Ok(BTreeSet::new())
    }
}

#[tokio::test(start_paused = true)]
async fn archive_holds_no_view_while_it_asks_the_application() {
    let library = library().await;
    let connection = Arc::new(Semaphore::new(1));
    let store = Arc::new(OneConnection { store: Arc::clone(library.outbox.tx.store()), connection });
    let mut outbox = library.outbox.clone();
    outbox.tx = outbox.tx.with_store(Arc::clone(&store) as Arc<_>);
    let files = Files::with(Fault::None);
    let outbox = outbox.with_archive(files, RetentionPolicy::new(30 * DAY), Arc::new(Reads(store)));
    let archive = Archive::of(&outbox).unwrap();
    assert_eq!(run(&archive).await.unwrap().events, 3);
    assert_eq!(library.places().await, (0, 3));
}

/// An application that is unavailable when it is asked for the second time, which leaves the events of a recorded file in the
/// outbox. Afterwards a stored value about the event `b` is unreadable.
#[derive(Default)]
struct Unreadable {
    asked: AtomicUsize,
}

#[async_trait]
impl NeededEvents for Unreadable {
    async fn needed(&self, rows: &[OutboxRow]) -> Result<BTreeSet<EventId>, StoreError> {
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(BTreeSet::new()),
            1 => Err(StoreError::Unavailable("no connection".into())),
            _ if rows.iter().any(|row| row.event_id.as_str() == "b") => Err(StoreError::Corrupt {
                table: "loans",
                column: "status",
                key: "2".to_owned(),
                why: "no such status".to_owned(),
            }),
            _ => Ok(BTreeSet::new()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unfinished_file_is_finished_despite_an_unreadable_value_about_one_of_its_events() {
    let library = library().await;
    let files = Files::with(Fault::None);
    let policy = RetentionPolicy::new(30 * DAY);
    let outbox = library.outbox.clone().with_archive(files, policy, Arc::new(Unreadable::default()));
    let archive = Archive::of(&outbox).unwrap();
    let error = run(&archive).await.unwrap_err();
    assert!(matches!(error, ArchiveError::Store(StoreError::Unavailable(_))), "{error:?}");
    assert_eq!(library.places().await, (3, 0));
    let report = run(&archive).await.unwrap();
    assert_eq!((report.files, report.events, report.kept[&KeptBecause::Unreadable]), (0, 2, 1));
    let left: Vec<_> = library.stored().await.into_iter().map(|event| event.event_id).collect();
    assert_eq!((left, library.places().await), (vec![event_id("b")], (1, 2)));
    assert!(library.recorded_files().await[0].done_time.is_some());
}
