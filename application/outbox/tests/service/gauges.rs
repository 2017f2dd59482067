//! Gauges of events that are not published yet.

use std::time::Duration;

use handover_outbox::ports::NewEvent;
use handover_outbox::runtime;

use crate::lent;
use crate::library::{Library, eventually};
use crate::measured::Measured;

const PENDING: &str = "outbox.event.pending";
const OLDEST_DUE: &str = "handover.outbox.oldest.due.seconds";

#[tokio::test(start_paused = true)]
async fn number_and_age_of_unpublished_events_are_measured_until_they_are_published() {
    let measured = Measured::default();
    let _recording = metrics::set_default_local_recorder(&measured);
    let library = Library::sending([lent()]);
    library.prepare().await;
    let event = |id: &str, book| library.event(id, "BOOK_LENT", book, 1, "{}");
    let later = library.outbox.now() + Duration::from_secs(500);
    library.commit(vec![event("due", 1), NewEvent { due: Some(later), ..event("later", 2) }]).await;
    runtime::start_gauges(&library.outbox);
    library.outbox.tx.sleep(Duration::from_secs(70)).await;
    assert_eq!(measured.gauge(PENDING), 2.0);
    let age = measured.gauge(OLDEST_DUE);
    assert!((60.0..=70.0).contains(&age), "{age}");
    // Without a queue the broker returns the event, so the relay gives it up at once.
    library.start_relay();
    eventually(async || measured.gauge(PENDING) == 1.0).await;
    assert_eq!(measured.gauge(OLDEST_DUE), 0.0, "the other event is not due");
    library.tx.tasks().stop().await;
}
