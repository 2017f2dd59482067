//! Exchange, queues and bindings that a service needs from its broker.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::storable_text::hash;

/// A queue with its bindings and dead-letter settings. Dead letters always pass through the topic exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpec {
    /// Name of the queue.
    pub name: String,
    /// Binding patterns of the topic exchange: words separated by dots; `*` matches one word, `#` any number of
    /// words.
    pub bindings: Vec<String>,
    /// Messages that wait longer than this are dead-lettered.
    pub ttl: Option<Duration>,
    /// Routing key for rejected and expired messages. With `None` they are dropped.
    pub dead_letter_key: Option<String>,
    /// Whether the queue is selective: a message can exclude it ([`Outgoing::excluding`](crate::ports::Outgoing::excluding)).
    pub is_selective: bool,
    /// Exchange of another outbox: the queue also gets the messages of this exchange that match its bindings, and delivers to
    /// one subscription at a time, so that events are received in the order in which they were published.
    pub receives_from: Option<String>,
}

/// Topology that the broker must provide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Topic exchange to which every event is published.
    pub exchange: String,
    /// All queues, including the dead-letter queue.
    pub queues: Vec<QueueSpec>,
    /// Name of the queue that receives dead letters.
    pub dead_letter_queue: String,
    /// Routing key for dead letters.
    pub dead_letter_key: String,
    /// Whether relays are live whose messages do not name the selective queues of this topology, because they are of an older
    /// version, or of a program with other consumers or event types. A broker then delivers messages by the bindings, also to
    /// selective queues.
    pub has_older_relays: bool,
}

impl Topology {
    /// A topology with an exchange and a dead-letter queue that is bound to it with `dead_letter_key`.
    pub fn new(exchange: &str, dead_letter_queue: &str, dead_letter_key: &str) -> Topology {
        let dead_letters = QueueSpec {
            name: dead_letter_queue.to_owned(),
            bindings: vec![dead_letter_key.to_owned()],
            ttl: None,
            dead_letter_key: None,
            is_selective: false,
            receives_from: None,
        };
        Topology {
            exchange: exchange.to_owned(),
            queues: vec![dead_letters],
            dead_letter_queue: dead_letter_queue.to_owned(),
            dead_letter_key: dead_letter_key.to_owned(),
            has_older_relays: false,
        }
    }

    /// Whether a queue is selective.
    pub fn has_selective_queues(&self) -> bool {
        self.queues.iter().any(|spec| spec.is_selective)
    }

    /// Eight hexadecimal digits that are equal for topologies with the same selective queues and bindings.
    pub(crate) fn selective_digest(&self) -> String {
        let selective = self.queues.iter().filter(|spec| spec.is_selective);
        let bound: BTreeSet<(&str, &str)> = selective
            .flat_map(|spec| spec.bindings.iter().map(|pattern| (spec.name.as_str(), pattern.as_str())))
            .collect();
        let mut digest = hash(&format!("{bound:?}"));
        digest.truncate(8);
        digest
    }

    /// Adds the queue of a consumer. Messages that the consumer rejects are dead-lettered.
    pub fn with<K: AsRef<str>>(self, name: &str, bindings: &[K]) -> Topology {
        let dead_letter_key = Some(self.dead_letter_key.clone());
        self.with_queue(QueueSpec {
            name: name.to_owned(),
            bindings: bindings.iter().map(|key| key.as_ref().to_owned()).collect(),
            ttl: None,
            dead_letter_key,
            is_selective: false,
            receives_from: None,
        })
    }

    /// The same topology in which a message can exclude this queue.
    pub fn selective(mut self, queue: &str) -> Topology {
        for spec in self.queues.iter_mut().filter(|spec| spec.name == queue) {
            spec.is_selective = true;
        }
        self
    }

    /// The same topology in which this queue also receives the messages of the exchange of another outbox.
    pub fn receiving(mut self, queue: &str, exchange: &str) -> Topology {
        for spec in self.queues.iter_mut().filter(|spec| spec.name == queue) {
            spec.receives_from = Some(exchange.to_owned());
        }
        self
    }

    /// Adds a queue, before the dead-letter queue.
    pub fn with_queue(mut self, queue: QueueSpec) -> Topology {
        let last = self.queues.len().saturating_sub(1);
        self.queues.insert(last, queue);
        self
    }
}

/// Whether a topic pattern matches a routing key (AMQP 0-9-1, topic exchange).
pub fn topic_matches(pattern: &str, key: &str) -> bool {
    fn matches(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (Some((&"#", rest)), None) => matches(rest, key),
            (Some((&"#", rest)), Some((_, later))) => matches(rest, key) || matches(pattern, later),
            (Some((&"*", rest)), Some((_, later))) => matches(rest, later),
            (Some((word, rest)), Some((first, later))) => word == first && matches(rest, later),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
    matches(&pattern.split('.').collect::<Vec<_>>(), &key.split('.').collect::<Vec<_>>())
}
