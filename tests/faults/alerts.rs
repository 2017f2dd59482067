//! Each alert is started by its cause, and ended by what the runbook says. Prints for each the seconds until it started and
//! until it ended.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use handover_rabbitmq::{QueueType, unsupervised_connection};
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::{Launch, Server, eventually, tail};
use handover_tests::rabbit_rigs::settings;
use handover_tests::receiver::{Answer, WebhookReceiver};
use handover_tests::snapshot::DatabaseSnapshot;
use lapin::BasicProperties;
use lapin::options::BasicPublishOptions;
use serde_json::Value;

use crate::WITHIN;

handover_tests::on_pairs!([each_alert_starts_by_its_cause_and_ends_with_it]:
    #[ignore = "long: takes several minutes"] sqlite_and_database SqliteAlone,
    #[ignore = "long: takes several minutes"] postgres_and_rabbitmq PostgresRabbitMq);

const SELLER: i64 = 1;
const BUYER: i64 = 2;
const ALL: &str = "api,relay,consumers,jobs,webhooks";

/// Limits that are reached soon.
const LIMITS: [(&str, &str); 17] = [
    ("METRICS__STATE_INTERVAL", "500ms"),
    ("ALERTS__QUEUE_DEPTH", "18"),
    ("ALERTS__OUTBOX_NEW", "2"),
    ("ALERTS__OUTBOX_RETRY", "0"),
    ("ALERTS__EVENT_RETRIES", "1"),
    ("ALERTS__OLDEST_PENDING", "2s"),
    ("ALERTS__PARTITION_WITHOUT_OWNER", "1s"),
    ("ALERTS__BROKER_UNREACHABLE", "2s"),
    ("ALERTS__DATABASE_HORIZON", "3s"),
    ("ALERTS__CONSUMER_PAUSED", "1s"),
    ("ALERTS__QUEUE_WITHOUT_CONSUMER", "1s"),
    ("ALERTS__JOB_SILENT", "1"),
    ("ALERTS__WEBHOOK_OLDEST_DUE", "2s"),
    ("ALERTS__REFUND_OPEN", "2s"),
    ("CONSUMER__BREAKER", "2"),
    ("WEBHOOK__ALLOW_NETWORKS", "[127.0.0.0/8]"),
    ("WEBHOOK__DELAYS", "[10ms]"),
];

/// A running deployment, and the times of its alerts.
struct Scene {
    deployment: Deployment,
    launch: Launch,
    snapshot: DatabaseSnapshot,
    api: Api,
    server: RefCell<Option<Server>>,
    table: RefCell<Vec<String>>,
}

impl Scene {
    async fn of(pair: Pair) -> Scene {
        let deployment = Deployment::with_own_servers(pair).await;
        let retries = r#"{policy = "schedule", delays = ["3s", "3s", "3s"]}"#;
        let mut launch = deployment.launch().set("HANDOVER_OUTBOX__RETRY", retries);
        // Nothing listens on port 9.
        launch = launch.set("HANDOVER_GATEWAY__URL", "http://127.0.0.1:9/");
        launch = launch.set("HANDOVER_WEBHOOK__KEY", "0123456789abcdef0123456789abcdef");
        for (key, value) in LIMITS {
            launch = launch.set(&format!("HANDOVER_{key}"), value);
        }
        let server = launch.clone().roles(ALL).start().unwrap();
        let api = Api::of(&server);
        api.issue_tokens(1..=2);
        let snapshot = deployment.snapshot().await;
        let server = RefCell::new(Some(server));
        Scene { deployment, launch, snapshot, api, server, table: RefCell::default() }
    }

    /// Replaces the process by one with these roles.
    fn restart(&self, roles: &str) {
        if let Some(server) = self.server.take() {
            server.terminate(WITHIN).unwrap();
        }
        let server = self.launch.clone().roles(roles).start().unwrap();
        self.api.set_server(&server);
        self.server.replace(Some(server));
    }

    fn run(&self, line: &str) -> String {
        let arguments: Vec<&str> = line.split(' ').collect();
        let (code, stdout, stderr) = self.launch.run(&arguments).unwrap();
        assert_eq!(code, Some(0), "{line}: {stderr}");
        stdout
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(&format!("{line} --output json"))).unwrap()
    }

    fn is_active(&self, alert: &str) -> bool {
        let active = self.json("alerts");
        active["items"].as_array().unwrap().iter().any(|each| each["alert"] == alert)
    }

    /// Waits until the alert is active, or no longer; returns the seconds since `begun`.
    async fn becomes(&self, alert: &str, is_active: bool, begun: Instant, within: Duration) -> f64 {
        eventually(within, async || match self.is_active(alert) {
            now if now == is_active => Ok(()),
            now => Err(format!("{alert}: active is {now}; log:\n{}", tail(&self.launch.log())).into()),
        })
        .await;
        begun.elapsed().as_secs_f64()
    }

    /// The cause has begun: waits until these alerts have started, then applies the remedy and waits until they have ended.
    async fn check(&self, alerts: &[&str], begun: Instant, remedy: impl AsyncFnOnce()) {
        let mut started = Vec::new();
        for alert in alerts {
            started.push(self.becomes(alert, true, begun, 2 * WITHIN).await);
        }
        let remedied = Instant::now();
        remedy().await;
        for (alert, started) in alerts.iter().zip(started) {
            let ended = self.becomes(alert, false, remedied, 2 * WITHIN).await;
            self.table.borrow_mut().push(format!("{alert:<24} {started:>5.1} s {ended:>5.1} s"));
        }
        let log = self.launch.log();
        for alert in alerts {
            let lines = |text: &str| {
                log.lines().filter(|line| line.contains(&format!("[ALERT] {alert} {text}"))).count()
            };
            assert!(lines("started") >= 1 && lines("ended") >= 1, "{alert}:\n{}", tail(&log));
        }
    }

    async fn orders(&self, count: usize) -> Vec<i64> {
        let mut orders = Vec::new();
        for n in 0..count {
            let product = self.api.list_product(SELLER, &format!("Lamp {n}")).await.unwrap().id("productId");
            orders.push(self.api.place_order(BUYER, product).await.unwrap().id("orderId"));
        }
        orders
    }

    async fn statement(&self, sqlite: &str, postgres: &str) {
        let sql = if self.deployment.pair().database_server().is_none() { sqlite } else { postgres };
        self.snapshot.change(sql).await;
    }
}

async fn each_alert_starts_by_its_cause_and_ends_with_it(pair: Pair) {
    let scene = Scene::of(pair).await;
    let publishes = unroutable_events(&scene).await;
    stopped_relay_consumers_and_jobs(&scene).await;
    garbage_in_each_queue(&scene).await;
    failing_handler(&scene).await;
    refunds_and_reports(&scene).await;
    webhooks(&scene).await;
    if pair.is_on_rabbitmq() {
        broker_unreachable(&scene).await;
    }
    if pair.database_server().is_some() {
        transaction_held_open(&scene).await;
        database_that_refuses_writes(&scene).await;
    }
    // The rate is that of five minutes.
    let ended = scene.becomes("publish-failure-rate", false, publishes, Duration::from_secs(420)).await;
    scene.table.borrow_mut().push(format!("publish-failure-rate     ended {ended:.0} s after its begin"));
    println!("{pair:?}: alert, started after its cause, ended after the remedy");
    scene.table.borrow().iter().for_each(|line| println!("  {line}"));
}

/// Events that no queue takes: they are retried, then FAILED. Runbook: correct the cause, then redrive.
async fn unroutable_events(scene: &Scene) -> Instant {
    let begun = Instant::now();
    let now = crate::literal(chrono::Utc::now());
    let row = |n: i64| format!("('lost-{n}', 'LOST', 'Order', {n}, '{{}}', 'lost.key', {now}, {now})");
    let rows = (0..30).map(row).collect::<Vec<_>>().join(", ");
    let columns =
        "event_id, event_type, aggregate_type, aggregate_id, payload, routing_key, create_time, update_time";
    scene.snapshot.change(&format!("INSERT INTO outbox_events ({columns}) VALUES {rows}")).await;
    let retried = ["outbox-retry", "event-retries"];
    scene.check(&retried, begun, async || {}).await;
    scene.becomes("publish-failure-rate", true, begun, WITHIN).await;
    scene.check(&["outbox-failed"], begun, async || {
        scene.snapshot.change("UPDATE outbox_events SET event_type = 'ORDER_STATUS_CHANGED', routing_key = NULL WHERE event_id LIKE 'lost-%'").await;
        scene.run("outbox redrive --status failed --per-second 1000");
    })
    .await;
    begun
}

async fn stopped_relay_consumers_and_jobs(scene: &Scene) {
    let begun = Instant::now();
    scene.restart("api");
    scene.orders(3).await;
    let of_relay = ["outbox-new", "oldest-pending", "partition-without-owner", "job-silent"];
    scene.check(&of_relay, begun, async || scene.restart(ALL)).await;
    let begun = Instant::now();
    scene.restart("api,relay,jobs,webhooks");
    // Fewer orders than the limit: the delay queue keeps a message of each. The queue of webhooks gets the payments, too.
    for order in scene.orders(12).await {
        let payment = scene.api.start_payment(BUYER, order).await.unwrap().id("paymentId");
        scene.api.payment_succeeded(payment).await.unwrap().value();
    }
    scene.check(&["queue-depth", "queue-without-consumer"], begun, async || scene.restart(ALL)).await;
}

/// Runbook: read the dead letters, then replay or discard them.
async fn garbage_in_each_queue(scene: &Scene) {
    let queues = scene.json("queues");
    let names = queues["items"].as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap());
    let names: Vec<&str> =
        names.filter(|name| !["order.dlq.queue", "order.timeout.delay.queue"].contains(name)).collect();
    let begun = Instant::now();
    if scene.deployment.pair().is_on_rabbitmq() {
        let connection =
            unsupervised_connection(settings(&scene.deployment.vhost().url(), QueueType::Quorum))
                .await
                .unwrap();
        let channel = connection.create_channel().await.unwrap();
        for queue in &names {
            let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
            channel.basic_publish("".into(), (*queue).into(), options, b"garbage", properties).await.unwrap();
        }
    } else {
        for queue in &names {
            let sql = format!(
                "INSERT INTO outbox_broker_messages (queue, headers, body) VALUES ('{queue}', '{{}}', 'garbage')"
            );
            scene.snapshot.change(&sql).await;
        }
    }
    scene
        .check(&["dead-letters"], begun, async || {
            let open =
                "SELECT count(DISTINCT queue) FROM dead_letters WHERE body = 'garbage' AND status = 'OPEN'";
            eventually(WITHIN, async || match scene.snapshot.count(open).await? {
                count if count == names.len() as i64 => Ok(()),
                count => Err(format!("{count} of {} queues have a dead letter", names.len()).into()),
            })
            .await;
            let keys = scene
                .snapshot
                .rows("SELECT DISTINCT message_key FROM dead_letters WHERE status = 'OPEN'")
                .await;
            scene.run(&format!("dlq discard {} --reason test", keys.unwrap().join(" ")));
        })
        .await;
}

/// Runbook: remove the cause; the consumer closes its breaker by itself.
async fn failing_handler(scene: &Scene) {
    let begun = Instant::now();
    scene
        .statement(
            "CREATE TRIGGER refuse BEFORE INSERT ON listing_changes BEGIN SELECT RAISE(ABORT, 'refused'); END",
            "ALTER TABLE listing_changes ADD CONSTRAINT refuse CHECK (id < 0) NOT VALID",
        )
        .await;
    scene.orders(4).await;
    scene
        .check(&["consumer-paused"], begun, async || {
            scene
                .statement("DROP TRIGGER refuse", "ALTER TABLE listing_changes DROP CONSTRAINT refuse")
                .await;
        })
        .await;
}

/// A gateway that refuses requests, a failed refund, and a report about nothing.
async fn refunds_and_reports(scene: &Scene) {
    let api = &scene.api;
    let order = scene.orders(1).await[0];
    let payment = api.start_payment(BUYER, order).await.unwrap().id("paymentId");
    api.payment_succeeded(payment).await.unwrap().value();
    let begun = Instant::now();
    let path = format!("/api/v1/orders/{order}/refunds");
    let refund =
        api.post(BUYER, &path, serde_json::json!({ "reason": "broken" })).await.unwrap().id("refundId");
    scene
        .check(&["refund-open"], begun, async || {
            api.refund_reported(refund, "FAILED").await.unwrap().value();
        })
        .await;
    let failed = Instant::now();
    scene
        .check(&["refund-failed"], failed, async || {
            scene.run(&format!("refund settle {refund} --reason paid"));
        })
        .await;
    let begun = Instant::now();
    assert_eq!(api.payment_reported(999_999, "SUCCESS").await.unwrap().status, 404);
    scene
        .check(&["gateway-report"], begun, async || {
            let open = scene.json("payment reports --state open");
            for report in open["items"].as_array().unwrap() {
                scene.run(&format!("payment reports close {} --reason known", report["reportId"]));
            }
        })
        .await;
}

async fn webhooks(scene: &Scene) {
    let receiver = WebhookReceiver::start(|_, request| match request.path.as_str() {
        "/gone" => Answer::Status(410),
        _ => Answer::Status(200),
    })
    .await;
    let create = |url: &str| {
        let created = scene.json(&format!("webhook create --url {url} --types order.*"));
        created["endpointId"].as_str().unwrap().to_owned()
    };
    // Nothing listens on port 9.
    let unreachable = create("http://127.0.0.1:9/");
    let begun = Instant::now();
    scene.orders(1).await;
    scene
        .check(&["webhook-dead"], begun, async || {
            scene.run(&format!("webhook update {unreachable} --url {}", receiver.url("/ok")));
            let dead = scene.json(&format!("webhook deliveries {unreachable} --state dead"));
            for delivery in dead["items"].as_array().unwrap() {
                scene.run(&format!("webhook redeliver {unreachable} {}", delivery["deliveryId"]));
            }
        })
        .await;
    let gone = create(&receiver.url("/gone"));
    let begun = Instant::now();
    scene.orders(1).await;
    scene
        .check(&["webhook-disabled"], begun, async || {
            scene.run(&format!("webhook update {gone} --url {}", receiver.url("/ok")));
            scene.run(&format!("webhook enable {gone}"));
        })
        .await;
    scene.restart("api,relay,consumers,jobs");
    let begun = Instant::now();
    scene.orders(1).await;
    scene.check(&["webhook-oldest-due"], begun, async || scene.restart(ALL)).await;
}

async fn broker_unreachable(scene: &Scene) {
    let rabbitmq = scene.deployment.vhost().server();
    rabbitmq.save_queues().await.unwrap();
    let begun = Instant::now();
    rabbitmq.kill().unwrap();
    scene.check(&["broker-unreachable"], begun, async || rabbitmq.restart().await.unwrap()).await;
}

async fn transaction_held_open(scene: &Scene) {
    let pool = sqlx::PgPool::connect(&scene.deployment.database().url()).await.unwrap();
    let mut open = pool.begin().await.unwrap();
    let begun = Instant::now();
    sqlx::query("SELECT count(*) FROM outbox_events").execute(&mut *open).await.unwrap();
    scene.check(&["database-horizon"], begun, async || open.rollback().await.unwrap()).await;
}

/// Nothing can be written to the database, so the alert is only in the log and in `/metrics` of the process.
async fn database_that_refuses_writes(scene: &Scene) {
    let logged = async |text: &str| {
        let begun = Instant::now();
        eventually(WITHIN, async || match scene.launch.log().contains(text) {
            true => Ok(()),
            false => Err(format!("no line {text}:\n{}", tail(&scene.launch.log())).into()),
        })
        .await;
        begun.elapsed().as_secs_f64()
    };
    for sql in [
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
         $$BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END$$",
        "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON outbox_process_reports \
         FOR EACH STATEMENT EXECUTE FUNCTION refuse()",
    ] {
        scene.snapshot.change(sql).await;
    }
    let started = logged("[ALERT] storage:").await;
    scene.snapshot.change("DROP FUNCTION refuse CASCADE").await;
    let ended = logged("[ALERT] storage ended").await;
    scene.table.borrow_mut().push(format!("{:<24} {started:>5.1} s {ended:>5.1} s", "storage"));
}
