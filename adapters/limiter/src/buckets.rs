//! Storage of the buckets that are not full. A full bucket needs no entry.
//!
//! **Invariant:** at most [`MAX_BUCKETS`] buckets of one size (capacity and refill rate) are stored. When the store is
//! full, all new keys share one overflow bucket, so that a flood of new clients gets the tokens of a single bucket and
//! memory stays bounded.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use marketplace::ports::LimitKey;

/// Maximum number of stored buckets of one size, that is, of one capacity and refill rate (about 20 MB).
pub const MAX_BUCKETS: usize = 100_000;

/// The time at which each bucket is full again, in the time unit of `governor`.
#[derive(Default)]
pub(crate) struct Buckets(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    full_at: HashMap<LimitKey, Nanos>,
    /// The bucket shared by all keys that were not stored, because the store was full.
    overflow: Option<Nanos>,
}

impl Buckets {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateStore for Buckets {
    type Key = LimitKey;

    fn measure_and_replace<T, F, E>(&self, key: &LimitKey, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut inner = self.inner();
        if let Some(at) = inner.full_at.get_mut(key) {
            let (taken, full_at) = decide(Some(*at))?;
            *at = full_at;
            return Ok(taken);
        }
        // A new bucket starts with the fill level of the overflow bucket, because its key may have used the overflow
        // bucket before.
        let (taken, full_at) = decide(inner.overflow)?;
        if inner.full_at.len() < MAX_BUCKETS {
            inner.full_at.insert(key.clone(), full_at);
        } else {
            inner.overflow = Some(full_at);
        }
        Ok(taken)
    }
}

impl ShrinkableKeyedStateStore<LimitKey> for Buckets {
    fn retain_recent(&self, drop_below: Nanos) {
        self.inner().full_at.retain(|_, at| *at > drop_below);
    }

    fn shrink_to_fit(&self) {
        let full_at = &mut self.inner().full_at;
        full_at.shrink_to(full_at.len() * 2);
    }

    fn len(&self) -> usize {
        self.inner().full_at.len()
    }

    fn is_empty(&self) -> bool {
        self.inner().full_at.is_empty()
    }
}
