//! The keys of the requests that this process is executing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ports::RequestScope;

/// The keys of the requests that this process is executing. Clones are the same set.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeysInProgress(Arc<Mutex<BTreeSet<RequestScope>>>);

impl KeysInProgress {
    /// Enters the key of a request; `None` if a request with this key is in progress.
    pub(crate) fn enter(&self, scope: &RequestScope) -> Option<KeyEntry> {
        self.keys().insert(scope.clone()).then(|| KeyEntry { keys: self.clone(), scope: scope.clone() })
    }

    fn keys(&self) -> MutexGuard<'_, BTreeSet<RequestScope>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Entry of one key; dropping it removes the key.
#[derive(Debug)]
pub(crate) struct KeyEntry {
    keys: KeysInProgress,
    scope: RequestScope,
}

impl Drop for KeyEntry {
    fn drop(&mut self) {
        self.keys.keys().remove(&self.scope);
    }
}
