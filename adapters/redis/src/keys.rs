//! Idempotency keys of what keeps its answer afterwards: one script for each step, by the clock of the server.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::{
    IdempotencyError, IdempotencyStore, KeptRequest, RequestScope, RequestState, Standing, StoredAnswer,
};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, Script, ScriptInvocation};

use crate::kept::{Fields, corrupt, kept};
use crate::link::{Deadline, Link, RedisAway};

static CLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("claim.lua")));
static CONCLUDE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("conclude.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("release.lua")));

/// What the key of every request begins with (seed 003).
const PREFIX: &str = "idempotent:";
/// The longest answer that is kept, in bytes.
pub(crate) const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// How often a claim may find that what it was about to replace is another by now.
const ATTEMPTS: usize = 4;

/// Keeps keys in Redis.
///
/// Whatever is not certain is refused: while Redis is away, late or talks nonsense nobody gets a claim, and nothing falls
/// back to another store, in which the same key would be new.
pub struct RedisKeys {
    link: Arc<Link>,
    /// Added to the server's clock, in milliseconds.
    clock_ahead_ms: Box<dyn Fn() -> i64 + Send + Sync>,
}

/// What claiming one answers: how it ended, now by the server's clock, what stands there.
type Claimed = (i64, i64, Fields);

impl RedisKeys {
    /// On this connection, while it is there.
    pub fn new(link: Arc<Link>) -> RedisKeys {
        RedisKeys { link, clock_ahead_ms: Box::new(|| 0) }
    }

    /// The same on a server whose clock is said to be ahead by so much, for tests of clocks that are set.
    #[must_use]
    pub fn with_clock_ahead(self, ms: impl Fn() -> i64 + Send + Sync + 'static) -> RedisKeys {
        RedisKeys { clock_ahead_ms: Box::new(ms), ..self }
    }

    /// Asks within what is left of `redis.timeout`. Whoever gets no good answer takes the connection away for all.
    async fn ask<T: FromRedisValue>(
        &self,
        asked: &ScriptInvocation<'_>,
        deadline: &mut Deadline<'_>,
    ) -> Result<T, IdempotencyError> {
        let connection = self.link.connection().ok_or_else(|| away(RedisAway::absent()))?;
        let mut to = connection.to.clone();
        deadline.answered(asked.invoke_async::<T>(&mut to)).await.map_err(|why| {
            self.link.broken(&connection, &why);
            away(why)
        })
    }

    /// Whether a script changed something.
    async fn changed(&self, asked: &ScriptInvocation<'_>) -> Result<Changed, IdempotencyError> {
        match self.ask::<i64>(asked, &mut self.link.deadline()).await? {
            0 => Ok(Changed::None),
            1 => Ok(Changed::One),
            other => Err(away(RedisAway::nonsense(&other))),
        }
    }
}

#[async_trait]
impl IdempotencyStore for RedisKeys {
    async fn claim(&self, claim: &KeptRequest) -> Result<Option<StoredAnswer>, IdempotencyError> {
        let (name, ahead_ms) = (name(&claim.scope), (self.clock_ahead_ms)());
        let mut deadline = self.link.deadline();
        let mut replaced = String::new();
        for _ in 0..ATTEMPTS {
            let asked = claiming(&name, claim, &replaced, ahead_ms)?;
            let (now, fields) = match self.ask::<Claimed>(&asked, &mut deadline).await? {
                (1, _, _) => return Ok(None),
                (0, now_ms, fields) => (moment(now_ms, &name)?, fields),
                (2, _, _) => return Err(corrupt(&name, "*", "it is no request; somebody else writes there")),
                (other, _, _) => return Err(away(RedisAway::nonsense(&other))),
            };
            let before = kept(&claim.scope, &name, fields)?;
            let token = before.token.clone();
            match before.claimed_by(claim, now)? {
                Standing::Claimed => return Ok(None),
                Standing::Answered(answer) => return Ok(Some(answer)),
                Standing::Over => replaced = token,
            }
        }
        // Each time somebody else replaced it: they are at work.
        Err(IdempotencyError::InProgress)
    }

    async fn conclude(&self, token: &str, answered: &KeptRequest) -> Result<Changed, IdempotencyError> {
        let RequestState::Success(answer) = &answered.state else {
            return Err(backend("a request is concluded without an answer".to_owned()));
        };
        if answer.data.len() > MAX_ANSWER_BYTES {
            let bytes = answer.data.len();
            return Err(backend(format!("an answer of {bytes} bytes is too long for Redis")));
        }
        let name = name(&answered.scope);
        let mut asked = CONCLUDE.key(name);
        asked.arg(token).arg(&answered.token).arg(answer.status).arg(&answer.data);
        self.changed(&asked).await
    }

    async fn release(&self, scope: &RequestScope, token: &str) -> Result<Changed, IdempotencyError> {
        let mut asked = RELEASE.key(name(scope));
        asked.arg(token);
        self.changed(&asked).await
    }
}

fn claiming<'a>(
    name: &str,
    claim: &KeptRequest,
    replaced: &str,
    ahead_ms: i64,
) -> Result<ScriptInvocation<'a>, IdempotencyError> {
    let RequestState::Processing { until } = &claim.state else {
        return Err(backend("a key is claimed for what was answered".to_owned()));
    };
    let lasts = |until: &DateTime<Utc>| (*until - claim.create_time).max(MILLISECOND).num_milliseconds();
    let mut asked = CLAIM.key(name);
    asked.arg(replaced).arg(&claim.body_hash).arg(&claim.token).arg(&claim.trace_id);
    asked.arg(lasts(until)).arg(lasts(&claim.expire_time)).arg(ahead_ms);
    Ok(asked)
}

/// What is asked of Redis lasts at least as long.
const MILLISECOND: TimeDelta = TimeDelta::milliseconds(1);

/// Where the request is kept. The route's length says where it ends, whatever is in it.
fn name(scope: &RequestScope) -> String {
    let RequestScope { tenant, user, route, key } = scope;
    format!("{PREFIX}{tenant}:{user}:{}:{route}:{key}", route.len())
}

fn moment(ms: i64, name: &str) -> Result<DateTime<Utc>, IdempotencyError> {
    DateTime::from_timestamp_millis(ms).ok_or_else(|| away(RedisAway::nonsense(&(name, ms))))
}

fn away(why: RedisAway) -> IdempotencyError {
    IdempotencyError::Away(Box::new(why))
}

fn backend(why: String) -> IdempotencyError {
    StoreError::Backend(why.into()).into()
}

/// Whether a connection does what requests will ask of it: all three steps, fast.
pub(crate) async fn tried_out(
    connection: &mut MultiplexedConnection,
    within: Duration,
) -> Result<(), RedisAway> {
    let name = format!("{PREFIX}probe");
    let mut claim = CLAIM.key(&name);
    claim.arg("probe").arg("").arg("probe").arg("").arg(1_000).arg(1_000).arg(0);
    let mut conclude = CONCLUDE.key(&name);
    conclude.arg("another").arg("").arg(0).arg("");
    let mut release = RELEASE.key(&name);
    release.arg("probe");
    let (code, now_ms, _) =
        Deadline::in_real_time(within).answered(claim.invoke_async::<Claimed>(connection)).await?;
    let concluded = Deadline::in_real_time(within).answered(conclude.invoke_async::<i64>(connection)).await?;
    let released = Deadline::in_real_time(within).answered(release.invoke_async::<i64>(connection)).await?;
    // Somebody else may try it out at the same time.
    let good = matches!((code, concluded, released), (0 | 1, 0, 0 | 1)) && now_ms > 0;
    if good { Ok(()) } else { Err(RedisAway::nonsense(&(code, now_ms, concluded, released))) }
}
