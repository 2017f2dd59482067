//! Metrics of the marketplace. The toolkit has its own (`handover_runtime::metrics::of_toolkit`).

use handover_outbox::Metric;

use crate::state::{OLDEST_REFUND, OPEN_FINDINGS, OPEN_REPORTS, OVERDUE, OVERDUE_HOLDS, REFUNDS};

/// Orders that the job completed.
pub(crate) const COMPLETED: &str = "handover.orders.auto.completed";

pub const LIMIT_REFUSED: &str = "handover.ratelimit.refused";
/// Requests checked against process-local token buckets because Redis was unavailable.
pub const LIMIT_FALLBACK: &str = "handover.ratelimit.fallback";
pub const LIMIT_REDIS_UNAVAILABLE: &str = "handover.ratelimit.redis.unavailable";
pub const IDEMPOTENCY_REDIS_UNAVAILABLE: &str = "handover.idempotency.redis.unavailable";

/// Every metric of the marketplace. Names that the requirements do not define begin with `handover`. The adapters of
/// HTTP, rate limit and idempotency keys set the metrics of their area.
pub const METRICS: &[Metric] = &[
    Metric::counter("reaper.lock.released", "Asset locks released by the reaper after their timeout"),
    Metric::counter(
        "consistency.event.missing",
        "Events missing in the outbox, found by the consistency job and by reconciliation",
    ),
    Metric::counter(
        "consistency.event.repaired",
        "Findings repaired: events appended or redriven, effects applied again",
    ),
    Metric::counter(COMPLETED, "Shipped orders that were completed automatically"),
    Metric::counter(LIMIT_REFUSED, "Requests rejected by the rate limit"),
    Metric::counter(
        LIMIT_FALLBACK,
        "Requests checked by the limits of this process only, because Redis was unavailable",
    ),
    Metric::gauge(
        LIMIT_REDIS_UNAVAILABLE,
        "1 while Redis is unavailable and this process limits requests on its own",
    ),
    Metric::gauge(
        IDEMPOTENCY_REDIS_UNAVAILABLE,
        "1 while Redis is unavailable and this process rejects operator requests that have an idempotency key",
    ),
    REFUNDS,
    OLDEST_REFUND,
    OVERDUE,
    OVERDUE_HOLDS,
    OPEN_REPORTS,
    OPEN_FINDINGS,
];
