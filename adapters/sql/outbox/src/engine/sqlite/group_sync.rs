//! Group commit: one flush of the write-ahead log makes all commits durable that were written before it began.
//!
//! SQLite itself flushes the log only at checkpoints (`synchronous = NORMAL`), so the writer connection serves the next unit of
//! work while an earlier commit is flushed. The log has the order of the commits: a power failure loses the last ones.
//!
//! A statement outside a unit of work, such as that of the broker which stores messages, is not flushed by itself: the
//! commit that relies on it, such as that of the rows as SENT, comes later in the log.
//!
//! **Invariant:** a commit is acknowledged, and a reader returns what it wrote, only after a flush that began after it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handover_outbox::ports::StoreError;
use tokio::sync::Notify;

/// Flushes the log for the commits that wait.
pub(super) struct GroupSync {
    flush: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    state: Mutex<State>,
    /// Signals the end of a commit or of a flush.
    changed: Notify,
}

/// Numbers of commits, counted from 1.
#[derive(Default)]
struct State {
    /// The last commit that was begun.
    begun: u64,
    /// The last commit that is in the log.
    written: u64,
    /// The last commit that is durable.
    durable: u64,
    is_flushing: bool,
    /// Why a flush failed. What it was to make durable may be lost although later flushes succeed, so no further commit is
    /// accepted.
    failure: Option<String>,
}

/// A commit that SQLite is executing. Only the connection for writing commits, so there is one at a time.
pub(super) struct Committing<'s> {
    sync: &'s GroupSync,
    number: u64,
}

impl Committing<'_> {
    /// The number of the commit, for [`GroupSync::durable`].
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.sync.state().written = self.number;
        self.sync.changed.notify_waiters();
    }
}

impl GroupSync {
    /// `flush` blocks until the log is durable.
    pub(super) fn new(flush: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Arc<GroupSync> {
        Arc::new(GroupSync { flush: Box::new(flush), state: Mutex::default(), changed: Notify::new() })
    }

    /// Called before a commit; the value is dropped when the commit has ended.
    pub(super) fn begin(&self) -> Committing<'_> {
        let mut state = self.state();
        state.begun += 1;
        Committing { sync: self, number: state.begun }
    }

    /// Fails if the log can no longer be flushed.
    pub(super) fn check(&self) -> Result<(), String> {
        self.state().failure.clone().map_or(Ok(()), Err)
    }

    /// Waits until every commit that a reader may have seen is durable.
    pub(super) async fn seen_durable(self: &Arc<Self>) -> Result<(), StoreError> {
        let begun = self.state().begun;
        self.durable(begun).await
    }

    /// Waits until this commit is durable. After an error it is unknown whether it outlives a power failure.
    pub(super) async fn durable(self: &Arc<Self>, commit: u64) -> Result<(), StoreError> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on, no change is missed.
            changed.as_mut().enable();
            {
                let mut state = self.state();
                if state.durable >= commit {
                    return Ok(());
                }
                if let Some(failure) = &state.failure {
                    return Err(StoreError::Unavailable(failure.clone().into()));
                }
                if !state.is_flushing && state.written > state.durable {
                    state.is_flushing = true;
                    self.start(state.written);
                }
            }
            changed.await;
        }
    }

    /// Flushes the log on a thread: a caller whose future is dropped does not stop it.
    fn start(self: &Arc<Self>, written: u64) {
        let sync = Arc::clone(self);
        drop(tokio::task::spawn_blocking(move || {
            let outcome = (sync.flush)();
            {
                let mut state = sync.state();
                state.is_flushing = false;
                match outcome {
                    Ok(()) => state.durable = written,
                    Err(error) => {
                        state.failure = Some(format!(
                            "the write-ahead log cannot be flushed: {error}; check the disk, then start the process again"
                        ));
                    }
                }
            }
            sync.changed.notify_waiters();
        }));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
