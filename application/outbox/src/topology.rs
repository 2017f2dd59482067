//! Exchange, queues and bindings: what a service asks of its broker.

use std::time::Duration;

/// A queue, what it is bound to, and where it sends what dies in it: always through the topic exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpec {
    /// Its name.
    pub name: String,
    /// Patterns of the topic exchange: words between dots, `*` is one word, `#` any number.
    pub bindings: Vec<String>,
    /// Messages older than this are dead-lettered.
    pub ttl: Option<Duration>,
    /// The key that rejected and expired messages are routed with; `None` drops them.
    pub dead_letter_key: Option<String>,
}

/// What a broker must offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The topic exchange every event is published to.
    pub exchange: String,
    /// Its queues.
    pub queues: Vec<QueueSpec>,
    /// Which of them holds dead letters.
    pub dead_letter_queue: String,
    /// The key dead letters are routed with.
    pub dead_letter_key: String,
}

impl Topology {
    /// An exchange with the queue of dead letters alone, and the key these are routed with.
    pub fn new(exchange: &str, dead_letter_queue: &str, dead_letter_key: &str) -> Topology {
        let dead_letters = QueueSpec {
            name: dead_letter_queue.to_owned(),
            bindings: vec![dead_letter_key.to_owned()],
            ttl: None,
            dead_letter_key: None,
        };
        Topology {
            exchange: exchange.to_owned(),
            queues: vec![dead_letters],
            dead_letter_queue: dead_letter_queue.to_owned(),
            dead_letter_key: dead_letter_key.to_owned(),
        }
    }

    /// With one more queue of a consumer, which dead-letters what the consumer cannot do.
    pub fn with<K: AsRef<str>>(self, name: &str, bindings: &[K]) -> Topology {
        let dead_letter_key = Some(self.dead_letter_key.clone());
        self.with_queue(QueueSpec {
            name: name.to_owned(),
            bindings: bindings.iter().map(|key| key.as_ref().to_owned()).collect(),
            ttl: None,
            dead_letter_key,
        })
    }

    /// With one more queue, before that of dead letters.
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
