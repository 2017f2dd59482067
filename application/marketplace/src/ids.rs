//! Ids, chosen before the first attempt: integers from blocks reserved in the database, and UUIDv7 event ids.
//!
//! **Invariant:** an id does not prove ownership of a row. After a restored backup or a failover that lost commits, a
//! block can contain ids that are in use. A repeated attempt therefore recognizes its own row by other values, such as
//! an event id or the creation time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use handover_events::{EventId, IdError, MAX_ID};
use marketplace_domain::Reference;
use tokio::sync::Mutex;

use crate::ports::MarketTransactor;
use crate::ports::{IdBlocks, IdKind, IdQueries, IdState, Work};
use handover_outbox::ports::StoreError;
use handover_outbox::{UnitError, event_id, uuid_v7, with_tx};

/// Number of ids that a process reserves at a time. Unused ids of a block are lost when the process ends.
pub const ID_BLOCK_SIZE: u32 = 100;

/// Allocates the ids of one process.
pub struct Ids {
    tx: MarketTransactor,
    blocks: Mutex<BTreeMap<IdKind, Range<i64>>>,
    /// The kinds whose alert about nearly exhausted ids was logged.
    alerted: Mutex<BTreeSet<IdKind>>,
}

impl Ids {
    pub fn new(tx: MarketTransactor) -> Ids {
        Ids { tx, blocks: Mutex::default(), alerted: Mutex::default() }
    }

    /// Returns the next id of a kind. Reserves a new block if the current one is used up.
    pub async fn next<I: TryFrom<i64, Error = IdError>>(&self, kind: IdKind) -> Result<I, StoreError> {
        let mut blocks = self.blocks.lock().await;
        let block = blocks.entry(kind).or_insert(0..0);
        let id = match block.next() {
            Some(id) => id,
            None => {
                let first = with_tx(&self.tx, (), move |unit, (), _| {
                    Box::pin(async move { IdBlocks::take_id_block(unit, kind, ID_BLOCK_SIZE).await })
                })
                .await?;
                *block = first + 1..first + i64::from(ID_BLOCK_SIZE);
                self.alert_if_nearly_exhausted(kind, block.end).await;
                first
            }
        };
        I::try_from(id).map_err(|error| StoreError::Backend(Box::new(error)))
    }

    /// Raises every id sequence that is not above the largest id of its table, and sets back a sequence outside the range
    /// of ids. Returns the kinds of the changed sequences, each with the values before the change. Called at process
    /// start.
    pub async fn raise(&self) -> Result<Vec<(IdKind, IdState)>, StoreError> {
        let mut raised = Vec::new();
        for kind in IdKind::ALL {
            let state = self.tx.view().await?.id_state(kind).await?;
            let next = next_above_rows(state);
            if next != state.next {
                raised.push((kind, raise(&self.tx, kind).await?));
            }
            self.alert_if_nearly_exhausted(kind, next).await;
        }
        Ok(raised)
    }

    /// Logs an alert once per process and kind when 90 % of the ids are reserved.
    async fn alert_if_nearly_exhausted(&self, kind: IdKind, next: i64) {
        let state = IdState { next, largest: 0 };
        if state.is_nearly_exhausted() && self.alerted.lock().await.insert(kind) {
            tracing::error!(
                code = "ids.nearly-exhausted",
                kind = kind.as_str(),
                next,
                largest_possible = MAX_ID,
                "[ids] [ALERT] more than 90 % of the ids of this kind are reserved, as after an import of rows with \
                 large ids; when none is left, no row of this kind can be created; renumber imported rows with ids \
                 near the limit and set next_id in the table id_blocks to the largest remaining id plus 1"
            );
        }
    }

    /// Discards the rest of a block that contains an id in use. The next block begins above the largest id.
    async fn discard_block(&self, kind: &str) -> Result<(), StoreError> {
        let Some(kind) = IdKind::ALL.into_iter().find(|it| it.as_str() == kind) else { return Ok(()) };
        let mut blocks = self.blocks.lock().await;
        let state = raise(&self.tx, kind).await?;
        // The block is kept if a concurrent request has replaced it by a block above the largest id.
        let is_above = |block: &Range<i64>| !block.is_empty() && block.start > state.largest;
        if !blocks.get(&kind).is_some_and(is_above) {
            blocks.remove(&kind);
        }
        Ok(())
    }

    /// Returns a new event id: a UUIDv7 with the current time of the clock.
    pub fn event(&self) -> EventId {
        event_id(&self.tx)
    }

    /// Returns a new reference for a payment or for an attempt at a refund.
    pub fn reference(&self) -> Reference {
        uuid_v7(self.tx.now(), self.tx.random().as_ref()).into()
    }
}

/// The start of the next block after [`raise`]: the current one, or the first id above all rows if rows have reached it
/// or it is outside the range of ids.
const fn next_above_rows(state: IdState) -> i64 {
    if state.is_behind() || state.is_outside_range() { state.largest + 1 } else { state.next }
}

/// Moves the id sequence of a kind above the largest id if necessary. Returns the values before the change.
async fn raise(tx: &MarketTransactor, kind: IdKind) -> Result<IdState, StoreError> {
    let state: IdState = with_tx(tx, (), move |unit, (), _| {
        Box::pin(async move {
            let state = IdQueries::id_state(unit, kind).await?;
            let next = next_above_rows(state);
            if next != state.next {
                unit.raise_id_block(kind, next).await?;
            }
            Ok::<_, StoreError>(state)
        })
    })
    .await?;
    if state.is_behind() {
        tracing::warn!(
            code = "ids.raised",
            kind = kind.as_str(),
            next = state.next,
            largest = state.largest,
            "[ids] [ALERT] next id was not above the largest id of its table, as after a restored backup; \
             raised above it"
        );
    } else if state.is_outside_range() {
        tracing::warn!(
            code = "ids.set-back",
            kind = kind.as_str(),
            next = state.next,
            largest = state.largest,
            "[ids] [ALERT] next id was outside the range of ids, as after an import of a row with a larger id; set back \
             to the largest id within the range plus 1"
        );
    }
    Ok(state)
}

/// The error that ends an attempt, so that the command is repeated with another id.
pub(crate) fn id_in_use(kind: IdKind, id: i64) -> StoreError {
    StoreError::IdInUse { kind: kind.as_str(), id }
}

/// Checks that no row has this id. If a row has it, the returned error lets [`with_unused_ids`] repeat the command with
/// another id. The caller MUST have checked that no earlier attempt at the same command inserted such a row.
pub(crate) async fn require_unused(unit: &mut Work, kind: IdKind, id: i64) -> Result<(), StoreError> {
    if unit.id_is_taken(kind, id).await? { Err(id_in_use(kind, id)) } else { Ok(()) }
}

/// Maximum number of repetitions with other ids: one each for a payment and its refund, and the rest for concurrent
/// requests.
const MAX_REPETITIONS: usize = 4;

/// Runs a command that chooses ids, and repeats it with other ids if one is already in use.
pub(crate) async fn with_unused_ids<T, E, F>(ids: &Ids, command: impl Fn() -> F) -> Result<T, E>
where
    E: UnitError,
    F: Future<Output = Result<T, E>>,
{
    for _ in 0..MAX_REPETITIONS {
        match command().await {
            Err(error) => match error.store_error() {
                Some(&StoreError::IdInUse { kind, .. }) => ids.discard_block(kind).await?,
                Some(_) | None => return Err(error),
            },
            result => return result,
        }
    }
    command().await
}
