//! Ids, chosen before the attempt: integers from blocks reserved in the database, event ids as UUIDv7.
//!
//! **Invariant:** an id is no proof of ownership. After a restored backup or a failover that lost commits, blocks hold ids
//! that rows have already; a repeated attempt takes a row for its own only by what nobody else could have written.

use std::collections::BTreeMap;
use std::ops::Range;

use handover_events::{EventId, IdError};
use tokio::sync::Mutex;

use crate::app::MarketTransactor;
use crate::ports::{IdBlocks, IdKind, IdQueries, IdState, Work};
use crate::use_cases::UseCaseError;
use handover_outbox::ports::StoreError;
use handover_outbox::{UnitError as _, event_id, with_tx};

/// How many ids a process reserves at a time; those it has not used when it ends are never used.
pub const BLOCK: u32 = 100;

/// Hands out ids within one process.
pub struct Ids {
    tx: MarketTransactor,
    blocks: Mutex<BTreeMap<IdKind, Range<i64>>>,
}

impl Ids {
    /// Ids from this store.
    pub fn new(tx: MarketTransactor) -> Ids {
        Ids { tx, blocks: Mutex::default() }
    }

    /// The next id of a kind.
    pub async fn next<I: TryFrom<i64, Error = IdError>>(&self, kind: IdKind) -> Result<I, StoreError> {
        let mut blocks = self.blocks.lock().await;
        let block = blocks.entry(kind).or_insert(0..0);
        let id = match block.next() {
            Some(id) => id,
            None => {
                let first = with_tx(&self.tx, move |unit, _| {
                    Box::pin(async move { IdBlocks::take_id_block(unit, kind, BLOCK).await })
                })
                .await?;
                *block = first + 1..first + i64::from(BLOCK);
                first
            }
        };
        I::try_from(id).map_err(|error| StoreError::Backend(Box::new(error)))
    }

    /// Lets the blocks that lie below the largest id of their table begin above it; tells which did. For the start of a
    /// process.
    pub async fn raise(&self) -> Result<Vec<(IdKind, IdState)>, StoreError> {
        let mut raised = Vec::new();
        for kind in IdKind::ALL {
            let state = self.tx.store.view().await?.id_state(kind).await?;
            if state.is_behind() {
                raised.push((kind, raise(&self.tx, kind).await?));
            }
        }
        Ok(raised)
    }

    /// Gives up the rest of a block of which one id is another's; the next begins above the largest id.
    async fn renew(&self, taken: IdTaken) -> Result<(), StoreError> {
        let mut blocks = self.blocks.lock().await;
        let state = raise(&self.tx, taken.kind).await?;
        // Another request may have been faster.
        let is_above = |block: &Range<i64>| !block.is_empty() && block.start > state.largest;
        if !blocks.get(&taken.kind).is_some_and(is_above) {
            blocks.remove(&taken.kind);
        }
        Ok(())
    }

    /// A new event id: UUIDv7 of the clock's now.
    pub fn event(&self) -> EventId {
        event_id(&self.tx)
    }
}

/// Lets the next block of a kind begin above the largest id, if it does not; tells how it stood before.
async fn raise(tx: &MarketTransactor, kind: IdKind) -> Result<IdState, StoreError> {
    let state: IdState = with_tx(tx, move |unit, _| {
        Box::pin(async move {
            let state = IdQueries::id_state(unit, kind).await?;
            if state.is_behind() {
                unit.raise_id_block(kind, state.largest + 1).await?;
            }
            Ok::<_, StoreError>(state)
        })
    })
    .await?;
    if state.is_behind() {
        tracing::warn!(
            kind = kind.as_str(),
            next = state.next,
            largest = state.largest,
            "[ids] [ALERT] a block of ids lay below the largest id of its table, as after a restored backup; \
             ids continue above it"
        );
    }
    Ok(state)
}

/// An id that was chosen for a new row belongs to a row of somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} {id} belongs to another request: a block of ids was set back; `handover doctor` tells more", kind.as_str())]
pub(crate) struct IdTaken {
    kind: IdKind,
    id: i64,
}

impl IdTaken {
    /// The refusal that ends an attempt, so that it is repeated with another id.
    pub(crate) fn refusal(kind: IdKind, id: i64) -> UseCaseError {
        StoreError::Backend(Box::new(IdTaken { kind, id })).into()
    }

    fn of(error: &UseCaseError) -> Option<IdTaken> {
        let Some(StoreError::Backend(cause)) = error.store_error() else { return None };
        cause.downcast_ref().copied()
    }
}

/// Ends an attempt whose id has a row, which the caller knows not to be its own.
pub(crate) async fn require_free(unit: &mut Work, kind: IdKind, id: i64) -> Result<(), UseCaseError> {
    if unit.id_is_taken(kind, id).await? { Err(IdTaken::refusal(kind, id)) } else { Ok(()) }
}

/// How often a command begins again with other ids: a payment and its refund, and once more for a process that raced.
const RENEWALS: usize = 4;

/// Runs a command that chooses ids, and again with others if one of them is found to be another's.
pub(crate) async fn with_own_ids<T, F>(ids: &Ids, command: impl Fn() -> F) -> Result<T, UseCaseError>
where
    F: Future<Output = Result<T, UseCaseError>>,
{
    for _ in 0..RENEWALS {
        match command().await {
            Err(error) => match IdTaken::of(&error) {
                Some(taken) => ids.renew(taken).await?,
                None => return Err(error),
            },
            done => return done,
        }
    }
    command().await
}
