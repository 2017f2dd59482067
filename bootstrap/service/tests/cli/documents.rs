//! `openapi`, `asyncapi`: print the documents, and nothing else, to stdout.

use crate::program::World;

#[test]
fn documents_need_no_database_and_asyncapi_uses_the_configured_routing() {
    let world = World::new();
    let api = world.run("openapi");
    assert!(api.done().ends_with("}\n"));
    assert_eq!(api.json()["openapi"], "3.1.0");
    assert_eq!(api.json(), serde_json::to_value(marketplace_http::openapi()).unwrap());
    let events = world.run("asyncapi");
    assert_eq!(events.json()["asyncapi"], "3.0.0");
    assert!(events.json()["channels"]["order.timeout.delay.queue"].is_object());
    let world = World::new().set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.05");
    let events = world.run("asyncapi");
    events.done();
    assert!(events.json()["channels"]["order.timeout.delay.queue.3000ms"].is_object());
    assert!(!world.path("handover.db").exists(), "no file is created");
}
