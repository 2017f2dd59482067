//! Idempotency keys: `[idempotency]`.

use handover_runtime::config::{Checked, HOUR, MINUTE, Reader, SECOND};
use marketplace::idempotency::RequestSettings;

const LEASE: &str = "idempotency.lease";
const KEEP: &str = "idempotency.keep";

/// Reads the durations of `idempotency.*`.
pub(super) fn requests(reader: &Reader<'_>) -> Checked<RequestSettings> {
    let why = "a short lease may end while the first request still runs; after a crash, repeats are refused until a long lease ends";
    let lease = reader.duration(LEASE, "40s", SECOND..=HOUR, why);
    let why = "a request that is repeated after this time is executed again; until then, its response occupies space";
    let keep = reader.duration(KEEP, "24h", MINUTE..=HOUR * 24 * 366, why);
    if let (Ok(lease), Ok(keep)) = (lease, keep)
        && keep <= lease
    {
        let why = "a stored response could be deleted while repeats of its request are still refused";
        reader.too_short(KEEP, "above", LEASE, lease, why);
    }
    let why = "the sweep deletes expired responses: it must run regularly, but not continuously";
    let sweep_interval = reader.duration("idempotency.sweep-interval", "1m", SECOND..=HOUR * 24, why);
    Ok(RequestSettings { lease: lease?, keep: keep?, sweep_interval: sweep_interval? })
}
