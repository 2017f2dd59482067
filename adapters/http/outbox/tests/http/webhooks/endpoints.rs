//! Endpoints: create, list, show, change, disable, enable, delete.

use serde_json::{Value, json};

use super::fixture::{CANARY, Library, endpoint};

#[tokio::test(start_paused = true)]
async fn endpoint_is_created_with_defaults_and_shown() {
    let library = Library::new();
    let created = library.call("POST", "/webhooks").body(&endpoint()).expect(201).await;
    let id = created["endpointId"].as_str().unwrap();
    let shown = library.call("GET", &format!("/webhooks/{id}")).expect(200).await;
    let expected = json!({
        "endpointId": id,
        "tenantId": 1,
        "url": "https://erp.example/hooks",
        "description": null,
        "eventTypes": ["book.lent"],
        "ordered": false,
        "full": false,
        "unmasked": false,
        "asymmetric": false,
        "perSecond": null,
        "maxInFlight": 2,
        "headerNames": [],
        "secrets": [{ "publicKey": "whpk_1", "validUntil": null }],
        "publicKeys": [],
        "status": "ENABLED",
        "disabledReason": null,
        "health": {
            "failingSince": null,
            "failures": 0,
            "lastSuccess": null,
            "pausedUntil": null,
            "successRate24h": null,
            "hasPending": false,
        },
        "createTime": "2026-01-31T08:00:00.000000Z",
        "updateTime": "2026-01-31T08:00:00.000000Z",
    });
    assert_eq!(shown, expected);
    let page = library.call("GET", "/webhooks").expect(200).await;
    assert_eq!((&page["items"][0]["endpointId"], &page["nextCursor"]), (&json!(id), &Value::Null));
    assert_eq!(page["items"][0]["health"]["hasPending"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn every_field_can_be_set_and_changed_and_null_removes_what_can_be_absent() {
    let library = Library::new();
    let body = json!({
        "url": "https://a.example",
        "eventTypes": ["book.*", "book.lost"],
        "description": "accounting",
        "ordered": true,
        "full": true,
        "asymmetric": true,
        "perSecond": 10,
        "maxInFlight": 4,
        "headers": { "X-Api-Key": CANARY, "x-shop": "1" },
    });
    let created = library.call("POST", "/webhooks").body(&body).expect(201).await;
    for name in
        ["url", "eventTypes", "description", "ordered", "full", "asymmetric", "perSecond", "maxInFlight"]
    {
        assert_eq!(created[name], body[name], "{name}");
    }
    assert_eq!(created["headerNames"], json!(["x-api-key", "x-shop"]));
    assert_eq!(created["publicKeys"], json!(["whpk_1"]));
    let path = format!("/webhooks/{}", created["endpointId"].as_str().unwrap());
    let change = |body: Value| library.call("PATCH", &path).body(&body).expect(200);
    // Absent fields are kept.
    let kept = change(json!({ "url": "https://b.example" })).await;
    let mut expected = created.clone();
    expected.as_object_mut().unwrap().remove("secret");
    expected["url"] = json!("https://b.example");
    assert_eq!(kept, expected);
    // Null removes three of them, and keeps the others.
    let nulls = json!({ "url": null, "eventTypes": null, "ordered": null, "maxInFlight": null, "description": null,
        "perSecond": null, "headers": null });
    let changed = change(nulls).await;
    for name in ["description", "perSecond"] {
        expected[name] = Value::Null;
    }
    expected["headerNames"] = json!([]);
    assert_eq!(changed, expected);
    let changed = change(json!({ "full": false, "ordered": false, "asymmetric": false, "maxInFlight": 1,
        "eventTypes": ["*"], "description": "b", "perSecond": 1, "headers": { "x-a": "1" } }))
    .await;
    assert_eq!(
        (&changed["full"], &changed["ordered"], &changed["asymmetric"]),
        (&json!(false), &json!(false), &json!(false))
    );
    assert_eq!((&changed["eventTypes"], &changed["headerNames"]), (&json!(["*"]), &json!(["x-a"])));
    assert_eq!(library.call("GET", &path).expect(200).await["perSecond"], json!(1));
}

#[tokio::test(start_paused = true)]
async fn endpoint_is_disabled_enabled_and_deleted_and_every_change_is_audited() {
    let library = Library::new();
    let id = library.endpoint().await;
    let path = |end: &str| format!("/webhooks/{id}{end}");
    let disabled =
        library.call("POST", &path("/disable")).body(&json!({ "reason": "moving" })).expect(200).await;
    assert_eq!((&disabled["status"], &disabled["disabledReason"]), (&json!("DISABLED"), &json!("moving")));
    let enabled = library.call("POST", &path("/enable")).expect(200).await;
    assert_eq!((&enabled["status"], &enabled["disabledReason"]), (&json!("ENABLED"), &Value::Null));
    let disabled = library.call("POST", &path("/disable")).expect(200).await;
    assert_eq!(disabled["disabledReason"], json!("disabled by an operator"));
    library.call("PATCH", &path("")).body(&json!({ "perSecond": 5 })).expect(200).await;
    library.call("POST", &path("/rotate-secret")).expect(200).await;
    library.call("POST", &path("/test")).body(&json!({ "type": "book.lent" })).expect(202).await;
    let deleted = library.call("DELETE", &path("")).expect(200).await;
    assert_eq!((&deleted["status"], &deleted["secrets"]), (&json!("DELETED"), &json!([])));
    assert_eq!(library.call("GET", "/webhooks").expect(200).await["items"], json!([]));
    // Its deliveries can still be read, but nothing else can be done.
    assert_eq!(library.call("GET", &path("")).expect(200).await["status"], json!("DELETED"));
    let deliveries = library.call("GET", &path("/deliveries")).expect(200).await;
    assert_eq!(deliveries["items"][0]["state"], json!("CANCELLED"));
    for end in ["/enable", "/disable", "/rotate-secret"] {
        library.call("POST", &path(end)).expect(404).await;
    }
    library.call("DELETE", &path("")).expect(404).await;
    let names = ["create", "disable", "enable", "disable", "update", "rotate-secret", "test", "delete"];
    assert_eq!(library.audited_changes().await, names.map(|name| format!("webhooks.{name}")));
}

#[tokio::test(start_paused = true)]
async fn invalid_values_are_refused_with_the_name_of_their_field() {
    let library = Library::new();
    let id = library.endpoint().await;
    let path = format!("/webhooks/{id}");
    let long = "x".repeat(2_049);
    let many: Vec<String> = (0..65).map(|_| "*".to_owned()).collect();
    let headers: serde_json::Map<String, Value> = (0..17).map(|n| (format!("x-{n}"), json!("1"))).collect();
    // Whether an object of serde_json keeps its order depends on the features of the build.
    let twice = json!({ "x-a": "1", "X-A": "2" });
    let second = format!("headers.{}", twice.as_object().unwrap().keys().next_back().unwrap());
    let changes = [
        (json!({ "url": "http://a.example" }), "url"),
        (json!({ "url": format!("https://{long}") }), "url"),
        (json!({ "url": 1 }), "url"),
        (json!({ "eventTypes": [] }), "eventTypes"),
        (json!({ "eventTypes": many }), "eventTypes"),
        (json!({ "eventTypes": "book.lent" }), "eventTypes"),
        (json!({ "eventTypes": ["book.len"] }), "eventTypes"),
        (json!({ "eventTypes": ["book*"] }), "eventTypes"),
        (json!({ "description": "x".repeat(201) }), "description"),
        (json!({ "description": "" }), "description"),
        (json!({ "perSecond": 0 }), "perSecond"),
        (json!({ "perSecond": 10_001 }), "perSecond"),
        (json!({ "maxInFlight": 0 }), "maxInFlight"),
        (json!({ "maxInFlight": 65 }), "maxInFlight"),
        (json!({ "ordered": "yes" }), "ordered"),
        (json!({ "full": true, "unmasked": true }), "unmasked"),
        (json!({ "full": false, "unmasked": true }), "unmasked"),
        (json!({ "headers": [] }), "headers"),
        (json!({ "headers": { "host": "b.example" } }), "headers"),
        (json!({ "headers": { "x-a": 1 } }), "headers.x-a"),
        (json!({ "headers": twice }), second.as_str()),
        (json!({ "headers": headers }), "headers"),
        (json!({ "secret": "whsec_x" }), "secret"),
        (json!({ "status": "DISABLED" }), "status"),
    ];
    for (change, field) in changes {
        assert_eq!(library.call("PATCH", &path).body(&change).wrong_fields().await, [field], "{change}");
        let mut create = endpoint();
        create.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert_eq!(library.call("POST", "/webhooks").body(&create).wrong_fields().await, [field], "{create}");
    }
    let missing = library.call("POST", "/webhooks").body(&json!({})).wrong_fields().await;
    assert_eq!(missing, ["url", "eventTypes"]);
    let alone = library.call("PATCH", &path).body(&json!({ "unmasked": false })).wrong_fields().await;
    assert_eq!(alone, ["unmasked"], "it does not say whether the whole payload is sent");
    for (end, body, field) in [
        ("/rotate-secret", json!({ "overlapHours": 169 }), "overlapHours"),
        ("/rotate-secret", json!({ "overlapHours": -1 }), "overlapHours"),
        ("/disable", json!({ "reason": " " }), "reason"),
        ("/test", json!({}), "type"),
        ("/test", json!({ "type": "book.*" }), "type"),
        ("/test", json!({ "type": "book.stolen" }), "type"),
        ("/recover", json!({ "dryRun": true }), "since"),
        ("/recover", json!({ "since": "2026-01-31T08:00:00Z", "until": "2026-01-31T08:00:00Z" }), "since"),
        ("/recover", json!({ "since": "2027-01-01T00:00:00Z" }), "since"),
        ("/enable", json!({ "force": true }), "force"),
    ] {
        let path = format!("{path}{end}");
        assert_eq!(library.call("POST", &path).body(&body).wrong_fields().await, [field], "{end} {body}");
    }
    for query in ["state=LOST", "status=99", "from=now", "cursor=0", "limit=101", "order=asc"] {
        let path = format!("{path}/deliveries?{query}");
        let field = query.split('=').next().unwrap();
        assert_eq!(library.call("GET", &path).wrong_fields().await, [field], "{query}");
    }
    assert_eq!(library.audited_changes().await, ["webhooks.create"], "nothing was changed");
}

#[tokio::test(start_paused = true)]
async fn pattern_without_event_type_is_refused_with_the_nearest_type_in_both_languages() {
    let library = Library::new();
    let body = json!({ "url": "https://a.example", "eventTypes": ["book.lend"] });
    let (_, refused) = library.call("POST", "/webhooks").body(&body).send().await;
    let message = refused["data"]["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains(r#"did you mean "book.lent"?"#), "{message}");
    let (_, refused) = library.call("POST", "/webhooks").body(&body).in_chinese().send().await;
    let message = refused["data"]["errors"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("无效") && message.contains("book.lent"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn tenant_has_at_most_50_endpoints() {
    let library = Library::new();
    let mut last = String::new();
    for _ in 0..50 {
        last = library.endpoint().await;
    }
    let create = || library.call("POST", "/webhooks").body(&endpoint());
    let (status, refused) = create().send().await;
    assert_eq!((status, &refused["code"]), (409, &json!("A0605")), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("50"), "{refused}");
    let (_, refused) = create().in_chinese().send().await;
    assert!(refused["message"].as_str().unwrap().contains("已达上限 50 个"), "{refused}");
    // Another tenant has its own quota, and a deleted endpoint does not count.
    create().by("bob").expect(201).await;
    library.call("DELETE", &format!("/webhooks/{last}")).expect(200).await;
    create().expect(201).await;
}

#[tokio::test(start_paused = true)]
async fn event_types_are_listed_with_schema_and_example_of_the_body() {
    let library = Library::new();
    let page = library.call("GET", "/webhooks/event-types").expect(200).await;
    let names: Vec<&str> =
        page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["book.lent", "book.lost"]);
    let lent = &page["items"][0];
    assert_eq!(lent["summary"], json!("A book was lent."));
    assert_eq!(lent["example"]["type"], json!("book.lent"));
    assert_eq!(lent["example"]["data"]["copies"], json!(1));
    assert_eq!(lent["example"]["data"].get("reader"), None, "the example is a thin body");
    let data = &lent["schema"]["properties"]["data"];
    assert_eq!(data["required"], json!(["tenantId", "eventId", "aggregateType", "aggregateId", "copies"]));
    assert_eq!(data["properties"]["reader"], json!({ "type": "string" }));
}
