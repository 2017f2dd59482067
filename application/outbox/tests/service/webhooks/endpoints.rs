//! Operations on endpoints: tenants, quota, values, secrets, deletion.

use handover_contract::samples::webhooks::delivery;

use super::*;
use crate::lists::{MANY, rows_per_page};

#[tokio::test(start_paused = true)]
async fn other_tenants_endpoint_is_not_found_by_any_operation() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    let delivery = world.only_delivery(endpoint.id).await.id;
    let outsider = operator(other_tenant());
    let webhooks = &world.webhooks;
    let id = endpoint.id;
    let recover = Recover {
        since: DateTime::UNIX_EPOCH,
        until: None,
        include_missing: true,
        after: None,
        dry_run: true,
    };
    let all = DeliveryFilter::default();
    let errors = [
        webhooks.show(&outsider, id).await.err(),
        webhooks.update(&outsider, id, EndpointChange::default()).await.err(),
        webhooks.enable(&outsider, id).await.err(),
        webhooks.disable(&outsider, id, None).await.err(),
        webhooks.delete(&outsider, id).await.err(),
        webhooks.rotate_secret(&outsider, id, None).await.err(),
        webhooks.test(&outsider, id, "book.lent").await.err(),
        webhooks.deliveries(&outsider, id, &all, None, 10).await.err(),
        webhooks.delivery(&outsider, id, delivery).await.err(),
        webhooks.redeliver(&outsider, id, delivery).await.err(),
        webhooks.recover(&outsider, id, recover).await.err(),
    ];
    for error in errors {
        let error = error.unwrap();
        assert!(matches!(error, WebhookError::Operation(OperationError::NotFound { .. })), "{error}");
    }
    assert_eq!(webhooks.list(&outsider, None).await.unwrap(), []);
    assert_eq!(world.endpoint(id).await, endpoint);
}

#[tokio::test(start_paused = true)]
async fn tenant_has_at_most_fifty_endpoints_also_if_they_are_created_at_once() {
    let world = World::new();
    let create =
        || async { world.webhooks.create(&operator(TENANT), None, to("https://a.example", &["*"])).await };
    let results = futures_util::future::join_all((0..60).map(|_| create())).await;
    assert_eq!(results.iter().filter(|it| it.is_ok()).count(), 50);
    assert!(
        results
            .iter()
            .flat_map(|it| it.as_ref().err())
            .all(|it| matches!(it, WebhookError::TooManyEndpoints))
    );
    // A deleted endpoint makes room.
    let first = world.webhooks.list(&operator(TENANT), None).await.unwrap()[0].id;
    world.webhooks.delete(&operator(TENANT), first).await.unwrap();
    create().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn invalid_values_are_refused_with_the_name_of_the_field() {
    let world = World::new();
    let valid = to("https://a.example", &["*"]);
    let headers = BTreeMap::from([("host".to_owned(), "x".to_owned())]);
    let cases = [
        ("url", to("ftp://a.example", &["*"])),
        ("eventTypes", to("https://a.example", &[])),
        ("eventTypes", to("https://a.example", &["book.lend"])),
        ("eventTypes", to("https://a.example", &["bo*"])),
        ("description", EndpointChange { description: Some(Some("x".repeat(201))), ..valid.clone() }),
        ("perSecond", EndpointChange { per_second: Some(Some(0)), ..valid.clone() }),
        ("maxInFlight", EndpointChange { max_in_flight: Some(65), ..valid.clone() }),
        ("headers", EndpointChange { headers: Some(headers), ..valid.clone() }),
        ("url", EndpointChange::default()),
    ];
    for (field, change) in cases {
        let error = world.webhooks.create(&operator(TENANT), None, change).await.unwrap_err();
        let WebhookError::Invalid(error) = error else { panic!("{error}") };
        assert_eq!(error.field, field, "{error}");
    }
    let unknown = world.webhooks.offer.check_pattern("book.lend").unwrap_err();
    assert_eq!(unknown.nearest.as_deref(), Some("book.lent"));
}

#[tokio::test(start_paused = true)]
async fn replaced_secret_stays_valid_for_the_overlap_and_at_most_ten_are_kept() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    let rotate = |hours| world.webhooks.rotate_secret(&ROTATOR, endpoint.id, Some(hours));
    let now = world.tx.now();
    let rotated = rotate(24).await.unwrap();
    assert_eq!(rotated.secret.shown, "whsec_canary");
    let until: Vec<_> = rotated.endpoint.secrets.iter().map(|secret| secret.valid_until).collect();
    assert_eq!(until, [None, Some(now + TimeDelta::hours(24))]);
    for _ in 0..8 {
        rotate(168).await.unwrap();
    }
    let error = rotate(168).await.unwrap_err();
    assert!(matches!(error, WebhookError::Invalid(InvalidEndpoint { field: "overlapHours", .. })), "{error}");
    // An overlap of 0 ends the current secret at once, and expired secrets are removed.
    world.tx.sleep(Duration::from_secs(169 * 3600)).await;
    assert_eq!(rotate(0).await.unwrap().endpoint.secrets.len(), 1);
    assert_eq!(world.webhooks.rotate_key(&ROTATOR).await.unwrap().changed, 1);
    assert_eq!(world.webhooks.rotate_key(&ROTATOR).await.unwrap(), RotatedKeys::default());
    let dump = format!("{:?} {:?}", world.endpoint(endpoint.id).await, world.store.rows());
    assert!(!dump.contains("canary"), "a secret is stored or shown in clear text");
}

#[tokio::test(start_paused = true)]
async fn deleted_endpoint_keeps_its_deliveries_without_secrets() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    let deleted = world.webhooks.delete(&operator(TENANT), endpoint.id).await.unwrap();
    assert_eq!((deleted.status, deleted.secrets.len()), (EndpointStatus::Deleted, 0));
    assert_eq!(world.webhooks.list(&operator(TENANT), None).await.unwrap(), []);
    assert_eq!(world.only_delivery(endpoint.id).await.state, DeliveryState::Cancelled);
    let again = world.webhooks.enable(&operator(TENANT), endpoint.id).await.unwrap_err();
    assert!(matches!(again, WebhookError::Operation(OperationError::NotFound { .. })), "{again}");
    assert_eq!(world.dispatch().await, 0);
}

#[tokio::test(start_paused = true)]
async fn many_deliveries_of_a_deleted_endpoint_are_cancelled_in_batches() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    for number in 0..1_010 {
        world.event(&format!("event-{number}"), number).await;
    }
    let pending = async || {
        let mut view = world.tx.view().await.unwrap();
        let filter = DeliveryFilter { state: Some(DeliveryState::Pending), ..DeliveryFilter::default() };
        view.outbox_view().webhook_deliveries_page(endpoint.key(), &filter, None, 2_000).await.unwrap().len()
    };
    world.webhooks.delete(&operator(TENANT), endpoint.id).await.unwrap();
    assert_eq!(pending().await, 510);
    world.dispatcher().start();
    eventually(async || pending().await == 0).await;
    assert_eq!(world.seen(), []);
    world.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn delivery_written_during_the_deletion_of_its_endpoint_is_cancelled_where_webhooks_are_sent() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.webhooks.delete(&operator(TENANT), endpoint.id).await.unwrap();
    // The consumer had read the endpoint before the deletion was committed.
    let late = NewWebhookDelivery {
        endpoint: endpoint.id,
        tenant: TENANT,
        event_id: "event-1".parse().unwrap(),
        redelivery: 0,
        event_type: "book.lent".to_owned(),
        order_key: "Book/5".to_owned(),
        body: "{}".to_owned(),
        body_form: BodyForm::Thin,
        dead_because: None,
        at: world.tx.now(),
    };
    let mut unit = world.store.begin().await.unwrap();
    assert_eq!(unit.outbox().insert_webhook_deliveries(&[late]).await.unwrap(), 1);
    unit.commit().await.unwrap();
    assert_eq!(world.only_delivery(endpoint.id).await.state, DeliveryState::Pending);
    world.dispatcher().start();
    eventually(async || world.only_delivery(endpoint.id).await.state == DeliveryState::Cancelled).await;
    assert_eq!(world.seen(), []);
    world.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn list_searches_limited_number_of_deliveries_per_page_if_event_type_is_rare() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    let deliveries = (1..=MANY).map(|n| NewWebhookDelivery {
        endpoint: endpoint.id,
        tenant: endpoint.tenant,
        event_type: if n <= 2 { "book.lost" } else { "book.lent" }.to_owned(),
        ..delivery(1, &format!("e-{n}"))
    });
    let mut unit = world.tx.begin().await.unwrap();
    unit.outbox().insert_webhook_deliveries(&deliveries.collect::<Vec<_>>()).await.unwrap();
    unit.commit().await.unwrap();
    let list = async |filter: DeliveryFilter, cursor| {
        world.webhooks.deliveries(&operator(TENANT), endpoint.id, &filter, cursor, 10).await.unwrap()
    };
    for state in [None, Some(DeliveryState::Pending)] {
        let lost =
            DeliveryFilter { event_type: Some("book.lost".to_owned()), state, ..DeliveryFilter::default() };
        assert_eq!(rows_per_page(async |cursor| list(lost.clone(), cursor).await).await, [0, 2]);
    }
    let cancelled = DeliveryFilter { state: Some(DeliveryState::Cancelled), ..DeliveryFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(cancelled.clone(), cursor).await).await, [0, 0]);
    let dead = DeliveryFilter { state: Some(DeliveryState::Dead), ..DeliveryFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(dead.clone(), cursor).await).await, [0]);
}
