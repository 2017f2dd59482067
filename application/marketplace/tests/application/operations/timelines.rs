//! The timeline of an order, and its visibility.

use handover_events::*;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use handover_outbox::{MASK, RelaySettings};
use marketplace::Settings;
use marketplace::consumers::{self, INVENTORY_QUEUE, WALLET_QUEUE, WEBHOOK_QUEUE};
use marketplace::service;
use marketplace::use_cases::operations::*;
use marketplace_domain::*;

use super::operators::*;
use crate::support::{BUYER, Process, SELLER, TENANT, World, by, first_record, pass, secs};

/// A deployment with the whole service running.
async fn running() -> (World, Process) {
    let world = World::new().await;
    let process = world.process();
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, &Settings::default());
    (world, process)
}

fn texts(timeline: &Timeline, kind: TimelineKind) -> Vec<&str> {
    timeline.items.iter().filter(|item| item.kind == kind).map(|item| item.what.as_str()).collect()
}

fn detail_of_event(timeline: &Timeline, event_type: &str) -> Option<String> {
    let is_it = |item: &&TimelineItem| {
        item.kind == TimelineKind::Event && item.event_type.as_deref() == Some(event_type)
    };
    timeline.items.iter().find(is_it).unwrap().detail.clone()
}

#[tokio::test(start_paused = true)]
async fn completed_order_timeline_shows_every_change_event_publish_consumer_and_effect() {
    let (_world, process) = running().await;
    let app = &process.app;
    let order = process.ordered().await.id;
    pass(secs(1)).await;
    let payment = process.started_payment(order).await;
    pass(secs(1)).await;
    process.settle(&payment, PaymentResult::Success).await.unwrap();
    pass(secs(1)).await;
    app.ordering.ship(&by(SELLER), order, Shipment::new("SF".into(), "SF-1".into()).unwrap()).await.unwrap();
    pass(secs(1)).await;
    app.ordering.complete(&by(BUYER), order).await.unwrap();
    pass(secs(1)).await;
    let mut shown = app.operations.timeline(&by(BUYER), None, order).await.unwrap();
    assert_eq!(shown.order, order);
    assert!(shown.items.is_sorted_by_key(|item| item.at));
    let states = ["order placed", "order paid", "order shipped", "order completed"];
    assert_eq!(texts(&shown, TimelineKind::State), states);
    let payments = ["payment of 88.50 CNY started", "payment of 88.50 CNY succeeded"];
    assert_eq!(texts(&shown, TimelineKind::Payment), payments);
    let effects = [
        "product 1 removed from the seller's listing",
        "shipment task opened for the seller",
        "buyer notified: paid -> shipped",
        "seller notified: paid -> shipped",
        "buyer notified: shipped -> completed",
        "seller notified: shipped -> completed",
        "order counted for the buyer's credit as COMPLETED",
        "cash: capture of 88.50",
        "points: earning of 88",
    ];
    let mut shown_effects = texts(&shown, TimelineKind::Effect);
    shown_effects.sort_unstable();
    let mut expected = effects;
    expected.sort_unstable();
    assert_eq!(shown_effects, expected);
    // The events are ORDER_CREATED, ORDER_TIMEOUT, PAYMENT_SUCCEEDED, ORDER_PAID and two ORDER_STATUS_CHANGED.
    assert_eq!(texts(&shown, TimelineKind::Event).len(), 6);
    assert_eq!(texts(&shown, TimelineKind::Published), ["confirmed by the broker"; 6]);
    // inventory; fulfillment and points; status-sync and buyer-credit twice.
    assert_eq!(texts(&shown, TimelineKind::Consumed).len(), 7);
    assert!(texts(&shown, TimelineKind::DeadLetter).is_empty());
    let paid = shown.items.iter().position(|item| item.what == "order paid").unwrap();
    let opened = shown.items.iter().position(|item| item.what.starts_with("shipment task")).unwrap();
    let item = &shown.items[opened];
    assert!(paid < opened && item.event_type.as_deref() == Some("ORDER_PAID"), "{item:?}");
    assert_eq!((item.event_id.clone(), item.trace_id.clone()), {
        let cause = &shown.items[paid];
        (cause.event_id.clone(), cause.trace_id.clone())
    });
    let mut everything = app.operations.timeline(&command_line(), None, order).await.unwrap();
    let reports = ["report 1 of the gateway: payment SUCCESS; order_paid"];
    assert_eq!(texts(&everything, TimelineKind::GatewayReport), reports);
    everything.items.retain(|item| item.kind != TimelineKind::GatewayReport);
    // The order uses no assets, and no endpoint asks for its events. A payment earns points.
    let sellers = app.operations.timeline(&by(SELLER), None, order).await.unwrap();
    let no_work = [
        ("ORDER_CREATED", [Some("coupon, points, wallet, webhooks"), Some("coupon, points, wallet"), None]),
        ("ORDER_PAID", [Some("coupon, wallet, webhooks"), Some("coupon, wallet"), None]),
        ("ORDER_TIMEOUT", [None; 3]),
    ];
    for (event_type, expected) in no_work {
        let timelines = [&everything, &shown, &sellers];
        let expected = expected.map(|names| names.map(|names| format!("no work for {names}")));
        assert_eq!(timelines.map(|timeline| detail_of_event(timeline, event_type)), expected, "{event_type}");
    }
    for timeline in [&mut everything, &mut shown] {
        timeline
            .items
            .iter_mut()
            .filter(|item| item.kind == TimelineKind::Event)
            .for_each(|item| item.detail = None);
    }
    assert_eq!(
        everything, shown,
        "without errors, reports of the gateway and consumers of operators, the timeline of an operator must equal that of the buyer"
    );
    let masked = app.operations.timeline(&operator(), None, order).await.unwrap();
    let started = |timeline: &Timeline| {
        let started = timeline.items.iter().find(|item| item.what.ends_with(" started")).unwrap();
        started.detail.clone()
    };
    assert_eq!(
        started(&masked).as_deref(),
        Some(MASK),
        "an operator without the role `pii` must not see the payment method"
    );
    assert_ne!(started(&shown).as_deref(), Some(MASK));
    process.app.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn timeline_lists_a_cause_before_its_consequences_of_the_same_time() {
    let world = World::new().await;
    let process = world.process();
    // No task runs and the clock does not advance: all changes have the same time.
    let order = process.paid().await.id;
    let shown = process.app.operations.timeline(&by(SELLER), None, order).await.unwrap();
    assert!(shown.items.iter().all(|item| item.at == world.now()));
    let order_of: Vec<(TimelineKind, &str)> =
        shown.items.iter().map(|item| (item.kind, item.what.as_str())).collect();
    let expected = [
        (TimelineKind::State, "order placed"),
        (TimelineKind::Event, "ORDER_CREATED committed to the outbox"),
        (TimelineKind::Payment, "payment of 88.50 CNY started"),
        (TimelineKind::Event, "ORDER_TIMEOUT committed to the outbox"),
        (TimelineKind::Payment, "payment of 88.50 CNY succeeded"),
        (TimelineKind::Event, "PAYMENT_SUCCEEDED committed to the outbox"),
        (TimelineKind::State, "order paid"),
        (TimelineKind::Event, "ORDER_PAID committed to the outbox"),
    ];
    assert_eq!(order_of, expected);
}

#[tokio::test(start_paused = true)]
async fn timeline_is_visible_to_parties_operators_of_the_tenant_and_the_platform() {
    let world = World::new().await;
    let process = world.process();
    let app = &process.app;
    let order = process.ordered().await.id;
    for context in [by(BUYER), by(SELLER), operator(), platform(), command_line()] {
        assert_eq!(
            app.operations.timeline(&context, None, order).await.unwrap().order,
            order,
            "{:?}",
            context.actor
        );
    }
    for context in [by(99), other_tenant_operator(), crate::support::gateway()] {
        assert_not_found(&app.operations.timeline(&context, None, order).await);
    }
    assert_not_found(&app.operations.timeline(&platform(), Some(tenant(2)), order).await);
    assert_not_found(&app.operations.timeline(&operator(), Some(tenant(2)), order).await);
    assert_not_found(&app.operations.timeline(&platform(), None, 404.try_into().unwrap()).await);
    assert!(app.operations.timeline(&platform(), Some(TENANT), order).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn publish_attempts_redrives_and_ignored_duplicates_are_shown_in_sequence() {
    let (world, process) = running().await;
    let app = &process.app;
    let order = process.paid().await.id;
    pass(secs(1)).await;
    world.unbind_changed();
    app.ordering.ship(&by(SELLER), order, Shipment::new("SF".into(), "SF-1".into()).unwrap()).await.unwrap();
    pass(secs(1)).await;
    world.broker.declare(&consumers::topology(world.pending_timeout)).await.unwrap();
    pass(secs(10)).await;
    let rows = world.rows().await;
    let shipped = rows.iter().find(|row| row.event_type == "ORDER_STATUS_CHANGED").unwrap();
    let id = shipped.event_id.as_str();
    let redrive = |reason| RedriveEvents {
        rows: RedriveSelection::Events(ids(&[id])),
        dry_run: false,
        pace: RedriveRate::default(),
        reason,
    };
    for reason in [Some(reason()), None] {
        redrive_events(&app.outbox, &acting(&operator()), redrive(reason)).await.unwrap();
        pass(secs(1)).await;
    }
    let lines_of = async |context, kind| {
        let shown = app.operations.timeline(&context, None, order).await.unwrap();
        assert!(shown.items.is_sorted_by_key(|item| item.at));
        let of_event = shown.items.into_iter().filter(|it| it.event_id.as_ref() == Some(&shipped.event_id));
        let lines = of_event.filter(|item| item.kind == kind);
        lines
            .map(|item| (item.what, item.status.unwrap_or("-"), item.attempts, item.detail))
            .collect::<Vec<_>>()
    };
    let line = |what: &str, status, attempts, detail: Option<&str>| {
        (what.to_owned(), status, Some(attempts), detail.map(str::to_owned))
    };
    let error = "消息发送失败: returned: 312 NO_ROUTE";
    let expected = [
        line("not confirmed; to be published again", "RETRY", 1, Some(error)),
        line("confirmed by the broker", "SENT", 2, None),
        line("redriven; to be published again", "RETRY", 0, Some("user:9: the service is available again")),
        line("confirmed by the broker", "SENT", 1, None),
        line("redriven; to be published again", "RETRY", 0, Some("user:9")),
        line("confirmed by the broker", "SENT", 1, None),
    ];
    assert_eq!(lines_of(operator(), TimelineKind::Published).await, expected);
    let without_details = expected.map(|(what, status, attempts, _)| (what, status, attempts, None));
    assert_eq!(
        lines_of(by(BUYER), TimelineKind::Published).await,
        without_details,
        "only operators may see errors and names"
    );
    let consumed = lines_of(by(BUYER), TimelineKind::Consumed).await;
    for consumer in ["status-sync", "buyer-credit"] {
        let of = |what: &str| consumed.iter().filter(|(it, ..)| *it == format!("{what} {consumer}")).count();
        assert_eq!((of("applied by"), of("duplicate ignored by")), (1, 2), "{consumed:?}");
    }
    let applied = consumed.iter().take_while(|(what, ..)| what.starts_with("applied by")).count();
    assert_eq!(
        consumed.len(),
        applied * 3,
        "expected two ignored duplicates per applied event, after all applied events: {consumed:?}"
    );
    process.app.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn timeline_shows_the_failure_and_the_redrive_of_an_event() {
    let world = World::new().await;
    let process = world.process();
    world.unbind_changed();
    process.start_relay("relay", RelaySettings::default());
    let order = process.paid().await.id;
    process
        .app
        .ordering
        .ship(&by(SELLER), order, Shipment::new("SF".into(), "SF-1".into()).unwrap())
        .await
        .unwrap();
    pass(secs(200)).await;
    let filter = OutboxFilter { status: Some(OutboxStatus::Failed), ..OutboxFilter::default() };
    let rows = RedriveSelection::Filter { filter: RedriveFilter::new(filter).unwrap(), after: None };
    let redrive = RedriveEvents { rows, dry_run: false, pace: RedriveRate::default(), reason: None };
    assert_eq!(redrive_events(&process.app.outbox, &acting(&operator()), redrive).await.unwrap().redriven, 1);
    pass(secs(1)).await;
    let shown = process.app.operations.timeline(&by(BUYER), None, order).await.unwrap();
    let mut published = texts(&shown, TimelineKind::Published);
    published.retain(|what| *what != "confirmed by the broker");
    let retry = "not confirmed; to be published again";
    let failed = "publishing failed: not confirmed by the broker";
    assert_eq!(published, [retry, retry, retry, failed, "redriven; to be published again", retry]);
}

#[tokio::test(start_paused = true)]
async fn error_details_are_shown_only_to_operators() {
    let world = World::new().await;
    let process = world.process();
    let order = process.ordered().await.id;
    let created = world.rows().await[0].event_id.to_string();
    world.mark_failed(&[&created]).await;
    let row = world.row(&created).await;
    let mut unit = world.store.begin().await.unwrap();
    let queue = "inventory.update.queue";
    let now = world.now();
    unit.outbox()
        .record(&[Consumption {
            consumer: "inventory".into(),
            event_id: row.event_id.clone(),
            event_type: row.event_type.clone(),
            aggregate: row.aggregate.clone(),
            aggregate_seq: 1,
            expected: Expected::Absent,
            status: ConsumeStatus::Dead,
            attempts: 4,
            next_retry_time: None,
            lease_until: None,
            error_message: Some("secret detail 1".into()),
            idempotency_key: None,
            consume_result: None,
            payload_hash: String::new(),
            trace_id: String::new(),
            cost_ms: 0,
            consume_time: now,
        }])
        .await
        .unwrap();
    let dead_letter = DeadLetter {
        queue: queue.into(),
        key: created.clone(),
        tenant: TENANT,
        event_type: None,
        trace_id: None,
        body: row.payload.clone(),
        reason: "secret detail 2".into(),
        died_at: now,
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    unit.outbox().park(&[dead_letter]).await.unwrap();
    unit.commit().await.unwrap();
    pass(secs(5)).await;
    let note = Reason::new("secret detail 3".into()).unwrap();
    let discard = DiscardDeadLetters { selection: keys(&[&created]), dry_run: false, reason: note };
    discard_dead_letters(&process.app.outbox, &acting(&operator()), discard).await.unwrap();
    let seen_by = async |context| {
        let shown = process.app.operations.timeline(&context, None, order).await.unwrap();
        let is_after_commit = |item: &&TimelineItem| item.kind > TimelineKind::Event;
        let lines = shown.items.into_iter().filter(|item| is_after_commit(&item));
        lines.map(|item| (item.what, item.status, item.detail)).collect::<Vec<_>>()
    };
    let details = seen_by(operator()).await;
    let line = |what: &str, status, detail: &str| (what.to_owned(), Some(status), Some(detail.to_owned()));
    let expected = [
        line("publishing failed: not confirmed by the broker", "FAILED", "消息发送失败: NO_ROUTE"),
        line("failed permanently at inventory", "DEAD", "secret detail 1"),
        line("parked as dead letter", "OPEN", "secret detail 2"),
        line("discarded by an operator", "DISCARDED", "secret detail 3"),
    ];
    assert_eq!(details, expected);
    let without_details: Vec<_> = details.into_iter().map(|(what, status, _)| (what, status, None)).collect();
    assert_eq!(seen_by(by(BUYER)).await, without_details);
    assert_eq!(seen_by(by(SELLER)).await, without_details);
}

/// A consumer has a consume-log record only of events that it has work with: an item of the wallet consumer would show the
/// seller that the buyer paid from a wallet.
#[tokio::test(start_paused = true)]
async fn items_of_a_consumer_are_shown_only_to_readers_that_see_its_effects() {
    let world = World::new().await;
    let process = world.process();
    let order = process.ordered().await.id;
    let row = world.rows().await.remove(0);
    let now = world.now();
    let of_parties = ("inventory", INVENTORY_QUEUE);
    let of_buyer = ("wallet", WALLET_QUEUE);
    let of_operators = ("webhooks", WEBHOOK_QUEUE);
    let mut unit = world.store.begin().await.unwrap();
    for (consumer, queue) in [of_parties, of_buyer, of_operators] {
        let outbox = unit.outbox();
        outbox.record(&[first_record(row.clone(), consumer, ConsumeStatus::Success, now)]).await.unwrap();
        let duplicate = HistoryEntry {
            tenant: TENANT,
            event_id: row.event_id.clone(),
            kind: HistoryKind::Duplicate,
            consumer: Some(consumer.into()),
            attempts: 0,
            detail: None,
            at: now,
        };
        outbox.add_history(&[duplicate]).await.unwrap();
        let dead_letter = DeadLetter {
            queue: queue.into(),
            key: row.event_id.to_string(),
            tenant: TENANT,
            event_type: None,
            trace_id: None,
            body: row.payload.clone(),
            reason: "the handler failed".into(),
            died_at: now,
            status: DeadLetterStatus::Open,
            decided_at: None,
            note: None,
        };
        outbox.park(&[dead_letter]).await.unwrap();
    }
    unit.commit().await.unwrap();
    // A dead letter of an applied event is closed as replayed.
    let selection = keys(&[row.event_id.as_str()]);
    let discard = DiscardDeadLetters { selection, dry_run: false, reason: reason() };
    discard_dead_letters(&process.app.outbox, &acting(&operator()), discard).await.unwrap();
    let readers = [
        ("seller", by(SELLER), vec![of_parties]),
        ("buyer", by(BUYER), vec![of_parties, of_buyer]),
        ("operator", operator(), vec![of_parties, of_buyer, of_operators]),
    ];
    for (reader, context, consumers) in readers {
        let shown = process.app.operations.timeline(&context, None, order).await.unwrap();
        let with_consumer = shown.items.into_iter().filter_map(|item| Some((item.consumer?, item.what)));
        let mut with_consumer: Vec<(String, String)> = with_consumer.collect();
        with_consumer.sort();
        let mut expected = Vec::new();
        for (consumer, _) in consumers {
            let items = [
                &format!("applied by {consumer}"),
                "replay confirmed by the broker",
                &format!("duplicate ignored by {consumer}"),
                "parked as dead letter",
            ];
            expected.extend(items.map(|what| (consumer.to_owned(), what.to_owned())));
        }
        expected.sort();
        assert_eq!(with_consumer, expected, "{reader}");
    }
}
