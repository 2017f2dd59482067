//! Compares the routes with the OpenAPI document: paths, methods, parameters and fields.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use marketplace::Role;
use serde_json::{Map, Value, json};

use crate::client::{ApiResponse, Request};
use crate::openapi::{DOCUMENT, Operation, generated_document};
use crate::world::{BUYER, Setup, World};

/// Paths of the documentation page, which are not part of the document.
const PAGE: [&str; 3] = ["/docs", "/docs/", "/docs/{*rest}"];

/// The id of no webhook endpoint.
const NO_WEBHOOK: &str = "0192f0c1-0000-7000-8000-0000000000ff";

/// The paths of a router. axum exposes them only in its `Debug` output.
fn paths(router: &axum::Router) -> BTreeSet<String> {
    format!("{router:?}")
        .split('"')
        // The output contains the path "/" for the fallback, which is not a route.
        .filter(|text| text.starts_with('/') && *text != "/" && !text.contains("__private__axum"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn router_and_document_have_the_same_paths_and_methods() {
    let (edge, _, _) = World::edge(Setup::default()).await;
    let router = marketplace_http::router_with(edge, Some(Arc::new(String::new)));
    let mut actual = paths(&router);
    for page in PAGE {
        assert!(actual.remove(page), "{page}");
    }
    let document = generated_document();
    let documented = document["paths"].as_object().unwrap();
    assert_eq!(actual, documented.keys().cloned().collect::<BTreeSet<_>>());
    for (path, item) in documented {
        let target =
            path.replace("{eventId}", "e").replace("{aggregateType}", "Order").replace(['{', '}'], "1");
        let response = Request::new(&router, "PUT", &target).send().await.expect(405, "A0400");
        let allowed: BTreeSet<String> = response.headers["allow"]
            .to_str()
            .unwrap()
            .split(',')
            .filter(|method| *method != "HEAD")
            .map(str::to_lowercase)
            .collect();
        assert_eq!(allowed, item.as_object().unwrap().keys().cloned().collect(), "{path}");
    }
}

/// Path of the operation; its ids select no existing resource.
fn path_without_resource(operation: &Operation) -> String {
    let path = operation.path.replace("{eventId}", "no-such").replace("{aggregateType}", "Order");
    let id = if path.contains("/webhooks/") { NO_WEBHOOK } else { "1" };
    let path = path.replace("{id}", id).replace("{deliveryId}", "1").replace("{paymentId}", "1");
    path.replace("{userId}", "1").replace("{aggregateId}", "1")
}

async fn call(world: &World, operation: &Operation, query: &str, body: Option<&Value>) -> ApiResponse {
    let target = format!("{}{query}", path_without_resource(operation));
    let mut request = Request::new(&world.router, &operation.method, &target).token(&world.token(
        BUYER,
        1,
        &[Role::User, Role::Operator],
    ));
    if operation.method == "POST" {
        let key = format!("{}-{}{query}", operation.id, body.map_or("none", |_| "some"));
        request = request.header("x-idempotency-key", &key);
    }
    let Some(body) = body else { return request.send().await };
    let text = body.to_string();
    if operation.path.ends_with("/callback") {
        return world.signed(&target, &text).await;
    }
    request.json(text).send().await
}

/// The fields of the body's schema, the required ones, and whether the body is required.
fn body_fields(
    operation: &Operation,
    document: &Value,
) -> Option<(BTreeSet<String>, BTreeSet<String>, bool)> {
    let body = operation.described.get("requestBody")?;
    let schema = body.pointer("/content/application~1json/schema").unwrap();
    let reference = schema["$ref"].as_str().unwrap();
    let schema = document.pointer(reference.strip_prefix('#').unwrap()).unwrap();
    let names = |value: Option<&Value>| -> BTreeSet<String> {
        value
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    };
    let fields =
        schema["properties"].as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
    let ignores_others = operation.path.ends_with("/callback");
    let others = if ignores_others { Value::Null } else { json!(false) };
    assert_eq!(schema["additionalProperties"], others, "{}", operation.id);
    Some((fields, names(schema.get("required")), body["required"] == json!(true)))
}

fn has_body(operation: &Operation) -> bool {
    ["POST", "PATCH"].contains(&operation.method.as_str())
}

#[tokio::test(start_paused = true)]
async fn routes_read_exactly_the_documented_body_fields() {
    let world = World::new().await;
    let document = generated_document();
    let mut bodies = 0;
    for operation in DOCUMENT.operations.iter().filter(|operation| has_body(operation)) {
        let id = &operation.id;
        let (fields, required, is_required) = body_fields(operation, &document).unwrap();
        bodies += 1;
        // No field accepts this value: each field that is read is reported, and none as unknown.
        let invalid: Map<String, Value> = fields.iter().map(|field| (field.clone(), json!([[]]))).collect();
        let mut body = invalid.clone();
        body.insert("noSuchField".into(), json!(1));
        let response = call(&world, operation, "", Some(&Value::Object(body))).await.expect(400, "A0400");
        let named: BTreeMap<String, String> = response.data["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| {
                (error["field"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
            })
            .collect();
        let unknown: Vec<&String> =
            named.iter().filter(|(_, what)| what.contains("not a field")).map(|(name, _)| name).collect();
        let is_callback = operation.path.ends_with("/callback");
        let expected: &[&str] = if is_callback { &[] } else { &["noSuchField"] };
        assert_eq!(unknown, expected, "{id}");
        let read: BTreeSet<String> = named.keys().filter(|name| *name != "noSuchField").cloned().collect();
        assert!(fields.is_subset(&read), "{id}: {fields:?} {read:?}");
        let with_query = call(&world, operation, "?noSuchParameter=1", Some(&json!({}))).await;
        assert_eq!(with_query.expect(400, "A0400").wrong_fields(), ["noSuchParameter"], "{id}");
        let empty = call(&world, operation, "?", Some(&json!({}))).await;
        let missing: BTreeSet<String> = match empty.data["errors"].as_array() {
            Some(errors) => errors
                .iter()
                .filter(|error| error["message"] == json!("is required"))
                .map(|error| error["field"].as_str().unwrap().to_owned())
                .collect(),
            None => BTreeSet::new(),
        };
        assert_eq!(missing, required, "{id}");
        if !is_callback {
            let without_body = call(&world, operation, "", None).await;
            assert_eq!(without_body.status == 415, is_required, "{id}: {}", without_body.text);
        }
    }
    assert!(bodies > 15, "{bodies}");
}

#[tokio::test(start_paused = true)]
async fn lists_read_exactly_the_documented_query_parameters() {
    let world = World::new().await;
    for operation in DOCUMENT.operations.iter().filter(|operation| operation.path.starts_with("/api/")) {
        if operation.method != "GET" {
            continue;
        }
        let parameters: Vec<&str> = operation.described["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|parameter| parameter["in"] == json!("query"))
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        // No parameter accepts a control character, so each parameter that the route reads is reported as invalid.
        let mut query: Vec<String> = parameters.iter().map(|name| format!("{name}=%07")).collect();
        query.push("noSuchParameter=1".into());
        let target = format!("?{}", query.join("&"));
        let response = call(&world, operation, &target, None).await.expect(400, "A0400");
        let mut named = response.wrong_fields();
        named.sort_unstable();
        let mut expected = parameters.clone();
        expected.push("noSuchParameter");
        expected.sort_unstable();
        assert_eq!(named, expected, "{}", operation.id);
        let unknown = response.data["errors"].as_array().unwrap().iter();
        let unknown: Vec<&Value> =
            unknown.filter(|error| error["message"].as_str().unwrap().contains("not a field")).collect();
        assert_eq!(unknown.len(), 1, "{}: {unknown:?}", operation.id);
    }
}
