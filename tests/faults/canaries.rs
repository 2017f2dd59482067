//! Tests of the leak check: a planted leak is found. `process::Server` runs the check at the end of every test that
//! starts a program. Secrets of webhooks with the most detailed log.

use std::fs::File;
use std::io::Write;

use handover_tests::canary::PERSONAL;
use handover_tests::client::{Api, Caller};
use handover_tests::process::{eventually, fresh};
use handover_tests::receiver::{Answer, WebhookReceiver};
use serde_json::json;

use crate::WITHIN;

/// Runs the program, appends a line to its log, and ends it.
fn run_with_log_line(line: impl Fn(&str) -> String) {
    let (folder, launch) = fresh();
    let server = launch.start().unwrap();
    let mut log = File::options().append(true).open(folder.path().join("log")).unwrap();
    writeln!(log, "{}", line(&launch.secret("jwt"))).unwrap();
    drop(server);
}

#[test]
fn log_without_leak_passes() {
    run_with_log_line(|_| "nothing of interest".to_owned());
}

#[test]
#[should_panic(expected = "the jwt secret that was generated is in the log")]
fn secret_in_log_is_found() {
    run_with_log_line(|secret| format!("cannot verify with {secret}"));
}

#[test]
#[should_panic(expected = "personal data is in the log")]
fn personal_data_in_log_is_found() {
    run_with_log_line(|_| format!("shipped as {PERSONAL}-1"));
}

/// An endpoint is created, refused, sent to with and without success, and its secret and the key are replaced. The server
/// searches log, output, metrics and database for the secrets when it is dropped.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_webhooks_are_nowhere_at_log_level_trace() {
    const HEADER: &str = "Bearer canary-of-a-static-header";
    const PASSWORD: &str = "canary-of-a-password-in-a-url";
    const PATH: &str = "/api/v1/webhooks";
    let (_folder, launch) = fresh();
    let launch = launch
        .set("HANDOVER_LOG__LEVEL", "trace")
        .set("HANDOVER_WEBHOOK__DELAYS", r#"["10ms", "10ms"]"#)
        .set("HANDOVER_WEBHOOK__ALLOW_NETWORKS", r#"["127.0.0.0/8"]"#);
    launch.forbid("a static header", HEADER);
    launch.forbid("a password in a URL", PASSWORD);
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    let operator = Caller::of_tenant(1, 9).operator();
    let receiver =
        WebhookReceiver::start(|earlier, _| Answer::Status(if earlier == 0 { 500 } else { 204 })).await;
    let refused = format!("https://user:{PASSWORD}@erp.example/");
    for url in [refused.as_str(), "http://127.0.0.1:1/", &receiver.url("/hooks")] {
        let body = json!({
            "url": url, "eventTypes": ["order.paid"], "asymmetric": true, "headers": {"authorization": HEADER},
        });
        let created = api.post(operator, PATH, body).await.unwrap();
        if url == refused {
            assert_eq!(created.outcome(), (400, "A0400"));
            continue;
        }
        let created = created.value();
        launch.forbid("the secret of an endpoint", created["secret"].as_str().unwrap());
        let path = format!("{PATH}/{}", created["endpointId"].as_str().unwrap());
        let rotated = api.post(operator, &format!("{path}/rotate-secret"), json!({})).await.unwrap().value();
        launch.forbid("the new secret of an endpoint", rotated["secret"].as_str().unwrap());
        let test = json!({"type": "order.paid"});
        api.post(operator, &format!("{path}/test"), test).await.unwrap().value();
        let settled =
            format!("{path}/deliveries?state={}", if url.contains(":1/") { "DEAD" } else { "DELIVERED" });
        eventually(WITHIN, async || match api.get(operator, &settled).await.unwrap().items().len() {
            1 => Ok(()),
            other => Err(format!("{other} deliveries of {url}").into()),
        })
        .await;
    }
    assert_eq!(receiver.received().len(), 2);
    assert!(receiver.received().iter().all(|request| request.header("authorization") == Some(HEADER)));
    let key = std::fs::read_to_string(format!("{}-webhook-key", launch.database().display())).unwrap();
    server.terminate(WITHIN).unwrap();
    let launch = launch
        .set("HANDOVER_WEBHOOK__KEY", "the next key that encrypts secrets of endpoints")
        .set("HANDOVER_WEBHOOK__PREVIOUS_KEY", key.trim());
    let server = launch.start().unwrap();
    let (code, changed, error) = launch.run(&["webhook", "rotate-key"]).unwrap();
    assert_eq!(
        (code, changed.as_str()),
        (Some(0), "2 endpoints are encrypted with the current key now\n"),
        "{error}"
    );
    let list = ["audit", "list", "--changes", "--limit", "100", "--output", "json"];
    let (_, audit, _) = launch.run(&list).unwrap();
    assert!(audit.contains("webhooks.rotate-secret"), "{audit}");
    assert!(!audit.contains("canary-of") && !audit.contains("whsec_"), "{audit}");
    assert!(launch.log().contains("[Webhooks] attempt failed"), "the log has the attempts");
    drop(server);
}
