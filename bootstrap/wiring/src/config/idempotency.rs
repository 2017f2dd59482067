//! Idempotency keys: `[idempotency]`.

use marketplace::idempotency::RequestSettings;

use super::error::ConfigError;
use super::read::Reader;
use super::{HOUR, MINUTE, SECOND};

/// Reads the durations of `idempotency.*`.
pub(super) fn requests(reader: &Reader<'_>) -> Result<RequestSettings, ConfigError> {
    let lease_item = reader.value("idempotency.lease", "40s");
    let keep_item = reader.value("idempotency.keep", "24h");
    let why = "a short lease may end while the first request still runs; after a crash, repeats are refused until a long lease ends";
    let lease = lease_item.duration(SECOND..=HOUR, why)?;
    let why = "a request that is repeated after this time is executed again; until then, its response occupies space";
    let keep = keep_item.duration(MINUTE..=HOUR * 24 * 366, why)?;
    if keep <= lease {
        let why = "a stored response could be deleted while repeats of its request are still refused";
        return Err(keep_item.too_short("above", &lease_item, lease, why));
    }
    let why = "the sweep deletes expired responses: it must run regularly, but not continuously";
    let sweep_interval =
        reader.value("idempotency.sweep-interval", "1m").duration(SECOND..=HOUR * 24, why)?;
    Ok(RequestSettings { lease, keep, sweep_interval })
}
