//! Ids of relays, and the versions that they name.

use std::fmt;

/// Identifies one run of one relay, and names the version of the outbox that the relay knows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayId(pub String);

/// The first version of the outbox with text keys of aggregates.
const TEXT_KEYS: u32 = 4;
/// The first version whose messages exclude the queues of idle consumers: the version of this process.
const IDLE_CONSUMERS: u32 = 5;

impl RelayId {
    /// The id of a relay of this version.
    pub fn new(random: u64) -> RelayId {
        RelayId(format!("relay-v{IDLE_CONSUMERS}-{random:016x}"))
    }

    /// Whether the relay knows text keys of aggregates. A relay of an older version, whose id names no version, would
    /// publish an event of a text key with the number of the key.
    pub fn knows_text_keys(&self) -> bool {
        self.is_at_least(TEXT_KEYS)
    }

    /// Whether the messages of the relay name the selective queues that they enter. Those of an older version enter queues by
    /// their bindings alone.
    pub fn knows_idle_consumers(&self) -> bool {
        self.is_at_least(IDLE_CONSUMERS)
    }

    fn is_at_least(&self, first: u32) -> bool {
        let version = self.0.strip_prefix("relay-v").and_then(|rest| rest.split_once('-'));
        version.and_then(|(version, _)| version.parse().ok()).is_some_and(|version: u32| version >= first)
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
