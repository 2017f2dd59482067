//! Claims of idempotency keys, and the call of a command, which claims its key and stores its response in its unit of work.

mod in_progress;

pub(crate) use in_progress::{KeyEntry, KeysInProgress};

use std::fmt;
use std::sync::Arc;

use crate::context::CommandContext;
use crate::error::UseCaseError;
use crate::ports::{
    ClaimState, IdempotencyError, IdempotencyStore, MarketTransactor, RequestClaim, RequestRecord,
    RequestState, StoredResponse, Work,
};
use handover_outbox::ports::{Changed, StoreError};
use handover_outbox::{Attempt, BoxFuture, with_tx};

/// Names, in a conflict, the key that an earlier attempt of the same call still locks: the database ends a rollback after
/// the next attempt has begun.
const KEY_OF_EARLIER_ATTEMPT: &str = "idempotency key of an earlier attempt";

/// Encodes the result of a command as the response to its request.
pub type Encode<T> = fn(&T) -> Result<StoredResponse, serde_json::Error>;

/// Claim of a request whose response is stored after its command. Clones are the same claim.
#[derive(Clone)]
pub struct Claim {
    pub(crate) request: Arc<RequestRecord>,
    /// Token of the stored response. It differs from the token of the claim, so that an attempt that read the
    /// claim earlier cannot replace the response.
    pub(crate) response_token: Arc<str>,
    /// Store in which the key was claimed.
    pub(crate) keys: Arc<dyn IdempotencyStore>,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("request", &self.request).finish_non_exhaustive()
    }
}

impl Claim {
    /// Stores the response of an executed request. Does nothing if another attempt has taken over the claim.
    pub async fn done(&self, response: StoredResponse) -> Result<(), IdempotencyError> {
        let executed = executed(&self.request, &self.response_token, response);
        self.keys.store_response(&self.request.token, &executed).await.map(|_| ())
    }

    /// Releases the key of a request that was rejected and changed nothing.
    pub async fn refused(&self) -> Result<(), IdempotencyError> {
        self.keys.release(&self.request.scope, &self.request.token).await.map(|_| ())
    }
}

/// Claim of a request whose command claims the key and stores the response in its own unit of work. Only
/// [`Idempotency::begin`] returns it, so that no command loses its response because its key was claimed in another store.
///
/// [`Idempotency::begin`]: crate::idempotency::Idempotency::begin
#[derive(Debug, Clone)]
pub struct UnitClaim {
    request: Arc<RequestRecord>,
    /// Refuses other attempts in this process until the last clone of the claim is dropped.
    _entry: Arc<KeyEntry>,
}

impl UnitClaim {
    pub(crate) fn new(request: RequestRecord, entry: KeyEntry) -> UnitClaim {
        UnitClaim { request: Arc::new(request), _entry: Arc::new(entry) }
    }

    async fn store_in_unit<R>(
        &self,
        unit: &mut Work,
        response: StoredResponse,
    ) -> Result<(), UseCaseError<R>> {
        let token = &self.request.token;
        match unit.advance_request(token, &executed(&self.request, token, response)).await? {
            Changed::One => Ok(()),
            Changed::None => Err(StoreError::Conflict { what: "idempotency key".to_owned() }.into()),
        }
    }

    /// Why the unit of work could not claim the key: another attempt executes the request or has just executed it.
    async fn refusal<R>(&self, tx: &MarketTransactor) -> UseCaseError<R> {
        match stored_response(tx, &self.request).await {
            Ok(Some(response)) => UseCaseError::Replayed(response),
            Ok(None) => UseCaseError::InProgress,
            Err(error) => error.into(),
        }
    }
}

/// The record of a request with its response.
fn executed(request: &RequestRecord, token: &str, response: StoredResponse) -> RequestRecord {
    RequestRecord {
        state: RequestState::Success(response),
        token: token.to_owned(),
        ..RequestRecord::clone(request)
    }
}

/// Claims the key of the request, takes over an expired claim, or returns the stored response.
pub(crate) async fn claim_in(
    unit: &mut Work,
    claim: &RequestRecord,
) -> Result<Option<StoredResponse>, IdempotencyError> {
    let existing = match unit.claim_request(claim).await? {
        RequestClaim::Inserted => return Ok(None),
        RequestClaim::Locked => return Err(IdempotencyError::InProgress),
        RequestClaim::Exists(existing) => existing,
    };
    let token = existing.token.clone();
    match existing.decide_claim(claim, claim.create_time)? {
        ClaimState::Own => Ok(None),
        ClaimState::Completed(response) => Ok(Some(response)),
        ClaimState::Replaceable => match unit.advance_request(&token, claim).await? {
            Changed::One => Ok(None),
            Changed::None => Err(StoreError::Conflict { what: "idempotency key".to_owned() }.into()),
        },
    }
}

/// The stored response of the request, if it was executed.
pub(crate) async fn stored_response(
    tx: &MarketTransactor,
    claim: &RequestRecord,
) -> Result<Option<StoredResponse>, IdempotencyError> {
    let Some(existing) = tx.view().await?.request_of(&claim.scope).await? else { return Ok(None) };
    match existing.decide_claim(claim, claim.create_time)? {
        ClaimState::Completed(response) => Ok(Some(response)),
        ClaimState::Own | ClaimState::Replaceable => Ok(None),
    }
}

/// Call of a command with the result `T`: its context, and where its response is stored if the request has an
/// idempotency key. A context is a call without a key.
pub struct Call<'a, T> {
    pub(crate) context: &'a CommandContext,
    stored: Option<(UnitClaim, Encode<T>)>,
}

impl<'a, T> From<&'a CommandContext> for Call<'a, T> {
    fn from(context: &'a CommandContext) -> Call<'a, T> {
        Call { context, stored: None }
    }
}

impl<'a, T> Call<'a, T> {
    /// A call that stores its response with this encoding, if the key of its request was claimed.
    pub fn new(context: &'a CommandContext, claim: Option<&UnitClaim>, encode: Encode<T>) -> Call<'a, T> {
        Call { context, stored: claim.map(|claim| (claim.clone(), encode)) }
    }

    /// The idempotency key that the client sent.
    pub(crate) fn key(&self) -> Option<&str> {
        self.stored.as_ref().map(|(claim, _)| claim.request.scope.key.as_str())
    }

    /// Runs the command in a unit of work, which also claims the key and stores the response.
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
        let Some((claim, encode)) = self.stored.clone() else {
            return with_tx(tx, (input, work), |unit, (input, work), attempt| {
                if !attempt.is_repeated() {
                    unit.defer_writes();
                }
                work(unit, input, attempt)
            })
            .await;
        };
        let input = (claim.clone(), encode, input, work);
        let outcome = with_tx(tx, input, |unit, (claim, encode, input, work), attempt| {
            Box::pin(async move {
                if !attempt.is_repeated() {
                    unit.defer_writes();
                }
                match claim_in(unit, &claim.request).await {
                    Ok(None) => {}
                    Ok(Some(response)) => return Err(UseCaseError::Replayed(response)),
                    Err(IdempotencyError::InProgress) if attempt.is_repeated() => {
                        let what = KEY_OF_EARLIER_ATTEMPT.to_owned();
                        return Err(StoreError::Conflict { what }.into());
                    }
                    Err(error) => return Err(error.into()),
                }
                let value = work(&mut *unit, input, attempt).await?;
                let response = encode(&value).map_err(|error| StoreError::Backend(error.into()))?;
                claim.store_in_unit(unit, response).await?;
                Ok(value)
            })
        })
        .await;
        match outcome {
            Err(UseCaseError::InProgress) => Err(claim.refusal(tx).await),
            Err(UseCaseError::Store(StoreError::Conflict { what })) if what == KEY_OF_EARLIER_ATTEMPT => {
                Err(claim.refusal(tx).await)
            }
            outcome => outcome,
        }
    }
}
