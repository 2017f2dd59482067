//! Operator actions, interrupted at every await: an action changes the rows and writes its audit entry, or does
//! neither.

use std::pin::Pin;

use handover_events::*;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::consumers::INVENTORY_QUEUE;
use marketplace::ports::*;
use marketplace::{Actor, App, CommandContext, Role};

use super::world::*;
use super::{Interruption, interrupt_at_every_poll, poll_up_to};

fn operator() -> Operator {
    let actor = Actor::User { id: user(9), roles: vec![Role::Operator] };
    CommandContext { actor, ..by(9) }.operator().unwrap()
}

/// Number of changes according to the rows and according to the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Changes {
    rows: u64,
    recorded: u64,
}

async fn recorded(world: &World) -> u64 {
    let entries =
        world.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 100).await.unwrap();
    entries.iter().map(|entry| entry.effect.changed).sum()
}

/// Interrupts one action once and repeats it. Returns whether the interrupted action completed.
async fn interrupt_once<T>(
    (interruption, polls): (Interruption, usize),
    setup: impl AsyncFn(&App),
    action: impl AsyncFn(&App) -> Result<T, OperationError>,
    changed: impl AsyncFn(&World) -> u64,
    expected: u64,
) -> bool {
    let world = World::new().await;
    let (app, _) = world.process();
    setup(&world.process().0).await;
    let mut running: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(action(&app));
    let result = poll_up_to(&mut running, polls).await;
    if interruption == Interruption::ProcessKilled {
        app.tx.tasks().kill();
    }
    drop(running);
    let next = continuing_app(&world, &app, interruption).await;
    let changes = Changes { rows: changed(&world).await, recorded: recorded(&world).await };
    assert!(
        changes.rows == changes.recorded && [0, expected].contains(&changes.rows),
        "{interruption:?} after {polls} polls: {changes:?}, expected both counts to be 0 or both {expected}"
    );
    let complete = result.is_some();
    assert!(
        !complete || changes.rows == expected,
        "{interruption:?} after {polls} polls: completed without an effect"
    );
    // The repeated action may find nothing to change, so its result is not checked.
    drop(without_waiting(action(&next)).await);
    let changes = Changes { rows: changed(&world).await, recorded: recorded(&world).await };
    assert_eq!(
        changes,
        Changes { rows: expected, recorded: expected },
        "{interruption:?} after {polls} polls: wrong number of changes after the repeated action"
    );
    without_waiting(ordered(&next)).await;
    complete
}

async fn unit(app: &App, work: impl AsyncFnOnce(&mut Work)) {
    let mut unit = app.tx.begin().await.unwrap();
    work(unit.as_mut()).await;
    unit.commit().await.unwrap();
}

/// An order with two FAILED events.
async fn failed_order(app: &App) {
    let order = ordered(app).await;
    let about = OutboxFilter { aggregate_id: Some(order.id.get().into()), ..OutboxFilter::default() };
    let rows = app.tx.view().await.unwrap().outbox_view().outbox_page(&about, None, 10).await.unwrap();
    let failed: Vec<FailedPublish> = rows
        .into_iter()
        .map(|row| FailedPublish {
            event_id: row.event_id,
            status: OutboxStatus::Failed,
            retry_count: 4,
            next_retry_time: None,
            error: "NO_ROUTE".into(),
        })
        .collect();
    let now = app.tx.now();
    unit(app, async |unit| assert_eq!(unit.outbox().mark_failed(&failed, now).await.unwrap(), 2)).await;
}

/// An order whose ORDER_CREATED event is DEAD at the consumer `inventory`.
async fn dead_lettered_order(app: &App) {
    ordered(app).await;
    let rows = app
        .tx
        .view()
        .await
        .unwrap()
        .outbox_view()
        .outbox_page(&OutboxFilter::default(), None, 10)
        .await
        .unwrap();
    let row = rows.into_iter().find(|row| row.event_type == "ORDER_CREATED").unwrap();
    let now = app.tx.now();
    let consumption = Consumption {
        consumer: "inventory".into(),
        event_id: row.event_id.clone(),
        event_type: row.event_type.clone(),
        aggregate: row.aggregate.clone(),
        aggregate_seq: row.aggregate_seq,
        expected: Expected::Absent,
        status: ConsumeStatus::Dead,
        attempts: 4,
        next_retry_time: None,
        lease_until: None,
        error_message: None,
        idempotency_key: None,
        consume_result: None,
        payload_hash: String::new(),
        trace_id: String::new(),
        cost_ms: 0,
        consume_time: now,
    };
    let dead_letter = DeadLetter {
        queue: INVENTORY_QUEUE.into(),
        key: row.event_id.into(),
        tenant: TENANT,
        event_type: None,
        trace_id: None,
        body: String::new(),
        reason: "service unavailable".into(),
        died_at: now,
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    unit(app, async |unit| {
        unit.outbox().record(&[consumption]).await.unwrap();
        unit.outbox().park(&[dead_letter]).await.unwrap();
    })
    .await;
}

async fn dead_letter(world: &World) -> DeadLetter {
    let filter = DeadLetterFilter::default();
    world.view().await.outbox_view().dead_letters_page(&filter, None, 1).await.unwrap().remove(0).effect
}

fn all_dead_letters() -> DeadLetterSelection {
    DeadLetterSelection::Filter { queue: None, event_type: None, tenant: None, from: None, to: None }
}

#[test]
fn interrupted_redrive_is_atomic_with_its_audit_entry() {
    interrupt_at_every_poll("redrive_events", async |interruption, polls| {
        let action = async |app: &App| {
            let filter = OutboxFilter { status: Some(OutboxStatus::Failed), ..OutboxFilter::default() };
            let rows = RedriveSelection::Filter { filter: RedriveFilter::new(filter).unwrap(), after: None };
            let command = RedriveEvents { rows, dry_run: false, pace: RedriveRate::default(), reason: None };
            redrive_events(&app.outbox, &operator(), command).await
        };
        let changed = async |world: &World| {
            let rows = world.rows().await;
            rows.iter().filter(|row| row.status == OutboxStatus::Retry).count() as u64
        };
        interrupt_once((interruption, polls), failed_order, action, changed, 2).await
    });
}

#[test]
fn interrupted_release_is_atomic_with_its_audit_entry() {
    interrupt_at_every_poll("release_aggregate", async |interruption, polls| {
        let action = async |app: &App| {
            let failed = app
                .tx
                .view()
                .await?
                .outbox_view()
                .blocked_page(app.outbox.registry.unordered(), None, None, 1)
                .await?;
            let aggregate =
                failed.first().map(|it| (it.effect.aggregate.kind.clone(), it.effect.aggregate.id.clone()));
            let Some(aggregate) = aggregate else { return Ok(0) };
            release_aggregate(&app.outbox, &operator(), None, aggregate, None).await
        };
        let changed = async |world: &World| {
            world.rows().await.iter().filter(|row| row.released_time.is_some()).count() as u64
        };
        // One row is released: ORDER_TIMEOUT is unordered, so its failed row blocks no later event.
        interrupt_once((interruption, polls), failed_order, action, changed, 1).await
    });
}

#[test]
fn interrupted_discard_is_atomic_with_its_audit_entry() {
    interrupt_at_every_poll("discard_dead_letters", async |interruption, polls| {
        let action = async |app: &App| {
            let reason = Reason::new("a stray message".into()).unwrap();
            let command = DiscardDeadLetters { selection: all_dead_letters(), dry_run: false, reason };
            discard_dead_letters(&app.outbox, &operator(), command).await
        };
        let changed =
            async |world: &World| u64::from(dead_letter(world).await.status == DeadLetterStatus::Discarded);
        interrupt_once((interruption, polls), dead_lettered_order, action, changed, 1).await
    });
}

#[test]
fn interrupted_replay_leaves_the_dead_letter_open_or_its_event_retryable() {
    interrupt_at_every_poll("replay_dead_letters", async |interruption, polls| {
        let world = World::new().await;
        let (app, _) = world.process();
        dead_lettered_order(&world.process().0).await;
        let replay = async |app: &App| {
            let command = ReplayDeadLetters { selection: all_dead_letters(), dry_run: false, reason: None };
            replay_dead_letters(&app.outbox, &operator(), command).await
        };
        let mut running: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(replay(&app));
        let result = poll_up_to(&mut running, polls).await;
        if interruption == Interruption::ProcessKilled {
            app.tx.tasks().kill();
        }
        drop(running);
        let next = continuing_app(&world, &app, interruption).await;
        let log = async || {
            let event: EventId = dead_letter(&world).await.key.parse().unwrap();
            world.view().await.outbox_view().consumption("inventory", &event).await.unwrap().unwrap().status
        };
        let status = dead_letter(&world).await.status;
        let sent = world.depth(INVENTORY_QUEUE).await.0;
        let found = (status, log().await, recorded(&world).await);
        let expected = match status {
            DeadLetterStatus::Open => (status, ConsumeStatus::Dead, 0),
            DeadLetterStatus::Replaying | DeadLetterStatus::Replayed => (status, ConsumeStatus::Failed, 1),
            DeadLetterStatus::Discarded => panic!("unexpected discard"),
        };
        assert_eq!(found, expected, "{interruption:?} after {polls} polls");
        assert!(
            status != DeadLetterStatus::Open || sent == 0,
            "{interruption:?} after {polls} polls: sent before the replay was recorded"
        );
        assert!(
            status != DeadLetterStatus::Replayed || sent == 1,
            "{interruption:?} after {polls} polls: closed without a publish"
        );
        if interruption == Interruption::CallerCancelled {
            assert_ne!(status, DeadLetterStatus::Replaying, "a started replay must run to its end");
        }
        without_waiting(replay(&next)).await.unwrap();
        assert_eq!(dead_letter(&world).await.status, DeadLetterStatus::Replayed);
        assert!(world.depth(INVENTORY_QUEUE).await.0 >= 1);
        without_waiting(ordered(&next)).await;
        result.is_some()
    });
}
