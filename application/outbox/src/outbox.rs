//! [`Outbox`]: store, broker, event types and consumers of one process.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::alert::Alert;
use crate::archive::{ArchiveParts, ArchiveStorage, NeededEvents, RetentionPolicy};
use crate::backlog::BacklogCount;
use crate::broker_outage::BrokerOutage;
use crate::figures::FiguresOfProcess;
use crate::handler::{Guarantee, Subscriber};
use crate::ports::{Broker, IdleConsumers, OnFailed, RandomSource, StoreError, View};
use crate::registry::{EventRegistry, EventSpec};
use crate::running_settings::{RunningSetting, SettingsOfProcess};
use crate::settings::ConsumeOrder;
use crate::spans::{Spans, TraceContext};
use crate::summary::EventSummary;
use crate::tasks::Tasks;
use crate::texts::Texts;
use crate::topology::Topology;
use crate::transaction::Transactor;

/// A queue and the consumer that receives its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerQueue {
    /// Name of the queue.
    pub queue: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Event types that the consumer applies in this process.
    pub event_types: Vec<String>,
    /// How often each event takes effect.
    pub guarantee: Guarantee,
    /// Whether the consumer applies the events of an aggregate in order.
    pub is_ordered: bool,
}

/// Everything that the relay, consumers, dead-letter drainer and operators of one process need. Clones share it.
#[derive(Clone)]
pub struct Outbox {
    /// Runs units of work.
    pub tx: Transactor,
    /// Message broker.
    pub broker: Arc<dyn Broker>,
    /// Registered event types.
    pub registry: Arc<EventRegistry>,
    /// Topology that the broker must provide.
    pub(crate) topology: Arc<Topology>,
    /// The consumers with their queues.
    pub(crate) consumers: Arc<[ConsumerQueue]>,
    /// Effect of a `FAILED` event on later events of its aggregate (`outbox.on-failed`).
    pub(crate) on_failed: OnFailed,
    /// The current outage of the broker, for its log lines.
    pub(crate) outage: Arc<BrokerOutage>,
    summary: EventSummary,
    /// Spans of relay and consumers; `None`: they open none.
    pub(crate) spans: Option<Spans>,
    /// Texts about failed events and duplicates.
    pub(crate) texts: Arc<Texts>,
    /// Alerts, with their limits.
    pub(crate) alerts: Arc<[Alert]>,
    /// Figures of this process.
    pub(crate) figures: Arc<FiguresOfProcess>,
    /// Settings of this process.
    pub(crate) settings: Arc<SettingsOfProcess>,
    /// Counts the events that wait.
    pub(crate) backlog: Arc<BacklogCount>,
    /// The archive; `None`: it is off.
    pub(crate) archive: Option<ArchiveParts>,
    /// Tasks with the permits of handlers; `None`: those of `tx`.
    pub(crate) handler_tasks: Option<Tasks>,
}

impl Outbox {
    /// An outbox without event types and consumers, with this topology.
    pub fn new(tx: Transactor, broker: Arc<dyn Broker>, topology: Topology) -> Outbox {
        Outbox {
            tx,
            broker,
            registry: Arc::default(),
            topology: Arc::new(topology),
            consumers: Arc::new([]),
            on_failed: OnFailed::default(),
            outage: Arc::default(),
            summary: EventSummary::default(),
            spans: None,
            texts: Arc::default(),
            alerts: Arc::new([]),
            figures: Arc::default(),
            settings: Arc::default(),
            backlog: Arc::default(),
            archive: None,
            handler_tasks: None,
        }
    }

    /// Registers an event type. A name that is already registered keeps its first registration.
    pub fn with_event(self, spec: EventSpec) -> Outbox {
        let registry = EventRegistry::clone(&self.registry).with(spec);
        Outbox { registry: Arc::new(registry), ..self }
    }

    /// Replaces the registered event types.
    pub fn with_registry(self, registry: Arc<EventRegistry>) -> Outbox {
        Outbox { registry, ..self }
    }

    /// Sets the effect of a `FAILED` event on later events of its aggregate.
    pub fn with_on_failed(self, on_failed: OnFailed) -> Outbox {
        Outbox { on_failed, ..self }
    }

    /// Replaces the English texts about failed events and duplicates.
    pub fn with_texts(self, texts: Texts) -> Outbox {
        Outbox { texts: Arc::new(texts), ..self }
    }

    /// Sets the alerts of the deployment, with their limits: those of the toolkit ([`crate::state::ALERTS`]) and of the
    /// application. Without this call there are none.
    pub fn with_alerts(self, alerts: impl IntoIterator<Item = Alert>) -> Outbox {
        Outbox { alerts: alerts.into_iter().collect(), ..self }
    }

    /// Sets the archive ([`Archive`](crate::archive::Archive)): its storage, how long events stay in the outbox, and which
    /// events the application needs there. Without this call the archive is off.
    pub fn with_archive(
        self,
        storage: Arc<dyn ArchiveStorage>,
        policy: RetentionPolicy,
        application: Arc<dyn NeededEvents>,
    ) -> Outbox {
        Outbox { archive: Some(ArchiveParts::new(storage, policy, application)), ..self }
    }

    /// Sets the settings that this process reports to the database, for operators of all tenants
    /// ([`running_settings`](crate::operations::running_settings)). MUST contain no secret. Clones share them.
    pub fn report_settings(&self, settings: Vec<RunningSetting>) {
        self.settings.set(settings);
    }

    /// Lets relay and consumers open spans. `system` is `rabbitmq`, or `handover` if messages are rows of the database.
    pub fn with_spans(self, context: Arc<dyn TraceContext>, system: &'static str) -> Outbox {
        Outbox { spans: Some(Spans::new(context, system)), ..self }
    }

    /// Adds a consumer and declares its queue with these binding patterns (`*` matches one word, `#` any number).
    /// Messages that the consumer rejects are dead-lettered.
    pub fn with_consumer<U: ?Sized + 'static>(self, subscriber: &Subscriber<U>, bindings: &[&str]) -> Outbox {
        let topology = Topology::clone(&self.topology).with(&subscriber.queue, bindings);
        Outbox { topology: Arc::new(topology), ..self }.with_handler_of(subscriber)
    }

    /// Lets events exclude this queue of the topology: it gets no message of an event of which its consumer is one of the
    /// [`IdleConsumers`].
    ///
    /// Every process needs this call. While a relay is live that does not know of it, or that knows other bindings of the queue, as
    /// during a rolling deployment, the queue gets every message that matches its bindings; events that exclude it are ignored. With
    /// RabbitMQ this begins within 10 seconds after the start of such a relay: what it has published before is applied by the sweep of the
    /// consumer, after about a minute.
    pub fn with_selective_queue(self, queue: &str) -> Outbox {
        let topology = Topology::clone(&self.topology).selective(queue);
        Outbox { topology: Arc::new(topology), ..self }
    }

    /// Adds a consumer of events that another outbox publishes to this exchange of the same broker. An event that it receives
    /// becomes a row of this outbox, `SENT` since its reception; from then on it is like an event of this outbox.
    ///
    /// The aggregate types of these events MUST be none of those about which this outbox publishes events, and all of one
    /// aggregate type MUST come from one exchange: otherwise positions of two origins would be mixed.
    pub fn with_receiving_consumer<U: ?Sized + 'static>(
        self,
        subscriber: &Subscriber<U>,
        exchange: &str,
        bindings: &[&str],
    ) -> Outbox {
        let outbox = self.with_consumer(subscriber, bindings);
        let topology = Topology::clone(&outbox.topology).receiving(&subscriber.queue, exchange);
        Outbox { topology: Arc::new(topology), ..outbox }
    }

    /// Adds the consumer of a queue that is already part of the topology.
    pub fn with_handler_of<U: ?Sized + 'static>(self, subscriber: &Subscriber<U>) -> Outbox {
        let added = ConsumerQueue {
            queue: subscriber.queue.clone().into_owned(),
            consumer: subscriber.name().to_owned(),
            event_types: subscriber.event_types().into_iter().map(str::to_owned).collect(),
            guarantee: subscriber.handler.guarantee(),
            is_ordered: match subscriber.settings.order {
                ConsumeOrder::Sequence => true,
                ConsumeOrder::Any => false,
            },
        };
        Outbox { consumers: self.consumers.iter().cloned().chain([added]).collect(), ..self }
    }

    /// Returns the same outbox for background work. It uses separate permits, so that background work does not wait
    /// behind requests.
    pub fn for_background_tasks(&self) -> Outbox {
        Outbox { tx: self.tx.for_background_tasks(), ..self.clone() }
    }

    /// Lets at most this many units of work in which handlers run be open at the same time. Handlers take as long as they
    /// like: the others of this process, such as those of the relay, shall not wait for them at a pool of connections.
    #[must_use]
    pub fn with_handler_units(&self, max: usize) -> Outbox {
        Outbox { handler_tasks: Some(self.tx.tasks().with_own_units(max)), ..self.clone() }
    }

    /// Name of the consumer of a queue.
    pub fn consumer_of(&self, queue: &str) -> Option<&str> {
        self.consumers.iter().rfind(|it| it.queue == queue).map(|it| it.consumer.as_str())
    }

    /// The selective queues of these consumers.
    pub(crate) fn queues_of(&self, consumers: &IdleConsumers) -> BTreeSet<String> {
        let queues = self.consumers.iter().filter(|it| consumers.contains(&it.consumer)).map(|it| &it.queue);
        queues.filter(|queue| self.is_selective(queue)).cloned().collect()
    }

    /// Whether the queue gets only events with which its consumer has work.
    pub(crate) fn is_selective(&self, queue: &str) -> bool {
        self.topology.queues.iter().any(|spec| spec.is_selective && spec.name == queue)
    }

    /// Exchange of another outbox from which the queue receives events.
    pub(crate) fn receives_from(&self, queue: &str) -> Option<&str> {
        let spec = self.topology.queues.iter().find(|spec| spec.name == queue)?;
        spec.receives_from.as_deref()
    }

    /// Whether this outbox publishes events about this aggregate type, as far as this process knows.
    pub(crate) fn publishes_about(&self, aggregate_type: &str) -> bool {
        let receiving = self.consumers.iter().filter(|it| self.receives_from(&it.queue).is_some());
        let received: BTreeSet<&str> =
            receiving.flat_map(|it| it.event_types.iter().map(String::as_str)).collect();
        let types = self.registry.aggregate_types_by_event();
        types
            .filter(|(event_type, _)| !received.contains(event_type))
            .any(|(_, about)| about == aggregate_type)
    }

    /// Topology that the broker must provide.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Summary of the events of this process.
    pub(crate) fn summary(&self) -> &EventSummary {
        &self.summary
    }

    /// The consumers with their queues.
    pub fn consumers(&self) -> &[ConsumerQueue] {
        &self.consumers
    }

    /// Effect of a `FAILED` event on later events of its aggregate.
    pub fn on_failed(&self) -> OnFailed {
        self.on_failed
    }

    /// Current time of the deployment's clock.
    pub fn now(&self) -> DateTime<Utc> {
        self.tx.now()
    }

    /// Waits for a time of the deployment's clock.
    pub async fn sleep(&self, duration: Duration) {
        self.tx.sleep(duration).await;
    }

    /// Tasks of the process.
    pub fn tasks(&self) -> &Tasks {
        self.tx.tasks()
    }

    /// Runs a future as a task of the process ([`Tasks::spawn`]).
    pub fn spawn<F>(&self, work: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tx.spawn(work)
    }

    /// Token that is cancelled when the process has to stop.
    pub fn stopping(&self) -> &CancellationToken {
        self.tx.stopping()
    }

    /// Random source of the process.
    pub fn random(&self) -> &Arc<dyn RandomSource> {
        self.tx.random()
    }

    /// Begins a view of the store, for reads outside of a transaction.
    pub async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.tx.view().await
    }
}
