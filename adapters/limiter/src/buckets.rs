//! The buckets that are not full, which are all there is to remember.
//!
//! **Invariant:** there are at most [`MOST_BUCKETS`] of one measure. Whoever finds no room shares one bucket with all others
//! who find none: under a flood of strangers nobody gets more than a bucket's worth, and memory stays what it is.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use marketplace::ports::LimitKey;

/// The most buckets of one measure (about 20 MB).
pub const MOST_BUCKETS: usize = 100_000;

/// When each bucket is full again, as the library counts.
#[derive(Default)]
pub(crate) struct Buckets(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    full_at: HashMap<LimitKey, Nanos>,
    /// The bucket of those who find no room.
    crowd: Option<Nanos>,
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
        // As empty as that of the crowd: its owner may have been one of them.
        let (taken, full_at) = decide(inner.crowd)?;
        if inner.full_at.len() < MOST_BUCKETS {
            inner.full_at.insert(key.clone(), full_at);
        } else {
            inner.crowd = Some(full_at);
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
