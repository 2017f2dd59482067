//! Requests under an idempotency key: who is at work on one, and what it was answered (spec §4; seed 003 §2).

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::UserId;

use crate::mutants::{Mutant, planted};
use handover_outbox::is_of_the_future;
use handover_outbox::ports::{Changed, StoreError};

/// Which request: two of one scope are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestScope {
    /// Whose tenant.
    pub tenant: TenantId,
    /// Who asks.
    pub user: UserId,
    /// Method and path: `POST /api/v1/orders/17/ship`. At most [`RequestScope::MAX_ROUTE_CHARS`].
    pub route: String,
    /// The client's key: 1 to [`RequestScope::MAX_KEY_CHARS`] of visible ASCII, compared byte by byte.
    pub key: String,
}

impl RequestScope {
    /// The longest key.
    pub const MAX_KEY_CHARS: usize = 255;
    /// The longest route.
    pub const MAX_ROUTE_CHARS: usize = 255;
}

/// What a request was answered, as it can be answered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The data of the answer, as JSON.
    pub data: String,
}

/// How far a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestState {
    /// Somebody is at work on it. From this moment on another may take it over.
    Processing {
        /// The end of the lease.
        until: DateTime<Utc>,
    },
    /// It was done.
    Success(StoredAnswer),
}

/// A request under a key, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRequest {
    /// Which.
    pub scope: RequestScope,
    /// SHA-256 of the canonical body, in hex: under one key another body is another request.
    pub body_hash: String,
    /// 32 hex digits, new with each attempt of a client and with its answer: whoever knows it knows what stands here.
    pub token: String,
    /// How far it is.
    pub state: RequestState,
    /// The trace of who is at work on it.
    pub trace_id: String,
    /// When it came first.
    pub create_time: DateTime<Utc>,
    /// From this moment on it is as if it had never come.
    pub expire_time: DateTime<Utc>,
}

/// Why a key is not claimed, or what stands under it is not changed.
#[derive(Debug, thiserror::Error)]
pub enum IdempotencyError {
    /// It was used for another request: the body was another.
    #[error("the idempotency key was used for another request")]
    KeyTaken,
    /// Another attempt at the same request is at work, and its lease has not ended.
    #[error("the same request is being processed")]
    InProgress,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What keeps keys beside the database gives no good answer. It may have done what it was asked.
    #[error("idempotency keys cannot be asked for: {0}")]
    Away(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What stands under a key that somebody claims now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// This very claim: an earlier attempt to write it succeeded after all.
    Claimed,
    /// The same request, with its answer.
    Answered(StoredAnswer),
    /// What may be replaced, by who knows its token: it expired, or its lease ended without an answer.
    Over,
}

impl KeptRequest {
    /// What this, which stands under the key, is to somebody who claims it `now`, by the clock that wrote it. Decided here
    /// for every store: a request that is not over and not the same is refused.
    pub fn claimed_by(self, claim: &KeptRequest, now: DateTime<Utc>) -> Result<Standing, IdempotencyError> {
        if self.token == claim.token {
            return Ok(Standing::Claimed);
        }
        if self.expire_time <= now {
            return Ok(Standing::Over);
        }
        if self.body_hash != claim.body_hash && !planted(Mutant::AnotherBodyIsARepeat) {
            return Err(IdempotencyError::KeyTaken);
        }
        match self.state {
            RequestState::Success(answer) => Ok(Standing::Answered(answer)),
            // A claim of the future was written by a clock that was set back since: its end says nothing.
            RequestState::Processing { until } if until > now && !is_of_the_future(self.create_time, now) => {
                Err(IdempotencyError::InProgress)
            }
            RequestState::Processing { .. } => Ok(Standing::Over),
        }
    }
}

/// Keeps what becomes of requests under idempotency keys, each call for itself.
///
/// The database can do more: it keeps an answer in the transaction of what that tells of
/// ([`idempotency`](crate::idempotency)). This port is for requests whose answer is kept after what they did, which may be
/// done twice.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Claims the key of a request that comes now and is `Processing`; or tells what it was answered.
    ///
    /// `claim.create_time` is now by the deployment's clock; a store with a clock of its own takes the times as lengths from
    /// there. What stands under the key already decides as [`KeptRequest::claimed_by`] says, and of many that claim one key
    /// at once one MUST get it and no other. A store that cannot tell MUST refuse: nobody may go on without a claim.
    async fn claim(&self, claim: &KeptRequest) -> Result<Option<StoredAnswer>, IdempotencyError>;

    /// Keeps the answer, with a token of its own, until the claim would have expired: if what stands there is the claim with
    /// this `token`.
    async fn conclude(&self, token: &str, answered: &KeptRequest) -> Result<Changed, IdempotencyError>;

    /// Frees the key, if what stands there is `Processing` and its token is `token`.
    async fn release(&self, scope: &RequestScope, token: &str) -> Result<Changed, IdempotencyError>;
}

/// Reads requests.
#[handover_macros::wrappable]
#[async_trait]
pub trait RequestQueries: Send {
    /// The request of this scope, expired or not.
    async fn request_of(&mut self, scope: &RequestScope) -> Result<Option<KeptRequest>, StoreError>;
}

/// Writes requests.
#[handover_macros::wrappable]
#[async_trait]
pub trait RequestRepo: Send {
    /// Adds a request. A taken scope MUST be a `Conflict`.
    async fn insert_request(&mut self, request: &KeptRequest) -> Result<(), StoreError>;

    /// Replaces everything of the request of this scope, if its token is `token`: one conditional write. Replacing it
    /// with what it is already MUST be [`Changed::One`]: a commit of unknown outcome is repeated.
    async fn advance_request(&mut self, token: &str, after: &KeptRequest) -> Result<Changed, StoreError>;

    /// Removes the request of this scope, if it is `Processing` and its token is `token`.
    async fn drop_request(&mut self, scope: &RequestScope, token: &str) -> Result<Changed, StoreError>;

    /// Removes at most `limit` requests that expired at or before `now`, the longest expired first; tells how many.
    async fn sweep_requests(&mut self, now: DateTime<Utc>, limit: u32) -> Result<u64, StoreError>;
}
