//! State of the deployment as metrics: what is read, and by which process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::consumers::Subscriber;
use handover_outbox::ports::{
    Broker, BrokerError, DatabaseHealth, DatabaseMonitor, DeadLetter, DeadLetterStatus, NewEvent, QueueDepth,
    RunResult, StoreError, UnitOfWork,
};
use handover_outbox::state::{DatabaseState, STATE_TIME, Sample, StateMetrics, StateSource};
use handover_outbox::topology::Topology;
use handover_outbox::wrap::BrokerWrapper;
use handover_outbox::{Metric, Outbox, with_tx};

use crate::library::{Library, QUEUE, eventually};
use crate::{Loans, lent, loans};

const INTERVAL: Duration = Duration::from_secs(15);

/// The value of the sample with this name and these labels.
fn value(state: &StateMetrics, name: &str, labels: &[&str]) -> Option<f64> {
    let samples = state.samples();
    let found = samples.iter().find(|sample| sample.metric.name == name && sample.labels == labels);
    found.map(|sample| sample.value)
}

#[tokio::test(start_paused = true)]
async fn state_has_rows_queues_and_the_age_of_the_oldest_due_event() {
    let library = Library::sending([lent()]);
    library.prepare().await;
    let event = |id: &str, book| library.event(id, "BOOK_LENT", book, 1, "{}");
    let later = library.outbox.now() + Duration::from_secs(500);
    library.commit(vec![event("due", 1), NewEvent { due: Some(later), ..event("later", 2) }]).await;
    library.outbox.tx.sleep(Duration::from_secs(70)).await;
    let state = StateMetrics::start(&library.outbox, Vec::new(), INTERVAL);
    eventually(async || !state.samples().is_empty()).await;
    assert_eq!(value(&state, "outbox.event.pending", &[]), Some(2.0));
    for (status, rows) in [("NEW", 1.0), ("RETRY", 1.0), ("FAILED", 0.0)] {
        assert_eq!(value(&state, "handover.outbox.rows", &[status]), Some(rows), "{status}");
    }
    let age = value(&state, "handover.outbox.oldest.due.seconds", &[]).unwrap();
    assert!((70.0..80.0).contains(&age), "{age}");
    assert_eq!(value(&state, "handover.outbox.partitions.without.owner", &[]), Some(64.0));
    assert_eq!(value(&state, "handover.broker.reachable", &[]), Some(1.0));
    // Without a queue the broker returns the event, so the relay gives it up at once.
    library.start_relay();
    eventually(async || value(&state, "handover.outbox.rows", &["FAILED"]) == Some(1.0)).await;
    assert_eq!(value(&state, "handover.outbox.partitions.without.owner", &[]), Some(0.0));
    library.tx.tasks().stop().await;
}

/// A broker that does not show the age of messages, like RabbitMQ.
struct WithoutAges(Arc<dyn Broker>);

#[async_trait]
impl BrokerWrapper for WithoutAges {
    fn inner(&self) -> &dyn Broker {
        &*self.0
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        let mut queues = self.inner().queues().await?;
        queues.iter_mut().for_each(|queue| queue.oldest_ready = None);
        Ok(queues)
    }
}

#[tokio::test(start_paused = true)]
async fn age_of_a_queue_is_that_of_the_oldest_event_without_a_record_if_the_broker_does_not_show_it() {
    let mut library = Library::sending([lent()]).with(&loans());
    library.outbox.broker = Arc::new(WithoutAges(Arc::clone(&library.outbox.broker)));
    library.prepare().await;
    let state = StateMetrics::start(&library.outbox, Vec::new(), INTERVAL);
    let age = || value(&state, "handover.queue.oldest.ready.seconds", &[QUEUE]);
    eventually(async || age() == Some(0.0)).await;
    library.commit(vec![library.event("lent", "BOOK_LENT", 1, 1, "{}")]).await;
    library.start_relay();
    library.outbox.tx.sleep(Duration::from_secs(100)).await;
    let waiting = age().unwrap();
    assert!((70.0..=100.0).contains(&waiting), "{waiting}");
    library.start();
    eventually(async || age() == Some(0.0)).await;
    library.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn outages_of_the_broker_last_from_their_first_read_to_their_end() {
    let library = Library::sending([lent()]);
    library.prepare().await;
    let state = StateMetrics::start(&library.outbox, Vec::new(), INTERVAL);
    let age = |name: &str| value(&state, &format!("handover.broker.{name}.seconds"), &[]);
    eventually(async || age("unreachable") == Some(0.0) && age("blocked") == Some(0.0)).await;
    library.broker.set_reachable(false);
    library.broker.set_blocked(Some("low on disk space"));
    library.outbox.tx.sleep(10 * INTERVAL).await;
    for name in ["unreachable", "blocked"] {
        let age = age(name).unwrap();
        assert!((100.0..=150.0).contains(&age), "{name}: {age}");
    }
    library.broker.set_reachable(true);
    library.broker.set_blocked(None);
    eventually(async || age("unreachable") == Some(0.0) && age("blocked") == Some(0.0)).await;
    library.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn dead_letters_have_their_queue_and_its_consumer() {
    let library = Library::sending([lent()]).with(&loans());
    library.prepare().await;
    let dead_letter = |queue: &str| DeadLetter {
        queue: queue.to_owned(),
        key: "key".to_owned(),
        tenant: TenantId::DEFAULT,
        event_type: None,
        trace_id: None,
        body: "?".to_owned(),
        reason: "unknown message".to_owned(),
        died_at: library.outbox.now(),
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    let dead_letters = vec![dead_letter(QUEUE), dead_letter("other.queue")];
    let parked = with_tx(&library.tx, dead_letters, |unit, dead_letters, _| {
        Box::pin(async move { unit.outbox().park(dead_letters).await })
    });
    parked.await.unwrap();
    let state = StateMetrics::start(&library.outbox, Vec::new(), INTERVAL);
    eventually(async || !state.samples().is_empty()).await;
    let open = |labels: &[&str]| value(&state, "handover.dead.letters.open", labels);
    assert_eq!(open(&[QUEUE, "loans"]), Some(1.0));
    assert_eq!(open(&["other.queue", ""]), Some(1.0));
    library.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn job_is_behind_while_its_runs_leave_work() {
    let library = Library::sending([lent()]);
    library.prepare().await;
    let run = async |result: RunResult| {
        let at = library.outbox.now();
        let recorded = with_tx(&library.tx, result, move |unit, result, _| {
            Box::pin(async move { unit.outbox().record_run("Archive", at, *result, INTERVAL).await })
        });
        recorded.await.unwrap();
    };
    let state = StateMetrics::start(&library.outbox, Vec::new(), INTERVAL);
    let behind = || value(&state, "handover.job.behind.seconds", &["Archive"]);
    run(RunResult::WorkLeft).await;
    library.outbox.tx.sleep(Duration::from_secs(100)).await;
    run(RunResult::WorkLeft).await;
    library.outbox.tx.sleep(Duration::from_secs(100)).await;
    let age = behind().unwrap();
    assert!((180.0..=200.0).contains(&age), "{age}");
    run(RunResult::Success).await;
    eventually(async || behind() == Some(0.0)).await;
    library.tx.tasks().stop().await;
}

/// A database that shows what it contains.
struct Database(DatabaseHealth);

#[async_trait]
impl DatabaseMonitor for Database {
    async fn health(&self) -> Result<DatabaseHealth, StoreError> {
        Ok(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn health_of_the_database_has_only_what_the_database_shows() {
    let read = async |health| {
        let samples = DatabaseState::new(Arc::new(Database(health))).read().await.unwrap();
        samples.into_iter().map(|sample| (sample.metric.name, sample.value)).collect::<Vec<_>>()
    };
    assert_eq!(read(DatabaseHealth::default()).await, []);
    let oldest_transaction = Some(Duration::from_millis(1_500));
    let postgres = DatabaseHealth { oldest_transaction, dead_rows: Some(7), history_length: None };
    let expected =
        [("handover.database.oldest.transaction.seconds", 1.5), ("handover.database.dead.rows", 7.0)];
    assert_eq!(read(postgres).await, expected);
    let mysql = DatabaseHealth { oldest_transaction: None, dead_rows: None, history_length: Some(3) };
    assert_eq!(read(mysql).await, [("handover.database.history.length", 3.0)]);
}

struct Fails;

#[async_trait]
impl StateSource for Fails {
    async fn read(&self) -> Result<Vec<Sample>, StoreError> {
        Err(StoreError::Unavailable("connection refused".into()))
    }
}

struct Seven;

#[async_trait]
impl StateSource for Seven {
    async fn read(&self) -> Result<Vec<Sample>, StoreError> {
        Ok(vec![Metric::state("seven", "Seven").sample([], 7.0)])
    }
}

#[tokio::test(start_paused = true)]
async fn one_process_exports_the_state_and_another_one_after_it_ended() {
    let first = Library::sending([lent()]);
    first.prepare().await;
    let second = first.another_process([lent()]);
    let sources = || -> Vec<Arc<dyn StateSource>> { vec![Arc::new(Fails), Arc::new(Seven)] };
    let leading = StateMetrics::start(&first.outbox, sources(), INTERVAL);
    eventually(async || !leading.samples().is_empty()).await;
    let waiting = StateMetrics::start(&second.outbox, sources(), INTERVAL);
    second.outbox.tx.sleep(4 * INTERVAL).await;
    assert_eq!(waiting.samples(), []);
    assert_eq!(value(&leading, "seven", &[]), Some(7.0), "a source that fails hides no other");
    let read_at = value(&leading, STATE_TIME.name, &[]).unwrap();
    first.tx.tasks().kill();
    eventually(async || !waiting.samples().is_empty()).await;
    assert_eq!(leading.samples(), [], "the lease of the killed process has ended");
    assert!(value(&waiting, STATE_TIME.name, &[]).unwrap() > read_at);
    second.tx.tasks().stop().await;
    assert_eq!(waiting.samples(), [], "a process that stopped leads no more");
}

#[tokio::test(start_paused = true)]
async fn messages_without_a_subscription_are_counted_for_queues_of_consumers_only() {
    let mut library = Library::sending([lent()]).with(&Subscriber::new(QUEUE, Arc::new(Loans)));
    // A queue without a consumer of this program, such as a delay queue.
    let topology = Topology::clone(library.outbox.topology()).with("library.delays", &["book.*"]);
    let mut outbox = Outbox::new(library.outbox.tx.clone(), Arc::clone(&library.outbox.broker), topology);
    outbox = outbox.with_event(lent()).with_handler_of(&Subscriber::new(QUEUE, Arc::new(Loans)));
    library.outbox = outbox;
    library.prepare().await;
    library.commit(vec![library.event("e-1", "BOOK_LENT", 1, 1, "{}")]).await;
    library.start_relay();
    let state = StateMetrics::start(&library.outbox, Vec::new(), INTERVAL);
    let unattended = |queue| value(&state, "handover.queue.messages.unattended", &[queue]);
    eventually(async || unattended(QUEUE) == Some(1.0)).await;
    assert_eq!(value(&state, "handover.queue.messages.ready", &["library.delays"]), Some(1.0));
    assert_eq!(unattended("library.delays"), None);
    library.tx.tasks().stop().await;
}
