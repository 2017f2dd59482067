//! The metrics of this crate.

use handover_outbox::Metric;

pub(crate) const OVERLOAD_REFUSED: &str = "handover.overload.refused";
pub(crate) const REQUESTS: &str = "handover.http.requests";
pub(crate) const REQUEST_SECONDS: &str = "handover.http.request.seconds";

/// The metrics of this crate.
pub const METRICS: &[Metric] = &[
    Metric::counter(OVERLOAD_REFUSED, "Requests rejected by the concurrency limit"),
    Metric::counter(
        REQUESTS,
        "Responses by method, route and status; without the requests that the concurrency limit rejected",
    )
    .by(&["method", "route", "status"]),
    Metric::histogram(REQUEST_SECONDS, "Time from the head of a request to its response")
        .by(&["method", "route"]),
];
