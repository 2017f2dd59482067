//! Events that mean no work for a consumer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::ConsumeStatus;
use handover_memory::MemoryBroker;
use handover_outbox::consumers::Subscriber;
use handover_outbox::ports::*;
use handover_outbox::topology::Topology;
use handover_outbox::wrap::BrokerWrapper;

use crate::library::{Library, QUEUE, eventually};
use crate::{Loans, lent, noted};

fn library() -> Library {
    let mut library = Library::sending([lent(), noted()]).with(&Subscriber::new(QUEUE, Arc::new(Loans)));
    library.outbox = library.outbox.with_selective_queue(QUEUE);
    library
}

impl Library {
    fn lent_without_work(&self, id: &str, seq: i64) -> NewEvent {
        let event = self.event(id, "BOOK_LENT", 7, seq, r#"{"reader":3}"#);
        NewEvent { idle_consumers: ["loans"].into_iter().collect(), ..event }
    }

    async fn status_at_loans(&self, id: &str) -> Option<ConsumeStatus> {
        let mut view = self.tx.view().await.unwrap();
        let record = view.outbox_view().consumption("loans", &id.parse().unwrap()).await.unwrap();
        record.map(|record| record.status)
    }
}

#[tokio::test(start_paused = true)]
async fn event_is_neither_delivered_to_an_idle_consumer_nor_awaited_by_it_nor_found_lost() {
    let library = library().started().await;
    let with_work = library.event("second", "BOOK_LENT", 7, 2, r#"{"reader":3}"#);
    library.commit(vec![library.lent_without_work("first", 1), with_work]).await;
    eventually(async || library.status_at_loans("second").await == Some(ConsumeStatus::Success)).await;
    // Longer than any interval after which a sweep looks for lost events.
    library.outbox.sleep(Duration::from_secs(3_600)).await;
    assert_eq!(library.row("first").await.status, handover_events::OutboxStatus::Sent);
    assert_eq!(library.status_at_loans("first").await, None);
    // A message of a relay that excludes no queue.
    library.deliver("first").await;
    eventually(async || library.is_settled_at(QUEUE).await).await;
    assert_eq!(library.status_at_loans("first").await, None);
}

/// Remembers whether each declaration had older relays.
struct Declarations {
    inner: MemoryBroker,
    had_older_relays: Mutex<Vec<bool>>,
}

#[async_trait]
impl BrokerWrapper for Declarations {
    fn inner(&self) -> &dyn Broker {
        &self.inner
    }

    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.had_older_relays.lock().unwrap().push(topology.has_older_relays);
        self.inner().declare(topology).await
    }
}

#[tokio::test(start_paused = true)]
async fn bindings_of_a_selective_queue_are_in_effect_while_a_relay_is_live_that_does_not_know_them() {
    // Of a process of the previous version of the service, in which the consumer did not take LOAN_NOTED.
    let previous = Topology::new("library.events", "library.dead", "dead").with(QUEUE, &["book.lent"]);
    for (relay, expected) in [
        (RelayId("relay-v4-0".to_owned()), vec![true, false]),
        (RelayId("relay-v5-0".to_owned()), vec![true, false]),
        (RelayId::new(0, &previous.selective(QUEUE)), vec![true, false]),
        (RelayId::new(0, library().outbox.topology()), vec![false]),
    ] {
        let mut library = library();
        let broker =
            Arc::new(Declarations { inner: library.broker.clone(), had_older_relays: Mutex::default() });
        let mut unit = library.tx.begin().await.unwrap();
        unit.outbox().heartbeat(&relay, 30_000).await.unwrap();
        unit.commit().await.unwrap();
        library.outbox.broker = Arc::clone(&broker) as Arc<_>;
        library.prepare().await;
        library.outbox.sleep(Duration::from_secs(120)).await;
        let mut seen = broker.had_older_relays.lock().unwrap().clone();
        seen.dedup();
        assert_eq!(seen, expected, "{relay}");
        // As after a step back to the previous version.
        let mut unit = library.tx.begin().await.unwrap();
        unit.outbox().heartbeat(&RelayId("relay-v4-1".to_owned()), 30_000).await.unwrap();
        unit.commit().await.unwrap();
        library.outbox.sleep(Duration::from_secs(120)).await;
        let seen = broker.had_older_relays.lock().unwrap().clone();
        assert_eq!(seen[seen.len() - 2..], [true, false], "{relay}");
    }
}
