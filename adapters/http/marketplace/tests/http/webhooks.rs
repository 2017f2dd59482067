//! The toolkit's routes of webhooks in the marketplace: stored responses, secrets, description of the requests.

use serde_json::{Value, json};

use crate::access::routes;
use crate::openapi::{generated_document, validator_at};
use crate::webhook_transport::WEBHOOK_SECRET;
use crate::world::{BUYER, Setup, World};

const KEY: &str = "x-idempotency-key";
const BODY: &str =
    r#"{"url":"https://erp.example/hooks","eventTypes":["order.*"],"headers":{"x-api-key":"whsec_canary"}}"#;

#[tokio::test(start_paused = true)]
async fn repeated_request_gets_its_response_without_the_secret_and_no_table_contains_it() {
    let world = World::new().await;
    let create = || world.post_as_operator("/api/v1/webhooks").header(KEY, "k").json(BODY).send();
    let created = create().await.expect(201, "00000");
    assert_eq!(created.data["secret"], WEBHOOK_SECRET);
    let repeated = create().await.expect(201, "00000");
    assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
    assert_eq!(repeated.data["endpointId"], created.data["endpointId"]);
    assert_eq!(repeated.data["secret"], Value::Null);
    let path = format!("/api/v1/webhooks/{}/rotate-secret", created.data["endpointId"].as_str().unwrap());
    let rotate = || world.post_as_operator(&path).header(KEY, "r").send();
    assert_eq!(rotate().await.expect(200, "00000").data["secret"], WEBHOOK_SECRET);
    let repeated = rotate().await.expect(200, "00000");
    assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
    assert_eq!(
        (&repeated.data["secret"], &repeated.data["secrets"][1]["publicKey"]),
        (&Value::Null, &json!("whpk_x"))
    );
    let rows = world.memory.rows();
    assert!(rows.iter().any(|row| row.starts_with("requests ") && row.contains("whpk_x")), "{rows:#?}");
    assert!(rows.iter().all(|row| !row.contains("canary")));
}

#[tokio::test(start_paused = true)]
async fn order_event_is_delivered_to_the_endpoint_that_asked_for_it() {
    let world = World::new().await;
    let id = world.webhook().await;
    world.paid_order().await;
    world.run_until_idle().await;
    let path = format!("/api/v1/webhooks/{id}/deliveries?type=order.paid");
    let page = world.get_as_operator(&path).send().await.expect(200, "00000");
    assert_eq!(page.ids("deliveryId").len(), 1);
    assert_eq!(page.data["items"][0]["state"], "PENDING");
    // Buyers and sellers do not see endpoints and deliveries.
    for path in ["/api/v1/webhooks", path.as_str()] {
        world.get_as(BUYER, path).send().await.expect(403, "A0303");
    }
}

#[tokio::test(start_paused = true)]
async fn process_without_webhooks_has_none_of_their_routes() {
    let world = World::with(Setup { webhooks: false, ..Setup::default() }).await;
    assert!(routes(&world.router).iter().all(|(_, path)| !path.contains("webhooks")));
    let request = world.get_as_operator("/api/v1/webhooks").undocumented();
    request.send().await.expect(404, "A0404");
}

#[tokio::test(start_paused = true)]
async fn document_describes_the_request_for_every_event_type_with_a_valid_example() {
    let document = generated_document();
    let webhooks = document["webhooks"].as_object().unwrap();
    let world = World::new().await;
    let types = world.get_as_operator("/api/v1/webhooks/event-types").send().await.expect(200, "00000");
    let types = types.data["items"].as_array().unwrap().clone();
    let names: Vec<&str> = types.iter().map(|offered| offered["name"].as_str().unwrap()).collect();
    assert_eq!(webhooks.keys().collect::<Vec<_>>(), names);
    assert!(names.contains(&"order.paid") && names.contains(&"webhook.delivery.dead"), "{names:?}");
    assert!(names.iter().all(|name| !name.starts_with("order.timeout")), "{names:?}");
    for (name, offered) in names.iter().zip(&types) {
        let pointer = format!("/webhooks/{name}/post/requestBody/content/application~1json");
        let content = document.pointer(&pointer).unwrap();
        assert_eq!(
            (&content["schema"], &content["example"]),
            (&offered["schema"], &offered["example"]),
            "{name}"
        );
        let validator = validator_at(&document, &format!("{pointer}/schema"));
        assert!(validator.is_valid(&content["example"]), "{name}: {content}");
        let mut other = content["example"].clone();
        other["data"]["eventId"] = json!(7);
        assert!(!validator.is_valid(&other), "{name}");
    }
}
