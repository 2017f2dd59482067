//! Deliveries: list, show, test, redeliver, recover, masking.

use serde_json::{Value, json};

use super::fixture::{Library, endpoint};

async fn test(library: &Library, endpoint: &str) -> Value {
    let path = format!("/webhooks/{endpoint}/test");
    library.call("POST", &path).body(&json!({ "type": "book.lent" })).expect(202).await
}

async fn deliveries(library: &Library, endpoint: &str, query: &str) -> Vec<i64> {
    let page = library.call("GET", &format!("/webhooks/{endpoint}/deliveries{query}")).expect(200).await;
    page["items"].as_array().unwrap().iter().map(|item| item["deliveryId"].as_i64().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn delivery_is_shown_with_its_attempts() {
    let library = Library::new();
    let id = library.endpoint().await;
    let sent = test(&library, &id).await;
    let delivery = sent["deliveryId"].as_i64().unwrap();
    assert_eq!(
        (&sent["state"], &sent["body"], &sent["attempts"]),
        (&json!("PENDING"), &Value::Null, &Value::Null)
    );
    assert_eq!(
        library.call("GET", &format!("/webhooks/{id}")).expect(200).await["health"]["hasPending"],
        json!(true)
    );
    library.receiver.statuses.lock().unwrap().push_back(500);
    assert_eq!(library.dispatch().await, 1);
    let path = format!("/webhooks/{id}/deliveries/{delivery}");
    let shown = library.call("GET", &path).expect(200).await;
    let body = &shown["body"];
    assert_eq!((&body["type"], &body["data"]["copies"]), (&json!("book.lent"), &json!(1)));
    assert_eq!(body["data"].get("reader"), None, "the body is thin");
    let attempt = json!({
        "time": "2026-01-31T08:00:00.000000Z", "durationMs": 0, "outcome": "FAILED", "status": 500,
        "error": "HTTP 500", "response": "***",
    });
    let attempts = shown["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1);
    for name in ["time", "durationMs", "outcome", "status", "response"] {
        assert_eq!(attempts[0][name], attempt[name], "{name}");
    }
    assert_eq!((&shown["failedAttempts"], &shown["lastStatus"]), (&json!(1), &json!(500)));
    let trusted = library.call("GET", &path).by("pia").expect(200).await;
    assert_eq!(trusted["attempts"][0]["response"], json!("signed by Ada"));
    let health = library.call("GET", &format!("/webhooks/{id}")).expect(200).await["health"].take();
    assert_eq!((&health["successRate24h"], &health["failures"]), (&json!(0.0), &json!(1)));
    assert_eq!(health["failingSince"], json!("2026-01-31T08:00:00.000000Z"));
}

#[tokio::test(start_paused = true)]
async fn deliveries_are_filtered_and_paged() {
    let library = Library::new();
    let id = library.endpoint().await;
    let mut all = Vec::new();
    for status in [200, 500, 200] {
        all.insert(0, test(&library, &id).await["deliveryId"].as_i64().unwrap());
        library.receiver.statuses.lock().unwrap().push_back(status);
        library.dispatch().await;
    }
    library.dead_delivery(&id, "event-1").await;
    let dead = deliveries(&library, &id, "?state=DEAD").await;
    assert_eq!(dead.len(), 1);
    assert_eq!(deliveries(&library, &id, "?type=book.lost").await, dead);
    assert_eq!(deliveries(&library, &id, "?type=book.lent").await, all);
    assert_eq!(deliveries(&library, &id, "?status=500").await, [all[1]]);
    assert_eq!(deliveries(&library, &id, "?state=DELIVERED&status=200").await, [all[0], all[2]]);
    assert_eq!(deliveries(&library, &id, "?from=2026-01-31T08:00:01Z").await, [0_i64; 0]);
    assert_eq!(deliveries(&library, &id, "?to=2026-01-31T08:00:00Z").await, [0_i64; 0]);
    assert_eq!(
        deliveries(&library, &id, "?from=2026-01-31T08:00:00Z&to=2026-01-31T08:00:01Z").await.len(),
        4
    );
    let first = library.call("GET", &format!("/webhooks/{id}/deliveries?limit=3")).expect(200).await;
    let cursor = first["nextCursor"].as_str().unwrap();
    assert_eq!(deliveries(&library, &id, &format!("?limit=3&cursor={cursor}")).await, [all[2]]);
    let health = library.call("GET", &format!("/webhooks/{id}")).expect(200).await["health"].take();
    assert_eq!(health["successRate24h"], json!(0.6666));
}

#[tokio::test(start_paused = true)]
async fn delivery_is_sent_again_as_a_delivery_of_its_own() {
    let library = Library::new();
    let id = library.endpoint().await;
    let first = test(&library, &id).await;
    library.dispatch().await;
    let path = format!("/webhooks/{id}/deliveries/{}/redeliver", first["deliveryId"]);
    let again = library.call("POST", &path).expect(202).await;
    assert_eq!((&again["eventId"], &again["redelivery"]), (&first["eventId"], &json!(1)));
    assert_ne!(again["deliveryId"], first["deliveryId"]);
    assert_eq!(library.call("POST", &path).expect(202).await["redelivery"], json!(2));
    assert_eq!(library.dispatch().await, 2);
}

#[tokio::test(start_paused = true)]
async fn dead_deliveries_of_a_period_are_sent_again_after_a_dry_run() {
    let library = Library::new();
    let id = library.endpoint().await;
    for event in ["event-1", "event-2"] {
        library.dead_delivery(&id, event).await;
    }
    library.tx.sleep(std::time::Duration::from_secs(1)).await;
    let path = format!("/webhooks/{id}/recover");
    let recover = |body: Value| library.call("POST", &path).body(&body).expect(200);
    let since = "2026-01-31T07:00:00Z";
    let expected = |dry_run: bool, resent: u32| json!({ "dryRun": dry_run, "resent": resent, "created": 0, "more": false, "nextCursor": null });
    let dry = recover(json!({ "since": since, "includeMissing": true, "dryRun": true })).await;
    assert_eq!(dry, expected(true, 2));
    assert_eq!(deliveries(&library, &id, "?state=DEAD").await.len(), 2);
    let before = json!({ "since": since, "until": "2026-01-31T08:00:00Z" });
    assert_eq!(recover(before).await, expected(false, 0));
    assert_eq!(recover(json!({ "since": since })).await, expected(false, 2));
    assert_eq!(deliveries(&library, &id, "?state=PENDING").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn only_operators_who_may_see_personal_data_create_and_redirect_unmasked_endpoints() {
    let library = Library::new();
    let mut body = endpoint();
    body["unmasked"] = json!(true);
    assert_eq!(library.call("POST", "/webhooks").body(&body).wrong_fields().await, ["unmasked"]);
    let created = library.call("POST", "/webhooks").by("pia").body(&body).expect(201).await;
    assert_eq!((&created["full"], &created["unmasked"]), (&json!(true), &json!(true)));
    let id = created["endpointId"].as_str().unwrap();
    let path = format!("/webhooks/{id}");
    for (field, value) in [
        ("url", json!("https://evil.example")),
        ("eventTypes", json!(["*"])),
        ("headers", json!({ "x-a": "1" })),
        ("headers", Value::Null),
    ] {
        let change = json!({ field: value });
        assert_eq!(library.call("PATCH", &path).body(&change).wrong_fields().await, [field], "{change}");
        library.call("PATCH", &path).by("pia").body(&change).expect(200).await;
    }
    let delivery = test(&library, id).await["deliveryId"].as_i64().unwrap();
    let path = format!("/webhooks/{id}/deliveries/{delivery}");
    assert_eq!(library.call("GET", &path).expect(200).await["body"], json!("***"));
    let shown = library.call("GET", &path).by("pia").expect(200).await;
    assert_eq!(shown["body"]["data"]["reader"], json!("Ada"));
}
