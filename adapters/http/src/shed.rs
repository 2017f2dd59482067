//! A bound on the requests that are worked on at a time. Those beyond it are turned away at once: a queue would make
//! everybody wait for answers that nobody waits for any more.
//!
//! **Invariant:** who holds a place works. While a body is on its way its request gives its place back, so that slow
//! senders keep nobody out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use marketplace::OVERLOAD_REFUSED;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::edge::Edge;
use crate::envelope::Code;
use crate::messages;
use crate::refusal::Refusal;
use crate::trace::turned_away;

/// Of so many that are turned away one is told of in the log, the first among them.
const TOLD_OF: u64 = 1000;

/// How many requests may be worked on at a time.
#[derive(Clone)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    turned_away: Arc<AtomicU64>,
}

impl Places {
    pub(crate) fn new(count: u32) -> Places {
        Places { free: Arc::new(Semaphore::new(count as usize)), turned_away: Arc::default() }
    }

    fn take(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.free).try_acquire_owned().map_err(|_| {
            let before = self.turned_away.fetch_add(1, Ordering::Relaxed);
            if before.is_multiple_of(TOLD_OF) {
                tracing::warn!(turnedAway = before + 1, "too many requests at a time: some are turned away");
            }
            metrics::counter!(OVERLOAD_REFUSED).increment(1);
            Refusal::new(Code::Away, messages::BUSY).soon()
        })
    }
}

/// A request's place, with it from layer to layer.
#[derive(Clone)]
pub(crate) struct Place {
    held: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    places: Places,
}

impl Place {
    fn held(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For as long as it only waits.
    pub(crate) fn give_back(&self) {
        drop(self.held().take());
    }

    /// To go on, if there is room.
    pub(crate) fn take_again(&self) -> Result<(), Refusal> {
        let place = self.places.take()?;
        *self.held() = Some(place);
        Ok(())
    }
}

/// The layer of every route that works. It stands outside of the request's span and log line: the more are turned away,
/// the less is left for the rest, so being turned away is made cheap, and is counted.
pub(crate) async fn admitted(
    State((edge, places)): State<(Arc<Edge>, Places)>,
    mut request: Request,
    next: Next,
) -> Response {
    let permit = match places.take() {
        Ok(permit) => permit,
        Err(refusal) => return turned_away(&edge, request.headers(), refusal),
    };
    let place = Place { held: Arc::new(Mutex::new(Some(permit))), places };
    request.extensions_mut().insert(place.clone());
    let response = next.run(request).await;
    place.give_back();
    response
}
