//! Times of attempts, pauses, disabling, and claims.

use super::*;

#[tokio::test(start_paused = true)]
async fn failed_delivery_follows_the_schedule_with_the_same_body_and_ends_dead() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    let observer = world.create(to("https://b.example", &["webhook.*"])).await;
    world.event("event-1", 5).await;
    world.replies(std::iter::repeat_n(Reply::Status(500), 10));
    assert_eq!(world.dispatch().await, 1);
    let scheduled = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
    for (failed, seconds) in scheduled.into_iter().enumerate() {
        let delivery = world.only_delivery(endpoint.id).await;
        assert_eq!(delivery.attempts as usize, failed + 1);
        let delay = (delivery.due_time - world.tx.now()).num_milliseconds();
        assert!((seconds * 800..=seconds * 1200).contains(&delay), "{delay} ms after failure {}", failed + 1);
        world.next_attempt(endpoint.id).await;
    }
    let delivery = world.only_delivery(endpoint.id).await;
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Dead, 10));
    let seen = world.seen();
    assert_eq!(seen.len(), 10);
    assert!(seen.iter().all(|one| one.body == seen[0].body && one.message_id == "event-1"));
    let attempts = world.attempts(&delivery).await;
    assert_eq!(attempts.len(), 10);
    assert!(attempts.iter().all(|attempt| attempt.status == Some(500)));
    assert_eq!(attempts[0].response.as_deref(), Some("***"), "responses may contain personal data");
    // The event about it reaches the other endpoints of the tenant.
    assert_eq!(world.outbox_types().await, ["WEBHOOK_DELIVERY_DEAD"]);
    world.apply(world.latest_event().await.event_id.as_str()).await;
    assert_eq!(world.dispatch().await, 1);
    assert_eq!(world.only_delivery(observer.id).await.event_type, "webhook.delivery.dead");
    assert_eq!(world.deliveries(endpoint.id).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn receiver_can_ask_for_a_later_attempt_and_for_a_pause_of_the_endpoint() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    let now = world.tx.now();
    world.replies([Reply::RetryAfter(503, "600".to_owned())]);
    world.dispatch().await;
    assert_eq!(world.only_delivery(endpoint.id).await.due_time, now + minutes(10));
    assert_eq!(world.endpoint(endpoint.id).await.health.paused_until, Some(now + minutes(10)));
    // Another event waits for the end of the pause.
    world.event("event-2", 6).await;
    assert_eq!(world.dispatch().await, 0);
    world.tx.sleep(Duration::from_secs(600)).await;
    assert_eq!(world.dispatch().await, 1, "a failing endpoint gets one request at a time");
    assert_eq!(world.dispatch().await, 1);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_a_date_or_seconds_and_at_most_a_day() {
    for (header, expected) in [
        ("Wed, 04 Feb 2026 12:30:00 GMT", minutes(120)),
        ("Wednesday, 04-Feb-26 12:30:00 GMT", minutes(120)),
        ("Wed Feb  4 12:30:00 2026", minutes(120)),
        ("999999999", minutes(24 * 60)),
        ("99999999999999999999", minutes(24 * 60)),
        ("1", minutes(1)),
        ("soon", minutes(1)),
        ("Wed, 04 Feb 2015 12:30:00 GMT", minutes(1)),
    ] {
        let world = World::new();
        let endpoint = world.create(to("https://a.example", &["*"])).await;
        world.event("event-1", 5).await;
        let now = world.tx.now();
        world.replies([Reply::RetryAfter(429, header.to_owned())]);
        world.dispatch().await;
        let paused = world.endpoint(endpoint.id).await.health.paused_until;
        assert_eq!(paused, Some(now + expected), "{header}");
    }
}

#[tokio::test(start_paused = true)]
async fn gone_endpoint_is_disabled_and_its_deliveries_wait_until_it_is_enabled() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.replies([Reply::Status(410)]);
    world.dispatch().await;
    let disabled = world.endpoint(endpoint.id).await;
    assert_eq!(disabled.status, EndpointStatus::Disabled);
    assert_eq!(disabled.disabled_reason.as_deref(), Some("the receiver answered 410 Gone"));
    assert_eq!(world.outbox_types().await, ["WEBHOOK_ENDPOINT_DISABLED"]);
    world.event("event-2", 6).await;
    world.tx.sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.dispatch().await, 0);
    assert!(world.deliveries(endpoint.id).await.iter().all(|it| it.state == DeliveryState::Pending));
    let enabled = world.webhooks.enable(&operator(TENANT), endpoint.id).await.unwrap();
    assert_eq!((enabled.status, enabled.health.failing_since), (EndpointStatus::Enabled, None));
    assert_eq!(world.dispatch().await, 2);
    let mut view = world.tx.view().await.unwrap();
    let audit = view.outbox_view().audit_page(&AuditFilter::default(), None, 100).await.unwrap();
    assert!(
        audit
            .iter()
            .any(|it| it.effect.actor == "webhook-dispatcher" && it.effect.action == "webhooks.disable")
    );
}

#[tokio::test(start_paused = true)]
async fn endpoint_that_fails_for_five_days_is_disabled() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    world.replies(std::iter::repeat_n(Reply::Status(500), 30));
    let mut days = 0;
    while world.endpoint(endpoint.id).await.status == EndpointStatus::Enabled {
        world.event(&format!("event-{days}"), days).await;
        world.dispatch().await;
        world.tx.sleep(Duration::from_secs(24 * 3600)).await;
        days += 1;
        assert!(days < 20, "the endpoint is still enabled");
    }
    assert_eq!(days, 6, "the sixth attempt is five days after the first");
    // Enabling resets the clock: one more failure does not disable it again.
    world.webhooks.enable(&operator(TENANT), endpoint.id).await.unwrap();
    world.dispatch().await;
    assert_eq!(world.endpoint(endpoint.id).await.status, EndpointStatus::Enabled);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_the_end_of_the_process_interrupts_is_not_counted() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.replies([Reply::Hang]);
    world.dispatcher().start();
    eventually(async || !world.receiver.seen.lock().unwrap().is_empty()).await;
    let began_at = world.receiver.seen.lock().unwrap()[0].at;
    world.tx.tasks().stop().await;
    let next = World::on(world.store.clone(), restarted(&world));
    let delivery = next.only_delivery(endpoint.id).await;
    assert_eq!((delivery.state, delivery.attempts, delivery.claims), (DeliveryState::Pending, 0, 0));
    assert_eq!(delivery.claim, None);
    let attempts = next.attempts(&delivery).await;
    assert_eq!(attempts.iter().map(|it| it.outcome).collect::<Vec<_>>(), [AttemptOutcome::Interrupted]);
    assert_eq!(attempts[0].at, began_at, "the begin of the attempt, not its end");
    assert!(attempts[0].duration_ms >= 5_000, "{attempts:?}");
    assert_eq!(next.endpoint(endpoint.id).await.health, EndpointHealth::default());
    assert_eq!(next.dispatch().await, 1, "the delivery is due at once");
}

#[tokio::test(start_paused = true)]
async fn delivery_whose_claims_end_without_a_result_is_dead_after_five() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    for number in 1..=5 {
        let claim = WebhookClaim {
            id: ClaimId(format!("claim-{number}")),
            now: world.tx.now(),
            until: world.tx.now() + minutes(1),
            limit: 10,
            capacity: WebhookCapacity::new(10, &BTreeMap::new()),
            is_repeated: false,
        };
        // The process ends before it records a result.
        let claimed = with_tx(&world.tx, claim, |unit, claim, _| {
            Box::pin(async move { unit.outbox().claim_webhook_deliveries(claim).await })
        });
        assert_eq!(claimed.await.unwrap().len(), 1, "claim {number}");
        world.tx.sleep(Duration::from_secs(61)).await;
    }
    assert_eq!(world.dispatch().await, 1);
    assert_eq!(world.seen(), [], "nothing is sent");
    let delivery = world.only_delivery(endpoint.id).await;
    assert_eq!(delivery.state, DeliveryState::Dead);
    assert_eq!(delivery.last_error.as_deref(), Some("5 attempts ended without a result"));
}

#[tokio::test(start_paused = true)]
async fn limit_per_second_holds_for_two_dispatchers_together() {
    let world = World::new();
    let limited = EndpointChange {
        per_second: Some(Some(5)),
        max_in_flight: Some(64),
        ..to("https://a.example", &["book.lent"])
    };
    world.create(limited).await;
    for number in 0..40 {
        world.event(&format!("event-{number}"), number).await;
    }
    let other = World::on(world.store.clone(), world.tx.clone());
    for _ in 0..20 {
        tokio::join!(world.dispatch(), other.dispatch());
        world.tx.sleep(Duration::from_millis(200)).await;
    }
    let mut times: Vec<DateTime<Utc>> =
        world.seen().into_iter().chain(other.seen()).map(|it| it.at).collect();
    times.sort_unstable();
    // 4 seconds: a burst of one second, and 5 per second.
    assert!((20..=25).contains(&times.len()), "{} attempts in 4 s", times.len());
    for window in times.windows(11) {
        assert!(window[10] - window[0] >= TimeDelta::seconds(1), "more than 10 attempts in a second");
    }
}
