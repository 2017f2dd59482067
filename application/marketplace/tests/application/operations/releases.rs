//! Release of blocked aggregates.

use handover_events::*;
use handover_outbox::RelaySettings;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::CommandContext;

use super::operators::*;
use crate::support::{Process, TENANT, World, event_id, millis, pass, sample};

const ORDER: i64 = 7;

/// An order whose first event failed and blocks two later events.
async fn blocked_order() -> (World, Process) {
    let mut world = World::new().await;
    world.on_failed = OnFailed::Hold;
    let process = world.process();
    let event = |id: &str, seq| world.event(id, seq, &sample::changed(ORDER));
    process.commit(vec![event("e-1", 1)]).await;
    world.mark_failed(&["e-1"]).await;
    process.commit(vec![event("e-2", 2), event("e-3", 3)]).await;
    (world, process)
}

async fn release(process: &Process, order: i64) -> Result<u64, OperationError> {
    release_aggregate(
        &process.app.outbox,
        &acting(&operator()),
        None,
        ("Order".into(), order.into()),
        Some(reason()),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn later_events_are_published_after_the_release_of_their_aggregate() {
    let (world, process) = blocked_order().await;
    process.start_relay("r", RelaySettings::default());
    pass(millis(500)).await;
    assert_eq!(world.status("e-2").await, OutboxStatus::New);
    assert_eq!(release(&process, ORDER).await.unwrap(), 1);
    pass(millis(100)).await;
    assert_eq!(world.status("e-1").await, OutboxStatus::Failed);
    assert_eq!(
        (world.status("e-2").await, world.status("e-3").await),
        (OutboxStatus::Sent, OutboxStatus::Sent)
    );
    process.app.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn release_is_audited_once_after_a_commit_fault() {
    for faults in FAULTS {
        let (world, process) = blocked_order().await;
        process.faults.next_commits(faults.iter().copied());
        assert_eq!(release(&process, ORDER).await.unwrap(), 1, "{faults:?}");
        let entry = AuditEntry {
            tenant: TENANT,
            actor: "user:9".into(),
            action: "outbox.release".into(),
            selection: r#"{"aggregateType":"Order","aggregateId":7,"tenantId":1}"#.into(),
            matched: 1,
            changed: 1,
            reason: Some("the service is available again".into()),
            trace_id: "trace-9".into(),
            at: world.now(),
        };
        let audit = world.audited_changes().await;
        assert_eq!(audit.len(), 1, "{faults:?}");
        assert_eq!(AuditEntry { at: entry.at, ..audit[0].clone() }, entry);
    }
}

#[tokio::test(start_paused = true)]
async fn release_of_an_unblocked_or_foreign_aggregate_is_not_found() {
    let (world, process) = blocked_order().await;
    let app = &process.app;
    let order = || ("Order".to_owned(), ORDER.into());
    assert_not_found(&release(&process, 8).await);
    assert_not_found(
        &release_aggregate(&app.outbox, &acting(&operator()), None, ("Payment".into(), ORDER.into()), None)
            .await,
    );
    assert_not_found(
        &release_aggregate(&app.outbox, &acting(&other_tenant_operator()), None, order(), None).await,
    );
    assert_not_found(
        &release_aggregate(&app.outbox, &acting(&other_tenant_operator()), Some(TENANT), order(), None).await,
    );
    assert_not_found(&release_aggregate(&app.outbox, &acting(&platform()), None, order(), None).await);
    assert!(world.audited_changes().await.is_empty());
    assert_eq!(
        release_aggregate(&app.outbox, &acting(&platform()), Some(TENANT), order(), None).await.unwrap(),
        1
    );
    assert_not_found(&release(&process, ORDER).await);
    assert_eq!(world.audited_changes().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn blocked_aggregates_are_listed_with_their_event_counts_until_released() {
    let (world, process) = blocked_order().await;
    world.commit_event_in(&process, tenant(2), "f-1", 9).await;
    world.mark_failed(&["f-1"]).await;
    let app = &process.app;
    let page = blocked(&app.outbox, &acting(&operator()), None, None, 10).await.unwrap();
    assert_eq!((page.items.len(), page.next), (1, None));
    let first = &page.items[0].effect;
    assert_eq!(
        (first.event_id.clone(), first.held, first.aggregate.id.number()),
        (event_id("e-1"), 2, ORDER)
    );
    let all = blocked(&app.outbox, &acting(&platform()), None, None, 10).await.unwrap();
    assert_eq!(all.items.len(), 2);
    let first = blocked(&app.outbox, &acting(&platform()), None, None, 1).await.unwrap();
    let rest = blocked(&app.outbox, &acting(&platform()), None, first.next, 1).await.unwrap();
    assert_eq!([&first.items[..], &rest.items[..]].concat(), all.items);
    assert_not_found(&blocked(&app.outbox, &acting(&operator()), Some(tenant(2)), None, 10).await);
    release(&process, ORDER).await.unwrap();
    assert!(blocked(&app.outbox, &acting(&operator()), None, None, 10).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn aggregate_with_a_failed_and_a_waiting_event_is_listed_once_across_pages() {
    let (world, process) = blocked_order().await;
    // The events of two other orders wait for a retry. Their row ids are greater than the id of the waiting row of the
    // blocked order.
    let event = |id: &str, order: i64| world.event(id, 1, &sample::changed(order));
    process.commit(vec![event("w-1", ORDER + 1), event("w-2", ORDER + 2)]).await;
    let waiting = ["e-2", "w-1", "w-2"].map(|id| FailedPublish {
        event_id: event_id(id),
        status: OutboxStatus::Retry,
        retry_count: 1,
        next_retry_time: Some(world.now() + chrono::TimeDelta::seconds(5)),
        error: "NO_ROUTE".into(),
    });
    let mut unit = world.store.begin().await.unwrap();
    unit.outbox().mark_failed(&waiting, world.now()).await.unwrap();
    unit.commit().await.unwrap();
    let outbox = &process.app.outbox;
    let mut listed = Vec::new();
    let mut before = None;
    loop {
        let page = blocked(outbox, &acting(&platform()), None, before, 1).await.unwrap();
        listed.extend(page.items.into_iter().map(|row| row.effect));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let ids: Vec<_> = listed.iter().map(|row| (row.event_id.as_str(), row.until.is_some())).collect();
    assert_eq!(ids, [("w-2", true), ("w-1", true), ("e-1", false)]);
}

#[tokio::test(start_paused = true)]
async fn on_failed_continue_lists_and_releases_no_aggregates() {
    let (mut world, _) = blocked_order().await;
    world.on_failed = OnFailed::Continue;
    let process = world.process();
    let app = &process.app;
    assert!(blocked(&app.outbox, &acting(&platform()), None, None, 10).await.unwrap().items.is_empty());
    assert_not_found(&blocked(&app.outbox, &acting(&operator()), Some(tenant(2)), None, 10).await);
    let order = || ("Order".to_owned(), ORDER.into());
    assert_not_found(
        &release_aggregate(&app.outbox, &acting(&other_tenant_operator()), Some(TENANT), order(), None).await,
    );
    let refused = release(&process, ORDER).await;
    assert!(matches!(refused, Err(OperationError::NothingBlocked)), "{refused:?}");
    assert_eq!(world.row("e-1").await.released_time, None);
    assert!(world.audited_changes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn release_by_the_command_line_is_audited_for_the_tenant_of_the_rows() {
    let mut world = World::new().await;
    world.on_failed = OnFailed::Hold;
    let process = world.process();
    world.commit_event_in(&process, tenant(2), "f-1", 9).await;
    world.mark_failed(&["f-1"]).await;
    let app = &process.app;
    let order = ("Order".to_owned(), 9.into());
    let context = command_line();
    assert_eq!(context.tenant, TENANT);
    assert_eq!(
        release_aggregate(&app.outbox, &acting(&context), Some(tenant(2)), order, None).await.unwrap(),
        1
    );
    let log = async |context: CommandContext| {
        audit_log(&app.outbox, &acting(&context), AuditFilter::default(), None, 10).await.unwrap().items
    };
    assert_eq!(log(other_tenant_operator()).await[0].effect.actor, "command-line:root");
    assert!(log(operator()).await.iter().all(|entry| entry.effect.changed == 0));
}
