//! The server is killed, stopped or blocked, or the network fails.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use handover_contract::TIMEOUT;
use handover_outbox::ports::Requeue;
use handover_tests::servers::proxy::{Proxy, Traffic};

use super::*;

/// `basic.consume` of [`QUEUE`] in wire format: class, method, a reserved number, the name.
const CONSUME: &str = "\0\x3c\0\x14\0\0\x0cfaults.queue";

/// Number of lapin's threads in this process.
fn io_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.filter(|task| task.path().exists()).map(name).filter(|name| name.starts_with("lapin")).count()
}

/// Runs a test of this program in a separate process, where no other test has threads. Returns false in that process,
/// where the test itself must run.
fn run_in_own_process(test: &str) -> bool {
    const OWN_PROCESS: &str = "RUNS_IN_OWN_PROCESS";
    if std::env::var_os(OWN_PROCESS).is_some() {
        return false;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(OWN_PROCESS, "1").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let out = text(&output.stdout);
    let err = text(&output.stderr);
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
    true
}

/// RabbitMQ 3.10 writes the name of a new quorum queue to disk half a second after the declaration. If the server is
/// killed earlier, the queue is empty and has no leader after the restart.
async fn save_new_queues(server: &RabbitServer) {
    server.eval("[ok = dets:sync(Table) || Table <- dets:all()].").await.unwrap();
}

/// Publishes windows until one fails and counts the successful ones. Returns the ids of confirmed messages.
async fn load(broker: RabbitBroker, prefix: &'static str, succeeded: Arc<AtomicUsize>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for round in 0.. {
        match publish(&broker, &routed(&format!("{prefix}-{round}"), 50)).await {
            Ok(outcomes) => all.extend(confirmed(&outcomes)),
            response => {
                unreachable(response);
                break;
            }
        }
        succeeded.fetch_add(1, Ordering::SeqCst);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn confirmed_messages_survive_kills_within_a_window() {
    let (server, vhost) = own_server().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    save_new_queues(&server).await;
    let mut all = BTreeSet::new();
    for prefix in ["first", "second"] {
        let succeeded = Arc::new(AtomicUsize::new(0));
        let loading = tokio::spawn(load(broker.clone(), prefix, Arc::clone(&succeeded)));
        eventually("windows are confirmed", || async {
            (succeeded.load(Ordering::SeqCst) >= 5).then_some(())
        })
        .await;
        server.kill().unwrap();
        let confirmed =
            tokio::time::timeout(NOTICED_WITHIN, loading).await.expect("the kill must be detected").unwrap();
        assert!(!confirmed.is_empty());
        all.extend(confirmed);
        server.restart().await.unwrap();
        publish_until_confirmed(&broker, &routed(&format!("{prefix}-after"), 5)).await;
    }
    drain(&broker, QUEUE, &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_of_server_while_messages_expire_loses_no_message_of_quorum_queue() {
    let (server, vhost) = own_server().await;
    let broker = RabbitBroker::new(settings(&vhost.url(), QueueType::Quorum));
    let delay = QueueSpec {
        ttl: Some(Duration::from_secs(1)),
        dead_letter_key: Some("due".to_owned()),
        ..queue("delay", &["later"])
    };
    broker.declare(&topology(&[delay, queue("due", &["due"])])).await.unwrap();
    save_new_queues(&server).await;
    let mut all = BTreeSet::new();
    for round in 0..20 {
        let window: Vec<_> = (0..200).map(|n| (format!("{round}-{n}"), "later")).collect();
        all.extend(confirmed(&publish(&broker, &window).await.unwrap()));
    }
    eventually("messages expire", || async {
        let depths = broker.queues().await.ok()?;
        depths.into_iter().find(|depth| depth.name == "due" && depth.ready > 0)
    })
    .await;
    server.kill().unwrap();
    server.restart().await.unwrap();
    drain(&broker, "due", &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_connection_fails_publishing_immediately_and_acks_continue() {
    let (server, vhost) = own_server().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    publish_until_confirmed(&broker, &routed("before", 10)).await;
    let consumer = subscribe(&broker, QUEUE).await;
    let mut held = consumer.next().await.unwrap();
    while held.len() < 10 {
        held.extend(consumer.next().await.unwrap());
    }
    server.set_memory_alarm(true).await.unwrap();

    let begun = Instant::now();
    for attempt in 0..20 {
        let why = unreachable(publish(&broker, &routed(&format!("blocked-{attempt}"), 5)).await);
        assert!(why.contains("blocked") && why.contains("memory"), "{why}");
    }
    // An attempt that waited for confirms would alone take the whole timeout.
    assert!(
        begun.elapsed() < TIMEOUT,
        "20 attempts took {:?}, expected less than {TIMEOUT:?}",
        begun.elapsed()
    );
    assert!(broker.blocked().await.is_some());

    consumer.ack(&tags(&held[..5])).await.unwrap();
    consumer.nack(&tags(&held[5..]), Requeue::Yes).await.unwrap();
    let again = eventually("the acks arrived", || async {
        let depths = broker.queues().await.unwrap();
        depths.into_iter().find(|depth| depth.ready + depth.unacked == 5)
    })
    .await;
    assert_eq!(again.name, QUEUE);

    server.set_memory_alarm(false).await.unwrap();
    publish_until_confirmed(&broker, &routed("after", 10)).await;
    assert_eq!(broker.blocked().await, None);
    consumer.close().await.unwrap();
    let seen = drain(&broker, QUEUE, &routed("after", 10).into_iter().map(|(id, _)| id).collect()).await;
    // The first window may have been sent, because the block was detected during it; no later window was sent.
    assert!(!seen.iter().any(|id| id.starts_with("blocked-") && !id.starts_with("blocked-0-")), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_server_is_unreachable_and_leaks_no_threads() {
    if run_in_own_process("rabbitmq::outages::unresponsive_server_is_unreachable_and_leaks_no_threads") {
        return;
    }
    let (server, vhost) = own_server().await;
    let mut short_timeouts = settings(&vhost.url(), QueueType::Quorum);
    short_timeouts.confirm_timeout = Duration::from_millis(500);
    short_timeouts.connect_timeout = Duration::from_millis(300);
    short_timeouts.max_reconnect_pause = Duration::from_millis(200);
    let broker = RabbitBroker::new(short_timeouts);
    // A busy server may exceed these short timeouts, so the test repeats the declaration until it succeeds.
    eventually("the queue is declared", || async {
        broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await.ok()
    })
    .await;
    publish_until_confirmed(&broker, &routed("before", 1)).await;
    let threads = io_threads();
    server.pause().unwrap();
    // Between two connection attempts publishing fails immediately.
    let mut connecting = 0;
    let mut pausing = 0;
    let begun = Instant::now();
    while connecting < 8 || pausing < 8 {
        match unreachable(publish(&broker, &routed("lost", 5)).await).starts_with("not connected") {
            true => pausing += 1,
            false => connecting += 1,
        }
        assert!(
            begun.elapsed() < NOTICED_WITHIN,
            "{connecting} failures while connecting and {pausing} in a pause, expected 8 each"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eventually("threads end", || async { (io_threads() <= threads + 3).then_some(()) }).await;
    server.resume().unwrap();
    publish_until_confirmed(&broker, &routed("after", 5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_confirms_are_unknown_outcome_and_lose_no_message() {
    let vhost = vhost().await;
    let proxy = Proxy::start(shared().await.port()).await.unwrap();
    let mut short_timeouts = settings(&vhost.url_through(proxy.port()), QueueType::Quorum);
    short_timeouts.confirm_timeout = Duration::from_millis(500);
    let broker = RabbitBroker::new(short_timeouts);
    broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await.unwrap();
    publish_until_confirmed(&broker, &routed("before", 1)).await;
    proxy.set(Traffic { discard_from_server: true, ..Traffic::default() });
    unreachable(publish(&broker, &routed("unknown", 20)).await);
    proxy.set(Traffic::default());
    publish_until_confirmed(&broker, &routed("unknown", 20)).await;
    let wanted = routed("unknown", 20).into_iter().map(|(id, _)| id).collect();
    drain(&broker, QUEUE, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connection_is_reestablished_and_deliveries_are_redelivered() {
    let vhost = vhost().await;
    let proxy = Proxy::start(shared().await.port()).await.unwrap();
    let broker = declared(&vhost.url_through(proxy.port()), QueueType::Quorum).await;
    publish_until_confirmed(&broker, &routed("a", 5)).await;
    let consumer = subscribe(&broker, QUEUE).await;
    let held = consumer.next().await.unwrap();
    proxy.cut();
    let end = tokio::time::timeout(NOTICED_WITHIN, async {
        loop {
            if let Err(end) = consumer.next().await {
                return end;
            }
        }
    });
    assert!(matches!(end.await.expect("the cut must be detected"), BrokerError::Closed { .. }));
    assert!(
        consumer.ack(&tags(&held)).await.is_err(),
        "the ack of a delivery must fail after its connection is closed"
    );
    let seen = drain(&broker, QUEUE, &routed("a", 5).into_iter().map(|(id, _)| id).collect()).await;
    assert_eq!(seen.len(), 5);
    publish_until_confirmed(&broker, &routed("b", 5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_closed_by_administrator_are_reestablished() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    publish_until_confirmed(&broker, &routed("a", 5)).await;
    let consumer = subscribe(&broker, QUEUE).await;
    vhost.close_connections().await.unwrap();
    eventually("the subscription ends", || async { consumer.next().await.err() }).await;
    publish_until_confirmed(&broker, &routed("b", 5)).await;
    let wanted = routed("a", 5).into_iter().chain(routed("b", 5)).map(|(id, _)| id).collect();
    drain(&broker, QUEUE, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consumer_removed_by_server_ends_and_can_resubscribe() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    let consumer = subscribe(&broker, QUEUE).await;
    publish_until_confirmed(&broker, &routed("before", 3)).await;
    let held = consumer.next().await.unwrap();
    consumer.ack(&tags(&held)).await.unwrap();
    vhost.remove_consumers(QUEUE).await.unwrap();
    publish_until_confirmed(&broker, &routed("after", 3)).await;
    let end = tokio::time::timeout(NOTICED_WITHIN, async {
        loop {
            match consumer.next().await {
                // Messages that were delivered before the server removed the consumer can still be acked.
                Ok(deliveries) => consumer.ack(&tags(&deliveries)).await.unwrap(),
                Err(end) => return end,
            }
        }
    });
    assert!(matches!(end.await.expect("the end must be detected"), BrokerError::Closed { .. }));
    drain(&broker, QUEUE, &routed("after", 3).into_iter().map(|(id, _)| id).collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscription_with_late_response_blocks_no_message_of_next_subscription() {
    let vhost = vhost().await;
    let proxy = Proxy::start(shared().await.port()).await.unwrap();
    let mut short_timeouts = settings(&vhost.url_through(proxy.port()), QueueType::Quorum);
    short_timeouts.reply_timeout = Duration::from_millis(500);
    let broker = RabbitBroker::new(short_timeouts);
    // A busy server may exceed this short timeout, so the test repeats the declaration until it succeeds.
    eventually("the queue is declared", || async {
        broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await.ok()
    })
    .await;
    publish_until_confirmed(&broker, &routed("before", 1)).await;
    proxy.pause_after(CONSUME);
    unreachable(broker.subscribe(QUEUE, 100.try_into().unwrap()).await.map(drop));
    proxy.set(Traffic::default());
    publish_until_confirmed(&broker, &routed("after", 40)).await;
    let wanted = routed("before", 1).into_iter().chain(routed("after", 40)).map(|(id, _)| id).collect();
    drain(&broker, QUEUE, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topology_declared_during_outage_exists_after_reconnect() {
    let vhost = vhost().await;
    let proxy = Proxy::start(shared().await.port()).await.unwrap();
    proxy.set(Traffic { refuse: true, ..Traffic::default() });
    let broker = RabbitBroker::new(settings(&vhost.url_through(proxy.port()), QueueType::Quorum));
    unreachable(broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await);
    unreachable(publish(&broker, &routed("early", 1)).await);
    proxy.set(Traffic::default());
    publish_until_confirmed(&broker, &routed("after", 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_is_not_returned_while_topology_is_partly_declared() {
    let vhost = vhost().await;
    let proxy = Proxy::start(shared().await.port()).await.unwrap();
    let broker = RabbitBroker::new(settings(&vhost.url_through(proxy.port()), QueueType::Quorum));
    // The queue is declared, but its binding is not.
    proxy.cut_after(QUEUE);
    unreachable(broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await);
    // The first window that does not fail as a whole must be confirmed: a returned message would count an attempt.
    let window = routed("early", 1);
    let outcomes = eventually("publishing succeeds", || async { publish(&broker, &window).await.ok() }).await;
    assert!(outcomes.iter().all(is_confirmed), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_network_only_adds_latency() {
    let vhost = vhost().await;
    let proxy = Proxy::start(shared().await.port()).await.unwrap();
    let broker = declared(&vhost.url_through(proxy.port()), QueueType::Quorum).await;
    proxy.set(Traffic { delay: Duration::from_millis(40), ..Traffic::default() });
    let window = routed("slow", 100);
    let outcomes = publish(&broker, &window).await.unwrap();
    assert!(outcomes.iter().all(is_confirmed), "{outcomes:?}");
    let seen = drain(&broker, QUEUE, &window.into_iter().map(|(id, _)| id).collect()).await;
    assert_eq!(seen.len(), 100, "a message was delivered twice");
}
