//! Three nodes: under load, the test kills the node that is the leader of the queue and has the client's connection.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use handover_tests::servers::rabbitmq::RabbitCluster;

use super::*;

/// Maximum time until messages are confirmed and delivered again.
const RECOVERY_WITHIN: Duration = Duration::from_secs(30);

/// Progress of publisher and consumer, in numbered windows of messages.
#[derive(Default)]
struct Traffic {
    stop: AtomicBool,
    /// Number of the last window whose messages were all confirmed.
    confirmed: AtomicUsize,
    /// Number of the last window of which a message was delivered.
    delivered: AtomicUsize,
    seen: Mutex<BTreeSet<String>>,
}

/// Publishes one window after another, each until it is completely confirmed. Returns the ids of all confirmed
/// messages.
async fn publish_continuously(broker: RabbitBroker, traffic: Arc<Traffic>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for round in 1.. {
        let window = routed(&round.to_string(), 50);
        while !traffic.stop.load(Ordering::SeqCst) {
            match publish(&broker, &window).await {
                Ok(outcomes) => {
                    all.extend(confirmed(&outcomes));
                    if outcomes.iter().all(is_confirmed) {
                        break;
                    }
                }
                response => drop(unreachable(response)),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if traffic.stop.load(Ordering::SeqCst) {
            return all;
        }
        traffic.confirmed.store(round, Ordering::SeqCst);
    }
    unreachable!("the loop returns when the traffic is stopped")
}

/// Receives and acks all messages.
async fn consume_continuously(broker: RabbitBroker, traffic: Arc<Traffic>) {
    loop {
        let Ok(consumer) = broker.subscribe(QUEUE, 100.try_into().unwrap()).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while let Ok(deliveries) = consumer.next().await {
            let ids = ids(&deliveries);
            let rounds = ids.iter().filter_map(|id| id.split_once('-')?.0.parse::<usize>().ok());
            traffic.delivered.fetch_max(rounds.max().unwrap_or(0), Ordering::SeqCst);
            traffic.seen.lock().unwrap().extend(ids);
            // If the ack fails, the messages are delivered again.
            let _ = consumer.ack(&tags(&deliveries)).await;
        }
    }
}

/// Waits until a window that starts from now on is confirmed and delivered. Returns both durations.
async fn wait_for_progress(traffic: &Traffic) -> (Duration, Duration) {
    let begun = Instant::now();
    let now = traffic.confirmed.load(Ordering::SeqCst);
    let after = async |what: &str, counter: &AtomicUsize| {
        eventually(what, || async { (counter.load(Ordering::SeqCst) >= now + 2).then(|| begun.elapsed()) })
            .await
    };
    tokio::join!(after("confirms", &traffic.confirmed), after("deliveries", &traffic.delivered))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: three nodes, kills under load; faults::cluster kills a leader under the whole program"]
async fn cluster_loses_no_confirmed_message_when_leader_and_majority_are_killed() {
    let kills = if handover_tests::long() { 6 } else { 2 };
    let cluster = RabbitCluster::start().await.expect("RabbitMQ must start");
    // The broker has its default timeouts: if a node responds too late, the broker connects to another node.
    let broker = RabbitBroker::new(handover_tests::rabbit_rigs::settings(&cluster.url(), QueueType::Quorum));
    broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await.unwrap();
    cluster.wait_until_replicated().await.unwrap();
    let traffic = Arc::new(Traffic::default());
    let publishing = tokio::spawn(publish_continuously(broker.clone(), Arc::clone(&traffic)));
    let consuming = tokio::spawn(consume_continuously(broker.clone(), Arc::clone(&traffic)));
    let mut running = 0;
    for round in 0..kills {
        wait_for_progress(&traffic).await;
        // Kill in turn the node of the publishing connection and the node of the consuming connection.
        let purpose = ["handover: publishing", "handover: consuming"][round % 2];
        let node = cluster.node_of_connection(purpose, running).await.unwrap();
        cluster.make_leader(QUEUE, node).await.unwrap();
        wait_for_progress(&traffic).await;
        assert_eq!(cluster.leader(QUEUE, node).await.unwrap(), node);
        cluster.kill(node).unwrap();
        let (confirmed, delivered) = wait_for_progress(&traffic).await;
        println!(
            "leader {} killed: confirmed again after {confirmed:?}, delivered after {delivered:?}",
            cluster.names()[node]
        );
        assert!(confirmed.max(delivered) < RECOVERY_WITHIN, "{confirmed:?}, {delivered:?}");
        cluster.restart(node).await.unwrap();
        cluster.wait_until_replicated().await.unwrap();
        running = node;
    }
    // One of three nodes is not a majority: this is an outage, not an error of the messages.
    let others = [(running + 1) % 3, (running + 2) % 3];
    for node in others {
        cluster.kill(node).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = traffic.confirmed.load(Ordering::SeqCst);
    for attempt in 0..3 {
        let why = unreachable(publish(&broker, &routed(&format!("minority-{attempt}"), 5)).await);
        println!("without a majority: {why}");
    }
    assert_eq!(traffic.confirmed.load(Ordering::SeqCst), before, "a window was confirmed without a majority");
    tokio::try_join!(cluster.restart(others[0]), cluster.restart(others[1])).unwrap();
    let (confirmed, delivered) = wait_for_progress(&traffic).await;
    println!(
        "a majority is available again: confirmed again after {confirmed:?}, delivered after {delivered:?}"
    );
    assert!(confirmed.max(delivered) < RECOVERY_WITHIN, "{confirmed:?}, {delivered:?}");
    traffic.stop.store(true, Ordering::SeqCst);
    let confirmed = publishing.await.unwrap();
    let missing = || confirmed.difference(&traffic.seen.lock().unwrap()).cloned().collect::<Vec<_>>();
    let begun = Instant::now();
    while !missing().is_empty() && begun.elapsed() < NOTICED_WITHIN {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        missing().is_empty(),
        "{} of {} messages are lost: {:?}",
        missing().len(),
        confirmed.len(),
        missing()
    );
    println!("{} confirmed, none lost", confirmed.len());
    consuming.abort();
}
