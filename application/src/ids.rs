//! Ids, chosen before the attempt: integers from blocks reserved in the database, event ids as UUIDv7.

use std::collections::BTreeMap;
use std::ops::Range;

use handover_domain::{EventId, IdError};
use tokio::sync::Mutex;

use crate::ports::{IdBlocks, IdKind, StoreError};
use crate::transaction::{Transactor, with_tx};

/// How many ids a process reserves at a time; those it has not used when it ends are never used.
pub const BLOCK: u32 = 100;

/// Hands out ids within one process.
pub struct Ids {
    tx: Transactor,
    blocks: Mutex<BTreeMap<IdKind, Range<i64>>>,
}

impl Ids {
    /// Ids from this store.
    pub fn new(tx: Transactor) -> Ids {
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

    /// A new event id: UUIDv7 of the clock's now.
    pub fn event(&self) -> EventId {
        event_id(&self.tx)
    }
}

/// A new event id: UUIDv7 (RFC 9562) of the clock's now, the rest by chance.
pub fn event_id(tx: &Transactor) -> EventId {
    let millis = u64::try_from(tx.clock.now().timestamp_millis()).unwrap_or(0);
    let mut random = [0u8; 10];
    random[..8].copy_from_slice(&tx.chance.next().to_le_bytes());
    random[8..].copy_from_slice(&tx.chance.next().to_le_bytes()[..2]);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().into()
}
