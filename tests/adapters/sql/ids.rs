//! Counters of ids that an import or an older version moved to the end of the range, or beyond it.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use chrono::Utc;
use handover_events::MAX_ID;
use handover_memory::SeededRandom;
use handover_outbox::ports::{Store, StoreError};
use handover_outbox::{Tasks, Transactor};
use handover_system::SystemClock;
use marketplace::Ids;
use marketplace::ports::{END_OF_IDS, IdKind, IdsExhausted};
use marketplace_domain::ProductId;
use sqlx::{AssertSqlSafe, Executor};
use tracing_subscriber::fmt::MakeWriter;

use super::{Fixture, append, event, fixture};

/// Log lines of this test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn count(&self, text: &str) -> usize {
        let log = self.0.lock().unwrap();
        String::from_utf8_lossy(&log).lines().filter(|line| line.contains(text)).count()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

/// The ids of a process that starts now.
fn restarted(fixture: &Fixture) -> Ids {
    Ids::new(Transactor::new(
        Arc::new(fixture.store.clone()),
        Arc::new(SystemClock),
        Arc::new(SeededRandom::new(7)),
        Tasks::default(),
    ))
}

async fn set_counter(fixture: &Fixture, next: i64) {
    let sql = format!("INSERT OR REPLACE INTO id_blocks (kind, next_id) VALUES ('product', {next})");
    fixture.direct_connection().await.execute(AssertSqlSafe(sql)).await.unwrap();
}

#[tokio::test]
async fn counter_outside_the_range_is_set_back_at_start() {
    crate::enable_tracing();
    let log = Log::default();
    let logged = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _logged = tracing::subscriber::set_default(logged);
    let fixture = fixture().await;
    for next in [END_OF_IDS + 1, 9_223_372_036_854_775_000, i64::MAX] {
        set_counter(&fixture, next).await;
        let ids = restarted(&fixture);
        let refused = ids.next::<ProductId>(IdKind::Product).await.unwrap_err();
        assert!(refused.to_string().contains("no product id is left"), "{refused}");
        ids.raise().await.unwrap();
        assert_eq!(ids.next::<ProductId>(IdKind::Product).await.unwrap().get(), 1);
    }
    assert_eq!(log.count("[ALERT] next id was outside the range of ids"), 3);
    let other = restarted(&fixture).next::<ProductId>(IdKind::Product).await.unwrap();
    assert_eq!(other.get(), 101);
}

#[tokio::test]
async fn end_of_ids_is_alerted_once_per_process_before_ids_are_refused_by_name() {
    crate::enable_tracing();
    let log = Log::default();
    let logged = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _logged = tracing::subscriber::set_default(logged);
    let fixture = fixture().await;
    let alert = "[ALERT] more than 90 % of the ids of this kind are reserved";
    set_counter(&fixture, MAX_ID / 10 * 9 - 100).await;
    let ids = restarted(&fixture);
    ids.raise().await.unwrap();
    ids.next::<ProductId>(IdKind::Product).await.unwrap();
    assert_eq!(log.count(alert), 0);
    set_counter(&fixture, MAX_ID - 250).await;
    for _ in 0..400 {
        if ids.next::<ProductId>(IdKind::Product).await.is_err() {
            break;
        }
    }
    assert_eq!(log.count(alert), 1);
    for _ in 0..2 {
        let refused = ids.next::<ProductId>(IdKind::Product).await.unwrap_err();
        let StoreError::Backend(cause) = refused else { panic!("{refused}") };
        let exhausted = cause.downcast_ref::<IdsExhausted>().unwrap();
        assert_eq!(exhausted.kind, IdKind::Product);
    }
    restarted(&fixture).raise().await.unwrap();
    assert_eq!(log.count(alert), 2, "another process alerts at its start");
    let state = fixture.store.view().await.unwrap().id_state(IdKind::Product).await.unwrap();
    assert!(state.is_nearly_exhausted() && !state.is_outside_range(), "{state:?}");
}

#[tokio::test]
async fn imported_event_does_not_move_the_start_of_a_new_consumer() {
    let fixture = fixture().await;
    append(&fixture.store, &[event("e1", 1, 1), event("e2", 2, 1)]).await.unwrap();
    let import = "UPDATE outbox_events SET id = 4000000000000000001 WHERE event_id = 'e2'";
    fixture.direct_connection().await.execute(import).await.unwrap();
    let mut unit = fixture.store.begin().await.unwrap();
    let subscription = unit.outbox().subscribe_consumer("new", Utc::now()).await.unwrap();
    unit.commit().await.unwrap();
    assert_eq!(subscription.after_id, 1);
}
