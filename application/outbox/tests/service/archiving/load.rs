//! The load of the archive on a slow database.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::Outbox;
use handover_outbox::archive::{ArchiveStorage, RetentionPolicy};
use handover_outbox::consumers::Subscriber;
use handover_outbox::ports::*;
use tokio::time::Instant;

use super::faults::{Fault, Files};
use super::{DAY, archive_of, run};
use crate::library::{Library, QUEUE};
use crate::{Loans, lent, noted};

/// Time of a commit: longer than that of a batch that is fast enough.
const SLOW: Duration = Duration::from_millis(300);
const EVENTS: usize = 1_000;

/// A store whose commits take [`SLOW`].
#[derive(Clone)]
struct SlowStore {
    outbox: Outbox,
    /// Number of archived events at each commit.
    archived: Arc<Mutex<Vec<usize>>>,
}

struct SlowUnit(Box<dyn UnitOfWork>, SlowStore);

#[async_trait]
impl Store for SlowStore {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        Ok(Box::new(SlowUnit(self.outbox.tx.store().begin().await?, self.clone())))
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.outbox.tx.store().view().await
    }
}

impl View for SlowUnit {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self.0.outbox_view()
    }
}

#[async_trait]
impl UnitOfWork for SlowUnit {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self.0.outbox()
    }

    async fn commit(mut self: Box<Self>) -> Result<(), StoreError> {
        self.1.outbox.sleep(SLOW).await;
        let limit = u32::try_from(EVENTS).unwrap();
        let archived = self.0.outbox().archived_page(&OutboxFilter::default(), None, limit).await?.len();
        self.1.archived.lock().unwrap().push(archived);
        self.0.commit().await
    }
}

#[tokio::test(start_paused = true)]
async fn slow_batches_are_halved_and_the_job_uses_the_database_for_a_tenth_of_the_time() {
    let subscriber = Subscriber::new(QUEUE, Arc::new(Loans));
    let library = Library::sending([lent(), noted()]).with(&subscriber).started().await;
    let ids: Vec<String> = (0..EVENTS).map(|n| format!("e-{n}")).collect();
    let events = (1..).zip(&ids).map(|(book, id)| library.event(id, "BOOK_LENT", book, 1, r#"{"reader":3}"#));
    library.commit(events.collect()).await;
    library.settled(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    library.set_clock_forward(40 * DAY);
    let archived: Arc<Mutex<Vec<usize>>> = Arc::default();
    let slow = SlowStore { outbox: library.outbox.clone(), archived: Arc::clone(&archived) };
    let mut outbox = library.outbox.clone();
    outbox.tx = outbox.tx.with_store(Arc::new(slow));
    let files = Files::with(Fault::None);
    let storage: Arc<dyn ArchiveStorage> = files;
    let archive = archive_of(&outbox, storage, RetentionPolicy::new(30 * DAY));
    let begun = Instant::now();
    assert_eq!(run(&archive).await.unwrap().events, 1_000);
    let took = begun.elapsed();
    let archived = archived.lock().unwrap().clone();
    let sizes = archived.windows(2).map(|pair| pair[1] - pair[0]).filter(|size| *size > 0);
    assert_eq!(sizes.collect::<Vec<_>>(), [500, 250, 125, 62, 31, 16, 16]);
    let busy = SLOW * u32::try_from(archived.len()).unwrap();
    assert!(took >= busy * 10, "the commits took {busy:?} of {took:?}");
}
