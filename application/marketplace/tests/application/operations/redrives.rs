//! Redrive of outbox rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::*;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::service;
use marketplace::{CommandContext, Settings};

use super::operators::*;
use crate::support::{CommitFault, Process, TENANT, World, event_id, pass, sample, secs};

fn redrive(rows: RedriveSelection) -> RedriveEvents {
    RedriveEvents { rows, dry_run: false, pace: RedriveRate::default(), reason: None }
}

fn events(names: &[&str]) -> RedriveEvents {
    redrive(RedriveSelection::Events(ids(names)))
}

fn filter(filter: OutboxFilter) -> RedriveEvents {
    redrive(RedriveSelection::Filter { filter: RedriveFilter::new(filter).unwrap(), after: None })
}

/// Creates three failed events, one failed event of another tenant, and one pending event.
async fn failed_events() -> (World, Process) {
    let world = World::new().await;
    let process = world.process();
    for (number, id) in ["e-1", "e-2", "e-3", "e-4", "e-5"].into_iter().enumerate() {
        let tenant = if id == "e-4" { tenant(2) } else { TENANT };
        world.commit_event_in(&process, tenant, id, 7 + i64::try_from(number).unwrap()).await;
    }
    world.mark_failed(&["e-1", "e-2", "e-3", "e-4"]).await;
    pass(secs(60)).await;
    (world, process)
}

fn due(first: DateTime<Utc>, micros: i64) -> Option<DateTime<Utc>> {
    Some(first + TimeDelta::microseconds(micros))
}

#[tokio::test(start_paused = true)]
async fn redriven_events_become_due_at_the_requested_rate_in_id_order() {
    let (world, process) = failed_events().await;
    let now = world.now();
    let pace = RedriveRate::new(3).unwrap();
    let command = RedriveEvents { pace, reason: Some(reason()), ..events(&["e-3", "e-1", "e-2", "e-1"]) };
    let redriven = redrive_events(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    let expected = Redriven {
        matched: 3,
        redriven: 3,
        first_due: Some(now),
        last_due: due(now, 666_666),
        ..Redriven::default()
    };
    assert_eq!(redriven, expected);
    for (id, micros) in [("e-1", 0), ("e-2", 333_333), ("e-3", 666_666)] {
        let row = world.row(id).await;
        assert_eq!((row.status, row.retry_count), (OutboxStatus::Retry, 0), "{id}");
        assert_eq!(row.next_retry_time, due(now, micros), "{id}");
    }
    let audit = world.audited_changes().await;
    let entry = AuditEntry {
        tenant: TENANT,
        actor: "user:9".into(),
        action: "outbox.redrive".into(),
        selection: r#"{"eventIds":["e-3","e-1","e-2"],"perSecond":3}"#.into(),
        matched: 3,
        changed: 3,
        reason: Some("the service is available again".into()),
        trace_id: "trace-9".into(),
        at: now,
    };
    assert_eq!(audit, [entry]);
}

#[tokio::test(start_paused = true)]
async fn pending_events_are_skipped_and_events_of_other_tenants_are_not_found() {
    let (world, process) = failed_events().await;
    let all = &["e-1", "e-4", "e-5", "no-such"];
    let redriven = redrive_events(&process.app.outbox, &acting(&operator()), events(all)).await.unwrap();
    assert_eq!((redriven.matched, redriven.redriven, redriven.skipped), (2, 1, 1));
    assert_eq!(redriven.not_found, [event_id("e-4"), event_id("no-such")]);
    assert_eq!(world.status("e-4").await, OutboxStatus::Failed);
    assert_eq!(
        (world.row("e-5").await.status, world.audited_changes().await[0].changed),
        (OutboxStatus::New, 1)
    );
    let redriven = redrive_events(&process.app.outbox, &acting(&platform()), events(all)).await.unwrap();
    assert_eq!((redriven.redriven, redriven.skipped, redriven.not_found.len()), (1, 2, 1));
    assert_eq!(world.status("e-4").await, OutboxStatus::Retry);
}

#[tokio::test(start_paused = true)]
async fn filter_selects_failed_events_by_default_and_is_narrowed_by_each_field() {
    let any = OutboxFilter::default;
    let cutoff = DateTime::parse_from_rfc3339("2026-02-04T10:30:30Z").unwrap().to_utc();
    let cases = [
        (OutboxFilter { status: Some(OutboxStatus::Failed), ..any() }, 3),
        (OutboxFilter { status: Some(OutboxStatus::Sent), ..any() }, 0),
        (OutboxFilter { event_type: Some("ORDER_STATUS_CHANGED".into()), ..any() }, 3),
        (OutboxFilter { event_type: Some("ORDER_PAID".into()), ..any() }, 0),
        (OutboxFilter { aggregate_type: Some("Order".into()), ..any() }, 3),
        (OutboxFilter { aggregate_type: Some("Payment".into()), aggregate_id: Some(8.into()), ..any() }, 0),
        (OutboxFilter { aggregate_id: Some(8.into()), ..any() }, 1),
        (OutboxFilter { tenant: Some(TENANT), ..any() }, 3),
        (OutboxFilter { from: Some(cutoff), ..any() }, 0),
        (OutboxFilter { to: Some(cutoff), ..any() }, 3),
    ];
    for (fields, count) in cases {
        let (world, process) = failed_events().await;
        let redriven =
            redrive_events(&process.app.outbox, &acting(&operator()), filter(fields.clone())).await.unwrap();
        assert_eq!((redriven.matched, redriven.redriven, redriven.more), (count, count, false), "{fields:?}");
        assert_eq!(world.status("e-4").await, OutboxStatus::Failed, "e-4 belongs to another tenant");
        let entries: Vec<_> =
            world.audit_entries().await.iter().map(|entry| (entry.matched, entry.changed)).collect();
        assert_eq!(entries, [(count, count)], "{fields:?}");
    }
    let (_world, process) = failed_events().await;
    let other = OutboxFilter { tenant: Some(tenant(2)), ..any() };
    assert_not_found(&redrive_events(&process.app.outbox, &acting(&operator()), filter(other.clone())).await);
    assert_eq!(
        redrive_events(&process.app.outbox, &acting(&platform()), filter(other)).await.unwrap().redriven,
        1
    );
    assert_eq!(RedriveFilter::new(any()), Err(InvalidRedriveFilter::Empty));
    for status in [OutboxStatus::New, OutboxStatus::Retry] {
        let pending = OutboxFilter { status: Some(status), ..any() };
        assert_eq!(RedriveFilter::new(pending), Err(InvalidRedriveFilter::Pending));
    }
}

#[tokio::test(start_paused = true)]
async fn dry_run_reports_the_result_and_changes_nothing() {
    let (world, process) = failed_events().await;
    let rows = world.rows().await;
    let now = world.now();
    let command = RedriveEvents { dry_run: true, ..events(&["e-1", "e-2", "e-5", "no-such"]) };
    let redriven = redrive_events(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    let expected = Redriven {
        dry_run: true,
        matched: 3,
        redriven: 0,
        skipped: 1,
        not_found: vec![event_id("no-such")],
        more: false,
        next: None,
        first_due: Some(now),
        last_due: due(now, 10_000),
    };
    assert_eq!(redriven, expected);
    assert_eq!(world.rows().await, rows);
    assert!(world.audited_changes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn redrive_covers_one_tenant_for_operators_and_all_tenants_for_the_command_line() {
    let (world, process) = failed_events().await;
    let redriven = redrive_events(&process.app.outbox, &acting(&other_tenant_operator()), events(&["e-1"]))
        .await
        .unwrap();
    assert_eq!((redriven.matched, redriven.not_found.len()), (0, 1));
    let redriven =
        redrive_events(&process.app.outbox, &acting(&command_line()), events(&["e-1", "e-4"])).await.unwrap();
    assert_eq!(redriven.redriven, 2);
    let audit = world.audited_changes().await;
    let entries: Vec<_> =
        audit.iter().map(|entry| (entry.tenant, entry.actor.as_str(), entry.changed)).collect();
    let actor = "command-line:root";
    assert_eq!(entries, [(TENANT, actor, 1), (tenant(2), actor, 1)], "expected one audit entry per tenant");
}

#[tokio::test(start_paused = true)]
async fn redrive_happens_and_is_audited_once_after_a_commit_fault() {
    for faults in FAULTS {
        let (world, process) = failed_events().await;
        process.faults.next_commits(faults.iter().copied());
        let redriven =
            redrive_events(&process.app.outbox, &acting(&operator()), events(&["e-1", "e-2"])).await.unwrap();
        assert_eq!((redriven.redriven, redriven.skipped), (2, 0), "{faults:?}");
        let audit = world.audited_changes().await;
        assert_eq!((audit.len(), audit[0].changed), (1, 2), "{faults:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_row_is_redriven_by_only_one_of_two_concurrent_calls() {
    let (world, process) = failed_events().await;
    let app = &process.app;
    let operator = acting(&operator());
    let redrive_three = || redrive_events(&app.outbox, &operator, events(&["e-1", "e-2", "e-3"]));
    let (one, other) = tokio::join!(redrive_three(), redrive_three());
    let one = one.unwrap();
    let other = other.unwrap();
    assert_eq!(one.redriven + other.redriven, 3);
    assert_eq!(one.skipped + other.skipped, 3);
    assert_eq!(world.audited_changes().await.iter().map(|entry| entry.changed).sum::<u64>(), 3);
}

/// A store on which another process redrives and publishes e-1 before the first unit of work begins.
struct InterposedStore {
    inner: Arc<OutboxStore>,
    world: Arc<World>,
    is_done: AtomicBool,
}

#[async_trait]
impl Store for InterposedStore {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        if !self.is_done.swap(true, Ordering::SeqCst) {
            let mut unit = self.world.store.begin().await?;
            let now = self.world.now();
            unit.outbox().redrive(&[Redrive { event_id: event_id("e-1"), due: now }], now).await?;
            unit.commit().await?;
            self.world.mark_sent_without_message(&["e-1"]).await;
        }
        self.inner.begin().await
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.inner.view().await
    }
}

#[tokio::test(start_paused = true)]
async fn row_redriven_and_published_by_another_process_is_skipped() {
    let (world, process) = failed_events().await;
    let world = Arc::new(world);
    let inner = Arc::clone(process.app.outbox.tx.store());
    let store = InterposedStore { inner, world: Arc::clone(&world), is_done: AtomicBool::new(false) };
    let mut app = process.app.clone();
    app.outbox.tx = app.outbox.tx.with_store(Arc::new(store));
    let by_aggregate = filter(OutboxFilter { aggregate_id: Some(7.into()), ..OutboxFilter::default() });
    let redriven = redrive_events(&app.outbox, &acting(&operator()), by_aggregate).await.unwrap();
    assert_eq!((redriven.matched, redriven.redriven, redriven.skipped), (1, 0, 1));
    assert_eq!(
        world.status("e-1").await,
        OutboxStatus::Sent,
        "a row that is not FAILED any more must not be redriven"
    );
    let entries: Vec<_> =
        world.audit_entries().await.iter().map(|entry| (entry.matched, entry.changed)).collect();
    assert_eq!(entries, [(1, 0)], "expected an audit entry of the call with 0 changed rows");
}

#[tokio::test(start_paused = true)]
async fn redrive_rate_applies_to_all_events_of_a_call_together() {
    let (_world, process) = many_failed(4).await;
    let by_aggregate = OutboxFilter { aggregate_id: Some(7.into()), ..OutboxFilter::default() };
    let command = RedriveEvents { pace: RedriveRate::new(3).unwrap(), ..filter(by_aggregate) };
    let redriven = redrive_events(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    assert_eq!(redriven.last_due, due(redriven.first_due.unwrap(), 1_000_000));
}

/// A deployment with `count` failed events of one order.
async fn many_failed(count: usize) -> (World, Process) {
    let world = World::new().await;
    let process = world.process();
    let names: Vec<String> = (0..count).map(|number| format!("e-{number}")).collect();
    let seqs = 1..;
    let events = names.iter().zip(seqs).map(|(name, seq)| world.event(name, seq, &sample::changed(7)));
    process.commit(events.collect()).await;
    world.mark_failed(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    (world, process)
}

#[tokio::test(start_paused = true)]
async fn redrive_of_more_than_10_000_events_starts_with_the_oldest_and_continues_in_the_next_call() {
    let (world, process) = many_failed(10_001).await;
    let by_aggregate = OutboxFilter { aggregate_id: Some(7.into()), ..OutboxFilter::default() };
    let pace = RedriveRate::new(RedriveRate::MAX).unwrap();
    let command = RedriveEvents { pace, ..filter(by_aggregate) };
    let redriven = redrive_events(&process.app.outbox, &acting(&operator()), command.clone()).await.unwrap();
    assert_eq!((redriven.matched, redriven.redriven, redriven.more), (10_000, 10_000, true));
    assert_eq!(redriven.last_due, due(redriven.first_due.unwrap(), 999_900));
    assert_eq!(world.status("e-9999").await, OutboxStatus::Retry);
    assert_eq!(world.status("e-10000").await, OutboxStatus::Failed);
    let due: Vec<_> = world.rows().await.iter().filter_map(|row| row.next_retry_time).collect();
    assert!(due.is_sorted(), "the due times must be in the order of the aggregate");
    let audit = world.audited_changes().await;
    assert_eq!((audit.len(), audit.iter().map(|entry| entry.changed).sum::<u64>()), (20, 10_000));
    assert!(audit[19].selection.ends_with(r#""part":20,"parts":20}"#), "{}", audit[19].selection);
    let redriven = redrive_events(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    assert_eq!((redriven.matched, redriven.redriven, redriven.more), (1, 1, false));
}

#[tokio::test(start_paused = true)]
async fn cursor_selects_all_sent_events_once_although_they_are_sent_again_in_the_meantime() {
    let (world, process) = many_failed(10_001).await;
    let redrive_sent = |after| {
        let sent = OutboxFilter { status: Some(OutboxStatus::Sent), ..OutboxFilter::default() };
        let rows = RedriveSelection::Filter { filter: RedriveFilter::new(sent).unwrap(), after };
        RedriveEvents { pace: RedriveRate::new(RedriveRate::MAX).unwrap(), ..redrive(rows) }
    };
    let failed = OutboxFilter { aggregate_id: Some(7.into()), ..OutboxFilter::default() };
    for expected in [10_000, 1] {
        let redriven =
            redrive_events(&process.app.outbox, &acting(&operator()), filter(failed.clone())).await.unwrap();
        assert_eq!(redriven.redriven, expected);
    }
    let names: Vec<String> = (0..10_001).map(|number| format!("e-{number}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    world.mark_sent_without_message(&all).await;
    let first = redrive_events(&process.app.outbox, &acting(&operator()), redrive_sent(None)).await.unwrap();
    assert_eq!((first.redriven, first.more), (10_000, true));
    assert_eq!(first.next, Some(world.row("e-9999").await.id));
    world.mark_sent_without_message(&all).await;
    let second =
        redrive_events(&process.app.outbox, &acting(&operator()), redrive_sent(first.next)).await.unwrap();
    assert_eq!((second.redriven, second.more, second.next), (1, false, None));
    assert_eq!(world.status("e-10000").await, OutboxStatus::Retry);
}

#[tokio::test(start_paused = true)]
async fn store_outage_during_a_redrive_keeps_committed_changes_and_reports_that_rows_remain() {
    let (world, process) = many_failed(600).await;
    let by_aggregate = OutboxFilter { aggregate_id: Some(7.into()), ..OutboxFilter::default() };
    process.faults.next_commits([CommitFault::None, CommitFault::Unavailable]);
    let redriven = redrive_events(&process.app.outbox, &acting(&operator()), filter(by_aggregate.clone()))
        .await
        .unwrap();
    assert_eq!((redriven.matched, redriven.redriven, redriven.more), (600, 500, true));
    assert_eq!(world.audited_changes().await.iter().map(|entry| entry.changed).sum::<u64>(), 500);
    let unavailable =
        redrive_events(&process.app.outbox, &acting(&operator()), filter(by_aggregate.clone())).await;
    assert!(matches!(unavailable, Err(OperationError::Store(StoreError::Unavailable(_)))), "{unavailable:?}");
    process.faults.set_unavailable(false);
    let redriven =
        redrive_events(&process.app.outbox, &acting(&operator()), filter(by_aggregate)).await.unwrap();
    assert_eq!((redriven.matched, redriven.redriven, redriven.more), (100, 100, false));
}

#[tokio::test(start_paused = true)]
async fn redriven_sent_event_is_published_again_and_takes_effect_once() {
    let world = World::new().await;
    let process = world.process();
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, &Settings::default());
    let order = process.paid().await;
    pass(secs(2)).await;
    let sent = OutboxFilter {
        status: Some(OutboxStatus::Sent),
        event_type: Some("ORDER_PAID".into()),
        ..OutboxFilter::default()
    };
    let before = world.now();
    let context = CommandContext { tenant: TENANT, ..operator() };
    assert_eq!(
        redrive_events(&process.app.outbox, &acting(&context), filter(sent)).await.unwrap().redriven,
        1
    );
    pass(secs(1)).await;
    let rows = world.rows().await;
    let paid = rows.iter().find(|row| row.event_type == "ORDER_PAID").unwrap();
    assert_eq!(paid.status, OutboxStatus::Sent);
    assert!(
        paid.sent_time.unwrap() >= before,
        "the commit of the redrive must notify the relay, which publishes the row again"
    );
    let tasks = world.view().await.shipment_tasks(TENANT, &[order.id]).await.unwrap();
    assert_eq!(tasks.len(), 1);
    process.app.tx.tasks().stop().await;
}
