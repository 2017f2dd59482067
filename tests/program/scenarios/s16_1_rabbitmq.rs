//! 000 §16.1.1 on RabbitMQ: the checks of `doctor`, and the declared topology.

use std::collections::BTreeMap;

use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::{Launch, eventually};
use handover_tests::servers::free_port;
use serde_json::Value;

use super::shop::{SOON, Shop};

/// Address of the management plugin.
const MANAGEMENT: &str = "127.0.0.1:15672";

/// Runs `doctor` with these launch options. Returns its exit code and its checks by name.
fn doctor(launch: &Launch) -> (Option<i32>, BTreeMap<String, Value>) {
    let (code, stdout, stderr) = launch.run(&["doctor", "--output", "json"]).unwrap();
    let report: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
    let checks = report["checks"].as_array().unwrap();
    let by_name = |check: &Value| (check["check"].as_str().unwrap().to_owned(), check.clone());
    (code, checks.iter().map(by_name).collect())
}

#[track_caller]
fn assert_check(check: &Value, status: &str, parts: &[&str]) {
    assert_eq!(check["status"], status, "{check}");
    let text = check.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{check} does not contain all of {parts:?}");
}

/// §16.1.1: `doctor` checks port 5672 and the vhost, and warns if port 15672 does not respond.
async fn s16_1_1_doctor_checks_port_and_vhost_and_warns_without_management(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let vhost = shop.deployment().vhost();
    let port = vhost.server().port();
    let name = vhost.name();
    let (_, checks) = doctor(shop.launch());
    assert_check(&checks["broker"], "ok", &[&format!("127.0.0.1:{port}"), name]);
    match std::net::TcpStream::connect(MANAGEMENT) {
        // The server of another test or user: it does not know this user or vhost.
        Ok(_) => {}
        Err(_) => {
            assert_check(
                &checks["management"],
                "warn",
                &["15672", "rabbitmq-plugins enable rabbitmq_management"],
            );
        }
    }

    let by = |url: &str| doctor(&shop.launch().clone().set("HANDOVER_BROKER__URL", url));
    let (code, checks) = by(&vhost.url().replace(name, "not-there"));
    assert_eq!(code, Some(2), "a vhost that does not exist must be a configuration error: {checks:?}");
    assert_check(&checks["broker"], "fail", &["not-there"]);
    let closed_port = free_port().unwrap();
    let (code, checks) = by(&vhost.url_through(closed_port));
    assert_eq!(code, Some(3), "a closed port must be an outage: {checks:?}");
    assert_check(&checks["broker"], "fail", &[&closed_port.to_string()]);
}

/// A policy of an administrator that limits the queues is named by `doctor` and at the start, with its remedy.
async fn policy_that_limits_queues_is_named_by_doctor_and_at_start(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let url = deployment.vhost().server().management_url().await.unwrap();
    let settings = [("HANDOVER_RABBITMQ__MANAGEMENT_URL", url.as_str())];
    let shop = Shop::open_on(deployment, &settings, None).await;
    let (code, checks) = doctor(shop.launch());
    assert_eq!(code, Some(0), "{checks:?}");
    assert_check(&checks["policies"], "ok", &["no policy limits the queues"]);
    let policy = r#"[{<<"max-length">>, 100000}]"#;
    shop.deployment().vhost().set_policy("everything", ".*", policy).await.unwrap();
    // RabbitMQ reports the policy of a queue with its statistics, every five seconds, not at once for all queues.
    let named = [
        "the policy everything sets max-length = 100000",
        "order.dlq.queue",
        "inventory.update.queue",
        "list_policies",
    ];
    eventually(SOON, async || {
        let (code, checks) = doctor(shop.launch());
        let text = checks["policies"].to_string();
        let is_named = named.iter().all(|part| text.contains(part));
        if code == Some(0) && is_named { Ok(()) } else { Err(text.into()) }
    })
    .await;
    let shop = shop.reopen();
    shop.expect_logged(&["[RabbitMQ] [ALERT]", "everything", "max-length", "inventory.update.queue"]).await;
}

/// §4.5 and §16.1.1: the queues in RabbitMQ have the frozen arguments, for both queue types.
async fn s16_1_1_queues_in_rabbitmq_have_frozen_arguments(pair: Pair) {
    for (settings, kind) in
        [(&[][..], "quorum"), (&[("HANDOVER_RABBITMQ__QUEUE_TYPE", "classic")][..], "classic")]
    {
        let shop = Shop::open(pair, settings).await;
        let vhost = shop.deployment().vhost();
        let argument = async |queue: &str, name: &str| vhost.argument(queue, name).await.unwrap();
        for queue in [
            "order.timeout.queue",
            "inventory.update.queue",
            "order.fulfillment.queue",
            "order.status.sync.queue",
        ] {
            assert_eq!(argument(queue, "x-queue-type").await, kind, "{queue}");
            assert_eq!(argument(queue, "x-dead-letter-exchange").await, "order.events.exchange", "{queue}");
            assert_eq!(argument(queue, "x-dead-letter-routing-key").await, "order.dlq", "{queue}");
        }
        let delay = "order.timeout.delay.queue";
        assert_eq!(argument(delay, "x-message-ttl").await, "900000");
        assert_eq!(argument(delay, "x-dead-letter-exchange").await, "order.events.exchange");
        assert_eq!(argument(delay, "x-dead-letter-routing-key").await, "order.timeout");
        assert_eq!(argument("order.dlq.queue", "x-queue-type").await, kind);
        // Messages pass through the queues.
        let order = shop.paid_order().await;
        shop.complete(order).await;
        shop.settled().await;
        shop.assert_invariants_except(&[]).await;
    }
}

super::by_turns! {
    s16_1_1_doctor_checks_port_and_vhost_and_warns_without_management: rabbitmq,
    policy_that_limits_queues_is_named_by_doctor_and_at_start: rabbitmq,
    s16_1_1_queues_in_rabbitmq_have_frozen_arguments: rabbitmq,
}
