//! A request under an idempotency key is done once, and answered the same each time (spec §4; seed 003 §2).
//!
//! One short unit of work claims the key; the command's own unit of work keeps its answer, if the claim still stands.
//! So an effect without its answer, or a second effect, cannot be committed: whoever was overtaken is rolled back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_domain::{AssetOperation, Coupon, Order, Payment, Product, Refund};

use crate::mutants::{Mutant, planted};
use crate::ports::{Changed, KeptRequest, RequestScope, RequestState, StoreError, StoredAnswer, UnitOfWork};
use crate::transaction::{Attempt, BoxFuture, with_tx};
use crate::use_cases::UseCaseError;
use crate::{App, CommandContext};

/// How long keys and answers last.
#[derive(Debug, Clone)]
pub struct RequestSettings {
    /// How long whoever is at work on a request keeps repeats away (`idempotency.lease`).
    pub lease: Duration,
    /// How long an answer is kept (`idempotency.keep`).
    pub keep: Duration,
    /// How often expired ones are looked for (`idempotency.sweep-interval`).
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

/// What a command did: what its answer shows.
#[derive(Debug, Clone, Copy)]
pub enum Answered<'a> {
    /// This order.
    Order(&'a Order),
    /// This product.
    Product(&'a Product),
    /// This payment.
    Payment(&'a Payment),
    /// This refund.
    Refund(&'a Refund),
    /// This movement of an asset.
    Operation(&'a AssetOperation),
    /// This coupon.
    Coupon(&'a Coupon),
}

macro_rules! answers {
    ($($kind:ident),+) => {
        $(impl<'a> From<&'a $kind> for Answered<'a> {
            fn from(value: &'a $kind) -> Answered<'a> {
                Answered::$kind(value)
            }
        })+
    };
}
answers!(Order, Product, Payment, Refund, Coupon);

impl<'a> From<&'a AssetOperation> for Answered<'a> {
    fn from(value: &'a AssetOperation) -> Answered<'a> {
        Answered::Operation(value)
    }
}

/// What a command does to the world, as its answer's status says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// There is something that was not there: 201.
    Creates,
    /// Something is another than it was: 200.
    Moves,
}

impl Effect {
    const fn status(self) -> u16 {
        match self {
            Effect::Creates => 201,
            Effect::Moves => 200,
        }
    }
}

/// Writes the data of an answer as the edge shows it.
pub type AnswerWriter = fn(Answered<'_>) -> Result<String, serde_json::Error>;

/// A request that came under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRequest {
    /// Which.
    pub scope: RequestScope,
    /// SHA-256 of its canonical body, in hex.
    pub body_hash: String,
    /// Its trace.
    pub trace_id: String,
}

/// The claim of one attempt at a request. Clones are the same claim.
#[derive(Clone)]
pub struct Ticket {
    request: Arc<KeptRequest>,
    /// The token of its answer: one of its own, so that whoever read the claim before the answer came cannot take over
    /// what is answered.
    answer_token: Arc<str>,
    writer: AnswerWriter,
    /// Whether a unit of work has written the answer; it stands if that one was committed.
    written: Arc<AtomicBool>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("request", &self.request).finish_non_exhaustive()
    }
}

impl PartialEq for Ticket {
    fn eq(&self, other: &Ticket) -> bool {
        self.request == other.request
    }
}

impl Eq for Ticket {}

/// What a key was found to mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nobody has done it: do it, with this ticket in the context of the command.
    First(Ticket),
    /// It was done: answer this.
    Before(StoredAnswer),
}

/// Claims the key of a request.
///
/// While another attempt at it is at work it is [`UseCaseError::InProgress`]; another body under the same key is
/// [`UseCaseError::KeyTaken`]. An attempt whose lease has ended is overtaken: it can commit nothing any more.
pub async fn begin(app: &App, asked: KeyedRequest, writer: AnswerWriter) -> Result<Begun, UseCaseError> {
    let now = app.now();
    let token = || format!("{:016x}{:016x}", app.tx.chance.next(), app.tx.chance.next());
    let request = Arc::new(KeptRequest {
        scope: asked.scope,
        body_hash: asked.body_hash,
        token: token(),
        state: RequestState::Processing { until: later(now, app.requests.lease) },
        trace_id: asked.trace_id,
        create_time: now,
        expire_time: later(now, app.requests.keep),
    });
    let claim = Arc::clone(&request);
    let before = with_tx(&app.tx, move |unit, _| {
        let claim = Arc::clone(&claim);
        Box::pin(async move { claimed(unit, &claim, now).await })
    })
    .await?;
    Ok(match before {
        Some(answer) => Begun::Before(answer),
        None => {
            let answer_token = token().into();
            Begun::First(Ticket { request, answer_token, writer, written: Arc::default() })
        }
    })
}

/// Claims it, or tells what it was answered.
async fn claimed(
    unit: &mut dyn UnitOfWork,
    claim: &KeptRequest,
    now: DateTime<Utc>,
) -> Result<Option<StoredAnswer>, UseCaseError> {
    let Some(before) = unit.request_of(&claim.scope).await? else {
        unit.insert_request(claim).await?;
        return Ok(None);
    };
    if before.token == claim.token {
        // An earlier attempt of this very unit was committed after all.
        return Ok(None);
    }
    if before.expire_time > now {
        if before.body_hash != claim.body_hash && !planted(Mutant::AnotherBodyIsARepeat) {
            return Err(UseCaseError::KeyTaken);
        }
        match before.state {
            RequestState::Success(answer) => return Ok(Some(answer)),
            RequestState::Processing { until } if until > now => return Err(UseCaseError::InProgress),
            RequestState::Processing { .. } => {}
        }
    }
    match unit.advance_request(&before.token, claim).await? {
        Changed::One => Ok(None),
        Changed::None => Err(StoreError::Conflict { what: "idempotency key".to_owned() }.into()),
    }
}

impl Ticket {
    /// The client's key.
    pub fn key(&self) -> &str {
        &self.request.scope.key
    }

    /// Keeps the answer, in the unit of work of what it tells.
    async fn conclude(
        &self,
        unit: &mut dyn UnitOfWork,
        effect: Effect,
        answered: Answered<'_>,
    ) -> Result<(), UseCaseError> {
        let data = (self.writer)(answered).map_err(|error| StoreError::Backend(error.into()))?;
        let after = self.answered(StoredAnswer { status: effect.status(), data });
        let mut token = self.request.token.clone();
        if planted(Mutant::AnswerWithoutItsToken)
            && let Some(other) = unit.request_of(&after.scope).await?
        {
            token = other.token;
        }
        if unit.advance_request(&token, &after).await? == Changed::None {
            // Unless an earlier attempt of this very unit was committed after all.
            let kept = unit.request_of(&after.scope).await?;
            if kept.is_none_or(|kept| kept.token != after.token) {
                return Err(UseCaseError::InProgress);
            }
        }
        self.written.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn answered(&self, answer: StoredAnswer) -> KeptRequest {
        KeptRequest {
            state: RequestState::Success(answer),
            token: self.answer_token.to_string(),
            ..KeptRequest::clone(&self.request)
        }
    }

    /// The request was done and is answered with this. What the command's own unit of work kept stands; else it is kept
    /// now: a crash in between leaves the request to be done again, so this is for what may be done twice.
    pub async fn done(&self, app: &App, answer: StoredAnswer) -> Result<(), StoreError> {
        if self.written.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (after, token) = (Arc::new(self.answered(answer)), self.request.token.clone());
        with_tx(&app.tx, move |unit, _| {
            let (after, token) = (Arc::clone(&after), token.clone());
            Box::pin(async move { unit.advance_request(&token, &after).await.map(|_| ()) })
        })
        .await
    }

    /// The request was refused and changed nothing: its key is free again.
    pub async fn refused(&self, app: &App) -> Result<(), StoreError> {
        let request = Arc::clone(&self.request);
        with_tx(&app.tx, move |unit, _| {
            let request = Arc::clone(&request);
            Box::pin(async move { unit.drop_request(&request.scope, &request.token).await.map(|_| ()) })
        })
        .await
    }
}

/// Runs a command in a unit of work, and where it came under a key keeps its answer in the same one.
pub(crate) async fn with_answer<T, F>(
    app: &App,
    context: &CommandContext,
    effect: Effect,
    work: F,
) -> Result<T, UseCaseError>
where
    T: Send + Sync + 'static,
    for<'a> &'a T: Into<Answered<'a>>,
    F: for<'u> Fn(&'u mut dyn UnitOfWork, Attempt) -> BoxFuture<'u, Result<T, UseCaseError>>
        + Send
        + Sync
        + 'static,
{
    let Some(ticket) = context.idempotency.clone() else { return with_tx(&app.tx, work).await };
    let work = Arc::new(work);
    if planted(Mutant::AnswerKeptAfterwards) {
        let value = with_tx(&app.tx, move |unit, attempt| work(unit, attempt)).await?;
        let data = (ticket.writer)((&value).into()).map_err(|error| StoreError::Backend(error.into()))?;
        ticket.done(app, StoredAnswer { status: effect.status(), data }).await?;
        return Ok(value);
    }
    with_tx(&app.tx, move |unit, attempt| {
        let (ticket, work) = (ticket.clone(), Arc::clone(&work));
        Box::pin(async move {
            let value = work(&mut *unit, attempt).await?;
            ticket.conclude(unit, effect, (&value).into()).await?;
            Ok(value)
        })
    })
    .await
}

fn later(now: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(by).ok().and_then(|by| now.checked_add_signed(by)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
