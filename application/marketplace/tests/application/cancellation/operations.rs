//! What operators do, cut at every await: a row is moved and recorded, or neither.

use std::pin::Pin;

use handover_events::*;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace::queues::INVENTORY_QUEUE;
use marketplace::{Actor, App, CommandContext, Role};

use super::world::*;
use super::{Cut, step, sweep};

fn operator() -> Operator {
    let actor = Actor::User { id: user(9), roles: vec![Role::Operator] };
    CommandContext { actor, ..by(9) }.operator().unwrap()
}

/// What an action changed, by the rows and by the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Done {
    rows: u64,
    recorded: u64,
}

async fn recorded(world: &World) -> u64 {
    let entries =
        world.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 100).await.unwrap();
    entries.iter().map(|entry| entry.effect.changed).sum()
}

/// One cut of one action, which is done again afterwards.
async fn cut_once<T>(
    (cut, polls): (Cut, usize),
    given: impl AsyncFn(&App),
    action: impl AsyncFn(&App) -> Result<T, OperationError>,
    changed: impl AsyncFn(&World) -> u64,
    whole: u64,
) -> bool {
    let world = World::new().await;
    let (app, _) = world.process();
    given(&world.process().0).await;
    let mut running: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(action(&app));
    let answer = step(&mut running, polls).await;
    if cut == Cut::ProcessEnds {
        app.tx.tasks.kill();
    }
    drop(running);
    let next = after(&world, &app, cut).await;
    let done = Done { rows: changed(&world).await, recorded: recorded(&world).await };
    assert!(
        done.rows == done.recorded && [0, whole].contains(&done.rows),
        "{cut:?} after {polls} polls: {done:?}"
    );
    let complete = answer.is_some();
    assert!(!complete || done.rows == whole, "{cut:?} after {polls}: answered, and not done");
    // A release that happened finds nothing to release.
    drop(without_waiting(action(&next)).await);
    let done = Done { rows: changed(&world).await, recorded: recorded(&world).await };
    assert_eq!(done, Done { rows: whole, recorded: whole }, "{cut:?} after {polls}: repeated");
    without_waiting(ordered(&next)).await;
    complete
}

async fn unit(app: &App, work: impl AsyncFnOnce(&mut Work)) {
    let mut unit = app.tx.store.begin().await.unwrap();
    work(unit.as_mut()).await;
    unit.commit().await.unwrap();
}

/// An order whose two events were given up.
async fn given_up(app: &App) {
    let order = ordered(app).await;
    let about = OutboxFilter { aggregate_id: Some(order.id.get()), ..OutboxFilter::default() };
    let rows = app.view().await.unwrap().outbox_view().outbox_page(&about, None, 10).await.unwrap();
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
    let now = app.now();
    unit(app, async |unit| assert_eq!(unit.outbox().mark_failed(&failed, now).await.unwrap(), 2)).await;
}

/// An order whose first event died at the inventory.
async fn dead(app: &App) {
    ordered(app).await;
    let rows = app
        .view()
        .await
        .unwrap()
        .outbox_view()
        .outbox_page(&OutboxFilter::default(), None, 10)
        .await
        .unwrap();
    let row = rows.into_iter().find(|row| row.event_type == "ORDER_CREATED").unwrap();
    let now = app.now();
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
    let letter = DeadLetter {
        queue: INVENTORY_QUEUE.into(),
        key: row.event_id.into(),
        tenant: TENANT,
        event_type: None,
        trace_id: None,
        body: String::new(),
        reason: "out of paper".into(),
        died_at: now,
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    unit(app, async |unit| {
        unit.outbox().record(&[consumption]).await.unwrap();
        unit.outbox().park(&[letter]).await.unwrap();
    })
    .await;
}

async fn letter(world: &World) -> DeadLetter {
    let filter = DeadLetterFilter::default();
    world.view().await.outbox_view().dead_letters_page(&filter, None, 1).await.unwrap().remove(0).effect
}

fn every_letter() -> Letters {
    Letters::Filter { queue: None, event_type: None, tenant: None }
}

#[test]
fn redrive_is_done_and_recorded_or_neither() {
    sweep("redrive_events", async |cut, polls| {
        let action = async |app: &App| {
            let filter = OutboxFilter { status: Some(OutboxStatus::Failed), ..OutboxFilter::default() };
            let rows = Rows::Filter { filter: RedriveFilter::new(filter).unwrap(), after: None };
            let command = RedriveEvents { rows, dry_run: false, pace: Pace::default(), reason: None };
            redrive_events(&app.outbox, &operator(), command).await
        };
        let changed = async |world: &World| {
            let rows = world.rows().await;
            rows.iter().filter(|row| row.status == OutboxStatus::Retry).count() as u64
        };
        cut_once((cut, polls), given_up, action, changed, 2).await
    });
}

#[test]
fn release_is_done_and_recorded_or_neither() {
    sweep("release_aggregate", async |cut, polls| {
        let action = async |app: &App| {
            let failed = app
                .view()
                .await?
                .outbox_view()
                .blocked_page(app.outbox.registry.unordered(), None, None, 1)
                .await?;
            let aggregate =
                failed.first().map(|it| (it.effect.aggregate.kind.clone(), it.effect.aggregate.id));
            let Some(aggregate) = aggregate else { return Ok(0) };
            release_aggregate(&app.outbox, &operator(), None, aggregate, None).await
        };
        let changed = async |world: &World| {
            world.rows().await.iter().filter(|row| row.released_time.is_some()).count() as u64
        };
        // ORDER_TIMEOUT holds nothing.
        cut_once((cut, polls), given_up, action, changed, 1).await
    });
}

#[test]
fn discard_is_done_and_recorded_or_neither() {
    sweep("discard_dead_letters", async |cut, polls| {
        let action = async |app: &App| {
            let reason = Reason::new("a stray".into()).unwrap();
            let command = DiscardLetters { letters: every_letter(), dry_run: false, reason };
            discard_dead_letters(&app.outbox, &operator(), command).await
        };
        let changed =
            async |world: &World| u64::from(letter(world).await.status == DeadLetterStatus::Discarded);
        cut_once((cut, polls), dead, action, changed, 1).await
    });
}

#[test]
fn a_replay_that_is_cut_leaves_the_letter_open_or_its_event_to_be_tried() {
    sweep("replay_dead_letters", async |cut, polls| {
        let world = World::new().await;
        let (app, _) = world.process();
        dead(&world.process().0).await;
        let replay = async |app: &App| {
            let command = ReplayLetters { letters: every_letter(), dry_run: false, reason: None };
            replay_dead_letters(&app.outbox, &operator(), command).await
        };
        let mut running: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(replay(&app));
        let answer = step(&mut running, polls).await;
        if cut == Cut::ProcessEnds {
            app.tx.tasks.kill();
        }
        drop(running);
        let next = after(&world, &app, cut).await;
        let log = async || {
            let event: EventId = letter(&world).await.key.parse().unwrap();
            world.view().await.outbox_view().consumption("inventory", &event).await.unwrap().unwrap().status
        };
        let (status, sent) = (letter(&world).await.status, world.depth(INVENTORY_QUEUE).await.0);
        let found = (status, log().await, recorded(&world).await);
        let expected = match status {
            DeadLetterStatus::Open => (status, ConsumeStatus::Dead, 0),
            DeadLetterStatus::Replaying | DeadLetterStatus::Replayed => (status, ConsumeStatus::Failed, 1),
            DeadLetterStatus::Discarded => panic!("nobody discarded it"),
        };
        assert_eq!(found, expected, "{cut:?} after {polls}");
        assert!(status != DeadLetterStatus::Open || sent == 0, "{cut:?} after {polls}: sent and not begun");
        assert!(status != DeadLetterStatus::Replayed || sent == 1, "{cut:?} after {polls}: closed, not sent");
        if cut == Cut::CallerGoes {
            assert_ne!(status, DeadLetterStatus::Replaying, "what was begun runs to its end");
        }
        without_waiting(replay(&next)).await.unwrap();
        assert_eq!(letter(&world).await.status, DeadLetterStatus::Replayed);
        assert!(world.depth(INVENTORY_QUEUE).await.0 >= 1);
        without_waiting(ordered(&next)).await;
        answer.is_some()
    });
}
