//! The archive asks the application which events it needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use handover_events::EventId;
use handover_outbox::archive::{Archive, NeededEvents, RetentionPolicy};
use handover_outbox::ports::*;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::faults::{Fault, Files};
use super::{DAY, library, run};

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
