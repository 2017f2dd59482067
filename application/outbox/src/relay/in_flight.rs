//! The windows in flight: each one is published and settled by a task of its own, so that the relay reads the next one
//! meanwhile.
//!
//! **Invariant:** a row is in one window at most. While it is not settled, no other row of its sequence is in another window.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::select_all;
use tokio::task::JoinHandle;

use super::rest::Rest;
use super::settlement::Settlement;
use super::window::{SequenceKey, Window, sequence_key};
use crate::ports::{OutboxRow, OwnedPartition, RelayId, StoreError, UnorderedTypes};

/// Result of a window that is published and settled.
pub(super) struct Ended {
    /// Number of confirmed rows.
    pub(super) confirmed: usize,
    /// Whether each row was confirmed, and was settled unless its partition was lost.
    pub(super) is_confirmed: bool,
    /// Partitions that were lost to another relay; the results of their rows are not recorded.
    pub(super) lost: Vec<OwnedPartition>,
    /// Why the broker is unreachable.
    pub(super) outage: Option<String>,
    /// Whether rows were due besides those of the window.
    pub(super) rest: Rest,
}

/// A window in flight.
struct WindowTask {
    rows: Arc<[OutboxRow]>,
    rest: Rest,
    /// Number of rows until their confirms have arrived; then 0.
    unconfirmed: Arc<AtomicU64>,
    task: JoinHandle<Option<Result<Ended, StoreError>>>,
}

/// The windows in flight.
#[derive(Default)]
pub(super) struct InFlight(Vec<WindowTask>);

impl InFlight {
    /// Starts to publish a window.
    pub(super) fn start(&mut self, window: Window, owner: RelayId, rows: Vec<OutboxRow>, rest: Rest) {
        let rows: Arc<[OutboxRow]> = rows.into();
        let unconfirmed = Arc::new(AtomicU64::new(rows.len() as u64));
        let outbox = window.outbox.clone();
        let work = publish_and_settle(window, owner, Arc::clone(&rows), rest, Arc::clone(&unconfirmed));
        let task = outbox.spawn(work);
        self.0.push(WindowTask { rows, rest, unconfirmed, task });
    }

    /// Waits until a window ends; `None` if none is in flight. A cancelled call loses no result.
    pub(super) async fn ended(&mut self) -> Option<Result<Ended, StoreError>> {
        if self.0.is_empty() {
            return None;
        }
        let (result, index, _) = select_all(self.0.iter_mut().map(|window| &mut window.task)).await;
        let window = self.0.swap_remove(index);
        Some(match result {
            Ok(Some(ended)) => ended,
            Ok(None) => Err(StoreError::Unavailable("the process is shutting down".into())),
            // Nothing of the window is recorded: its rows are published again.
            Err(panic) => Ok(Ended {
                confirmed: 0,
                is_confirmed: false,
                lost: Vec::new(),
                outage: Some(panic.to_string()),
                rest: window.rest,
            }),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Number of rows whose messages may not be in their queues yet.
    pub(super) fn unconfirmed(&self) -> u64 {
        self.0.iter().map(|window| window.unconfirmed.load(Ordering::Relaxed)).sum()
    }

    /// Ids of the rows.
    pub(super) fn ids(&self) -> Vec<i64> {
        self.rows().map(|row| row.id).collect()
    }

    /// Removes the rows of sequences that have a row in flight.
    pub(super) fn retain_other_sequences(&self, due: &mut Vec<OutboxRow>, unordered: &UnorderedTypes) {
        let in_flight: BTreeSet<SequenceKey<'_>> =
            self.rows().map(|row| sequence_key(row, unordered)).collect();
        due.retain(|row| !in_flight.contains(&sequence_key(row, unordered)));
    }

    fn rows(&self) -> impl Iterator<Item = &OutboxRow> {
        self.0.iter().flat_map(|window| window.rows.iter())
    }
}

async fn publish_and_settle(
    window: Window,
    owner: RelayId,
    rows: Arc<[OutboxRow]>,
    rest: Rest,
    unconfirmed: Arc<AtomicU64>,
) -> Result<Ended, StoreError> {
    let results = window.publish(&rows).await;
    unconfirmed.store(0, Ordering::Relaxed);
    let outage = results.outage.clone();
    let confirmed = results.confirmed.len();
    let Window { outbox, owned_partitions, .. } = window;
    let settlement = Settlement::of(&rows, &owner, owned_partitions, results, outbox.now());
    let lost = settlement.settle(&outbox, &rows).await?;
    Ok(Ended { confirmed, is_confirmed: confirmed == rows.len(), lost, outage, rest })
}
