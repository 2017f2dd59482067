//! 000 §16.1.1 on RabbitMQ itself: who answers where, and what is declared there.

use std::collections::BTreeMap;

use handover_tests::deployment::Pair;
use handover_tests::process::Launch;
use handover_tests::servers::free_port;
use serde_json::Value;

use super::shop::Shop;

/// Where the management plugin listens.
const MANAGEMENT: &str = "127.0.0.1:15672";

/// How the program that is started like this finds its surroundings: its exit code, and each check by its name.
fn examined(launch: &Launch) -> (Option<i32>, BTreeMap<String, Value>) {
    let (code, stdout, stderr) = launch.run(&["doctor", "--output", "json"]).unwrap();
    let report: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
    let checks = report["checks"].as_array().unwrap();
    let by_name = |check: &Value| (check["check"].as_str().unwrap().to_owned(), check.clone());
    (code, checks.iter().map(by_name).collect())
}

#[track_caller]
fn assert_says(check: &Value, status: &str, parts: &[&str]) {
    assert_eq!(check["status"], status, "{check}");
    let said = check.to_string();
    assert!(parts.iter().all(|part| said.contains(part)), "no {parts:?} in {check}");
}

/// §16.1.1: 5672, the vhost, and a warning where 15672 is silent.
async fn s16_1_1_doctor_checks_the_port_and_the_vhost_and_warns_without_management(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let vhost = shop.deployment().vhost();
    let (port, name) = (vhost.server().port(), vhost.name());
    let (_, checks) = examined(shop.launch());
    assert_says(&checks["broker"], "ok", &[&format!("127.0.0.1:{port}"), name]);
    match std::net::TcpStream::connect(MANAGEMENT) {
        Ok(_) => assert_says(&checks["management"], "ok", &["15672"]),
        Err(_) => {
            assert_says(
                &checks["management"],
                "warn",
                &["15672", "rabbitmq-plugins enable rabbitmq_management"],
            );
        }
    }

    let by = |url: &str| examined(&shop.launch().clone().set("HANDOVER_BROKER__URL", url));
    let (code, checks) = by(&vhost.url().replace(name, "not-there"));
    assert_eq!(code, Some(2), "a vhost that does not exist is a wrong configuration: {checks:?}");
    assert_says(&checks["broker"], "fail", &["not-there"]);
    let silent = free_port().unwrap();
    let (code, checks) = by(&vhost.url_by(silent));
    assert_eq!(code, Some(3), "nobody at the port is an outage: {checks:?}");
    assert_says(&checks["broker"], "fail", &[&silent.to_string()]);
}

/// §4.5 and §16.1.1: the queues that RabbitMQ holds have the arguments that are frozen, in both kinds.
async fn s16_1_1_queues_in_rabbitmq_have_the_frozen_arguments(pair: Pair) {
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
        // And they carry.
        let order = shop.paid_order().await;
        shop.complete(order).await;
        shop.settled().await;
        shop.sound_but_for(&[]).await;
    }
}

super::by_turns! {
    s16_1_1_doctor_checks_the_port_and_the_vhost_and_warns_without_management: rabbitmq,
    s16_1_1_queues_in_rabbitmq_have_the_frozen_arguments: rabbitmq,
}
