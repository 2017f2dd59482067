//! Idempotency keys: a request with a key is executed once, and a repetition returns the stored response until the key
//! expires.
//!
//! One short unit of work claims the key. The command's unit of work stores the response, on condition that the claim is
//! still valid. An effect without its response, or a second effect, cannot be committed: an attempt whose claim was taken
//! over is rolled back.
//!
//! A command that needs more than one unit of work stores its response afterwards, possibly in another store
//! ([`IdempotencyStore`]). No other attempt runs while its lease is valid, but after a crash before the response is
//! stored, the command is executed again.

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
    /// The key is claimed: run the command.
    New(C),
    /// The request was executed before: return this stored response.
    Replayed(StoredResponse),
}

/// Lease, retention and sweep interval of idempotency keys.
#[derive(Debug, Clone)]
pub struct RequestSettings {
    /// Time for which an attempt at a request excludes other attempts (`idempotency.lease`).
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
}

impl Idempotency {
    /// An instance with the default settings, whose keys are in the database.
    pub fn new(tx: MarketTransactor) -> Idempotency {
        let deferred = Arc::new(DatabaseIdempotencyStore::new(tx.clone()));
        Idempotency { tx, settings: RequestSettings::default(), deferred }
    }

    /// Claims the key of a request whose command stores the response in its own unit of work, always in the database.
    ///
    /// A claim whose lease has ended is taken over; the earlier attempt can no longer commit.
    ///
    /// # Errors
    /// [`IdempotencyError::InProgress`] while another attempt at the request runs, [`IdempotencyError::KeyReused`] if the
    /// key was used with another body.
    pub async fn begin(
        &self,
        request: IdempotentRequest,
    ) -> Result<ClaimOutcome<UnitClaim>, IdempotencyError> {
        let keys = Arc::new(DatabaseIdempotencyStore::new(self.tx.clone()));
        Ok(match self.claim(request, keys).await? {
            ClaimOutcome::New(claim) => ClaimOutcome::New(UnitClaim(claim)),
            ClaimOutcome::Replayed(response) => ClaimOutcome::Replayed(response),
        })
    }

    /// Claims the key of a request whose response is stored after the command ([`Claim::done`]). After a crash between
    /// command and storing, the command is executed again, so it MUST be safe to repeat.
    pub async fn begin_with_deferred_response(
        &self,
        request: IdempotentRequest,
    ) -> Result<ClaimOutcome<Claim>, IdempotencyError> {
        self.claim(request, Arc::clone(&self.deferred)).await
    }

    async fn claim(
        &self,
        request: IdempotentRequest,
        keys: Arc<dyn IdempotencyStore>,
    ) -> Result<ClaimOutcome<Claim>, IdempotencyError> {
        let now = self.tx.now();
        let random = self.tx.random();
        let token = || format!("{:016x}{:016x}", random.next(), random.next());
        let request = RequestRecord {
            scope: request.scope,
            body_hash: request.body_hash,
            token: token(),
            state: RequestState::Processing { until: later(now, self.settings.lease) },
            trace_id: request.trace_id,
            create_time: now,
            expire_time: later(now, self.settings.keep),
        };
        Ok(match keys.claim(&request).await? {
            Some(response) => ClaimOutcome::Replayed(response),
            None => {
                let request = Arc::new(request);
                let response_token = token().into();
                ClaimOutcome::New(Claim { request, response_token, keys, is_written: Arc::default() })
            }
        })
    }
}

fn later(now: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(by).ok().and_then(|by| now.checked_add_signed(by)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
