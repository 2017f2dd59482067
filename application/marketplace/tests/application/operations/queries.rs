//! Queries of operators, and the visibility of the results.

use handover_events::*;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::CommandContext;

use super::failing_consumer::{dead_letter_fixture, with_scripted};
use super::operators::*;
use crate::consumers::scripted::{NAME, QUEUE};
use crate::support::{TENANT, World, event_id, pass, secs};

#[tokio::test(start_paused = true)]
async fn event_is_found_only_by_operators_of_its_tenant_and_by_the_platform() {
    let world = World::new().await;
    let process = world.process();
    world.commit_event_in(&process, tenant(2), "e-1", 7).await;
    let app = &process.app;
    let id = event_id("e-1");
    let masked = find_event(&app.outbox, &acting(&other_tenant_operator()), &id).await.unwrap();
    assert_eq!(masked.row.event_id, id);
    assert!(masked.row.payload.contains(r#""buyerId":"***""#), "{}", masked.row.payload);
    assert_eq!(find_event(&app.outbox, &acting(&platform()), &id).await.unwrap().row.event_id, id);
    let whole = find_event(&app.outbox, &acting(&command_line()), &id).await.unwrap();
    assert_eq!(whole.row, world.row("e-1").await);
    assert_not_found(&find_event(&app.outbox, &acting(&operator()), &id).await);
    assert_not_found(&find_event(&app.outbox, &acting(&platform()), &event_id("e-2")).await);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_listed_newest_first_with_their_event_ids() {
    let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8)]).await;
    let world = &fixture.world;
    let app = &fixture.process.app;
    let stray = Message { body: "stray".into(), ..Message::default() };
    world.broker.inject(QUEUE, stray);
    pass(secs(1)).await;
    let page = async |filter: DeadLetterFilter, before, limit| {
        dead_letters(&app.outbox, &acting(&operator()), filter, before, limit).await.unwrap()
    };
    let all = page(DeadLetterFilter::default(), None, 10).await;
    let events: Vec<_> = all.items.iter().map(|parked| parked.event.clone()).collect();
    assert_eq!(events, [None, Some(event_id("e-2")), Some(event_id("e-1"))]);
    let first = page(DeadLetterFilter::default(), None, 2).await;
    let rest = page(DeadLetterFilter::default(), first.next, 2).await;
    assert_eq!([&first.items[..], &rest.items[..]].concat(), all.items);
    assert_eq!(rest.next, None);
    let replayed = DeadLetterFilter { status: Some(DeadLetterStatus::Replayed), ..Default::default() };
    assert!(page(replayed, None, 10).await.items.is_empty());
    let other =
        dead_letters(&app.outbox, &acting(&other_tenant_operator()), DeadLetterFilter::default(), None, 10)
            .await
            .unwrap();
    assert!(other.items.is_empty());
    let filter = DeadLetterFilter { tenant: Some(TENANT), ..Default::default() };
    assert_not_found(&dead_letters(&app.outbox, &acting(&other_tenant_operator()), filter, None, 10).await);
}

#[tokio::test(start_paused = true)]
async fn consume_log_is_filtered_by_each_field_and_by_the_tenant_of_the_operator() {
    let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8)]).await;
    let app = &fixture.process.app;
    let any = ConsumedFilter::default;
    let cases = [
        (any(), 2),
        (ConsumedFilter { event_id: Some(event_id("e-1")), ..any() }, 1),
        (ConsumedFilter { consumer: Some(NAME.into()), ..any() }, 2),
        (ConsumedFilter { consumer: Some("wallet".into()), ..any() }, 0),
        (ConsumedFilter { status: Some(ConsumeStatus::Dead), ..any() }, 2),
        (ConsumedFilter { status: Some(ConsumeStatus::Success), ..any() }, 0),
    ];
    for (filter, count) in cases {
        let page = consumptions(&app.outbox, &acting(&operator()), filter.clone(), None, 10).await.unwrap();
        assert_eq!(page.items.len(), count, "{filter:?}");
    }
    let first = consumptions(&app.outbox, &acting(&operator()), any(), None, 1).await.unwrap();
    assert_eq!(first.items[0].effect.event_id, event_id("e-2"));
    let rest = consumptions(&app.outbox, &acting(&operator()), any(), first.next, 1).await.unwrap();
    assert_eq!((rest.items[0].effect.event_id.clone(), rest.next), (event_id("e-1"), None));
    assert!(
        consumptions(&app.outbox, &acting(&other_tenant_operator()), any(), None, 10)
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn stats_count_rows_of_the_operator_tenant_and_list_every_consumer() {
    let mut fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8)]).await;
    fixture.world.on_failed = OnFailed::Hold;
    let world = &fixture.world;
    let app = &fixture.process.app;
    world.commit_event_in(&fixture.process, tenant(2), "f-1", 9).await;
    world.mark_failed(&["e-1"]).await;
    pass(secs(90)).await;
    assert_eq!(
        stats(&app.outbox, &acting(&operator()), None).await.unwrap().blocked,
        0,
        "expected no blocked aggregate, because on-failed is continue"
    );
    let app = &with_scripted(world.process(), &fixture.handler).app;
    let own = stats(&app.outbox, &acting(&operator()), None).await.unwrap();
    assert_eq!((own.outbox.new, own.outbox.failed, own.outbox.sent, own.outbox.retry), (1, 1, 0, 0));
    assert_eq!(own.oldest_pending.map(|waited| waited.as_secs()), Some(90));
    assert_eq!((own.open_dead_letters, own.blocked, own.more_blocked), (2, 1, false));
    let names: Vec<&str> = own.consumers.iter().map(|consumer| consumer.consumer.as_str()).collect();
    let expected = [
        "buyer-credit",
        "coupon",
        "fulfillment",
        "inventory",
        "order-timeout",
        "points",
        NAME,
        "status-sync",
        "wallet",
        "webhooks",
    ];
    assert_eq!(names, expected);
    let scripted = own.consumers.iter().find(|consumer| consumer.consumer == NAME).unwrap();
    assert_eq!((scripted.dead, scripted.success), (2, 0));
    assert!(own.queues.unwrap().iter().any(|queue| queue.name == QUEUE));
    let all = stats(&app.outbox, &acting(&platform()), None).await.unwrap();
    assert_eq!(all.outbox.new, 2);
    let other = stats(&app.outbox, &acting(&other_tenant_operator()), None).await.unwrap();
    assert_eq!((other.outbox.new, other.outbox.failed, other.open_dead_letters), (1, 0, 0));
    assert!(other.consumers.iter().all(|consumer| consumer.dead == 0));
    world.broker.set_reachable(false);
    assert_eq!(stats(&app.outbox, &acting(&operator()), None).await.unwrap().queues, None);
    assert_not_found(&stats(&app.outbox, &acting(&operator()), Some(tenant(2))).await);
}

#[tokio::test(start_paused = true)]
async fn audit_log_shows_changes_to_rows_of_the_tenant_newest_first() {
    let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8)]).await;
    let app = &fixture.process.app;
    for (context, key) in [(operator(), "e-1"), (platform(), "e-2")] {
        let discard = DiscardDeadLetters { selection: keys(&[key]), dry_run: false, reason: reason() };
        discard_dead_letters(&app.outbox, &acting(&context), discard).await.unwrap();
    }
    let selections = async |context: CommandContext, tenant: Option<TenantId>| -> Vec<String> {
        let page = audit_log(
            &app.outbox,
            &acting(&context),
            AuditFilter { tenant, changes: true, ..AuditFilter::default() },
            None,
            10,
        )
        .await
        .unwrap();
        page.items.into_iter().map(|entry| entry.effect.selection).collect()
    };
    let [first, second] = [r#"{"keys":["e-1"]}"#, r#"{"keys":["e-2"]}"#];
    assert_eq!(selections(operator(), None).await, [second, first]);
    assert!(
        selections(other_tenant_operator(), None).await.is_empty(),
        "a change by a platform operator must be recorded for the tenant of the rows"
    );
    assert_eq!(selections(platform(), None).await, [second, first]);
    assert_eq!(selections(platform(), Some(TENANT)).await, [second, first]);
    assert!(selections(platform(), Some(tenant(2))).await.is_empty());
    assert_not_found(
        &audit_log(
            &app.outbox,
            &acting(&other_tenant_operator()),
            AuditFilter { tenant: Some(TENANT), changes: false, ..AuditFilter::default() },
            None,
            10,
        )
        .await,
    );
}

#[test]
fn named_ids_are_deduplicated_and_limited_to_900_per_call() {
    assert_eq!(Named::<i32>::new(vec![]), None);
    assert_eq!(Named::new(vec![2, 1, 2]).unwrap().as_slice(), [2, 1]);
    assert_eq!(Named::new((0..900).collect()).unwrap().as_slice().len(), 900);
    assert_eq!(Named::new((0..901).collect::<Vec<i32>>()), None);
}

#[test]
fn reason_is_one_nonblank_line_of_at_most_500_characters() {
    assert!(Reason::new("字".repeat(500)).is_ok());
    for text in [String::new(), "  ".into(), "a\nb".into(), "x".repeat(501)] {
        assert!(Reason::new(text.clone()).is_err(), "{text}");
    }
}

#[test]
fn redrive_rate_is_between_1_and_10_000_events_per_second() {
    assert!([1, 100, 10_000].into_iter().all(|pace| RedriveRate::new(pace).is_some()));
    assert!([0, 10_001].into_iter().all(|pace| RedriveRate::new(pace).is_none()));
    assert_eq!(RedriveRate::new(100), Some(RedriveRate::default()));
}
