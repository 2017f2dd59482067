//! How many rows of a backlog may enter the queues. A queue delivers in its order: behind a long queue, a message waits for
//! the whole backlog although its row did not. While a backlog waits, the relay therefore keeps the queues short.
//!
//! **Invariants:**
//! - Rows wait only for queues that make progress: not for a queue without consumers, nor for one that does not become shorter
//!   within [`MAX_HOLD`], nor for one that is much slower than another, or has no room after that time while another has.
//! - While rows wait, some are published at least once in two [`MAX_HOLD`].
//! - If the broker does not answer, nothing waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::ports::{Broker, QueueLoad};

/// Pause between two reads of the load of queues that have no room. A queue drains further meanwhile, so its limit adapts to it.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// Longest time that rows wait for a queue that makes no progress.
const MAX_HOLD: Duration = Duration::from_secs(1);

/// Time for which rows do not wait for such a queue again, unless it had room.
const IGNORED_FOR: Duration = Duration::from_secs(60);

/// A broker that answers later than this is not asked again before [`ASK_AGAIN`] has passed.
const SLOW_ANSWER: Duration = Duration::from_millis(100);
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// A queue is much slower than another one if it drains this many times as slowly.
const MUCH_SLOWER: u64 = 4;

const FIRST_LIMIT: u64 = 50;
const LEAST_LIMIT: u64 = 20;

/// A queue is counted up to this number of messages at least: of a longer one, no progress is seen.
const LEAST_COUNTED: u64 = 1_000;

/// Where the events of a backlog wait when the relay begins to hold them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The fullest queue decides when rows of the backlog are published.
    InOutbox,
    /// The emptiest one decides, because the events come one after the other: a slow consumer must not delay them at the
    /// others.
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
    /// Number of messages up to which the queues were last counted.
    counted: u64,
    hold: Option<Hold>,
    /// Queues that rows do not wait for, until they have room, but not longer than until this time.
    ignored: BTreeMap<String, Instant>,
    has_filled: bool,
    /// Time of the last check without messages in flight, or that found room.
    checked: Instant,
    ask_after: Instant,
}

/// The time for which rows wait.
#[derive(Debug)]
struct Hold {
    /// Its begin, or the time at which no message was in flight.
    since: Instant,
    /// Ready messages by queue at that time.
    ready: Option<BTreeMap<String, u64>>,
}

impl Hold {
    fn begin() -> Hold {
        Hold { since: Instant::now(), ready: None }
    }

    /// Progress is measured from now on, unless it is measured already.
    fn measure(&mut self, loads: &[QueueLoad]) {
        if self.ready.is_none() {
            self.ready = Some(loads.iter().map(|load| (load.name.clone(), load.ready)).collect());
            self.since = Instant::now();
        }
    }

    fn drained(&self, load: &QueueLoad) -> u64 {
        let before = self.ready.as_ref().and_then(|ready| ready.get(&load.name));
        before.map_or(0, |before| before.saturating_sub(load.ready))
    }

    fn is_over(&self) -> bool {
        self.since.elapsed() >= MAX_HOLD
    }

    /// Those of the queues that have no room and are not worth waiting for.
    fn too_slow(&self, loads: &[&QueueLoad], room_at: u64, counted: u64) -> Vec<String> {
        let (roomy, full): (Vec<&QueueLoad>, Vec<&QueueLoad>) =
            loads.iter().partition(|load| load.ready <= room_at);
        let fastest = roomy.iter().map(|load| self.drained(load)).max().unwrap_or(0);
        let is_too_slow = |load: &&QueueLoad| {
            let drained = self.drained(load);
            let is_stuck = self.ready.is_some() && drained == 0 && load.ready < counted;
            drained * MUCH_SLOWER < fastest || self.is_over() && (is_stuck || !roomy.is_empty())
        };
        full.into_iter().filter(is_too_slow).map(|load| load.name.clone()).collect()
    }
}

impl Admission {
    pub(super) fn new(max: u32) -> Admission {
        Admission {
            max: max.into(),
            limit: FIRST_LIMIT.min(max.into()),
            queues: Vec::new(),
            waiting: Waiting::InOutbox,
            counted: LEAST_COUNTED,
            hold: None,
            ignored: BTreeMap::new(),
            has_filled: false,
            checked: Instant::now(),
            ask_after: Instant::now(),
        }
    }

    /// A backlog of events of these queues waits.
    pub(super) fn begin(&mut self, queues: BTreeSet<String>, waiting: Waiting) {
        self.queues = queues.into_iter().collect();
        self.waiting = waiting;
        self.has_filled = false;
        self.checked = Instant::now();
        if waiting == Waiting::InQueue {
            self.hold = None;
            self.limit = FIRST_LIMIT.min(self.max);
        }
    }

    /// Forgets since when rows wait: after a failure, the relay publishes nothing for some time.
    pub(super) fn interrupt(&mut self) {
        self.hold = None;
    }

    /// Number of rows that may be published now; 0: none before [`POLL`] has passed. The messages in flight may enter each
    /// queue.
    pub(super) async fn room(&mut self, broker: &dyn Broker, in_flight: u64) -> u64 {
        let room = match self.loads(broker, MAX_HOLD).await {
            Some(loads) => self.room_for(&loads, in_flight),
            None => {
                self.hold = None;
                u64::MAX
            }
        };
        if in_flight == 0 || room > 0 {
            self.checked = Instant::now();
        }
        room
    }

    /// Time since the last call of [`Admission::room`] without messages in flight, or that found room.
    pub(super) fn since_check(&self) -> Duration {
        self.checked.elapsed()
    }

    /// Whether each of the queues has more messages than a backlog would fill it with at first.
    pub(super) async fn is_exceeded(&mut self, broker: &dyn Broker) -> bool {
        let loads = self.loads(broker, SLOW_ANSWER).await.unwrap_or_default();
        let least = self.waited_for(&loads).into_iter().map(|load| load.ready).min();
        least.is_some_and(|ready| ready > FIRST_LIMIT.min(self.max))
    }

    /// `None` if nothing is held back.
    async fn loads(&mut self, broker: &dyn Broker, within: Duration) -> Option<Vec<QueueLoad>> {
        if self.max == 0 || self.queues.is_empty() || Instant::now() < self.ask_after {
            return None;
        }
        let asked = Instant::now();
        self.counted = (self.limit * MUCH_SLOWER).max(LEAST_COUNTED);
        let up_to = u32::try_from(self.counted).unwrap_or(u32::MAX);
        let answer = tokio::time::timeout(within, broker.load(&self.queues, up_to)).await;
        if asked.elapsed() >= SLOW_ANSWER {
            self.ask_after = Instant::now() + ASK_AGAIN;
        }
        match answer {
            Ok(Ok(loads)) => {
                let has_room =
                    |name: &str| loads.iter().any(|load| load.name == name && load.ready <= self.limit / 2);
                self.ignored.retain(|name, until| Instant::now() < *until && !has_room(name));
                Some(loads)
            }
            Ok(Err(_)) | Err(_) => {
                self.ask_after = Instant::now() + ASK_AGAIN;
                None
            }
        }
    }

    fn waited_for<'l>(&self, loads: &'l [QueueLoad]) -> Vec<&'l QueueLoad> {
        loads.iter().filter(|load| load.consumers > 0 && !self.ignored.contains_key(&load.name)).collect()
    }

    fn room_for(&mut self, loads: &[QueueLoad], in_flight: u64) -> u64 {
        let room_at = self.limit / 2;
        loop {
            let waited_for = self.waited_for(loads);
            let by_ready = |load: &&&QueueLoad| load.ready;
            let decisive = match self.waiting {
                Waiting::InOutbox => waited_for.iter().max_by_key(by_ready),
                Waiting::InQueue => waited_for.iter().min_by_key(by_ready),
            };
            let Some(decisive) = decisive else {
                self.hold = None;
                return u64::MAX;
            };
            let ready = decisive.ready + in_flight;
            if ready <= room_at {
                self.hold = None;
                return self.refill(ready);
            }
            let hold = self.hold.get_or_insert_with(Hold::begin);
            if in_flight == 0 {
                hold.measure(loads);
            }
            let too_slow = hold.too_slow(&waited_for, room_at, self.counted);
            if too_slow.is_empty() {
                if !hold.is_over() {
                    return 0;
                }
                // Fewer than the consumers took meanwhile, so that the queue becomes shorter.
                let drained = hold.drained(decisive);
                self.hold = None;
                return if drained == 0 { room_at.max(1) } else { drained.div_ceil(2) };
            }
            let until = Instant::now() + IGNORED_FOR;
            self.ignored.extend(too_slow.into_iter().map(|name| (name, until)));
        }
    }

    /// Number of rows that fill the queue which has this many messages.
    fn refill(&mut self, ready: u64) -> u64 {
        let is_refill = std::mem::replace(&mut self.has_filled, true);
        self.limit = match ready {
            0 if is_refill => (self.limit * 5 / 4).min(self.max),
            _ if is_refill => (self.limit - self.limit.div_ceil(32)).max(LEAST_LIMIT.min(self.max)),
            _ => self.limit,
        };
        self.limit.saturating_sub(ready).max(1)
    }
}
