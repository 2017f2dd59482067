//! The keys of the requests that this process is executing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ports::{IdempotencyError, RequestRecord, RequestScope};

/// The keys of the requests that this process is executing, with the hashes of their bodies. Clones are the same set.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeysInProgress(Arc<Mutex<BTreeMap<RequestScope, String>>>);

impl KeysInProgress {
    /// Enters the key of a request; `None` if the request is in progress.
    pub(crate) fn enter(&self, request: &RequestRecord) -> Result<Option<KeyEntry>, IdempotencyError> {
        let mut keys = self.keys();
        match keys.get(&request.scope) {
            Some(body) if *body != request.body_hash => Err(IdempotencyError::KeyReused),
            Some(_) => Ok(None),
            None => {
                keys.insert(request.scope.clone(), request.body_hash.clone());
                Ok(Some(KeyEntry { keys: self.clone(), scope: request.scope.clone() }))
            }
        }
    }

    fn keys(&self) -> MutexGuard<'_, BTreeMap<RequestScope, String>> {
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
