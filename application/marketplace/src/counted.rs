//! What is counted of the marketplace and its requests (004 "Monitoring"), beside what the outbox counts
//! (`handover_outbox::METRICS`).

use handover_outbox::Metric;

/// Requests turned away because as many as there is room for were worked on.
pub const OVERLOAD_REFUSED: &str = "handover.overload.refused";
/// Requests refused by the rate limit.
pub const LIMIT_REFUSED: &str = "handover.ratelimit.refused";
/// Requests that each process limited for itself because what they share was away.
pub const LIMIT_FALLBACK: &str = "handover.ratelimit.fallback";
/// Whether it is away now.
pub const LIMIT_AWAY: &str = "handover.ratelimit.away";
/// Whether what keeps idempotency keys beside the database is away now.
pub const KEYS_AWAY: &str = "handover.idempotency.away";

/// Every metric of the marketplace; ours, which 004 does not name, begin with `handover`. Those of the requests, of the rate
/// limit and of the keys are for their adapters to set.
pub const METRICS: [Metric; 8] = [
    Metric::counter("reaper.lock.released", "Locks of assets that nobody ended, released"),
    Metric::counter(
        "consistency.event.missing",
        "Events that should be in the outbox and are not, by scans and reconciliations",
    ),
    Metric::counter(
        "consistency.event.repaired",
        "Findings mended: events announced or sent again, effects applied again",
    ),
    Metric::counter(
        OVERLOAD_REFUSED,
        "Requests turned away because as many as there is room for were worked on",
    ),
    Metric::counter(LIMIT_REFUSED, "Requests refused by the rate limit"),
    Metric::counter(LIMIT_FALLBACK, "Requests limited by this process alone, because Redis was away"),
    Metric::gauge(LIMIT_AWAY, "1 while Redis is away and this process limits requests for itself"),
    Metric::gauge(
        KEYS_AWAY,
        "1 while Redis is away and this process refuses operators' requests under an idempotency key",
    ),
];
