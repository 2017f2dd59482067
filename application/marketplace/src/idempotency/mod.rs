//! A request under an idempotency key is done once, and answered the same each time (spec §4; seed 003 §2).
//!
//! One short unit of work claims the key; the command's own unit of work keeps its answer, if the claim still stands.
//! So an effect without its answer, or a second effect, cannot be committed: whoever was overtaken is rolled back.
//! What is done in more than one unit of work keeps its answer afterwards, and may keep it elsewhere
//! ([`IdempotencyStore`]): it is done by one at a time, and again after a crash in between.

mod database;
mod ticket;

pub use database::DatabaseKeys;
pub use ticket::Ticket;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use marketplace_domain::{AssetOperation, Coupon, Order, Payment, Product, Refund};

use crate::mutants::{Mutant, planted};
use crate::ports::{
    IdempotencyError, IdempotencyStore, KeptRequest, RequestScope, RequestState, StoredAnswer, Work,
};
use crate::use_cases::UseCaseError;
use crate::{App, CommandContext};
use handover_outbox::ports::StoreError;
use handover_outbox::{Attempt, BoxFuture, with_tx};
use ticket::{Keeps, Within};

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

/// What a key was found to mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nobody has done it: do it, with this ticket in the context of the command.
    First(Ticket),
    /// It was done: answer this.
    Before(StoredAnswer),
}

/// Claims the key of a request whose answer its command keeps in its own unit of work: in the database, always.
///
/// While another attempt at it is at work it is [`IdempotencyError::InProgress`]; another body under the same key is
/// [`IdempotencyError::KeyTaken`]. An attempt whose lease has ended is overtaken: it can commit nothing any more.
pub async fn begin(app: &App, asked: KeyedRequest, writer: AnswerWriter) -> Result<Begun, IdempotencyError> {
    let keeps = Keeps::Within(Within::new(writer));
    claimed(app, asked, Arc::new(DatabaseKeys::new(app.tx.clone())), keeps).await
}

/// Claims the key of a request whose answer is kept after what it did ([`Ticket::done`]), in the store that the
/// application was given for such ([`App::with_keys`]). A crash in between leaves it to be done again, so this is for what
/// may be done twice; a command that keeps its answer in its own unit of work refuses such a ticket.
pub async fn begin_afterwards(app: &App, asked: KeyedRequest) -> Result<Begun, IdempotencyError> {
    let keys = match &app.keys {
        Some(keys) => Arc::clone(keys),
        None => Arc::new(DatabaseKeys::new(app.tx.clone())),
    };
    claimed(app, asked, keys, Keeps::Afterwards).await
}

async fn claimed(
    app: &App,
    asked: KeyedRequest,
    keys: Arc<dyn IdempotencyStore>,
    keeps: Keeps,
) -> Result<Begun, IdempotencyError> {
    let now = app.now();
    let token = || format!("{:016x}{:016x}", app.tx.chance.next(), app.tx.chance.next());
    let request = KeptRequest {
        scope: asked.scope,
        body_hash: asked.body_hash,
        token: token(),
        state: RequestState::Processing { until: later(now, app.requests.lease) },
        trace_id: asked.trace_id,
        create_time: now,
        expire_time: later(now, app.requests.keep),
    };
    Ok(match keys.claim(&request).await? {
        Some(answer) => Begun::Before(answer),
        None => {
            let (request, answer_token) = (Arc::new(request), token().into());
            Begun::First(Ticket { request, answer_token, keys, keeps })
        }
    })
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
    F: for<'u> Fn(&'u mut Work, Attempt) -> BoxFuture<'u, Result<T, UseCaseError>> + Send + Sync + 'static,
{
    let Some(ticket) = context.idempotency.clone() else { return with_tx(&app.tx, work).await };
    let (within, work) = (ticket.within()?, Arc::new(work));
    if planted(Mutant::AnswerKeptAfterwards) {
        let value = with_tx(&app.tx, move |unit, attempt| work(unit, attempt)).await?;
        let data = within.write((&value).into())?;
        let kept = ticket.done(StoredAnswer { status: effect.status(), data }).await;
        kept.map_err(|error| StoreError::Unavailable(error.into()))?;
        return Ok(value);
    }
    with_tx(&app.tx, move |unit, attempt| {
        let (ticket, within, work) = (ticket.clone(), within.clone(), Arc::clone(&work));
        Box::pin(async move {
            let value = work(&mut *unit, attempt).await?;
            ticket.conclude(&within, unit, effect, (&value).into()).await?;
            Ok(value)
        })
    })
    .await
}

fn later(now: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(by).ok().and_then(|by| now.checked_add_signed(by)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
