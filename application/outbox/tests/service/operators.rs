//! What operators see of running processes, of misspelled filters, and of replayed dead letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use handover_events::{OutboxStatus, TenantId, Trace};
use handover_outbox::operations::{self, *};
use handover_outbox::ports::*;
use handover_outbox::state::StateMetrics;

use crate::alerts::Refusing;
use crate::library::{Library, QUEUE, event_id, eventually};
use crate::{Unavailable, lent, loans, noted};

const INTERVAL: Duration = Duration::from_secs(10);

pub(crate) fn platform() -> Operator {
    Operator {
        name: "user:9".to_owned(),
        tenant: TenantId::DEFAULT,
        sees_all_tenants: true,
        sees_personal_data: false,
        trace: Trace { trace_id: "t".to_owned(), traceparent: None },
    }
}

/// Field and most similar name of a refused filter.
fn nearest<T: std::fmt::Debug>(result: Result<T, OperationError>) -> (&'static str, String) {
    match result {
        Err(OperationError::UnknownName { field, nearest, .. }) => (field, nearest),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn filter_with_a_name_that_nothing_has_is_refused_with_the_most_similar_name() {
    let lent = lent().about("Book", "bookId");
    let library = Library::sending([lent, noted()]).with(&loans());
    library.commit(vec![library.event("old", "BOOK_BURNT", 7, 1, "{}")]).await;
    let (outbox, operator) = (&library.outbox, &platform());
    let events = |event_type: &str| OutboxFilter {
        event_type: Some(event_type.to_owned()),
        ..OutboxFilter::default()
    };
    let listed = async |filter| operations::outbox(outbox, operator, filter, None, 10).await;
    assert_eq!(nearest(listed(events("book_lent")).await), ("eventType", "BOOK_LENT".to_owned()));
    assert_eq!(listed(events("BOOK_LENT")).await.unwrap().items, [], "a known type without rows");
    assert_eq!(listed(events("BOOK_BURNT")).await.unwrap().items.len(), 1, "a type that only a row has");
    let of_kind = OutboxFilter { aggregate_type: Some("Bok".to_owned()), ..OutboxFilter::default() };
    assert_eq!(nearest(listed(of_kind).await), ("aggregateType", "Book".to_owned()));
    let oldest = operations::oldest_events(outbox, operator, events("BOOK_LOST"), None, 10).await;
    assert_eq!(nearest(oldest).0, "eventType");
    let selected =
        RedriveSelection::Filter { filter: RedriveFilter::new(events("LENT")).unwrap(), after: None };
    let redrive = RedriveEvents { rows: selected, dry_run: true, pace: RedriveRate::default(), reason: None };
    assert_eq!(nearest(redrive_events(outbox, operator, redrive).await).0, "eventType");
    let of_consumer = ConsumedFilter { consumer: Some("Loans".to_owned()), ..ConsumedFilter::default() };
    let consumed = consumptions(outbox, operator, of_consumer, None, 10).await;
    assert_eq!(nearest(consumed), ("consumer", "loans".to_owned()));
    let of_queue = DeadLetterFilter { queue: Some("loans".to_owned()), ..DeadLetterFilter::default() };
    let parked = dead_letters(outbox, operator, of_queue, None, 10).await;
    assert_eq!(nearest(parked), ("queue", QUEUE.to_owned()));
    let selection = DeadLetterSelection::Filter {
        queue: Some("library.loan".to_owned()),
        event_type: None,
        tenant: None,
        from: None,
        to: None,
    };
    let replay = ReplayDeadLetters { selection, dry_run: true, reason: None };
    assert_eq!(nearest(replay_dead_letters(outbox, operator, replay).await), ("queue", QUEUE.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn oldest_unpublished_events_come_first_and_published_ones_are_refused() {
    let library = Library::sending([lent(), noted()]).with(&loans());
    let event = |n: i64| library.event(&format!("e-{n}"), "BOOK_LENT", n, 1, "{}");
    library.commit((1..=4).map(event).collect()).await;
    let failed = FailedPublish {
        event_id: event_id("e-2"),
        status: OutboxStatus::Failed,
        retry_count: 1,
        next_retry_time: None,
        error: "no route".to_owned(),
    };
    let mut unit = library.tx.begin().await.unwrap();
    assert_eq!(unit.outbox().mark_failed(&[failed], library.outbox.now()).await.unwrap(), 1);
    unit.commit().await.unwrap();
    let oldest = async |status, after| {
        let filter = OutboxFilter { status, ..OutboxFilter::default() };
        operations::oldest_events(&library.outbox, &platform(), filter, after, 2).await
    };
    let ids = |page: &handover_outbox::Page<ListedEvent>| -> Vec<String> {
        page.items.iter().map(|event| event.row.event_id.to_string()).collect()
    };
    let first = oldest(None, None).await.unwrap();
    assert_eq!(ids(&first), ["e-1", "e-2"]);
    let second = oldest(None, first.next).await.unwrap();
    assert_eq!((ids(&second), second.next), (vec!["e-3".to_owned(), "e-4".to_owned()], None));
    assert_eq!(ids(&oldest(Some(OutboxStatus::Failed), None).await.unwrap()), ["e-2"]);
    let sent = oldest(Some(OutboxStatus::Sent), None).await;
    assert!(matches!(sent, Err(OperationError::OldestPublished)), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn outage_of_the_broker_is_shown_with_its_begin_and_error_to_every_process() {
    let library = Library::sending([lent(), noted()]).with(&loans()).started().await;
    let another = library.another_process([lent()]);
    let _state = StateMetrics::start(&library.outbox, Vec::new(), INTERVAL);
    let broker = async || stats(&another.outbox, &platform(), None).await.unwrap().broker;
    assert_eq!(broker().await, BrokerState::default(), "available");
    library.broker.set_reachable(false);
    let begin = library.outbox.now();
    library.commit(vec![library.event("waits", "BOOK_LENT", 7, 1, r#"{"reader":3}"#)]).await;
    eventually(async || broker().await.since.is_some()).await;
    let seen = broker().await;
    assert!(seen.since.is_some_and(|since| (since - begin).num_seconds() <= 10), "{seen:?}");
    assert!(seen.error.is_some_and(|error| error.contains("unreachable")));
    let waiting = find_event(&another.outbox, &platform(), &event_id("waits")).await.unwrap();
    assert_eq!(waiting.broker_outage.map(|outage| outage.since), seen.since);
    library.broker.set_reachable(true);
    eventually(async || broker().await == BrokerState::default()).await;
    let sent = find_event(&another.outbox, &platform(), &event_id("waits")).await.unwrap();
    assert_eq!(sent.broker_outage, None, "a published event waits for nothing");
}

#[tokio::test(start_paused = true)]
async fn blocked_aggregates_are_those_of_the_running_processes_and_not_of_the_callers_setting() {
    let mut holding = Library::sending([lent(), noted()]).with(&loans());
    holding.outbox = holding.outbox.clone().with_on_failed(OnFailed::Hold);
    let caller = holding.another_process([lent()]);
    assert_eq!(caller.outbox.on_failed(), OnFailed::Continue);
    let event = |n: i64| holding.event(&format!("e-{n}"), "BOOK_LENT", 7, n, "{}");
    holding.commit((1..=2).map(event).collect()).await;
    let failed = FailedPublish {
        event_id: event_id("e-1"),
        status: OutboxStatus::Failed,
        retry_count: 1,
        next_retry_time: None,
        error: "no route".to_owned(),
    };
    let mut unit = holding.tx.begin().await.unwrap();
    unit.outbox().mark_failed(&[failed], holding.outbox.now()).await.unwrap();
    unit.commit().await.unwrap();
    let listed = async || blocked(&caller.outbox, &platform(), None, None, 10).await.unwrap().items.len();
    assert_eq!(listed().await, 0, "no process reports: the setting of the caller");
    let _state = StateMetrics::start(&holding.outbox, Vec::new(), INTERVAL);
    eventually(async || listed().await == 1).await;
    assert_eq!(stats(&caller.outbox, &platform(), None).await.unwrap().blocked, 1);
    let aggregate = ("Book".to_owned(), 7.into());
    let released = release_aggregate(&caller.outbox, &platform(), None, aggregate, None).await;
    assert_eq!(released.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn settings_of_running_processes_are_shown_to_operators_of_all_tenants() {
    let library = Library::sending([lent()]);
    let caller = library.another_process([lent()]);
    let _state = StateMetrics::start(&library.outbox, Vec::new(), INTERVAL);
    let setting = |value: &str| RunningSetting {
        key: "outbox.batch".to_owned(),
        value: value.to_owned(),
        from: "default".to_owned(),
    };
    let running = async || running_settings(&caller.outbox, &platform()).await.unwrap();
    assert_eq!(running().await, [], "nothing is reported yet");
    for value in ["200", "300"] {
        library.outbox.report_settings(vec![setting(value)]);
        eventually(async || running().await.iter().any(|it| it.settings == [setting(value)])).await;
    }
    let of_one_tenant = Operator { sees_all_tenants: false, ..platform() };
    let refused = running_settings(&caller.outbox, &of_one_tenant).await;
    assert!(matches!(refused, Err(OperationError::ForAllTenants)));
}

#[tokio::test(start_paused = true)]
async fn result_of_a_replay_is_queued_then_dead_again_or_applied() {
    let handler = Arc::new(Unavailable(AtomicBool::new(false)));
    let subscriber = handover_outbox::consumers::Subscriber::new(QUEUE, Arc::clone(&handler) as Arc<_>);
    let library = Library::sending([lent(), noted()]).with(&subscriber).started().await;
    library.commit(vec![library.event("e-1", "BOOK_LENT", 7, 1, r#"{"reader":3}"#)]).await;
    let is_open = async || {
        let parked = library.dead_letters().await;
        parked.first().is_some_and(|it| it.status == DeadLetterStatus::Open)
    };
    let replay = async || {
        let keys = Named::new(vec!["e-1".to_owned()]).unwrap();
        let selection = DeadLetterSelection::Keys { keys, queue: None };
        let command = ReplayDeadLetters { selection, dry_run: false, reason: None };
        replay_dead_letters(&library.outbox, &platform(), command).await.unwrap().sent
    };
    let state = async |sent: &[SentDeadLetter]| {
        let result = replay_results(&library.outbox, sent).await.unwrap().remove(0);
        (result.state, result.detail)
    };
    eventually(is_open).await;
    let sent = replay().await;
    assert_eq!(state(&sent).await.0, ReplayState::Queued);
    eventually(async || state(&sent).await.0 == ReplayState::Dead).await;
    assert!(state(&sent).await.1.is_some_and(|error| error.contains("catalogue refused e-1")));
    eventually(is_open).await;
    handler.0.store(true, Ordering::Relaxed);
    let sent = replay().await;
    eventually(async || state(&sent).await.0 == ReplayState::Applied).await;
    assert_eq!(state(&sent).await.1.as_deref(), Some("noted"));
}

#[tokio::test(start_paused = true)]
async fn reads_of_rows_are_recorded_and_those_that_programs_poll_are_not() {
    let library = Library::sending([lent()]).with(&loans()).started().await;
    let (outbox, operator) = (&library.outbox, &platform());
    stats(outbox, operator, None).await.unwrap();
    operations::queues(outbox, operator).await.unwrap();
    operations::alerts(outbox).await.unwrap();
    operations::outbox(outbox, operator, OutboxFilter::default(), None, 10).await.unwrap();
    let mut view = outbox.view().await.unwrap();
    let recorded = view.outbox_view().audit_page(&AuditFilter::default(), None, 10).await.unwrap();
    let actions: Vec<&str> = recorded.iter().map(|entry| entry.effect.action.as_str()).collect();
    assert_eq!(actions, ["outbox.list"]);
}

#[tokio::test(start_paused = true)]
async fn read_succeeds_on_a_full_disk_and_says_that_it_is_not_recorded() {
    let library = Library::sending([lent()]).with(&loans());
    library.commit(vec![library.event("e-1", "BOOK_LENT", 7, 1, "{}")]).await;
    let refuses = Arc::new(AtomicBool::new(true));
    let store = Refusing { inner: Arc::clone(library.outbox.tx.store()), refuses: Arc::clone(&refuses) };
    let mut outbox = library.outbox.clone();
    outbox.tx = outbox.tx.with_store(Arc::new(store) as Arc<OutboxStore>);
    let id = event_id("e-1");
    let shown = find_event(&outbox, &platform(), &id).await.unwrap();
    assert_eq!(shown.row.event_id, id);
    let unrecorded = outbox.tx.unrecorded_reads();
    assert!(matches!(&unrecorded[..], [read] if read.starts_with("outbox.show: ")), "{unrecorded:?}");
    assert_eq!(crate::log::with("audit.not-recorded").len(), 1);
    refuses.store(false, Ordering::Relaxed);
    find_event(&outbox, &platform(), &id).await.unwrap();
    assert_eq!(outbox.tx.unrecorded_reads().len(), 1);
}
