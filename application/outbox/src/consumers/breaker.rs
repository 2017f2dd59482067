//! The breaker of a consumer. When events of many aggregates in a row fail with the same kind of error, the cause is
//! probably not in the events: the breaker opens, the failures are not counted, and the consumer tries one event at a
//! time until one succeeds.
//!
//! **Invariant:** while the breaker is open, at most one attempt that began after it opened runs in this process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handover_events::{AggregateRef, EventId};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{error, info};

use super::counted_attempt::CountedAttempt;
use crate::error_kind::ErrorKind;
use crate::figures::FiguresOfProcess;
use crate::metrics::PAUSED;

/// Pause before the first try; doubled after each failed one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two tries.
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// Failed tries of one event after which its failures count as attempts again: the cause may be in this event.
const MAX_TRIES: u32 = 20;
/// An event that was just tried waits this much longer than the others, so that another one is tried next.
const TURN: Duration = Duration::from_millis(20);

/// The breaker of one consumer in one process.
pub(super) struct Breaker {
    consumer: Arc<str>,
    queue: Arc<str>,
    /// Number of aggregates in a row that opens the breaker (`consumer.breaker`); 0: it never opens.
    threshold: usize,
    figures: Arc<FiguresOfProcess>,
    state: Mutex<State>,
    closed: Notify,
}

enum State {
    /// Last failure of each aggregate since the last success, all of the same kind.
    Closed(Option<ErrorKind>, BTreeMap<AggregateRef, CountedAttempt>),
    Open(Open),
}

struct Open {
    next_try: Instant,
    pause: Duration,
    is_trying: bool,
    /// Failed tries of each event.
    tries: BTreeMap<EventId, u32>,
    /// The attempts that were counted before the breaker opened, and are taken back.
    taken_back: Vec<CountedAttempt>,
}

/// Whether an attempt may begin.
pub(super) enum Permit {
    /// The breaker is closed.
    Closed,
    /// The attempt is the only try; dropping the guard allows the next one.
    Try { _guard: Try },
    /// Ask again after this time.
    Wait(Duration),
}

/// The current try of an open breaker.
pub(super) struct Try(Arc<Breaker>);

impl Drop for Try {
    fn drop(&mut self) {
        if let State::Open(open) = &mut *self.0.locked() {
            open.is_trying = false;
        }
    }
}

/// What a recoverable failure means for its event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It counts as an attempt.
    Count,
    /// It does not count; the event waits for this time. The attempts at these events, which were counted before the
    /// breaker opened, do not count either.
    Wait(Duration, Vec<CountedAttempt>),
}

impl Breaker {
    pub(super) fn new(
        consumer: Arc<str>,
        queue: Arc<str>,
        threshold: u32,
        figures: Arc<FiguresOfProcess>,
    ) -> Arc<Breaker> {
        let breaker = Breaker {
            consumer,
            queue,
            threshold: usize::try_from(threshold).unwrap_or(usize::MAX),
            figures,
            state: Mutex::new(State::Closed(None, BTreeMap::new())),
            closed: Notify::new(),
        };
        breaker.show(false);
        Arc::new(breaker)
    }

    /// Shows in metrics and in the report of this process whether the breaker is open.
    fn show(&self, is_open: bool) {
        metrics::gauge!(PAUSED, "consumer" => Arc::clone(&self.consumer)).set(f64::from(u8::from(is_open)));
        self.figures.paused(&self.consumer, is_open);
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(*self.locked(), State::Open(_))
    }

    /// Resolves when the breaker closes.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    pub(super) fn permit(self: &Arc<Self>) -> Permit {
        let mut state = self.locked();
        let State::Open(open) = &mut *state else { return Permit::Closed };
        let left = open.next_try.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Permit::Wait(left);
        }
        if open.is_trying {
            return Permit::Wait(open.pause);
        }
        open.is_trying = true;
        Permit::Try { _guard: Try(Arc::clone(self)) }
    }

    /// An event was applied: closes the breaker, and ends the row of failures.
    pub(super) fn succeeded(&self) {
        let mut state = self.locked();
        let was_open = matches!(*state, State::Open(_));
        *state = State::Closed(None, BTreeMap::new());
        drop(state);
        if was_open {
            self.show(false);
            info!(
                code = "consumer.resumed",
                consumer = &*self.consumer,
                queue = &*self.queue,
                "[{}] an event was applied; consumption resumed",
                self.consumer
            );
            self.closed.notify_waiters();
        }
    }

    /// Decides about a recoverable failure. `attempt` is the attempt that is counted if the failure counts; `is_try`
    /// is whether it ran with [`Permit::Try`].
    pub(super) fn failed(
        &self,
        aggregate: &AggregateRef,
        attempt: CountedAttempt,
        (kind, why): (&ErrorKind, &str),
        is_try: bool,
    ) -> Decision {
        if self.threshold == 0 {
            return Decision::Count;
        }
        let mut state = self.locked();
        match &mut *state {
            State::Closed(current, row) => {
                if current.as_ref() != Some(kind) {
                    *current = Some(kind.clone());
                    row.clear();
                }
                let earlier = row.insert(aggregate.clone(), attempt);
                if row.len() < self.threshold {
                    return Decision::Count;
                }
                // The current failure is not counted, so only an earlier one of its aggregate is taken back.
                row.remove(aggregate);
                let counted: Vec<_> = std::mem::take(row).into_values().chain(earlier).collect();
                *state = State::Open(Open {
                    next_try: Instant::now() + FIRST_PAUSE,
                    pause: FIRST_PAUSE,
                    is_trying: false,
                    tries: BTreeMap::new(),
                    taken_back: counted.clone(),
                });
                drop(state);
                self.show(true);
                error!(
                    code = "consumer.paused",
                    consumer = &*self.consumer,
                    queue = &*self.queue,
                    error = why,
                    "[{}] [ALERT] events of {} aggregates in a row failed with the same kind of error; consumption paused, \
                     trying one event at a time",
                    self.consumer,
                    self.threshold
                );
                Decision::Wait(FIRST_PAUSE, counted)
            }
            State::Open(open) => {
                if !is_try {
                    return Decision::Wait(open.pause, Vec::new());
                }
                open.pause = (open.pause * 2).min(LAST_PAUSE);
                open.next_try = Instant::now() + open.pause;
                let tries = open.tries.entry(attempt.event).or_default();
                if *tries >= MAX_TRIES {
                    return Decision::Count;
                }
                *tries += 1;
                Decision::Wait(open.pause + TURN, Vec::new())
            }
        }
    }

    /// Whether the breaker opened after this attempt was counted, and takes it back. The task that opened it may have
    /// read the consume log before this attempt was recorded.
    pub(super) fn takes_back(&self, attempt: &CountedAttempt) -> bool {
        matches!(&*self.locked(), State::Open(open) if open.taken_back.contains(attempt))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
