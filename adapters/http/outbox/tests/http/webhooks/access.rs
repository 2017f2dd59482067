//! Who may call the routes of webhooks.

use axum::http::Method;
use handover_http::openapi::operations;
use handover_http::routes;
use handover_http::{OperatorRoutes, OperatorState, operator_router};
use serde_json::{Value, json};

use super::fixture::{Library, NOWHERE, endpoint, outbox};

/// Method, path and valid body of every route of an endpoint.
fn routes_of(endpoint: &str, delivery: i64) -> Vec<(String, String, Option<Value>)> {
    let mut described = routes::webhooks::<()>().into_openapi();
    let mut found = Vec::new();
    for (path, item) in &mut described.paths.paths {
        for (method, operation) in operations(item) {
            let body = match (operation.operation_id.as_deref().unwrap(), &method) {
                ("createWebhook", _) => Some(self::endpoint()),
                ("testWebhook", _) => Some(json!({ "type": "book.lent" })),
                ("recoverWebhook", _) => Some(json!({ "since": "2026-01-01T00:00:00Z" })),
                ("changeWebhook", _) => Some(json!({ "url": "https://evil.example" })),
                (_, &Method::POST) => Some(json!({})),
                _ => None,
            };
            let path = path.replace("{id}", endpoint).replace("{deliveryId}", &delivery.to_string());
            found.push((method.to_string(), path, body));
        }
    }
    assert_eq!(found.len(), 14);
    found
}

async fn status(
    library: &Library,
    staff: Option<&str>,
    route: &(String, String, Option<Value>),
) -> (u16, Value) {
    let (method, path, body) = route;
    let call = library.call(method, path);
    let call = match body {
        Some(body) => call.body(body),
        None => call,
    };
    match staff {
        Some(staff) => call.by(staff).send().await,
        None => call.by_nobody().send().await,
    }
}

/// An endpoint with one delivery.
async fn endpoint_with_delivery(library: &Library) -> (String, i64) {
    let id = library.endpoint().await;
    let path = format!("/webhooks/{id}/test");
    let delivery = library.call("POST", &path).body(&json!({ "type": "book.lent" })).expect(202).await;
    (id, delivery["deliveryId"].as_i64().unwrap())
}

#[tokio::test(start_paused = true)]
async fn every_route_requires_an_operator() {
    let library = Library::new();
    let (id, delivery) = endpoint_with_delivery(&library).await;
    for route in routes_of(&id, delivery) {
        for (staff, expected, code) in [(None, 401, "A0301"), (Some("guest"), 403, "A0303")] {
            let (actual, body) = status(&library, staff, &route).await;
            assert_eq!((actual, &body["code"]), (expected, &json!(code)), "{route:?}");
        }
    }
    assert_eq!(library.audited_changes().await, ["webhooks.create", "webhooks.test"]);
}

#[tokio::test(start_paused = true)]
async fn endpoint_of_another_tenant_is_not_found_on_every_route() {
    let library = Library::new();
    let (id, delivery) = endpoint_with_delivery(&library).await;
    let before = library.call("GET", &format!("/webhooks/{id}")).expect(200).await;
    let of_endpoint = |route: &(String, String, Option<Value>)| route.1.contains(&id);
    let routes: Vec<_> = routes_of(&id, delivery).into_iter().filter(of_endpoint).collect();
    assert_eq!(routes.len(), 11);
    for route in routes {
        let (actual, refused) = status(&library, Some("bob"), &route).await;
        assert_eq!((actual, &refused["code"]), (404, &json!("A0404")), "{route:?}");
        // The response is the same as for an endpoint that does not exist.
        let (method, path, body) = &route;
        let unknown = (method.clone(), path.replace(&id, NOWHERE), body.clone());
        let (_, other) = status(&library, Some("bob"), &unknown).await;
        assert_eq!(refused["message"], other["message"], "{route:?}");
    }
    assert_eq!(library.call("GET", "/webhooks").by("bob").expect(200).await["items"], json!([]));
    assert_eq!(library.call("GET", &format!("/webhooks/{id}")).expect(200).await, before);
    // A delivery is found only under its own endpoint.
    let other = library.endpoint().await;
    library.call("GET", &format!("/webhooks/{other}/deliveries/{delivery}")).expect(404).await;
    library.call("POST", &format!("/webhooks/{other}/deliveries/{delivery}/redeliver")).expect(404).await;
}

#[tokio::test(start_paused = true)]
async fn operator_of_all_tenants_selects_a_tenant() {
    let library = Library::new();
    let mut body = endpoint();
    body["tenantId"] = json!(2);
    library.call("POST", "/webhooks").body(&body).expect(404).await;
    let created = library.call("POST", "/webhooks").by("root").body(&body).expect(201).await;
    assert_eq!(created["tenantId"], json!(2));
    for (staff, path, count) in [
        ("root", "/webhooks?tenantId=2", 1),
        ("root", "/webhooks", 0),
        ("bob", "/webhooks", 1),
        ("bob", "/webhooks?tenantId=2", 1),
        ("ada", "/webhooks", 0),
    ] {
        let page = library.call("GET", path).by(staff).expect(200).await;
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{staff} {path}");
    }
    library.call("GET", "/webhooks?tenantId=2").expect(404).await;
    let path = format!("/webhooks/{}", created["endpointId"].as_str().unwrap());
    library.call("GET", &path).by("root").expect(200).await;
    library.call("DELETE", &path).by("root").expect(200).await;
}

#[tokio::test(start_paused = true)]
async fn id_in_another_form_is_not_found() {
    let library = Library::new();
    let id = library.endpoint().await;
    for id in [id.to_uppercase(), id.replace('-', ""), format!("{{{id}}}"), "1".to_owned()] {
        library
            .call("GET", &format!("/webhooks/{}", id.replace('{', "%7B").replace('}', "%7D")))
            .expect(404)
            .await;
    }
    library.call("GET", &format!("/webhooks/{id}/deliveries/01")).expect(404).await;
    library.call("PUT", &format!("/webhooks/{id}")).body(&endpoint()).expect(405).await;
}

#[tokio::test(start_paused = true)]
async fn application_without_webhooks_has_none_of_their_routes() {
    let described = OperatorRoutes::<()>::default().into_openapi();
    assert!(described.paths.paths.keys().all(|path| !path.contains("webhooks")));
    let library = Library::new();
    let guard = |_: &axum::http::request::Parts, _: handover_events::Trace| unreachable!();
    let router = operator_router(OperatorState::new(outbox(), guard));
    let library = Library { router, ..library };
    let request = axum::http::Request::get("/webhooks").body(axum::body::Body::empty()).unwrap();
    let response = tower::ServiceExt::oneshot(library.router.clone(), request).await.unwrap();
    assert_eq!(response.status(), 404);
}
