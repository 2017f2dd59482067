//! Two versions of a service in a rolling deployment: they share a store and a broker, and only the new version knows
//! the event type BOOK_RETURNED.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::{ConsumeStatus, OutboxStatus, TenantId, Trace};
use handover_memory::MemoryUnit;
use handover_outbox::EventSpec;
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::operations::{
    DeadLetterSelection, Named, Operator, ReplayDeadLetters, Replayed, replay_dead_letters,
};
use handover_outbox::ports::*;

use crate::library::{Library, QUEUE, event_id, eventually};
use crate::measured::Measured;
use crate::{lent, log, note_all, noted};

const COPIES: &str = "library.copies";

/// Appends a note for each event of these types.
struct Notes(&'static [&'static str]);

#[async_trait]
impl Handler<MemoryUnit> for Notes {
    fn name(&self) -> &str {
        "loans"
    }

    fn event_types(&self) -> Vec<&str> {
        self.0.to_vec()
    }

    async fn apply(&self, unit: &mut MemoryUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        note_all(unit.outbox(), events).await
    }
}

pub(crate) fn notes_of(types: &'static [&'static str]) -> Subscriber<MemoryUnit> {
    Subscriber::new(QUEUE, Arc::new(Notes(types)))
}

pub(crate) fn returned() -> EventSpec {
    EventSpec::new("BOOK_RETURNED", "book.returned")
}

fn old_version() -> Library {
    Library::sending([lent(), noted()]).with_bound(&notes_of(&["BOOK_LENT"]), &["book.lent"])
}

/// A process of the new version beside another process.
fn new_version(beside: &Library) -> Library {
    let notes = notes_of(&["BOOK_LENT", "BOOK_RETURNED"]);
    beside.another_process([lent(), returned(), noted()]).with_bound(&notes, &["book.lent", "book.returned"])
}

impl Library {
    /// An event as a process writes it that has registered its type.
    fn written(&self, id: &str, event_type: &str, book: i64, seq: i64) -> NewEvent {
        let routing_key = self.outbox.registry.routing_key(event_type).map(str::to_owned);
        assert!(routing_key.is_some(), "{event_type} is not registered");
        NewEvent { routing_key, ..self.event(id, event_type, book, seq, r#"{"reader":3}"#) }
    }

    /// The events about which notes exist, in the order of the notes.
    pub(crate) async fn noted(&self) -> Vec<String> {
        let notes = self.ids("LOAN_NOTED").await;
        notes.iter().map(|note| note.split("-noted-").next().unwrap_or_default().to_owned()).collect()
    }

    async fn statuses(&self, ids: &[&str]) -> Vec<Option<(ConsumeStatus, u32)>> {
        let mut statuses = Vec::new();
        for id in ids {
            statuses.push(self.consumed("loans", id).await);
        }
        statuses
    }
}

const WAITING: Option<(ConsumeStatus, u32)> = Some((ConsumeStatus::Waiting, 0));

#[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: no real waiting")]
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn event_type_unknown_to_relay_is_published_with_key_of_its_row() {
    let copies = Subscriber::new(COPIES, Arc::new(Notes(&["BOOK_LENT"])));
    let closed = lent().closed("shelf", &["red"], "other");
    let old = Library::sending([closed, noted()]).with(&copies);
    old.prepare().await;
    old.start_relay();
    let payload = r#"{"shelf":"4111111111111111"}"#;
    let returned = old.event("returned", "BOOK_RETURNED", 7, 2, payload);
    let row = |id: &str, seq, routing_key: Option<&str>| NewEvent {
        event_id: event_id(id),
        aggregate_seq: seq,
        routing_key: routing_key.map(str::to_owned),
        ..returned.clone()
    };
    let events = [
        old.written("first", "BOOK_LENT", 7, 1),
        row("returned", Some(2), Some("book.returned")),
        row("unroutable", Some(3), Some("nowhere")),
        row("without-key", Some(4), None),
        NewEvent { payload: "[1]".into(), ..row("list", Some(5), Some("book.returned")) },
        old.written("last", "BOOK_LENT", 7, 6),
    ];
    old.commit(events.to_vec()).await;
    let bodies = old.bodies_in(COPIES, 3).await;
    let ids = ["first", "returned", "last"];
    assert!(
        bodies.iter().zip(ids).all(|(body, id)| body.contains(&format!(r#""eventId":"{id}""#))),
        "{bodies:?}"
    );
    assert!(
        bodies[1].contains(payload),
        "a consumer that knows the type compares the payload: {}",
        bodies[1]
    );
    for (id, status, error) in [
        ("returned", OutboxStatus::Sent, ""),
        ("unroutable", OutboxStatus::Failed, "publishing failed: returned: "),
        ("without-key", OutboxStatus::Failed, "publishing failed: event type not supported: BOOK_RETURNED"),
        ("list", OutboxStatus::Failed, "publishing failed: the payload is not a JSON object"),
    ] {
        eventually(async || old.row(id).await.status == status).await;
        let last_error = old.row(id).await.last_error.unwrap_or_default();
        assert!(last_error.starts_with(error), "{id}: {last_error}");
    }
}

/// Records the payload of each envelope.
#[derive(Default)]
struct Payloads(Mutex<Vec<String>>);

#[async_trait]
impl Handler<MemoryUnit> for Payloads {
    fn name(&self) -> &str {
        "payloads"
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["BOOK_LENT"]
    }

    async fn apply(&self, _unit: &mut MemoryUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        self.0.lock().unwrap().extend(events.iter().map(|event| event.envelope.payload.to_string()));
        Ok(events.iter().map(|_| Applied::result("recorded")).collect())
    }
}

/// The relay replaces a value that its version does not know. The consumer applies the value of the row.
#[tokio::test(start_paused = true)]
async fn value_of_a_closed_field_that_only_one_of_two_versions_knows_makes_no_dead_letter() {
    let (old, new): (&[&str], &[&str]) = (&["red"], &["red", "green"]);
    for (of_relay, of_consumer) in [(old, new), (new, old)] {
        let version = |shelves| [lent().closed("shelf", shelves, "other")];
        let payloads = Arc::new(Payloads::default());
        let subscriber = Subscriber::new(QUEUE, Arc::clone(&payloads) as Arc<dyn Handler<MemoryUnit>>);
        let relay = Library::sending(version(of_relay)).with(&subscriber);
        let consumer = relay.another_process(version(of_consumer)).with(&subscriber);
        relay.prepare().await;
        consumer.prepare().await;
        let payload = r#"{"reader":3,"shelf":"green"}"#;
        consumer.commit(vec![consumer.event("e1", "BOOK_LENT", 7, 1, payload)]).await;
        relay.start_relay();
        consumer.start_consumers();
        eventually(async || !payloads.0.lock().unwrap().is_empty() && consumer.is_quiet().await).await;
        assert_eq!(*payloads.0.lock().unwrap(), [payload], "published with {of_relay:?}");
        assert_eq!(consumer.dead_letters().await, [], "published with {of_relay:?}");
    }
}

/// The key of the row is that of its writer. After a failed publish, the registration counts: it may be corrected.
#[tokio::test(start_paused = true)]
async fn retry_of_registered_type_uses_registered_key() {
    let copies = Subscriber::new(COPIES, Arc::new(Notes(&["BOOK_LENT"])));
    let library =
        Library::sending([lent(), noted()]).with_bound(&copies, &["copy.*"]).with(&notes_of(&["BOOK_LENT"]));
    library.prepare().await;
    library.start_relay();
    let with_key = |id: &str, seq, key: &str| NewEvent {
        routing_key: Some(key.to_owned()),
        max_retry_count: 3,
        ..library.written(id, "BOOK_LENT", 7, seq)
    };
    library.commit(vec![with_key("copied", 1, "copy.lent"), with_key("mistyped", 2, "bock.lent")]).await;
    eventually(async || library.row("mistyped").await.status == OutboxStatus::Sent).await;
    assert_eq!(library.row("copied").await.status, OutboxStatus::Sent);
    assert_eq!((library.row("copied").await.retry_count, library.row("mistyped").await.retry_count), (0, 1));
    assert!(library.bodies_in(COPIES, 1).await[0].contains("copied"));
    assert!(library.bodies_in(QUEUE, 1).await[0].contains("mistyped"));
}

#[tokio::test(start_paused = true)]
async fn rolling_deployment_applies_each_event_once_and_in_order() {
    let old = old_version().started().await;
    let new = new_version(&old).started().await;
    let mut expected = vec![Vec::new(); 4];
    for seq in 1..=10 {
        let mut events = Vec::new();
        for book in 0..4 {
            let event_type = if (seq + book) % 2 == 0 { "BOOK_RETURNED" } else { "BOOK_LENT" };
            let id = format!("{book}-{seq}");
            events.push(new.written(&id, event_type, book + 1, seq));
            expected[usize::try_from(book).unwrap()].push(id);
        }
        new.commit(events).await;
        pass(Duration::from_millis(150)).await;
    }
    eventually(async || new.noted().await.len() == 40 && new.is_quiet().await).await;
    let noted = new.noted().await;
    for (book, expected) in expected.iter().enumerate() {
        let of_book = noted.iter().filter(|id| id.starts_with(&format!("{book}-")));
        assert_eq!(of_book.collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    }
    assert_eq!(new.dead_letters().await, []);
    for id in &noted {
        assert_eq!(new.row(id).await.status, OutboxStatus::Sent);
        assert_eq!(new.consumed("loans", id).await, Some((ConsumeStatus::Success, 1)), "{id}");
    }
    let left = log::lines().iter().filter(|line| line.contains("event left to a process")).count();
    assert!(left > 0, "the old process received no event of the new type");
}

/// The old process receives every message: an event of the new type, and a later event of the same book that it knows.
#[tokio::test(start_paused = true)]
async fn later_events_of_aggregate_wait_for_event_of_unknown_type() {
    let old = old_version().started().await;
    let new = new_version(&old);
    new.prepare().await;
    let events = [
        new.written("e1", "BOOK_LENT", 7, 1),
        new.written("e2", "BOOK_RETURNED", 7, 2),
        new.written("e3", "BOOK_LENT", 7, 3),
        new.written("other", "BOOK_LENT", 8, 1),
    ];
    new.commit(events.to_vec()).await;
    eventually(async || old.is_quiet().await && old.consumed("loans", "e3").await.is_some()).await;
    pass(Duration::from_secs(60)).await;
    let applied = Some((ConsumeStatus::Success, 1));
    let statuses = old.statuses(&["e1", "e2", "e3", "other"]).await;
    assert_eq!(statuses, [applied, WAITING, WAITING, applied]);
    new.start();
    eventually(async || new.noted().await.len() == 4).await;
    assert_eq!(
        new.noted().await.into_iter().filter(|id| id != "other").collect::<Vec<_>>(),
        ["e1", "e2", "e3"]
    );
    assert_eq!(new.statuses(&["e1", "e2", "e3"]).await, [applied; 3]);
    assert_eq!(new.dead_letters().await, []);
}

/// The broker confirmed the event of the new type and delivers it to nobody. The check for lost events is shared by all
/// processes of the consumer.
#[tokio::test(start_paused = true)]
async fn lost_event_of_unknown_type_is_found_by_old_process_and_left_to_new_one() {
    let old = old_version().started().await;
    let new = new_version(&old);
    new.prepare().await;
    pass(Duration::from_secs(1)).await;
    let lost = new.written("lost", "BOOK_RETURNED", 7, 1);
    let mut unit = new.tx.begin().await.unwrap();
    unit.outbox().append(&[lost]).await.unwrap();
    let confirmed = confirmed("lost");
    unit.outbox().mark_sent(&[&confirmed], new.outbox.now()).await.unwrap();
    unit.commit().await.unwrap();
    pass(Duration::from_secs(100)).await;
    assert_eq!(old.statuses(&["lost"]).await, [WAITING]);
    new.start();
    eventually(async || new.noted().await == ["lost"]).await;
}

#[tokio::test(start_paused = true)]
async fn number_and_age_of_events_left_to_other_process_are_measured() {
    const AGE: &str = "handover.consumer.left.age.seconds loans";
    let measured = Measured::default();
    let _recording = metrics::set_default_local_recorder(&measured);
    let old = old_version().started().await;
    let new = new_version(&old);
    new.prepare().await;
    new.commit(vec![new.written("e1", "BOOK_RETURNED", 7, 1)]).await;
    eventually(async || old.statuses(&["e1"]).await == [WAITING]).await;
    eventually(async || measured.counter("handover.consumer.left loans") == 1).await;
    pass(Duration::from_secs(60)).await;
    let age = measured.gauge(AGE);
    assert!((30.0..=61.0).contains(&age), "{age}");
    new.start();
    eventually(async || new.noted().await == ["e1"]).await;
    eventually(async || measured.gauge(AGE) < 1.0).await;
}

/// The sweep of a process that knows the type applies many events in one run.
#[tokio::test(start_paused = true)]
async fn many_events_left_to_other_process_are_applied_by_its_first_sweep() {
    const BOOKS: i64 = 350;
    let old = old_version().started().await;
    let new = new_version(&old);
    new.prepare().await;
    let events = (1..=BOOKS).map(|book| new.written(&format!("e{book}"), "BOOK_RETURNED", book, 1));
    new.commit(events.collect()).await;
    eventually(async || old.is_quiet().await && old.consumed("loans", "e350").await == WAITING).await;
    pass(Duration::from_secs(10)).await;
    let started_at = tokio::time::Instant::now();
    new.start();
    eventually(async || new.consumed("loans", "e350").await != WAITING).await;
    assert!(started_at.elapsed() < Duration::from_secs(10), "{:?}", started_at.elapsed());
    assert_eq!(new.dead_letters().await, []);
}

#[tokio::test(start_paused = true)]
async fn events_wait_while_new_process_is_restarted() {
    let old = old_version().started().await;
    let killed = new_version(&old).started().await;
    killed.commit(vec![killed.written("e1", "BOOK_RETURNED", 7, 1)]).await;
    eventually(async || old.noted().await == ["e1"]).await;
    killed.outbox.tasks().kill();
    old.commit(vec![killed.written("e2", "BOOK_RETURNED", 7, 2), killed.written("e3", "BOOK_LENT", 7, 3)])
        .await;
    pass(Duration::from_secs(60)).await;
    assert_eq!(old.statuses(&["e2", "e3"]).await, [WAITING; 2]);
    let restarted = new_version(&old).started().await;
    eventually(async || restarted.noted().await == ["e1", "e2", "e3"]).await;
    assert_eq!(restarted.dead_letters().await, []);
    let applied = Some((ConsumeStatus::Success, 1));
    assert_eq!(restarted.statuses(&["e2", "e3"]).await, [applied; 2]);
}

/// After the lease of the registration, the event is a dead letter; later events of its aggregate continue.
#[tokio::test(start_paused = true)]
async fn event_is_dead_lettered_when_no_running_process_has_registered_its_type() {
    let old = old_version().started().await;
    let ended = new_version(&old);
    ended.prepare().await;
    ended
        .commit(vec![ended.written("e1", "BOOK_RETURNED", 7, 1), ended.written("e2", "BOOK_LENT", 7, 2)])
        .await;
    eventually(async || old.statuses(&["e1", "e2"]).await == [WAITING; 2]).await;
    ended.outbox.tasks().kill();
    pass(Duration::from_secs(75)).await;
    assert_eq!(old.statuses(&["e1", "e2"]).await, [WAITING; 2], "the lease has not ended");
    pass(Duration::from_secs(60)).await;
    eventually(async || old.noted().await == ["e2"]).await;
    let dead_letter = old.dead_letters().await.remove(0);
    assert_eq!(
        dead_letter.reason,
        "event type not supported: BOOK_RETURNED; the processes that applied events of this type for loans have ended: \
         start one, then replay the dead letter"
    );
    assert_eq!(old.statuses(&["e1"]).await, [Some((ConsumeStatus::Dead, 1))]);
    // From now on the type is unknown to every process, as if no process had ever registered it.
    old.commit(vec![ended.written("e3", "BOOK_RETURNED", 8, 1)]).await;
    eventually(async || old.dead_letters().await.len() == 2).await;
    let reasons: Vec<String> = old.dead_letters().await.into_iter().map(|it| it.reason).collect();
    assert!(reasons.contains(&"event type not supported: BOOK_RETURNED".to_owned()), "{reasons:?}");

    let new = new_version(&old).started().await;
    replay(&new, &["e1", "e3"]).await;
    eventually(async || new.noted().await.len() == 3).await;
    eventually(async || new.is_quiet().await).await;
    let applied = Some((ConsumeStatus::Success, 1));
    assert_eq!(new.statuses(&["e1", "e2", "e3"]).await, [applied; 3]);
}

/// A database with outages.
struct Database {
    inner: Arc<OutboxStore>,
    is_unavailable: Arc<AtomicBool>,
}

impl Database {
    /// The process on its database, whose outages the flag controls.
    fn of(mut library: Library, is_unavailable: &Arc<AtomicBool>) -> Library {
        let tx = &library.outbox.tx;
        let database = Database { inner: Arc::clone(tx.store()), is_unavailable: Arc::clone(is_unavailable) };
        library.outbox.tx = tx.with_store(Arc::new(database));
        library
    }

    fn check(&self) -> Result<(), StoreError> {
        match self.is_unavailable.load(Ordering::Relaxed) {
            true => Err(StoreError::Unavailable("connection refused".into())),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Store for Database {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        self.check()?;
        self.inner.begin().await
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.check()?;
        self.inner.view().await
    }
}

/// The registration of the new process ends during the outage, after which the old process is the first to renew its own.
#[tokio::test(start_paused = true)]
async fn outage_of_the_database_ends_no_registration_of_a_running_process() {
    let is_unavailable = Arc::default();
    let old = Database::of(old_version(), &is_unavailable).started().await;
    pass(Duration::from_secs(20)).await;
    let new = Database::of(new_version(&old), &is_unavailable);
    new.prepare().await;
    pass(Duration::from_secs(45)).await;
    is_unavailable.store(true, Ordering::Relaxed);
    pass(Duration::from_secs(134)).await;
    is_unavailable.store(false, Ordering::Relaxed);
    pass(Duration::from_secs(3)).await;
    new.commit(vec![new.written("e1", "BOOK_RETURNED", 7, 1)]).await;
    eventually(async || old.statuses(&["e1"]).await != [None]).await;
    assert_eq!(old.statuses(&["e1"]).await, [WAITING]);
    assert_eq!(old.dead_letters().await, []);
}

/// The publisher confirm of an event.
#[allow(clippy::disallowed_methods, reason = "the test stands for a broker that loses the message")]
pub(crate) fn confirmed(id: &str) -> Confirmed {
    let outcome = Outgoing::new(event_id(id), "book.returned".into(), Message::default()).confirmed();
    let PublishOutcome::Confirmed(proof) = outcome else { unreachable!("{outcome:?}") };
    proof
}

pub(crate) async fn replay(library: &Library, keys: &[&str]) {
    let replayed = try_replay(library, keys).await;
    assert_eq!(replayed.replayed, u64::try_from(keys.len()).unwrap(), "{replayed:?}");
}

pub(crate) async fn try_replay(library: &Library, keys: &[&str]) -> Replayed {
    let operator = Operator {
        name: "user:9".to_owned(),
        tenant: TenantId::DEFAULT,
        sees_all_tenants: false,
        sees_personal_data: false,
        trace: Trace { trace_id: "trace-1".to_owned(), traceparent: None },
    };
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let selection = DeadLetterSelection::Keys { keys: Named::new(keys).unwrap(), queue: None };
    let command = ReplayDeadLetters { selection, dry_run: false, reason: None };
    replay_dead_letters(&library.outbox, &operator, command).await.unwrap()
}

/// A database file is served by one process: at its start, registrations of earlier processes end.
#[tokio::test(start_paused = true)]
async fn stopped_new_version_is_forgotten_when_all_leases_end() {
    let new = old_version();
    let new = new_version(&new);
    new.prepare().await;
    new.commit(vec![new.written("e1", "BOOK_RETURNED", 7, 1)]).await;
    new.outbox.tasks().kill();
    let old = new.another_process([lent(), noted()]).with(&notes_of(&["BOOK_LENT"]));
    let mut unit = old.tx.begin().await.unwrap();
    unit.outbox().release_all_leases().await.unwrap();
    unit.commit().await.unwrap();
    old.prepare().await;
    old.start();
    eventually(async || old.dead_letters().await.len() == 1).await;
    assert_eq!(old.dead_letters().await[0].reason, "event type not supported: BOOK_RETURNED");
}
