//! The events of the library reach an endpoint that an operator has created.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failed unwrap fails the test, and a real receiver runs in real time"
)]

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use handover_webhooks::{VerifyingKey, verify};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::operators::{Database, Server};

#[tokio::test(flavor = "multi_thread")]
async fn events_of_both_types_reach_the_endpoint_signed_and_without_names_of_readers() {
    let received: Arc<Mutex<Vec<(HeaderMap, Bytes)>>> = Arc::default();
    let requests = Arc::clone(&received);
    let receiver = Router::new().fallback(async move |headers: HeaderMap, body: Bytes| {
        requests.lock().unwrap().push((headers, body));
        StatusCode::NO_CONTENT
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    let receiver = tokio::spawn(async move { axum::serve(listener, receiver).await.unwrap() });

    let database = Database::new();
    database.done("migrate");
    let server = Server::of(&database);
    let endpoint = json!({ "url": url, "eventTypes": ["book.*"] }).to_string();
    let (status, created) = server.send("POST", "/webhooks", "X-Operator: ada\r\n", &endpoint);
    assert_eq!(status, "HTTP/1.1 201 Created", "{created}");
    drop(server);
    database.done(&format!("day {}", database.file.display()));

    let key: VerifyingKey = created["data"]["secret"].as_str().unwrap().parse().unwrap();
    let mut announced = Vec::new();
    for (headers, body) in received.lock().unwrap().iter() {
        assert_eq!(verify(headers, body, std::slice::from_ref(&key), chrono::Utc::now()), Ok(()));
        let event: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(event["data"]["reader"], Value::Null, "{event}");
        let name = event["type"].as_str().unwrap();
        announced.push(format!("{name} {}", event["data"]["bookId"]));
    }
    announced.sort();
    assert_eq!(announced, ["book.lent 1", "book.lent 2", "book.lent 3", "book.returned 1"]);
    receiver.abort();
}
