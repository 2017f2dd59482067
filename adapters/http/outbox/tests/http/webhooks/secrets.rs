//! Secrets are shown once.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use handover_http::envelope::Reply;
use handover_http::response::DoneWithSecret;
use serde_json::{Value, json};

use super::fixture::{CANARY, Library, endpoint};

#[tokio::test(start_paused = true)]
async fn secret_is_in_the_response_that_creates_it_and_in_no_other() {
    let library = Library::new();
    let mut body = endpoint();
    body["headers"] = json!({ "x-api-key": CANARY });
    let created = library.call("POST", "/webhooks").body(&body).expect(201).await;
    assert_eq!(created["secret"], json!(format!("whsec_{CANARY}1")));
    let path = format!("/webhooks/{}", created["endpointId"].as_str().unwrap());
    let rotate = format!("{path}/rotate-secret");
    let rotated = library.call("POST", &rotate).body(&json!({ "overlapHours": 2 })).expect(200).await;
    assert_eq!(rotated["secret"], json!(format!("whsec_{CANARY}2")));
    let mut without_secret = rotated.clone();
    without_secret.as_object_mut().unwrap().remove("secret");
    assert!(!without_secret.to_string().contains(CANARY));
    let test = format!("{path}/test");
    let others = [
        library.call("GET", &path),
        library.call("GET", "/webhooks"),
        library.call("PATCH", &path).body(&json!({ "perSecond": 1 })),
        library.call("GET", "/audit?limit=100"),
        library.call("POST", &test).body(&json!({ "type": "book.lent" })),
    ];
    for call in others {
        for staff in ["ada", "pia", "root"] {
            let (status, body) = call.clone().by(staff).send().await;
            assert!((200..300).contains(&status), "{body}");
            assert!(!body.to_string().contains(CANARY) && body["data"].get("secret").is_none(), "{body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn replaced_secret_is_valid_for_the_overlap() {
    let library = Library::new();
    let mut body = endpoint();
    body["asymmetric"] = json!(true);
    let created = library.call("POST", "/webhooks").body(&body).expect(201).await;
    let path = format!("/webhooks/{}", created["endpointId"].as_str().unwrap());
    let rotate = format!("{path}/rotate-secret");
    let rotated = library.call("POST", &rotate).expect(200).await;
    let secret = |key: &str, until: Option<&str>| json!({ "publicKey": key, "validUntil": until });
    let tomorrow = Some("2026-02-01T08:00:00.000000Z");
    assert_eq!(rotated["secrets"], json!([secret("whpk_2", None), secret("whpk_1", tomorrow)]));
    assert_eq!(rotated["publicKeys"], json!(["whpk_2", "whpk_1"]));
    library.tx.sleep(std::time::Duration::from_secs(24 * 3_600)).await;
    let shown = library.call("GET", &path).expect(200).await;
    assert_eq!(
        (&shown["secrets"], &shown["publicKeys"]),
        (&json!([secret("whpk_2", None)]), &json!(["whpk_2"]))
    );
    let at_once = library.call("POST", &rotate).body(&json!({ "overlapHours": 0 })).expect(200).await;
    assert_eq!(at_once["secrets"], json!([secret("whpk_3", None)]));
    for _ in 0..9 {
        library.call("POST", &rotate).expect(200).await;
    }
    assert_eq!(library.call("POST", &rotate).body(&json!({})).wrong_fields().await, ["overlapHours"]);
}

#[test]
fn response_with_secret_is_stored_and_debugged_without_it() {
    let view = |secret: Option<String>| json!({ "id": 1, "secret": secret });
    let done = DoneWithSecret::new(StatusCode::CREATED, CANARY.to_owned(), view).unwrap();
    assert!(!format!("{done:?}").contains(CANARY));
    let response = done.into_response();
    let reply = response.extensions().get::<Reply>().unwrap();
    assert!(!format!("{reply:?}").contains(CANARY));
    let stored: Value = serde_json::from_str(reply.data.storable().unwrap().get()).unwrap();
    assert_eq!((response.status(), stored), (StatusCode::CREATED, json!({ "id": 1, "secret": null })));
}
