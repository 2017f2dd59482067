//! The scripts of the idempotency keys.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::call::{Deadline, RedisUnavailable};
use crate::stored_request::Fields;

pub(crate) static CLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("claim.lua")));
pub(crate) static CONCLUDE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("conclude.lua")));
pub(crate) static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("release.lua")));

/// Key prefix of requests.
pub(crate) const PREFIX: &str = "idempotent:";

/// Result of `claim.lua`: code, time of the server in milliseconds, stored fields.
pub(crate) type ClaimReply = (i64, i64, Fields);

/// Checks that a connection executes each of the three scripts within a timeout.
pub(crate) async fn check(
    connection: &mut MultiplexedConnection,
    timeout: Duration,
) -> Result<(), RedisUnavailable> {
    let name = format!("{PREFIX}probe");
    let mut claim = CLAIM.key(&name);
    claim.arg("probe").arg("").arg("probe").arg("").arg(1_000).arg(1_000).arg(0);
    let mut conclude = CONCLUDE.key(&name);
    conclude.arg("another").arg("").arg(0).arg("");
    let mut release = RELEASE.key(&name);
    release.arg("probe");
    let (code, now_ms, _) =
        Deadline::in_real_time(timeout).limit(claim.invoke_async::<ClaimReply>(connection)).await?;
    let concluded = Deadline::in_real_time(timeout).limit(conclude.invoke_async::<i64>(connection)).await?;
    let released = Deadline::in_real_time(timeout).limit(release.invoke_async::<i64>(connection)).await?;
    // 0 and 1 are both valid, because another process may run this check with the same key at the same time.
    let is_valid = matches!((code, concluded, released), (0 | 1, 0, 0 | 1)) && now_ms > 0;
    if is_valid {
        Ok(())
    } else {
        Err(RedisUnavailable::invalid_response(&(code, now_ms, concluded, released)))
    }
}
