//! Requests under an idempotency key: who is at work on one, and what it was answered (spec §4; seed 003 §2).

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_domain::{TenantId, UserId};

use super::{Changed, StoreError};

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

/// Reads requests.
#[async_trait]
pub trait RequestQueries: Send {
    /// The request of this scope, expired or not.
    async fn request_of(&mut self, scope: &RequestScope) -> Result<Option<KeptRequest>, StoreError>;
}

/// Writes requests.
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
