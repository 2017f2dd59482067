//! A broker that does as it is told, and remembers what it was given.

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use handover_memory::MemoryBroker;
use handover_outbox::ports::*;
use handover_outbox::topology::Topology;
use tokio::time::Instant;

use crate::support::pass;

mockall::mock! {
    Carrier {}

    #[async_trait]
    impl Broker for Carrier {
        async fn declare(&self, topology: &Topology) -> Result<(), BrokerError>;
        async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError>;
        async fn subscribe(
            &self,
            queue: &str,
            prefetch: NonZeroU16,
        ) -> Result<Box<dyn Subscription>, BrokerError>;
        async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError>;
        async fn blocked(&self) -> Option<String>;
    }
}

/// What the broker says about one message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    Confirm,
    Return,
    Nack,
    Unknown,
}

impl Fate {
    #[allow(clippy::disallowed_methods, reason = "plays the broker that has taken the message")]
    fn of(self, outgoing: Outgoing) -> PublishOutcome {
        match self {
            Fate::Confirm => outgoing.confirmed(),
            Fate::Return => outgoing.returned("NO_ROUTE"),
            Fate::Nack => outgoing.nacked("the disk is full"),
            Fate::Unknown => outgoing.unknown("the connection was lost before the confirm"),
        }
    }
}

/// One message as the broker was given it.
#[derive(Debug, Clone)]
pub(crate) struct Publication {
    pub(crate) at: Instant,
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) message: Message,
}

/// Every window that the broker was given.
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

    /// The ids of each window.
    pub(crate) fn ids(&self) -> Vec<Vec<String>> {
        let windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.iter().map(|window| window.iter().map(|it| it.id.clone()).collect()).collect()
    }

    /// Between which pauses one event was published.
    pub(crate) fn pauses(&self, id: &str) -> Vec<Duration> {
        let times: Vec<Instant> = self.all().into_iter().filter(|it| it.id == id).map(|it| it.at).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

/// A broker whose answer to each window is this one's.
pub(crate) fn carrier(
    answer: impl Fn(&[Outgoing]) -> Result<Vec<Fate>, BrokerError> + Send + Sync + 'static,
) -> (Arc<dyn Broker>, Windows) {
    let (mut broker, windows) = (MockCarrier::new(), Windows::default());
    let seen = windows.clone();
    broker.expect_blocked().returning(|| None);
    broker.expect_publish().returning(move |window| {
        seen.add(&window);
        let fates = answer(&window)?;
        assert_eq!(fates.len(), window.len());
        Ok(window.into_iter().zip(fates).map(|(outgoing, fate)| fate.of(outgoing)).collect())
    });
    (Arc::new(broker), windows)
}

/// A broker that decides by event id.
pub(crate) fn carrier_by_id(
    fate: impl Fn(&str) -> Fate + Send + Sync + 'static,
) -> (Arc<dyn Broker>, Windows) {
    carrier(move |window| Ok(window.iter().map(|outgoing| fate(outgoing.event_id().as_str())).collect()))
}

/// A broker that takes everything.
pub(crate) fn willing() -> (Arc<dyn Broker>, Windows) {
    carrier_by_id(|_| Fate::Confirm)
}

/// The broker in memory behind a slow line: what it is given arrives at once, the answer late.
pub(crate) struct Slow {
    inner: MemoryBroker,
    first: Mutex<Duration>,
    later: Duration,
}

impl Slow {
    /// The first answer takes that long, and each later one so long.
    pub(crate) fn each(inner: &MemoryBroker, first: Duration, later: Duration) -> Arc<Slow> {
        Arc::new(Slow { inner: inner.clone(), first: Mutex::new(first), later })
    }

    /// The first answer takes that long.
    pub(crate) fn first(inner: &MemoryBroker, takes: Duration) -> Arc<Slow> {
        Slow::each(inner, takes, Duration::ZERO)
    }
}

#[async_trait]
impl Broker for Slow {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.inner.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let takes =
            std::mem::replace(&mut *self.first.lock().unwrap_or_else(PoisonError::into_inner), self.later);
        let outcomes = self.inner.publish(window).await;
        pass(takes).await;
        outcomes
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        self.inner.subscribe(queue, prefetch).await
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.inner.queues().await
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}
