//! Ids of relays, and what they say about the messages of the relay.

use std::fmt;

use crate::topology::Topology;

/// Identifies one run of one relay, and names the version of the outbox and the selective queues that the relay knows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayId(pub String);

/// The first version of the outbox with text keys of aggregates.
const TEXT_KEYS: u32 = 4;
/// The first version whose messages exclude the queues of idle consumers: the version of this process.
const IDLE_CONSUMERS: u32 = 5;

impl RelayId {
    /// The id of a relay of this version with this topology.
    pub fn new(random: u64, topology: &Topology) -> RelayId {
        let selective = topology.selective_digest();
        RelayId(format!("relay-v{IDLE_CONSUMERS}-{selective}-{random:016x}"))
    }

    /// Whether the relay knows text keys of aggregates. A relay of an older version, whose id names no version, would
    /// publish an event of a text key with the number of the key.
    pub fn knows_text_keys(&self) -> bool {
        self.is_at_least(TEXT_KEYS)
    }

    /// Whether the messages of the relay name the selective queues of this topology that they enter. Those of an older version, or
    /// of a program with other consumers or event types, enter some of them by their bindings alone.
    pub fn knows_selective_queues(&self, topology: &Topology) -> bool {
        let selective =
            self.parts().and_then(|(_, rest)| rest.split_once('-')).map(|(selective, _)| selective);
        self.is_at_least(IDLE_CONSUMERS) && selective == Some(topology.selective_digest().as_str())
    }

    fn is_at_least(&self, first: u32) -> bool {
        self.parts().is_some_and(|(version, _)| version >= first)
    }

    /// The version, and what follows it.
    fn parts(&self) -> Option<(u32, &str)> {
        let (version, rest) = self.0.strip_prefix("relay-v")?.split_once('-')?;
        Some((version.parse().ok()?, rest))
    }
}

/// Cause of [`StoreError::Unavailable`](super::StoreError::Unavailable) for an event of a text key while a relay of an older version is live.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the event has a text key, and the running process of the relay {0} is of an older version, which cannot publish it; stop the \
     processes of the older version; nothing was stored"
)]
pub struct OlderRelay(pub RelayId);

impl fmt::Display for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
