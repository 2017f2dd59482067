//! Idempotency keys: a request with a key is executed once, and a repetition returns the stored response until the key
//! expires.
//!
//! The command's unit of work claims the key, changes the market and stores the response. They are committed together:
//! there is no effect without its response, no second effect, and a crash leaves no claim behind. A repetition that comes
//! while the request is being processed is refused: within the process at once, among processes by the
//! database ([`RequestRepo::claim_request`](crate::ports::RequestRepo::claim_request)).
//!
//! A command that needs more than one unit of work claims its key before and stores its response afterwards, possibly in
//! another store ([`IdempotencyStore`]). No other attempt runs while its lease is valid, but after a crash before the
//! response is stored, the command is executed again.

mod database;

pub use crate::claim::{Call, Claim, Encode, UnitClaim};
pub use database::DatabaseIdempotencyStore;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::ports::{
    IdempotencyError, IdempotencyStore, MarketTransactor, RequestRecord, RequestScope, RequestState,
    StoredResponse,
};

use crate::claim::{KeysInProgress, stored_response};

/// A request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentRequest {
    pub scope: RequestScope,
    /// SHA-256 of the canonical body, in hex.
    pub body_hash: String,
    pub trace_id: String,
}

/// Result of claiming a key.
#[derive(Debug)]
pub enum ClaimOutcome<C> {
    /// No other attempt at the request is known: run the command.
    New(C),
    /// The request was executed before: return this stored response.
    Replayed(StoredResponse),
}

/// Lease, retention and sweep interval of idempotency keys.
#[derive(Debug, Clone)]
pub struct RequestSettings {
    /// Time for which an attempt at a request of several units of work excludes other attempts (`idempotency.lease`).
    pub lease: Duration,
    /// Retention of stored responses (`idempotency.keep`).
    pub keep: Duration,
    /// Interval of the sweep that removes expired idempotency keys (`idempotency.sweep-interval`).
    pub sweep_interval: Duration,
}

impl Default for RequestSettings {
    fn default() -> Self {
        RequestSettings {
            lease: Duration::from_secs(40),
            keep: Duration::from_secs(24 * 60 * 60),
            sweep_interval: Duration::from_secs(60),
        }
    }
}

/// Claims idempotency keys.
#[derive(Clone)]
pub struct Idempotency {
    pub(crate) tx: MarketTransactor,
    pub(crate) settings: RequestSettings,
    /// Store for requests whose response is stored after the command.
    pub(crate) deferred: Arc<dyn IdempotencyStore>,
    pub(crate) in_progress: KeysInProgress,
}

impl Idempotency {
    /// An instance with the default settings, whose keys are in the database.
    pub fn new(tx: MarketTransactor) -> Idempotency {
        let deferred = Arc::new(DatabaseIdempotencyStore::new(tx.clone()));
        Idempotency {
            tx,
            settings: RequestSettings::default(),
            deferred,
            in_progress: KeysInProgress::default(),
        }
    }

    /// Admits a request whose command claims the key and stores the response in its own unit of work, always in the
    /// database. Until the claim is dropped, this process admits no other request with the key.
    ///
    /// That the request was executed before is usually found in the command's unit of work: [`UseCaseError::Replayed`].
    ///
    /// # Errors
    /// While this process processes a request with this key: [`IdempotencyError::InProgress`], or
    /// [`IdempotencyError::KeyReused`] if one with another body was executed.
    ///
    /// [`UseCaseError::Replayed`]: crate::use_cases::UseCaseError::Replayed
    pub async fn begin(
        &self,
        request: IdempotentRequest,
    ) -> Result<ClaimOutcome<UnitClaim>, IdempotencyError> {
        let request = self.record(request);
        match self.in_progress.enter(&request.scope) {
            Some(entry) => Ok(ClaimOutcome::New(UnitClaim::new(request, entry))),
            // The other request may be a repetition, too: then the response is stored.
            None => match stored_response(&self.tx, &request).await? {
                Some(response) => Ok(ClaimOutcome::Replayed(response)),
                None => Err(IdempotencyError::InProgress),
            },
        }
    }

    /// Claims the key of a request whose response is stored after the command ([`Claim::done`]). After a crash between
    /// command and storing, the command is executed again, so it MUST be safe to repeat.
    pub async fn begin_with_deferred_response(
        &self,
        request: IdempotentRequest,
    ) -> Result<ClaimOutcome<Claim>, IdempotencyError> {
        let request = self.record(request);
        let keys = Arc::clone(&self.deferred);
        Ok(match keys.claim(&request).await? {
            Some(response) => ClaimOutcome::Replayed(response),
            None => ClaimOutcome::New(Claim {
                request: Arc::new(request),
                response_token: self.token().into(),
                keys,
            }),
        })
    }

    fn record(&self, request: IdempotentRequest) -> RequestRecord {
        let now = self.tx.now();
        RequestRecord {
            scope: request.scope,
            body_hash: request.body_hash,
            token: self.token(),
            state: RequestState::Processing { until: later(now, self.settings.lease) },
            trace_id: request.trace_id,
            create_time: now,
            expire_time: later(now, self.settings.keep),
        }
    }

    fn token(&self) -> String {
        let random = self.tx.random();
        format!("{:016x}{:016x}", random.next(), random.next())
    }
}

fn later(now: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(by).ok().and_then(|by| now.checked_add_signed(by)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
