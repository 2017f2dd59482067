//! Idempotency keys of requests whose response is stored after their execution: one script per operation, by the clock
//! of the server.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::{
    ClaimState, IdempotencyError, IdempotencyStore, RequestRecord, RequestScope, RequestState, StoredResponse,
};
use redis::{FromRedisValue, ScriptInvocation};

use crate::call::{Deadline, RedisUnavailable};
use crate::link::RedisConnection;
use crate::scripts::keys::{CLAIM, CONCLUDE, ClaimReply, PREFIX, RELEASE};
use crate::stored_request::{corrupt, decode};

/// Maximum size of a stored response, in bytes.
pub(crate) const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// Maximum number of attempts of a claim if another process replaces the expired entry first.
const ATTEMPTS: usize = 4;

/// Idempotency keys in Redis.
///
/// Any uncertainty is an error: while Redis is unavailable, slow or returns invalid responses, no claim succeeds. There
/// is no fallback to another store, in which the same key would be new.
pub struct RedisKeys {
    link: Arc<RedisConnection>,
    /// Offset added to the clock of the server, in milliseconds.
    clock_ahead_ms: Box<dyn Fn() -> i64 + Send + Sync>,
}

impl RedisKeys {
    pub fn new(link: Arc<RedisConnection>) -> RedisKeys {
        RedisKeys { link, clock_ahead_ms: Box::new(|| 0) }
    }

    /// Adds an offset to the clock of the server, for tests of clock changes.
    #[must_use]
    pub fn with_clock_ahead(self, ms: impl Fn() -> i64 + Send + Sync + 'static) -> RedisKeys {
        RedisKeys { clock_ahead_ms: Box::new(ms), ..self }
    }

    /// Runs a script within the rest of `redis.timeout`. A failure disables the connection for all requests.
    async fn invoke<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
        deadline: &mut Deadline<'_>,
    ) -> Result<T, IdempotencyError> {
        let connection =
            self.link.connection().ok_or_else(|| unavailable(RedisUnavailable::not_connected()))?;
        let mut handle = connection.handle.clone();
        deadline.limit(script.invoke_async::<T>(&mut handle)).await.map_err(|why| {
            self.link.disable(&connection, &why);
            unavailable(why)
        })
    }

    /// Runs a script and returns its result: 0 is [`Changed::None`], 1 is [`Changed::One`].
    async fn changed(&self, script: &ScriptInvocation<'_>) -> Result<Changed, IdempotencyError> {
        match self.invoke::<i64>(script, &mut self.link.deadline()).await? {
            0 => Ok(Changed::None),
            1 => Ok(Changed::One),
            other => Err(unavailable(RedisUnavailable::invalid_response(&other))),
        }
    }
}

#[async_trait]
impl IdempotencyStore for RedisKeys {
    async fn claim(&self, claim: &RequestRecord) -> Result<Option<StoredResponse>, IdempotencyError> {
        let name = name(&claim.scope);
        let ahead_ms = (self.clock_ahead_ms)();
        let mut deadline = self.link.deadline();
        let mut replaced = String::new();
        for _ in 0..ATTEMPTS {
            let script = claim_script(&name, claim, &replaced, ahead_ms)?;
            let (now, fields) = match self.invoke::<ClaimReply>(&script, &mut deadline).await? {
                (1, _, _) => return Ok(None),
                (0, now_ms, fields) => (moment(now_ms, &name)?, fields),
                (2, _, _) => {
                    return Err(corrupt(
                        &name,
                        "*",
                        "the key has another type, so another application writes to it",
                    ));
                }
                (other, _, _) => return Err(unavailable(RedisUnavailable::invalid_response(&other))),
            };
            let before = decode(&claim.scope, &name, fields)?;
            let token = before.token.clone();
            match before.decide_claim(claim, now)? {
                ClaimState::Own => return Ok(None),
                ClaimState::Completed(answer) => return Ok(Some(answer)),
                ClaimState::Replaceable => replaced = token,
            }
        }
        // Before each attempt another process had replaced the record; that process is executing the request.
        Err(IdempotencyError::InProgress)
    }

    async fn store_response(
        &self,
        token: &str,
        concluded: &RequestRecord,
    ) -> Result<Changed, IdempotencyError> {
        let RequestState::Success(answer) = &concluded.state else {
            return Err(backend("the request has no response that could be stored".to_owned()));
        };
        if answer.text.len() > MAX_RESPONSE_BYTES {
            let bytes = answer.text.len();
            return Err(backend(format!(
                "a response of {bytes} bytes exceeds the limit of {MAX_RESPONSE_BYTES} bytes and is not stored"
            )));
        }
        let name = name(&concluded.scope);
        let mut script = CONCLUDE.key(name);
        script.arg(token).arg(&concluded.token).arg(answer.code).arg(&answer.text);
        self.changed(&script).await
    }

    async fn release(&self, scope: &RequestScope, token: &str) -> Result<Changed, IdempotencyError> {
        let mut script = RELEASE.key(name(scope));
        script.arg(token);
        self.changed(&script).await
    }
}

fn claim_script<'a>(
    name: &str,
    claim: &RequestRecord,
    replaced: &str,
    ahead_ms: i64,
) -> Result<ScriptInvocation<'a>, IdempotencyError> {
    let RequestState::Processing { until } = &claim.state else {
        return Err(backend("cannot claim a key for a request that already has a response".to_owned()));
    };
    let duration_ms =
        |until: &DateTime<Utc>| (*until - claim.create_time).max(MILLISECOND).num_milliseconds();
    let mut script = CLAIM.key(name);
    script.arg(replaced).arg(&claim.body_hash).arg(&claim.token).arg(&claim.trace_id);
    script.arg(duration_ms(until)).arg(duration_ms(&claim.expire_time)).arg(ahead_ms);
    Ok(script)
}

/// Minimum duration of a lease or lifetime: `PEXPIRE` requires a positive number.
const MILLISECOND: TimeDelta = TimeDelta::milliseconds(1);

/// The Redis key of a request. The length of the route makes the key unambiguous if the route contains colons.
fn name(scope: &RequestScope) -> String {
    let RequestScope { tenant, user, route, key } = scope;
    format!("{PREFIX}{tenant}:{user}:{}:{route}:{key}", route.len())
}

fn moment(ms: i64, name: &str) -> Result<DateTime<Utc>, IdempotencyError> {
    DateTime::from_timestamp_millis(ms)
        .ok_or_else(|| unavailable(RedisUnavailable::invalid_response(&(name, ms))))
}

fn unavailable(why: RedisUnavailable) -> IdempotencyError {
    IdempotencyError::Unavailable(Box::new(why))
}

fn backend(why: String) -> IdempotencyError {
    StoreError::Backend(why.into()).into()
}
