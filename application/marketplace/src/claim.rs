//! Claim of a request's idempotency key, and the call of a command, which stores its response in its unit of work.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::context::CommandContext;
use crate::error::UseCaseError;
use crate::ports::{
    IdempotencyError, IdempotencyStore, MarketTransactor, RequestRecord, RequestState, StoredResponse, Work,
};
use handover_outbox::ports::{Changed, StoreError};
use handover_outbox::{Attempt, BoxFuture, with_tx};

/// Encodes the result of a command as the response to its request.
pub type Encode<T> = fn(&T) -> Result<StoredResponse, serde_json::Error>;

/// Claim of one attempt at a request. Clones are the same claim.
#[derive(Clone)]
pub struct Claim {
    pub(crate) request: Arc<RequestRecord>,
    /// Token of the stored response. It differs from the token of the claim, so that an attempt that read the
    /// claim earlier cannot replace the response.
    pub(crate) response_token: Arc<str>,
    /// Store in which the key was claimed.
    pub(crate) keys: Arc<dyn IdempotencyStore>,
    /// Whether a unit of work has written the response. The response is stored if that unit of work was committed.
    pub(crate) is_written: Arc<AtomicBool>,
}

/// Claim of a request whose command stores the response in its unit of work. Only [`Idempotency::begin`] returns it, so
/// that no command loses its response because its key was claimed in another store.
///
/// [`Idempotency::begin`]: crate::idempotency::Idempotency::begin
#[derive(Debug, Clone)]
pub struct UnitClaim(pub(crate) Claim);

impl From<UnitClaim> for Claim {
    fn from(UnitClaim(claim): UnitClaim) -> Claim {
        claim
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("request", &self.request).finish_non_exhaustive()
    }
}

impl Claim {
    async fn store_in_unit<R>(
        &self,
        unit: &mut Work,
        response: StoredResponse,
    ) -> Result<(), UseCaseError<R>> {
        let after = self.success_record(response);
        if unit.advance_request(&self.request.token, &after).await? == Changed::None {
            // If an earlier attempt of this unit of work with unknown outcome was committed, the response is already
            // stored. Otherwise another attempt has taken over the claim.
            let stored = unit.request_of(&after.scope).await?;
            if stored.is_none_or(|stored| stored.token != after.token) {
                return Err(UseCaseError::InProgress);
            }
        }
        self.is_written.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn success_record(&self, response: StoredResponse) -> RequestRecord {
        RequestRecord {
            state: RequestState::Success(response),
            token: self.response_token.to_string(),
            ..RequestRecord::clone(&self.request)
        }
    }

    /// Stores the response of an executed request. Does nothing if the command's unit of work has written it, or if
    /// another attempt has taken over the claim.
    pub async fn done(&self, response: StoredResponse) -> Result<(), IdempotencyError> {
        if self.is_written.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.keys.store_response(&self.request.token, &self.success_record(response)).await.map(|_| ())
    }

    /// Releases the key of a request that was rejected and changed nothing.
    pub async fn refused(&self) -> Result<(), IdempotencyError> {
        self.keys.release(&self.request.scope, &self.request.token).await.map(|_| ())
    }
}

/// Call of a command with the result `T`: its context, and where its response is stored if the request has an
/// idempotency key. A context is a call without a key.
pub struct Call<'a, T> {
    pub(crate) context: &'a CommandContext,
    stored: Option<(Claim, Encode<T>)>,
}

impl<'a, T> From<&'a CommandContext> for Call<'a, T> {
    fn from(context: &'a CommandContext) -> Call<'a, T> {
        Call { context, stored: None }
    }
}

impl<'a, T> Call<'a, T> {
    /// A call that stores its response with this encoding, if the key of its request was claimed.
    pub fn new(context: &'a CommandContext, claim: Option<&UnitClaim>, encode: Encode<T>) -> Call<'a, T> {
        Call { context, stored: claim.map(|UnitClaim(claim)| (claim.clone(), encode)) }
    }

    /// The idempotency key that the client sent.
    pub(crate) fn key(&self) -> Option<&str> {
        self.stored.as_ref().map(|(claim, _)| claim.request.scope.key.as_str())
    }

    /// Runs the command in a unit of work, which also stores the response.
    pub(crate) async fn run<I, R, F>(
        &self,
        tx: &MarketTransactor,
        input: I,
        work: F,
    ) -> Result<T, UseCaseError<R>>
    where
        T: Send + Sync + 'static,
        I: Send + Sync + 'static,
        R: Send + 'static,
        F: for<'u> Fn(&'u mut Work, &'u I, Attempt) -> BoxFuture<'u, Result<T, UseCaseError<R>>>
            + Send
            + Sync
            + 'static,
    {
        let input = (self.stored.clone(), input, work);
        with_tx(tx, input, |unit, (stored, input, work), attempt| {
            Box::pin(async move {
                let value = work(&mut *unit, input, attempt).await?;
                if let Some((claim, encode)) = stored {
                    let response = encode(&value).map_err(|error| StoreError::Backend(error.into()))?;
                    claim.store_in_unit(unit, response).await?;
                }
                Ok(value)
            })
        })
        .await
    }
}
