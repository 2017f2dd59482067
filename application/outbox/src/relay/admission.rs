//! How many rows of a backlog may enter the queues. A queue delivers in its order: behind a long queue, a message waits for
//! the whole backlog although its row did not. While a backlog waits, in the outbox or in a queue, the relay therefore keeps
//! the queues short.
//!
//! **Invariant:** only queues that make progress are waited for: not a queue without consumers, nor one that makes no room
//! within [`MAX_HOLD`] (or [`SHORT_HOLD`]), nor one that is much slower than the others. If the broker does not answer,
//! nothing is held back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::ports::{Broker, QueueLoad};

/// Pause between two looks at queues that have no room. A queue drains further meanwhile, so its limit adapts to it.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// Longest time that the relay waits for one queue.
const MAX_HOLD: Duration = Duration::from_secs(1);

/// The same if no rows waited in the outbox, and another queue that gets them has room: it should hardly be slowed down.
const SHORT_HOLD: Duration = Duration::from_millis(100);

/// A broker that answers later than this is not asked again before [`ASK_AGAIN`] has passed.
const SLOW_ANSWER: Duration = Duration::from_millis(100);
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// A queue is much slower than another one if it drains this many times as slowly.
const MUCH_SLOWER: u64 = 4;

const FIRST_LIMIT: u64 = 50;
const LEAST_LIMIT: u64 = 20;

/// Where the events of a backlog wait when the relay begins to hold them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    InOutbox,
    InQueue,
}

/// Decides how many rows of a backlog may be published.
#[derive(Debug)]
pub(super) struct Admission {
    /// Maximum of `limit`; 0: nothing is held back.
    max: u64,
    /// Number of ready messages up to which a queue is filled. It grows when a queue was empty, and shrinks slowly
    /// otherwise, so that the queues are as short as their consumers allow.
    limit: u64,
    /// Queues of the events of the backlog.
    queues: Vec<String>,
    waiting: Waiting,
    hold: Option<Hold>,
    /// Queues that are not waited for until they have room.
    ignored: BTreeSet<String>,
    has_filled: bool,
    ask_after: Instant,
}

/// The queues when the relay began to wait.
#[derive(Debug)]
struct Hold {
    since: Instant,
    ready: BTreeMap<String, u64>,
    longest: Duration,
}

impl Hold {
    fn begin(loads: &[QueueLoad], room_at: u64, waiting: Waiting) -> Hold {
        let ready = loads.iter().map(|load| (load.name.clone(), load.ready)).collect();
        let has_room = |load: &QueueLoad| load.consumers > 0 && load.ready <= room_at;
        let longest = match waiting {
            Waiting::InQueue if loads.iter().any(has_room) => SHORT_HOLD,
            Waiting::InQueue | Waiting::InOutbox => MAX_HOLD,
        };
        Hold { since: Instant::now(), ready, longest }
    }

    fn drained(&self, load: &QueueLoad) -> u64 {
        self.ready.get(&load.name).map_or(0, |ready| ready.saturating_sub(load.ready))
    }

    /// Queues without room that are not worth waiting for.
    fn too_slow<'l>(&self, loads: &'l [QueueLoad], room_at: u64) -> Vec<&'l QueueLoad> {
        let (roomy, full): (Vec<_>, Vec<_>) = loads.iter().partition(|load| load.ready <= room_at);
        let fastest = roomy.into_iter().map(|load| self.drained(load)).max().unwrap_or(0);
        let is_over = self.since.elapsed() >= self.longest;
        full.into_iter().filter(|load| is_over || self.drained(load) * MUCH_SLOWER < fastest).collect()
    }
}

impl Admission {
    pub(super) fn new(max: u32) -> Admission {
        Admission {
            max: max.into(),
            limit: FIRST_LIMIT.min(max.into()),
            queues: Vec::new(),
            waiting: Waiting::InOutbox,
            hold: None,
            ignored: BTreeSet::new(),
            has_filled: false,
            ask_after: Instant::now(),
        }
    }

    /// A backlog of events of these queues waits.
    pub(super) fn begin(&mut self, queues: BTreeSet<String>, waiting: Waiting) {
        self.queues = queues.into_iter().collect();
        self.waiting = waiting;
        self.has_filled = false;
    }

    /// Number of rows that may be published now; 0: none before [`POLL`] has passed. The messages in flight may enter each
    /// queue.
    pub(super) async fn room(&mut self, broker: &dyn Broker, in_flight: u64) -> u64 {
        match self.loads(broker).await {
            Some(loads) => self.room_for(&loads, in_flight),
            None => u64::MAX,
        }
    }

    /// Whether a queue has more messages than a backlog may fill it with.
    pub(super) async fn is_exceeded(&mut self, broker: &dyn Broker) -> bool {
        let loads = self.loads(broker).await.unwrap_or_default();
        let limit = self.limit.max(FIRST_LIMIT.min(self.max));
        let is_exceeded = |load: &QueueLoad| load.ready > limit && self.is_waited_for(load);
        loads.iter().any(is_exceeded)
    }

    /// `None` if nothing is held back.
    async fn loads(&mut self, broker: &dyn Broker) -> Option<Vec<QueueLoad>> {
        if self.max == 0 || self.queues.is_empty() || Instant::now() < self.ask_after {
            return None;
        }
        let asked = Instant::now();
        let up_to = u32::try_from(self.limit * MUCH_SLOWER).unwrap_or(u32::MAX);
        let answer = tokio::time::timeout(MAX_HOLD, broker.load(&self.queues, up_to)).await;
        if asked.elapsed() >= SLOW_ANSWER {
            self.ask_after = Instant::now() + ASK_AGAIN;
        }
        match answer {
            Ok(Ok(loads)) => {
                let room_at = self.limit / 2;
                let is_full =
                    |name: &String| loads.iter().any(|load| load.name == *name && load.ready > room_at);
                self.ignored.retain(is_full);
                Some(loads)
            }
            Ok(Err(_)) | Err(_) => {
                self.ask_after = Instant::now() + ASK_AGAIN;
                None
            }
        }
    }

    fn is_waited_for(&self, load: &QueueLoad) -> bool {
        load.consumers > 0 && !self.ignored.contains(&load.name)
    }

    fn room_for(&mut self, loads: &[QueueLoad], in_flight: u64) -> u64 {
        let room_at = self.limit / 2;
        if let Some(hold) = &self.hold {
            let slow = hold.too_slow(loads, room_at);
            self.ignored.extend(slow.into_iter().map(|load| load.name.clone()));
        }
        let fullest = loads.iter().filter(|load| self.is_waited_for(load)).map(|load| load.ready).max();
        let Some(ready) = fullest else {
            self.hold = None;
            return u64::MAX;
        };
        let ready = ready + in_flight;
        if ready > room_at && in_flight > 0 {
            // Progress can be measured once these messages are in the queues.
            return 0;
        }
        if ready > room_at {
            self.hold.get_or_insert_with(|| Hold::begin(loads, room_at, self.waiting));
            return 0;
        }
        self.hold = None;
        let is_refill = std::mem::replace(&mut self.has_filled, true);
        self.limit = match ready {
            0 if is_refill => (self.limit * 5 / 4).min(self.max),
            _ if is_refill => (self.limit - self.limit.div_ceil(32)).max(LEAST_LIMIT.min(self.max)),
            _ => self.limit,
        };
        self.limit.saturating_sub(ready).max(1)
    }
}
