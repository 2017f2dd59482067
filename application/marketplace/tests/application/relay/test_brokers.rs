//! Brokers for relay tests: a mock with scripted replies that records its windows, and a slow broker.

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use handover_memory::MemoryBroker;
use handover_outbox::ports::*;
use handover_outbox::topology::Topology;
use handover_outbox::wrap::BrokerWrapper;
use tokio::time::Instant;

use crate::support::pass;

mockall::mock! {
    RelayBroker {}

    #[async_trait]
    impl Broker for RelayBroker {
        async fn declare(&self, topology: &Topology) -> Result<(), BrokerError>;
        async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError>;
        async fn subscribe(
            &self,
            queue: &str,
            prefetch: NonZeroU16,
        ) -> Result<Box<dyn Subscription>, BrokerError>;
        async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError>;
        async fn load(&self, queues: &[String], up_to: u32) -> Result<Vec<QueueLoad>, BrokerError>;
        async fn blocked(&self) -> Option<String>;
    }
}

/// Reply of the broker to one message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BrokerReply {
    Confirm,
    Return,
    Nack,
    Unknown,
}

impl BrokerReply {
    #[allow(clippy::disallowed_methods, reason = "simulates a broker that confirms the message")]
    fn outcome(self, outgoing: Outgoing) -> PublishOutcome {
        match self {
            BrokerReply::Confirm => outgoing.confirmed(),
            BrokerReply::Return => outgoing.returned("NO_ROUTE"),
            BrokerReply::Nack => outgoing.nacked("the disk is full"),
            BrokerReply::Unknown => outgoing.unknown("the connection was lost before the confirm"),
        }
    }
}

/// One message that was passed to the broker.
#[derive(Debug, Clone)]
pub(crate) struct Publication {
    pub(crate) at: Instant,
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) message: Message,
}

/// The windows that were passed to the broker.
#[derive(Clone, Default)]
pub(crate) struct Windows(Arc<Mutex<Vec<Vec<Publication>>>>);

impl Windows {
    fn add(&self, window: &[Outgoing]) {
        let publication = |outgoing: &Outgoing| Publication {
            at: Instant::now(),
            id: outgoing.event_id().to_string(),
            key: match outgoing.route() {
                Route::Topic(key) | Route::Queue(key) => key.clone(),
            },
            message: outgoing.message().clone(),
        };
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.push(window.iter().map(publication).collect());
    }

    pub(crate) fn all(&self) -> Vec<Publication> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).concat()
    }

    /// Event ids of each window that was passed to the broker.
    pub(crate) fn ids(&self) -> Vec<Vec<String>> {
        let windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.iter().map(|window| window.iter().map(|it| it.id.clone()).collect()).collect()
    }

    /// Pauses between the publishes of one event.
    pub(crate) fn pauses(&self, id: &str) -> Vec<Duration> {
        let times: Vec<Instant> = self.all().into_iter().filter(|it| it.id == id).map(|it| it.at).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

/// Creates a broker that replies to each window with the result of `reply`.
pub(crate) fn mock_broker(
    reply: impl Fn(&[Outgoing]) -> Result<Vec<BrokerReply>, BrokerError> + Send + Sync + 'static,
) -> (Arc<dyn Broker>, Windows) {
    let mut broker = MockRelayBroker::new();
    let windows = Windows::default();
    let recorded = windows.clone();
    broker.expect_blocked().returning(|| None);
    broker.expect_load().returning(|_, _| Ok(Vec::new()));
    broker.expect_publish().returning(move |window| {
        recorded.add(&window);
        let replies = reply(&window)?;
        assert_eq!(replies.len(), window.len());
        Ok(window.into_iter().zip(replies).map(|(outgoing, reply)| reply.outcome(outgoing)).collect())
    });
    (Arc::new(broker), windows)
}

/// Creates a broker that replies by event id.
pub(crate) fn mock_broker_by_id(
    reply: impl Fn(&str) -> BrokerReply + Send + Sync + 'static,
) -> (Arc<dyn Broker>, Windows) {
    mock_broker(move |window| Ok(window.iter().map(|outgoing| reply(outgoing.event_id().as_str())).collect()))
}

/// Creates a broker that confirms every message.
pub(crate) fn confirming_broker() -> (Arc<dyn Broker>, Windows) {
    mock_broker_by_id(|_| BrokerReply::Confirm)
}

/// The in-memory broker with slow replies: messages are stored at once, the outcomes are returned late.
pub(crate) struct SlowBroker {
    inner: MemoryBroker,
    first: Mutex<Duration>,
    later: Duration,
}

impl SlowBroker {
    /// Delays the first reply by `first` and each later reply by `later`.
    pub(crate) fn each(inner: &MemoryBroker, first: Duration, later: Duration) -> Arc<SlowBroker> {
        Arc::new(SlowBroker { inner: inner.clone(), first: Mutex::new(first), later })
    }

    /// Delays only the first reply.
    pub(crate) fn first(inner: &MemoryBroker, delay: Duration) -> Arc<SlowBroker> {
        SlowBroker::each(inner, delay, Duration::ZERO)
    }
}

#[async_trait]
impl BrokerWrapper for SlowBroker {
    fn inner(&self) -> &dyn Broker {
        &self.inner
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let delay =
            std::mem::replace(&mut *self.first.lock().unwrap_or_else(PoisonError::into_inner), self.later);
        let outcomes = self.inner().publish(window).await;
        pass(delay).await;
        outcomes
    }
}
