//! Messages of events that are in the archive.

use std::sync::Arc;

use handover_outbox::consumers::Subscriber;
use handover_outbox::ports::*;

use crate::library::{Library, QUEUE, event_id, eventually};
use crate::{Loans, lent, noted};

impl Library {
    /// Lends a book, waits until the event is settled, and archives it; returns the message of the event.
    async fn archived(&self, id: &str) -> Message {
        self.commit(vec![self.event(id, "BOOK_LENT", 1, 1, r#"{"reader":3}"#)]).await;
        eventually(async || self.consumed("loans", id).await.is_some() && self.is_quiet().await).await;
        eventually(async || self.row(id).await.sent_time.is_some()).await;
        let message = self.message(id).await;
        let mut unit = self.tx.begin().await.unwrap();
        let stored = unit.outbox().stored_events(&[event_id(id)]).await.unwrap();
        assert_eq!(unit.outbox().archive(1, &stored).await.unwrap(), [event_id(id)]);
        unit.commit().await.unwrap();
        message
    }
}

#[tokio::test(start_paused = true)]
async fn late_message_of_archived_event_is_a_duplicate() {
    let subscriber = Subscriber::new(QUEUE, Arc::new(Loans));
    let library = Library::sending([lent(), noted()]).with(&subscriber).started().await;
    let message = library.archived("old").await;
    library.inject(message);
    eventually(async || library.is_quiet().await).await;
    assert_eq!((library.consumed("loans", "old").await, library.dead_letters().await), (None, vec![]));
    assert_eq!(library.ids("LOAN_NOTED").await, ["old-noted-1"], "the event is applied once");
}

#[tokio::test(start_paused = true)]
async fn message_that_contradicts_archived_event_is_dead_lettered() {
    let subscriber = Subscriber::new(QUEUE, Arc::new(Loans));
    let library = Library::sending([lent(), noted()]).with(&subscriber).started().await;
    let message = library.archived("old").await;
    let body = message.body.replace("\"Book\"", "\"Shelf\"");
    library.inject(Message { body, ..message });
    eventually(async || !library.dead_letters().await.is_empty()).await;
    let reason = &library.dead_letters().await[0].reason;
    assert!(reason.contains("the archived event old has different content"), "{reason}");
}
