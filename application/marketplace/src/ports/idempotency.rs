//! Idempotency records: the claim of a request and its stored response.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::UserId;

use handover_outbox::is_in_the_future;
use handover_outbox::ports::{Changed, StoreError};

/// Identifies a request. Requests with the same scope and the same body are repetitions of one request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestScope {
    pub tenant: TenantId,
    pub user: UserId,
    /// Method and path: `POST /api/v1/orders/17/ship`. At most [`RequestScope::MAX_ROUTE_CHARS`] characters.
    pub route: String,
    /// The key from the client: 1 to [`RequestScope::MAX_KEY_CHARS`] characters of visible ASCII, compared byte by byte.
    pub key: String,
}

impl RequestScope {
    /// Maximum length of a key.
    pub const MAX_KEY_CHARS: usize = 255;
    /// Maximum length of a route.
    pub const MAX_ROUTE_CHARS: usize = 255;
}

/// Stored response of a request, as the edge encoded it. The application does not interpret it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    pub code: u16,
    pub text: String,
}

/// Progress of a request: being executed, or executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// An attempt is executing the request.
    Processing {
        /// End of the lease. From then on, another attempt can take over the claim.
        until: DateTime<Utc>,
    },
    /// The request was executed.
    Success(StoredResponse),
}

/// Stored record of a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    pub scope: RequestScope,
    /// SHA-256 of the canonical body, in hex. The same scope with another body is rejected.
    pub body_hash: String,
    /// 32 hex digits, different for each claim and for the stored response. A write that requires this
    /// token fails if the record has changed.
    pub token: String,
    pub state: RequestState,
    /// Trace of the attempt that owns the claim.
    pub trace_id: String,
    /// Time of the claim.
    pub create_time: DateTime<Utc>,
    /// Time from which a new claim can replace the record.
    pub expire_time: DateTime<Utc>,
}

/// Reason why a key was not claimed or a record was not changed.
#[derive(Debug, thiserror::Error)]
pub enum IdempotencyError {
    /// The key was used for a request with another body.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// Another attempt at the same request owns the claim, and its lease has not ended.
    #[error("the same request is being processed")]
    InProgress,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The separate idempotency store failed or did not respond. It may have executed the operation.
    #[error("idempotency store unavailable: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// How an existing record affects a new claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimState {
    /// The existing record is the claim itself: an earlier write of it, whose outcome was unknown, succeeded.
    Own,
    /// The same request was executed; this is its response.
    Completed(StoredResponse),
    /// The claim may replace the existing record, which expired or whose lease ended without a response. The write
    /// requires that the token of the record is unchanged.
    Replaceable,
}

impl RequestRecord {
    /// Decides how this existing record affects a new claim. `now` is the current time of the clock that wrote the
    /// record. Every store uses this decision.
    ///
    /// # Errors
    /// [`IdempotencyError::KeyReused`] if the body differs, [`IdempotencyError::InProgress`] while the lease is valid.
    pub fn decide_claim(
        self,
        claim: &RequestRecord,
        now: DateTime<Utc>,
    ) -> Result<ClaimState, IdempotencyError> {
        if self.token == claim.token {
            return Ok(ClaimState::Own);
        }
        if self.expire_time <= now {
            return Ok(ClaimState::Replaceable);
        }
        if self.body_hash != claim.body_hash {
            return Err(IdempotencyError::KeyReused);
        }
        match self.state {
            RequestState::Success(response) => Ok(ClaimState::Completed(response)),
            // A claim with a creation time in the future was written before the clock was set back, so its lease end is
            // not valid.
            RequestState::Processing { until } if until > now && !is_in_the_future(self.create_time, now) => {
                Err(IdempotencyError::InProgress)
            }
            RequestState::Processing { .. } => Ok(ClaimState::Replaceable),
        }
    }
}

/// Stores idempotency records. Each call is atomic.
///
/// A command of one unit of work needs no such store: it claims its key and stores its response in its own unit of work
/// ([`idempotency`](crate::idempotency)). With [`store_response`](IdempotencyStore::store_response), the response is stored
/// after the command, so the command MUST be safe to execute twice.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Stores the claim, whose state is `Processing`, or returns the stored response of the request.
    ///
    /// `claim.create_time` is the current time of the deployment's clock. A store with its own clock MUST use the other
    /// times as durations relative to `create_time`. An existing record is handled by [`RequestRecord::decide_claim`].
    /// Of concurrent claims of one key, exactly one MUST succeed. A store that cannot decide MUST return an error: no
    /// request runs without a claim.
    async fn claim(&self, claim: &RequestRecord) -> Result<Option<StoredResponse>, IdempotencyError>;

    /// Replaces the claim by the response and its new token, if the stored token is `token`. The expiry time does not
    /// change.
    async fn store_response(&self, token: &str, record: &RequestRecord) -> Result<Changed, IdempotencyError>;

    /// Removes the record if it is `Processing` and its token is `token`.
    async fn release(&self, scope: &RequestScope, token: &str) -> Result<Changed, IdempotencyError>;
}

/// Result of claiming a scope in a unit of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestClaim {
    /// The scope had no record: the claim was inserted.
    Inserted,
    /// The scope has this record; the claim was not inserted.
    Exists(RequestRecord),
    /// Another unit of work has claimed the scope and has not ended. This unit of work must be rolled back.
    Locked,
}

/// Reads requests.
#[handover_macros::wrappable]
#[async_trait]
pub trait RequestQueries: Send {
    /// The record of this scope, even if it has expired.
    async fn request_of(&mut self, scope: &RequestScope) -> Result<Option<RequestRecord>, StoreError>;
}

/// Writes requests.
#[handover_macros::wrappable]
#[async_trait]
pub trait RequestRepo: Send {
    /// Inserts the claim unless its scope has a record; then it MUST lock nothing. Of concurrent units of work, at most one
    /// MUST insert its claim. The others MUST NOT wait for it if the store runs units of work concurrently: they get
    /// [`RequestClaim::Locked`], or a `Conflict` if they claim the scope at the same moment.
    async fn claim_request(&mut self, claim: &RequestRecord) -> Result<RequestClaim, StoreError>;

    /// Replaces the record of this scope if its token is `token`: one conditional write. Replacing a record by an identical
    /// one MUST be [`Changed::One`], because a commit of unknown outcome is repeated.
    async fn advance_request(&mut self, token: &str, after: &RequestRecord) -> Result<Changed, StoreError>;

    /// Removes the record of this scope if it is `Processing` and its token is `token`.
    async fn drop_request(&mut self, scope: &RequestScope, token: &str) -> Result<Changed, StoreError>;

    /// Removes at most `limit` records that expired at or before `now`, earliest first. Returns the number of removed
    /// records.
    async fn delete_expired_requests(&mut self, now: DateTime<Utc>, limit: u32) -> Result<u64, StoreError>;
}
